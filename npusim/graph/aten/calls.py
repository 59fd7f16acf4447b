"""From aten calls to the aclnn calls that torch_npu runs for them: ``calls.yaml``, and rules.

A call of the device is a node named by its API, with its parameters as attributes; tensors among
them are the network's values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from npusim.graph.network import Value
from npusim.reading.files import read_text
from npusim.reading.markup import yaml_mapping
from npusim.values.language import say

if TYPE_CHECKING:
    from npusim.graph.network import Network, Node

NOT_MAPPED: Final = "npusim knows no aclnn call of it"
ON_THE_HOST: Final = (
    "torch_npu has no kernel of it: its tensors are copied to the host, computed there, and copied "
    "back"
)
_ROW: Final = re.compile(r"(aclnn\w+)\((.*)\) -> (.*)")
_ARGUMENT: Final = re.compile(r"(\w+)(\[\])?(?:=(.+))?")
_FUNCTION: Final = re.compile(r"(\w+)\((\w*)\)")
_WORDS: Final[Mapping[str, Any]] = {"null": None, "true": True, "false": False}


@dataclass(frozen=True)
class Row:
    """A call: its API, where each parameter comes from, and what its results are called."""

    api: str
    parameters: tuple[tuple[str, str, bool], ...]
    results: tuple[str, ...]

    def arguments(self, node: Node) -> dict[str, Any]:
        """The arguments of the call that does the work of a node."""
        found: dict[str, Any] = {}
        for name, where, is_list in self.parameters:
            value = _taken(node, where)
            if is_list:
                found |= {f"{name}{place}": each for place, each in enumerate(value)}
            else:
                found[name] = value
        return found


@cache
def rows() -> Mapping[str, Row]:
    """The calls of the table by aten name."""
    raw = _table()
    found = {aten: _row(text) for aten, text in raw["calls"].items()}
    for word in raw["unary"].split():
        aten, _, aclnn = word.partition(":")
        found[aten] = _row(f"aclnn{aclnn or aten.capitalize()}(self) -> out")
    for word in raw["compared"].split():
        aten, _, aclnn = word.partition(":")
        for kind in ("Tensor", "Scalar"):
            found[f"{aten}.{kind}"] = _row(f"aclnn{aclnn}{kind}(self, other) -> out")
        found[f"{aten}.Tensor/number"] = found[f"{aten}.Scalar"]
    return found


@cache
def words(key: str) -> frozenset[str]:
    """The aten names of one group of the table."""
    return frozenset(_table()[key].split())


@cache
def on_device() -> frozenset[str]:
    """The aten names that torch_npu runs on the device, without overloads."""
    text = read_text(files(__package__) / "on_device.yaml")
    return frozenset(yaml_mapping(text, "on_device.yaml")["names"].split())


@cache
def _table() -> Mapping[str, Any]:
    return yaml_mapping(read_text(files(__package__) / "calls.yaml"), "calls.yaml")


def _row(text: str) -> Row:
    match = _ROW.fullmatch(text)
    if match is None:
        raise ValueError(say("{text} is no call").format(text=text))
    parameters = []
    for word in re.split(r",\s*(?![^()]*\))", match[2]) if match[2] else ():
        part = _ARGUMENT.fullmatch(word)
        if part is None:
            raise ValueError(say("{word} in {text} is no argument").format(word=word, text=text))
        parameters.append((part[1], part[3] or part[1], part[2] is not None))
    return Row(match[1], tuple(parameters), tuple(match[3].split(", ")))


def _taken(node: Node, where: str) -> Any:
    if where in node.attributes:
        value = node.attributes[where]
        return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else value
    if where in _WORDS:
        return _WORDS[where]
    if where == "@dtype":
        return node.output.dtype.name
    if call := _FUNCTION.fullmatch(where):
        return _COMPUTED[call[1]](node, node.attributes.get(call[2]))
    if where.startswith("'"):
        return where.strip("'")
    return float(where) if "." in where else int(where)


def pair(node: Node, value: Any) -> list[int]:
    """One number for both axes of an image, or two."""
    del node
    sizes = [value] if isinstance(value, int) else list(value)
    return sizes * 2 if len(sizes) == 1 else sizes


def _stride(node: Node, kernel: Any) -> list[int]:
    return pair(node, node.attributes.get("stride") or kernel)


def _planes(node: Node, value: Any) -> list[int]:
    del value
    return list(node.output.shape[2:])


def _axes(node: Node, value: Any) -> list[int]:
    rank = len(node.inputs[0].shape) if node.inputs[0] is not None else 0
    named = [value] if isinstance(value, int) else list(value or ())
    return [axis % max(rank, 1) for axis in named] or list(range(rank))


_COMPUTED: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "axes": _axes,
    "pair": pair,
    "planes": _planes,
    "stride": _stride,
}


def by_table(network: Network, node: Node) -> None:
    """The call of the table, or the words that there is none."""
    name = node.op.removeprefix("aten.")
    base, _, overload = name.partition(".")
    if base in words("nothing"):
        network.remove(node)
        return
    plain = base if base.startswith("__") else base.removesuffix("_")  # without its in-place mark
    wanted = ".".join(filter(None, (plain, overload)))
    row = rows().get(f"{wanted}/number") if _has_number(node) else None
    row = row or rows().get(wanted)
    if row is None:
        known = plain in on_device()
        why = {"problem": NOT_MAPPED if known else ON_THE_HOST, "on_host": not known}
        network.replace([node], node.op, node.inputs, node.outputs, why)
        return
    wanted_of = node.attributes.get("output_mask") or (True,) * len(row.results)
    results = [name for name, kept in zip(row.results, wanted_of, strict=True) if kept]
    call(network, node, row.api, row.arguments(node), results)


def _has_number(node: Node) -> bool:
    other = node.attributes.get("other")
    return other is not None and not isinstance(other, Value)


def call(
    network: Network,
    node: Node,
    api: str,
    arguments: Mapping[str, Any],
    results: Sequence[str],
    outputs: Sequence[Value] | None = None,
    *,
    changes: Sequence[Value] = (),
    last: bool = True,
) -> None:
    """Queue a call of the device for a node; results that a node lacks are like its first one.

    `changes` are what it works on in place, as they were before.
    """
    made = list(node.outputs if outputs is None else outputs)
    while len(made) < len(results):
        made.append(network.value(made[0]))
    named = dict(zip(results, made, strict=False))
    given = [value for value in (*arguments.values(), *changes) if isinstance(value, Value)]
    attributes = {**arguments, **named}
    if last:
        network.replace([node], api, given, list(named.values()), attributes)
    else:
        network.add(api, given, list(named.values()), attributes, name=node.name,
                    covers=node.covers, place=node.place)  # fmt: skip
