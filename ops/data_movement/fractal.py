"""Schedules for blocked layouts, as the vendor's kernels cut and turn their tiles.

Rows of channels (ND, NHWC) are moved in UB slice by slice; planes of one channel each are turned by
vnchwconv, once where a plane is long, or twice with 16 images side by side. One buffer holds what
comes, one what goes, and nothing overlaps but a store with the next load.
Source: public operator sources (trans_data_positive_source_{tc,ntc}.py, trans_data_negative_target_{tc,ntc}.py).
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from npusim.dialect.boxes import Grid
from npusim.ops.data_movement.blocked import BlockedCopy

if TYPE_CHECKING:
    from npusim.dialect import Core, LocalTensor
    from npusim.hardware.profile import Profile

_LINES = 16  # lines that vnchwconv turns at a time
_LINE_BYTES = 32
_HALF_BYTES = 2
_N, _C, _S = 0, 1, 2


class RowBlocks(BlockedCopy):
    """Between rows of channels and slices: tiles of rows, their slices moved apart or together."""

    def tiled(self, profile: Profile) -> Grid:
        layout, cores = self.layout, profile.cores.vector_cores
        images, channels, places = layout.sizes
        room = profile.buffers.ub_bytes // 2 // self.depth // self.itemsize - _LINES * self.block
        width = min(_round_up(channels, layout.c0), room // _LINES // layout.c0 * layout.c0)
        step = _LINES if layout.padded[_S] != places or places % _LINES == 0 else 1
        share = _round_up(ceil(places * images / cores), step)
        rows = max(step, min(room // width, share) // step * step)
        while images * ceil(places / rows) * ceil(channels / width) < cores and width > layout.c0:
            width = _round_up(ceil(width / 2), layout.c0)
        extent = (1, min(channels, width), min(places, rows))
        return Grid(layout.sizes, extent, cores)

    def turn(self, core: Core, out: LocalTensor, x: LocalTensor, shape: tuple[int, ...]) -> None:
        channels = self.layout.sizes[_C]
        elements = max(out.numel, x.numel)
        if channels % self.layout.c0 == 0:
            core.move_blocks(out, x, elements * self.itemsize)
            return
        repeats = ceil(elements * self.itemsize / (_LINES * _LINE_BYTES))
        core.turn_lines(out, x, repeats)
        core.turn_lines(out, x, repeats)


class PlaneBlocks(BlockedCopy):
    """Between planes of one channel and slices, by vnchwconv."""

    def tiled(self, profile: Profile) -> Grid:
        layout = self.layout
        images, channels, places = layout.sizes
        self.once = self.itemsize == _HALF_BYTES and places >= self._gate(profile)
        self.merges = not self.once  # channels that are turned at once start at lines of their own
        self.depth = 2 if self.once else 1
        room = self._room(profile)
        line = room // _LINES // self.block * self.block
        cores = profile.cores.vector_cores
        together, slices = min(images, _LINES), 1
        most, unit = max(self.block, line // layout.c0 // self.block * self.block), self.block
        if self.once:
            most, unit, together = room // layout.c0 // layout.c0 * layout.c0, layout.c0, 1
        share = min(places, most)
        if share == places and (self.once or not self.forward):
            slices = min(layout.slices, max(1, most // _round_up(places, unit)))
        if self.once and layout.padded[_N] != images:  # fractals of weights
            together = min(images, max(_LINES, line // _round_up(share, layout.c0)))
            slices = 1
        extent = (together, min(channels, slices * layout.c0), share)
        return dealt(layout.sizes, extent, cores, (_N, _C, _S))

    def turn(self, core: Core, out: LocalTensor, x: LocalTensor, shape: tuple[int, ...]) -> None:
        layout = self.layout
        images, channels, places = shape
        slices = ceil(channels / layout.c0)
        if self.once:
            halves = images * slices * layout.c0 * _round_up(places, _LINES)
            core.turn_lines(out, x, ceil(halves / (_LINES * _LINES)))
            return
        # 16 images are 16 lines: turned, one burst for every channel and place, and back again.
        factor = max(1, self.itemsize // _HALF_BYTES)
        width = slices * layout.c0 * _round_up(places, self.block) * factor
        core.turn_lines(out, x, ceil(width / _LINES))
        for _ in core.loop(slices * layout.c0):
            stride = layout.c0 * factor if self.forward else 0
            core.move_bursts(x, out, places, factor, stride=stride)
        core.turn_lines(out, x, ceil(slices * layout.c0 * places * factor / _LINES))

    def _room(self, profile: Profile) -> int:
        """Elements of a tile, without what rows are padded with."""
        share = profile.buffers.ub_bytes // 2 // self.depth // self.itemsize
        return share - 2 * _LINES * self.block

    def _gate(self, profile: Profile) -> int:
        """Places from which on one pass of vnchwconv is worth its padding."""
        if self.forward or self.layout.sizes[_S] % self.layout.c0 == 0:
            return 2 * _LINES
        line = self._room(profile) // self.layout.c0 // self.layout.c0 * self.layout.c0
        few = line // _round_up(self.layout.sizes[_S], self.layout.c0) <= self.layout.slices
        return (8 if few else 15) * _LINES


def dealt(
    sizes: tuple[int, ...], extent: tuple[int, ...], cores: int, preference: tuple[int, ...]
) -> Grid:
    """The grid dealt out along the axis that keeps most cores busy; the first of equals."""
    counts = [ceil(a / b) for a, b in zip(sizes, extent, strict=True)]

    def busy(axis: int) -> int:
        full, rest = divmod(counts[axis], cores)
        return (cores if full or not rest else 0) + rest + (cores if full and not rest else 0)

    axis = max(preference, key=lambda each: (busy(each), -preference.index(each)))
    return Grid(sizes, extent, cores, axis)


def _round_up(value: int, step: int) -> int:
    return ceil(value / step) * step


