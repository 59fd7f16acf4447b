"""TransData: between planes of one channel (NCHW, ND) and the vector layout NC1HWC0, turned in UB.

C is cut into C1 slices of C0 channels, the last one padded with zeros:
[N, C, spatial...] <-> [N, C1, spatial..., C0]. A tile is a few slices, or a stretch of one slice.
Source of the layout: the public format documents; of the instruction: vnchwconv, which turns
blocks of 16 rows.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from math import ceil, prod
from typing import TYPE_CHECKING

from npusim.ascendc import Core, GlobalTensor, Kernel, TPosition, TQue
from npusim.library.tensor_lists import read_parameters
from npusim.ops.data_movement.blocked import PARAMETERS
from npusim.values.arithmetic import round_up
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from npusim.ascendc.gm_slices import Place
    from npusim.ascendc.loops import Index
    from npusim.hardware.profile import Profile

_BLOCK_ROWS = 16  # rows that vnchwconv turns at a time
_SHORTEST_PART = 64  # elements of a row; shorter parts of a slice aren't worth a core of their own
_MOST_PARTS = 8


@dataclass(frozen=True, slots=True)
class Slices:
    """Slices with equally many channels; those of one image follow each other.

    Strides count elements, from one slice and from one image to the next, in the planes and in the
    packed tensor. `per_image` 0 means that all slices are one step apart.
    """

    count: int
    channels: int
    first: int
    per_image: int
    steps: tuple[int, int]
    image_steps: tuple[int, int]

    def places(self, index: Index, side: int) -> tuple[tuple[Place, int], ...]:
        """Where slice `index` begins on a side: 0 the planes, 1 the packed tensor."""
        start = (self.first, self.steps[side])
        if not self.per_image:
            return (start, (index, self.steps[side]))
        if self.per_image == 1:
            return (start, (index, self.image_steps[side]))
        image, slice_ = index // self.per_image, index % self.per_image
        return (start, (image, self.image_steps[side]), (slice_, self.steps[side]))


@dataclass(frozen=True, slots=True)
class Layout:
    """Both shapes of a tensor in a few numbers; `row` counts the elements of one channel."""

    images: int
    channels: int
    row: int
    c0: int

    @classmethod
    def of(cls, planar: GlobalTensor, packed: GlobalTensor) -> Layout:
        """The layout of a pair of tensors; raises KernelError when they don't belong together."""
        if len(planar.shape) > 1 and packed.dtype is planar.dtype:
            images, channels, *spatial = planar.shape
            c0 = max(1, packed.shape[-1])
            if packed.shape == (images, ceil(channels / c0), *spatial, c0):
                return cls(images, channels, prod(spatial), c0)
        problem = f"{planar.shape} isn't {packed.shape} in another layout"
        raise KernelError("TransData", problem)

    @property
    def slices(self) -> tuple[Slices, ...]:
        """Slices with all their channels, and the last ones of the images where those are short."""
        whole, rest = divmod(self.channels, self.c0)
        plane = self.row * self.c0
        steps = (plane, plane)
        image = (self.channels * self.row, ceil(self.channels / self.c0) * plane)
        if not rest:
            return (Slices(self.images * whole, self.c0, 0, 0, steps, image),)
        short = Slices(self.images, rest, whole, 1, steps, image)
        if not whole:
            return (short,)
        return Slices(self.images * whole, self.c0, 0, whole, steps, image), short


class TransData(Kernel):
    """dst = src in the other layout; which way it goes follows from the ranks."""

    op_type = "TransData"
    generated = True

    def __init__(self, profile: Profile, src: GlobalTensor, dst: GlobalTensor) -> None:
        self.reads, self.writes = (src,), (dst,)
        self.forward = len(dst.shape) > len(src.shape)
        self.planar, self.packed = (src, dst) if self.forward else (dst, src)
        self.layout = Layout.of(self.planar, self.packed)
        self.slices = self.layout.slices
        itemsize, cores = src.dtype.itemsize, profile.cores.vector_cores
        self.align = max(_BLOCK_ROWS, profile.buffers.block_bytes // itemsize)
        self.rows_aligned = self.layout.row * itemsize % profile.buffers.block_bytes == 0
        share = profile.buffers.ub_bytes // (2 * self.buffer_num)  # of a tile and its turned copy
        self.longest = share // (self.layout.c0 * itemsize) // self.align * self.align
        total = sum(slices.count for slices in self.slices)
        self.parts = _parts(self.layout.row, total, cores, self.align)
        self.part = round_up(ceil(self.layout.row / self.parts), self.align)
        self.block_dim = min(cores, total * self.parts)
        fitting = max(1, self.longest // round_up(self.layout.row, self.align))
        self.together = min(fitting, ceil(total / self.block_dim))

    def block_kind(self, block_idx: int) -> Hashable:
        """Numbers of slices, or the stretches of slices that a core has."""
        if self.parts == 1:
            return tuple(count for _, _, count in self._shares(block_idx))
        return tuple((slices.channels, length) for slices, _, _, length in self._parts(block_idx))

    def process(self, core: Core) -> None:
        """Load, turn and store one tile after the other."""
        row = min(self.longest, self.together * round_up(self.part, self.align))
        nbytes = self.layout.c0 * row * self.planar.dtype.itemsize
        self.in_que = TQue(TPosition.VECIN, self.buffer_num, "in")
        self.out_que = TQue(TPosition.VECOUT, self.buffer_num, "turned")
        for queue in (self.in_que, self.out_que):
            core.pipe.init_buffer(queue, self.buffer_num, nbytes)
        read_parameters(core, PARAMETERS)
        block, row = core.get_block_idx(), self.layout.row
        if self.parts > 1:
            for slices, index, start, length in self._parts(block):
                self._stretch(core, slices, index, start, length)
            return
        for slices, first, count in self._shares(block):
            if row > self.longest:
                for turn in core.loop(count):
                    self._stretch(core, slices, turn + first, 0, row)
                continue
            together = self.together if slices.per_image < 2 else 1  # a tile has one step
            for place, number in core.tiles(first, count, together):
                self._tile(core, slices, place, number, 0, row)

    def _shares(self, block: int) -> Iterator[tuple[Slices, int, int]]:
        """The slices of a core when no slice is shared: first and number, of either kind."""
        for slices in self.slices:
            each, more = divmod(slices.count, self.block_dim)
            yield slices, block * each + min(block, more), each + (block < more)

    def _parts(self, block: int) -> Iterator[tuple[Slices, int, int, int]]:
        """The parts of slices of a core: (kind, slice, first element, elements)."""
        kinds = [(slices, index) for slices in self.slices for index in range(slices.count)]
        each, more = divmod(len(kinds) * self.parts, self.block_dim)
        first = block * each + min(block, more)
        for item in range(first, first + each + (block < more)):
            slices, index = kinds[item // self.parts]
            start = item % self.parts * self.part
            length = min(self.part, self.layout.row - start)
            if length > 0:
                yield slices, index, start, length

    def _stretch(self, core: Core, slices: Slices, index: Index, start: int, length: int) -> None:
        for place, tile in core.tiles(start, length, self.longest):
            self._tile(core, slices, index, 1, place, tile)

    def _tile(
        self, core: Core, slices: Slices, index: Index, number: int, start: Index, length: int
    ) -> None:
        """Turn `number` slices from `index` on, or elements `start` to `start + length` of one."""
        c0, row, channels = self.layout.c0, self.layout.row, slices.channels
        step = slices.image_steps if slices.per_image == 1 else slices.steps
        planes = self.planar.window(
            (*slices.places(index, 0), (start, 1)), (number, channels, length), (step[0], row, 1)
        )
        if not self.rows_aligned:
            planes = planes.by_rows()
        packed = self.packed.window(
            (*slices.places(index, 1), (start, c0)), (number, length, c0), (step[1], c0, 1)
        )
        source, target = (planes, packed) if self.forward else (packed, planes)
        loaded = self.in_que.copy_in(source)
        turned = self.out_que.alloc_tensor(loaded.dtype, *target.shape)
        core.turn(turned, loaded)
        self.in_que.free_tensor(loaded)
        self.out_que.copy_out(target, turned)


def _parts(row: int, slices: int, cores: int, align: int) -> int:
    """Into how many parts to cut each slice so that the busiest core has the least to do."""

    def busiest(parts: int) -> int:
        return ceil(slices * parts / cores) * round_up(ceil(row / parts), align)

    most = max(1, min(_MOST_PARTS, row // _SHORTEST_PART))
    return min(range(1, most + 1), key=busiest) if 0 < slices < _MOST_PARTS * cores else 1
