"""Permutations that leave the last axis last: one axis of rows whole in each transfer.

Rows of a few whole blocks are loaded along the axis that precedes them in the source, or in the
target, so that one side of a tile is contiguous and the other one strided. What is left of the
axes is dealt out evenly, a tile each: no axis but that one is ever cut. Source: public host tiling
(op_tiling/transpose.cc, scenarios 9 and 12).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from npusim.ascendc.intrinsics.copy import MOST_BLOCKS, MOST_RUNS
from npusim.ops.data_movement.permutation_tiling import RESERVED_BYTES

if TYPE_CHECKING:
    from npusim.hardware.profile import Profile
    from npusim.schedules.tile_grid import Box, Extent

_LEAST_ROW = 4  # blocks; shorter rows are gathered along several axes
_LEAST_TILE = 32  # blocks of a tile that takes its axis whole
_LEAST_PART = 16  # and of one that may take a part of it


@dataclass(frozen=True, slots=True)
class _Side:
    """Rows along one axis: how many, and how far apart they are where they aren't contiguous."""

    axis: int
    rows: int
    gap: int  # blocks
    tiles: int  # of the axes around

    def reaches(self, cores: int) -> bool:
        """True where a transfer can tell the distance, and all cores get tiles."""
        return self.gap <= MOST_BLOCKS and self.tiles >= cores


def moved_rows(profile: Profile, box: Box, block: int) -> Extent | None:
    """The tile of a permutation of rows, None where the vendor's kernel takes another way.

    ``block`` are the elements of a block of UB.
    """
    sizes, width, cores = box.sizes, box.sizes[-1], profile.cores.vector_cores
    room = (profile.buffers.ub_bytes - RESERVED_BYTES) // profile.buffers.block_bytes
    blocks = width // block
    if len(sizes) < 3 or box.src.steps[-1] != 1 or width % block or blocks < _LEAST_ROW:
        return None
    in_source = sorted(range(len(sizes)), key=lambda axis: -box.src.steps[axis])[-2]
    loaded = _side(sizes, in_source, (box.dst.steps[in_source] - width) // block)
    stored = _side(sizes, len(sizes) - 2, (box.src.steps[-2] - width) // block)
    sides = (stored, loaded) if stored.rows > loaded.rows else (loaded, stored)
    for side in sides:
        whole = _LEAST_TILE <= side.rows * blocks <= room and side.rows <= MOST_RUNS
        if side.reaches(cores) and whole:
            return _extent(sizes, side.axis, side.rows)
    longer = stored if stored.rows >= loaded.rows else loaded
    if longer.reaches(cores) and longer.rows * blocks >= _LEAST_PART:
        return _extent(sizes, longer.axis, min(longer.rows, room // blocks))
    return None


def _side(sizes: Extent, axis: int, gap: int) -> _Side:
    return _Side(axis, sizes[axis], gap, prod(sizes[:-1]) // sizes[axis])


def _extent(sizes: Extent, axis: int, rows: int) -> Extent:
    extent = [1] * len(sizes)
    extent[axis], extent[-1] = rows, sizes[-1]
    return tuple(extent)
