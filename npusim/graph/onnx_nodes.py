"""Whether the nodes of an ONNX file are calls of their operators: the schemas of onnx say so.

Every node is compared with its schema once, those in bodies and functions too (some 10 us each),
so that whoever works with it may count on its inputs, results and attributes.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from npusim.values.language import say

if TYPE_CHECKING:
    from collections.abc import Iterator

OWN: Final = ("", "ai.onnx")
"""Domains of ONNX's own operators."""

_ENDLESS: Final = 2**31 - 1

_PLACES: Final = frozenset(("axis", "axes", "perm", "batch_dims"))
_MOST_AXES: Final = 1024  # int32 is what onnx counts them with

_BODIES: Final = {"Loop": 1, "Scan": 0, "SequenceMap": 0}
"""Results of their bodies that the nodes don't have: whether a Loop goes on."""


class GraphError(ValueError):
    """What a file says and can't be, or is too much, by whoever doesn't know the file."""


def bodies_of(node: Any) -> list[Any]:
    """The graphs among a node's attributes."""
    found = []
    for each in node.attribute:
        found += [each.g] if each.HasField("g") else []
        found += each.graphs
    return found


def named(node: Any) -> str:
    """How a message names a node."""
    return f"{node.name or next(iter(node.output), 'a node')} ({node.op_type})"


def problems(node: Any, opset: int, *, in_function: bool) -> Iterator[str]:
    """What is wrong with a node of ONNX's own operators in a version of them, without its bodies.

    In functions attributes may refer to those of the call.
    """
    said: dict[str, Any] = {}
    for each in node.attribute:
        if each.name in said:
            yield say("has two attributes {name} of {node}").format(
                name=each.name, node=named(node)
            )
        if each.ref_attr_name and not in_function:
            yield say("refers to attributes of a function at {node}, which is in none").format(
                node=named(node)
            )
        said[each.name] = each
    schema = _schema(node.op_type, opset) if node.domain in OWN else None
    if schema is not None:
        yield from _counts(node, schema)
        yield from _kinds(node, said, schema)
        yield from _beyond_schema(node, said)


def _counts(node: Any, schema: _Schema) -> Iterator[str]:
    given, made = _told(node.input), _told(node.output)
    for count, (least, most), what in (
        (given, schema.inputs, "inputs"), (made, schema.outputs, "results")
    ):  # fmt: skip
        if not least <= count <= most:
            wanted = (
                say("{least} or more").format(least=least)
                if most >= _ENDLESS
                else f"{least} to {most}"
            )
            wanted = wanted if least < most else f"{least}"
            yield say("has {count} {what} of {node}, which has {wanted}").format(
                count=count, what=what, node=named(node), wanted=wanted
            )
    for place, name in enumerate(node.input[:given]):
        if not name and schema.is_needed(place):
            yield say("leaves out input {place} of {node}").format(place=place, node=named(node))


def _kinds(node: Any, said: dict[str, Any], schema: _Schema) -> Iterator[str]:
    """Kinds of attributes, and those that have to be there."""
    for name, each in said.items():
        if name in schema.kinds and each.type != schema.kinds[name]:
            yield say(
                "has an attribute {name} of {node} of another kind than the operator's"
            ).format(name=name, node=named(node))
    for name in schema.required:
        if name not in said:
            yield say("has no {name} at {node}").format(name=name, node=named(node))


def _beyond_schema(node: Any, said: dict[str, Any]) -> Iterator[str]:
    """What inference, or who unrolls, relies on and no schema says."""
    count = len(node.output)
    for name in said.keys() & _PLACES:
        for place in said[name].ints or (said[name].i,):
            if abs(place) > _MOST_AXES:
                yield say("has the {name} {place} of {node}, and no tensor so many axes").format(
                    name=name, place=place, node=named(node)
                )
    if node.op_type == "Constant" and len(said) != 1:
        yield say("has {count} values of {node}, which has one").format(
            count=len(said), node=named(node)
        )
    if node.op_type == "Split":
        parts = len(said["split"].ints) if "split" in said else count
        parts = said["num_outputs"].i if "num_outputs" in said else parts
        if parts != count:
            yield say("splits into {parts} parts and names {count} at {node}").format(
                parts=parts, count=count, node=named(node)
            )
    if node.op_type == "Scan" and "num_scan_inputs" in said:
        yield from _scanned(node, said)
    yield from _bodies(node, said)


def _scanned(node: Any, said: dict[str, Any]) -> Iterator[str]:
    reads = said["num_scan_inputs"].i
    if not 1 <= reads <= len(node.input):
        yield say("has {count} inputs of {node}, and num_scan_inputs is {reads}").format(
            count=len(node.input), node=named(node), reads=reads
        )
    for each in ("scan_input_axes", "scan_input_directions", "directions"):
        if each in said and len(said[each].ints) != reads:
            yield say("has {count} {each} of {node} for {reads} inputs").format(
                count=len(said[each].ints), each=each, node=named(node), reads=reads
            )


def _bodies(node: Any, said: dict[str, Any]) -> Iterator[str]:
    """Bodies with as many inputs and results as the node gives and wants."""
    if node.op_type == "If":
        for name in said.keys() & {"then_branch", "else_branch"}:
            yield from _fits_body(node, said[name].g, 0)
    elif node.op_type in _BODIES and "body" in said:
        # Before opset 9 the first input of a Scan isn't its body's.
        fed = len(node.input) - (node.op_type == "Scan" and "directions" in said)
        yield from _fits_body(node, said["body"].g, fed)


def _fits_body(node: Any, body: Any, fed: int) -> Iterator[str]:
    own = _BODIES.get(node.op_type, 0)
    if len(body.input) != fed and not (node.op_type == "Scan" and len(body.input) == fed - 1):
        yield say("gives the body of {node} {fed} inputs, it has {count}").format(
            node=named(node), fed=fed, count=len(body.input)
        )
    if len(body.output) - own < len(node.output):
        have = max(0, len(body.output) - own)
        yield say("wants {count} results of the body of {node}, it has {have}").format(
            count=len(node.output), node=named(node), have=have
        )


def _told(names: Any) -> int:
    """How many there are, without those left out at the end."""
    count = len(names)
    while count and not names[count - 1]:
        count -= 1
    return count


class _Schema:
    """What a schema says, as Python values: reading one of onnx is slow."""

    def __init__(self, schema: Any) -> None:
        optional = import_module("onnx.defs").OpSchema.FormalParameterOption.Optional
        self.inputs = (schema.min_input, schema.max_input)
        self.outputs = (schema.min_output, schema.max_output)
        self._needed = [bool(each.option != optional) for each in schema.inputs]
        self.kinds = {name: int(each.type.value) for name, each in schema.attributes.items()}
        self.required = tuple(name for name, each in schema.attributes.items() if each.required)

    def is_needed(self, place: int) -> bool:
        """Whether an input can't be left out; the last formal one may stand for many."""
        return self._needed[min(place, len(self._needed) - 1)]


@lru_cache(maxsize=1024)
def _schema(op: str, opset: int) -> _Schema | None:
    """What ONNX says of an operator; None of those that it doesn't know in this version."""
    defs = import_module("onnx.defs")
    return _Schema(defs.get_schema(op, opset, "")) if defs.has(op, opset, "") else None
