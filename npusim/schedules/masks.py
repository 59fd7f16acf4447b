"""Kernels that keep or drop elements by a mask of one bit per element, stored eight to a byte."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from math import ceil
from typing import TYPE_CHECKING, ClassVar

from npusim.ascendc.kernel import Kernel
from npusim.ascendc.queues import TBuf, TPosition, TQue
from npusim.schedules.block_split import Axes, compiled_split
from npusim.schedules.elementwise import FlatTiling, flat_tiling
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import FLOAT16, UINT8
from npusim.values.errors import KernelError, RefusedTaskError

if TYPE_CHECKING:
    from npusim.ascendc.core import Core
    from npusim.ascendc.gm import GlobalTensor
    from npusim.ascendc.loops import Index
    from npusim.ascendc.tensors import LocalTensor
    from npusim.hardware.profile import Profile

BITS = 8
_ALIGN = 256  # elements whose mask fills a 32-byte block
_MASK_LANES = 128  # elements that the mask register covers


class BitMaskKernel(Kernel):
    """out = ``transform(x)`` where the mask's bit is set, else 0; tiles are flat."""

    generated: bool = True
    axes: ClassVar[Axes] = Axes.FUSED

    def __init__(
        self, profile: Profile, x: GlobalTensor, mask: GlobalTensor, out: GlobalTensor
    ) -> None:
        self.x, self.out = x.view(x.numel), out.view(out.numel)
        if mask.dtype.itemsize != 1:
            raise KernelError(self.op_type, f"the mask is {mask.dtype.name}, not UINT8")
        self.mask = replace(mask.view(mask.numel), dtype=UINT8)
        if mask.numel * BITS < x.numel:
            problem = f"{mask.numel} bytes of mask for {x.numel} elements"
            raise RefusedTaskError(self.op_type, problem)
        self.reads, self.writes = (x, mask), (out,)
        self.division = self.tiling = self._tiled(profile)
        self.block_dim = self.tiling.block_dim
        self.depth = self.buffer_num if self.tiling.double_buffer else 1

    @abstractmethod
    def transform(self, core: Core, dst: LocalTensor, x: LocalTensor) -> LocalTensor:
        """What becomes of the elements that are kept; may return ``x`` itself."""

    def prepare(self, core: Core) -> None:
        """What a core does before its first tile."""

    def process(self, core: Core) -> None:
        """The work of one block."""
        itemsize, elements = self.x.dtype.itemsize, self.tiling.tile
        x_que = TQue(TPosition.VECIN, self.depth, "x")
        mask_que = TQue(TPosition.VECIN, self.depth, "mask")
        out_que = TQue(TPosition.VECOUT, self.depth, "out")
        kept_buf, self.chosen, ones = TBuf("kept"), TBuf("chosen"), TBuf("ones")
        for queue in (x_que, out_que):
            core.pipe.init_buffer(queue, self.depth, elements * itemsize)
        core.pipe.init_buffer(mask_que, self.depth, ceil(elements / BITS))
        core.pipe.init_buffer(kept_buf, 1, elements * itemsize)
        for buffer in (self.chosen, ones):
            core.pipe.init_buffer(buffer, 1, _MASK_LANES * FLOAT16.itemsize)
        self.ones = core.duplicate(ones.get(FLOAT16, _MASK_LANES), 1.0)
        self.prepare(core)
        for start, count, length in self._pieces(core):
            bits = mask_que.copy_in(self.mask.span(start, count))
            x = x_que.copy_in(self.x.span(start * BITS, length))
            kept = self.transform(core, kept_buf.get(self.x.dtype, length), x)
            out = out_que.alloc_tensor(self.out.dtype, length)
            self._select(core, out, bits, kept)
            mask_que.free_tensor(bits)
            x_que.free_tensor(x)
            out_que.copy_out(self.out.span(start * BITS, length), out)

    def _pieces(self, core: Core) -> Iterator[tuple[Index, int, int]]:
        """First byte of the mask, its bytes and their elements, for every tile of a block."""
        block, length = core.get_block_idx(), self.tiling.length(core.get_block_idx())
        first = block * self.tiling.per_core // BITS
        whole, rest = divmod(length, BITS)
        for start, count in core.tiles(first, whole, max(1, self.tiling.tile // BITS)):
            yield start, count, count * BITS
        if rest:
            for index in core.loop(1):
                yield index + (first + whole), 1, rest

    def _tiled(self, profile: Profile) -> FlatTiling:
        buffers = 3.5 * self.x.dtype.itemsize / 4
        itemsize = self.out.dtype.itemsize
        shape = self.out.shape if self.axes is Axes.FUSED else self.writes[0].shape
        split = compiled_split(profile, shape, itemsize, 1)
        plain = flat_tiling(
            profile,
            self.out.numel,
            itemsize,
            buffers,
            least_bytes=profile.launch.elementwise_core_bytes,
            split=split,
        )
        per_core = round_up(plain.per_core, _ALIGN)
        tile = min(per_core, max(_ALIGN, plain.tile // _ALIGN * _ALIGN))
        if tile < per_core and not plain.double_buffer:  # whole bytes of mask don't fit at once
            tile = round_up(ceil(per_core / 2), _ALIGN)
        blocks = plain.block_dim if split and split.inner > 1 else ceil(plain.rows / per_core)
        return FlatTiling(plain.rows, per_core, tile, blocks, tile < per_core)

    def _select(self, core: Core, out: LocalTensor, bits: LocalTensor, x: LocalTensor) -> None:
        if core.profile.has("vcmpvs_eq") or out.dtype is FLOAT16:
            keep(core, out, bits, x)
            return
        core.separately(
            lambda: self._select_by_ones(core, out, bits, x),
            lambda: core.select(out, bits, x, 0.0, packed=True),
        )

    def _select_by_ones(
        self, core: Core, out: LocalTensor, bits: LocalTensor, x: LocalTensor
    ) -> None:
        """float32 is multiplied by a float16 selection of ones and zeros, repeat by repeat."""
        for part, source, mask, count, lanes in _repeats(core, out, bits, x):
            core.set_cmpmask(mask)
            kept = self.chosen.get(FLOAT16, count).as_run(lanes)
            core.select(kept, mask, self.ones.stretch(0, count), 0.0, packed=True)
            core.cast(part, kept)
            core.mul(part, part, source)


def keep(core: Core, out: LocalTensor, bits: LocalTensor, x: LocalTensor) -> None:
    """out = x where the bit is set, else 0, for flat tiles.

    Masks for whole tiles are read from UB where the chip can do that; else for one repeat at a
    time: its mask goes to the register, then halves are selected by it. Source: public operator
    sources, dropout.
    """

    def by_register() -> None:
        for part, source, mask, _, _ in _repeats(core, out, bits, x):
            core.set_cmpmask(mask)
            core.select(part, mask, source, 0.0, packed=True)

    def at_once() -> None:
        core.select(out, bits, x, 0.0, packed=True)

    if core.profile.has("vcmpvs_eq"):
        at_once()
    else:
        core.separately(by_register, at_once)


def _repeats(
    core: Core, out: LocalTensor, bits: LocalTensor, x: LocalTensor
) -> Iterator[tuple[LocalTensor, LocalTensor, LocalTensor, int, int]]:
    """Results, numbers and mask of every repeat, its elements, and those of a whole one."""
    lanes = min(_MASK_LANES, out.numel)
    for turn in core.loop(ceil(out.numel / lanes)):
        first = turn.first * lanes
        count = min(lanes, out.numel - first)
        part, source = (each.stretch(first, count).as_run(lanes) for each in (out, x))
        yield part, source, bits.stretch(first // BITS, ceil(count / BITS)), count, lanes
