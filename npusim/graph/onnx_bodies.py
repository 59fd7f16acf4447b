"""Bodies of control flow in an ONNX file: a branch that is known, the rounds of a loop unrolled.

What a loop does in each round is part of the network then, under names of its own. Loops whose
number of rounds follows from data stay as they are; readers name them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from npusim.graph.onnx_nodes import GraphError, bodies_of, named
from npusim.reading.limits import MOST_UNFOLDED
from npusim.values.language import say

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

CONTROL: Final = frozenset(("If", "Loop", "Scan", "SequenceMap"))
"""Operators with bodies."""


def unfolded(
    node: Any,
    known: Mapping[str, NDArray[Any]],
    shapes: Mapping[str, tuple[int, ...]],
    opset: int,
) -> list[Any] | None:
    """The nodes that stand for a node with a body; None where data decide.

    Raises GraphError where they are too many.
    """
    if node.op_type == "If":
        branch = _branch(node, known)
        return None if branch is None else _inlined(node, branch)
    write = Writer(opset)
    if node.op_type == "Loop" and len(_body(node, "body").input) == len(node.input):
        trips = _trips(node, known)
        return None if trips is None else _rounds(node, trips, list(node.input[2:]), write)
    if node.op_type == "Scan" and len(_body(node, "body").input) == len(node.input):
        reader = _ScanReader(node, known, shapes)  # before opset 9 it has an input more
        return None if reader.trips is None else _scanned(node, reader, write)
    return None


_AXES_ARE_INPUTS: Final = 13  # and sizes, which were attributes before this opset


class Writer:
    """Nodes that join and take apart, as the file's opset spells them."""

    def __init__(self, opset: int) -> None:
        self._make = import_module("onnx.helper").make_node
        self._from_array = import_module("onnx.numpy_helper").from_array
        self._opset = opset

    def same(self, given: str, made: str) -> Any:
        """The same tensor under another name."""
        return self._make("Identity", [given], [made])

    def constant(self, value: Any, made: str) -> Any:
        """Numbers that are known."""
        import numpy as np

        return self._make("Constant", [], [made], value=self._from_array(np.array(value)))

    def part(self, given: str, place: int, axis: int, made: str) -> list[Any]:
        """One place along an axis, which the result doesn't have."""
        index = f"{made}/at"
        gather = self._make("Gather", [given, index], [made], made, axis=axis)
        return [self.constant(place, index), gather]

    def split(self, given: str, sizes: Sequence[int], axis: int, made: Sequence[str]) -> list[Any]:
        """Parts of some sizes along an axis."""
        if self._opset < _AXES_ARE_INPUTS:
            return [self._make("Split", [given], list(made), axis=axis, split=list(sizes))]
        told = f"{made[0]}/sizes"
        parts = self._make("Split", [given, told], list(made), axis=axis)
        return [self.constant(list(sizes), told), parts]

    def stacked(self, given: Sequence[str], axis: int, made: str) -> list[Any]:
        """Tensors joined along a new axis."""
        found = []
        for name in given:
            axes = [] if self._opset < _AXES_ARE_INPUTS else [f"{name}/axes"]
            if axes:
                found.append(self.constant([axis], axes[0]))
            how = {} if axes else {"axes": [axis]}
            found.append(self._make("Unsqueeze", [name, *axes], [f"{name}/one"], **how))
        joined = [f"{name}/one" for name in given]
        return [*found, self._make("Concat", joined, [made], made, axis=axis)]


def _body(node: Any, name: str) -> Any:
    return next(each.g for each in node.attribute if each.name == name)


def _attribute(node: Any, name: str, size: int) -> list[int]:
    found = next((list(each.ints) for each in node.attribute if each.name == name), [])
    return found or [0] * size


def _branch(node: Any, known: Mapping[str, NDArray[Any]]) -> Any | None:
    """The branch of an If whose condition is known."""
    condition = known.get(node.input[0])
    if condition is None or condition.size != 1:
        return None
    return _body(node, "then_branch" if bool(condition.reshape(-1)[0]) else "else_branch")


def _inlined(node: Any, branch: Any) -> list[Any]:
    """The nodes of a branch, and its results under the names of the If's."""
    found: list[Any] = []
    made = _copied(branch, _own_name(node), [], found)
    same = import_module("onnx.helper").make_node
    found += [same("Identity", [name], [own])
              for name, own in zip(made, node.output, strict=False) if own]  # fmt: skip
    return found


def _own_name(node: Any) -> str:
    """A name that no other node has: names of nodes may be anything, those of results can't."""
    return f"{next(filter(None, node.output))}/"


def _trips(node: Any, known: Mapping[str, NDArray[Any]]) -> int | None:
    """How often a Loop runs; None where only data tell."""
    most, first = (node.input[place] if place < len(node.input) else "" for place in (0, 1))
    count = known.get(most)
    goes_on = not first or (first in known and bool(known[first].reshape(-1)[0]))
    body = _body(node, "body")
    if count is None or count.size != 1 or not goes_on or not _never_stops(body, known):
        return None
    trips = int(count.reshape(-1)[0])
    return _within(trips, body, node, known)


def _within(trips: int, body: Any, node: Any, known: Mapping[str, NDArray[Any]]) -> int:
    """So many rounds; GraphError where they have too many nodes together."""
    if trips * _size(body, known) > MOST_UNFOLDED:
        raise GraphError(
            say("has more than {most_unfolded:,} operators, the rounds of {node} unrolled").format(
                most_unfolded=MOST_UNFOLDED, node=named(node)
            )
        )
    return max(trips, 0)


def _size(body: Any, known: Mapping[str, NDArray[Any]]) -> int:
    """Nodes, weights and inputs of a body, those in it as often as it is known that they run."""
    found = len(body.node) + len(body.initializer) + len(body.input)
    for node in body.node:
        inner = sum(_size(each, known) for each in bodies_of(node))
        count = known.get(node.input[0]) if inner and node.op_type == "Loop" else None
        found += inner * (1 if count is None or count.size != 1 else max(1, int(count.item())))
    return found


def _never_stops(body: Any, known: Mapping[str, NDArray[Any]]) -> bool:
    """Whether the condition that a body hands on is the one that it got, or always true."""
    to_array = import_module("onnx.numpy_helper").to_array
    wanted = body.output[0].name
    makers = {name: node for node in body.node for name in node.output}
    while (maker := makers.get(wanted)) is not None and maker.op_type == "Identity":
        wanted = maker.input[0]
    if wanted == body.input[1].name:
        return True
    values = [known[wanted]] if wanted in known else []
    values += [to_array(each) for each in body.initializer if each.name == wanted]
    if maker is not None and maker.op_type == "Constant":
        values = [to_array(each.t) for each in maker.attribute if each.name == "value"]
    return any(bool(value.all()) for value in values)


def _rounds(node: Any, trips: int, carried: list[str], write: Writer) -> list[Any] | None:
    body = _body(node, "body")
    collected: list[list[str]] = [[] for _ in body.output[1 + len(carried) :]]
    if not trips and collected:
        return None
    found: list[Any] = []
    for trip in range(trips):
        prefix = f"{_own_name(node)}{trip}/"
        count, goes_on = (f"{prefix}{each.name}" for each in body.input[:2])
        found += [write.constant(trip, count), write.constant(True, goes_on)]
        made = _copied(body, prefix, [count, goes_on, *carried], found)
        carried = made[1 : 1 + len(carried)]
        for names, name in zip(collected, made[1 + len(carried) :], strict=True):
            names.append(name)
    found += [write.same(*pair) for pair in zip(carried, node.output, strict=False) if pair[1]]
    for names, own in zip(collected, node.output[len(carried) :], strict=False):
        found += write.stacked(names, 0, own) if own else []
    return found


class _ScanReader:
    """What a Scan reads in each round."""

    def __init__(
        self, node: Any, known: Mapping[str, NDArray[Any]], shapes: Mapping[str, tuple[int, ...]]
    ) -> None:
        count = next(each.i for each in node.attribute if each.name == "num_scan_inputs")
        self.states = list(node.input[: len(node.input) - count])
        self.read = list(node.input[len(node.input) - count :])
        self.axes = _attribute(node, "scan_input_axes", count)
        self.backwards = _attribute(node, "scan_input_directions", count)
        sizes = {
            shapes[name][axis]
            for name, axis in zip(self.read, self.axes, strict=True)
            if name in shapes and axis < len(shapes[name])
        }
        is_known = len(sizes) == 1 and min(sizes) > 0
        self.trips = _within(sizes.pop(), _body(node, "body"), node, known) if is_known else None


def _scanned(node: Any, reader: _ScanReader, write: Writer) -> list[Any]:
    body, states, trips = _body(node, "body"), reader.states, reader.trips or 0
    outputs = body.output[len(states) :]
    collected: list[list[str]] = [[] for _ in outputs]
    found: list[Any] = []
    for trip in range(trips):
        prefix = f"{_own_name(node)}{trip}/"
        parts = []
        for name, axis, back in zip(reader.read, reader.axes, reader.backwards, strict=True):
            parts.append(f"{prefix}{name}/part")
            found += write.part(name, trips - 1 - trip if back else trip, axis, parts[-1])
        made = _copied(body, prefix, [*states, *parts], found)
        states = made[: len(states)]
        for names, name in zip(collected, made[len(states) :], strict=True):
            names.append(name)
    found += [write.same(*pair) for pair in zip(states, node.output, strict=False) if pair[1]]
    axes = _attribute(node, "scan_output_axes", len(outputs))
    backwards = _attribute(node, "scan_output_directions", len(outputs))
    for names, axis, back, own in zip(
        collected, axes, backwards, node.output[len(states) :], strict=False
    ):
        found += write.stacked(names[::-1] if back else names, axis, own) if own else []
    return found


def _copied(body: Any, prefix: str, given: Sequence[str], into: list[Any]) -> list[str]:
    """One round of a body, every name in it with the prefix; returns the names of its results."""
    helper = import_module("onnx.helper")
    names = dict(zip((each.name for each in body.input), given, strict=True))
    for weight in body.initializer:
        names[weight.name] = f"{prefix}{weight.name}"
        into.append(helper.make_node("Constant", [], [names[weight.name]], value=weight))
    names |= {name: f"{prefix}{name}" for node in body.node for name in node.output if name}
    for node in body.node:
        own = type(node)()
        own.CopyFrom(node)
        own.name = f"{prefix}{node.name or node.op_type}"
        _rename(own, names)
        into.append(own)
    return [names.get(each.name, each.name) for each in body.output]


def _rename(node: Any, names: Mapping[str, str]) -> None:
    """New names for what a node reads and makes, in bodies of its own too."""
    node.input[:] = [names.get(name, name) for name in node.input]
    node.output[:] = [names.get(name, name) for name in node.output]
    for graph in bodies_of(node):
        inner = {each.name for each in (*graph.input, *graph.initializer)}
        inner |= {name for each in graph.node for name in each.output}
        outer = {name: new for name, new in names.items() if name not in inner}
        for each in graph.node:
            _rename(each, outer)
        for result in graph.output:
            result.name = outer.get(result.name, result.name)
