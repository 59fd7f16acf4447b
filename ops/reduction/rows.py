"""Rows of numbers, each folded into one: the last axis is reduced.

Kernels compiled for one shape fold the repeats of a row with vcadd, row by row; others add halves.
Rows that aren't whole blocks take a transfer each where the chip has no padded copies. Source:
public tensor compiler (reduce schedules); recorded kernels of the first generation take the same
time for every repeat of a row, however long it is.
"""

from __future__ import annotations

from collections.abc import Hashable
from math import ceil
from typing import TYPE_CHECKING

from npusim.ops.reduction.adding import folded_shares
from npusim.ops.reduction.job import Job, Places, Results, Tiles, folded_places, kept_places
from npusim.schedules.rows.folds import fold_each_row
from npusim.values.arithmetic import round_up

if TYPE_CHECKING:
    from npusim.ascendc import Core, GmSlice, LocalTensor

_LANES = 64  # elements; pieces of a row are a multiple of it


class RowsPlan:
    """Cores share the results; where an outer loop is folded and long enough, they share that.

    Of few results they share the rows' length, and add up what they have in global memory.
    """

    def __init__(self, job: Job) -> None:
        self.job, nest = job, job.nest
        self.depth = job.depth(by_rows=True)
        shares = folded_shares(job)
        self.atomic = shares is not None
        # Of the outer folded loop, and of a row.
        self.per_unit, self.length_share = shares or (0, nest.inner_folded.size)
        self.units = ceil(nest.folded[0].size / self.per_unit) if self.per_unit else 1
        self.length_parts = ceil(nest.inner_folded.size / self.length_share)
        self.outer_share, self.row_share = self._shares()
        self.outer_parts = ceil(nest.outer / self.outer_share)
        self.row_parts = ceil(nest.inner_kept.size / self.row_share)
        self.block_dim = self.units * self.length_parts if self.atomic else self._parts
        limit = job.tile_limit(self.depth)
        length = self.length_share
        self.padded = job.padded(length)
        self.chunk = length
        if self.padded > limit:  # pieces of about the same size
            self.chunk = round_up(ceil(length / ceil(length / limit)), _LANES)
        fitting = limit // self.padded if self.padded <= limit else 1
        fitting = min(fitting, job.most_results(job.padded(self.chunk), self.depth))
        self.tile_rows = max(1, min(self.row_share, fitting))

    def block_kind(self, block: int) -> Hashable:
        """Results, or the share of what is folded, of a block."""
        if self.atomic:
            parts = self._unit(block)[1], self._stretch(block)[1]
            return parts, self.job.adders(block, self.block_dim)
        return self._rows(block)[1], self._outers(block)[1]

    def process(self, core: Core) -> None:
        """All results of a block."""
        self.tiles = Tiles(core, self.job, self.tile_rows * self._width, self.depth)
        self.results = Results(core, self.job, max(self.tile_rows, self.job.block), self.depth)
        block = core.get_block_idx()
        self.adders = self.job.adders(block, self.block_dim) if self.atomic else 0
        begin, self.length = self._stretch(block)
        if not self.per_unit:
            self._share(core, 0 if self.atomic else block, ((begin, 1),))
            return
        first, count = self._unit(block)
        base = ((first, self.job.nest.folded[0].step), (begin, 1))
        self._share(core, 0, base, count)

    def _share(self, core: Core, block: int, base: Places, turns: int = 0) -> None:
        nest = self.job.nest
        first_outer, outers = self._outers(block)
        first_row, rows = self._rows(block)
        for turn in core.loop(outers):
            index = turn + first_outer
            places = (*base, *kept_places(nest.kept, index, out=False))
            for first, count in core.tiles(first_row, rows, self.tile_rows):
                sums = self._folded(core, (*places, (first, nest.inner_kept.step)), count, turns)
                where = (*kept_places(nest.kept, index, out=True), (first, 1))
                self.results.store(sums, where, sharers=self.adders)

    def _folded(self, core: Core, places: Places, count: int, turns: int) -> LocalTensor:
        """``count`` rows folded along everything that is to be folded."""
        job, nest = self.job, self.job.nest
        sums = self.results.sums.get(job.dtype, count)
        if not nest.folded and self.length <= self.chunk:
            return self._row_sums(core, sums, places, count, self.length)
        core.duplicate(sums, job.kind.fold.neutral_in(job.dtype))
        folded = nest.folded
        if turns:
            for turn in core.loop(turns, sequential=True):
                for inner in folded_places(core, folded[1:]):
                    self._chunks(core, sums, (*places, (turn, folded[0].step), *inner))
        else:
            for inner in folded_places(core, folded):
                self._chunks(core, sums, (*places, *inner))
        return sums

    def _chunks(self, core: Core, sums: LocalTensor, places: Places) -> None:
        for begin, size in core.tiles(0, self.length, self.chunk, accumulates=True):
            part = self.results.part.get(self.job.dtype, sums.numel)
            self._row_sums(core, part, (*places, (begin, 1)), sums.numel, size)
            core.accumulate(self.job.kind.fold, sums, part)

    def _row_sums(
        self, core: Core, sums: LocalTensor, places: Places, count: int, length: int
    ) -> LocalTensor:
        job = self.job
        step = job.nest.inner_kept.step
        source = job.x.window(places, (count, length), (step, 1))
        ragged = count > 1 and not job.aligned(length)
        tile = self.tiles.load(source.by_rows() if ragged else source, (count, length))
        fold_each_row(core, job.kind.fold, sums, tile)
        self.tiles.release(tile, self._kept(places, count, length))
        return sums

    def _kept(self, places: Places, count: int, length: int) -> GmSlice | None:
        if self.job.kept is None:
            return None
        return self.job.kept.window(places, (count, length), (self.job.nest.inner_kept.step, 1))

    # -- who does what -----------------------------------------------------------------------------

    def _shares(self) -> tuple[int, int]:
        """Outer iterations and rows of a block."""
        job, nest = self.job, self.job.nest
        rows = nest.inner_kept.size
        if self.atomic:
            return nest.outer, rows
        if nest.outer >= job.cores:
            return ceil(nest.outer / job.cores), rows
        parts = max(1, job.cores // nest.outer)
        least = min(rows, job.block) if job.for_one_shape else 1
        return 1, max(least, ceil(rows / parts))

    @property
    def _parts(self) -> int:
        return self.outer_parts * self.row_parts

    @property
    def _width(self) -> int:
        return self.padded if self.tile_rows > 1 else self.job.padded(self.chunk)

    def _outers(self, block: int) -> tuple[int, int]:
        if self.atomic:
            return 0, self.job.nest.outer
        first = block // self.row_parts * self.outer_share
        return first, min(self.outer_share, self.job.nest.outer - first)

    def _rows(self, block: int) -> tuple[int, int]:
        rows = self.job.nest.inner_kept.size
        if self.atomic:
            return 0, rows
        first = block % self.row_parts * self.row_share
        return first, min(self.row_share, rows - first)

    def _stretch(self, block: int) -> tuple[int, int]:
        """Where the block's part of a row begins, and its length."""
        first = block % self.length_parts * self.length_share if self.atomic else 0
        return first, min(self.length_share, self.job.nest.inner_folded.size - first)

    def _unit(self, block: int) -> tuple[int, int]:
        if not self.per_unit:
            return 0, 0
        first = block // self.length_parts * self.per_unit
        return first, min(self.per_unit, self.job.nest.folded[0].size - first)
