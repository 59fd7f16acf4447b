"""Between four pixels: two source rows blended, then their pixels gathered and blended.

A row of the result needs two source rows; the vector unit blends them, gathers the left and the
right neighbours of every pixel and blends those, all in float32.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from typing import TYPE_CHECKING

import numpy as np

from npusim.ascendc import Core, GlobalTensor, Kernel, LocalTensor, TBuf, TPosition, TQue
from npusim.ascendc.loops import looked_up
from npusim.ascendc.task import Task, made
from npusim.operators.tasks import Tasks
from npusim.ops.resize.blending import Blending
from npusim.ops.resize.by_rows import RowsByVbi
from npusim.ops.resize.scales import FLOORED, Corners, resized
from npusim.schedules.tile_grid import Grid
from npusim.values.dtypes import BFLOAT16, FLOAT, INT32, INT64
from npusim.values.errors import KernelError
from npusim.values.formats import C0

if TYPE_CHECKING:
    from npusim.hardware.profile import Profile

_BLEND = ("vsub", "vmuls", "vadd")  # a + (b - a) * weight


class ResizeBilinearV2(Blending):
    """out = the weighted mean of the four nearest pixels of x, several rows of UB at a time."""

    def __init__(
        self, profile: Profile, x: GlobalTensor, out: GlobalTensor, corners: Corners = FLOORED
    ) -> None:
        super().__init__(profile, x, out, corners)
        lines = self.outside.planes * self.outside.height
        cores = profile.cores.vector_cores
        self.division = self.grid = Grid(
            (lines, self.outside.width), (1, self._width(profile)), min(cores, lines)
        )
        self.block_dim = self.grid.used_cores

    @classmethod
    def from_task(cls, task: Task) -> tuple[Kernel, ...]:
        return (blended(task.profile, *resized(task)),)

    def process(self, core: Core) -> None:
        """One stretch of a row of the result after the other."""
        lanes, widest, height = self.inside.lanes, self.grid.extent[1], self.outside.height
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
                in_que.copy_in(self._source(row // height, row % height, table, begin, taken))
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


def blended(profile: Profile, x: GlobalTensor, out: GlobalTensor, corners: Corners) -> Kernel:
    """The kernel that the chip has for such images."""
    kind = RowsByVbi if RowsByVbi.fits(profile, x, out) else ResizeBilinearV2
    return kind(profile, x, out, corners)


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
        return (blended(task.profile, x, out, corners),)
    size = made((2,), INT64, "size")
    size.buffer.data = np.array(out.shape[2:], np.int64)
    tasks = Tasks(task.profile)
    tasks.cast(size, INT32)
    kind = FLOAT if x.dtype is BFLOAT16 else x.dtype
    source, plain = (tasks.cast(each, kind) for each in (x, out))
    images, channels = x.shape[:2]
    slices = ceil(channels / C0)
    blocked = made((images, slices, *x.shape[2:], C0), source.dtype)
    rows = made((images, slices, *out.shape[2:], C0), plain.dtype)
    tasks.run("TransData", source, out=blocked)
    tasks.run("TransData", plain, out=rows)
    for kernel in tasks.kernels:
        kernel.unset = tuple(each for each in kernel.reads if each.buffer is out.buffer)
    tasks.kernels.append(blended(task.profile, blocked, rows, corners))
    tasks.run("TransData", rows, out=plain)
    if plain is not out:
        tasks.run("Cast", plain, out=out)
    return tuple(tasks.kernels)
