"""Copies of whole runs by kernels compiled for one shape: no more cores than full buffers.

Source: public operator sources (strided_slice_d.py, copy_only.py).
"""

from __future__ import annotations

from math import ceil, prod
from typing import TYPE_CHECKING, ClassVar

from npusim.ascendc import Core, GlobalTensor, Kernel, TPosition, TQue
from npusim.ascendc.queues import footprint_bytes
from npusim.engine.program import Pipe
from npusim.ops.data_movement.strided import copy_tiles
from npusim.schedules.elementwise import flat_tiling
from npusim.schedules.tile_grid import Box, BoxTiling, whole_axes
from npusim.values.arithmetic import greatest_divisor

if TYPE_CHECKING:
    from npusim.hardware.profile import Profile
    from npusim.schedules.tile_grid import Extent


class BlockwiseCopy(Kernel):
    """dst = src, both contiguous: a core gets at least one block."""

    op_type = "StridedSlice"

    def __init__(self, profile: Profile, src: GlobalTensor, dst: GlobalTensor) -> None:
        self.reads, self.writes = (src,), (dst,)
        self.src, self.dst = src.view(src.numel), dst.view(dst.numel)
        itemsize = dst.dtype.itemsize
        least = profile.buffers.block_bytes
        self.division = self.tiling = flat_tiling(
            profile, dst.numel, itemsize, itemsize / 4, least_bytes=least
        )
        self.block_dim = self.tiling.block_dim

    def process(self, core: Core) -> None:
        tiling = self.tiling
        depth = 2 if tiling.double_buffer else 1
        queue = TQue(TPosition.VECIN, depth, "tile", consumer=Pipe.MTE3)
        core.pipe.init_buffer(queue, depth, tiling.tile * self.dst.dtype.itemsize)
        for first, length in tiling.tiles(core):
            x = queue.copy_in(self.src.span(first, length))
            core.copy_runs(self.dst.span(first, length), x)
            queue.free_tensor(x)


class RowCopy(Kernel):
    """dst = src where both have runs of whole blocks: as many cores as there are full buffers."""

    op_type = "StridedSlice"
    equal_parts: ClassVar[bool] = False

    def __init__(self, profile: Profile, src: GlobalTensor, dst: GlobalTensor) -> None:
        self.reads, self.writes = (src,), (dst,)
        self.kind = dst.dtype
        box = Box.of(src, dst)
        block = profile.buffers.block_bytes // dst.dtype.itemsize
        limit = profile.buffers.ub_bytes // dst.dtype.itemsize - block
        extent = whole_axes(box.sizes, limit, 1, multiple=block, padded=block)
        cores = profile.cores.vector_cores
        tiles = _tiles(box.sizes, extent)
        if self.equal_parts:
            *outer, last = zip(box.sizes, extent, strict=True)
            equal = (*(greatest_divisor(*each) for each in outer), last[1])
            if (more := _tiles(box.sizes, equal)) <= cores:
                extent, tiles = equal, more
        self.tiling = BoxTiling.of(box, extent, _divisor(tiles, cores))
        self.division = self.tiling.grid
        self.block_dim = self.tiling.grid.used_cores

    def process(self, core: Core) -> None:
        queue = TQue(TPosition.VECIN, 1, "tile", consumer=Pipe.MTE3)
        nbytes = footprint_bytes(self.kind, self.tiling.extent, core.block_bytes)
        core.pipe.init_buffer(queue, 1, nbytes)
        copy_tiles(core, queue, self.tiling)


class EqualRowCopy(RowCopy):
    """The same in parts of the rows that are all of one size, if there is a core for each.

    Source: recorded block counts of 14 slices of one network, which are those of the greatest
    divisor of the rows that UB has room for.
    """

    op_type = "Slice"
    equal_parts = True


def _tiles(sizes: Extent, extent: Extent) -> int:
    """Full tiles."""
    return prod(size // part for size, part in zip(sizes, extent, strict=True))


def _divisor(tiles: int, cores: int) -> int:
    """The most cores that share the full tiles evenly; all of them where that leaves one alone."""
    found = max((each for each in range(1, cores + 1) if tiles % each == 0), default=1)
    return found if found > 1 or tiles < 2 else min(cores, ceil(tiles))
