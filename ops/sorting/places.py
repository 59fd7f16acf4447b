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
from npusim.values.dtypes import BFLOAT16, FLOAT, FLOAT16, INT32, INT64, DType
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from npusim.ascendc.loops import Index
    from npusim.hardware.profile import Profile

_SEGMENT = 8192  # elements of a row that are worked on at a time, where the axis isn't the last
_RESERVED_BYTES = 8192  # of UB, for results
_BLOCK_ROWS = 8  # that code for any shape gives to one core
_TILING_NUMBERS = 19  # that a core reads from its tiling before it starts
# Of the scalar unit: to keep the better of two extremes, in segments of a row, and for a row.
_COMPARE_OPERATIONS = 8
_ELEMENT_OPERATIONS = 4  # an address, a comparison, the better number and its place
_OF_FRAMEWORKS = ("ArgMax", "ArgMin")


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
        *,
        one_shape: bool = False,
    ) -> None:
        before, axis, behind = x.shape
        if not compares(profile, x.dtype) or places.dtype is not INT32:
            raise KernelError(self.op_type, f"doesn't compare {x.dtype}")
        self.wide = x.dtype if x.dtype in (FLOAT16, INT64) else FLOAT
        self.kept = INT64 if x.dtype is INT64 else FLOAT
        self.reads = (x,)
        self.writes = (places,) if values is None else (places, values)
        self.x, self.places = x.view(x.numel), places.view(places.numel)
        self.values = None if values is None else values.view(values.numel)
        self.axis, self.behind = axis, behind
        cores, lanes = profile.cores.vector_cores, profile.vector.repeat_bytes // x.dtype.itemsize
        if behind == 1:
            each = x.dtype.itemsize + (self.wide is not x.dtype) * self.wide.itemsize
            most = (profile.buffers.ub_bytes - _RESERVED_BYTES) // each // lanes * lanes
            self.segment = min(axis, most)
            apart = one_shape or values is not None or profile.software.compiled_for_shape
            each = 1 if apart else _rows_of_a_core(before, x.dtype, cores)
            self.grid = Grid((before,), (each,), cores)
        elif before >= cores or before >= behind // lanes:
            self.grid = Grid((before, behind), (1, min(behind, _SEGMENT)), cores, 0)
        else:
            each = min(round_up(ceil(behind / cores), lanes), _SEGMENT)
            self.grid = Grid((before, behind), (1, each), cores, 1)
        self.division = self.grid
        # Code that takes rows one by one is launched on all cores, unless there is but one row.
        self.block_dim = cores if before > 1 or behind > 1 else 1
        if behind == 1 and self.grid.extent[0] > 1:
            self.block_dim = self.grid.used_cores

    @classmethod
    def from_task(cls, task: Task) -> tuple[Kernel, ...]:
        """Along any axis; other numbers are cast first, and places to int64 in the end."""
        (x,) = task.present(1)
        axis = axis_of(task, len(x.shape)) if x.shape else 0
        if 0 in x.shape[axis : axis + 1]:
            raise task.unfit(f"places along axis {axis}, which has no elements")
        view = (prod(x.shape[:axis]), x.shape[axis], prod(x.shape[axis + 1 :]))
        tasks: list[Kernel] = []
        source = x.view(*view)
        alone = compares(task.profile, x.dtype) and (x.dtype is not INT64 or view[2] == 1)
        # A framework has places in int64, the product's own operator in int32.
        counted = INT64 if task.op_type in _OF_FRAMEWORKS else INT32
        results = list(task.outputs) or [made((view[0], view[2]), counted)]
        places = results[0]
        own = places if places.dtype is INT32 else made(places.shape, INT32)
        values = results[1] if len(results) > 1 else None
        if any(each.numel != view[0] * view[2] for each in results[:2]):
            raise task.unfit(f"places {places.shape} along axis {axis} of {x.shape}")
        if x.dtype is INT64 and not alone:
            return (_on_ai_cpu(task, cls, source),)
        if not alone:
            source = made(view, FLOAT)
            tasks += cast(task, x.view(*view), source)
        one_shape = bool(task.attributes.get("compiled_for_shape", False))
        tasks.append(cls(task.profile, source, own, values, one_shape=one_shape))
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

    def _widened(self, core: Core, wide: TBuf, x: LocalTensor) -> LocalTensor:
        """A tile in the type that the vector unit compares; integers of 64 bits stay."""
        return x if self.wide is x.dtype else core.cast(wide.get(self.wide, *x.shape), x)

    def _best(self, values: NDArray[Any], axis: int) -> NDArray[np.intp]:
        found = np.argmax(values, axis) if self.largest else np.argmin(values, axis)
        return np.asarray(found)

    def _rows(self, core: Core) -> None:
        size = self.x.dtype.itemsize
        buffers = (
            1
            if self.values is None
            or self.wide is not self.x.dtype
            or 2 * self.segment * size > core.capacity_bytes("UB")
            else 2
        )
        in_que = TQue(TPosition.VECIN, buffers, "row")
        out_que, best = TQue(TPosition.VECOUT, 1, "places"), TBuf("best")
        wide = TBuf("wide")
        core.pipe.init_buffer(in_que, buffers, self.segment * size)
        if self.wide is not self.x.dtype:
            core.pipe.init_buffer(wide, 1, self.segment * self.wide.itemsize)
        core.pipe.init_buffer(out_que, 1, 2 * core.block_bytes)
        core.pipe.init_buffer(best, 1, core.block_bytes)
        for row in self._rows_of(core):
            chosen = core.duplicate(best.get(self.kept, 2), 0)
            for start, length in core.tiles(0, self.axis, self.segment, sequential=True):
                places = (*((each, self.axis) for each in row), (start, 1))
                x = in_que.copy_in(self.x.window(places, (length,), (1,)))
                self._fold(core, chosen, self._widened(core, wide, x))
                self._keep(core, chosen, x, start)
                in_que.free_tensor(x)
            self._store(core, out_que, chosen, row)

    def _rows_of(self, core: Core) -> Iterator[tuple[Index, ...]]:
        """The rows of a core, each by numbers whose sum it is."""
        for piece in self.grid.pieces(core):
            (first,), (rows,) = piece.starts, piece.shape
            if rows == 1:
                yield (first,)
            else:
                for turn in core.loop(rows):
                    yield first, turn

    def _fold(self, core: Core, chosen: LocalTensor, x: LocalTensor) -> None:
        """Extremes of every repeat, with places; then of those, until one is left.

        Integers of 64 bits, which no vector instruction takes, are compared by the scalar unit.
        """
        length, lanes = x.numel, core.costs.repeat_elements(x.dtype.itemsize)
        if x.dtype is INT64:
            core.noted(x)
            core.scalar_loop(length)
            core.emit_scalar("ld_ub", loads=length, operations=length * _ELEMENT_OPERATIONS)
            core.noted(chosen)
            return
        # The mask of the last repeat, bit by bit but for a full word, of as many bits as floats.
        rest, word = length % lanes, core.costs.repeat_elements(FLOAT.itemsize)
        core.scalar_loop(rest - word if rest >= word else rest)
        while length > 1:
            core.emit_vector("vcmax", x.dtype, length, chained=True)
            core.noted(chosen)
            length = 0 if length <= lanes else 2 * ceil(length / lanes)
        core.wait_vector()
        core.emit_scalar("ld_ub", loads=2, operations=_COMPARE_OPERATIONS)

    def _keep(self, core: Core, chosen: LocalTensor, x: LocalTensor, start: Any) -> None:
        """The better of what was chosen before and the best of a segment."""
        if not core.numerics:
            return
        depth, held = core.depth, chosen.target(core.depth, whole=False)
        values = x.values(depth).astype(self.kept.numpy)
        place = self._best(values, -1)[..., None]
        value = np.take_along_axis(values, place, -1)[..., 0]
        first = core.counter(start).values(depth)
        better = value > held[..., 0] if self.largest else value < held[..., 0]
        better |= first == 0
        # Places are kept as float64 would keep them: whole numbers up to 2**24 are exact.
        held[..., 1] = np.where(better, place[..., 0] + first, held[..., 1])
        held[..., 0] = np.where(better, value, held[..., 0])

    def _store(
        self, core: Core, out_que: TQue, chosen: LocalTensor, row: tuple[Index, ...]
    ) -> None:
        where = tuple((each, 1) for each in row)
        core.emit_scalar("st_ub", stores=1)
        place = core.duplicate(out_que.alloc_tensor(INT32, 1), 0)
        if core.numerics:
            place.target(core.depth)[...] = chosen.values(core.depth)[..., 1:]
        out_que.copy_out(self.places.window(where, (1,), (1,)), place)
        if self.values is not None:
            value = core.duplicate(out_que.alloc_tensor(self.values.dtype, 1), 0.0)
            if core.numerics:
                value.target(core.depth)[...] = chosen.values(core.depth)[..., :1]
            out_que.copy_out(self.values.window(where, (1,), (1,)), value)

    def _columns(self, core: Core) -> None:
        size, most = self.x.dtype.itemsize, self.grid.extent[1]
        lanes = core.costs.repeat_elements(self.wide.itemsize)
        in_que, wide = TQue(TPosition.VECIN, 1, "row"), TBuf("wide")
        best_que, place_que = TQue(TPosition.VECOUT, 1, "best"), TQue(TPosition.VECOUT, 1, "places")
        core.pipe.init_buffer(in_que, 1, most * size)
        if self.wide is not self.x.dtype:
            core.pipe.init_buffer(wide, 1, most * self.wide.itemsize)
        core.pipe.init_buffer(best_que, 1, most * self.wide.itemsize)
        core.pipe.init_buffer(place_que, 1, most * INT32.itemsize)
        for piece in self.grid.pieces(core):
            (outer, first), length = piece.starts, piece.shape[1]
            best = core.duplicate(best_que.alloc_tensor(self.wide, length), 0.0)
            place = core.duplicate(place_que.alloc_tensor(INT32, length), 0)
            for turn in core.loop(self.axis, sequential=True):
                where = ((outer, self.axis * self.behind), (turn, self.behind), (first, 1))
                x = in_que.copy_in(self.x.window(where, (length,), (1,)))
                tile = self._widened(core, wide, x)
                self._mark(core, best, place, ceil(length / lanes))
                core.record_vector("vmax", best, length)
                self._compare(core, best, place, tile, turn)
                in_que.free_tensor(x)
            target = ((outer, self.behind), (first, 1))
            place_que.copy_out(self.places.window(target, (length,), (1,)), place)
            if self.values is not None:
                if self.wide is not self.values.dtype:
                    raise KernelError(self.op_type, f"gives no values of {self.values.dtype}")
                best_que.copy_out(self.values.window(target, (length,), (1,)), best)
            else:
                best_que.enque(best)
                best_que.free_tensor(best_que.deque(best))

    def _mark(self, core: Core, best: LocalTensor, place: LocalTensor, repeats: int) -> None:
        """Places of better elements are filled in by masks that the scalar unit reads.

        In float16, which counts as far as most axes reach, they are selected.
        """
        lanes = core.costs.repeat_elements(self.wide.itemsize)
        if self.wide is FLOAT16:
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


def _rows_of_a_core(rows: int, kind: DType, cores: int) -> int:
    """Rows that a core takes in code for any shape: blocks of eight; fewer are one core's.

    Source: op_tiling/arg_max_v2.cc, which is older than BFLOAT16: 66 rows of that ran on 5 cores of
    910B3, in blocks of sixteen.
    """
    block = 2 * _BLOCK_ROWS if kind is BFLOAT16 else _BLOCK_ROWS
    return rows if rows < block else round_up(ceil(rows / cores), block)


def compares(profile: Profile, kind: DType) -> bool:
    """Whether the kernel takes a dtype as it is; A2's also takes others (ops-math, arg_max_v2)."""
    if kind in (FLOAT, FLOAT16):
        return True
    return kind in (BFLOAT16, INT32, INT64) and profile.supports_convert(
        BFLOAT16.intrinsic, FLOAT.intrinsic
    )


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
