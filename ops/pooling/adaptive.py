"""Means of windows that cover an image evenly: AdaptiveAvgPool3d on images with channels last.

Cores share the points of the result; those of a row that UB has room for are made together. Every
row of their windows is loaded in one run and added to them point by point in float32. Windows
differ by at most an element, and a pass takes as long as the largest do. Images with channels in
front are turned before and after, and a single point is a mean over axes. Source: ops-nn
pooling/adaptive_avg_pool3d (host tiling, device code, op_api).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import ceil, prod
from typing import TYPE_CHECKING

import numpy as np

from npusim.ascendc import Core, GlobalTensor, Kernel, LocalTensor, TBuf, TPosition, TQue
from npusim.ascendc.conversions import conversion_path
from npusim.ascendc.loops import Index, looked_up, values_of
from npusim.ascendc.task import Task, made
from npusim.operators.results import numbers
from npusim.operators.tasks import Tasks
from npusim.schedules.tile_grid import Grid
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import FLOAT
from npusim.values.errors import KernelError, RefusedTaskError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.hardware.profile import Profile

_RESERVED_BYTES = 20480  # of UB, for places of windows among other things
# Operations of the scalar unit for where a point's window begins and ends: nine divisions of
# 64-bit numbers.
_PLACE_OPERATIONS = 9 * 20


@dataclass(frozen=True)
class Shares:
    """An axis of ``size`` elements shared among ``out`` windows, which may overlap by one."""

    size: int
    out: int

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """The first element of every window."""
        return np.arange(self.out, dtype=np.int64) * self.size // self.out

    @cached_property
    def ends(self) -> NDArray[np.int64]:
        """The element behind every window."""
        return -(-(np.arange(1, self.out + 1, dtype=np.int64) * self.size) // self.out)

    def span(self, count: int) -> int:
        """Elements under any ``count`` windows in a row."""
        last = np.minimum(np.arange(self.out) + count, self.out) - 1
        return int((self.ends[last] - self.starts).max())

    def loaded_from(self, count: int) -> NDArray[np.int64]:
        """The first element to load for ``count`` windows that begin at each window."""
        return np.minimum(self.starts, self.size - self.span(count))

    def covers(self, window: NDArray[np.int64], element: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether elements lie in windows."""
        inside: NDArray[np.bool_] = (self.starts[window] <= element) & (element < self.ends[window])
        return inside


class AdaptiveAvgPool3d(Kernel):
    """out[n, d, h, w, :] = the mean of x[n, its d, its h, its w, :]."""

    op_type = "AdaptiveAvgPool3d"

    def __init__(self, profile: Profile, x: GlobalTensor, out: GlobalTensor) -> None:
        if not len(x.shape) == len(out.shape) == 5 or x.shape[::4] != out.shape[::4]:
            raise RefusedTaskError(self.op_type, f"{x.shape} doesn't become {out.shape}")
        self.reads, self.writes = (x,), (out,)
        self.kind, self.channels = x.dtype, x.shape[4]
        self.x, self.out = x.view(x.numel), out.view(out.numel)
        self.deep, self.high, self.wide = (
            Shares(size, count) for size, count in zip(x.shape[1:4], out.shape[1:4], strict=True)
        )
        self.widen = conversion_path(profile, x.dtype, FLOAT)
        self.narrow = conversion_path(profile, FLOAT, out.dtype)
        rows, cores = prod(out.shape[:3]), profile.cores.vector_cores
        extent = (1, self._at_once(profile, ceil(rows * self.wide.out / cores)))
        self.division = self.grid = Grid((rows, self.wide.out), extent, cores)
        self.block_dim = self.grid.used_cores

    def _at_once(self, profile: Profile, most: int) -> int:
        """Points of a row that are made together."""
        room = profile.buffers.ub_bytes - _RESERVED_BYTES
        line = round_up(self.channels * self.kind.itemsize, profile.buffers.block_bytes)
        wide = self.channels * FLOAT.itemsize
        for count in range(min(self.wide.out, most), 0, -1):
            span = self.wide.span(count)
            if span * line + count * (line + wide) + (wide if self.widen else 0) <= room:
                return count
        raise KernelError(self.op_type, f"{self.channels} channels don't fit into UB")

    def process(self, core: Core) -> None:
        """Some points of a row of the result after the other."""
        channels, size = self.channels, self.kind.itemsize
        most = self.grid.extent[1]
        span = self.wide.span(most)
        line = round_up(channels * size, core.block_bytes)
        in_que, out_que = TQue(TPosition.VECIN, 1, "row"), TQue(TPosition.VECOUT, 1, "means")
        sums = TBuf("sums")
        core.pipe.init_buffer(in_que, 1, span * line)
        core.pipe.init_buffer(out_que, 1, most * line)
        core.pipe.init_buffer(sums, 1, most * channels * FLOAT.itemsize)
        for piece in self.grid.pieces(core):
            (row, first), count = piece.starts, piece.shape[1]
            core.scalar_loop(count)
            core.scalar_alu("window", _PLACE_OPERATIONS * count)
            total = core.duplicate(sums.get(FLOAT, count * channels), 0.0)
            rows = self.deep.span(1) * self.high.span(1)
            for turn in core.loop(rows, sequential=True):
                self._add_row(core, in_que, total, (row, first, turn), count)
            out = out_que.alloc_tensor(self.kind, count * channels)
            self._divide(core, out, total, (row, first), count)
            place = ((row, self.wide.out * channels), (first, channels))
            out_que.copy_out(self.out.window(place, (count * channels,), (1,)), out)

    def _places(self, row: Index) -> tuple[Index, Index, Index]:
        """The image, and the windows along depth and height, of a row of the result."""
        deep, high = self.deep.out, self.high.out
        return row // (deep * high), row // high % deep, row % high

    def _add_row(
        self,
        core: Core,
        in_que: TQue,
        total: LocalTensor,
        where: tuple[Index, Index, Index],
        count: int,
    ) -> None:
        """One row under the windows, loaded and added to those that it lies in."""
        row, first, turn = where
        channels, span, high = self.channels, self.wide.span(count), self.high.span(1)
        image, deep, up = self._places(row)
        line = self.wide.size * channels
        below, down = turn // high, turn % high
        left = looked_up(first, self.wide.loaded_from(count))
        places = (
            (image, self.deep.size * self.high.size * line),
            (looked_up(deep, self.deep.loaded_from(1)), self.high.size * line),
            (below, self.high.size * line),
            (looked_up(up, self.high.loaded_from(1)), line),
            (down, line),
            (left, channels),
        )
        x = in_que.copy_in(self.x.window(places, (span * channels,), (1,)))
        for _ in core.loop(count * self.wide.span(1)):
            core.scalar_loop()
            for _ in self.widen:
                core.scalar_call()
                core.emit_vector("vconv", FLOAT, channels, chained=True)
            core.scalar_call()
            core.record_vector("vadd", total, channels)
        if core.numerics:
            depth = core.depth
            values = x.values(depth).astype(np.float32)
            values = values.reshape(*values.shape[:depth], span, channels)
            taken = self._taken(row, first, left, (below, down), count)
            taken = taken.reshape(len(taken), *(1,) * (depth - 1), count, span)
            sums = total.target(depth, whole=False)
            sums += (taken @ values).reshape(*sums.shape)
        in_que.free_tensor(x)

    def _taken(
        self, row: Index, first: Index, left: Index, turn: tuple[Index, Index], count: int
    ) -> NDArray[np.float32]:
        """1 for points of a loaded row that lie in a window, else 0: [iteration, window, point]."""
        _, deep, up = (values_of(each) for each in self._places(row))
        below, down = (values_of(each) for each in turn)
        inside = self.deep.covers(deep, self.deep.loaded_from(1)[deep] + below)
        inside &= self.high.covers(up, self.high.loaded_from(1)[up] + down)
        windows = values_of(first)[:, None, None] + np.arange(count)[:, None]
        points = values_of(left)[:, None, None] + np.arange(self.wide.span(count))
        across = self.wide.covers(windows, points)
        return (inside[:, None, None] & across).astype(np.float32)

    def _divide(
        self,
        core: Core,
        out: LocalTensor,
        total: LocalTensor,
        where: tuple[Index, Index],
        count: int,
    ) -> None:
        """Sums times one by the size of their windows, in the dtype of the result."""
        row, first = where
        for _ in core.loop(count):
            core.scalar_call()
            core.record_vector("vmuls", total, self.channels)
        for _ in self.narrow:
            core.record_vector("vconv", out, count * self.channels)
        if not self.narrow:
            core.record_vector("ub2ub", out, count * self.channels)
        if core.numerics:
            _, deep, up = (values_of(each) for each in self._places(row))
            columns = values_of(first)[:, None] + np.arange(count)
            sizes = [each.ends - each.starts for each in (self.deep, self.high, self.wide)]
            points = (sizes[0][deep] * sizes[1][up])[:, None] * sizes[2][columns]
            factor = np.repeat(np.float32(1) / points.astype(np.float32), self.channels, axis=-1)
            depth = core.depth
            means = total.values(depth) * factor
            out.target(depth)[...] = means.astype(out.dtype.numpy)


def adaptive_avg_pool_3d(task: Task) -> tuple[Kernel, ...]:
    """Means of NCDHW or CDHW images as aclnnAdaptiveAvgPool3d queues them."""
    (x,) = task.present(1)
    if task.outputs and x.shape[-1] == task.outputs[0].shape[-1] and not task.first("output_size"):
        return (AdaptiveAvgPool3d(task.profile, x, task.outputs[0]),)  # the kernel's own record
    size = numbers(task.first("output_size"))
    if size is None or len(x.shape) not in (4, 5):
        raise task.refused("a record doesn't tell the size of the result")
    outer, channels = x.shape[:-4], x.shape[-4]
    out = task.outputs[0] if task.outputs else made((*x.shape[:-3], *size), x.dtype)
    tasks = Tasks(task.profile)
    if prod(size) == 1:
        axes = [len(x.shape) - each for each in (3, 2, 1)]
        tasks.run("ReduceMean", x, out=out, axes=axes, keep_dims=True)
        return tuple(tasks.kernels)
    images = prod(outer)
    inside = x.view(images, channels, *x.shape[-3:])
    outside = out.view(images, channels, *size)
    turned = made((images, *x.shape[-3:], channels), x.dtype)
    means = made((images, *size, channels), x.dtype)
    tasks.run("Transpose", inside, out=turned, perm=[0, 2, 3, 4, 1])
    tasks.kernels.append(AdaptiveAvgPool3d(task.profile, turned, means))
    tasks.run("Transpose", means, out=outside, perm=[0, 4, 1, 2, 3])
    return tuple(tasks.kernels)
