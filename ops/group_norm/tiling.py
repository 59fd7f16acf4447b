"""How groups of channels are dealt out to cores and cut into tiles (GroupNormSilu).

Source: ops-nn norm/group_norm_silu, host tiling and the variants of its kernel.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from npusim.schedules.rows.shares import RowShare
from npusim.values.dtypes import FLOAT, DType

if TYPE_CHECKING:
    from npusim.hardware.profile import Profile

_MOST = 8192  # elements of a tile
_MOST_AREA = 4096  # of channels of which a tile has several
_MOST_LINES = {2: 2700, 4: 4000}  # bytes of an element -> channels and groups of a core kept in UB
_ELEMENT_BYTES = 20  # of all buffers, for each element of a tile


@dataclass(frozen=True, slots=True)
class Tiling:
    """Groups of ``channels`` channels of ``area`` elements, in tiles of up to ``tile`` elements.

    ``together`` says that every core has the scales and shifts of all channels in UB, and the
    statistics of its groups until the end; ``rows`` is how many channels a tile has, 0 where tiles
    are parts of a channel.
    """

    share: RowShare
    channels: int
    area: int
    tile: int
    together: bool
    rows: int

    @classmethod
    def of(
        cls, profile: Profile, shape: tuple[int, ...], groups: int, kind: DType, line: DType
    ) -> Tiling:
        """The tiling of x of ``shape`` (images, channels, ...), with scales of type ``line``."""
        block = profile.buffers.block_bytes // kind.itemsize
        area, channels = prod(shape[2:]), shape[1] // groups
        # Results that share a block would be torn between cores.
        torn = area < block and (area > 1 or channels < block)
        cores = 1 if torn else profile.cores.vector_cores
        share = RowShare.of(shape[0] * groups, cores, 1)
        lines = shape[1] + share.per_core
        together = area >= block and lines <= _MOST_LINES[kind.itemsize]
        wide = 0 if kind is FLOAT else FLOAT.itemsize
        kept = 2 * lines * (kind.itemsize + wide) if together else 0
        room = profile.buffers.ub_bytes - kept - 16 * profile.buffers.block_bytes
        wider = 2 * (line.itemsize - kind.itemsize) if area == 1 else 0  # scales are tiles as well
        tile = min(_MOST, room // (_ELEMENT_BYTES + wider) // block * block)
        several = together and area % block == 0 and area <= min(_MOST_AREA, tile)
        rows = min(channels, tile // area) if several else 0
        return cls(share, channels, area, tile, together, rows)

    @property
    def length(self) -> int:
        """Elements of a group."""
        return self.channels * self.area

    @property
    def whole(self) -> bool:
        """Whether a tile is a whole group."""
        return self.together and self.length <= self.tile

    @property
    def buffer_num(self) -> int:
        """Tiles of x and y under way at once; channels of one element share UB with their lines."""
        return 1 if self.area == 1 else 2
