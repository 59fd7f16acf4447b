"""Where the largest or smallest element along an axis is: ArgMaxV2, ArgMaxWithValue and the like.

Along the last axis each core takes rows, one by one in segments that UB holds: the vector unit
finds the extreme of every repeat with its place (vcmax), the scalar unit compares segments. Along
other axes a row is compared with the largest so far, and places are selected by the mask.
Source: public operator sources (dynamic/arg_max_v2.py, op_tiling/arg_max_v2.cc).
"""

from __future__ import annotations

from math import ceil, prod
from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.ascendc import Core, GlobalTensor, Kernel, LocalTensor, TBuf, TPosition, TQue
from npusim.ascendc.ai_cpu import AiCpuKernel
from npusim.ascendc.task import Task, made
from npusim.ops.sorting.axes import axis_of, cast
from npusim.ops.sorting.unique import COMPARED
from npusim.schedules.tile_grid import Grid
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import FLOAT, FLOAT16, INT32, INT64
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.hardware.profile import Profile

_SEGMENT = 8192  # elements of a row that are worked on at a time, where the axis isn't the last
_RESERVED_BYTES = 8192  # of UB, for results
_TILING_NUMBERS = 19  # that a core reads from its tiling before it starts
# Of the scalar unit: to keep the better of two extremes, in segments of a row, and for a row.
_COMPARE_OPERATIONS = 8


class ArgMax(Kernel):
    """places = where x is largest along its middle axis, [before, axis, behind]; values too."""

    op_type = "ArgMaxV2"
    largest = True

    def __init__(
        self,
        profile: Profile,
        x: GlobalTensor,
        places: GlobalTensor,
        values: GlobalTensor | None = None,
    ) -> None:
        before, axis, behind = x.shape
        if x.dtype not in (FLOAT, FLOAT16) or places.dtype is not INT32:
            raise KernelError(self.op_type, f"compares FLOAT and FLOAT16, not {x.dtype}")
        self.reads = (x,)
        self.writes = (places,) if values is None else (places, values)
        self.x, self.places = x.view(x.numel), places.view(places.numel)
        self.values = None if values is None else values.view(values.numel)
        self.axis, self.behind = axis, behind
        cores, lanes = profile.cores.vector_cores, profile.vector.repeat_bytes // x.dtype.itemsize
        if behind == 1:
            most = (profile.buffers.ub_bytes - _RESERVED_BYTES) // x.dtype.itemsize // lanes * lanes
            self.segment = min(axis, most)
            self.grid = Grid((before,), (1,), cores)
        elif before >= cores or before >= behind // lanes:
            self.grid = Grid((before, behind), (1, min(behind, _SEGMENT)), cores, 0)
        else:
            each = min(round_up(ceil(behind / cores), lanes), _SEGMENT)
            self.grid = Grid((before, behind), (1, each), cores, 1)
        self.division = self.grid
        # Compiled for any shape, it is launched on all cores, unless there is but one row.
        self.block_dim = cores if before > 1 or behind > 1 else 1

    @classmethod
    def from_task(cls, task: Task) -> tuple[Kernel, ...]:
        """Along any axis; other numbers are cast first, and places to int64 in the end."""
        (x,) = task.present(1)
        axis = axis_of(task, len(x.shape)) if x.shape else 0
        if 0 in x.shape[axis : axis + 1]:
            raise task.refused(f"places along axis {axis}, which has no elements")
        view = (prod(x.shape[:axis]), x.shape[axis], prod(x.shape[axis + 1 :]))
        tasks: list[Kernel] = []
        source = x.view(*view)
        if x.dtype.category != "float" and x.dtype.itemsize > INT32.itemsize:
            return (_on_ai_cpu(task, cls, source),)
        if x.dtype not in (FLOAT, FLOAT16):
            source = made(view, FLOAT)
            tasks += cast(task, x.view(*view), source)
        results = list(task.outputs) or [made((view[0], view[2]), INT32)]
        places = results[0]
        own = places if places.dtype is INT32 else made(places.shape, INT32)
        values = results[1] if len(results) > 1 else None
        if any(each.numel != view[0] * view[2] for each in results[:2]):
            raise task.refused(f"places {places.shape} along axis {axis} of {x.shape}")
        tasks.append(cls(task.profile, source, own, values))
        if own is not places:
            tasks += cast(task, own, places)
        return tuple(tasks)

    def process(self, core: Core) -> None:
        """Rows of the last axis, or stretches behind another one."""
        core.emit_scalar("tiling", loads=_TILING_NUMBERS)
        if self.behind == 1:
            self._rows(core)
        else:
            self._columns(core)

    def _best(self, values: NDArray[Any], axis: int) -> NDArray[np.intp]:
        found = np.argmax(values, axis) if self.largest else np.argmin(values, axis)
        return np.asarray(found)

    def _rows(self, core: Core) -> None:
        size = self.x.dtype.itemsize
        buffers = (
            1 if self.values is None or 2 * self.segment * size > core.capacity_bytes("UB") else 2
        )
        in_que = TQue(TPosition.VECIN, buffers, "row")
        out_que, best = TQue(TPosition.VECOUT, 1, "places"), TBuf("best")
        core.pipe.init_buffer(in_que, buffers, self.segment * size)
        core.pipe.init_buffer(out_que, 1, 2 * core.block_bytes)
        core.pipe.init_buffer(best, 1, core.block_bytes)
        for piece in self.grid.pieces(core):
            (row,) = piece.starts
            chosen = core.duplicate(best.get(FLOAT, 2), 0.0)
            for start, length in core.tiles(0, self.axis, self.segment, sequential=True):
                x = in_que.copy_in(self.x.window(((row, self.axis), (start, 1)), (length,), (1,)))
                self._fold(core, chosen, length)
                self._keep(core, chosen, x, start)
                in_que.free_tensor(x)
            self._store(core, out_que, chosen, row)

    def _fold(self, core: Core, chosen: LocalTensor, length: int) -> None:
        """Extremes of every repeat, with places; then of those, until one is left."""
        lanes = core.costs.repeat_elements(self.x.dtype.itemsize)
        core.scalar_loop(length % lanes)  # the mask of the last repeat, bit by bit
        while length > 1:
            core.emit_vector("vcmax", self.x.dtype, length, chained=True)
            core.noted(chosen)
            length = 0 if length <= lanes else 2 * ceil(length / lanes)
        core.wait_vector()
        core.emit_scalar("ld_ub", loads=2, operations=_COMPARE_OPERATIONS)

    def _keep(self, core: Core, chosen: LocalTensor, x: LocalTensor, start: Any) -> None:
        """The better of what was chosen before and the best of a segment."""
        if not core.numerics:
            return
        depth, held = core.depth, chosen.target(core.depth, whole=False)
        values = x.values(depth).astype(np.float32)
        place = self._best(values, -1)[..., None]
        value = np.take_along_axis(values, place, -1)[..., 0]
        first = core.counter(start).values(depth)
        better = value > held[..., 0] if self.largest else value < held[..., 0]
        better |= first == 0
        # Places are kept as float64 would keep them: whole numbers up to 2**24 are exact.
        held[..., 1] = np.where(better, place[..., 0] + first, held[..., 1])
        held[..., 0] = np.where(better, value, held[..., 0])

    def _store(self, core: Core, out_que: TQue, chosen: LocalTensor, row: Any) -> None:
        core.emit_scalar("st_ub", stores=1)
        place = core.duplicate(out_que.alloc_tensor(INT32, 1), 0)
        if core.numerics:
            place.target(core.depth)[...] = chosen.values(core.depth)[..., 1:]
        out_que.copy_out(self.places.span(row, 1), place)
        if self.values is not None:
            value = core.duplicate(out_que.alloc_tensor(self.values.dtype, 1), 0.0)
            if core.numerics:
                value.target(core.depth)[...] = chosen.values(core.depth)[..., :1]
            out_que.copy_out(self.values.span(row, 1), value)

    def _columns(self, core: Core) -> None:
        size, most = self.x.dtype.itemsize, self.grid.extent[1]
        lanes = core.costs.repeat_elements(size)
        in_que = TQue(TPosition.VECIN, 1, "row")
        best_que, place_que = TQue(TPosition.VECOUT, 1, "best"), TQue(TPosition.VECOUT, 1, "places")
        core.pipe.init_buffer(in_que, 1, most * size)
        core.pipe.init_buffer(best_que, 1, most * size)
        core.pipe.init_buffer(place_que, 1, most * INT32.itemsize)
        for piece in self.grid.pieces(core):
            (outer, first), length = piece.starts, piece.shape[1]
            best = core.duplicate(best_que.alloc_tensor(self.x.dtype, length), 0.0)
            place = core.duplicate(place_que.alloc_tensor(INT32, length), 0)
            for turn in core.loop(self.axis, sequential=True):
                where = ((outer, self.axis * self.behind), (turn, self.behind), (first, 1))
                x = in_que.copy_in(self.x.window(where, (length,), (1,)))
                self._mark(core, best, place, ceil(length / lanes))
                core.record_vector("vmax", best, length)
                self._compare(core, best, place, x, turn)
                in_que.free_tensor(x)
            target = ((outer, self.behind), (first, 1))
            place_que.copy_out(self.places.window(target, (length,), (1,)), place)
            if self.values is not None:
                best_que.copy_out(self.values.window(target, (length,), (1,)), best)
            else:
                best_que.enque(best)
                best_que.free_tensor(best_que.deque(best))

    def _mark(self, core: Core, best: LocalTensor, place: LocalTensor, repeats: int) -> None:
        """Places of better elements are filled in by masks that the scalar unit reads.

        In float16, which counts as far as most axes reach, they are selected.
        """
        lanes = core.costs.repeat_elements(self.x.dtype.itemsize)
        if self.x.dtype is FLOAT16:
            for _ in core.loop(repeats):
                core.record_vector("vcmpv_lt", best, lanes)
                core.record_vector("vsel", place, lanes)
            return
        core.record_vector("vcmpv_lt", best, repeats * lanes)
        core.wait_vector()
        for _ in core.loop(repeats):
            core.emit_scalar("ld_ub", loads=1, turns=1)
            core.record_vector("vector_dup", place, lanes)

    def _compare(
        self, core: Core, best: LocalTensor, place: LocalTensor, x: LocalTensor, turn: Any
    ) -> None:
        if not core.numerics:
            return
        depth = core.depth
        held, where = best.target(depth, whole=False), place.target(depth, whole=False)
        values, now = x.values(depth), core.counter(turn).values(depth)[..., None]
        better = values > held if self.largest else values < held
        better = better | (now == 0)
        where[...] = np.where(better, now, where)
        held[...] = np.where(better, values, held)


def _on_ai_cpu(task: Task, kind: type[ArgMax], x: GlobalTensor) -> Kernel:
    """Integers of 64 bits: every number is compared once."""
    outputs = task.outputs or (made((x.shape[0], x.shape[2]), INT64),)
    best = np.argmax if kind.largest else np.argmin

    def compute(numbers: NDArray[Any]) -> list[NDArray[Any]]:
        places = best(numbers, axis=1)
        values = np.take_along_axis(numbers, places[:, None], 1)[:, 0]
        return [places, values][: len(outputs)]

    return AiCpuKernel(task.op_type, (x,), outputs, x.numel * COMPARED, compute)


class ArgMin(ArgMax):
    """places = where x is smallest along its middle axis, [before, axis, behind]; values too."""

    op_type = "ArgMin"
    largest = False
