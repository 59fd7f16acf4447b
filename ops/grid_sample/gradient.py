"""Gradients of sampling: of the images, added voxel by voxel, and of the places.

Cores share blocks of samples. Places and weights of a block are worked out together; then, sample
by sample, the gradient's channels are loaded, and for each neighbour its channels: what they come
to is summed for the place, and the gradient times the weight is added to the image in device
memory. The scalar unit reads every place and writes every gradient of one. Everything is float32,
with channels last. Source: ops-cv image/grid_sampler3_d_grad and grid_sampler2_d_grad.
"""

from __future__ import annotations

from math import ceil, prod
from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.ascendc import Core, GlobalTensor, Kernel, LocalTensor, Scalar, TBuf, TPosition, TQue
from npusim.ascendc.loops import values_of
from npusim.ops.grid_sample.places import Sampling
from npusim.schedules.tile_grid import Grid
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import FLOAT
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.ascendc.gm_slices import Place
    from npusim.ascendc.loops import Index
    from npusim.ascendc.task import Task
    from npusim.hardware.profile import Profile
    from npusim.ops.grid_sample.places import Voxel

# Numbers of UB for each sample of a block, and vector instructions over a block.
_BUFFERS, _PLACING = {2: 56, 3: 105}, {2: 120, 3: 300}
_POINT_OPERATIONS = 20  # of the scalar unit: where a sample's gradient lies
_CORNER_OPERATIONS = 12  # whether a voxel is inside, and where


class GridSamplerGrad(Kernel):
    """dx[n] at voxels and dgrid of y[n, sample] = x[n] around grid[n, sample]; channels last."""

    op_type = "GridSampler3DGrad"

    def __init__(
        self,
        profile: Profile,
        dy: GlobalTensor,
        x: GlobalTensor,
        grid: GlobalTensor,
        dx: GlobalTensor,
        dgrid: GlobalTensor,
        sampling: Sampling,
    ) -> None:
        self.axes, self.sampling = grid.shape[-1], sampling
        self.sizes, self.channels = x.shape[1:-1], x.shape[-1]
        self.samples = prod(grid.shape[1:-1])
        self.reads, self.writes, self.adds_into = (dy, x, grid), (dx, dgrid), (dx,)
        self.dy, self.x, self.places, self.dx, self.dgrid = (
            each.view(each.numel) for each in (dy, x, grid, dx, dgrid)
        )
        rows = 3 + 2 * self.axes  # of channels: gradient, voxel, product and sums
        room = profile.buffers.ub_bytes // FLOAT.itemsize - rows * round_up(self.channels, 8)
        lanes = profile.vector.repeat_bytes // FLOAT.itemsize
        most = room // _BUFFERS[self.axes] // lanes * lanes
        if most < 1:
            raise KernelError(self.op_type, f"{self.channels} channels don't fit UB")
        cores = profile.cores.vector_cores
        extent = (1, min(most, self.samples, ceil(x.shape[0] * self.samples / cores)))
        self.division = self.grid = Grid((x.shape[0], self.samples), extent, cores)
        self.block_dim = self.grid.used_cores

    def process(self, core: Core) -> None:
        """Block by block."""
        size, most = FLOAT.itemsize, self.grid.extent[1]
        wide = round_up(self.channels * size, core.block_bytes)
        grid_que, out_que = TQue(TPosition.VECIN, 1, "grid"), TQue(TPosition.VECOUT, 1, "dgrid")
        self._grads, self._voxels = (TQue(TPosition.VECIN, 1, name) for name in ("grad", "voxel"))
        self._added, placed, self._sums = TQue(TPosition.VECOUT, 1), TBuf("placed"), TBuf("sums")
        for queue in (grid_que, out_que):
            core.pipe.init_buffer(queue, 1, most * self.axes * size)
        for queue in (self._grads, self._voxels, self._added):
            core.pipe.init_buffer(queue, 1, wide)
        core.pipe.init_buffer(placed, 1, most * size)
        core.pipe.init_buffer(self._sums, 2 * self.axes, wide)
        for piece in self.grid.pieces(core):
            (image, first), count = piece.starts, piece.shape[1]
            place = ((image, self.samples * self.axes), (first, self.axes))
            given = grid_que.copy_in(self.places.window(place, (count * self.axes,), (1,)))
            numbers = count * self.axes
            core.emit_scalar("ld_st_ub", loads=numbers, stores=numbers, turns=numbers)
            for _ in range(_PLACING[self.axes]):
                core.record_vector("vmuls", placed.get(FLOAT, most), count)
            core.noted(given)
            core.wait_vector()
            voxels, found = self._taken(core, given, count)
            grid_que.free_tensor(given)
            for sample in core.loop(count):
                self._sample(core, (image, first, sample), voxels, found)
            out = out_que.alloc_tensor(FLOAT, numbers)
            core.filled(out)
            out.check_write()
            if core.numerics:
                out.target(core.depth)[...] = found.reshape(-1, numbers)
            out_que.copy_out(self.dgrid.window(place, (numbers,), (1,)), out)

    def _taken(
        self, core: Core, given: LocalTensor, count: int
    ) -> tuple[list[Voxel], NDArray[np.float32]]:
        """The voxels of the blocks worked on, and room for gradients of their places."""
        if not core.numerics:
            return [], np.empty(0, np.float32)
        values = given.values(core.depth)
        grid = values.reshape(*values.shape[: core.depth], count, self.axes)
        return self.sampling.voxels_of(grid, self.sizes), np.zeros(grid.shape, np.float32)

    def _sample(
        self,
        core: Core,
        where: tuple[Index, Index, Index],
        voxels: list[Voxel],
        found: NDArray[np.float32],
    ) -> None:
        """One sample: its gradient meets each of its neighbours."""
        (image, first, sample), channels = where, self.channels
        core.emit_scalar("point", operations=_POINT_OPERATIONS)
        place = ((image, self.samples * channels), (first, channels), (sample, channels))
        grad = self._grads.copy_in(self.dy.window(place, (channels,), (1,)))
        sums = [self._sums.get(FLOAT, channels, part=part) for part in range(self.axes)]
        for each in sums:
            core.duplicate(each, 0.0)
        at, total = values_of(sample), np.float32(0)
        for corner in range(self.sampling.voxels(self.axes)):
            voxel = voxels[corner].at(at) if voxels else None
            core.emit_scalar("ld_ub", loads=3 * self.axes, operations=_CORNER_OPERATIONS)
            flat = None if voxel is None else voxel.place
            start = (
                (image, prod(self.sizes) * channels),
                (Scalar(core, flat, core.depth), channels),
            )
            if not self.sampling.nearest:
                total = total + self._meet(core, start, grad, voxel)
            core.emit_scalar("ld_ub", loads=self.axes + 2, operations=_CORNER_OPERATIONS)
            weight = None if voxel is None else voxel.weight
            added = self._added.alloc_tensor(FLOAT, channels)
            core.muls(added, grad, Scalar(core, weight, core.depth))
            core.set_atomic_add()
            self._added.copy_out(self.dx.window(start, (channels,), (1,)), added)
            core.set_atomic_none()
        self._grads.free_tensor(grad)
        for each in sums:
            core.record_vector("vcadd", each, channels)
        core.wait_vector()
        core.emit_scalar("ld_st_ub", loads=2 * self.axes, stores=self.axes, operations=self.axes)
        if core.numerics:
            found[:, at] = total

    def _meet(
        self,
        core: Core,
        start: tuple[tuple[Place, int], ...],
        grad: LocalTensor,
        voxel: Voxel | None,
    ) -> Any:
        """What a neighbour's channels come to for each axis of the place."""
        channels = self.channels
        loaded = self._voxels.copy_in(self.x.window(start, (channels,), (1,)))
        for part in range(self.axes, 2 * self.axes):
            product = self._sums.get(FLOAT, channels, part=part)
            core.muls(product, loaded, 1.0)
            for _ in range(self.axes - 2):
                core.record_vector("vmuls", product, channels)
            core.mul(product, grad, product)
            core.record_vector("vmuls", product, channels)
            core.record_vector("vadd", self._sums.get(FLOAT, channels, part=part), channels)
        met: Any = 0
        if voxel is not None:
            met = (grad.values(core.depth) * loaded.values(core.depth)).sum(-1)[..., None]
            met = met * voxel.slopes
        self._voxels.free_tensor(loaded)
        return met


def gradients(task: Task) -> GridSamplerGrad:
    """Of dy, x and the grid in float32 with channels last."""
    dy, x, grid, dx, dgrid = task.present(3, 2)
    axes = grid.shape[-1] if grid.shape else 0
    if axes not in _BUFFERS or len(x.shape) != axes + 2 or x.shape[0] != grid.shape[0]:
        raise task.unfit(f"{x.shape} sampled at {grid.shape}")
    shapes = (*grid.shape[:-1], x.shape[-1]), x.shape, grid.shape
    if shapes != (dy.shape, dx.shape, dgrid.shape) or {each.dtype for each in (dy, x, grid)} != {
        FLOAT
    }:
        raise task.refused(f"gradients of {dy.shape}, {dx.shape} and {dgrid.shape} in float32")
    kind = GridSamplerGrad.called(task.op_type)
    return kind(task.profile, dy, x, grid, dx, dgrid, Sampling.of(task))


def kernels(task: Task) -> tuple[Kernel, ...]:
    """The kernel of a task."""
    return (gradients(task),)
