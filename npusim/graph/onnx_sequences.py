"""Sequences of tensors in an ONNX file: which tensors are in them is known without any data.

Exporters write lists of tensors so. What a sequence is made of and asked for becomes the tensors
themselves; one that a loop or a branch makes stays, and readers name it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from npusim.graph.onnx_bodies import Writer
from npusim.graph.onnx_nodes import GraphError, named
from npusim.reading.limits import MOST_UNFOLDED
from npusim.values.language import say

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

_OPERATORS: Final = frozenset(
    ("SequenceEmpty", "SequenceConstruct", "SequenceInsert", "SequenceErase", "SequenceAt",
     "SequenceLength", "ConcatFromSequence", "SplitToSequence")
)  # fmt: skip

_MOST_HELD: Final = 1 << 20
"""Tensors in all sequences together, each counted in every sequence that it is in."""


class Sequences:
    """The tensors in the sequences of a graph, by the names of the sequences."""

    def __init__(self) -> None:
        self._held: dict[str, list[str]] = {}
        self._count = 0

    def replaced(
        self,
        node: Any,
        known: Mapping[str, NDArray[Any]],
        shapes: Mapping[str, tuple[int, ...]],
        opset: int,
    ) -> list[Any] | None:
        """The nodes that do the same with tensors; None where data decide."""
        write = Writer(opset)
        if node.op_type in ("SequenceEmpty", "SequenceConstruct"):
            return self._hold(node, list(node.input))
        if node.op_type == "SplitToSequence":
            return self._split(node, known, shapes, write)
        if node.op_type == "Identity":
            return self._hold(node, self._held[node.input[0]])
        held = self._held.get(node.input[0])
        return None if held is None else self._of_held(node, held, known, write)

    def holds(self, node: Any) -> bool:
        """Whether a node works on sequences."""
        return node.op_type in _OPERATORS or (
            node.op_type == "Identity" and node.input[0] in self._held
        )

    def _of_held(
        self, node: Any, held: list[str], known: Mapping[str, NDArray[Any]], write: Writer
    ) -> list[Any] | None:
        if node.op_type == "SequenceLength":
            return [write.constant(len(held), node.output[0])]
        if node.op_type == "ConcatFromSequence":
            axis = _number(node, "axis")
            if _number(node, "new_axis"):
                return write.stacked(held, axis, node.output[0])
            make = import_module("onnx.helper").make_node
            return [make("Concat", held, list(node.output), node.name, axis=axis)]
        place = _place(node, len(held), known)
        if place is None:
            return None
        if node.op_type == "SequenceAt":
            return [write.same(held[place], node.output[0])]
        if node.op_type == "SequenceInsert":
            return self._hold(node, [*held[:place], node.input[1], *held[place:]])
        return self._hold(node, [*held[:place], *held[place + 1 :]])

    def _hold(self, node: Any, held: list[str]) -> list[Any]:
        self._count += len(held)
        if self._count > _MOST_HELD:
            raise GraphError(
                say("has sequences of more than {most_held:,} tensors together").format(
                    most_held=_MOST_HELD
                )
            )
        self._held[node.output[0]] = held
        return []

    def _split(
        self,
        node: Any,
        known: Mapping[str, NDArray[Any]],
        shapes: Mapping[str, tuple[int, ...]],
        write: Writer,
    ) -> list[Any] | None:
        """One tensor for each part, without the axis where parts of one lose it."""
        shape = shapes.get(node.input[0])
        told = node.input[1] if len(node.input) > 1 else ""
        if shape is None or (told and told not in known):
            return None
        axis = _number(node, "axis")
        if not -len(shape) <= axis < len(shape):
            raise GraphError(
                say("splits axis {axis} of {shape} at {node}").format(
                    axis=axis, shape=list(shape), node=named(node)
                )
            )
        axis %= len(shape)
        size = shape[axis]
        if told and known[told].ndim:
            parts = [int(each) for each in known[told]]
        else:
            each = int(known[told]) if told else 1
            if each < 1 or size // each > MOST_UNFOLDED:
                raise GraphError(
                    say("splits {size} into parts of {each} at {node}").format(
                        size=size, each=each, node=named(node)
                    )
                )
            parts = [min(each, size - first) for first in range(0, size, each)]
        names = [f"{node.output[0]}/{place}" for place in range(len(parts))]
        self._held[node.output[0]] = names
        if not told and not _number(node, "keepdims", 1):
            return [made for place, name in enumerate(names)
                    for made in write.part(node.input[0], place, axis, name)]  # fmt: skip
        return write.split(node.input[0], parts, axis, names)


def _place(node: Any, count: int, known: Mapping[str, NDArray[Any]]) -> int | None:
    """Where a tensor is put or taken; the end where nobody says. None where data say."""
    which = 2 if node.op_type == "SequenceInsert" else 1
    name = node.input[which] if which < len(node.input) else ""
    if not name:
        return count if node.op_type == "SequenceInsert" else count - 1
    if name not in known:
        return None
    place = int(known[name].reshape(-1)[0])
    if not -count <= place <= count - (node.op_type != "SequenceInsert"):
        raise GraphError(
            say("asks for place {place} of {count} at {node}").format(
                place=place, count=count, node=named(node)
            )
        )
    return place + count if place < 0 else place


def _number(node: Any, name: str, default: int = 0) -> int:
    return next((each.i for each in node.attribute if each.name == name), default)
