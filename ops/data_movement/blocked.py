"""Layouts in which C0 channels lie together: NC1HWC0, FRACTAL_Z, FRACTAL_NZ, and their sources.

A tensor has images (n), channels (c) and places (s); the plain side has a stride for each, the
blocked side one for images, for slices of C0 channels and for places, with the channels of a slice
side by side. What is missing to whole slices (and to 16 images or places, in fractals) is zeros.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from functools import partial
from math import ceil, prod
from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.ascendc import Core, GlobalTensor, GmSlice, Kernel, LocalTensor, TPosition, TQue
from npusim.library.tensor_lists import read_parameters
from npusim.schedules.tile_grid import Grid, Piece
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import FLOAT
from npusim.values.errors import KernelError, RefusedTaskError
from npusim.values.formats import FRACTAL

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.ascendc.loops import Index
    from npusim.hardware.profile import Profile

PARAMETERS = 128  # that the kernel keeps of its tiling
_N, _C, _S = 0, 1, 2
Sizes = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Layout:
    """Sizes (images, channels, places), C0, and the strides of both sides in elements.

    ``blocked`` are the strides of images, of slices and of places; ``padded`` the sizes with what
    the blocked side adds to images and places. ``outer`` of these follow each other: how many, and
    their strides on both sides.
    """

    sizes: Sizes
    c0: int
    plain: Sizes
    blocked: Sizes
    padded: Sizes
    outer: Sizes = (1, 0, 0)

    @property
    def slices(self) -> int:
        """Slices of C0 channels."""
        return ceil(self.sizes[_C] / self.c0)


def layout_of(op_type: str, plain: tuple[int, ...], blocked: tuple[int, ...]) -> Layout:
    """The layout that leads from one shape to the other, whichever way; raises KernelError."""
    for candidate in _candidates(plain, blocked):
        images, _, places = candidate.padded
        held = images * candidate.slices * places * candidate.c0
        if prod(blocked) == held * candidate.outer[0]:
            return candidate
    raise RefusedTaskError(op_type, f"no layout has {plain} as {blocked}")


def _candidates(plain: tuple[int, ...], blocked: tuple[int, ...]) -> Iterator[Layout]:
    c0 = blocked[-1] if blocked else 0
    if len(blocked) == len(plain) + 1 == 5:
        yield from _five(plain, blocked, c0)
    if len(blocked) == len(plain) + 1 == 6:
        yield from _six(plain, blocked, c0)
    if len(blocked) == len(plain) + 2 and len(blocked) >= 4 and blocked[-2] == FRACTAL:
        yield from _matrix(plain, blocked, c0)
    if len(blocked) == len(plain) == 4 and blocked[-2] == FRACTAL:
        yield from _weights(plain, blocked, c0)
    if (len(plain), len(blocked)) == (5, 4) and blocked[-2] == FRACTAL:
        yield from _volume_weights(plain, blocked, c0)
    if len(blocked) == 4 and len(plain) == 1 and blocked[-2] == FRACTAL:
        yield from _matrix((1, *plain), blocked, c0)


def _five(plain: tuple[int, ...], blocked: tuple[int, ...], c0: int) -> Iterator[Layout]:
    """[N, C1, H, W, C0] with NCHW or NHWC."""
    images, slices, *spatial, _ = blocked
    places = prod(spatial)
    strides = (slices * places * c0, places * c0, c0)
    for channels, rest, order in (
        (plain[1], plain[2:], "first"),
        (plain[3], plain[1:3], "last"),
    ):
        if (plain[0], ceil(channels / c0), *rest) == (images, slices, *spatial):
            own = (places, 1) if order == "first" else (1, channels)
            sizes = (images, channels, places)
            yield Layout(sizes, c0, (channels * places, *own), strides, sizes)


def _six(plain: tuple[int, ...], blocked: tuple[int, ...], c0: int) -> Iterator[Layout]:
    """[N, D, C1, H, W, C0] with NCDHW: planes of one volume after the other, or all of them."""
    images, depth, slices, *spatial, _ = blocked
    channels, places = plain[1], prod(spatial)
    if plain != (images, channels, depth, *spatial) or slices != ceil(channels / c0):
        return
    volume, stored = depth * places, slices * places * c0
    strides = (stored, places * c0, c0)
    if slices == 1:
        sizes = (images, channels, volume)
        yield Layout(sizes, c0, (channels * volume, volume, 1), (volume * c0,) * 2 + (c0,), sizes)
    elif images == 1 or depth == 1:
        sizes = (images * depth, channels, places)
        step = places if images == 1 else channels * places
        yield Layout(sizes, c0, (step, volume, 1), strides, sizes)
    else:
        sizes, outer = (depth, channels, places), (images, channels * volume, depth * stored)
        yield Layout(sizes, c0, (places, volume, 1), strides, sizes, outer)


def _volume_weights(plain: tuple[int, ...], blocked: tuple[int, ...], c0: int) -> Iterator[Layout]:
    """[D * C1 * H * W, N1, 16, C0] with NCDHW: a weight of planes after the other."""
    outs, channels, deep, *spatial = plain
    places, slices, high = prod(spatial), ceil(channels / c0), ceil(outs / FRACTAL)
    if deep * places == 1:  # one tap: a matrix of output and input channels
        yield from _matrix((outs, channels), blocked, c0)
    if blocked[:2] == (deep * slices * places, high):
        whole = high * FRACTAL
        sizes, own = (outs, channels, places), (channels * deep * places, deep * places, 1)
        stored = (c0, places * whole * c0, whole * c0)
        outer = (deep, places, slices * places * whole * c0)
        yield Layout(sizes, c0, own, stored, (whole, channels, places), outer)


def _matrix(plain: tuple[int, ...], blocked: tuple[int, ...], c0: int) -> Iterator[Layout]:
    """[..., N1, M1, 16, C0] with [..., M, N]."""
    *batch, rows, columns = plain
    *outer, slices, high, _, _ = blocked
    if tuple(outer) != tuple(batch) or (slices, high) != (ceil(columns / c0), ceil(rows / FRACTAL)):
        return
    count, whole = prod(batch), high * FRACTAL
    strides = (slices * whole * c0, whole * c0, c0)
    sizes = (count, columns, rows)
    yield Layout(sizes, c0, (rows * columns, 1, columns), strides, (count, columns, whole))


def _weights(plain: tuple[int, ...], blocked: tuple[int, ...], c0: int) -> Iterator[Layout]:
    """[C1 * H * W, N1, 16, C0] with NCHW, HWCN or NHWC."""
    a, b, c, d = plain
    if c * d == 1:  # one tap: a matrix of output and input channels
        yield from _matrix((a, b), blocked, c0)
    for images, channels, places, strides in (
        (a, b, c * d, (b * c * d, c * d, 1)),
        (d, c, a * b, (1, d, c * d)),
        (a, d, b * c, (b * c * d, 1, d)),
    ):
        high = ceil(images / FRACTAL)
        if blocked[:2] == (ceil(channels / c0) * places, high):
            whole = high * FRACTAL
            steps = (c0, places * whole * c0, whole * c0)
            sizes = (images, channels, places)
            yield Layout(sizes, c0, strides, steps, (whole, channels, places))


class BlockedCopy(Kernel):
    """dst = src in the other layout, tile by tile over images, channels and places.

    Subclasses choose the tiles and say which instructions bring a tile into the other order.
    """

    op_type = "TransData"
    independent = True
    shares_all = True
    depth = 1
    merges = True  # planes that follow each other are one run

    grid: Grid

    def __init__(self, profile: Profile, src: GlobalTensor, dst: GlobalTensor) -> None:
        if src.dtype is not dst.dtype:
            raise KernelError(self.op_type, f"from {src.dtype} to {dst.dtype}")
        self.reads, self.writes = (src,), (dst,)
        self.profile = profile
        self.forward = dst.numel >= src.numel and len(dst.shape) >= len(src.shape)
        if len(dst.shape) == len(src.shape):
            self.forward = dst.shape[-2] == FRACTAL and _fits(src.shape, dst.shape)
        elif {len(src.shape), len(dst.shape)} == {4, 5}:
            self.forward = _fits(src.shape, dst.shape)
        self.plain, self.packed = (src, dst) if self.forward else (dst, src)
        self.layout = layout_of(self.op_type, self.plain.shape, self.packed.shape)
        self.kind, self.itemsize = src.dtype, src.dtype.itemsize
        self.block = profile.buffers.block_bytes // self.itemsize
        self.division = self.grid = self._repeated(self.tiled(profile))
        # Axes as they follow each other: images, channels (slices of them), places; C0 channels.
        plain, blocked = self.layout.plain, (*self.layout.blocked, 1)
        self._plain_order = sorted(range(3), key=lambda axis: (-plain[axis], axis))
        self._packed_order = [*sorted(range(3), key=lambda axis: -blocked[axis]), 3]
        self._packed_steps = tuple([blocked[axis] for axis in self._packed_order])
        # One that is compiled for a shape starts all cores; else the tiling says how many.
        compiled, cores = profile.software.compiled_for_shape, profile.cores.vector_cores
        self.block_dim = cores if compiled else self.grid.used_cores

    @property
    def code(self) -> Hashable:
        """Not written in Ascend C: a binary for each pair of formats, of which layers keep some.

        Source: hicann/ops-math conversion/trans_data, whose kernels are of later products; a layout
        detector on 910B2 (PP-DocLayout), whose tasks of 7 to 20 calls a step take 3.5 us less.
        """
        dimensions = len(self.plain.shape), len(self.packed.shape)
        return (self.op_type, self.forward, dimensions, self.kind)

    @abstractmethod
    def tiled(self, profile: Profile) -> Grid:
        """Tiles over (images, channels, places); those of channels are whole slices."""

    @abstractmethod
    def turn(self, core: Core, out: LocalTensor, x: LocalTensor, shape: tuple[int, ...]) -> None:
        """The instructions that bring a tile of (images, channels, places) into the other order."""

    def process(self, core: Core) -> None:
        half = self.profile.buffers.ub_bytes // 2 // self.depth
        in_que = TQue(TPosition.VECIN, self.depth, "in")
        out_que = TQue(TPosition.VECOUT, self.depth, "turned")
        core.pipe.init_buffer(in_que, self.depth, half)
        core.pipe.init_buffer(out_que, self.depth, half)
        read_parameters(core, PARAMETERS)
        for whole in self.grid.pieces(core):
            piece: Piece = whole
            outer: Index = 0
            if self.layout.outer[0] > 1:
                piece, outer = Piece(whole.shape[1:], whole.starts[1:]), whole.starts[0]
            plain, packed = self.plain_cut(piece, outer), self.packed_cut(piece, outer)
            source, target = (plain, packed) if self.forward else (packed, plain)
            x = in_que.copy_in(source)
            out = out_que.alloc_tensor(self.kind, *target.shape)
            self.turn(core, out, x, piece.shape)
            how = partial(self._arranged, piece.shape, out.shape, core.depth)
            core.arrange(out, x, how=how, shows=True)
            in_que.free_tensor(x)
            out_que.copy_out(target, out)

    def _repeated(self, grid: Grid) -> Grid:
        """The tiles of all ``outer`` ones."""
        count = self.layout.outer[0]
        if count == 1:
            return grid
        axis = None if grid.axis is None else grid.axis + 1
        return Grid((count, *grid.sizes), (1, *grid.extent), grid.cores, axis)

    # -- both sides of a tile ---------------------------------------------------------------------

    def plain_cut(self, piece: Piece, outer: Index = 0) -> GmSlice:
        """The tile in the plain tensor; neighbouring axes that it covers are one run.

        Rows that whole blocks don't step between are loaded by an instruction each where the kernel
        is generated, and not written in TIK: rows of 36 bytes take 17 to 25 cycles more than in one
        (weights of a layout detector on 910B2). Source: CANN 8.1.RC1, impl/dynamic/trans_data.py,
        which generates those of NC1HWC0 and, in float32, of FRACTAL_Z.
        """
        steps, sizes, order = self.layout.plain, self.layout.sizes, self._plain_order
        shape = [piece.shape[axis] for axis in order]
        strides = [steps[axis] for axis in order]
        places = (*zip(piece.starts, steps, strict=True), (outer, self.layout.outer[1]))
        whole = shape[1] == sizes[order[1]] or shape[2] == sizes[order[2]]
        if whole and self.merges and strides[1] == shape[2] * strides[2]:
            shape, strides = [shape[0], shape[1] * shape[2]], [strides[0], strides[2]]
        cut = self.plain.window(places, tuple(shape), tuple(strides))
        apart = [n > 1 and s % self.block for n, s in zip(shape[:-1], strides[:-1], strict=True)]
        if not any(apart):
            return cut
        fractals, maps = len(self.packed.shape) == 4, len(self.packed.shape) == 5
        generated = maps or (fractals and self.kind is FLOAT)
        return cut.by_rows(singly=self.forward and generated)

    def packed_cut(self, piece: Piece, outer: Index = 0) -> GmSlice:
        """The tile in the blocked tensor, with the zeros behind its last images and places."""
        layout = self.layout
        images, channels, places = self._padded(piece.shape)
        n_step, c_step, s_step = layout.blocked
        sizes = images, -(-channels // layout.c0), places, layout.c0
        n, c, s = piece.starts
        where = (n, n_step), (c, c_step // layout.c0), (s, s_step), (outer, layout.outer[2])
        shape = tuple([sizes[axis] for axis in self._packed_order])
        return self.packed.window(where, shape, self._packed_steps)

    def _padded(self, shape: tuple[int, ...]) -> Sizes:
        """A tile's sizes on the blocked side; a load leaves out what is padding."""
        images, channels, places = shape
        if self.forward:
            whole, _, last = self.layout.sizes
            padded, _, behind = self.layout.padded
            images = round_up(images, FRACTAL) if padded != whole else images
            places = round_up(places, FRACTAL) if behind != last else places
        return images, channels, places

    # -- numbers ----------------------------------------------------------------------------------

    def _arranged(
        self, shape: tuple[int, ...], out: tuple[int, ...], depth: int, values: NDArray[Any]
    ) -> NDArray[Any]:
        """The numbers of a tile in the other order, behind ``depth`` axes of loops."""
        order = self._plain_order
        images, channels, places = self._padded(shape)
        slices = ceil(channels / self.layout.c0)
        wide = (images, slices, self.layout.c0, places)
        into = [(0, 1, 3, 2)[axis] for axis in self._packed_order]
        stack = values.shape[:depth]
        if self.forward:
            plain = values.reshape(*stack, *(shape[axis] for axis in order))
            plain = _turned(plain, depth, [order.index(axis) for axis in range(3)])
            missing = (images, slices * self.layout.c0, places)
            gaps = [(0, whole - part) for whole, part in zip(missing, shape, strict=True)]
            if missing != tuple(shape):
                plain = np.pad(plain, [(0, 0)] * depth + gaps)
            return _turned(plain.reshape(*stack, *wide), depth, into)
        packed_values = values.reshape(*stack, *(wide[axis] for axis in into))
        plain = _turned(packed_values, depth, [into.index(axis) for axis in range(4)])
        plain = plain.reshape(*stack, images, slices * self.layout.c0, places)
        cut = plain[..., :channels, :]
        return _turned(cut, depth, order).reshape(*stack, *out)


def _turned(values: NDArray[Any], depth: int, order: list[int]) -> NDArray[Any]:
    """Axis ``k`` behind the loops' axes becomes what ``order[k]`` was."""
    return values.transpose(*range(depth), *(depth + axis for axis in order))


def _fits(plain: tuple[int, ...], blocked: tuple[int, ...]) -> bool:
    try:
        layout_of("", plain, blocked)
    except KernelError:
        return False
    return True
