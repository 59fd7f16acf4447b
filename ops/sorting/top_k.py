"""The k largest elements of rows, in order, and where they were: TopK, Sort.

Rows are sorted by the vector unit: groups of 32 numbers with their places (vbitsort32), then four
sorted lists at a time into one (vmrgsort4v2); the first k are taken apart into values
and places (vreducev2). A row that is longer than UB, or one that is alone, is sorted in parts, and
then what is left of those; where that is all of them, parts are merged. Integers are the AI CPU's.
Axes that aren't the last are turned there and back. Source: public operator sources
(top_k_v220.py); ops-nn index/gather_elements/op_api (aclnnTopk).
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import ceil, log, log2, prod
from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.ascendc import Core, GlobalTensor, Kernel, LocalTensor, TBuf, TPosition, TQue
from npusim.ascendc.ai_cpu import AiCpuKernel
from npusim.ascendc.task import Task, made
from npusim.library.sorted_pairs import GROUP, PAIR_BYTES, record_sort
from npusim.ops.sorting.axes import axis_of, cast, lies_there, moved, moved_back
from npusim.ops.sorting.long_rows import LongSort, ordered
from npusim.ops.sorting.proposals import (
    MOST_SORTED,
    ProposalTopK,
    most_kept,
    shares_rows,
    sorts_proposals,
)
from npusim.schedules.tile_grid import Grid
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import BFLOAT16, FLOAT, FLOAT16, INT32, INT64
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.ascendc.loops import Index
    from npusim.hardware.profile import Profile
    from npusim.values.dtypes import DType

_LARGE = 32768  # numbers of which few results are the AI CPUs' where one core takes all rows
_WORTH_SHARING = 1024  # numbers of a row from which on several cores share it


class TopK(Kernel):
    """values, places = the first numbers, in order, of parts of the rows of x [rows, n].

    [rows, parts, kept] of parts of ``part`` numbers; missing ones are as small as can be.
    ``origin`` are the numbers' own places where x has been sorted in parts before.
    """

    op_type = "TopKV2"
    hard_sync = True

    def __init__(
        self,
        profile: Profile,
        x: GlobalTensor,
        values: GlobalTensor,
        places: GlobalTensor,
        *,
        part: int,
        largest: bool = True,
        origin: GlobalTensor | None = None,
    ) -> None:
        if x.dtype not in (FLOAT, FLOAT16) or places.dtype is not INT32:
            raise KernelError(self.op_type, f"sorts FLOAT and FLOAT16, not {x.dtype}")
        rows, self.length = x.shape
        self.part, self.largest = part, largest
        self.parts, self.kept = ceil(self.length / part), values.shape[-1]
        self.reads = (x,) if origin is None else (x, origin)
        self.writes = (values, places)
        self.x, self.values, self.places = (each.view(each.numel) for each in (x, values, places))
        self.origin = None if origin is None else origin.view(origin.numel)
        cores = profile.cores.vector_cores
        if self.parts == 1:  # what a core stores fills a block of 32 bytes at least
            least = ceil(profile.buffers.block_bytes / max(1, self.kept * x.dtype.itemsize))
            cores = ceil(rows / max(ceil(rows / cores), least))
        self.division = self.grid = Grid((rows, self.length), (1, part), cores)
        self.block_dim = self.grid.used_cores

    def process(self, core: Core) -> None:
        """One part of a row after the other."""
        size, padded = self.x.dtype.itemsize, round_up(self.part, GROUP)
        in_que, from_que = TQue(TPosition.VECIN, 1, "row"), TQue(TPosition.VECIN, 1, "origin")
        out_que, place_que = (
            TQue(TPosition.VECOUT, 1, "values"),
            TQue(TPosition.VECOUT, 1, "places"),
        )
        pairs = TBuf("pairs")
        core.pipe.init_buffer(in_que, 1, padded * size)
        core.pipe.init_buffer(from_que, 1, padded * INT32.itemsize)
        core.pipe.init_buffer(out_que, 1, self.kept * size)
        core.pipe.init_buffer(place_que, 1, self.kept * INT32.itemsize)
        core.pipe.init_buffer(pairs, 1, 2 * padded * PAIR_BYTES)
        for piece in self.grid.pieces(core):
            (row, start), length = piece.starts, piece.shape[1]
            where = ((row, self.length), (start, 1))
            x = in_que.copy_in(self.x.window(where, (length,), (1,)))
            sources = [x]
            if self.origin is not None:
                sources.append(from_que.copy_in(self.origin.window(where, (length,), (1,))))
            sorted_pairs = pairs.get(FLOAT, 2 * length)
            record_sort(core, sorted_pairs, length)
            values = out_que.alloc_tensor(self.x.dtype, self.kept)
            places = place_que.alloc_tensor(INT32, self.kept)
            for each in (values, places):
                core.scalar_call()
                core.record_vector("vreducev2", each, 2 * self.kept)
            self._numbers(core, (values, places), sources, start)
            for queue, tile in zip((in_que, from_que), sources, strict=False):
                queue.free_tensor(tile)
            target = ((row, self.parts * self.kept), (start // self.part, self.kept))
            out_que.copy_out(self.values.window(target, (self.kept,), (1,)), values)
            place_que.copy_out(self.places.window(target, (self.kept,), (1,)), places)

    def _numbers(
        self,
        core: Core,
        results: tuple[LocalTensor, LocalTensor],
        sources: list[LocalTensor],
        start: Index,
    ) -> None:
        if not core.numerics:
            return
        depth, (values, places) = core.depth, results
        given = sources[0].values(depth)
        first = ordered(given, self.kept, largest=self.largest)
        found = np.take_along_axis(given, first, -1)
        if len(sources) > 1:
            where = np.take_along_axis(sources[1].values(depth), first, -1)
        else:
            where = first + core.counter(start).values(depth)[..., None]
        missing = [(0, 0)] * (found.ndim - 1) + [(0, self.kept - found.shape[-1])]
        worst = -np.inf if self.largest else np.inf
        values.target(depth)[...] = np.pad(found, missing, constant_values=worst)
        places.target(depth)[...] = np.pad(where, missing)


def sort(task: Task) -> tuple[Kernel, ...]:
    """All numbers along an axis in order, the smallest first unless ``descending``."""
    (x,) = task.present(1)
    axis = axis_of(task, len(x.shape))
    largest = task.first("descending") is True
    length, profile = x.shape[axis], task.profile
    kind = sorted_in(profile, x, length)
    if sorts_proposals(profile, kind) and length > most_kept(kind):
        raise task.refused(f"rows of {length} numbers in order; {most_kept(kind)} are modelled")
    order = {"dim": axis, "k": x.shape[axis], "largest": largest}
    return top_k(replace(task, attributes=order))


def top_k(task: Task) -> tuple[Kernel, ...]:
    """The k largest along an axis, as aclnnTopk queues its tasks."""
    (x,) = task.present(1)
    axis = axis_of(task, len(x.shape))
    count = task.outputs[0].shape[axis] if task.outputs else task.whole_number("k", 0)
    if not 0 < count <= x.shape[axis]:
        raise task.unfit(f"k = {count} of {x.shape[axis]} numbers")
    largest = task.first("largest") is not False
    shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])
    results = list(task.outputs) or [made(shape, x.dtype), made(shape, INT64)]
    tasks: list[Kernel] = []
    source = x
    kind = sorted_in(task.profile, x, count)
    if kind is not x.dtype:
        source = made(x.shape, kind)
        tasks += cast(task, x, source)
    last = len(x.shape) - 1
    source, turns = moved(task, source, axis, last)
    rows = source.view(prod(source.shape[:-1]), source.shape[-1])
    flat = (rows.shape[0], count)
    own = [lies_there(out, axis, last) for out in results]
    values, places = (
        out.view(*flat) if there and out.dtype is kind else made(flat, kind)
        for out, there, kind in zip(results, own, (rows.dtype, INT32), strict=True)
    )
    if _by_core(task.profile, rows, count):
        sorting = _sorted(task, rows, values, places, largest=largest)
    else:
        sorting = [_on_ai_cpu(task, rows, values, places, largest=largest)]
    tasks += [*turns, *sorting]
    for found, out in zip((values, places), results, strict=True):
        if found.buffer is not out.buffer:
            tasks += _delivered(task, found, out, axis)
    return tuple(tasks)


def sorted_in(profile: Profile, x: GlobalTensor, count: int) -> DType:
    """The dtype that numbers are sorted in.

    bfloat16 as float32, and that as halves where no instruction sorts it. Source: ops-nn
    index/gather_elements/op_api/aclnn_topk.cpp, ops-math math/sort/op_api.
    """
    if x.dtype is BFLOAT16:
        return FLOAT
    halves = sorts_proposals(profile, FLOAT16) and not sorts_proposals(profile, FLOAT)
    few = x.numel > _LARGE and not shares_rows(profile, count)
    return FLOAT16 if x.dtype is FLOAT and halves and not few else x.dtype


def _by_core(profile: Profile, x: GlobalTensor, count: int) -> bool:
    """Whether an AI core sorts; few of many the AI CPUs find sooner than one core would."""
    if x.dtype not in (FLOAT, FLOAT16):
        return False
    if profile.supports_vector("vbitsort32", x.dtype.intrinsic):
        return True
    few = x.numel > _LARGE and not shares_rows(profile, count)
    fits = count <= most_kept(x.dtype) and x.shape[-1] <= MOST_SORTED
    return sorts_proposals(profile, x.dtype) and fits and not few


def _sorted(
    task: Task, x: GlobalTensor, values: GlobalTensor, places: GlobalTensor, *, largest: bool
) -> list[Kernel]:
    """Rows that UB holds at once, or their parts, until what is left of them is held at once."""
    profile, count = task.profile, values.shape[-1]
    if sorts_proposals(profile, x.dtype):
        kernel = ProposalTopK.called(task.op_type)
        return [kernel(profile, x, values, places, largest=largest)]
    bytes_of_one = 2 * (x.dtype.itemsize + INT32.itemsize + PAIR_BYTES)
    most = profile.buffers.ub_bytes // bytes_of_one // GROUP * GROUP
    shares = max(1, profile.cores.vector_cores // max(1, x.shape[0]))
    tasks: list[Kernel] = []
    left, origin = x, None
    make = partial(TopK.called(task.op_type), profile, largest=largest)
    while left.shape[1] > (most if shares == 1 or origin else min(most, _WORTH_SHARING)):
        rows, length = left.shape
        part = min(most, round_up(ceil(length / shares), GROUP))
        kept, parts = min(count, part), ceil(length / part)
        if parts * kept >= length:  # parts leave as much as there was
            if origin is None:
                return [LongSort(profile, left, values, places, largest=largest)]
            break
        some, where = made((rows, parts, kept), x.dtype), made((rows, parts, kept), INT32)
        tasks.append(make(left, some, where, part=part, origin=origin))
        left, origin = some.view(rows, parts * kept), where
    return [*tasks, make(left, values, places, part=left.shape[1], origin=origin)]


def _on_ai_cpu(
    task: Task, x: GlobalTensor, values: GlobalTensor, places: GlobalTensor, *, largest: bool
) -> Kernel:
    """A heap of k numbers, into which a row of random ones puts k (1 + ln(n / k))."""
    (rows, length), count = x.shape, values.shape[-1]
    put = count * (1 + log(length / count))
    operations = rows * (length + put * log2(max(2, count)))

    def compute(numbers: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        first = ordered(numbers, count, largest=largest)
        return np.take_along_axis(numbers, first, -1), first

    return AiCpuKernel(task.op_type, (x,), (values, places), operations, compute)


def _delivered(task: Task, found: GlobalTensor, out: GlobalTensor, axis: int) -> list[Kernel]:
    """A result [rows, k] where and as it is asked for."""
    last = len(out.shape) - 1
    tasks: list[Kernel] = []
    if found.dtype is not out.dtype:
        there = lies_there(out, axis, last)
        wide = out.view(*found.shape) if there else made(found.shape, out.dtype)
        tasks += cast(task, found, wide)
        if there:
            return tasks
        found = wide
    turned = (*(size for at, size in enumerate(out.shape) if at != axis), out.shape[axis])
    return [*tasks, *moved_back(task, found.view(*turned), out, axis, last)]
