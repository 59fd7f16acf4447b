"""Many short ragged rows, each folded into one number: turned, they are whole blocks.

Rows that aren't whole blocks are loaded side by side as they lie in memory, in 16 lines. vnchwconv
turns the lines, so that a block holds elements of 16 rows; columns are folded onto each other,
and the results are turned back. Source: the open tiling of reductions in the operator tree
(op_tiling, reduce_tiling: the case that transposes is the last axis of two, ragged, several rows of
it in UB, 64 rows or more for each core).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from npusim.ascendc.costs import TURNED_LINES
from npusim.ascendc.queues import BUFFER_NUM
from npusim.ops.reduction.job import UB_SHARE, Job, Results, Tiles
from npusim.schedules.rows.folds import planes
from npusim.schedules.rows.shares import RowShare

if TYPE_CHECKING:
    from collections.abc import Hashable

    import numpy as np
    from numpy.typing import NDArray

    from npusim.ascendc import Core
    from npusim.ascendc.loops import Index

    Values = NDArray[np.generic]

_LEAST_ROWS = 64  # of a core


class TurnedPlan:
    """Cores share the rows; a tile is as many rows of every line as fit."""

    def __init__(self, job: Job) -> None:
        self.job, self.length = job, job.nest.inner_folded.size
        rows, cores = job.nest.inner_kept.size, job.cores
        self.share = RowShare.of(rows, cores, _tile_rows(job), TURNED_LINES)
        self.block_dim = self.share.cores

    @staticmethod
    def fits(job: Job) -> bool:
        """Whether the schedule is for such rows."""
        nest = job.nest
        length = nest.inner_folded.size
        plain = not nest.kept and not nest.folded and job.kept is None and length > 1
        ragged = job.profile.software.turns_ragged_rows and not job.aligned(length)
        enough = nest.inner_kept.size // job.cores >= _LEAST_ROWS
        return plain and ragged and enough and _tile_rows(job) >= _LEAST_ROWS

    def block_kind(self, block: int) -> Hashable:
        """Rows of a block."""
        return self.share.length(block)

    def process(self, core: Core) -> None:
        """All results of a block."""
        self.tiles = Tiles(core, self.job, self.share.tile * self.length, BUFFER_NUM)
        self.results = Results(core, self.job, self.share.tile, BUFFER_NUM)
        for first, rows in self.share.tiles(core):
            self._tile(core, first, rows)

    def _tile(self, core: Core, first: Index, rows: int) -> None:
        job, length = self.job, self.length
        source = job.x.window(((first, length),), (rows * length,), (1,))
        repeats = planes(rows * length * job.x.dtype.itemsize)
        tile = self.tiles.load(source, (rows * length,), turned=repeats)
        sums = self.results.sums.get(job.dtype, rows)
        core.fold_by_instruction(job.kind.fold.pairwise, tile, rows, length - 1)
        core.turn_lines(sums, tile, planes(rows * job.dtype.itemsize))
        fold = partial(_folded, length=length, function=job.kind.fold.function)
        core.wrote(sums)
        core.arrange(sums, tile, how=fold)
        self.tiles.release(tile)
        self.results.store(sums, ((first, 1),))


def _folded(values: Values, length: int, function: np.ufunc) -> Values:
    rows = values.reshape(*values.shape[:-1], -1, length)
    found: Values = function.reduce(rows, axis=-1, dtype=values.dtype)
    return found


def _tile_rows(job: Job) -> int:
    """Rows that fit into UB with their slots, copies and results, the same in every line."""
    length, width = job.nest.inner_folded.size, job.dtype.itemsize
    copy = length * job.copy_bytes if job.has_copy else 0
    row = BUFFER_NUM * (length * job.read_bytes + job.out.dtype.itemsize) + copy + 2 * width
    return int(job.profile.buffers.ub_bytes * UB_SHARE) // row // TURNED_LINES * TURNED_LINES
