"""Everything folded into one number.

Each core folds its share. Sums are added into a result that another task has cleared; other folds,
and results of half types, meet in workspace, where one core finishes them behind a barrier.
Kernels compiled for one shape split an axis into shares of size // cores, or of size // KiB where
those are fewer, which leaves one small share more than were wanted; of few elements those for any
shape make such shares of whole blocks. Tiles are as large as UB takes; the next is loaded while one
is folded where a share holds more than two whole ones. Source: public tensor compiler
(reduce_atomic_schedule.py, _elewise_tiling and _is_need_double_buffer; vector_schedule.py,
_get_block_tiling); block counts of recorded kernels (31 on 30 cores, 4 of 640 float32; of 4096
float32 52 on 48).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from math import ceil
from typing import TYPE_CHECKING

from npusim.ascendc import Core, GlobalTensor, GmBuffer, LocalTensor, TPosition, TQue
from npusim.ops.reduction.job import Job, Results
from npusim.schedules.block_split import block_split
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import FLOAT

if TYPE_CHECKING:
    from npusim.engine.program import Barrier

_LEAST_BYTES = 1024  # of the input for a core
_LANES = 64  # elements of a repeat
_MANY_TILES = 2  # whole ones, beyond which the next is loaded while one is folded


class TotalPlan:
    """Shares of the flattened input, one for each block; the ``finisher`` folds the last time."""

    def __init__(self, job: Job, shape: tuple[int, ...], finisher: int = 0) -> None:
        self.finisher = finisher
        self.job, self.shape, self.elements = job, shape, job.x.numel
        native = job.out.dtype is job.dtype and job.dtype is FLOAT
        self.atomic = job.kind.is_linear and native
        self.staged = not self.atomic and not job.for_one_shape
        self.share = self._share()
        if not self.atomic and not self.staged:
            self.share = self.elements
        self.block_dim = ceil(self.elements / self.share)
        limit = job.tile_limit(2)
        self.tile = min(self.share, limit)
        self.depth = 2 if self.share // self.tile > _MANY_TILES else 1
        self.scratch: tuple[GlobalTensor, ...] = ()
        if self.staged and self.block_dim > 1:
            self.meet()

    def meet(self) -> None:
        """All blocks leave what they found in workspace."""
        self.atomic, job = False, self.job
        self.lanes = job.profile.buffers.block_bytes // job.dtype.itemsize
        buffer = GmBuffer("partial", self.block_dim * self.lanes * job.dtype.itemsize)
        self.scratch = (GlobalTensor(buffer, job.dtype, (self.block_dim, self.lanes)),)

    def block_kind(self, block: int) -> Hashable:
        """Elements of a block, who adds with it, and whether it finishes what all found."""
        adders = self.job.adders(block, self.block_dim)
        finishes = bool(self.scratch) and block == self.finisher
        return finishes, adders, self.length(block)

    def process(self, core: Core) -> Iterator[Barrier]:
        """A block's shares; then, behind a barrier, what all blocks found."""
        self.fold_share(core)
        if not self.scratch:
            return
        yield core.sync_all()
        core.pipe.reset()
        self.finish(core)

    def fold_share(self, core: Core) -> None:
        """A block's share: to the result, or to workspace where all blocks' meet."""
        job, block = self.job, core.get_block_idx()
        tiles = job.tiles(core, self.tile, self.depth)
        results = Results(core, job, job.block)
        fold = job.kind.fold
        start, length = block * self.share, self.length(block)
        total = results.sums.get(job.dtype, 1)
        core.duplicate(total, fold.neutral_in(job.dtype))
        flat = job.x.view(job.x.numel)
        for first, count in core.tiles(start, length, self.tile, accumulates=True):
            tile = tiles.load_at(first, count)
            part = core.reduce(fold, results.part.get(job.dtype, 1), tile)
            core.accumulate(fold, total, part)
            kept = None if job.kept is None else job.kept.view(flat.numel).span(first, count)
            tiles.release(tile, kept)
        if self.scratch:
            self._leave(core, block, total)
        else:
            adders = job.adders(block, self.block_dim) if self.atomic else 0
            results.store(total, ((0, 1),), sharers=adders)

    def finish(self, core: Core) -> None:
        """The finishing block folds what all blocks have left."""
        if self.scratch and core.get_block_idx() == self.finisher:
            self._fold_partials(core)

    def _leave(self, core: Core, block: int, total: LocalTensor) -> None:
        """A block of neutral numbers with the share's in front, into workspace."""
        job = self.job
        queue = TQue(TPosition.VECOUT, 1, "partial")
        core.pipe.init_buffer(queue, 1, self.lanes * job.dtype.itemsize)
        neutral = job.kind.fold.neutral_in(job.dtype)
        row = core.duplicate(queue.alloc_tensor(job.dtype, self.lanes), neutral)
        core.move(row[:1], total)
        queue.copy_out(self.scratch[0].span(block * self.lanes, self.lanes), row)

    def _fold_partials(self, core: Core) -> None:
        job, size = self.job, self.block_dim * self.lanes
        queue, results = TQue(TPosition.VECIN, 1, "partials"), Results(core, job, job.block)
        core.pipe.init_buffer(queue, 1, size * job.dtype.itemsize)
        partials = queue.copy_in(self.scratch[0].span(0, size))
        total = core.reduce(job.kind.fold, results.sums.get(job.dtype, 1), partials)
        queue.free_tensor(partials)
        results.store(total, ((0, 1),))

    def _share(self) -> int:
        """Elements of a share."""
        job, elements = self.job, self.elements
        if job.for_one_shape:
            alike = job.kind.before == ""  # neighbouring reduced axes count as one
            shape = (elements,) if alike else self.shape or (1,)
            split = block_split(shape, job.dtype.itemsize, job.cores, _LEAST_BYTES)
            return shape[split.axis] // split.parts * split.inner
        least = _LEAST_BYTES // job.dtype.itemsize
        if elements <= least:
            return elements
        if self.atomic and elements < job.cores * least:
            return max(_LANES, elements // job.cores // job.block * job.block)
        parts = min(job.cores, ceil(elements / least))
        return round_up(ceil(elements / parts), job.block)

    def length(self, block: int) -> int:
        """Elements of a block."""
        return min(self.share, self.elements - block * self.share)
