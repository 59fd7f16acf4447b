"""ROIAlign: samples of boxes between four pixels of NC1HWC0 images, and their means.

A core takes boxes one by one, of each the rows of bins, of those sample after sample. The scalar
unit reads where a sample lies and what its four pixels weigh; two neighbours are a load of all
channels, which are weighted and added up, and then to the bin, 16 at a time. Weights are divided by
the number of samples. The next sample is loaded when the vector unit has weighted this one. Where
the number of samples is left to the boxes, and nobody knows them, one in each bin is assumed.
Images lie in NC1HWC0 before and NCHW behind. Source: public operator sources
(dynamic/roi_align.py of CANN 8.1, four points at a time).
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from npusim.ascendc import Core, GlobalTensor, Kernel, LocalTensor, Scalar, TBuf, TPosition, TQue
from npusim.ascendc.loops import Index, values_of
from npusim.ascendc.task import Task, made
from npusim.operators.tasks import Tasks
from npusim.ops.roi_align.samples import Samples
from npusim.schedules.tile_grid import Grid
from npusim.values.dtypes import FLOAT, FLOAT16
from npusim.values.errors import KernelError
from npusim.values.formats import C0

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.hardware.profile import Profile

_BATCH = 128  # numbers that a core works on at once to place the samples of a box
_BOX = 5  # image, x1, y1, x2, y2
_PLACING = 40  # vector instructions that place the samples along both axes of a box
# What the scalar unit reads for a sample: its place, neighbours, weights; and its operations: is it
# on the map, products of weights. Addresses are arguments of the loads.
_READ, _SAMPLE_OPERATIONS = 7, 12


class Bins(NamedTuple):
    """How boxes are cut: bins of each, samples along a side of a bin, and how corners are read."""

    high: int
    wide: int
    samples: int
    scale: float
    aligned: bool


class ROIAlign(Kernel):
    """y[box, :, bin] = the mean of samples of x, for boxes (image, x1, y1, x2, y2)."""

    op_type = "ROIAlign"

    def __init__(
        self, profile: Profile, x: GlobalTensor, boxes: GlobalTensor, y: GlobalTensor, bins: Bins
    ) -> None:
        if len(x.shape) != 5 or x.shape[-1] != C0 or x.dtype not in (FLOAT, FLOAT16):
            raise KernelError(self.op_type, f"takes NC1HWC0 images of {C0} lanes, not {x.shape}")
        self.reads, self.writes, self.bins = (x, boxes), (y,), bins
        self.images, self.slices, self.height, self.width, _ = x.shape
        self.pair = min(2, self.width)  # neighbours in a load
        self.x, self.boxes, self.y = (each.view(each.numel) for each in (x, boxes, y))
        self.kind = x.dtype
        count = boxes.numel // _BOX
        self.division = self.grid = Grid((count,), (1,), profile.cores.vector_cores)
        self.block_dim = self.grid.used_cores

    def process(self, core: Core) -> None:
        """Box by box, row by row of its bins."""
        bins, size = self.bins, self.kind.itemsize
        pixel, row_of_bins = self.slices * C0, bins.wide * C0
        line, each = self.slices * row_of_bins, bins.high * row_of_bins
        box_que, pixels = TQue(TPosition.VECIN, 1, "box"), TQue(TPosition.VECIN, 2, "pixels")
        out_que = TQue(TPosition.VECOUT, 1, "bins")
        placed, weighted = TBuf("placed"), TBuf("weighted")
        core.pipe.init_buffer(box_que, 1, _BOX * size)
        core.pipe.init_buffer(pixels, 2, self.pair * pixel * size)
        core.pipe.init_buffer(out_que, 1, line * size)
        core.pipe.init_buffer(placed, 1, _BATCH * FLOAT.itemsize)
        core.pipe.init_buffer(weighted, 1, pixel * size)
        for piece in self.grid.pieces(core):
            (box,) = piece.starts
            given = box_que.copy_in(self.boxes.span(box * _BOX, _BOX))
            for _ in range(_PLACING):
                core.record_vector("vmuls", placed.get(FLOAT, _BATCH), _BATCH)
            core.noted(given)
            image = core.get_value(given, 0)
            samples = self._placed(core, given)
            box_que.free_tensor(given)
            for row in core.loop(bins.high):
                total = core.duplicate(
                    out_que.alloc_tensor(self.kind, self.slices, bins.wide * C0), 0.0
                )
                for turn in core.loop(bins.samples, sequential=True):
                    for _ in range(2):  # what the neighbours of all samples of the row weigh
                        core.record_vector("vmuls", placed.get(FLOAT, _BATCH), 2 * _BATCH)
                    core.wait_vector()
                    for column in core.loop(bins.wide * bins.samples, sequential=True):
                        where = (image, row, turn, column)
                        self._sample(core, pixels, weighted, total, where, samples)
                places = ((box, self.slices * each), (row, row_of_bins))
                out_que.copy_out(self.y.window(places, total.shape, (each, 1)), total)

    def _placed(self, core: Core, given: LocalTensor) -> tuple[Samples, Samples] | None:
        """The samples along height and width of the boxes worked on; None without numbers."""
        if not core.numerics:
            return None
        bins = self.bins
        corners = given.values(core.depth)[..., 1:].astype(np.float32) * np.float32(bins.scale)
        if bins.aligned:
            corners = corners - np.float32(0.5)
        x1, y1, x2, y2 = np.moveaxis(corners, -1, 0)
        if not bins.aligned:
            x2, y2 = np.maximum(x2, x1 + 1), np.maximum(y2, y1 + 1)
        return (
            Samples.of(y1, y2, bins.high, bins.samples, self.height),
            Samples.of(x1, x2, bins.wide, bins.samples, self.width),
        )

    def _sample(
        self,
        core: Core,
        pixels: TQue,
        weighted: TBuf,
        total: LocalTensor,
        where: tuple[Scalar, Index, Index, Index],
        samples: tuple[Samples, Samples] | None,
    ) -> None:
        """One sample of a row of bins, of all boxes and rows worked on."""
        image, row, turn, column = where
        core.scalar_loop()
        core.emit_scalar("ld_ub", loads=_READ, operations=_SAMPLE_OPERATIONS)
        taken = []
        for below in (False, True):
            down, right, weights = self._neighbours(core, (row, turn, column), samples, below=below)
            plane = self.height * self.width * C0
            places = (
                (image, self.slices * plane),
                (down, self.width * C0),
                (right, C0),
            )
            shape = (self.slices, self.pair * C0)
            taken.append((pixels.copy_in(self.x.window(places, shape, (plane, 1))), weights))
        part = weighted.get(self.kind, self.slices * C0)
        for _ in range(4):
            core.emit_vector("vmuls", self.kind, C0, rows=self.slices, chained=False)
        for _ in range(3):
            core.record_vector("vadd", part, C0, rows=self.slices)
        core.emit_vector("vadd", self.kind, C0, rows=self.slices, chained=False)
        core.noted(total)
        if core.numerics:
            self._add(core, total, taken, int(values_of(column)[0]))
        for tile, _ in taken:
            pixels.free_tensor(tile)

    def _neighbours(
        self,
        core: Core,
        where: tuple[Index, Index, Index],
        samples: tuple[Samples, Samples] | None,
        *,
        below: bool,
    ) -> tuple[Scalar, Scalar, list[tuple[NDArray[Any], NDArray[Any]]]]:
        """Row and first column of two neighbours; and of each its place in the load and weight."""
        if samples is None:
            nowhere = Scalar(core, None, core.depth)
            return nowhere, nowhere, []
        along, across = samples
        row, turn, column = (values_of(each) for each in where)
        rows, number = row * self.bins.samples + int(turn[0]), int(column[0])
        missing = (1,) * (core.depth - 2)  # of loops that run one by one

        def shown(values: NDArray[Any]) -> NDArray[Any]:
            return values.reshape(*values.shape, *missing)

        first = np.minimum(across.low[:, number, None], self.width - self.pair)
        down = shown((along.low, along.high)[below][:, rows])
        weight = (along.near, along.far)[below][:, rows] / np.float32(self.bins.samples**2)
        pixels = [
            (shown(at[:, number, None] - first), shown(weight * share[:, number, None]))
            for at, share in ((across.low, across.near), (across.high, across.far))
        ]
        return Scalar(core, down, core.depth), Scalar(core, shown(first), core.depth), pixels

    def _add(
        self, core: Core, total: LocalTensor, taken: list[tuple[LocalTensor, Any]], number: int
    ) -> None:
        depth, column = core.depth, number // self.bins.samples
        held = total.target(depth, whole=False)
        for tile, neighbours in taken:
            values = tile.values(depth)
            pairs = values.reshape(*values.shape[:-1], self.pair, C0)
            for at, weight in neighbours:
                picked = np.take_along_axis(pairs, at[..., None, None, None], -2)[..., 0, :]
                part = picked * weight[..., None, None].astype(self.kind.numpy)
                held[..., column * C0 : (column + 1) * C0] += part


def roi_align(task: Task) -> tuple[Kernel, ...]:
    """Bins of NCHW images, by way of NC1HWC0; images that lie so already are taken as they are."""
    x, boxes = task.present(2)
    high, wide = (
        task.whole_number(name, task.whole_number(other, 0))
        for name, other in (("outputHeight", "pooled_height"), ("outputWidth", "pooled_width"))
    )
    if not high or not wide:
        raise task.unsaid("a record doesn't tell how many bins a box has")
    ratio = task.whole_number("sampling_ratio", task.whole_number("sample_num", 2))
    aligned = task.first("aligned") is True or task.whole_number("roi_end_mode", 0) == 2
    bins = Bins(high, wide, max(1, ratio), task.number("spatial_scale", 1.0), aligned)
    count = boxes.numel // _BOX
    if len(x.shape) == 5:
        out = (
            task.outputs[0] if task.outputs else made((count, x.shape[1], high, wide, 16), x.dtype)
        )
        return (ROIAlign(task.profile, x, boxes, out, bins),)
    return _from_images(task, x, boxes, bins)


def _from_images(
    task: Task, x: GlobalTensor, boxes: GlobalTensor, bins: Bins
) -> tuple[Kernel, ...]:
    """Bins of NCHW images; A2 casts halves to float32 and back.

    A framework leaves its results in NC1HWC0, but where halves of ragged channels are cast.
    """
    tasks = Tasks(task.profile)
    profile, kind, channels = task.profile, x.dtype, x.shape[1]
    slices, count = ceil(channels / C0), boxes.numel // _BOX
    casts = kind is FLOAT16 and profile.cores.vector_cores > profile.cores.cube_cores
    if casts:
        boxes, x = (tasks.cast(each, FLOAT) for each in (boxes, x))
    blocked = made((x.shape[0], slices, *x.shape[2:], C0), x.dtype)
    tasks.run("TransData", x, out=blocked)
    pooled = made((count, slices, bins.high, bins.wide, C0), x.dtype)
    tasks.kernels.append(ROIAlign(profile, blocked, boxes, pooled, bins))
    if task.outputs or (casts and channels % C0):
        out = made((count, channels, bins.high, bins.wide), x.dtype)
        whole = task.outputs[0] if task.outputs else out
        turned = tasks.run("TransData", pooled, out=whole if whole.dtype is x.dtype else out)
        if turned.dtype is not whole.dtype:
            tasks.run("Cast", turned, out=whole)
    return tuple(tasks.kernels)
