"""GridSampler3D: samples between eight voxels of images with channels last.

Cores share blocks of 512 samples. Places and weights of a block are worked out together; then, 128
samples and 64 channels at a time, each of the eight neighbours is loaded, sample by sample, turned
so that samples lie side by side, cleared where it is outside, weighted and added up. The scalar
unit computes addresses and calls instructions with a count each, which is most of the time. Images
with channels in front are turned before; results are stored with channels in front. Source: ops-cv
image/grid_sample (grid_sampler_3d.h, aclnn_grid_sampler3d.cpp).
"""

from __future__ import annotations

from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.ascendc import Core, GlobalTensor, Kernel, LocalTensor, Scalar, TBuf, TPosition, TQue
from npusim.ascendc.conversions import conversion_path
from npusim.ascendc.loops import Index, values_of
from npusim.ascendc.task import Task, made
from npusim.operators.tasks import kernels_on
from npusim.ops.grid_sample.places import Sampling
from npusim.schedules.tile_grid import Grid
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import FLOAT
from npusim.values.errors import RefusedTaskError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.hardware.profile import Profile

_BLOCK, _SAMPLES, _CHANNELS = 512, 128, 64  # of which places, loads and turns are worked on at once
_AXES = (2, 3)  # of planes and of volumes
_PLACING = 110  # vector instructions over a block for its places, weights and masks
_TURNED = 16  # samples that one instruction turns
# Of the scalar unit: an address of a voxel, and the 32 addresses of lines to turn.
_ADDRESS_OPERATIONS, _TURN_OPERATIONS = 8, 32 * 3

Taken = list[tuple["NDArray[Any]", "NDArray[Any]"]]


class GridSampler(Kernel):
    """y[n, :, sample] = x[n] between the voxels around grid[n, sample]: channels last, to first.

    In as many axes as the grid has coordinates.
    """

    op_type = "GridSampler3D"

    def __init__(
        self,
        profile: Profile,
        x: GlobalTensor,
        grid: GlobalTensor,
        y: GlobalTensor,
        sampling: Sampling,
    ) -> None:
        self.axes = grid.shape[-1]
        ranks = len(x.shape), len(grid.shape)
        if ranks != (self.axes + 2,) * 2 or self.axes not in _AXES or x.dtype is not y.dtype:
            raise RefusedTaskError(self.op_type, f"{x.shape} sampled at {grid.shape}")
        self.reads, self.writes, self.sampling = (x, grid), (y,), sampling
        self.sizes, self.channels = x.shape[1:-1], x.shape[-1]
        self.samples = prod(grid.shape[1:-1])
        self.x, self.places, self.y = (each.view(each.numel) for each in (x, grid, y))
        self.kind = x.dtype
        self.widen = conversion_path(profile, x.dtype, FLOAT)
        extent = (1, min(_BLOCK, self.samples))
        self.division = self.grid = Grid(
            (x.shape[0], self.samples), extent, profile.cores.vector_cores
        )
        self.block_dim = self.grid.used_cores

    def process(self, core: Core) -> None:
        """Block by block."""
        size, most = self.kind.itemsize, min(_SAMPLES, self.samples)
        channels = round_up(min(_CHANNELS, self.channels), core.block_bytes // size)
        grid_que = TQue(TPosition.VECIN, 1, "grid")
        self._voxels, self._out = TQue(TPosition.VECIN, 1, "voxels"), TQue(TPosition.VECOUT, 1)
        placed, self._turned, self._sums = TBuf("placed"), TBuf("turned"), TBuf("sums")
        core.pipe.init_buffer(grid_que, 1, self.grid.extent[1] * self.axes * size)
        core.pipe.init_buffer(self._voxels, 1, most * channels * size)
        core.pipe.init_buffer(self._out, 1, channels * round_up(most, 16) * size)
        core.pipe.init_buffer(placed, 1, _BLOCK * FLOAT.itemsize)
        for buffer in (self._turned, self._sums):
            core.pipe.init_buffer(buffer, 1, channels * round_up(most, 16) * FLOAT.itemsize)
        for piece in self.grid.pieces(core):
            (image, first), count = piece.starts, piece.shape[1]
            place = ((image, self.samples * self.axes), (first, self.axes))
            given = grid_que.copy_in(self.places.window(place, (count * self.axes,), (1,)))
            for _ in range(_PLACING):
                core.record_vector("vmuls", placed.get(FLOAT, _BLOCK), _BLOCK)
            core.noted(given)
            core.wait_vector()
            taken = self._taken(core, given, count)
            grid_que.free_tensor(given)
            for start, length in core.tiles(0, count, _SAMPLES):
                for channel, width in core.tiles(0, self.channels, _CHANNELS):
                    where = (image, first, start, channel)
                    self._part(core, where, (width, length), taken)

    def _taken(self, core: Core, given: LocalTensor, count: int) -> Taken:
        """The voxels of the blocks worked on, and their weights; nothing without numbers."""
        if not core.numerics:
            return []
        depth = core.depth
        grid = given.values(depth)
        return self.sampling.taken(grid.reshape(*grid.shape[:depth], count, self.axes), self.sizes)

    def _part(
        self,
        core: Core,
        where: tuple[Index, Index, Index, Index],
        shape: tuple[int, int],
        taken: Taken,
    ) -> None:
        """Some samples and some channels: their voxels one after the other, then out."""
        (image, first, start, channel), (width, count) = where, shape
        total = core.duplicate(self._sums.get(FLOAT, *shape), 0.0)
        for corner in core.loop(self.sampling.voxels(self.axes), sequential=True):
            places, weights = taken[int(values_of(corner)[0])] if taken else (None, None)
            voxels = self._voxels.alloc_tensor(self.kind, count, width)
            for sample in core.loop(count):
                core.emit_scalar("ld_ub", loads=1, operations=_ADDRESS_OPERATIONS)
                voxel = Scalar(core, _of(places, start, values_of(sample)), core.depth)
                at = ((image, prod(self.sizes) * self.channels), (voxel, self.channels),
                    (channel, 1))  # fmt: skip
                core.copy_runs(voxels[sample], self.x.window(at, (width,), (1,)))
            self._voxels.enque(voxels)
            voxels = self._voxels.deque(voxels)
            self._add(core, total, voxels, _of(weights, start, np.arange(count)))
            self._voxels.free_tensor(voxels)
        out = self._out.alloc_tensor(self.kind, *shape)
        self._leave(core, out, total)
        target = ((image, self.channels * self.samples), (channel, self.samples),
            (first, 1), (start, 1))  # fmt: skip
        self._out.copy_out(self.y.window(target, shape, (self.samples, 1)), out)

    def _add(
        self, core: Core, total: LocalTensor, voxels: LocalTensor, weights: NDArray[Any] | None
    ) -> None:
        """Voxels turned, cleared where they are outside, weighted and added."""
        width, count = total.shape
        turned = self._turned.get(FLOAT, width, count)
        lanes = core.costs.repeat_elements(FLOAT.itemsize)
        for _ in core.loop(_SAMPLES // _TURNED):
            core.wait_vector()
            core.scalar_alu("lines", _TURN_OPERATIONS)
            core.emit_vector("vnchwconv", self.kind, _TURNED * width, chained=True)
        core.noted(turned)
        for _ in self.widen:
            core.record_vector("vconv", turned, width * _SAMPLES)
        for _ in core.loop(width):
            core.scalar_call()
            core.record_vector("vsel", turned, _SAMPLES)
        for _ in range(_SAMPLES // lanes):
            core.record_vector("vmul", turned, lanes, rows=width)
        core.record_vector("vadd", total, width * _SAMPLES)
        if weights is not None:
            depth = core.depth
            values = voxels.values(depth).astype(np.float32)
            weighted = values * weights[..., None].astype(np.float32)
            held = total.target(depth, whole=False)
            held += weighted.swapaxes(-1, -2)

    def _leave(self, core: Core, out: LocalTensor, total: LocalTensor) -> None:
        width = total.shape[0]
        core.record_vector("vconv" if self.widen else "vadds", out, width * _SAMPLES)
        if core.numerics:
            out.target(core.depth)[...] = total.values(core.depth).astype(out.dtype.numpy)


def _of(
    numbers: NDArray[Any] | None, start: Index, samples: NDArray[np.int64]
) -> NDArray[Any] | None:
    """What belongs to samples of a part of a block: [block, part, channels, corner, sample]."""
    if numbers is None:
        return None
    return numbers[:, values_of(start)[:, None] + samples][:, :, None, None]


def _sampled(task: Task, axes: int) -> tuple[Kernel, ...]:
    """Samples of images with channels in front, turned first."""
    x, grid = task.present(2)
    if len(x.shape) != axes + 2 or grid.shape[-1:] != (axes,) or x.shape[0] != grid.shape[0]:
        raise task.unfit(f"{x.shape} sampled at {grid.shape}")
    out = task.outputs[0] if task.outputs else made((*x.shape[:2], *grid.shape[1:-1]), x.dtype)
    turned = made((x.shape[0], *x.shape[2:], x.shape[1]), x.dtype)
    order = {"perm": [0, *range(2, axes + 2), 1]}
    there = kernels_on(Task(task.profile, "Transpose", (x,), (turned,), order))
    kind = GridSampler.called(f"GridSampler{axes}D")
    return (*there, kind(task.profile, turned, grid, out, Sampling.of(task)))


grid_sampler_2d, grid_sampler_3d = partial(_sampled, axes=2), partial(_sampled, axes=3)
