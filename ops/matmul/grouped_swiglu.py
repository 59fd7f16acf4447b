"""Products of int8 by groups, of which one half of each row gates the other; int8 again.

Cube cores bring the sums of all groups to workspace. When all are there, vector cores take like
shares of the rows: sums become numbers by the scales of their row and of their group's columns,
row by row they are gated and quantised by their largest element. Weights that aren't in fractals
are brought into them by a task before. Source: ops-transformer gmm/grouped_matmul_swiglu_quant,
host tiling and device schedule.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from npusim.ascendc import Core, GlobalTensor, TBuf, TPosition, TQue
from npusim.ascendc.queues import BUFFER_NUM
from npusim.ascendc.task import Task, made
from npusim.library.row_quantiser import RowQuantiser
from npusim.operators.tasks import kernels_on
from npusim.ops.matmul.grouped import GroupedMatMul, Groups, group_lengths
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import FLOAT, INT8, INT32, INT64
from npusim.values.errors import KernelError, RefusedTaskError
from npusim.values.formats import Format
from npusim.values.layouts import storage_shape

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from npusim.ascendc import Kernel, LocalTensor
    from npusim.ascendc.loops import Index
    from npusim.engine.program import Barrier
    from npusim.hardware.profile import Profile


class GroupedMatMulSwigluQuant(GroupedMatMul):
    """y, y_scale = int8(silu(left) * right) of the rows of x @ weight[group], dequantised."""

    op_type = "GroupedMatmulSwigluQuant"
    is_mix = True

    def __init__(
        self,
        profile: Profile,
        x: GlobalTensor,
        weight: GlobalTensor,
        scales: tuple[GlobalTensor, GlobalTensor],
        ends: GlobalTensor,
        results: tuple[GlobalTensor, GlobalTensor],
        groups: Groups,
    ) -> None:
        self.sums = made((groups.m, groups.n), INT32, "sums")
        super().__init__(profile, x, weight, None, ends, self.sums, groups, (False, False))
        self.column_scale, self.row_scale = scales
        self.results, self.half = results, groups.n // 2
        self.vectors = profile.cores.vector_cores
        self.reads, self.writes = (x, weight, *scales, ends), results
        self.scratch = (self.sums,)
        block, size = profile.buffers.block_bytes, FLOAT.itemsize
        row, half = (round_up(length * size, block) for length in (groups.n, self.half))
        # The device takes tiles in pairs, which it fills one after the other all the same.
        fixed = BUFFER_NUM * row + half + 2 * block
        each = row + round_up(self.half, block) + size
        paired = (profile.buffers.ub_bytes - fixed) // each // BUFFER_NUM
        beside = RowQuantiser.nbytes(self.half, elsewhere=True)
        single = (profile.buffers.ub_bytes - fixed - beside) // each
        self.most = min(max(1, paired), single)
        if self.most < 1:
            raise KernelError(self.op_type, f"a row of {groups.n} doesn't fit into UB")

    @property
    def workspace_bytes(self) -> int:
        """Bytes of the sums."""
        return self.sums.nbytes

    def block_kind(self, block_idx: int) -> Hashable:
        rows = [self._rows(lane * self.block_dim + block_idx) for lane in (0, 1)]
        lengths = tuple(tuple(count for _, _, count in each) for each in rows)
        return super().block_kind(block_idx), lengths

    def process(self, core: Core) -> Iterator[Barrier]:  # type: ignore[override]
        """Products, then rows."""
        if core.unit.kind == "cube":
            super().process(core)
            yield core.sync_all()
            return
        yield core.sync_all()
        self._init(core)
        place = core.get_sub_block_idx() * self.block_dim + core.get_block_idx()
        for group, first, count in self._rows(place):
            n = self.groups.n
            line = self.line_que.copy_in(self.column_scale.span(group * n, n))
            for start, rows in core.tiles(first, count, self.most):
                self._tile(core, line, start, rows)
            self.line_que.free_tensor(line)

    def _rows(self, place: int) -> list[tuple[int, int, int]]:
        """Group, first row and number of rows of the parts of a vector core's share."""
        total = sum(self.groups.lengths)
        each, more = divmod(total, self.vectors)
        first = place * each + min(place, more)
        last = first + each + (place < more)
        found, begin = [], 0
        for group, length in enumerate(self.groups.lengths):
            start, end = max(first, begin), min(last, begin + length)
            if start < end:
                found.append((group, start, end - start))
            begin += length
        return found

    def _init(self, core: Core) -> None:
        n, rows, size = self.groups.n, self.most, FLOAT.itemsize
        self.line_que, self.sum_que = TQue(TPosition.VECIN, 1, "line"), TQue(TPosition.VECIN, 1)
        self.y_que, self.scale_que = (TQue(TPosition.VECOUT, 1, name) for name in ("y", "scale"))
        self.numbers, self.gate = TBuf("numbers"), TBuf("gate")
        core.pipe.init_buffer(self.line_que, 1, n * size)
        core.pipe.init_buffer(self.sum_que, 1, rows * round_up(n * size, core.block_bytes))
        core.pipe.init_buffer(self.y_que, 1, rows * round_up(self.half, core.block_bytes))
        core.pipe.init_buffer(self.scale_que, 1, rows * size)
        core.pipe.init_buffer(self.numbers, 1, n * size)
        core.pipe.init_buffer(self.gate, 1, self.half * size)
        self.quantiser = RowQuantiser(core, self.half, elsewhere=True)

    def _tile(self, core: Core, line: LocalTensor, first: Index, count: int) -> None:
        n, half = self.groups.n, self.half
        y, scale = self.results
        sums = self.sum_que.copy_in(self.sums.window(((first, n),), (count, n), (n, 1)))
        out = self.y_que.alloc_tensor(INT8, count, half)
        scales = self.scale_que.alloc_tensor(FLOAT, count)
        for row in core.loop(count):
            numbers = core.cast(self.numbers.get(FLOAT, n), sums[row])
            by_row = core.load_scalar(self.row_scale.window(((first, 1), (row, 1)), (), ()))
            core.muls(numbers, numbers, by_row)
            core.mul(numbers, numbers, line)
            gated = self._gated(core, numbers)
            spare = numbers.stretch(half, half)  # what was multiplied by the gate
            self.quantiser.by_largest(gated, out[row], scales[row], spare)
        self.sum_que.free_tensor(sums)
        self.y_que.copy_out(y.window(((first, half),), (count, half), (half, 1)), out)
        self.scale_que.copy_out(scale.span(first, count), scales)

    def _gated(self, core: Core, numbers: LocalTensor) -> LocalTensor:
        """silu(left) * right."""
        left, right = (numbers.stretch(place * self.half, self.half) for place in (0, 1))
        gate = self.gate.get(FLOAT, self.half)
        core.muls(gate, left, -1.0)
        core.exp(gate, gate)
        core.adds(gate, gate, 1.0)
        core.div(gate, left, gate)
        return core.mul(gate, gate, right)


def grouped_matmul_swiglu_quant(task: Task) -> tuple[Kernel, ...]:
    """x, weight, scales of columns and of rows, and where groups end."""
    x, weight, columns, rows = task.present(4)
    ends = task.inputs[4] if len(task.inputs) > 4 else None
    if task.profile.paths.l0c_to_gm is None:
        raise task.refused(f"{task.profile.name} has no kernel for it")
    if x.dtype is not INT8 or weight.dtype is not INT8 or len(x.shape) != 2:
        raise task.refused(f"{x.dtype} times {weight.dtype} isn't modelled")
    if any(each is not None for each in task.inputs[5:]):
        raise task.refused("a bias and offsets aren't modelled")
    count, n, (m, k) = weight.shape[0], columns.shape[-1], x.shape
    tasks: tuple[Kernel, ...] = ()
    if weight.format is not Format.FRACTAL_NZ:
        if weight.shape != (count, k, n):
            raise RefusedTaskError(task.op_type, f"{x.shape} by {weight.shape} is no product")
        shape = storage_shape(weight.shape, INT8, Format.FRACTAL_NZ)
        fractals = replace(made(shape, INT8), format=Format.FRACTAL_NZ)
        tasks = kernels_on(Task(task.profile, "TransData", (weight,), (fractals,)))
        weight = fractals
    if n % 2 or columns.shape != (count, n) or rows.numel != m:
        raise task.refused(f"{columns.shape} and {rows.shape} aren't its scales")
    lengths = group_lengths(task, ends, m, count)
    results = task.outputs or (made((m, n // 2), INT8), made((m,), FLOAT, "scale"))
    if ends is None:
        ends = made((count,), INT64, "ends")
        ends.buffer.data = np.cumsum(lengths, dtype=np.int64)
    groups = Groups(lengths, m, n, k)
    y, scale = results[:2]
    kernel = GroupedMatMulSwigluQuant(
        task.profile, x, weight, (columns, rows), ends, (y, scale), groups
    )
    return (*tasks, kernel)
