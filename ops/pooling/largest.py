"""The largest element of windows of plain images and where it was, and the gradient.

For every tap of a window the elements under it are compared with the largest so far; values and
places are selected. Gradients are collected for each element from the windows that hold it, where
their place is its own. Sources: ops-nn pooling/max_pool3d_with_argmax_v2,
max_pool3d_grad_with_argmax, adaptive_max_pool3d (op_api: planes are volumes of one plane; places
count the elements of a plane or of a volume).
"""

from __future__ import annotations

from functools import partial
from math import ceil, prod
from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.ascendc import Core, GlobalTensor, Kernel, TBuf, TPosition, TQue
from npusim.ascendc.loops import values_of
from npusim.ascendc.task import Task, made
from npusim.library.mapping import Mapped
from npusim.operators.results import numbers
from npusim.ops.pooling.tables import even_windows, lines_of
from npusim.values.dtypes import FLOAT, INT32

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from npusim.hardware.profile import Profile
    from npusim.library.axis_maps import AxisMap
    from npusim.schedules.tile_grid import Piece


class MaxPool3DWithArgmaxV2(Mapped):
    """y = the largest element of every window of x, and perhaps where it is in its image."""

    op_type = "MaxPool3DWithArgmaxV2"

    def __init__(
        self,
        profile: Profile,
        x: GlobalTensor,
        y: GlobalTensor,
        places: GlobalTensor | None,
        maps: Sequence[AxisMap],
    ) -> None:
        self.places = places and places.view(places.numel)
        super().__init__(profile, x, y, maps)
        if places is not None:
            self.writes = (y, places)

    def process(self, core: Core) -> None:
        """Tile by tile."""
        sizes = self._bytes(self.grid.extent)
        source, target = TQue(TPosition.VECIN, 1, "source"), TQue(TPosition.VECOUT, 1, "largest")
        found, wide = TQue(TPosition.VECOUT, 1, "places"), TBuf("windows")
        core.pipe.init_buffer(source, 1, sizes[0])
        core.pipe.init_buffer(target, 1, sizes[1])
        core.pipe.init_buffer(found, 1, sizes[3])
        core.pipe.init_buffer(wide, 1, sizes[2])
        for piece in self.grid.pieces(core):
            begins = self._begins(piece)
            given = source.copy_in(self._cut(self.x, piece, begins, inside=True))
            out = target.alloc_tensor(self.y.dtype, prod(piece.shape))
            self._compare(core, piece, wide)
            core.record_vector("ub2ub", out, prod(piece.shape))
            largest = partial(self._largest, piece, begins)
            core.arrange(out, given, how=lambda values, find=largest: find(values)[0])
            if self.places is not None:
                where = found.alloc_tensor(INT32, prod(piece.shape))
                core.record_vector("ub2ub", where, prod(piece.shape))
                core.arrange(where, given, how=lambda values, find=largest: find(values)[1])
                found.copy_out(self._cut(self.places, piece, piece.starts[1:]), where)
            source.free_tensor(given)
            target.copy_out(self._cut(self.y, piece, piece.starts[1:]), out)

    def _bytes(self, extent: Sequence[int]) -> tuple[int, int, int, int]:
        """UB for the source, the result, both in lanes, and the places."""
        source, target, wide, _ = super()._bytes(extent)
        places = prod(extent[1:]) * self._lanes(extent[0]) * INT32.itemsize
        return source, target, wide + 2 * places, places

    def _compare(self, core: Core, piece: Piece, wide: TBuf) -> None:
        """A comparison and two selections for every tap of a window."""
        lanes, tile = self._lanes(piece.shape[0]), wide.get(self.kind, 1)
        for _ in self.widen:
            core.record_vector("vconv", tile, prod(self._spans(piece.shape)) * lanes)
        self._turn(core, tile, prod(self._spans(piece.shape)) * lanes)
        results = prod(piece.shape[1:]) * lanes
        for _ in core.loop(max(1, ceil(prod(each.taps for each in self.maps)))):
            core.record_vector("ub2ub", tile, results)
            core.record_vector("vcmpv", tile, results)
            core.record_vector("vsel", tile, results)
            if self.places is not None:
                core.record_vector("vsel", tile, results)
        self._turn(core, tile, results)
        if self.places is not None:
            self._turn(core, tile, results)
        for _ in self.narrow:
            core.record_vector("vconv", tile, results)

    def _largest(
        self, piece: Piece, begins: Sequence[Any], values: NDArray[Any]
    ) -> tuple[NDArray[Any], NDArray[np.int32]]:
        """The largest elements [turn, plane, ...] and their places."""
        held = values.reshape(-1, piece.shape[0], *self._spans(piece.shape))
        turns, axes = len(held), len(self.maps)
        tables = []
        for axis, each in enumerate(self.maps):
            first = np.broadcast_to(values_of(piece.starts[1 + axis]), turns)
            wanted = first[:, None] + np.arange(piece.shape[1 + axis])
            begin = np.broadcast_to(values_of(begins[axis]), turns)
            tables.append((each.places[wanted], each.weights[wanted] != 0, begin))
        best = np.zeros((turns, *piece.shape[1:], piece.shape[0]), held.dtype)
        where, seen = np.zeros(best.shape, np.int32), np.zeros(best.shape, bool)
        steps = [prod(each.size for each in self.maps[axis + 1 :]) for axis in range(axes)]
        for tap in np.ndindex(*(each.places.shape[1] for each in self.maps)):
            index: list[NDArray[np.int64]] = []
            exists, place = np.ones((), bool), np.zeros((), np.int64)
            for axis, (places, known, begin) in enumerate(tables):
                spread = [turns, *(1,) * axes]
                spread[1 + axis] = -1
                own = places[..., tap[axis]].reshape(spread)
                exists = exists & known[..., tap[axis]].reshape(spread)
                place = place + own * steps[axis]
                local = own - begin.reshape(-1, *(1,) * axes)
                index.append(np.clip(local, 0, held.shape[2 + axis] - 1))
            turn = np.arange(turns).reshape(-1, *(1,) * axes)
            given = np.moveaxis(held, 1, -1)[(turn, *index)]
            better = exists[..., None] & (~seen | (given > best) | np.isnan(given))
            best = np.where(better, given, best)
            where = np.where(better, place[..., None], where).astype(np.int32)
            seen |= exists[..., None]
        return tuple(np.moveaxis(each, -1, 1).reshape(turns, -1) for each in (best, where))  # type: ignore[return-value]


class MaxPool3DGradWithArgmax(Mapped):
    """dx = the gradients of the windows whose largest element is at each place."""

    op_type = "MaxPool3DGradWithArgmax"

    def __init__(
        self,
        profile: Profile,
        grads: GlobalTensor,
        places: GlobalTensor,
        dx: GlobalTensor,
        maps: Sequence[AxisMap],
    ) -> None:
        self.places = places.view(places.numel)
        super().__init__(profile, grads, dx, maps)
        self.reads = (grads, places)

    def process(self, core: Core) -> None:
        """Tile by tile."""
        sizes = self._bytes(self.grid.extent)
        source, found = TQue(TPosition.VECIN, 1, "gradients"), TQue(TPosition.VECIN, 1, "places")
        target, wide = TQue(TPosition.VECOUT, 1, "sums"), TBuf("wide")
        core.pipe.init_buffer(source, 1, sizes[0])
        core.pipe.init_buffer(found, 1, sizes[3])
        core.pipe.init_buffer(target, 1, sizes[1])
        core.pipe.init_buffer(wide, 1, sizes[2])
        for piece in self.grid.pieces(core):
            begins = self._begins(piece)
            given = source.copy_in(self._cut(self.x, piece, begins, inside=True))
            where = found.copy_in(self._cut(self.places, piece, begins, inside=True))
            out = target.alloc_tensor(self.y.dtype, prod(piece.shape))
            self._collect(core, piece, wide)
            core.record_vector("ub2ub", out, prod(piece.shape))
            core.arrange(out, given, where, how=partial(self._collected, piece))
            source.free_tensor(given)
            found.free_tensor(where)
            target.copy_out(self._cut(self.y, piece, piece.starts[1:]), out)

    def _bytes(self, extent: Sequence[int]) -> tuple[int, int, int, int]:
        """UB for the gradients, the result, all of it in lanes, and the places."""
        source, target, wide, mapped = super()._bytes(extent)
        places = ceil(source / self.x.dtype.itemsize) * INT32.itemsize
        return source, target, 2 * wide + 2 * mapped, places

    def _collect(self, core: Core, piece: Piece, wide: TBuf) -> None:
        """A comparison, a selection and a sum for every window that holds an element."""
        lanes, tile = self._lanes(piece.shape[0]), wide.get(FLOAT, 1)
        loaded, results = prod(self._spans(piece.shape)) * lanes, prod(piece.shape[1:]) * lanes
        for _ in self.widen:
            core.record_vector("vconv", tile, loaded)
        for _ in range(2):
            self._turn(core, tile, loaded)
        for _ in core.loop(max(1, ceil(prod(each.taps for each in self.maps)))):
            core.record_vector("vcmpv", tile, results)
            core.record_vector("vsel", tile, results)
            core.record_vector("vadd", tile, results)
        self._turn(core, tile, results)
        for _ in self.narrow:
            core.record_vector("vconv", tile, results)

    def _collected(
        self,
        piece: Piece,
        values: NDArray[Any],
        places: NDArray[np.int32],
    ) -> NDArray[Any]:
        """The tile of the result, gradients added where their places are."""
        spans, planes = self._spans(piece.shape), piece.shape[0]
        turns = values.size // (planes * prod(spans))
        sizes, counts = [each.out for each in self.maps], piece.shape[1:]
        inner: list[NDArray[np.int64]] = []
        rest = places.reshape(turns, planes, -1).astype(np.int64)
        exists = np.ones(rest.shape, bool)
        for axis in range(len(sizes) - 1, -1, -1):
            first = np.broadcast_to(values_of(piece.starts[1 + axis]), turns)[:, None, None]
            own, rest = rest % sizes[axis] - first, rest // sizes[axis]
            exists &= (own >= 0) & (own < counts[axis])
            inner.insert(0, np.clip(own, 0, counts[axis] - 1))
        flat = np.ravel_multi_index(inner, counts)
        made_ = np.zeros((turns, planes, prod(counts)), np.float32)
        given = np.where(exists, values.reshape(turns, planes, -1), 0).astype(np.float32)
        turn, plane = np.ogrid[:turns, :planes]
        np.add.at(made_, (turn[..., None], plane[..., None], flat), given)
        return made_.reshape(turns, -1).astype(self.y.dtype.numpy)


def _max_pool(task: Task, axes: int, *, even: bool = False) -> tuple[Kernel, ...]:
    """x to its largest elements and their places."""
    (x,) = task.present(1)
    maps = _windows(task, x.shape[-axes:], even=even)
    shape = (*x.shape[:-axes], *(each.out for each in maps))
    y, places = task.outputs or (made(shape, x.dtype), made(shape, INT32, "indices"))
    name = "AdaptiveMaxPool3d" if even else MaxPool3DWithArgmaxV2.op_type
    return (MaxPool3DWithArgmaxV2.called(name)(task.profile, x, y, places, maps),)


def max_pool(task: Task) -> tuple[Kernel, ...]:
    """x to its largest elements."""
    (x,) = task.present(1)
    maps = _windows(task, x.shape[-2:], even=False)
    shape = (*x.shape[:-2], *(each.out for each in maps))
    y = task.outputs[0] if task.outputs else made(shape, x.dtype)
    return (MaxPool3DWithArgmaxV2.called("MaxPoolV3")(task.profile, x, y, None, maps),)


def _max_pool_grad(task: Task, axes: int, *, even: bool = False) -> tuple[Kernel, ...]:
    """The gradients, x for its size, and the places, to the gradient of x."""
    grads, x, places = task.present(3)
    dx = task.outputs[0] if task.outputs else made(x.shape, grads.dtype)
    windows = _windows(task, x.shape[-axes:], even=even, outs=grads.shape[-axes:])
    maps = [each.transposed() for each in windows]
    name = "AdaptiveMaxPool3DGrad" if even else MaxPool3DGradWithArgmax.op_type
    kind = MaxPool3DGradWithArgmax.called(name)
    return (kind(task.profile, grads, places, dx, maps),)


def _windows(
    task: Task, inside: Sequence[int], *, even: bool, outs: Sequence[int] | None = None
) -> list[AxisMap]:
    """The windows along each axis."""
    if not even:
        return [each.windows() for each in lines_of(task, inside)]
    counts = outs or numbers(task.first("output_size")) or ()
    if len(counts) != len(inside):
        raise task.refused(f"{len(inside)} sizes of the result are needed")
    return [even_windows(size, count) for size, count in zip(inside, counts, strict=True)]


max_pool_2d, max_pool_3d = partial(_max_pool, axes=2), partial(_max_pool, axes=3)
max_pool_2d_grad, max_pool_3d_grad = (partial(_max_pool_grad, axes=axes) for axes in (2, 3))
adaptive_max_pool_2d, adaptive_max_pool_3d = (
    partial(_max_pool, axes=axes, even=True) for axes in (2, 3)
)
adaptive_max_pool_2d_grad, adaptive_max_pool_3d_grad = (
    partial(_max_pool_grad, axes=axes, even=True) for axes in (2, 3)
)
