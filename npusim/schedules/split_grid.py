"""Grids whose planes, columns and rows are each split over cores by themselves.

A core has a number of planes, and of each the tiles of its columns and of its rows; where one of
the three doesn't come to a part for every core, some have nothing to do.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from npusim.schedules.tile_grid import Grid, Part, Piece, taken_apart

if TYPE_CHECKING:
    from npusim.ascendc.core import Core
    from npusim.schedules.tile_grid import Extent


class Group(NamedTuple):
    """Axes that are split together, and for each place of cores the tiles along each of them."""

    axes: tuple[int, ...]
    places: tuple[tuple[tuple[Part, ...], ...], ...]


@dataclass(frozen=True, slots=True)
class SplitGrid(Grid):
    """Tiles of ``planes``, a tile for each element, and of ``groups``, of cores for each place.

    ``cores`` are those that planes are dealt out to, evenly; the last group changes place first.
    """

    planes: Extent = ()
    groups: tuple[Group, ...] = ()

    @classmethod
    def of(
        cls, sizes: Extent, extent: Extent, cores: int, planes: Extent, groups: tuple[Group, ...]
    ) -> SplitGrid:
        """Tiles of at most ``extent``."""
        return cls(sizes, extent, cores, planes=planes, groups=groups)

    @property
    def used_cores(self) -> int:
        """Cores that may get tiles."""
        return self.cores * prod(len(group.places) for group in self.groups)

    def pieces(self, core: Core) -> Iterator[Piece]:
        """The tiles of one core, plane by plane, alike ones as one loop."""
        order = (*self.planes, *(axis for group in self.groups for axis in reversed(group.axes)))
        for parts, first, count in self._shares(core.get_block_idx()):
            counts = tuple(parts[axis].count for axis in order)
            for turn in core.loop(count):
                places = dict(zip(order, taken_apart(turn + first, counts), strict=True))
                starts = (
                    part.start + places[axis] * part.extent for axis, part in enumerate(parts)
                )
                yield Piece(tuple(part.extent for part in parts), tuple(starts))

    def _shares(self, block: int) -> Iterator[tuple[tuple[Part, ...], int, int]]:
        place = block - self.first_core
        if not 0 <= place < self.used_cores:
            return
        along: dict[int, tuple[Part, ...]] = {}
        for group in reversed(self.groups):
            place, at = divmod(place, len(group.places))
            along.update(zip(group.axes, group.places[at], strict=True))
        each, more = divmod(prod(self.sizes[axis] for axis in self.planes), self.cores)
        mine = each + (place < more)
        for axis in self.planes:
            along[axis] = (Part(0, self.sizes[axis], 1),)
        for parts in product(*(along[axis] for axis in range(len(self.sizes)))):
            tiles = prod(part.count for axis, part in enumerate(parts) if axis not in self.planes)
            if mine * tiles:
                yield parts, (place * each + min(place, more)) * tiles, mine * tiles
