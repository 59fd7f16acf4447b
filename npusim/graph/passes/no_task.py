"""Joining and splitting tensors whose parts lie one behind the other needs no task."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Final

from npusim.graph.kinds import VIEWS
from npusim.graph.memory import nbytes, source
from npusim.values.formats import FRACTAL, Format
from npusim.values.layouts import c0, storage_shape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from npusim.graph.network import Network, Node, Value
    from npusim.graph.target import Target

_ALIGNED_BYTES: Final = 32
_PHONY: Final = ("PhonyConcat", "PhonySplit")
_SAME: Final = ("Identity", "Reshape")


def run(network: Network, target: Target) -> int:
    """Joins first, in the order of the network; what has no task isn't joined or split again."""
    del target
    found = 0
    for node in network.ordered():
        if node.op == "ConcatD" and _joins(network, node):
            without_task(network, node)
            found += 1
        elif node.op in ("SplitD", "SplitVD") and _splits(network, node):
            network.replace([node], "PhonySplit", node.inputs, node.outputs, node.attributes)
            found += 1
    return found


def without_task(network: Network, node: Node) -> None:
    """What a concatenation reads is written into its result."""
    for value in node.given:
        source(value).whole = node.output
    network.replace([node], "PhonyConcat", node.inputs, node.outputs, node.attributes)


def _joins(network: Network, node: Node) -> bool:
    """Whether every part is made by a task for this one reader of whole blocks, the first axis."""
    axis = node.attributes["concat_dim"]
    parts = [source(value) for value in node.given]
    return (
        len({id(part) for part in parts}) == len(parts)
        and all(_is_first(value, axis) and _is_made(network, value) for value in node.given)
        and all(nbytes(value) % _ALIGNED_BYTES == 0 for value in node.given)
        and not any(reader.op in _PHONY for reader in _readers(node.output))
    )


def _splits(network: Network, node: Node) -> bool:
    """Whether every part is whole blocks of what a task makes, and a task reads it."""
    axis = node.attributes["split_dim"]
    return (
        all(_is_made(network, value) for value in node.given)
        and all(_is_first(value, axis) for value in node.outputs)
        and not any(
            network.gives(value) or any(reader.op in _NOT_BEHIND for reader in _readers(value))
            for value in node.outputs
        )
    )


_NOT_BEHIND: Final = (*_PHONY, "SplitD", "SplitVD")


def _is_made(network: Network, value: Value) -> bool:
    """Whether a task makes a value, which is neither a result nor a piece of something yet."""
    while True:
        if value.maker is None or value.whole is not None or network.gives(value):
            return False
        if value.maker.op not in _SAME:
            return value.maker.op not in _PHONY
        value = value.maker.given[0]


def _readers(value: Value) -> Iterator[Node]:
    """Who works on a value, views looked through."""
    for user in value.users:
        if user.op in VIEWS:
            yield from (user, *_readers(user.output))
        else:
            yield user


def _is_first(value: Value, axis: int) -> bool:
    """Whether a part along an axis is one run of memory, in whole blocks."""
    place, block = _in_memory(value, axis % len(value.shape))
    before = storage_shape(value.shape, value.dtype, value.format)[:place]
    return value.shape[axis] % block == 0 and prod(before) == 1


def _in_memory(value: Value, axis: int) -> tuple[int, int]:
    """Where an axis is in memory, and in blocks of how many elements."""
    lanes, last = c0(value.dtype), len(value.shape) - 1
    if value.format is Format.NC1HWC0:
        return axis, lanes if axis == 1 else 1
    if value.format is Format.NDC1HWC0:
        return {1: 2, 2: 1}.get(axis, axis), lanes if axis == 1 else 1
    if value.format is Format.FRACTAL_NZ and last:
        if axis == last:
            return last - 1, lanes
        if axis == last - 1:
            return last, FRACTAL
    return axis, 1
