"""Grids of tiles dealt out to cores, and boxes: the same elements on two sides of a copy.

A grid cuts a few axes into tiles of a given extent, shorter ones at the end. A box has such axes
with a stride on either side; neighbouring axes that both sides treat alike are one.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import product
from math import ceil, prod
from typing import TYPE_CHECKING, NamedTuple

from npusim.ascendc.loops import IndexArray, LoopIndex
from npusim.schedules.broadcasting import broadcast
from npusim.values.arithmetic import round_up

if TYPE_CHECKING:
    from npusim.ascendc.core import Core
    from npusim.ascendc.gm import GlobalTensor
    from npusim.ascendc.gm_slices import GmSlice
    from npusim.ascendc.loops import Index

Extent = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Part:
    """Alike tiles along one axis: ``count`` of them from element ``start`` on."""

    start: int
    count: int
    extent: int


class Piece(NamedTuple):
    """One tile of a grid: its elements along each axis, and the first of them."""

    shape: tuple[int, ...]
    starts: tuple[Index, ...]


@dataclass(frozen=True)
class Grid:
    """Tiles of ``extent`` elements along each axis, on ``cores`` cores from ``first_core`` on.

    ``axis`` is the one whose tiles are dealt out, a core's share in one piece: as many to each as
    the fewest cores need, or ``evenly``, to some one more than to others. None deals out all tiles
    evenly, whatever axis they follow.
    """

    sizes: tuple[int, ...]
    extent: Extent
    cores: int
    axis: int | None = None
    first_core: int = 0
    evenly: bool = False

    @property
    def used_cores(self) -> int:
        """Cores that get tiles."""
        if self.axis is None:
            return min(self.cores, self.tile_count)
        count = self.counts[self.axis]
        return min(self.cores, count if self.evenly else ceil(count / ceil(count / self.cores)))

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """Tiles along each axis."""
        return tuple(ceil(a / max(1, b)) for a, b in zip(self.sizes, self.extent, strict=True))

    @property
    def tile_count(self) -> int:
        """Tiles in all."""
        return prod(self.counts)

    def block_kind(self, block: int) -> Hashable:
        """What kinds of tiles a core has, and how many of each."""
        return tuple([(_extent(parts), count) for parts, _, count in self._shares(block)])

    def pieces(self, core: Core) -> Iterator[Piece]:
        """The tiles of one core, alike ones as one loop."""
        if core.computes_together and self.axis is None and not self.first_core:
            yield from self._pieces_of_blocks(core)
            return
        for parts, first, count in self._shares(core.get_block_idx()):
            for turn in core.loop(count):
                yield _piece(parts, turn + first)

    def _pieces_of_blocks(self, core: Core) -> Iterator[Piece]:
        """The same of this and the next cores at once.

        The first tiles of a kind are those of the core that is the first to get one more.
        """
        used, kinds = self._dealt
        for parts, each, more, turned in kinds:
            for last, place in ((used, -turned), (turned, used - turned)):
                first = partial(_first_tile, each, more, place, last)
                for turn in core.share(first, in_chains=False):
                    yield _piece(parts, turn)

    @cached_property
    def _parts(self) -> list[tuple[Part, ...]]:
        """The tiles along each axis."""
        return [parts_of(0, *each) for each in zip(self.sizes, self.extent, strict=True)]

    @cached_property
    def _dealt(self) -> tuple[int, list[tuple[tuple[Part, ...], int, int, int]]]:
        """How many cores are used where all tiles are dealt out, and the kinds of tiles.

        Of each kind, how many every core gets, and how many cores get one more, from which core on.
        """
        found, turned, used = [], 0, self.used_cores
        for parts in product(*self._parts):
            each, more = divmod(prod([part.count for part in parts]), used)
            found.append((parts, each, more, turned))
            turned = (turned + more) % used
        return used, found

    def _share_of_axis(self, axis: int, place: int) -> tuple[Part, ...]:
        """The tiles along the dealt-out axis that one core gets."""
        count, extent = self.counts[axis], self.extent[axis]
        each, more = ceil(count / self.cores), 0
        if self.evenly:
            each, more = divmod(count, self.used_cores)
        first, last = (min(at * each + min(at, more), count) for at in (place, place + 1))
        full = self.sizes[axis] // extent
        parts = []
        if min(last, full) > first:
            parts.append(Part(first * extent, min(last, full) - first, extent))
        if first <= full < last:
            parts.append(Part(full * extent, 1, self.sizes[axis] - full * extent))
        return tuple(parts)

    def _shares(self, block: int) -> Iterator[tuple[tuple[Part, ...], int, int]]:
        """The kinds of tiles of a core: their parts along the axes, the first one and how many."""
        place = (block - self.first_core) % self.cores
        if self.axis is not None:
            if place >= self.used_cores:
                return
            axes = [*self._parts]
            axes[self.axis] = self._share_of_axis(self.axis, place)
            for parts in product(*axes):
                yield parts, 0, prod([part.count for part in parts])
            return
        used, kinds = self._dealt
        for parts, each, more, turned in kinds if place < used else ():
            mine = (place - turned) % used
            count = each + (mine < more)
            if count:
                yield parts, mine * each + min(mine, more), count


@dataclass(frozen=True, slots=True)
class Box:
    """The elements of ``src`` and where they go in ``dst``: views of one shape, fewest axes."""

    src: GlobalTensor
    dst: GlobalTensor

    @classmethod
    def of(cls, src: GlobalTensor, dst: GlobalTensor) -> Box:
        """The box of two tensors of one shape; ``src`` may broadcast to ``dst``."""
        plane = broadcast(dst.shape, (dst, src))
        target, source = plane.operands
        return cls(source, target)

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many elements each axis has."""
        return self.dst.shape

    @property
    def numel(self) -> int:
        return self.dst.numel


class BoxTile(NamedTuple):
    """One tile of a box: its elements along each axis, and the slices on both sides."""

    shape: tuple[int, ...]
    src: GmSlice
    dst: GmSlice


@dataclass(frozen=True, slots=True)
class BoxTiling:
    """The tiles of a box."""

    box: Box
    grid: Grid

    @classmethod
    def of(
        cls,
        box: Box,
        extent: Extent,
        cores: int,
        axis: int | None = None,
        first_core: int = 0,
        *,
        evenly: bool = False,
    ) -> BoxTiling:
        """Tiles of ``extent``, dealt out as :class:`Grid` says."""
        return cls(box, Grid(box.sizes, extent, cores, axis, first_core, evenly))

    @property
    def extent(self) -> Extent:
        """What the largest tiles cover."""
        return self.grid.extent

    def tiles(
        self,
        core: Core,
        orders: tuple[tuple[int, ...], tuple[int, ...]] | None = None,
    ) -> Iterator[BoxTile]:
        """The tiles of one core, alike ones as one loop.

        ``orders`` names the axes of source and target in the order of their transfers, in which
        axes that follow each other become one.
        """
        natural = tuple(range(len(self.grid.extent)))
        sides = (self.box.src, self.box.dst)
        for piece in self.grid.pieces(core):
            if orders is None:
                src, dst = (_cut(side, piece, natural) for side in sides)
            else:
                cuts = zip(sides, orders, strict=True)
                src, dst = (_cut(side, piece, order, merges=True) for side, order in cuts)
            yield BoxTile(piece.shape, src, dst)


def parts_of(start: int, size: int, extent: int) -> tuple[Part, ...]:
    """Tiles along ``size`` elements from ``start`` on: those of ``extent``, and what is left."""
    full, rest = divmod(size, max(1, extent))
    parts = (Part(start, full, extent),) if full else ()
    return (*parts, Part(start + full * extent, 1, rest)) if rest else parts


def whole_axes(
    sizes: Extent, limit: int, cores: int, *, multiple: int = 1, padded: int = 1
) -> Extent:
    """A tile of at most ``limit`` elements: inner axes as a whole, part of one axis, ones outside.

    All ``cores`` get a like number of tiles. The innermost axis is cut at a multiple of
    ``multiple`` elements, and counts as a multiple of ``padded``.
    """
    extent = [1] * len(sizes)
    inner, axis = 1, len(sizes)
    while axis:
        axis -= 1
        last = axis == len(sizes) - 1
        width = round_up(sizes[axis], padded) if last else sizes[axis]
        share = ceil(prod(sizes[: axis + 1]) / cores)  # of the slices that this axis counts
        if width * inner <= limit and share >= sizes[axis]:
            extent[axis], inner = sizes[axis], inner * width
            continue
        fitting = max(1, min(limit // inner, share, sizes[axis]))
        each = ceil(share / ceil(share / fitting))
        if last:
            each = min(round_up(each, multiple), max(multiple, limit // multiple * multiple))
        extent[axis] = min(each, sizes[axis])
        break
    return tuple(extent)


def _piece(parts: tuple[Part, ...], number: Index) -> Piece:
    """The tile of a number among those of its kind."""
    indices = taken_apart(number, [part.count for part in parts])
    starts: list[Index] = []
    for part, index in zip(parts, indices, strict=True):
        start = index if part.extent == 1 else index * part.extent
        starts.append(start + part.start if part.start else start)
    return Piece(_extent(parts), tuple(starts))


def _extent(parts: tuple[Part, ...]) -> Extent:
    """The elements of alike tiles along each axis."""
    return tuple([part.extent for part in parts])


def _first_tile(each: int, more: int, place: int, last: int, core: int) -> int:
    """The first tile of a core, up to the ``last``, if that of core 0 is at ``place``.

    All have ``each``, and those at the first ``more`` places one more.
    """
    at = max(0, min(core, last) + place)
    return at * each + min(at, more)


def taken_apart(number: Index, counts: Sequence[int]) -> list[Index]:
    """The index of a tile along each axis."""
    after = prod(counts)
    if after == max(counts, default=1):
        return [number if count > 1 else 0 for count in counts]
    axes = [(after := after // count, count) for count in counts]
    if not isinstance(number, LoopIndex):
        return [number // after % count if count > 1 else 0 for after, count in axes]
    values, depth, key = number.values(), number.depth, number.key  # the same, at once
    return [
        IndexArray(depth, values // after % count, ((key, "//", after), "%", count))
        if count > 1
        else 0
        for after, count in axes
    ]


def _cut(
    tensor: GlobalTensor, piece: Piece, order: tuple[int, ...], *, merges: bool = False
) -> GmSlice:
    steps = tensor.steps
    places = tuple(zip(piece.starts, steps, strict=True))
    sizes = tuple(piece.shape[axis] if steps[axis] else 1 for axis in order)
    apart = tuple(steps[axis] for axis in order)
    return tensor.window(places, *(_merged(sizes, apart) if merges else (sizes, apart)))


def _merged(sizes: Extent, steps: Extent) -> tuple[Extent, Extent]:
    """The same elements with neighbouring axes that follow each other as one."""
    found: list[tuple[int, int]] = []
    for size, step in zip(sizes, steps, strict=True):
        if size == 1:
            continue
        if found and found[-1][1] == size * step:
            found[-1] = (found[-1][0] * size, step)
        else:
            found.append((size, step))
    found = found or [(1, 1)]
    return tuple(size for size, _ in found), tuple(step for _, step in found)
