"""gradGamma and gradBeta.

Sums over the batch, gathered in global memory and brought into the outputs' dtype.

At most two addends meet in one cell, so the result doesn't depend on the order in which cores
finish.
"""

from __future__ import annotations

from collections.abc import Hashable
from math import ceil
from typing import TYPE_CHECKING

from npusim.ascendc import (
    Core,
    GlobalTensor,
    GmBuffer,
    LocalTensor,
    LoopIndex,
    RoundMode,
    TBuf,
    TPosition,
    TQue,
)
from npusim.ascendc.folds import SUM
from npusim.values.dtypes import FLOAT

if TYPE_CHECKING:
    from npusim.ops.group_norm_backward.buffers import Buffers
    from npusim.ops.group_norm_backward.tiling import Stage2, Tiling

_ZEROS = 4096  # elements cleared with one store


class ParameterSums:
    """Where the sums go while tasks run, and what remains to be done afterwards."""

    def __init__(
        self,
        tiling: Tiling,
        grad_gamma: GlobalTensor | None,
        grad_beta: GlobalTensor | None,
        buffer: GmBuffer,
    ) -> None:
        self._tiling = tiling
        self._outputs = (grad_beta, grad_gamma)  # in the order of the rows of a group's sums
        wanted = [output for output in self._outputs if output is not None]
        self._direct = tiling.user_workspace_bytes == 0 or tiling.batch == 1
        self.workspace: tuple[GlobalTensor, ...] = ()
        if wanted and not self._direct:
            self.workspace = (GlobalTensor(buffer, FLOAT, (2, tiling.rows, tiling.channels)),)
        self.stage2: Stage2 | None = tiling.stage2 if wanted else None
        self._adds = tiling.dtype is FLOAT or not self._direct
        self.needs_zero = bool(wanted) and self._adds

    def block_kind(self, block: int) -> Hashable:
        """What a block does apart from its tasks."""
        clears = self.needs_zero and block == 0
        if self.stage2 is None or block >= self.stage2.cores:
            return (clears, 0)
        return (clears, *self._slice(block)[1:])

    def clear(self, core: Core) -> None:
        """Core 0 writes zeros wherever sums will be added."""
        if core.get_block_idx() != 0:
            return
        targets = [*self.workspace]
        if self._tiling.dtype is FLOAT:
            targets += [output for output in self._outputs if output is not None]
        queue = TQue(TPosition.VECOUT, 1, "zeros")
        longest = min(_ZEROS, max(target.numel for target in targets))
        core.pipe.init_buffer(queue, 1, longest * FLOAT.itemsize)
        zeros = core.duplicate(queue.alloc_tensor(FLOAT, longest), 0.0)
        queue.enque(zeros)
        queue.deque(zeros)
        for target in targets:
            for first, length in core.tiles(0, target.numel, longest):
                core.copy_runs(target.span(first, length), zeros[:length])
        queue.free_tensor(zeros)
        core.pipe.reset()

    def add(self, core: Core, buffers: Buffers, task: LoopIndex, sums: LocalTensor) -> LocalTensor:
        """Bring the sums of one group to global memory; returns them for further use."""
        tiling = self._tiling
        buffers.sums_written(sums)
        place = ((task % tiling.group, tiling.group_channels),)
        shape = ((tiling.group_channels,), (1,))
        for row, output in enumerate(self._outputs):
            if output is None:
                continue
            if not self._adds:
                buffers.store_row(output.window(place, *shape), sums[row])
                continue
            target = output if self._direct else self.workspace[0]
            rows = (
                ()
                if self._direct
                else ((task // (2 * tiling.group), tiling.channels), (row, target.numel // 2))
            )
            core.set_atomic_add(self._sharers())
            core.copy_runs(target.window((*place, *rows), *shape), sums[row])
            core.set_atomic_none()
        return buffers.sums_stored(sums)

    def finish(self, core: Core) -> None:
        """Stage 2: add up the rows of the workspace and write the outputs."""
        if self.stage2 is None or core.get_block_idx() >= self.stage2.cores:
            return
        first, channels, first_row, rows = self._slice_place(core.get_block_idx())
        tiling, width = self._tiling, self.stage2.channels
        limit = max(1, core.capacity_bytes("UB") // (4 * width * FLOAT.itemsize))
        in_que, out_que = TQue(TPosition.VECIN, 1, "rows"), TQue(TPosition.VECOUT, 1, "out")
        total_buf, part_buf = TBuf("total"), TBuf("part")
        core.pipe.init_buffer(in_que, 1, min(limit, max(rows, 1)) * width * FLOAT.itemsize)
        core.pipe.init_buffer(out_que, 1, width * FLOAT.itemsize)
        for buffer in (total_buf, part_buf):
            core.pipe.init_buffer(buffer, 1, width * FLOAT.itemsize)
        for row, output in enumerate(self._outputs):
            if output is None:
                continue
            total = core.duplicate(total_buf.get(FLOAT, channels), 0.0)
            for start, count in core.tiles(first_row, rows, limit, accumulates=True):
                places = (
                    (start, tiling.channels),
                    (first, 1),
                    (row, tiling.rows * tiling.channels),
                )
                part = in_que.copy_in(
                    self.workspace[0].window(places, (count, channels), (tiling.channels, 1))
                )
                core.accumulate(SUM, total, core.fold_rows(part_buf.get(FLOAT, channels), part))
                in_que.free_tensor(part)
            out = out_que.alloc_tensor(output.dtype, channels)
            target = output.span(first, channels)
            if output.dtype is FLOAT:
                core.copy(out, total)
                core.set_atomic_add(self.stage2.halves)
                out_que.copy_out(target, out)
                core.set_atomic_none()
            else:
                core.cast(out, total, RoundMode.CAST_ROUND)
                out_que.copy_out(target, out)

    def _sharers(self) -> int:
        """Cores that add into the same row at the same time.

        The two batches of a pair, where they run in step.
        """
        return (
            2
            if self._tiling.batch > 1 and self._tiling.group % self._tiling.tasks_per_core == 0
            else 1
        )

    def _slice(self, block: int) -> tuple[int, int, int]:
        first, channels, _, rows = self._slice_place(block)
        return first, channels, rows

    def _slice_place(self, block: int) -> tuple[int, int, int, int]:
        """(first channel, channels, first row, rows) of a block in stage 2."""
        assert self.stage2 is not None
        tiling, stage2 = self._tiling, self.stage2
        slices = stage2.cores // stage2.halves
        half, index = divmod(block, slices)
        first = index * stage2.channels
        channels = min(stage2.channels, tiling.channels - first)
        front = ceil(tiling.rows / stage2.halves)
        rows = front if half == 0 else tiling.rows - front
        return first, channels, half * front, rows
