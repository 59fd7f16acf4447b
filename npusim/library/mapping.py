"""Tensors mapped along their last axes, axis after axis in UB, in float32 sums.

Cores share tiles of the result: 16 planes side by side where the last axis changes, which vnchwconv
turns so that planes are lanes, and back. The part of the source that a tile needs is loaded once;
sums along the outermost axis come first: for every tap elements are brought together, weighted
where weights differ, and added. What is only moved keeps its dtype. Tiles are as large as UB allows
and every core gets one.
"""

from __future__ import annotations

from functools import partial
from math import ceil, prod
from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.ascendc import Core, GlobalTensor, GmSlice, Kernel, LocalTensor, TBuf, TPosition, TQue
from npusim.ascendc.ai_cpu import AiCpuKernel
from npusim.ascendc.conversions import conversion_path
from npusim.ascendc.costs import TURNED_LINES
from npusim.ascendc.loops import looked_up, values_of
from npusim.schedules.tile_grid import Grid
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import DOUBLE, FLOAT, FLOAT16
from npusim.values.errors import KernelError, RefusedTaskError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from npusim.ascendc.loops import Index
    from npusim.hardware.profile import Profile
    from npusim.library.axis_maps import AxisMap
    from npusim.schedules.tile_grid import Piece


def mapped(
    op_type: str, profile: Profile, x: GlobalTensor, y: GlobalTensor, maps: Sequence[AxisMap]
) -> Kernel:
    """The kernel of an operator type; sums in float64 are a task of the AI CPUs.

    No vector unit has float64; what is only moved needs none.
    """
    if DOUBLE not in (x.dtype, y.dtype) or (x.dtype is y.dtype and all(e.moves for e in maps)):
        return Mapped.called(op_type)(profile, x, y, maps)

    def compute(values: NDArray[Any]) -> tuple[NDArray[Any]]:
        for axis, each in enumerate(maps):
            values = each.whole(values, axis - len(maps))
        return (values.astype(y.dtype.numpy),)

    operations = y.numel * 2 * prod(each.taps for each in maps)
    return AiCpuKernel(op_type, (x,), (y,), operations, compute)


class Mapped(Kernel):
    """y[..., i, j] = sums over x[..., taps of i, taps of j] by tables, one for each axis."""

    op_type = "Mapped"

    def __init__(
        self, profile: Profile, x: GlobalTensor, y: GlobalTensor, maps: Sequence[AxisMap]
    ) -> None:
        inside, outside = tuple(each.size for each in maps), tuple(each.out for each in maps)
        planes = x.numel // max(1, prod(inside))
        if not maps or x.shape[-len(maps) :] != inside or y.numel != planes * prod(outside):
            raise RefusedTaskError(self.op_type, f"{x.shape} doesn't become {y.shape}")
        self.reads, self.writes = (x,), (y,)
        self.x, self.y, self.maps = x.view(x.numel), y.view(y.numel), tuple(maps)
        self.moves = all(each.moves for each in maps) and x.dtype is y.dtype
        self.kind = x.dtype if self.moves else FLOAT
        self.widen = () if self.moves else conversion_path(profile, x.dtype, FLOAT)
        self.narrow = () if self.moves else conversion_path(profile, FLOAT, y.dtype)
        self.turns = not maps[-1].is_same
        self.block = profile.buffers.block_bytes
        cores = profile.cores.vector_cores
        extent = self._extent((planes, *outside), profile.buffers.ub_bytes, cores)
        self.division = self.grid = Grid((planes, *outside), extent, cores)
        self.block_dim = self.grid.used_cores

    def process(self, core: Core) -> None:
        """Tile by tile: load, turn, map along one axis after the other, turn back, store."""
        sizes = self._bytes(self.grid.extent)
        source, target = TQue(TPosition.VECIN, 1, "source"), TQue(TPosition.VECOUT, 1, "result")
        wide, mapped = TBuf("wide"), TBuf("mapped")
        buffers: tuple[TQue | TBuf, ...] = (source, target, wide, mapped)
        for buffer, nbytes in zip(buffers, sizes, strict=True):
            core.pipe.init_buffer(buffer, 1, max(nbytes, self.block))
        for piece in self.grid.pieces(core):
            begins = self._begins(piece)
            given = source.copy_in(self._cut(self.x, piece, begins, inside=True))
            out = target.alloc_tensor(self.y.dtype, prod(piece.shape))
            self._instructions(core, piece, wide, mapped, out)
            core.arrange(out, given, how=partial(self._numbers, piece, begins))
            source.free_tensor(given)
            target.copy_out(self._cut(self.y, piece, piece.starts[1:]), out)

    def _begins(self, piece: Piece) -> tuple[Index, ...]:
        """The first elements of the source that a tile needs along each axis."""
        return tuple(
            looked_up(start, each.begins(count))
            for start, each, count in zip(piece.starts[1:], self.maps, piece.shape[1:], strict=True)
        )

    def _cut(
        self, tensor: GlobalTensor, piece: Piece, starts: Sequence[Index], *, inside: bool = False
    ) -> GmSlice:
        """The tile of a result, or what it needs ``inside`` a source; whole axes are one run."""
        whole = [each.size if inside else each.out for each in self.maps]
        taken = self._spans(piece.shape) if inside else piece.shape[1:]
        steps = [prod(whole[axis + 1 :]) for axis in range(len(whole))]
        places = ((piece.starts[0], prod(whole)), *zip(starts, steps, strict=True))
        shape, strides = [piece.shape[0], *taken], [prod(whole), *steps]
        while len(shape) > 1 and strides[-2] == shape[-1] * strides[-1]:
            shape[-2:], strides[-2:] = [shape[-2] * shape[-1]], [strides[-1]]
        cut = tensor.window(tuple(places), tuple(shape), tuple(strides))
        return cut.by_rows() if shape[-1] * tensor.dtype.itemsize % self.block else cut

    def _spans(self, extent: Sequence[int]) -> list[int]:
        """Elements of the source along each axis that a tile needs."""
        return [each.span(count) for each, count in zip(self.maps, extent[1:], strict=True)]

    # -- tiles -------------------------------------------------------------------------------------

    def _extent(self, sizes: tuple[int, ...], room: int, cores: int) -> tuple[int, ...]:
        """Planes, and elements along each axis, of a tile."""
        extent = [min(TURNED_LINES, sizes[0]) if self.turns else 1, *sizes[1:]]

        def fits() -> bool:
            return sum(self._bytes(extent)) + 4 * self.block <= room

        def tiles() -> int:
            return prod(ceil(a / b) for a, b in zip(sizes, extent, strict=True))

        axes = list(range(1, len(sizes)))
        while not fits() or (tiles() < cores and max(extent[1:-1], default=1) > 1):
            axis = next((each for each in axes if extent[each] > 1), 0)
            if extent[axis] == 1:
                raise KernelError(self.op_type, f"spans {self._spans(extent)} don't fit into UB")
            extent[axis] = ceil(extent[axis] / 2)
        if extent[1:] == list(sizes[1:]) and not self.turns:
            while extent[0] < sizes[0] and tiles() > cores:
                extent[0] *= 2
                if not fits():
                    extent[0] //= 2
                    break
        return tuple(min(a, b) for a, b in zip(extent, sizes, strict=True))

    def _lanes(self, planes: int) -> int:
        return round_up(planes, TURNED_LINES) if self.turns else planes

    def _bytes(self, extent: Sequence[int]) -> tuple[int, int, int, int]:
        """UB for the source, for the result, and for both in lanes."""
        spans, lanes = self._spans(extent), self._lanes(extent[0])
        row, out_row = (
            round_up(size * kind.itemsize, self.block)
            for size, kind in ((spans[-1], self.x.dtype), (extent[-1], self.y.dtype))
        )
        width = self.kind.itemsize * lanes
        between = max(
            prod(extent[1 : axis + 1]) * prod(spans[axis:]) for axis in range(1, len(extent))
        )
        return (
            extent[0] * prod(spans[:-1]) * row,
            extent[0] * prod(extent[1:-1]) * out_row,
            prod(spans) * width,
            max(between, prod(extent[1:])) * width,
        )

    # -- instructions and numbers ------------------------------------------------------------------

    def _instructions(
        self, core: Core, piece: Piece, wide: TBuf, mapped: TBuf, out: LocalTensor
    ) -> None:
        """What brings a tile of the source into the result's place."""
        spans, lanes = self._spans(piece.shape), self._lanes(piece.shape[0])
        held, made = wide.get(self.kind, 1), mapped.get(self.kind, 1)
        elements, taken = prod(spans) * lanes, prod(piece.shape[1:]) * lanes
        for _ in self.widen:
            core.record_vector("vconv", held, elements)
        self._turn(core, held, elements)
        for axis, each in enumerate(self.maps):
            if each.is_same:
                continue
            count = piece.shape[1 + axis]
            rest = prod(piece.shape[1 : 1 + axis]) * prod(spans[axis + 1 :]) * lanes
            for _ in core.loop(max(1, ceil(each.taps))):
                core.record_vector("ub2ub", made, count * rest)
                if not self.moves:
                    if not each.adds:
                        core.record_vector("vmul", made, count * rest)
                    core.record_vector("vadd", made, count * rest)
            if each.adds and not self.moves:
                core.record_vector("vmuls", made, count * rest)
        self._turn(core, made, taken)
        for _ in self.narrow:
            core.record_vector("vconv", out, taken)
        if not self.narrow:
            core.record_vector("ub2ub", out, taken)

    def _turn(self, core: Core, tile: LocalTensor, elements: int) -> None:
        """Lines turned by vnchwconv, numbers of several halves in as many passes."""
        halves = max(1, self.kind.itemsize // FLOAT16.itemsize)
        for _ in range(halves if self.turns else 0):
            turned = round_up(elements * halves, TURNED_LINES * TURNED_LINES)
            core.emit_vector("vnchwconv", FLOAT16, turned, chained=core.is_last(tile))
            core.noted(tile)

    def _numbers(
        self, piece: Piece, begins: tuple[Index, ...], values: NDArray[Any]
    ) -> NDArray[Any]:
        """The tile [turn, plane, ...] of the result."""
        found = values.reshape(-1, piece.shape[0], *self._spans(piece.shape))
        turns = len(found)
        for axis, each in enumerate(self.maps):
            begin = np.broadcast_to(values_of(begins[axis]), turns)
            how = each.take if self.moves else each.apply
            found = how(found, 2 + axis, piece.starts[1 + axis], piece.shape[1 + axis], begin)
        return found.reshape(turns, -1).astype(self.y.dtype.numpy)
