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


def folded_share(job: Job) -> int:
    """How much of the outermost axis that is folded a block has; 0 where it has all of it.

    That of slabs and rows of numbers with no other folded axis around them.
    """
    nest = job.nest
    if not job.adds_in_memory or job.out.dtype is not FLOAT or job.kept is not None or nest.folded:
        return 0
    size, results, room = nest.inner_folded.size, nest.results, job.tile_limit(2)
    if not job.for_one_shape:
        few = results <= room and 2 * results < job.cores * job.block
        few = few and results * nest.count > _SMALL and 2 * nest.count > job.cores
        tall = not (nest.by_rows or nest.kept) and size >= job.cores and results < room
        return ceil(size / min(size, job.cores)) if few or tall else 0
    if nest.by_rows or nest.outer >= min(size, job.cores) or nest.inner_kept.size > room:
        return 0
    columns = nest.inner_kept.size
    least = _LEAST_BYTES if job.aligned(columns) else _LEAST_RAGGED_BYTES
    split = block_split((size, columns), job.dtype.itemsize, job.cores, least)
    return size // split.parts if split.axis == 0 else 1
