"""Rows stored or added at places that indices tell.

Sums of segments load rows a tile at a time and add each to device memory by a transfer of its own.
IndexAdd takes one row after the other, each waiting for its index, its load and its store.
Additions to one line of L2 wait for each other, but for those of one place that a core has put
together before (each row has been loaded by itself all the same). How many cores meet there nobody
knows without the indices: those of sums of segments, the gradients of tables that are looked up,
are taken to repeat as words do (frequencies), others to be spread evenly.
Source: public operator sources (unsorted_segment_sum_d.py and its tiling, scatter_nd_update.py),
ops-nn index/inplace_scatter_add/op_kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, prod
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from npusim.ascendc import Core, GlobalTensor, Kernel, TPosition, TQue
from npusim.ascendc.ai_cpu import AiCpuKernel
from npusim.ascendc.events import Event
from npusim.ascendc.task import Task, made
from npusim.engine.program import Pipe
from npusim.operators.tasks import Tasks
from npusim.ops.indexing.frequencies import most_used
from npusim.ops.indexing.gather import INDEX_TYPES
from npusim.schedules.bounds import fault_outside
from npusim.schedules.rows.shares import RowShare
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import BFLOAT16, FLOAT, FLOAT16, INT16, INT32, INT64
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.ascendc.gm_slices import Place
    from npusim.ascendc.loops import Index
    from npusim.hardware.profile import Profile
    from npusim.values.dtypes import DType


_BATCH = 128  # rows that are put together


class ScatterRows(Kernel):
    """target[p, indices[k], :] = (or +=) rows[p, k, :]; shape is (p, rows of the target, width).

    ``axes`` are the sizes of the target's leading axes where an index has a number for each.
    """

    op_type = "ScatterUpdate"
    adds: ClassVar[bool] = False
    one_by_one: ClassVar[bool] = False  # every row waits for the one before
    frequencies: ClassVar[bool] = False  # places are named as often as words are

    def __init__(
        self,
        profile: Profile,
        rows: GlobalTensor,
        indices: GlobalTensor,
        target: GlobalTensor,
        shape: tuple[int, int, int],
        axes: tuple[int, ...] = (),
    ) -> None:
        self.check(profile, rows, indices, target)
        self.reads, self.writes = (rows, indices), (target,)
        self.outer, self.places, self.width = shape
        self.axes = axes or (self.places,)
        self.rows, self.indices = rows.view(rows.numel), indices.view(indices.numel)
        self.target, self.kind = target.view(target.numel), target.dtype
        cores, count = profile.cores.vector_cores, indices.numel // len(self.axes)
        buffers = profile.buffers
        self.block = buffers.block_bytes // self.kind.itemsize
        self.padded = round_up(self.width, self.block)
        each = self.padded * self.kind.itemsize + len(self.axes) * indices.dtype.itemsize
        room = buffers.ub_bytes // self.buffer_num - 2 * buffers.block_bytes
        self.chunk = self.width
        if each > room:
            self.chunk = room // self.kind.itemsize // 2 // self.block * self.block
        # Short rows lie side by side in device memory, and blocks of them would overlap.
        together = self.places == 1 and self.batch(profile) > 1
        self.serial = self.one_by_one or (self.width < self.block and not together)
        tile = 1 if self.chunk < self.width else max(1, room // each)
        self.division = self.share = RowShare.of(count * self.outer, cores, tile)
        busy = self.share.cores if self.one_by_one else min(cores, count * self.outer)
        self.block_dim = max(1, busy)
        line = max(1.0, profile.memory.l2_line_bytes / (self.width * self.kind.itemsize))
        self.sharers = max(1.0, min(cores, count) * self._share(line) * self._apart(profile))

    def _apart(self, profile: Profile) -> float:
        """The part of rows that go to memory by themselves, being the first of theirs in a batch.

        Of a batch as many places are named as evenly spread indices name.
        """
        batch = self.batch(profile)
        return self.places * (1 - (1 - 1 / self.places) ** batch) / batch

    def batch(self, profile: Profile) -> int:
        """How many rows a core sorts by their places and adds up in UB before it stores them."""
        del profile
        return 1

    def _share(self, places: float) -> float:
        """The part of all additions that go to the line of so many places that gets most."""
        if self.frequencies:
            return most_used(self.places, places) / self.outer
        return 1 / ceil(self.places * self.outer / int(places))

    def check(
        self, profile: Profile, rows: GlobalTensor, indices: GlobalTensor, target: GlobalTensor
    ) -> None:
        """Refuse what runs elsewhere."""
        if indices.dtype not in INDEX_TYPES:
            raise KernelError(self.op_type, f"indices of {indices.dtype}")
        if rows.dtype is not target.dtype:
            raise KernelError(self.op_type, f"stores {rows.dtype} in {target.dtype}")
        if not self.adds:
            return
        added = _added(profile)
        if target.dtype not in added:
            known = ", ".join(map(str, added))
            problem = f"additions to memory take {known}; {target.dtype} runs on the AI CPU"
            raise KernelError(self.op_type, problem)

    def process(self, core: Core) -> None:
        """Rows and their indices to UB, then row by row to where the index says."""
        fault_outside(core, self.op_type, self.indices, *self.axes)
        share, block = self.share, core.get_block_idx()
        depth = 1 if self.serial else self.buffer_num
        self.id_que = TQue(TPosition.VECIN, depth, "indices", consumer=Pipe.SCALAR)
        self.row_que = TQue(TPosition.VECIN, depth, "rows", consumer=Pipe.MTE3)
        tile = 1 if self.one_by_one else share.tile
        size = min(self.padded, round_up(self.chunk, self.block)) * self.kind.itemsize
        core.pipe.init_buffer(
            self.id_que, depth, tile * len(self.axes) * self.indices.dtype.itemsize
        )
        core.pipe.init_buffer(self.row_que, depth, tile * size)
        stored = Event(core, Pipe.MTE3, Pipe.SCALAR) if self.serial else None
        if self.adds:
            core.set_atomic_add(self.sharers)
        first = block * share.per_core
        for start, count in core.tiles(first, share.length(block), tile):
            for column, width in core.tiles(0, self.width, self.chunk):
                self._tile(core, start, count, column, width, stored)
        core.set_atomic_none()

    def _tile(
        self,
        core: Core,
        start: Index,
        count: int,
        column: Index,
        width: int,
        stored: Event | None,
    ) -> None:
        numbers = len(self.axes)
        number, first = self.indices.numel // numbers, start
        plane: Index = 0
        if self.outer > 1:
            first, plane = start % number, start // number
        cut = self.rows.window(((start, self.width), (column, 1)), (count, width), (self.width, 1))
        ids = self.id_que.copy_in(self.indices.span(first * numbers, count * numbers))
        if self.one_by_one:
            core.get_value(ids)
        tile = self.row_que.copy_in(cut)
        for row in core.loop(count):
            where: list[tuple[Place, int]] = [
                (column, 1),
                (plane, self.places * self.width),
            ]
            for at in range(numbers):
                place = core.get_value(ids, row // 1 * numbers + at)
                core.scalar_alu("mul")
                where.append((place, prod(self.axes[at + 1 :]) * self.width))
            core.copy_runs(self.target.window(tuple(where), (width,), (1,)), tile[row])
            if stored is not None:
                stored.set()
                stored.wait()
        self.id_que.free_tensor(ids)
        self.row_que.free_tensor(tile)


class ScatterUpdate(ScatterRows):
    """var[indices[k]] = updates[k]."""

    op_type = "ScatterUpdate"

    @classmethod
    def from_task(cls, task: Task) -> tuple[Kernel, ...]:
        """Variable, indices (tuples of one number where they are tuples) and updates."""
        var, indices, updates = task.present(3)
        if indices.numel == 0 or updates.numel % indices.numel:
            raise task.unfit(f"{updates.shape} at {indices.shape}")
        width = updates.numel // indices.numel
        if not var.shape or width != prod(var.shape[1:]):
            raise task.unfit(f"rows of {width} elements in {var.shape}")
        return (cls(task.profile, updates, indices, var, (1, var.shape[0], width)),)


class ScatterNdUpdate(ScatterUpdate):
    """var[indices[k, 0], indices[k, 1], ...] = updates[k]."""

    op_type = "ScatterNdUpdate"

    @classmethod
    def from_task(cls, task: Task) -> tuple[Kernel, ...]:
        """Tuples of several numbers, or of one."""
        var, indices, updates = task.present(3)
        numbers = indices.shape[-1] if len(indices.shape) > 1 else 1
        if numbers == 1 or updates.shape != (*indices.shape[:-1], *var.shape[numbers:]):
            return super().from_task(task)
        axes = var.shape[:numbers]
        shape = (1, prod(axes), prod(var.shape[numbers:]))
        return (cls(task.profile, updates, indices, var, shape, axes),)


class ScatterAdd(ScatterUpdate):
    """var[indices[k]] += updates[k]."""

    op_type = "ScatterAdd"
    adds = True

    def batch(self, profile: Profile) -> int:
        """As inplace_scatter_add has it, which adds rows of the first axis on A2."""
        return 1 if profile.software.compiled_for_shape else _BATCH


class InplaceIndexAdd(ScatterRows):
    """var[..., indices[k], ...] += updates[..., k, ...] along one axis, row after row.

    Cores without a row aren't launched (recorded: 39 of 40 for 500 rows).
    """

    op_type = "InplaceIndexAdd"
    adds = True
    one_by_one = True

    @classmethod
    def from_task(cls, task: Task) -> tuple[Kernel, ...]:
        """Along the recorded axis, or the first one."""
        var, indices, updates = task.present(3)
        found = task.attributes.get("dim", task.attributes.get("axis", 0))
        axis = int(found) % max(1, len(var.shape)) if isinstance(found, int) else 0
        if not var.shape:
            raise task.unfit("a number has no rows to add to")
        wanted = (*var.shape[:axis], indices.numel, *var.shape[axis + 1 :])
        if updates.shape != wanted:
            raise task.unfit(f"{updates.shape} added to {var.shape}, not {wanted}")
        sizes = (prod(var.shape[:axis]), var.shape[axis], prod(var.shape[axis + 1 :]))
        if var.dtype not in (FLOAT16, *_added(task.profile)) and updates.dtype is var.dtype:
            return (_added_on_ai_cpu(task, axis),)
        return (cls(task.profile, updates, indices, var, sizes),)


def _added_on_ai_cpu(task: Task, axis: int) -> Kernel:
    """Numbers that memory doesn't add: one AI CPU adds one after the other."""
    var, indices, updates = task.present(3)

    def compute(
        held: NDArray[Any], places: NDArray[Any], added: NDArray[Any]
    ) -> tuple[NDArray[Any]]:
        total = np.moveaxis(held.copy(), axis, 0)
        np.add.at(total, places, np.moveaxis(added, axis, 0))
        return (np.moveaxis(total, 0, axis),)

    operations = updates.numel * task.profile.cores.ai_cpus
    return AiCpuKernel(task.op_type, (var, indices, updates), (var,), operations, compute)


class UnsortedSegmentSum(ScatterRows):
    """out[ids[k]] += x[k]; the result starts as zeros."""

    op_type = "UnsortedSegmentSum"
    adds = True
    frequencies = True

    def batch(self, profile: Profile) -> int:
        """Only a single segment has a way of its own (NUM_SEGMENT_ONE), on all chips."""
        del profile
        return _BATCH if self.places == 1 else 1

    @classmethod
    def from_task(cls, task: Task) -> tuple[Kernel, ...]:
        """With the result's shape, or the number of segments."""
        x, ids, out = segments_of(task)
        kernel = cls(task.profile, x, ids, out, (1, out.shape[0], prod(out.shape[1:])))
        kernel.adds_into = (out,)
        return (kernel,)


def segments_of(task: Task) -> tuple[GlobalTensor, GlobalTensor, GlobalTensor]:
    """Rows, their segments and the sums."""
    x, ids = task.present(2)
    if x.shape[: len(ids.shape)] != ids.shape:
        raise task.unfit(f"{ids.shape} numbers for {x.shape}")
    out = task.outputs[0] if task.outputs else _segments(task, x, x.shape[len(ids.shape) :])
    if not out.shape:
        raise task.unfit("a scalar has no segments")
    return x, ids, out


def unsorted_segment_sum(task: Task) -> tuple[Kernel, ...]:
    """One kernel; without a result in the record, as a framework puts it together on A2.

    That is zeros, indices of 64 bits, and rows added as aclnnIndexAdd adds them. Source: the
    kernels that a profiler lists for torch's reference of this operator on 910B2.
    """
    if task.outputs or task.profile.software.compiled_for_shape:
        return UnsortedSegmentSum.from_task(task)
    x, ids, out = segments_of(task)
    tasks = Tasks(task.profile)
    tasks.run("ZerosLike", out, out=out)
    tasks.run("IndexAdd", out, tasks.cast(ids, INT64), x, out=out)
    return tuple(tasks.kernels)


def index_add(task: Task) -> tuple[Kernel, ...]:
    """Rows added to those that indices name, as aclnnIndexAdd does it.

    On A2 memory adds rows of the first axis in 32 bits, and those of bfloat16 are added in the
    order of their places, which are sorted as if they were float32: bits of whole numbers from
    nought on are in the order of floating ones. One row is in order. Source: ops-nn
    index/inplace_scatter_add/op_host/op_api/aclnn_index_add.cpp.
    """
    var, index, rows = task.present(3)
    axis = task.whole_number("axis", 0)
    tasks = Tasks(task.profile)
    if axis or task.profile.software.compiled_for_shape or not index.numel:
        tasks.run("InplaceIndexAdd", var, index, rows, out=var, axis=axis)
    elif var.dtype in (FLOAT, INT32) and rows.numel:
        tasks.run("ScatterAdd", var, index, rows, out=var)
    elif var.dtype is BFLOAT16 and rows.numel:
        places = tasks.cast(index, INT32)
        numbers = made(index.shape, INT32, "numbers")
        if index.numel > 1:
            ordered = made(index.shape, INT32, "ordered")
            floats = (each.reinterpreted(FLOAT, each.numel) for each in (places, ordered))
            given, found = floats
            tasks.run("Sort", given, out=(found, numbers))
            places = ordered
        tasks.run("InplaceIndexAddWithSorted", var, rows, places, numbers, out=var)
    else:
        tasks.run("InplaceIndexAdd", var, index, rows, out=var, axis=axis)
    return tuple(tasks.kernels)


def _added(profile: Profile) -> tuple[DType, ...]:
    """What memory adds."""
    return (FLOAT,) if profile.software.compiled_for_shape else _ADDED


_ADDED = (FLOAT, FLOAT16, BFLOAT16, INT32, INT16)


def _segments(task: Task, x: GlobalTensor, inner: Sequence[int]) -> GlobalTensor:
    count = task.whole_number("num_segments", -1)
    if count < 0:
        raise task.refused("the number of segments isn't known")
    return made((count, *inner), x.dtype)
