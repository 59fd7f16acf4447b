"""Copies between strided views of one shape, tile by tile.

Runs that are contiguous on both sides pass from one transfer engine to the other. Where the two
sides run along different axes, tiles are turned in UB by vnchwconv. A side that has one element for
many repeats it on chip. Anything more scattered moves element by element, each in a block of its
own.
"""

from __future__ import annotations

from math import ceil, isqrt, prod
from typing import TYPE_CHECKING, ClassVar

from npusim.dialect import Kernel, TPosition, TQue
from npusim.dialect.boxes import Box, BoxTiling, whole_axes
from npusim.dialect.pipe import footprint_bytes
from npusim.dialect.spreading import compiled_for_shape
from npusim.engine.program import Pipe

if TYPE_CHECKING:
    from collections.abc import Hashable

    from npusim.dialect import Core, GlobalTensor, GmSlice, LocalTensor
    from npusim.dialect.boxes import BoxTile, Extent
    from npusim.hardware.profile import Profile

_LINES = 16  # lines that vnchwconv turns at a time
_LINE_BYTES = 32
_HALF_BYTES = 2
_RUN_BYTES = 512  # shorter runs waste the slot of a packet


class StridedCopy(Kernel):
    """dst = src, both of one shape (src may broadcast), either of them strided.

    ``spaces`` says that a chip that can't turn the dtype spreads 16 lines of it over a buffer 16
    times as large, ``parameters`` how many numbers the kernel reads before it starts, one by one.
    """

    spaces: ClassVar[bool] = True
    overlaps: bool = True  # loads, work on chip and stores of different tiles
    parameters: int = 0

    def __init__(self, profile: Profile, src: GlobalTensor, dst: GlobalTensor) -> None:
        self.reads, self.writes = (src,), (dst,)
        self.dst, self.src = dst, src
        self.profile = profile
        self.box = Box.of(src, dst)
        self.itemsize = dst.dtype.itemsize
        self.block = profile.buffers.block_bytes // self.itemsize
        axes = unit_axes(self.box)
        self.spreads = not all(_steps(self.box)) and self.box.numel > 1
        turned = axes is not None and axes[0] != axes[1] and not self.spreads
        self.turned_axes = axes if turned else None
        self.through_vector = self.turned_axes is not None or self.spreads
        compiled = compiled_for_shape(profile) and self.spaces
        turns = not compiled or turns_whole(profile, self.itemsize)
        self.spaced = self.turned_axes is not None and not turns
        self.depth = self.buffer_num if self.overlaps and not self.spaced else 1
        least = profile.launch.elementwise_core_bytes
        self.core_count = max(1, min(profile.cores.vector_cores, ceil(dst.nbytes / least)))
        self.tiling = BoxTiling.of(self.box, self._extent(), self.core_count, self._axis())
        self.block_dim = self.tiling.grid.used_cores

    def work(self, block_idx: int) -> Hashable:
        return self.tiling.grid.work(block_idx)

    def process(self, core: Core) -> None:
        nbytes = max(footprint_bytes(self.dst.dtype, self._bounding(), core.block_bytes), 1)
        consumer = Pipe.VECTOR if self.through_vector else Pipe.MTE3
        in_que = TQue(TPosition.VECIN, self.depth, "in", consumer=consumer)
        out_que = TQue(TPosition.VECOUT, self.depth, "out")
        core.pipe.init_buffer(in_que, self.depth, nbytes * (_LINES if self.spaced else 1))
        if self.through_vector:
            core.pipe.init_buffer(out_que, self.depth, nbytes * (_LINES if self.spaced else 1))
        self._read_parameters(core)
        order = self._source_order() if self.turned_axes is not None else None
        for tile in self.tiling.tiles(core, order):
            by_rows(tile.src, core)
            by_rows(tile.dst, core)
            if not self.through_vector:
                x = in_que.copy_in(tile.src)
                core.copy_runs(tile.dst, x)
                in_que.free_tensor(x)
                continue
            out = out_que.alloc_tensor(self.dst.dtype, *tile.shape)
            step = self._turn if self.turned_axes is not None else self._spread
            x = step(core, in_que, tile, out)
            in_que.free_tensor(x)
            out_que.copy_out(tile.dst, out)

    # -- tiles ------------------------------------------------------------------------------------

    def _extent(self) -> Extent:
        slots = self.depth * (2 if self.through_vector else 1) * (_LINES if self.spaced else 1)
        limit = self.profile.buffers.ub_bytes // slots // self.itemsize - self.block
        if self.turned_axes is None:
            return whole_axes(
                self.box.sizes, limit, self.core_count, multiple=self.block, padded=self.block
            )
        return self._turned_extent(limit)

    def _turned_extent(self, limit: int) -> Extent:
        """Both contiguous axes about equally long, then the axes around them."""
        sizes, (source, target) = self.box.sizes, self.turned_axes or (0, 0)
        extent = [1] * len(sizes)
        # Runs are loaded along the source's axis and stored along the target's.
        step = max(_LINES, self.block)
        side = max(step, isqrt(limit) // step * step)
        if not self.spaced:
            side = max(side, _RUN_BYTES // self.itemsize)
        extent[source] = min(sizes[source], side)
        extent[target] = min(sizes[target], max(step, limit // _round_up(extent[source], step)))
        extent[target] = _even(sizes[target], extent[target], step)
        spare = limit // _round_up(extent[target], step)
        extent[source] = _even(sizes[source], min(sizes[source], spare), step)
        while self._tiles(extent) < self.core_count and max(extent[source], extent[target]) > step:
            longer = source if extent[source] >= extent[target] else target
            extent[longer] = _round_up(ceil(extent[longer] / 2), step)
        others = sorted(set(range(len(sizes))) - {source, target}, reverse=True)
        rows = _round_up(extent[source], step) * _round_up(extent[target], step)
        for axis in others:
            share = max(1, self._tiles(extent) // self.core_count)
            room = max(1, min(limit // rows, share))
            extent[axis] = min(sizes[axis], room)
            rows *= extent[axis]
            if extent[axis] < sizes[axis]:
                break
        return tuple(extent)

    def _tiles(self, extent: list[int]) -> int:
        return prod(ceil(a / b) for a, b in zip(self.box.sizes, extent, strict=True))

    def _axis(self) -> int | None:
        """Kernels compiled for a shape deal out the outermost axis, if it is long enough."""
        enough = self.box.sizes[0] >= self.core_count
        outside = self.turned_axes is not None and 0 not in self.turned_axes
        return 0 if self.spaced and enough and outside else None

    def _bounding(self) -> tuple[int, ...]:
        """The shape of the largest tile on either side, as it lies in UB."""
        if self.turned_axes is None:
            return self.tiling.extent
        step = max(_LINES, self.block)
        source, target = self.turned_axes
        return tuple(
            _round_up(size, step) if axis in (source, target) else size
            for axis, size in enumerate(self.tiling.extent)
        )

    # -- what happens to a tile -------------------------------------------------------------------

    def _turn(self, core: Core, in_que: TQue, tile: BoxTile, out: LocalTensor) -> LocalTensor:
        """Load along the source's axis, store along the target's; the numbers lie right already."""
        x = in_que.copy_in(tile.src)
        source, target = self.turned_axes or (0, 0)
        lines = [_round_up(tile.shape[axis], _LINES) for axis in (source, target)]
        planes = prod(tile.shape) // (tile.shape[source] * tile.shape[target])
        if self.itemsize == 1 and not compiled_for_shape(self.profile):
            core.wait_vector()  # bytes are moved one by one
            core.move_elements(out, x, prod(tile.shape))
        elif self.spaced:
            halves = ceil(prod(tile.shape) * self.itemsize / _LINE_BYTES)
            core.turn_lines(out, x, halves)
            bursts = prod(tile.shape)
            core.move_bursts(x, out, bursts, ceil(self.itemsize / _HALF_BYTES))
            core.turn_lines(out, x, halves)
        else:
            nbytes = planes * prod(lines) * self.itemsize
            repeats = ceil(nbytes / (_LINES * _LINE_BYTES))
            # Numbers of several halves are taken apart and put together again.
            for _ in range(1 if turns_whole(self.profile, self.itemsize) else self.itemsize // 2):
                core.turn_lines(out, x, repeats)
        core.permute(out, x, self._source_order())
        return x

    def _read_parameters(self, core: Core) -> None:
        if self.parameters:
            core.scalar_loop(self.parameters)
            core.scalar_alu("ld_ub", self.parameters)

    def _source_order(self) -> tuple[int, ...]:
        """The axes as they follow each other in the source's memory."""
        steps = self.box.src.steps
        return tuple(sorted(range(len(steps)), key=lambda axis: -steps[axis]))

    def _spread(self, core: Core, in_que: TQue, tile: BoxTile, out: LocalTensor) -> LocalTensor:
        """Repeat what the source has over the tile: a number, a column, or rows."""
        source = tile.src
        if source.numel == 1:
            x = in_que.copy_in(source, (1,))
            core.duplicate(out, core.get_value(x))
            return x
        if source.shape[-1] == 1 and tile.shape[-1] > 1:
            x = in_que.copy_in(source, source.shape[:-1])
            core.copy(out, core.broadcast_column(x))
            return x
        x = in_que.copy_in(source)
        core.copy(out, x)
        return x


def unit_axes(box: Box) -> tuple[int, int] | None:
    """The axes along which source and target are contiguous, None where one isn't anywhere."""
    found = []
    for tensor in (box.src, box.dst):
        axes = [
            axis
            for axis, (size, step) in enumerate(zip(box.sizes, tensor.steps, strict=True))
            if step == 1 and size > 1
        ]
        if not axes:
            return None
        found.append(axes[-1])
    return found[0], found[1]


def by_rows(cut: GmSlice, core: Core) -> GmSlice:
    """Rows off block boundaries are transfers of their own without padded copies."""
    block = core.block_bytes // cut.tensor.dtype.itemsize
    run, runs = cut.bursts()
    steps = [step for size, step in zip(cut.shape, cut.steps, strict=True) if size > 1]
    if runs > 1 and any(step % block for step in steps if step >= run):
        cut.by_rows()
    return cut


def _steps(box: Box) -> list[int]:
    return [step for size, step in zip(box.sizes, box.src.steps, strict=True) if size > 1]


def turns_whole(profile: Profile, itemsize: int) -> bool:
    """True where vnchwconv turns elements of this size without spacing them."""
    wide = {1: "uint8", 2: "uint16", 4: "uint32"}.get(itemsize)
    return wide is not None and profile.supports_vector("vnchwconv", wide)


def _even(size: int, most: int, step: int) -> int:
    """A length of at most ``most`` that cuts ``size`` into like pieces, whole steps if it can."""
    if size <= most:
        return size
    return min(max(step, most // step * step), _round_up(ceil(size / ceil(size / most)), step))


def _round_up(value: int, step: int) -> int:
    return ceil(value / step) * step


class AsStrided(StridedCopy):
    """A view with any strides made contiguous."""

    op_type = "AsStrided"


class ViewCopy(StridedCopy):
    """A contiguous value written into a strided output."""

    op_type = "ViewCopy"
