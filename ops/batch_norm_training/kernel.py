"""Gradients of batch normalisation: per-channel sums first, then the gradient of the input.

Tensors are NC1HWC0: channels in slices of C0 = 16 that lie beside each other, so a channel's statistics act on columns.
Everything is computed in float32.
"""

from __future__ import annotations

from collections.abc import Hashable
from math import ceil

from npusim.dialect import (
    Core,
    GlobalTensor,
    Kernel,
    LocalTensor,
    LoopIndex,
    RoundMode,
    TBuf,
    TPosition,
    TQue,
)
from npusim.dialect.gm import GmSlice
from npusim.hardware.profile import Profile
from npusim.values.dtypes import FLOAT

_TILES = 5  # float32 tiles in UB: two inputs, their copies or scratch, and room for slots


class _SlicedKernel(Kernel):
    """Work on (slice, rows) pairs: cores share slices, and the rows of a slice where there are few slices."""

    def __init__(
        self, profile: Profile, grads: GlobalTensor, x: GlobalTensor, *, epsilon: float
    ) -> None:
        batch, slices, rows, lanes = grads.shape
        self.epsilon = epsilon
        self.grads, self.x = (
            grads.view(batch * slices, rows, lanes),
            x.view(batch * slices, rows, lanes),
        )
        self.slices, self.rows, self.lanes = batch * slices, rows, lanes
        cores = profile.cores.vector_cores
        self.parts = max(1, min(cores // self.slices, ceil(rows / 64)))
        self.rows_per_part = ceil(rows / self.parts)
        self.parts = ceil(rows / self.rows_per_part)
        self.slices_per_core = ceil(self.slices * self.parts / cores) if self.parts == 1 else 1
        self.block_dim = ceil(self.slices / self.slices_per_core) * self.parts
        limit = profile.buffers.ub_bytes // (2 * _TILES) // FLOAT.itemsize // lanes
        self.tile_rows = max(1, min(limit, self.rows_per_part))

    def work(self, block_idx: int) -> Hashable:
        slices, part = divmod(block_idx, self.parts)
        return (self._slice_count(slices), self._row_count(part))

    def _slice_count(self, index: int) -> int:
        return min(self.slices_per_core, self.slices - index * self.slices_per_core)

    def _row_count(self, part: int) -> int:
        return min(self.rows_per_part, self.rows - part * self.rows_per_part)

    def _reserve(self, core: Core) -> None:
        tile = self.tile_rows * self.lanes
        self.queues = [TQue(TPosition.VECIN, self.buffer_num, name) for name in ("grads", "x")]
        self.wides = [TBuf("grads32"), TBuf("x32")]
        for queue, wide in zip(self.queues, self.wides, strict=True):
            core.pipe.init_buffer(queue, self.buffer_num, tile * self.grads.dtype.itemsize)
            if self.grads.dtype is not FLOAT:
                core.pipe.init_buffer(wide, 1, tile * FLOAT.itemsize)
        self.row_que = TQue(TPosition.VECIN, 1, "statistics")
        core.pipe.init_buffer(self.row_que, 4, self.lanes * FLOAT.itemsize)
        self.rows_buf = [TBuf(name) for name in ("rstd", "first", "second", "part")]
        for buffer in self.rows_buf:
            core.pipe.init_buffer(buffer, 1, self.lanes * FLOAT.itemsize)

    def _tile(self, core: Core, index: int, tensor: GlobalTensor, piece: GmSlice) -> LocalTensor:
        loaded = self.queues[index].copy_in(piece)
        if loaded.dtype is FLOAT:
            return loaded
        wide = core.cast(self.wides[index].get(FLOAT, *loaded.shape), loaded, RoundMode.CAST_NONE)
        self.queues[index].free_tensor(loaded)
        return wide

    def _release(self, tiles: tuple[LocalTensor, LocalTensor]) -> None:
        if self.grads.dtype is FLOAT:
            for queue, tile in zip(self.queues, tiles, strict=True):
                queue.free_tensor(tile)

    def _piece(
        self, tensor: GlobalTensor, index: LoopIndex, first: LoopIndex, rows: int
    ) -> GmSlice:
        places = ((index, self.rows * self.lanes), (first, self.lanes))
        return tensor.window(places, (rows, self.lanes), (self.lanes, 1))

    def _statistic(self, source: GlobalTensor, index: LoopIndex) -> LocalTensor:
        """One row of per-channel numbers; slots are few, so the row is copied where it must stay."""
        return self.row_que.copy_in(source.view(self.slices, self.lanes)[index])

    def _rstd(self, core: Core, variance: GlobalTensor, index: LoopIndex) -> LocalTensor:
        """1 / sqrt(variance + epsilon) of a slice's channels."""
        row = self._statistic(variance, index)
        rstd = self.rows_buf[0].get(FLOAT, 1, self.lanes)
        core.adds(rstd[0], row, self.epsilon)
        self.row_que.free_tensor(row)
        core.sqrt(rstd[0], rstd[0])
        core.duplicate(self.rows_buf[3].get(FLOAT, self.lanes), 1.0)
        core.div(rstd[0], self.rows_buf[3].get(FLOAT, self.lanes), rstd[0])
        return rstd

    def _kept(
        self, core: Core, slot: int, source: GlobalTensor, index: LoopIndex, scale: float
    ) -> LocalTensor:
        row = self._statistic(source, index)
        kept = self.rows_buf[slot].get(FLOAT, 1, self.lanes)
        core.muls(kept[0], row, scale)
        self.row_que.free_tensor(row)
        return kept


class BNTrainingUpdateGrad(_SlicedKernel):
    """diff_offset = sum(grads), diff_scale = sum(grads * (x - mean) * rstd) per channel.

    grads and x are [N, C1, rows, C0]; statistics and results are float32 of N * C1 * C0 elements. Where several cores
    share a slice they add into results that another task has cleared.
    """

    op_type = "BNTrainingUpdateGrad"

    def __init__(
        self,
        profile: Profile,
        grads: GlobalTensor,
        x: GlobalTensor,
        mean: GlobalTensor,
        variance: GlobalTensor,
        diff_scale: GlobalTensor,
        diff_offset: GlobalTensor,
        *,
        epsilon: float,
    ) -> None:
        super().__init__(profile, grads, x, epsilon=epsilon)
        self.mean, self.variance = mean, variance
        self.results = (diff_offset, diff_scale)
        self.reads, self.writes = (grads, x, mean, variance), (diff_scale, diff_offset)

    def process(self, core: Core) -> None:
        self._reserve(core)
        work = TBuf("work")
        core.pipe.init_buffer(work, 1, self.tile_rows * self.lanes * FLOAT.itemsize)
        sums_que = TQue(TPosition.VECOUT, 1, "sums")
        core.pipe.init_buffer(sums_que, 1, 2 * self.lanes * FLOAT.itemsize)
        share, part = divmod(core.get_block_idx(), self.parts)
        for turn in core.loop(self._slice_count(share)):
            index = turn + share * self.slices_per_core
            rstd = self._rstd(core, self.variance, index)
            mean = self._kept(core, 1, self.mean, index, 1.0)
            sums = sums_que.alloc_tensor(FLOAT, 2, self.lanes)
            core.duplicate(sums, 0.0)
            first_row = part * self.rows_per_part
            for first, rows in core.tiles(
                first_row, self._row_count(part), self.tile_rows, sequential=True
            ):
                grads = self._tile(core, 0, self.grads, self._piece(self.grads, index, first, rows))
                x = self._tile(core, 1, self.x, self._piece(self.x, index, first, rows))
                partial = self.rows_buf[3].get(FLOAT, self.lanes)
                core.add(sums[0], sums[0], core.fold_rows(partial, grads))
                product = work.get(FLOAT, rows, self.lanes)
                core.sub(product, x, mean)
                core.mul(product, product, rstd)
                core.mul(product, product, grads)
                core.add(sums[1], sums[1], core.fold_rows(partial, product))
                self._release((grads, x))
            sums_que.enque(sums)
            sums_que.deque(sums)
            if self.parts > 1:
                core.set_atomic_add(self.parts)
            for row, result in enumerate(self.results):
                core.copy_runs(result.view(self.slices, self.lanes)[index], sums[row])
            core.set_atomic_none()
            sums_que.free_tensor(sums)


class BNTrainingReduceGrad(_SlicedKernel):
    """y = (grads - diff_offset / n - xh * diff_scale / n) * rstd, with xh = (x - mean) * rstd and unit weights.

    ``count`` is n, the elements of a channel.
    """

    op_type = "BNTrainingReduceGrad"

    def __init__(
        self,
        profile: Profile,
        grads: GlobalTensor,
        x: GlobalTensor,
        diff_scale: GlobalTensor,
        diff_offset: GlobalTensor,
        scale: GlobalTensor,
        mean: GlobalTensor,
        variance: GlobalTensor,
        y: GlobalTensor,
        *,
        epsilon: float,
        count: int,
    ) -> None:
        super().__init__(profile, grads, x, epsilon=epsilon)
        self.statistics = (diff_scale, diff_offset, scale, mean, variance)
        self.count = count
        self.y = y.view(self.slices, self.rows, self.lanes)
        self.reads, self.writes = (grads, x, *self.statistics), (y,)

    def process(self, core: Core) -> None:
        self._reserve(core)
        out_que = TQue(TPosition.VECOUT, self.buffer_num, "y")
        core.pipe.init_buffer(
            out_que, self.buffer_num, self.tile_rows * self.lanes * self.y.dtype.itemsize
        )
        slope_buf = TBuf("slope")
        core.pipe.init_buffer(slope_buf, 1, self.lanes * FLOAT.itemsize)
        diff_scale, diff_offset, scale, mean, variance = self.statistics
        share, part = divmod(core.get_block_idx(), self.parts)
        for turn in core.loop(self._slice_count(share)):
            index = turn + share * self.slices_per_core
            rstd = self._rstd(core, variance, index)
            centre = self._kept(core, 1, mean, index, 1.0)
            offset = self._kept(core, 2, diff_offset, index, 1.0 / self.count)
            slope = slope_buf.get(FLOAT, 1, self.lanes)
            row = self._statistic(diff_scale, index)
            core.muls(slope[0], row, 1.0 / self.count)
            self.row_que.free_tensor(row)
            core.mul(slope[0], slope[0], rstd[0])
            weight = self._kept(core, 3, scale, index, 1.0)
            first_row = part * self.rows_per_part
            for first, rows in core.tiles(first_row, self._row_count(part), self.tile_rows):
                grads = self._tile(core, 0, self.grads, self._piece(self.grads, index, first, rows))
                x = self._tile(core, 1, self.x, self._piece(self.x, index, first, rows))
                core.sub(x, x, centre)
                core.mul(x, x, slope)
                core.sub(grads, grads, offset)
                core.sub(grads, grads, x)
                core.mul(grads, grads, rstd)
                y = out_que.alloc_tensor(self.y.dtype, rows, self.lanes)
                if y.dtype is FLOAT:
                    core.mul(y, grads, weight)
                else:
                    core.mul(grads, grads, weight)
                    core.cast(y, grads, RoundMode.CAST_RINT)
                self._release((grads, x))
                out_que.copy_out(self._piece(self.y, index, first, rows), y)
