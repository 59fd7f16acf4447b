"""The gradient of nearest pixels in the vector layout: rows added up and then to memory.

Cores share the rows of the gradient, each all planes of its rows. A row is summed up pixel by pixel
into a row of the result, which was cleared, and added to device memory; one buffer each, so a store
has to end before the next row is cleared. Source: public operator sources
(resize_nearest_neighbor_grad_d_h.py).
"""

from __future__ import annotations

from collections.abc import Hashable
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.ascendc import Core, GlobalTensor, Kernel, LocalTensor, TPosition, TQue
from npusim.ascendc.loops import Index, looked_up
from npusim.ops.resize.scales import FLOORED, Corners, Images, resized
from npusim.values.dtypes import FLOAT
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.ascendc.task import Task
    from npusim.hardware.profile import Profile


class ResizeNearestNeighborGrad(Kernel):
    """out[..., source of h, source of w, :] += grad[..., h, w, :]; the result starts as zeros."""

    op_type = "ResizeNearestNeighborGrad"

    def __init__(
        self, profile: Profile, grad: GlobalTensor, out: GlobalTensor, corners: Corners = FLOORED
    ) -> None:
        if grad.dtype is not FLOAT or out.dtype is not FLOAT:
            raise KernelError(self.op_type, f"adds FLOAT in memory, not {grad.dtype}")
        self.reads, self.writes, self.adds_into = (grad,), (out,), (out,)
        self.corners = corners
        self.inside, self.outside = Images.pair(self.op_type, grad, out)
        self.grad, self.out = grad.view(grad.numel), out.view(out.numel)
        cores = profile.cores.vector_cores
        self.rows_per_core = ceil(self.inside.height / cores)
        self.block_dim = ceil(self.inside.height / self.rows_per_core)
        # Rows of the gradient that meet in one row of the result are added by different cores.
        shared = ceil(self.inside.height / self.outside.height)
        self.sharers = max(1, ceil(shared / self.rows_per_core))

    @classmethod
    def from_task(cls, task: Task) -> tuple[Kernel, ...]:
        return (cls(task.profile, *resized(task)),)

    def block_kind(self, block_idx: int) -> Hashable:
        """Rows of a core."""
        first = block_idx * self.rows_per_core
        return min(self.rows_per_core, self.inside.height - first)

    def process(self, core: Core) -> None:
        """Row by row, and in it plane by plane."""
        in_que = TQue(TPosition.VECIN, 1, "grad")
        out_que = TQue(TPosition.VECOUT, 1, "sums")
        size = FLOAT.itemsize
        core.pipe.init_buffer(in_que, 1, self.inside.width * self.inside.lanes * size)
        core.pipe.init_buffer(out_que, 1, self.outside.width * self.outside.lanes * size)
        first = core.get_block_idx() * self.rows_per_core
        targets = self.corners.nearest(self.outside.height, self.inside.height)
        core.set_atomic_add(self.sharers)
        for turn in core.loop(min(self.rows_per_core, self.inside.height - first)):
            core.scalar_alu("location", 1)
            row = turn + first
            self._plane_rows(core, in_que, out_que, row, looked_up(row, targets))
        core.set_atomic_none()

    def _plane_rows(
        self, core: Core, in_que: TQue, out_que: TQue, row: Index, target: Index
    ) -> None:
        source = self.inside.width * self.inside.lanes
        width = self.outside.width * self.outside.lanes
        for plane in core.loop(self.inside.planes):
            places = ((plane, self.inside.height * source), (row, source))
            x = in_que.copy_in(self.grad.window(places, (source,), (1,)))
            sums = out_que.alloc_tensor(FLOAT, width)
            core.duplicate(sums, 0.0)
            self._add_pixels(core, sums, x)
            in_que.free_tensor(x)
            where = ((plane, self.outside.height * width), (target, width))
            out_que.copy_out(self.out.window(where, (width,), (1,)), sums)

    def _add_pixels(self, core: Core, sums: LocalTensor, x: LocalTensor) -> None:
        """Halves of 16 lanes: one instruction for every pixel that meets in one, and each half."""
        columns = self.corners.nearest(self.outside.width, self.inside.width)
        most = int(np.bincount(columns, minlength=1).max())
        half, lanes = self.outside.width * self.outside.lanes // 2 or 1, self.inside.lanes
        for _ in range(2 * most):
            core.record_vector("vadd", sums, half)

        def added(values: NDArray[Any]) -> NDArray[Any]:
            values = values.reshape(*values.shape[:-1], -1, lanes)
            total = np.zeros((*values.shape[:-2], self.outside.width, lanes), np.float32)
            np.add.at(np.moveaxis(total, -2, 0), columns, np.moveaxis(values, -2, 0))
            return total

        core.arrange(sums, x, how=added)
