"""Rows of numbers folded onto each other: the last axis stays.

Where an outer axis stays as well, cores share it and a tile is as many whole slabs (rows to be
folded onto each other) as fit. Otherwise they share the columns, or the rows, and add up what they
have in global memory (``folded_shares``). Kernels compiled for one shape wait for each tile of
slabs; columns that don't begin at block boundaries they load and add row by row. How many tiles are
under way: :meth:`Job.depth`.
Source: public tensor compiler (reduce schedules); float16 kernels of the first generation take half
the latency of a load for every such row, float32 ones all of it.
"""

from __future__ import annotations

from collections.abc import Hashable
from math import ceil
from typing import TYPE_CHECKING

from npusim.ops.reduction.adding import folded_shares
from npusim.ops.reduction.job import Job, Places, Results, Tiles, folded_places, kept_places
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import FLOAT

if TYPE_CHECKING:
    from npusim.ascendc import Core, GmSlice, LocalTensor
    from npusim.ascendc.gm_slices import Place
    from npusim.ascendc.loops import Index


class ColumnsPlan:
    """Cores share outer iterations, or columns where those are few."""

    def __init__(self, job: Job) -> None:
        self.job, nest = job, job.nest
        self.columns, self.rows = nest.inner_kept.size, nest.inner_folded.size
        shares = folded_shares(job)
        self.atomic = shares is not None
        self.row_share = shares[1] if shares else self.rows
        self.row_parts = ceil(self.rows / self.row_share)
        self.outer_share, self.column_share = self._shares()
        self.outer_parts = ceil(nest.outer / self.outer_share)
        self.column_parts = ceil(self.columns / self.column_share)
        self.block_dim = self.outer_parts * self.column_parts * self.row_parts
        self.whole = self.column_share == self.columns
        slab = self.rows * self.columns
        packed = self.whole and (job.aligned(self.columns) or self.rows == 1) and not self.atomic
        self.slabs = 0  # of a tile; none where a slab is handled in pieces
        single = len(nest.kept) <= 1 and not nest.folded
        many = 1 if job.for_one_shape else job.depth(by_rows=False)  # slots of a tile of slabs
        fits = slab <= job.tile_limit(many) and self.columns <= job.most_results(self.rows, many)
        in_slabs = packed and single and fits
        self.depth = many if in_slabs else job.depth(by_rows=False)
        limit = job.tile_limit(self.depth)
        if in_slabs:
            most = job.most_results(self.rows, self.depth) // self.columns
            self.slabs = max(1, min(self.outer_share, limit // slab, most))
        widest = job.most_results(1, self.depth) // job.block * job.block
        self.width = min(self.column_share, limit, widest)
        padded = job.padded(self.width)
        self.tile_rows = max(1, min(self.row_share, limit // padded))
        while self.tile_rows > 1 and padded > job.most_results(self.tile_rows, self.depth):
            self.tile_rows -= 1
        if self._by_single_rows:
            self.tile_rows = 1
        self.elements = self.slabs * slab if self.slabs else self.tile_rows * padded

    def block_kind(self, block: int) -> Hashable:
        """Outer iterations, rows and columns of a block, and with whom it adds."""
        adders = self.job.adders(block, self.block_dim) if self.atomic else 0
        rows = self.rows - block * self.row_share if self.atomic else self.rows
        return self._outers(block)[1], self._columns(block)[1], min(self.row_share, rows), adders

    def process(self, core: Core) -> None:
        """All results of a block."""
        job, block = self.job, core.get_block_idx()
        self.tiles = Tiles(core, job, self.elements, self.depth)
        results = max(self.slabs, 1) * job.padded(self.width)
        self.results = Results(core, job, results, self.depth)
        if self.slabs:
            first_outer, outers = self._outers(block)
            for first, count in core.tiles(first_outer, outers, self.slabs):
                self._slab_tile(core, first, count)
            return
        if not self.atomic:
            self._part(core, (0, 0), self.rows)
            return
        step, whole = self.row_share * job.nest.inner_folded.step, self.rows // self.row_share
        nbytes = self.row_share * self.width * job.dtype.itemsize
        shares = core.share(
            lambda each: min(each, whole), inner_bytes=nbytes, in_chains=False, adds_in_turn=True
        )
        for share in shares:
            self._part(core, (share, step), self.row_share)
        if block == whole:
            self._part(core, (block, step), self.rows % self.row_share)

    def _part(self, core: Core, place: tuple[Place, int], rows: int) -> None:
        """The results of a block, or its part of them: of so many rows from a place on."""
        job, block = self.job, core.get_block_idx()
        first_outer, outers = self._outers(block)
        first_column, columns = self._columns(block)
        sharers = job.adders(block, self.block_dim) if self.atomic else 0
        for turn in core.loop(outers):
            index = turn + first_outer
            for first, width in core.tiles(first_column, columns, self.width):
                base = (*kept_places(job.nest.kept, index, out=False), (first, 1), place)
                sums = self._column_tile(core, base, width, rows)
                where = (*kept_places(job.nest.kept, index, out=True), (first, 1))
                self.results.store(sums, where, sharers=sharers)

    def _slab_tile(self, core: Core, first: Index, count: int) -> None:
        """Whole slabs that lie side by side, each folded by itself."""
        job, (rows, columns) = self.job, (self.rows, self.columns)
        slab = rows * columns
        source = job.x.view(job.x.numel).window(((first, slab),), (count * slab,), (1,))
        tile = self.tiles.load(source, (count * slab,))
        sums = self.results.sums.get(job.dtype, count, columns)
        self._fold_slabs(core, sums, tile.view(count, rows, columns), tile.view(count, slab))
        self.tiles.release(tile, self._kept(((first, slab),), (count * slab,), (1,)))
        self.results.store(sums, ((first, columns),))

    def _fold_slabs(
        self, core: Core, sums: LocalTensor, slabs: LocalTensor, flat: LocalTensor
    ) -> None:
        fold = self.job.kind.fold
        for slab in core.loop(slabs.shape[0]):
            if self._halves:
                core.fold_lanes(fold, (sums[slab], flat[slab]))
            else:
                core.add_up_rows(sums[slab], slabs[slab], fold)

    def _column_tile(self, core: Core, base: Places, width: int, rows: int) -> LocalTensor:
        """Some columns of one outer iteration, folded along everything that is to be folded."""
        job, nest, fold = self.job, self.job.nest, self.job.kind.fold
        nbytes = (self.tile_rows + (self.tile_rows > 1)) * width * job.dtype.itemsize
        sums = self.results.sums.get(job.dtype, width)
        core.duplicate(sums, fold.neutral_in(sums.dtype))
        for outer in folded_places(core, nest.folded):
            for begin, count in core.tiles(
                0, rows, self.tile_rows, accumulates=True, inner_bytes=nbytes
            ):
                places = (*base, *outer, (begin, nest.inner_folded.step))
                self._add_tile(core, sums, places, count, width)
        return sums

    def _add_tile(
        self, core: Core, sums: LocalTensor, places: Places, rows: int, width: int
    ) -> None:
        job = self.job
        fold, step = job.kind.fold, job.nest.inner_folded.step
        source = job.x.window(places, (rows, width), (step, 1))
        if self.whole and self._halves and rows > 1:
            flat = self.tiles.load(source, (rows * width,))
            part = self.results.part.get(job.dtype, width)
            core.fold_lanes(fold, (part, flat))
            core.accumulate(fold, sums, part)
            self.tiles.release(flat, self._kept(places, (rows * width,), (1,)))
            return
        ragged = rows > 1 and not (job.aligned(width) and job.aligned(step))
        tile = self.tiles.load(source.by_rows() if ragged else source, (rows, width))
        part = self.results.part.get(job.dtype, width)
        if rows == 1:
            core.accumulate(fold, sums, tile.view(width))
        elif job.for_one_shape:
            core.accumulate(fold, sums, core.add_up_rows(part, tile, fold))
        else:
            core.accumulate(fold, sums, core.fold_rows(part, tile, fold))
        self.tiles.release(tile, self._kept(places, (rows, width), (step, 1)))

    def _kept(
        self, places: Places, shape: tuple[int, ...], steps: tuple[int, ...]
    ) -> GmSlice | None:
        if self.job.kept is None:
            return None
        return self.job.kept.view(self.job.kept.numel).window(places, shape, steps)

    # -- who does what -----------------------------------------------------------------------------

    @property
    def _halves(self) -> bool:
        """Rows of a few lanes that divide a repeat are folded by halves of the whole tile."""
        job = self.job
        lanes = job.profile.vector.repeat_bytes // job.dtype.itemsize
        whole = self.columns * job.dtype.itemsize % job.profile.buffers.block_bytes == 0
        return whole and lanes % self.columns == 0

    @property
    def _by_single_rows(self) -> bool:
        job = self.job
        aligned = job.aligned(self.column_share) and job.aligned(self.columns)
        together = aligned or self.atomic or not job.for_one_shape
        return not together and not job.profile.has("data_move_pad")

    def _shares(self) -> tuple[int, int]:
        """Outer iterations and columns of a block."""
        job, outer = self.job, self.job.nest.outer
        if self.atomic:
            return outer, self.columns
        # Kernels for any shape give a core whole blocks of results.
        least = 1 if job.for_one_shape else min(outer, ceil(job.block / self.columns))
        if outer >= job.cores or least > 1:
            return max(least, ceil(outer / job.cores)), self.columns
        parts, least = max(1, job.cores // outer), min(self.columns, job.block)
        if not job.for_one_shape:
            return 1, self._column_share_for_any_shape(parts, least)
        share = max(least, ceil(self.columns / parts))
        if job.out.dtype.itemsize < FLOAT.itemsize:
            share = min(self.columns, round_up(share, job.block))
        return 1, share

    def _column_share_for_any_shape(self, parts: int, least: int) -> int:
        """Equal shares whose last one fills a block; whole blocks where the columns are such."""
        columns, block = self.columns, self.job.block
        shares = [max(least, ceil(columns / each)) for each in range(parts, 1, -1)]
        if self.job.nest.outer > 1:
            shares = [*range(least, columns)] if columns < parts else shares
            shares = [each for each in shares if (columns % each or each) >= block]
        share = next(iter(shares), columns)
        return min(columns, round_up(share, block)) if columns % block == 0 else share

    def _outers(self, block: int) -> tuple[int, int]:
        first = 0 if self.atomic else block // self.column_parts * self.outer_share
        return first, min(self.outer_share, self.job.nest.outer - first)

    def _columns(self, block: int) -> tuple[int, int]:
        first = block % self.column_parts * self.column_share
        return first, min(self.column_share, self.columns - first)
