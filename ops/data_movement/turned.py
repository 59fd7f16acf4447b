"""Tiles for copies whose two sides run along different axes: long runs on either side.

A run is made of the axes that follow each other in memory, the innermost first, until it is long
enough or meets an axis of the other side.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, isqrt, prod
from typing import TYPE_CHECKING

from npusim.ascendc.costs import TURNED_LINES
from npusim.values.arithmetic import round_up

if TYPE_CHECKING:
    from npusim.schedules.tile_grid import Box, Extent

_RUN_BYTES = 512  # shorter runs waste the slot of a packet


@dataclass(frozen=True, slots=True)
class Room:
    """What limits a tile: its elements, the step of a run's length, and the cores that want one.

    ``shortest`` is a run's length that is worth having.
    """

    elements: int
    step: int
    cores: int
    shortest: int

    @classmethod
    def of(cls, limit: int, block: int, itemsize: int, cores: int) -> Room:
        """Runs of whole lines that are whole blocks."""
        return cls(limit, max(TURNED_LINES, block), cores, _RUN_BYTES // itemsize)


@dataclass(frozen=True, slots=True)
class TurnedTile:
    """A tile's extent, and the axes (innermost first) that make up the run on each side."""

    extent: Extent
    source: tuple[int, ...]
    target: tuple[int, ...]

    @property
    def runs(self) -> tuple[int, int]:
        """Elements of a run of the source and of the target."""
        return _length(self.extent, self.source), _length(self.extent, self.target)

    def shapes(self, shape: tuple[int, ...]) -> tuple[tuple[int, int], tuple[int, int]]:
        """A tile of ``shape`` as rows of runs of the source and of the target."""
        source, target = _length(shape, self.source), _length(shape, self.target)
        return (prod(shape) // source, source), (prod(shape) // target, target)


def turned_tile(box: Box, axes: tuple[int, int], room: Room, *, square: bool) -> TurnedTile:
    """Both runs about equally long, then the axes around them.

    ``axes`` are those along which source and target are contiguous; ``square`` tiles don't get
    longer runs than that for the sake of packets.
    """
    side = max(room.step, isqrt(room.elements) // room.step * room.step)
    if not square:
        side = max(side, room.shortest)
    source = _axes_of_run(box, box.src.steps, axes[0], axes[1], side)
    target = _axes_of_run(box, box.dst.steps, axes[1], axes[0], side, source)
    runs = _lengths(box, source, target, room, side)
    extent = _spread(box, source, target, runs)
    while _tiles(box, extent) < room.cores and max(runs) > room.step:
        longer = 0 if runs[0] >= runs[1] else 1
        runs[longer] = round_up(ceil(runs[longer] / 2), room.step)
        extent = _spread(box, source, target, runs)
    return TurnedTile(_filled(box, TurnedTile(tuple(extent), source, target), room), source, target)


def _axes_of_run(
    box: Box,
    steps: tuple[int, ...],
    first: int,
    other: int,
    side: int,
    taken: tuple[int, ...] = (),
) -> tuple[int, ...]:
    """Axes of one side that follow each other without gaps, until ``side`` elements are reached."""
    found, run = [first], box.sizes[first]
    by_step = sorted(range(len(steps)), key=lambda axis: steps[axis])
    for axis in by_step[by_step.index(first) + 1 :]:
        if run >= side or axis == other or axis in taken or steps[axis] != run:
            break
        found.append(axis)
        run *= box.sizes[axis]
    return tuple(found)


def _lengths(
    box: Box, source: tuple[int, ...], target: tuple[int, ...], room: Room, side: int
) -> list[int]:
    """The lengths of both runs: what one of them can't use the other one gets."""
    reach = [_length(box.sizes, axes) for axes in (source, target)]
    step, limit = room.step, room.elements
    first = min(reach[0], side)
    second = _even(reach[1], max(step, limit // round_up(first, step)), step)
    return [_even(reach[0], limit // round_up(second, step), step), second]


def _spread(
    box: Box, source: tuple[int, ...], target: tuple[int, ...], runs: list[int]
) -> list[int]:
    """The extent that makes runs of these lengths."""
    extent = [1] * len(box.sizes)
    for axes, run in zip((source, target), runs, strict=True):
        left = run
        for axis in axes:
            extent[axis] = max(1, min(box.sizes[axis], left))
            left //= extent[axis]
    return extent


def _filled(box: Box, tile: TurnedTile, room: Room) -> Extent:
    """As much of the other axes as there is room for while all cores have tiles."""
    extent = list(tile.extent)
    elements = prod(round_up(run, room.step) for run in tile.runs)
    for axis in reversed(range(len(extent))):
        if axis in tile.source or axis in tile.target:
            continue
        share = max(1, _tiles(box, extent) // room.cores)
        extent[axis] = min(box.sizes[axis], max(1, min(room.elements // elements, share)))
        elements *= extent[axis]
        if extent[axis] < box.sizes[axis]:
            break
    return tuple(extent)


def _tiles(box: Box, extent: list[int]) -> int:
    return prod(ceil(a / b) for a, b in zip(box.sizes, extent, strict=True))


def _length(sizes: tuple[int, ...], axes: tuple[int, ...]) -> int:
    return prod(sizes[axis] for axis in axes)


def _even(size: int, most: int, step: int) -> int:
    """A length that cuts ``size`` into like pieces, in whole steps at most ``most``."""
    if round_up(size, step) <= most:
        return size
    return min(max(step, most // step * step), round_up(ceil(size / ceil(size / most)), step))
