"""Where data decide what goes where: places of nonzeros, selections by masks, repetitions.

What comes out stands in front of the results, which are as large as it can get. Source: ops-nn
index, ops-math conversion/masked_select_v3 (op_api).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.schedules.on_ai_cpu import FUNCTION, OnAiCpu
from npusim.schedules.streamed import Streamed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.ascendc import Kernel
    from npusim.ascendc.task import Task

    Array = NDArray[Any]

_COUNTED = ("vcmpv_ne", "vsel", "vcadd")


def _in_front(found: Array, size: int) -> Array:
    """What was found, and zeros behind it."""
    whole = np.zeros(size, found.dtype)
    whole[: min(size, found.size)] = found.reshape(-1)[:size]
    return whole


def non_zero(task: Task) -> tuple[Kernel, ...]:
    """The place of every element that isn't zero: a row of each, or a column if ``transpose``."""
    if not task.outputs:
        raise task.refused("how many places there is room for isn't known")
    turned = task.first("transpose") is True
    size = task.outputs[0].numel

    def compute(x: Array) -> Array:
        places = np.argwhere(np.atleast_1d(x) if x.ndim else x.reshape(1))
        return _in_front(places.T if turned else places, size)

    return Streamed("NonZero", compute, (*_COUNTED, "vmuls")).from_task(task)


def masked_select(task: Task) -> tuple[Kernel, ...]:
    """The elements that a mask is true for, in a row."""
    if not task.outputs:
        raise task.refused("how many elements there is room for isn't known")
    size = task.outputs[0].numel

    def compute(x: Array, mask: Array) -> Array:
        shape = np.broadcast_shapes(x.shape, mask.shape)
        return _in_front(np.broadcast_to(x, shape)[np.broadcast_to(mask != 0, shape)], size)

    return Streamed("MaskedSelectV3", compute, _COUNTED).from_task(task)


def _masked_scatter(x: Array, mask: Array, source: Array) -> Array:
    """The next element of the source wherever the mask is true."""
    there = np.broadcast_to(mask != 0, x.shape)
    count = int(there.sum())
    found = x.copy()
    found[there] = np.resize(source.reshape(-1), count) if source.size else 0
    return found


def repeat(task: Task) -> tuple[Kernel, ...]:
    """Every row as often as it says, or as one number says of all."""
    if not task.outputs:
        raise task.refused("how many rows there is room for isn't known")
    rows = task.outputs[0].shape[0] if task.outputs[0].shape else 1
    length = task.outputs[0].numel

    def compute(x: Array, counts: Array) -> Array:
        times = counts.reshape(-1)
        found = np.repeat(x, int(times[0]) if times.size == 1 else times, axis=0)
        return _in_front(found[:rows], length)

    return Streamed("RepeatInterleave", compute, ()).from_task(task)


def _unique_runs(
    x: Array, *, axis: int | None, sizes: tuple[int, ...], is_sorted: bool
) -> tuple[Array, ...]:
    """Rows that differ from the one before (or from all): they, their numbers, their counts."""
    rows = x.reshape(-1, 1) if axis is None else np.moveaxis(x, axis, 0).reshape(x.shape[axis], -1)
    if is_sorted:
        found, places, counts = np.unique(rows, axis=0, return_inverse=True, return_counts=True)
    else:
        fresh = np.ones(len(rows), bool)
        fresh[1:] = (rows[1:] != rows[:-1]).any(1)
        found, places = rows[fresh], np.cumsum(fresh) - 1
        counts = np.bincount(places) if len(rows) else np.zeros(0, np.int64)
    if axis is not None:
        rest = x.shape[:axis] + x.shape[axis + 1 :]
        found = np.moveaxis(found.reshape(len(found), *rest), 0, axis)
    results = (found, places.reshape(-1), counts)
    return tuple(_in_front(each, size) for each, size in zip(results, sizes, strict=False))


def unique_rows(task: Task) -> tuple[Kernel, ...]:
    """UniqueConsecutive and UniqueWithCountsExt2, which are the AI CPU's."""
    axis = task.first("axis")
    sizes = tuple(each.numel for each in task.outputs)

    def compute(x: Array) -> tuple[Array, ...]:
        along = axis if isinstance(axis, int) else None
        sorts = task.op_type != "UniqueConsecutive"
        return _unique_runs(x, axis=along, sizes=sizes, is_sorted=sorts)

    return OnAiCpu(task.op_type, compute, FUNCTION).from_task(task)


def index_fill(task: Task) -> tuple[Kernel, ...]:
    """One number in every row along an axis that is named; the whole tensor passes.

    Source: ops-nn index/index_fill_d/op_api/index_fill.cpp (a result of its own, in place or not).
    """
    axis = task.whole_number("axis", 0)

    def compute(x: Array, places: Array, value: Array) -> Array:
        found = x.copy()
        np.moveaxis(found, axis, 0)[places.reshape(-1)] = value.reshape(-1)[0]
        return found

    return Streamed("IndexFill", compute, ()).from_task(task)


def short_index(task: Task) -> tuple[Kernel, ...]:
    """Places along an axis of ``size`` in 32 bits, negative ones counted from its end."""
    size = task.whole_number("size", 0)
    steps = ("vconv", "vshr", "vmuls", "vsub")
    return Streamed("LinearIndex", lambda x: np.where(x < 0, x + size, x), steps).from_task(task)


def _bags(
    weight: Array, indices: Array, offsets: Array, shares: Array | None = None, *,
    mode: int, padding: int, last: bool, sizes: tuple[int, ...],
) -> tuple[Array, ...]:  # fmt: skip
    """Sums (0), means (1) or largest elements (2) of the rows of every bag.

    Then the bag of each index, the rows of each bag, and where its largest elements are.
    """
    ends = offsets[1:] if last else np.append(offsets[1:], indices.size)
    starts = offsets[:-1] if last else offsets
    found = np.zeros((len(starts), weight.shape[1]), np.float64)
    largest = np.zeros(found.shape, np.int64)
    of, counts = np.zeros(indices.size, np.int64), np.zeros(len(starts), np.int64)
    for bag, (start, end) in enumerate(zip(starts, ends, strict=True)):
        of[start:end] = bag
        rows = indices[start:end]
        kept = rows != padding
        counts[bag] = kept.sum()
        if not counts[bag]:
            continue
        taken = weight[rows[kept]].astype(np.float64)
        if shares is not None:
            taken *= shares[start:end][kept][:, None]
        if mode == 2:
            found[bag] = taken.max(0)
            largest[bag] = rows[kept][taken.argmax(0)]
        else:
            found[bag] = taken.sum(0) / (counts[bag] if mode else 1)
    results = (found, of, counts, largest if mode == 2 else counts)
    return tuple(_in_front(each, size) for each, size in zip(results, sizes, strict=False))


def embedding_bag(task: Task) -> tuple[Kernel, ...]:
    """EmbeddingBag: only the rows that the indices name are read."""
    sizes = tuple(each.numel for each in task.outputs)
    mode, padding = task.whole_number("mode", 0), task.whole_number("padding_idx", -1)
    last = task.first("include_last_offset") is True

    def compute(*given: Array) -> tuple[Array, ...]:
        return _bags(*given, mode=mode, padding=padding, last=last, sizes=sizes)

    return Streamed("EmbeddingBag", compute, ("vadd",)).from_task(task)


masked_scatter = Streamed("MaskedScatter", _masked_scatter, _COUNTED).from_task
