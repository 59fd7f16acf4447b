"""Running extremes along the first axis and where they were: Cummin, Cummax.

A step compares a row of the input with the last row of both results, which comes back from device
memory. All cores but one share a row if it has 32 elements for each of them, the last takes what is
left; of shorter rows one core takes everything. Source: public operator sources (cummin.py).
"""

from __future__ import annotations

from collections.abc import Hashable
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from npusim.ascendc import Core, GlobalTensor, Kernel, LocalTensor, TBuf, TPosition, TQue, TQueBind
from npusim.ascendc.ai_cpu import AiCpuKernel
from npusim.ascendc.conversions import conversion_path
from npusim.ascendc.events import Event
from npusim.ascendc.task import Task, made
from npusim.engine.program import Pipe
from npusim.ops.sorting.axes import axis_of, cast, lies_there, moved, moved_back
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import DOUBLE, FLOAT, FLOAT16, INT32, INT64
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.ascendc.loops import Index
    from npusim.hardware.profile import Profile

_LEAST = 32  # elements of a row for each core
_GRAIN = 64  # elements that are compared at a time
# Of the scalar unit between two steps, when everything has come to rest: a division for the row,
# and the addresses of three loads and two stores.
_STEP_OPERATIONS = 20 + 5 * 8


class Cummin(Kernel):
    """y[i] = the smallest of x[..i], index[i] = where; the last of equal ones counts."""

    op_type = "Cummin"
    is_better: ClassVar[np.ufunc] = np.less_equal

    def __init__(
        self, profile: Profile, x: GlobalTensor, y: GlobalTensor, index: GlobalTensor
    ) -> None:
        if index.dtype is not INT32 or x.dtype is not y.dtype or x.shape != y.shape:
            raise KernelError(self.op_type, f"{x.dtype} {x.shape} into {y.dtype}, {index.dtype}")
        self.reads, self.writes = (x,), (y, index)
        self.x, self.y, self.index = (each.view(each.numel) for each in (x, y, index))
        self.steps, self.width = x.shape[0], prod(x.shape[1:])
        compared = x.dtype if x.dtype in (FLOAT, FLOAT16) else FLOAT
        self.widen = conversion_path(profile, x.dtype, compared)
        self.compared = compared
        sharing = profile.cores.vector_cores - 1
        self.shared = max(1, sharing) if self.width >= sharing * _LEAST else 1
        self.each = self.width // self.shared // _LEAST * _LEAST if self.shared > 1 else self.width
        rest = self.width - self.shared * self.each
        self.block_dim = self.shared + (rest > 0)
        self.rest = min(self.width, round_up(rest, _LEAST))
        wide = (self.compared.itemsize if self.widen else 0) + FLOAT.itemsize
        a_number = 2 * (x.dtype.itemsize + INT32.itemsize + wide) + 2
        self.most = profile.buffers.ub_bytes // a_number // 2 // _GRAIN * _GRAIN

    @classmethod
    def from_task(cls, task: Task) -> tuple[Kernel, ...]:
        """Along any axis, as the aclnn interface does it: turned, and back; places are cast."""
        (x,) = task.present(1)
        axis = axis_of(task, len(x.shape), 0 if not task.attributes else -1)
        y = task.outputs[0] if task.outputs else made(x.shape, x.dtype)
        index = task.outputs[1] if len(task.outputs) > 1 else made(x.shape, INT64)
        if x.dtype is DOUBLE:
            return (cls._on_ai_cpu(x, y, index, axis),)
        source, turns = moved(task, x, axis, 0)
        tasks: list[Kernel] = list(turns)
        results = []
        for out in (y, index):
            kind = source.dtype if out is y else INT32
            own = lies_there(out, axis, 0) and out.dtype is kind
            results.append(out.view(*source.shape) if own else made(source.shape, kind))
        tasks.append(cls(task.profile, source, *results))
        for out, found in zip((y, index), results, strict=True):
            tasks += _back(task, found, out, axis)
        return tuple(tasks)

    def block_kind(self, block_idx: int) -> Hashable:
        return block_idx < self.shared

    @classmethod
    def _on_ai_cpu(
        cls, x: GlobalTensor, y: GlobalTensor, index: GlobalTensor, axis: int
    ) -> AiCpuKernel:
        """Of float64. Source: ops-math cummax and cummin (op_api)."""
        best = np.maximum if cls.is_better is np.greater_equal else np.minimum

        def compute(numbers: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
            found = best.accumulate(numbers, axis)
            at: NDArray[Any] = np.indices(numbers.shape, sparse=True)[axis]
            places = np.where(cls.is_better(numbers, found), at, 0)
            return found, np.maximum.accumulate(places, axis).astype(index.dtype.numpy)

        return AiCpuKernel(cls.op_type, (x,), (y, index), 2 * x.numel, compute)

    def process(self, core: Core) -> None:
        """Step by step, stretch by stretch."""
        block = core.get_block_idx()
        count = self.each if block < self.shared else self.rest
        first = block * self.each if block < self.shared else self.width - self.rest
        most = min(count, self.most)
        self._values = TQueBind(1, "values")
        self._last, self._before = TQue(TPosition.VECIN, 1, "last"), TQue(TPosition.VECIN, 1)
        self._places, self._scratch = TQue(TPosition.VECOUT, 1, "places"), TBuf("compared")
        for queue in (self._values, self._last):
            core.pipe.init_buffer(queue, 1, most * self.x.dtype.itemsize)
        for place in (self._before, self._places):
            core.pipe.init_buffer(place, 1, most * INT32.itemsize)
        core.pipe.init_buffer(self._scratch, 1, most * FLOAT.itemsize)
        for start, length in self._stretches(first, count):
            self._begin(core, start, length)
        stored = Event(core, Pipe.MTE3, Pipe.SCALAR, set_before=True)
        for turn in core.loop(self.steps - 1, sequential=True):
            stored.wait()
            core.scalar_loop()
            core.scalar_alu("row", _STEP_OPERATIONS)
            for start, length in self._stretches(first, count):
                self._step(core, turn + 1, start, length)
            stored.set()

    def _stretches(self, first: int, count: int) -> list[tuple[int, int]]:
        return [
            (first + start, min(self.most, count - start)) for start in range(0, count, self.most)
        ]

    def _begin(self, core: Core, start: int, length: int) -> None:
        x = self._values.copy_in(self.x.span(start, length))
        places = core.duplicate(self._places.alloc_tensor(INT32, length), 0)
        self._values.copy_out(self.y.span(start, length), x)
        self._places.copy_out(self.index.span(start, length), places)

    def _step(self, core: Core, row: Index, start: int, length: int) -> None:
        here, above = ((row, self.width), (start, 1)), ((row + -1, self.width), (start, 1))
        x = self._values.copy_in(self.x.window(here, (length,), (1,)))
        last = self._last.copy_in(self.y.window(above, (length,), (1,)))
        before = self._before.copy_in(self.index.window(above, (length,), (1,)))
        places = self._places.alloc_tensor(INT32, length)
        scratch = self._scratch.get(FLOAT, length)
        core.record_vector("vector_dup", places, length)
        for _ in range(2 * (1 + len(self.widen))):
            core.record_vector("vconv", scratch, length)
        for _ in core.loop(-(-length // _GRAIN)):
            self._compare(core, scratch)
        for _ in range(1 + len(self.widen)):
            core.record_vector("vconv", scratch, length)
        core.noted(places)
        self._choose(core, row, (x, last), (before, places))
        self._last.free_tensor(last)
        self._before.free_tensor(before)
        self._values.copy_out(self.y.window(here, (length,), (1,)), x)
        self._places.copy_out(self.index.window(here, (length,), (1,)), places)

    def _compare(self, core: Core, scratch: LocalTensor) -> None:
        """64 elements: compared, then both results selected, each by the mask from UB."""
        core.record_vector("vcmpv_le", scratch, _GRAIN)
        for _ in range(2):
            core.record_vector("set_cmpmask", scratch, 1)
            core.record_vector("vsel", scratch, _GRAIN)

    def _choose(
        self,
        core: Core,
        row: Index,
        values: tuple[LocalTensor, LocalTensor],
        places: tuple[LocalTensor, LocalTensor],
    ) -> None:
        if not core.numerics:
            return
        depth, (x, last), (before, place) = core.depth, values, places
        new, old = x.values(depth), last.values(depth)
        kind = self.compared.numpy
        better = self.is_better(new.astype(kind), old.astype(kind))
        now = core.counter(row).values(depth)[..., None]
        place.target(depth)[...] = np.where(better, now, before.values(depth))
        chosen = np.where(better, new, old)
        x.target(depth)[...] = chosen


class Cummax(Cummin):
    """y[i] = the largest of x[..i], index[i] = where; the last of equal ones counts."""

    op_type = "Cummax"
    is_better: ClassVar[np.ufunc] = np.greater_equal


def _back(task: Task, found: GlobalTensor, out: GlobalTensor, axis: int) -> list[Kernel]:
    """A result turned back, and cast where it has another dtype."""
    tasks: list[Kernel] = []
    turned = found.view(*out.shape)
    if not lies_there(out, axis, 0):
        turned = out if found.dtype is out.dtype else made(out.shape, found.dtype)
        tasks += moved_back(task, found, turned, axis, 0)
    if turned.dtype is not out.dtype:
        tasks += cast(task, turned, out)
    return tasks
