"""Sums per channel: what batch normalisation needs of its input, and its gradient of theirs.

Everything is summed in float32. Blocks that share channels add into results that another task has
cleared. Source: public tensor compiler (bn_reduce, bn_update_grad: which axis is split, sums by
halves of a tile) and operator sources (impl/bn_training_reduce.py, bn_training_update_grad.py).
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar

from npusim.ascendc import Core, GlobalTensor, LocalTensor, TBuf, TPosition, TQue
from npusim.ascendc.folds import SUM
from npusim.ops.batch_norm_training.cut import (
    Cut,
    Planes,
    Share,
    cut_batch,
    cut_height,
    cut_leading,
    cut_slices,
    lines_of_tile,
)
from npusim.ops.batch_norm_training.loading import PlaneKernel, Statistics
from npusim.values.dtypes import FLOAT

if TYPE_CHECKING:
    from npusim.ascendc.loops import Index
    from npusim.hardware.profile import Profile


_GENERAL_BYTES = 40  # of UB for an element in the general schedule: two buffers of everything


class _ChannelSums(PlaneKernel):
    """Two sums per channel over batch and rows: subclasses say of what."""

    temporaries: ClassVar[int] = 1  # float32 tiles beside the inputs
    few_rows: ClassVar[int] = 0  # of a plane, for which the special schedules aren't used
    idle_slices: ClassVar[bool] = True  # a block for every core where slices are split

    def __init__(
        self,
        profile: Profile,
        inputs: tuple[GlobalTensor, ...],
        results: tuple[GlobalTensor, GlobalTensor],
    ) -> None:
        self.inputs, self.results = inputs, results
        self.planes = Planes.of(self.op_type, inputs[-1])
        self.cut = self._cut(profile)
        self.share_out(profile, self.temporaries * FLOAT.itemsize, 4)

    def process(self, core: Core) -> None:
        share, lanes = self.cut.share(core.get_block_idx()), self.planes.lanes
        if not share.batches:
            return
        elements = self.tile_rows * lanes
        self.reserve_tiles(core, elements)
        self.buffers = [TBuf(f"work{index}") for index in range(self.temporaries)]
        part_bufs = [TBuf("part0"), TBuf("part1")]
        for buffer in (*self.buffers, *part_bufs):
            size = lanes if buffer in part_bufs else elements
            core.pipe.init_buffer(buffer, 1, size * FLOAT.itemsize)
        self.statistics = Statistics(core, share, lanes, self.kept)
        sums_que = TQue(TPosition.VECOUT, 1, "sums")
        core.pipe.init_buffer(sums_que, 1, 2 * share.slices * lanes * FLOAT.itemsize)
        self.prepare(core)
        sums = sums_que.alloc_tensor(FLOAT, 2, share.slices, lanes)
        core.duplicate(sums, 0.0)
        for piece in core.loop(share.slices):
            totals = (sums[0, piece], sums[1, piece])
            for turn in core.loop(share.batches, sequential=True):
                for first, rows in core.tiles(
                    share.first_row, share.rows, self.tile_rows, accumulates=True
                ):
                    place = (turn + share.first_batch, piece + share.first_slice, first)
                    tiles = self.load(*place, rows)
                    terms = self.terms(core, piece, tiles, rows * lanes)
                    parts = [buffer.get(FLOAT, lanes) for buffer in part_bufs]
                    core.fold_lanes(SUM, *zip(parts, terms, strict=True))
                    for total, part in zip(totals, parts, strict=True):
                        core.accumulate(SUM, total, part)
                    self.release(tiles)
        self._store(core, share, sums_que, sums)

    @abstractmethod
    def prepare(self, core: Core) -> None:
        """Bring the statistics of the share's channels into UB."""

    @abstractmethod
    def terms(
        self, core: Core, piece: Index, tiles: list[LocalTensor], elements: int
    ) -> tuple[LocalTensor, LocalTensor]:
        """What is to be summed, for one tile."""

    def _store(self, core: Core, share: Share, queue: TQue, sums: LocalTensor) -> None:
        queue.enque(sums)
        queue.deque(sums)
        if self.cut.splits_sums:
            core.set_atomic_add(self.cut.shares)
        lanes = self.planes.lanes
        for row, result in enumerate(self.results):
            place = result.view(result.numel).span(share.first_slice * lanes, share.slices * lanes)
            core.copy_runs(place, sums[row])
        core.set_atomic_none()
        queue.free_tensor(sums)

    def _cut(self, profile: Profile) -> Cut:
        """Slices if there are enough, else the height or the batch; else the general schedule's."""
        planes, cores = self.planes, profile.cores.vector_cores
        launched = cores if profile.software.compiled_for_shape else 0
        large = planes.rows > self.few_rows
        self.special = True
        if large and planes.slices >= cores:
            return cut_slices(planes, cores, launched if self.idle_slices else 0)
        if planes.height >= cores and planes.height % cores == 0:
            return cut_height(planes, cores, batches=planes.batch)
        if large and planes.batch >= cores:
            return cut_batch(planes, cores, launched)
        self.special = False
        itemsize = self.inputs[-1].dtype.itemsize
        return cut_leading(planes, itemsize, cores, slices=False, exact=False)


class BNTrainingReduce(_ChannelSums):
    """Sums of x and of its squares per channel, for x in [N, C1, H, W, C0]."""

    op_type = "BNTrainingReduce"
    names = ("x",)
    few_rows = 16
    idle_slices = False

    def __init__(
        self,
        profile: Profile,
        x: GlobalTensor,
        total: GlobalTensor,
        squares: GlobalTensor,
    ) -> None:
        super().__init__(profile, (x,), (total, squares))
        self.reads, self.writes = (x,), (total, squares)

    def prepare(self, core: Core) -> None:
        """There is nothing to prepare."""

    def terms(
        self, core: Core, piece: Index, tiles: list[LocalTensor], elements: int
    ) -> tuple[LocalTensor, LocalTensor]:
        del piece
        (x,) = tiles
        return x, core.mul(self.buffers[0].get(FLOAT, elements), x, x)


class BNTrainingUpdateGrad(_ChannelSums):
    """diff_offset = sum(grads), diff_scale = sum(grads * (x - mean) * rstd) per channel.

    grads and x are [N, C1, ..., C0]; statistics and results are float32 with one number per
    channel. Special schedules work on the statistics as they are, the general one repeats them to
    whole tiles first.
    """

    op_type = "BNTrainingUpdateGrad"
    names = ("grads", "x")
    kept = ("mean", "rstd", "ones")
    temporaries = 2

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
        epsilon: float = 1e-4,
    ) -> None:
        super().__init__(profile, (grads, x), (diff_offset, diff_scale))
        self.mean, self.variance, self.epsilon = mean, variance, epsilon
        self.reads, self.writes = (grads, x, mean, variance), (diff_scale, diff_offset)

    def fitting_rows(self, profile: Profile, most: int) -> int:
        """The general schedule lays out UB for two buffers of all that it keeps there."""
        general = profile.buffers.ub_bytes // (_GENERAL_BYTES * self.planes.lanes)
        return most if self.special else min(most, general)

    def rows_of_tile(self, share: Share, most: int) -> int:
        """The general schedule's tiles are as many whole lines as divide the plane."""
        width = self.planes.rows // self.planes.height
        if self.special or share.rows % width or width > most:
            return super().rows_of_tile(share, most)
        return lines_of_tile(share.rows // width, most // width, exact=True) * width

    def prepare(self, core: Core) -> None:
        del core
        statistics = self.statistics
        statistics.load("mean", self.mean)
        variance = statistics.load("rstd", self.variance)
        statistics.rstd("rstd", variance, self.epsilon, "ones")

    def terms(
        self, core: Core, piece: Index, tiles: list[LocalTensor], elements: int
    ) -> tuple[LocalTensor, LocalTensor]:
        grads, x = tiles
        product = self.buffers[0].get(FLOAT, elements)
        mean = self.statistics.by_slice("mean", piece)
        rstd = self.statistics.by_slice("rstd", piece)
        if self.special:
            core.by_lanes("vsub", product, x, mean)
            core.by_lanes("vmul", product, product, rstd)
        else:
            wide = self.buffers[1].get(FLOAT, elements)
            core.sub(product, x, core.spread_lanes(wide, mean))
            core.mul(product, product, core.spread_lanes(wide, rstd))
        return grads, core.mul(product, product, grads)
