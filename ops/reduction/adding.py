"""When blocks that share what is folded add up their parts of the results in global memory.

Source: public tensor compiler, for kernels compiled for one shape (reduce_atomic_schedule.py,
_select_tiling_case, _reduce_not_last_atomic_tiling) and for any (op_tiling reduce_tiling,
ChooseAtomic, GetAtomicBlockTilingInfo).
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from npusim.schedules.block_split import block_split
from npusim.values.dtypes import FLOAT

if TYPE_CHECKING:
    from npusim.ops.reduction.job import Job

_LEAST_BYTES, _LEAST_RAGGED_BYTES = 1024, 256  # of the input for a core, by the columns' length
_SMALL = 1024  # elements
Shares = tuple[int, int]  # of the folded axis around the inner ones (0: there is none), and theirs


def folded_shares(job: Job) -> Shares | None:
    """How much of what is folded a block has, None where it has all of it."""
    nest = job.nest
    if not job.adds_in_memory:
        return None
    if job.for_one_shape:
        return _of_rows(job) if nest.by_rows else _of_columns(job)
    if job.out.dtype is not FLOAT or job.kept is not None or len(nest.folded) > nest.by_rows:
        return None
    results, room, size = nest.results, job.tile_limit(2), nest.inner_folded.size
    block = 1 if nest.by_rows else job.block  # results that a core stores at once
    few = results <= room and 2 * results < job.cores * block
    few = few and results * nest.count > _SMALL and 2 * nest.count > job.cores
    tall = not (nest.by_rows or nest.kept) and size >= job.cores and results < room
    if not few and not tall:
        return None
    outer = nest.folded[0].size if nest.folded else 0
    if outer >= job.cores:
        return ceil(outer / job.cores), size
    parts = min(size, job.cores // max(1, outer))
    return min(outer, 1), ceil(size / parts)


def _of_rows(job: Job) -> Shares | None:
    """Of kernels compiled for one shape: of an axis outside of all results, if it is long."""
    nest = job.nest
    long = bool(nest.folded) and not nest.kept and nest.folded[0].size >= job.cores
    return (nest.folded[0].size // job.cores, nest.inner_folded.size) if long else None


def _of_columns(job: Job) -> Shares | None:
    """Of kernels compiled for one shape: of rows that lie one behind the other."""
    nest = job.nest
    size, columns = nest.inner_folded.size, nest.inner_kept.size
    single = job.out.dtype is FLOAT and job.kept is None and not nest.folded
    if not single or nest.outer >= min(size, job.cores) or columns > job.tile_limit(2):
        return None
    least = _LEAST_BYTES if job.aligned(columns) else _LEAST_RAGGED_BYTES
    split = block_split((size, columns), job.dtype.itemsize, job.cores, least)
    return 0, (size // split.parts if split.axis == 0 else 1)
