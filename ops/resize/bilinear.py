"""Between four pixels: two source rows blended, then their pixels gathered and blended.

A row of the result needs two source rows; the vector unit blends them, gathers the left and the
right neighbours of every pixel and blends those, all in float32.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil
from typing import TYPE_CHECKING

import numpy as np

from npusim.ascendc import Core, GlobalTensor, GmSlice, Kernel, LocalTensor, TBuf, TPosition, TQue
from npusim.ascendc.conversions import conversion_path
from npusim.ascendc.loops import Index, looked_up, values_of
from npusim.ascendc.task import Task, made
from npusim.operators.registry import kernel_class
from npusim.operators.tasks import kernels_on
from npusim.ops.resize.scales import FLOORED, Corners, Images, resized
from npusim.schedules.tile_grid import Grid
from npusim.values.dtypes import BFLOAT16, FLOAT, INT32, INT64
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.hardware.profile import Profile

_C0 = 16
_BLEND = ("vsub", "vmuls", "vadd")  # a + (b - a) * weight


class ResizeBilinearV2(Kernel):
    """out = the weighted mean of the four nearest pixels of x."""

    op_type = "ResizeBilinearV2"

    def __init__(
        self, profile: Profile, x: GlobalTensor, out: GlobalTensor, corners: Corners = FLOORED
    ) -> None:
        if x.dtype.category != "float":
            raise KernelError(self.op_type, f"blends floats, not {x.dtype}")
        self.reads, self.writes = (x,), (out,)
        self.kind, self.corners = out.dtype, corners
        self.inside, self.outside = Images.of(self.op_type, x), Images.of(self.op_type, out)
        if (self.inside.planes, self.inside.lanes) != (self.outside.planes, self.outside.lanes):
            raise KernelError(self.op_type, f"{x.shape} doesn't become {out.shape}")
        self.x, self.out = x.view(x.numel), out.view(out.numel)
        self.widen = conversion_path(profile, x.dtype, FLOAT)
        self.narrow = conversion_path(profile, FLOAT, out.dtype)
        self.rows = Between(self.inside.height, self.outside.height, corners)
        self.columns = Between(self.inside.width, self.outside.width, corners)
        lines = self.outside.planes * self.outside.height
        cores = profile.cores.vector_cores
        self.division = self.grid = Grid(
            (lines, self.outside.width), (1, self._width(profile)), min(cores, lines)
        )
        self.block_dim = self.grid.used_cores

    @classmethod
    def from_task(cls, task: Task) -> tuple[Kernel, ...]:
        return (cls(task.profile, *resized(task)),)

    def process(self, core: Core) -> None:
        """One stretch of a row of the result after the other."""
        lanes, widest = self.inside.lanes, self.grid.extent[1]
        source, size = self.columns.span(widest) * lanes, self.x.dtype.itemsize
        in_que = TQue(TPosition.VECIN, 2 * self.buffer_num, "rows")
        out_que = TQue(TPosition.VECOUT, self.buffer_num, "row")
        wide, blended = TBuf("wide"), TBuf("blended")
        core.pipe.init_buffer(in_que, 2 * self.buffer_num, source * size)
        core.pipe.init_buffer(out_que, self.buffer_num, widest * lanes * self.kind.itemsize)
        core.pipe.init_buffer(wide, 1, 2 * source * FLOAT.itemsize)
        core.pipe.init_buffer(blended, 1, 2 * widest * lanes * FLOAT.itemsize)
        for piece in self.grid.pieces(core):
            row, first = piece.starts
            taken = self.columns.span(piece.shape[1])
            begin = looked_up(first, self.columns.starts(piece.shape[1]))
            rows = [
                in_que.copy_in(self._source(row, table, begin, taken))
                for table in (self.rows.low, self.rows.high)
            ]
            target = piece.shape[1] * lanes
            out = out_que.alloc_tensor(self.kind, target)
            across = wide.get(FLOAT, 2 * taken * lanes)
            gathered = blended.get(FLOAT, 2 * target)
            self._instructions(core, across, gathered, taken * lanes, target)
            self._numbers(core, out, rows, (row, first, begin))
            for x in rows:
                in_que.free_tensor(x)
            place = ((row, self.outside.width * lanes), (first, lanes))
            out_que.copy_out(self.out.window(place, (target,), (1,)), out)

    def _width(self, profile: Profile) -> int:
        """Columns of the result in a tile: what UB has room for."""
        lanes, width = self.inside.lanes, self.outside.width
        block = profile.buffers.block_bytes
        while True:
            source = self.columns.span(width) * lanes
            inside = source * (2 * self.buffer_num * self.x.dtype.itemsize + 2 * FLOAT.itemsize)
            outside = width * lanes * (self.buffer_num * self.kind.itemsize + 2 * FLOAT.itemsize)
            if inside + outside + 8 * block <= profile.buffers.ub_bytes:
                return width
            if width == 1:
                raise KernelError(self.op_type, "a pixel of the result doesn't fit into UB")
            width = ceil(width / 2)

    def _instructions(
        self, core: Core, across: LocalTensor, gathered: LocalTensor, source: int, target: int
    ) -> None:
        for _ in self.widen:
            core.record_vector("vconv", across, 2 * source)
        for name in _BLEND:
            core.record_vector(name, across, source)
        # Blocks of channels are gathered at a time, single pixels one by one.
        blocks = self.inside.lanes * FLOAT.itemsize % core.block_bytes == 0
        gather = "vgatherb" if blocks else "vgather"
        for name in (gather, gather, *_BLEND):
            core.record_vector(name, gathered, target)
        for _ in self.narrow:
            core.record_vector("vconv", gathered, target)

    def _numbers(
        self,
        core: Core,
        out: LocalTensor,
        rows: list[LocalTensor],
        where: tuple[Index, Index, Index],
    ) -> None:
        if not core.numerics:
            return
        depth, lanes = core.depth, self.inside.lanes
        row, first, begin = (values_of(each) for each in where)
        a, b = (x.values(depth).astype(np.float32) for x in rows)
        weight = self.rows.weight[row % self.outside.height].reshape(-1, *(1,) * depth)
        line = (a + (b - a) * weight).reshape(*a.shape[:depth], -1, lanes)
        wanted = first[:, None] + np.arange(out.numel // lanes)
        left, right = (
            np.take_along_axis(line, (table[wanted] - begin[:, None])[..., None], axis=-2)
            for table in (self.columns.low, self.columns.high)
        )
        found = left + (right - left) * self.columns.weight[wanted][..., None]
        out.target(depth)[...] = found.reshape(*found.shape[:depth], -1).astype(self.kind.numpy)

    def _source(self, row: Index, table: NDArray[np.int64], begin: Index, taken: int) -> GmSlice:
        inside, outside = self.inside, self.outside
        line = inside.width * inside.lanes
        plane, inner = row // outside.height, row % outside.height
        places = (
            (plane, inside.height * line),
            (looked_up(inner, table), line),
            (begin, inside.lanes),
        )
        return self.x.window(places, (taken * inside.lanes,), (1,))


@dataclass(frozen=True)
class Between:
    """The two source pixels of every pixel along one axis, and the weight of the second."""

    inside: int
    outside: int
    corners: Corners

    @cached_property
    def _tables(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
        return self.corners.between(self.inside, self.outside)

    @property
    def low(self) -> NDArray[np.int64]:
        """The first pixel."""
        return self._tables[0]

    @property
    def high(self) -> NDArray[np.int64]:
        """The second pixel."""
        return self._tables[1]

    @property
    def weight(self) -> NDArray[np.float32]:
        """The weight of the second pixel."""
        return self._tables[2]

    def span(self, count: int) -> int:
        """Source pixels that any stretch of ``count`` pixels needs."""
        last = np.minimum(np.arange(self.outside) + count, self.outside) - 1
        return int((self.high[last] - self.low).max()) + 1

    def starts(self, count: int) -> NDArray[np.int64]:
        """The first source pixel to load for a stretch that begins at each pixel."""
        return np.minimum(self.low, self.inside - self.span(count))


def resize_bilinear(task: Task) -> tuple[Kernel, ...]:
    """Between four pixels of NCHW images, by way of NC1HWC0; bfloat16 by way of float32.

    aclnnUpsampleBilinear2d casts the size, an int64 tensor, and brings the result into NC1HWC0 too,
    before anything is in it. Half centres unless the record says otherwise, as torch has them.
    Source: op_api/aclnn_upsample_bilinear_2d.cpp of the public operator library.
    """
    x, out, corners = resized(task)
    if "half_pixel_centers" not in task.attributes:
        corners = replace(corners, half_pixel_centers=not corners.align_corners)
    if len(x.shape) != 4:
        return (ResizeBilinearV2(task.profile, x, out, corners),)
    size = made((2,), INT64, "size")
    size.buffer.data = np.array(out.shape[2:], np.int64)
    tasks = [kernel_class("Cast")(task.profile, size, made((2,), INT32))]
    source, plain = x, out
    if x.dtype is BFLOAT16:
        source, plain = made(x.shape, FLOAT), made(out.shape, FLOAT)
        tasks.append(kernel_class("Cast")(task.profile, x, source))
        tasks.append(kernel_class("Cast")(task.profile, out, plain))
    images, channels = x.shape[:2]
    slices = ceil(channels / _C0)
    blocked = made((images, slices, *x.shape[2:], _C0), source.dtype)
    rows = made((images, slices, *out.shape[2:], _C0), plain.dtype)
    tasks += kernels_on(Task(task.profile, "TransData", (source,), (blocked,)))
    tasks += kernels_on(Task(task.profile, "TransData", (plain,), (rows,)))
    tasks.append(ResizeBilinearV2(task.profile, blocked, rows, corners))
    tasks += kernels_on(Task(task.profile, "TransData", (rows,), (plain,)))
    if plain is not out:
        tasks.append(kernel_class("Cast")(task.profile, plain, out))
    return tuple(tasks)
