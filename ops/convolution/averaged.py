"""The gradient of means of windows, as a product for every slice of channels of an image.

Gradients are multiplied with one over the elements of their windows, get zeros between them where
the windows moved by a stride, and are unfolded; every slice has a weight of its own. Cores share
images and slices as evenly as they can. Source: public operator source (CANN 8.1,
impl/avg_pool_grad_d.py): which positions of a plane are in L1, in L0 and on their way through UB at
a time, and that only L0 holds two tiles; a window that is the whole plane has a kernel of its own.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from math import ceil, prod
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple, cast

from npusim.ascendc import Core, GlobalTensor, Kernel, TPosition, TQue
from npusim.ascendc.events import Event
from npusim.engine.program import Pipe
from npusim.library.operands import Tile
from npusim.ops.convolution.dilated import Dilated, Filling, dilated
from npusim.ops.convolution.geometry import Geometry
from npusim.ops.convolution.input_gradient import mirrored
from npusim.schedules.tile_grid import Grid
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import FLOAT, FLOAT16
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from npusim.ascendc import LocalTensor
    from npusim.ascendc.gm_slices import GmSlice
    from npusim.ascendc.loops import Index
    from npusim.ascendc.task import Task
    from npusim.hardware.profile import Profile

_IN_L0 = 2  # tiles of each operand
_TILES = 3  # of gradients in UB: gradients, shares and their products
_PLANES, _WEIGHT = 5, 6  # axes of NC1HWC0 and of C1HWNCoC0
_SMALL_BAG = 2048  # elements: a core gets more before a whole plane's mean is shared by slices
_KEPT = 1024  # bytes of UB that scalars have


def mean_gradient(task: Task) -> tuple[Kernel, ...]:
    """Gradients, shares and weights to dx; the latter two may be missing for a whole plane."""
    grads, dx = task.present(1, 1)[0], task.outputs[0]
    if len(grads.shape) != _PLANES or len(dx.shape) != _PLANES or grads.dtype is not FLOAT16:
        raise task.refused("gradients in NC1HWC0 and FLOAT16 are needed")
    if grads.shape[:2] != dx.shape[:2] or grads.dtype is not dx.dtype:
        raise task.unfit(f"gradients {grads.shape} of {dx.shape}")
    given = [each for each in task.inputs if each is not None]
    weight = given[2] if len(given) > 2 else None
    kernel_size = dx.shape[2:4] if weight is None else weight.shape[1:3]
    if grads.shape[2:4] == (1, 1) and kernel_size == dx.shape[2:4]:
        return (WholePlaneGradient(task.profile, grads, dx, op_type=task.op_type),)
    if weight is None or len(weight.shape) != _WEIGHT or given[1].shape != grads.shape:
        raise task.refused("shares like the gradients and weights in C1HWNCoC0 are needed")
    if task.profile.paths.ub_to_l1 is None:
        raise task.refused(f"{task.profile.name} has no way from UB to L1")
    slices, high, wide, *fractal = weight.shape
    flat = weight.view(slices * high * wide, *fractal)
    said = {"kernel_size": [high, wide], **task.attributes}
    geometry = Geometry.of(task.op_type, dx, flat, grads, said)
    if geometry.groups != slices:
        raise task.unfit(f"weights {weight.shape} of {dx.shape}")
    return (
        MeanGradient(task.profile, (grads, given[1]), flat, dx, geometry, op_type=task.op_type),
    )


class _Tiling(NamedTuple):
    """Positions of dx in L1 and in L0 at a time, and rows with zeros between that UB makes."""

    in_l1: int
    in_l0: int
    rows: int


class MeanGradient(Kernel):
    """dx = the gradients of means, of which ``geometry`` says what the windows were.

    grads and share (N, C1, Ho, Wo, C0), weight (C1 * taps, 1, 16, C0), dx (N, C1, H, W, C0).
    """

    op_type: str = "AvgPoolGradVm"
    cores: ClassVar[Literal["vector", "cube"]] = "cube"
    generated = True

    def __init__(
        self,
        profile: Profile,
        given: tuple[GlobalTensor, GlobalTensor],
        weight: GlobalTensor,
        dx: GlobalTensor,
        geometry: Geometry,
        *,
        op_type: str = "AvgPoolGradVm",
    ) -> None:
        self.op_type = op_type
        self.grads, self.share = given
        self.weight, self.dx = weight, dx
        self.reads, self.writes = (*given, weight), (dx,)
        self.stride, self.window = geometry.window.stride, mirrored(op_type, geometry).window
        geometry.refuse_beyond(op_type, profile)
        self.positions = prod(geometry.plane)
        self.tiling = _tiling(profile, geometry)
        images, slices = dx.shape[:2]
        self.parts = _even_parts(images, slices, profile.cores.cube_cores)
        self.each = ceil(images / self.parts[0]), ceil(slices / self.parts[1])
        self.block_dim = prod(self.parts)

    def block_kind(self, block_idx: int) -> Hashable:
        """Images and slices of a core."""
        return tuple(count for _, count in self._share(block_idx))

    def process(self, core: Core) -> None:
        """Plane after plane."""
        images, slices = self._share(core.get_block_idx())
        if not images[1] or not slices[1]:
            return
        self._reserve(core)
        for image in core.loop(images[1]):
            for piece in core.loop(slices[1]):
                self._plane(core, image + images[0], piece + slices[0])

    def _share(self, block: int) -> tuple[tuple[int, int], tuple[int, int]]:
        """The first of a core's images and slices, and how many."""
        places = divmod(block, self.parts[1])
        firsts = [place * each for place, each in zip(places, self.each, strict=True)]
        counts = [
            max(0, min(each, total - first))
            for first, each, total in zip(firsts, self.each, self.dx.shape, strict=False)
        ]
        return (firsts[0], counts[0]), (firsts[1], counts[1])

    def _reserve(self, core: Core) -> None:
        """What a core holds at a time."""
        kind, lanes, tiling = self.dx.dtype, self.dx.shape[-1], self.tiling
        size = lanes * kind.itemsize
        taps = self.window.taps
        self._sharing = _Sharing(core, self.grads, self.share, self.stride, tiling.rows)
        held = self._seen(0, 0).tile_shape(tiling.in_l1, taps * lanes)
        self._planes = TQue(TPosition.A1, 1, "planes", producer=Pipe.MTE3)
        self._weights = TQue(TPosition.B1, 1, "weights")
        core.pipe.init_buffer(self._planes, 1, prod(held) * kind.itemsize)
        core.pipe.init_buffer(self._weights, 1, taps * lanes * size)
        self._left, self._right = TQue(TPosition.A2, _IN_L0), TQue(TPosition.B2, _IN_L0)
        self._sums = TQue(TPosition.CO1, _IN_L0, "sums")
        self._out = TQue(TPosition.VECOUT, 1, "dx")
        in_l0 = round_up(tiling.in_l0, lanes)
        core.pipe.init_buffer(self._left, _IN_L0, in_l0 * size)
        core.pipe.init_buffer(self._right, _IN_L0, lanes * size)
        core.pipe.init_buffer(self._sums, _IN_L0, in_l0 * lanes * FLOAT.itemsize)
        core.pipe.init_buffer(self._out, 1, in_l0 * size)

    def _seen(self, image: Index, piece: Index) -> Dilated:
        """What the windows see of a plane of shared gradients."""
        first = cast("int", image), cast("int", piece)  # places are made of them as of numbers
        return Dilated(self.grads, self.window, first, stride=self.stride, filling=self._sharing)

    def _plane(self, core: Core, image: Index, piece: Index) -> None:
        """The positions of a plane that L1 has room for, after each other."""
        seen, lanes = self._seen(image, piece), self.dx.shape[-1]
        depth = self.window.taps * lanes
        for first in range(0, self.positions, self.tiling.in_l1):
            count = min(self.tiling.in_l1, self.positions - first)
            plane = self._planes.alloc_tensor(self.dx.dtype, *seen.tile_shape(count, depth))
            seen.load_l1(core, plane, (first, count), (0, depth))
            self._planes.enque(plane)
            weights = self._load_weights(core, piece)
            tile = Tile(self._planes.deque(plane), first, 0)
            for row in range(first, first + count, self.tiling.in_l0):
                rows = min(self.tiling.in_l0, first + count - row)
                sums = self._sums.alloc_tensor(FLOAT, rows, lanes)
                for tap in range(self.window.taps):
                    self._add(core, sums, seen, tile, weights, (row, tap))
                self._sums.enque(sums)
                self._store(core, self._sums.deque(sums), image, piece, row)
            self._planes.free_tensor(plane)
            self._weights.free_tensor(weights)

    def _load_weights(self, core: Core, piece: Index) -> LocalTensor:
        """The weights of a slice: output by input channels for every tap."""
        _, _, high, lanes = self.weight.shape
        shape = self.window.taps * high, lanes
        weights = self._weights.alloc_tensor(self.weight.dtype, *shape)
        core.load_l1(weights, self.weight.window(((piece, prod(shape)),), shape, (lanes, 1)))
        self._weights.enque(weights)
        return self._weights.deque(weights)

    def _add(
        self,
        core: Core,
        sums: LocalTensor,
        seen: Dilated,
        tile: Tile,
        weights: LocalTensor,
        where: tuple[int, int],
    ) -> None:
        """What a tap adds to some positions."""
        (row, tap), (rows, lanes) = where, sums.shape
        left = self._left.alloc_tensor(self.dx.dtype, rows, lanes)
        right = self._right.alloc_tensor(self.dx.dtype, lanes, lanes)
        seen.load_l0(core, left, tile, (row, rows), (tap * lanes, lanes))
        core.load_data(right, weights[tap * lanes : (tap + 1) * lanes], transpose=True)
        self._left.enque(left)
        self._right.enque(right)
        core.mmad(sums, self._left.deque(left), self._right.deque(right), accumulate=tap > 0)
        self._left.free_tensor(left)
        self._right.free_tensor(right)

    def _store(self, core: Core, sums: LocalTensor, image: Index, piece: Index, row: int) -> None:
        """Positions of dx on their way out, in halves."""
        _, slices, high, wide, lanes = self.dx.shape
        out = self._out.alloc_tensor(self.dx.dtype, sums.numel)
        core.take_out(out, sums)
        self._sums.free_tensor(sums)
        plane = high * wide * lanes
        places = ((image, slices * plane), (piece, plane), (row, lanes))
        self._out.copy_out(self.dx.window(places, (sums.numel,), (1,)), out)


class _Sharing(Filling):
    """Gradients multiplied with their shares on their way to L1, with zeros between."""

    def __init__(
        self,
        core: Core,
        grads: GlobalTensor,
        share: GlobalTensor,
        stride: tuple[int, int],
        rows: int,
    ) -> None:
        self.stride, self.share, self.apart = stride, share, stride != (1, 1)
        *_, wide, lanes = grads.shape
        self._rows = ceil(rows / stride[0])
        given = self._rows * wide * lanes * grads.dtype.itemsize
        spread = (self._rows * stride[0]) * ((wide - 1) * stride[1] + 1)
        self._given, self._made = TQue(TPosition.VECIN, 1, "grads"), TQue(TPosition.VECOUT, 1)
        self._shares = TQue(TPosition.VECIN, 1, "shares")
        core.pipe.init_buffer(self._given, 1, given)
        core.pipe.init_buffer(self._shares, 1, given)
        made = spread * lanes * grads.dtype.itemsize if self.apart else given
        core.pipe.init_buffer(self._made, 1, made)
        self.there = Event(core, Pipe.MTE3, Pipe.MTE1)

    def pieces(self, slices: int, height: int) -> Iterator[tuple[slice, slice]]:
        """Some rows at a time."""
        del slices
        step = self._rows * self.stride[0]
        for start in range(0, height, step):
            yield slice(0, 1), slice(start, min(height, start + step))

    def fill(self, core: Core, target: LocalTensor, source: GmSlice, first: int) -> None:
        """Bring rows to L1, shared and apart."""
        given = self._given.copy_in(source, source.shape)
        shares = self._shares.copy_in(source.of(self.share), source.shape)
        made = self._made.alloc_tensor(target.dtype, *target.shape)
        if self.apart:
            core.mul(given.view(given.numel), given.view(given.numel), shares.view(shares.numel))
            core.duplicate(made.view(made.numel), 0.0)
            core.record_vector("vadds", made, given.numel)
            core.arrange(made, given, how=lambda values: self._spread(values, target.shape, first))
        else:
            core.mul(*(each.view(each.numel) for each in (made, given, shares)))
        self._given.free_tensor(given)
        self._shares.free_tensor(shares)
        self._made.enque(made)
        core.copy_to_l1(target, self._made.deque(made))
        self._made.free_tensor(made)


class WholePlaneGradient(Kernel):
    """dx = the gradient of the mean of each whole plane, over its elements.

    A plane's mean is stored position by position, a burst for every slice of channels; cores share
    positions, or slices where these are many or positions few.
    """

    op_type: str = "AvgPoolGradVm"
    generated = True

    def __init__(
        self,
        profile: Profile,
        grads: GlobalTensor,
        dx: GlobalTensor,
        *,
        op_type: str = "AvgPoolGradVm",
    ) -> None:
        self.op_type = op_type
        self.grads, self.dx = grads, dx
        self.reads, self.writes = (grads,), (dx,)
        images, slices, high, wide, lanes = dx.shape
        planes, positions = images * slices, high * wide
        cores = profile.cores.vector_cores
        room = (profile.buffers.ub_bytes - _KEPT) // (2 * lanes * dx.dtype.itemsize)
        few = planes < cores * _SMALL_BAG // lanes
        apart = positions >= cores or few
        tile = min(planes, room) if apart else min(ceil(planes / cores), room)
        extent = tile, ceil(positions / cores) if apart else positions
        self.division = self.grid = Grid((planes, positions), extent, cores, axis=int(apart))
        self.block_dim = self.grid.used_cores

    def process(self, core: Core) -> None:
        """Some planes after the other."""
        planes, _ = self.grid.extent
        _, _, high, wide, lanes = self.dx.shape
        kind, apart = self.dx.dtype, high * wide
        given, shared = TQue(TPosition.VECIN, 1, "grads"), TQue(TPosition.VECOUT, 1, "shared")
        for queue in (given, shared):
            core.pipe.init_buffer(queue, 1, planes * lanes * kind.itemsize)
        for piece in self.grid.pieces(core):
            (count, places), (plane, first) = piece.shape, piece.starts
            means = given.copy_in(self.grads.window(((plane, lanes),), (count * lanes,), (1,)))
            share = shared.alloc_tensor(kind, count, lanes)
            core.muls(share.view(share.numel), means, 1 / apart)
            given.free_tensor(means)
            shared.enque(share)
            share = shared.deque(share)
            for place in core.loop(places):
                here = ((plane, apart * lanes), (first, lanes), (place, lanes))
                core.data_copy(self.dx.window(here, (count, lanes), (apart * lanes, 1)), share)
            shared.free_tensor(share)


def _even_parts(images: int, slices: int, cores: int) -> tuple[int, int]:
    """Parts of images and of slices whose largest is the smallest; of alike ones most of images."""
    ways = [(part, min(slices, cores // part)) for part in range(min(images, cores), 0, -1)]
    return min(ways, key=lambda way: ceil(images / way[0]) * ceil(slices / way[1]))


def _tiling(profile: Profile, geometry: Geometry) -> _Tiling:
    """As many positions as L1 and UB have room for, in rows of the plane."""
    buffers, lanes, op_type = profile.buffers, geometry.lanes, MeanGradient.op_type
    size = lanes * FLOAT16.itemsize  # bytes of a position
    (high, wide), (_, out_wide) = geometry.plane, geometry.out_plane
    kernel, stride = geometry.window.kernel[0], geometry.window.stride[0]
    spread_high, spread_wide = dilated(geometry.out_plane, geometry.window.stride)
    in_l0 = buffers.l0a_bytes // (_IN_L0 * size)
    room = buffers.ub_bytes // size - in_l0 + (stride - 1) * spread_wide
    rows_in_ub = room // (_TILES * out_wide + stride * spread_wide)
    room = buffers.l1_bytes - geometry.window.taps * lanes * size
    most = room // (spread_wide * size) - kernel
    if rows_in_ub < 1 or most < 1:
        raise KernelError(op_type, f"rows of {wide} positions don't fit into UB or L1")
    rows = (rows_in_ub - 1) * stride + max(kernel, stride)
    rows = min(rows, high, most, buffers.l1_bytes // (wide * size))
    made = min((rows_in_ub - 1) * stride + 1, spread_high)
    in_l0 = min(in_l0, round_up(rows * wide, lanes))
    while rows > 1 and ceil(ceil(rows * wide / in_l0) * in_l0 / wide) > most:
        rows -= 1
    positions = rows * wide
    if rows < high:
        positions = max(lanes, positions // lanes * lanes)
    return _Tiling(positions, in_l0, made)
