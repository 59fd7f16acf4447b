"""Shapes of tensors that are joined, cut, repeated and padded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from npusim.operators.results import described, numbers
from npusim.values.promotion import promote

if TYPE_CHECKING:
    from npusim.operators.definition import Rule
    from npusim.values.dtypes import DType
    from npusim.values.tensors import TensorSpec


def joined(given: Sequence[TensorSpec], attributes: Mapping[str, Any]) -> list[TensorSpec]:
    """As long along an axis as all inputs together."""
    axis = int(attributes.get("concat_dim", 0)) % max(1, given[0].rank)
    shape = list(given[0].shape)
    shape[axis] = sum(spec.shape[axis] for spec in given)
    return [described(shape, _joint(given))]


def _joint(given: Sequence[TensorSpec]) -> DType:
    """The dtype of what is joined; of dtypes that don't combine the first one's."""
    return promote(*(spec.dtype for spec in given)) or given[0].dtype


def parts(given: Sequence[TensorSpec], attributes: Mapping[str, Any]) -> list[TensorSpec]:
    """Parts along an axis, of sizes that are given or all alike."""
    x = given[0]
    axis = int(attributes.get("split_dim", 0)) % max(1, x.rank)
    count = int(attributes.get("num_split", 1))
    sizes = numbers(attributes.get("size_splits")) or [x.shape[axis] // max(1, count)] * count
    rest = x.shape[axis] - sum(size for size in sizes if size >= 0)
    sizes = [rest if size < 0 else size for size in sizes]
    return [described((*x.shape[:axis], size, *x.shape[axis + 1 :]), x.dtype) for size in sizes]


def stacked(given: Sequence[TensorSpec], attributes: Mapping[str, Any]) -> list[TensorSpec]:
    """With one more axis, as long as there are inputs."""
    shape = list(given[0].shape)
    axis = int(attributes.get("axis", 0)) % (len(shape) + 1)
    return [described((*shape[:axis], len(given), *shape[axis:]), _joint(given))]


def permuted(given: Sequence[TensorSpec], attributes: Mapping[str, Any]) -> list[TensorSpec]:
    """Axes in another order."""
    order = numbers(attributes.get("perm"))
    x = given[0]
    return [] if order is None else [described([x.shape[axis] for axis in order], x.dtype)]


def part(given: Sequence[TensorSpec], attributes: Mapping[str, Any]) -> list[TensorSpec]:
    """As large as is said; -1 is the rest of an axis."""
    size, x = numbers(attributes.get("size")), given[0]
    if size is None:
        return []
    begin = numbers(attributes.get("offsets")) or [0] * x.rank
    taken = [
        whole - first if length == -1 else length
        for whole, first, length in zip(x.shape, begin, size, strict=False)
    ]
    return [described(taken, x.dtype)]


def unpacked(given: Sequence[TensorSpec], attributes: Mapping[str, Any]) -> list[TensorSpec]:
    """One tensor for every element of an axis."""
    x = given[0]
    axis = int(attributes.get("axis", 0)) % max(1, x.rank)
    return [described((*x.shape[:axis], *x.shape[axis + 1 :]), x.dtype)] * x.shape[axis]


def shaped_by(name: str) -> Rule:
    """An attribute is the shape; -1 keeps an axis."""

    def rule(given: Sequence[TensorSpec], attributes: Mapping[str, Any]) -> list[TensorSpec]:
        shape = numbers(attributes.get(name))
        if shape is None:
            return []
        before = (1,) * (len(shape) - given[0].rank) + given[0].shape
        kept = [old if new == -1 else new for new, old in zip(shape, before, strict=False)]
        return [described(kept, given[0].dtype)]

    return rule


def tiled(given: Sequence[TensorSpec], attributes: Mapping[str, Any]) -> list[TensorSpec]:
    """Every axis as many times as long as is said."""
    times = numbers(attributes.get("multiples"))
    if times is None:
        return []
    before = (1,) * (len(times) - given[0].rank) + given[0].shape
    return [described([a * b for a, b in zip(before, times, strict=False)], given[0].dtype)]


def cut(given: Sequence[TensorSpec], attributes: Mapping[str, Any]) -> list[TensorSpec]:
    """From ``begin`` to ``end`` in steps; later axes are whole."""
    begin, end = (numbers(attributes.get(name)) for name in ("begin", "end"))
    if begin is None or end is None:
        return []
    steps = numbers(attributes.get("strides")) or [1] * len(end)
    shape = [
        len(range(size)[first:last:step])
        for size, first, last, step in zip(given[0].shape, begin, end, steps, strict=False)
    ]
    return [described((*shape, *given[0].shape[len(shape) :]), given[0].dtype)]


def padded(given: Sequence[TensorSpec], attributes: Mapping[str, Any]) -> list[TensorSpec]:
    """With what stands before and behind every axis."""
    around = numbers(attributes.get("paddings"))
    if around is None or len(around) != 2 * given[0].rank:
        return []
    pairs = zip(given[0].shape, around[::2], around[1::2], strict=True)
    return [described([before + size + after for size, before, after in pairs], given[0].dtype)]
