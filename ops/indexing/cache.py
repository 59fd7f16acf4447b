"""Keys and values put into a cache: rows of every head behind the place that an index names.

Every sequence and head is a task of its own, moved from UB as it was loaded. Source: block counts
and pipes of recorded kernels (a block for each sequence and head of 8 x 2).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.ascendc import Core, GlobalTensor, Kernel, TPosition, TQue
from npusim.engine.program import Pipe
from npusim.ops.indexing.gather import INDEX_TYPES
from npusim.ops.indexing.put_elements import scatter_elements
from npusim.schedules.bounds import fault_outside
from npusim.schedules.rows.shares import RowShare
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from npusim.ascendc.task import Task
    from npusim.hardware.profile import Profile

_RANK = 4


class Scatter(Kernel):
    """var[b, n, indices[b] + i, :] = updates[b, n, i, :], in place.

    Shapes: var (B, N, S, D), indices (B,), updates (B, N, s, D).
    """

    generated = True  # recorded ones are as short on the scalar unit as compiled kernels: 0.15 us

    def __init__(
        self, profile: Profile, var: GlobalTensor, indices: GlobalTensor, updates: GlobalTensor
    ) -> None:
        batch, heads, length, width = var.shape
        rows = updates.shape[2] if len(updates.shape) == _RANK else 0
        fits = updates.shape == (batch, heads, rows, width) and indices.shape == (batch,)
        if not fits or rows > length:
            raise KernelError(self.op_type, f"{updates.shape} at {indices.shape} of {var.shape}")
        if indices.dtype not in INDEX_TYPES or updates.dtype is not var.dtype:
            problem = f"{updates.dtype} at {indices.dtype} into {var.dtype}"
            raise KernelError(self.op_type, problem)
        self.heads, self.length, self.width = heads, length, width
        self.reads, self.writes = (indices, updates), (var,)
        self.var, self.indices, self.updates = var, indices, updates
        self.count = rows * width
        room = profile.buffers.ub_bytes - 2 * profile.buffers.block_bytes
        if self.count * var.dtype.itemsize + indices.nbytes > room:
            raise KernelError(self.op_type, f"{self.count} elements of a head don't fit into UB")
        self.division = self.share = RowShare.of(batch * heads, profile.cores.vector_cores, 1)
        self.block_dim = self.share.cores

    def process(self, core: Core) -> None:
        """Index and rows of each sequence and head, then the rows to their place."""
        places = self.length - self.count // self.width + 1
        fault_outside(core, self.op_type, self.indices, places)
        ids = TQue(TPosition.VECIN, 1, "indices", consumer=Pipe.SCALAR)
        rows = TQue(TPosition.VECIN, 1, "rows", consumer=Pipe.MTE3)
        core.pipe.init_buffer(ids, 1, self.indices.nbytes)
        core.pipe.init_buffer(rows, 1, self.count * self.var.dtype.itemsize)
        named = ids.copy_in(self.indices.span(0, self.indices.numel))
        share, block = self.share, core.get_block_idx()
        flat, new = self.var.view(self.var.numel), self.updates.view(self.updates.numel)
        for index in core.loop(share.length(block)):
            head = index + block * share.per_core
            place = core.get_value(named, head // self.heads)
            core.scalar_alu("mul", 2)
            tile = rows.copy_in(new.window(((head, self.count),), (self.count,), (1,)))
            where = ((head, self.length * self.width), (place, self.width))
            core.copy_runs(flat.window(where, (self.count,), (1,)), tile)
            rows.free_tensor(tile)
        ids.free_tensor(named)


def scatter(task: Task) -> tuple[Kernel, ...]:
    """Rows into a cache; or elements, as torch's scatter has it, with an index for each."""
    var, indices, updates = task.present(3)
    if len(var.shape) == _RANK and len(indices.shape) == 1:
        return (Scatter(task.profile, var, indices, updates),)
    return scatter_elements(task)
