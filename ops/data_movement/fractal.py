"""Schedules for blocked layouts, as the vendor's kernels cut and turn their tiles.

Rows of channels (ND, NHWC) are moved in UB slice by slice; planes of one channel each are turned by
vnchwconv, once where a plane is long, or twice with 16 images side by side. One buffer holds what
comes, one what goes, and nothing overlaps but a store with the next load.
Source: public operator sources (trans_data_positive_source_tc.py,
trans_data_positive_source_ntc.py, trans_data_negative_target_tc.py,
trans_data_negative_target_ntc.py).
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from npusim.ascendc.costs import TURNED_LINES
from npusim.ops.data_movement.blocked import BlockedCopy
from npusim.ops.data_movement.strided import turns_whole
from npusim.schedules.tile_grid import Grid
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import FLOAT16

if TYPE_CHECKING:
    from npusim.ascendc import Core, LocalTensor
    from npusim.hardware.profile import Profile

_LINE_BYTES = 32
_N, _C, _S = 0, 1, 2
_VOLUMES = 6  # axes of volumes in blocks
# Lines of a channel below which it is spaced by itself: in profiles of A2 the scalar unit is busy
# for some 40 cycles with each channel of 36 places, and with none of those of 169.
_SHORT = 8
# Tiles of output channels that UB has room for: 5 of 64 x 5 x 5 and 8 of 3 x 11 x 11 in float32
# make 39 and 8 blocks of 192 and 64 on A2.
_WEIGHT_TILES = 6
_MOVED_ROWS = 63  # that an instruction moves at a time
_TURNED = 16  # slices of whole blocks from which on they are moved, not turned
_TURNED_RAGGED = 56  # the same of others
_ADDRESS_OPERATIONS = 18  # of the scalar unit: where a channel comes from and goes


class RowBlocks(BlockedCopy):
    """Between rows of channels and slices: tiles of rows, their slices moved apart or together."""

    def tiled(self, profile: Profile) -> Grid:
        if self._evens:
            return self._evenly(profile)
        return self._whole(profile) if self.forward else self._apart(profile)

    @property
    def _evens(self) -> bool:
        """Whether the tiling is another one than that of the older kernels for matrices.

        That of weights of one tap is the one for planes, and kernels for any shape are generated.
        """
        taps = len(self.plain.shape) == len(self.packed.shape)
        return taps or not self.profile.software.compiled_for_shape

    def _evenly(self, profile: Profile) -> Grid:
        """Tiles of whole blocks of rows, as even as they come out on all cores."""
        layout, cores, c0 = self.layout, profile.cores.vector_cores, self.layout.c0
        images, channels, places = layout.sizes
        room = self._room(profile)
        width = min(round_up(channels, c0), room // TURNED_LINES // c0 * c0)
        step = TURNED_LINES if layout.padded[_S] != places or places % TURNED_LINES == 0 else 1
        share = round_up(ceil(places * images / cores), step)
        rows = max(step, min(room // width, share) // step * step)
        while images * ceil(places / rows) * ceil(channels / width) < cores and width > c0:
            width = round_up(ceil(width / 2), c0)
        return Grid(layout.sizes, (1, min(channels, width), min(places, rows)), cores)

    def _whole(self, profile: Profile) -> Grid:
        """Tiles towards slices: as many small matrices at once as 16 lines of UB hold.

        Matrices whose channels fill blocks follow each other, others begin at parts of a line.
        """
        layout, cores, c0 = self.layout, profile.cores.vector_cores, self.layout.c0
        images, channels, places = layout.sizes
        padded = layout.padded[_S] != places
        line = self._room(profile) // TURNED_LINES // c0 * c0
        width = min(channels, line)
        rows = line // round_up(width, c0)
        most, lines = rows * TURNED_LINES, TURNED_LINES
        if images == 1 and most >= places:
            lines = min(TURNED_LINES, ceil(places / rows))
            lines = ceil(lines / cores)
            most = rows * lines
        stored, together = round_up(places, TURNED_LINES) if padded else places, 1
        fits, last = width == channels and most >= stored, ceil(places % most / rows)
        if channels % c0 == 0 and (ceil(width / self.block) % TURNED_LINES or rows % 2 == 0):
            together = line * TURNED_LINES // (channels * stored) if fits else 1
        elif fits and last <= TURNED_LINES // 2:
            together = lines
            if last == 1:
                together *= max(1, rows // stored)
            else:
                most = rows
        if padded or places % TURNED_LINES == 0:
            most = max(TURNED_LINES, most // TURNED_LINES * TURNED_LINES)
        high = round_up(min(places, most), TURNED_LINES) if padded else min(places, most)
        together = min(images, together, line * TURNED_LINES // (round_up(width, c0) * high))
        extent = (max(1, together), width, min(places, most))
        counts = [ceil(a / b) for a, b in zip(layout.sizes, extent, strict=True)]
        axis = max((_N, _S, _C), key=lambda axis: busy_cores(counts[axis], cores))
        return Grid(layout.sizes, extent, cores, axis)

    def _apart(self, profile: Profile) -> Grid:
        """Tiles towards rows: many slices are moved in UB, few turned, of up to 16 matrices."""
        layout, cores, c0 = self.layout, profile.cores.vector_cores, self.layout.c0
        images, channels, places = layout.sizes
        half = self._room(profile) + TURNED_LINES * self.block
        if self.moves:
            slices = min(layout.slices, max(1, half // min(places, TURNED_LINES) // c0))
            most = _MOVED_ROWS if channels > c0 or images > TURNED_LINES else 2 * _MOVED_ROWS + 1
            most = most if self.itemsize <= FLOAT16.itemsize else most // 2
            rows = min(places, most, half // (slices * c0))
            together = half // (slices * rows * c0)
            together = min(together, images // cores) if images >= cores else together
        else:
            line = half // TURNED_LINES // self.block
            line = (line - (line % 2 == 0)) * self.block
            slices = min(layout.slices, line // c0 // self.block * self.block)
            rows = min(places, line // (slices * c0))
            full = channels * places >= line // TURNED_LINES
            together = TURNED_LINES if full else line // (slices * rows * c0)
        extent = (max(1, min(images, together)), min(channels, slices * c0), rows)
        counts = [ceil(a / b) for a, b in zip(layout.sizes, extent, strict=True)]
        axis = max((_N, _C, _S), key=lambda axis: busy_cores(counts[axis], cores))
        return Grid(layout.sizes, extent, cores, axis)

    @property
    def moves(self) -> bool:
        """Whether rows are made of slices by moves in UB, and not by turning lines twice."""
        channels, c0 = self.layout.sizes[_C], self.layout.c0
        if self.forward or self._evens:
            return channels % c0 == 0
        gate = _TURNED_RAGGED if channels % c0 else _TURNED
        return self.layout.slices >= gate or channels == c0

    def _room(self, profile: Profile) -> int:
        """Elements of a tile, without what rows are padded with."""
        share = profile.buffers.ub_bytes // 2 // self.depth // self.itemsize
        return share - TURNED_LINES * self.block

    def turn(self, core: Core, out: LocalTensor, x: LocalTensor, shape: tuple[int, ...]) -> None:
        del shape
        elements = max(out.numel, x.numel)
        if self.moves:
            core.move_blocks(out, x, elements * self.itemsize)
            return
        repeats = ceil(elements * self.itemsize / (TURNED_LINES * _LINE_BYTES))
        core.turn_lines(out, x, repeats)
        core.turn_lines(out, x, repeats)


class PlaneBlocks(BlockedCopy):
    """Between planes of one channel and slices, by vnchwconv."""

    def tiled(self, profile: Profile) -> Grid:
        self._choose(profile)
        layout, cores = self.layout, profile.cores.vector_cores
        compiled = profile.software.compiled_for_shape
        weights = layout.padded[_N] != layout.sizes[_N]  # fractals of 16 output channels, not all
        maps = len(self.packed.shape) > len(layout.sizes) + 1
        deals = self.once and self.forward and not (compiled or weights or maps)
        if deals and (outputs := self._outputs(profile)):
            return Grid(layout.sizes, (outputs, *layout.sizes[1:]), cores)
        by_fractals = self.once and weights and (compiled or self.forward)
        whole = not compiled and not (weights and self.forward)
        by_images = whole and 2 * layout.sizes[_N] >= cores  # an image for every core
        # It moves as many slices at a time as there is room for, but channels that lie apart.
        shared = 1 if by_images and (self.spaced or not self.forward) else cores
        room = self._room(profile)
        extent = self._fractals(room) if by_fractals else self._slices(room, shared)
        if by_images:
            return Grid(layout.sizes, extent, cores, _N)
        if whole:
            return Grid(layout.sizes, self._shared(extent, cores), cores)
        counts = [ceil(a / b) for a, b in zip(layout.sizes, extent, strict=True)]
        if self.once and self.forward:
            counts[_C] = layout.slices  # dealt out one by one, moved together
        return Grid(layout.sizes, extent, cores, busiest(counts, cores))

    def _choose(self, profile: Profile) -> None:
        """How planes are turned, and what is spaced for it."""
        compiled, places = profile.software.compiled_for_shape, self.layout.sizes[_S]
        # The vendor's kernel to blocks spaces whatever is wider, the one from blocks only what
        # vnchwconv doesn't take (Intrinsic_vnchwconv of the chip).
        taken = not self.forward and turns_whole(profile, self.itemsize)
        narrow = (taken or self.itemsize == FLOAT16.itemsize) and places >= self._gate(profile)
        # Images of one place are copied as they lie, volumes aren't: nothing fills a line of them.
        lines = len(self.packed.shape) != _VOLUMES or places >= TURNED_LINES
        self.once = narrow if compiled else lines and turns_whole(profile, self.itemsize)
        # Channels that are turned at once start at lines of their own, from where data_move_pad
        # stores them one by one; another pass takes short ones together for a store.
        ragged = places * self.itemsize % profile.buffers.block_bytes
        short = ragged > 0 and places < self._gate(profile)
        self.closed = self.once and not compiled and not self.forward and short
        # Shorter channels still are spaced one by one, behind one load, if they fill a line.
        short = ragged > 0 and TURNED_LINES < places < _SHORT * TURNED_LINES
        self.spaced = short and self.once and not compiled
        self.merges = not self.once or self.closed or self.spaced
        # Kernels that were profiled on the first generation are older and load ahead.
        ahead = compiled and not profile.software.turns_ragged_rows
        self.depth = 2 if self.once and ahead else 1

    def _slices(self, room: int, shared: int) -> tuple[int, int, int]:
        """Tiles of whole slices of ``shared`` parts of an image, or of a stretch of one.

        Twice turned, they are of 16 images.
        """
        layout = self.layout
        images, channels, places = layout.sizes
        line = room // TURNED_LINES // self.block * self.block
        together, slices = min(images, TURNED_LINES), 1
        most, unit = max(self.block, line // layout.c0 // self.block * self.block), self.block
        if self.once:
            most, unit, together = room // layout.c0 // layout.c0 * layout.c0, layout.c0, 1
        share = min(places, most)
        if share == places and (self.once or not self.forward):
            slices = min(layout.slices, max(1, most // round_up(places, unit)))
            if self.once:
                slices = min(slices, ceil(layout.slices / shared))
        return together, min(channels, slices * layout.c0), share

    def _fractals(self, room: int) -> tuple[int, int, int]:
        """Tiles of a slice of weights: of 16 output channels each time."""
        images, channels, places = self.layout.sizes
        c0 = self.layout.c0
        share = min(places, max(1, room // (c0 * TURNED_LINES)))
        together = max(
            TURNED_LINES, room // (c0 * round_up(share, c0)) // TURNED_LINES * TURNED_LINES
        )
        return min(images, together), min(channels, c0), share

    def _outputs(self, profile: Profile) -> int:
        """How many whole output channels a tile has; 0 where UB has no room for one."""
        layout = self.layout
        images, _, places = layout.sizes
        # A channel that doesn't follow the one before, as in a volume, has lines of its own.
        apart = layout.plain[_C] != places * layout.plain[_S]
        line = round_up(places, self.block) if apart else places
        whole = layout.slices * layout.c0 * line * self.itemsize
        # Lines are loaded apart, each into blocks of its own.
        loaded = layout.sizes[_C] * round_up(places, self.block) * self.itemsize
        room = profile.buffers.ub_bytes // 2 // self.depth
        return min(images, profile.buffers.ub_bytes // _WEIGHT_TILES // whole, room // loaded)

    def turn(self, core: Core, out: LocalTensor, x: LocalTensor, shape: tuple[int, ...]) -> None:
        layout = self.layout
        images, channels, places = shape
        slices = ceil(channels / layout.c0)
        if self.once:
            if self.spaced:
                for _ in core.loop(images * channels):
                    self._find(core)
                    core.move_bursts(x, x, 1, ceil(places / self.block))
            elements = images * slices * layout.c0 * round_up(places, TURNED_LINES)
            for _ in range(2 if self.closed else 1):
                core.turn_lines(
                    out, x, ceil(elements * self.itemsize / (TURNED_LINES * _LINE_BYTES))
                )
            return
        # 16 images are 16 lines: turned, one burst for every channel and place, and back again.
        factor = max(1, self.itemsize // FLOAT16.itemsize)
        width = slices * layout.c0 * round_up(places, self.block) * factor
        core.turn_lines(out, x, ceil(width / TURNED_LINES))
        for _ in core.loop(slices * layout.c0):
            if not self.profile.software.compiled_for_shape:
                self._find(core)
            stride = layout.c0 * factor if self.forward else 0
            core.move_bursts(x, out, places, factor, stride=stride)
        core.turn_lines(out, x, ceil(slices * layout.c0 * places * factor / TURNED_LINES))

    def _find(self, core: Core) -> None:
        """The scalar unit finds out where the next channel comes from and goes."""
        core.scalar_loop()
        core.scalar_alu("address", _ADDRESS_OPERATIONS)

    def _shared(self, extent: tuple[int, ...], cores: int) -> tuple[int, ...]:
        """Smaller tiles, so that every core gets one."""
        together, channels, share = extent
        images, whole, places = self.layout.sizes
        together = 1
        while images * ceil(whole / channels) * ceil(places / share) < cores:
            if channels > self.layout.c0:
                channels = round_up(ceil(channels / 2), self.layout.c0)
            elif share > 2 * TURNED_LINES:
                share = round_up(ceil(share / 2), TURNED_LINES)
            else:
                break
        return together, channels, share

    def _room(self, profile: Profile) -> int:
        """Elements of a tile, without what rows are padded with."""
        share = profile.buffers.ub_bytes // 2 // self.depth // self.itemsize
        return share - 2 * TURNED_LINES * self.block

    def _gate(self, profile: Profile) -> int:
        """Places from which on one pass of vnchwconv is worth its padding."""
        if self.forward or self.layout.sizes[_S] % self.layout.c0 == 0:
            return 2 * TURNED_LINES
        line = self._room(profile) // self.layout.c0 // self.layout.c0 * self.layout.c0
        few = line // round_up(self.layout.sizes[_S], self.layout.c0) <= self.layout.slices
        return (8 if few else 15) * TURNED_LINES


def busiest(counts: list[int], cores: int) -> int:
    """The axis of tiles that keeps most cores busy; the first of equals."""
    return max(range(len(counts)), key=lambda axis: (busy_cores(counts[axis], cores), -axis))


def busy_cores(count: int, cores: int) -> int:
    """How busy ``count`` tiles keep the cores: all of them in whole rounds, and the last round."""
    full, rest = divmod(count, cores)
    return (cores if full else 0) + (rest or cores)
