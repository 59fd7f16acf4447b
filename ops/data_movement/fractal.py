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
_MOST_ROWS = {1: 63, 2: 63, 4: 31, 8: 15}  # rows of a tile going back, by the element's size
_N, _C, _S = 0, 1, 2


class RowBlocks(BlockedCopy):
    """Between rows of channels and slices: tiles of rows, their slices moved apart or together."""

    def tiled(self, profile: Profile) -> Grid:
        layout = self.layout
        images, channels, places = layout.sizes
        room = profile.buffers.ub_bytes // 2 // self.itemsize
        line = room // _LINES // layout.c0 * layout.c0
        width = min(_round_up(channels, layout.c0), line)
        rows = max(1, room // _round_up(width, self.block))
        if self.forward:
            rows = max(_LINES, rows // _LINES * _LINES)
        else:
            rows = min(rows, _MOST_ROWS[self.itemsize])
        share = min(places, rows)
        if self.forward and layout.padded[_S] != places:
            share = places if places <= rows else rows
        together = max(1, room // (_round_up(share, _LINES) * width)) if share == places else 1
        extent = (min(images, together), min(channels, width), share)
        return dealt(layout.sizes, extent, profile.cores.vector_cores, (_N, _S, _C))

    def turn(self, core: Core, out: LocalTensor, x: LocalTensor, shape: tuple[int, ...]) -> None:
        channels = self.layout.sizes[_C]
        elements = max(out.numel, x.numel)
        if channels % self.layout.c0 == 0:
            core.vector_moves(out, x, elements * self.itemsize)
            return
        repeats = ceil(elements * self.itemsize / (_LINES * _LINE_BYTES))
        core.turn_lines(out, x, repeats)
        core.turn_lines(out, x, repeats)


class PlaneBlocks(BlockedCopy):
    """Between planes of one channel and slices, by vnchwconv."""

    def tiled(self, profile: Profile) -> Grid:
        layout = self.layout
        images, channels, places = layout.sizes
        room = profile.buffers.ub_bytes // 2 // self.itemsize - 2 * _LINES * self.block
        line = room // _LINES // self.block * self.block
        self.once = self.itemsize == _HALF_BYTES and places >= self._gate(room)
        cores = profile.cores.vector_cores
        if self.once:
            most = line if self.forward else room // layout.c0 // layout.c0 * layout.c0
            share = min(places, most)
            together, slices = 1, 1
            if not self.forward and share == places:
                slices = min(layout.slices, max(1, most // _round_up(places, layout.c0)))
                left = room // (slices * _round_up(places, layout.c0) * layout.c0)
                together = max(1, min(images, left))
            elif layout.padded[_N] != images:  # fractals of weights
                together = min(images, max(_LINES, line // _round_up(share, layout.c0)))
        else:
            most = max(self.block, line // layout.c0 // self.block * self.block)
            share, together, slices = min(places, most), min(images, _LINES), 1
            if not self.forward and share == places:
                slices = min(layout.slices, max(1, most // _round_up(places, self.block)))
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
            core.move_bursts(x, out, places, factor)
        core.turn_lines(out, x, ceil(slices * layout.c0 * places * factor / _LINES))

    def _gate(self, room: int) -> int:
        """Places from which on one pass of vnchwconv is worth its padding."""
        if self.forward:
            return 2 * _LINES
        if self.layout.sizes[_S] % self.layout.c0 == 0:
            return 2 * _LINES
        line = room // self.layout.c0 // self.layout.c0 * self.layout.c0
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


