"""Rows put into a cache behind the place that an index names for each sequence.

Every sequence and head is a task of its own, moved from UB as it was loaded, in parts where it
doesn't fit; along the last axis a task is all rows of a sequence, or a part of them that fits.
Source: the operator that CANN 8.1 installs (impl/dynamic/scatter_kv_cache.py), block counts and
pipes of recorded kernels (a block for each sequence and head of 8 x 2).
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from npusim.ascendc import Core, GlobalTensor, Kernel, TPosition, TQue
from npusim.engine.program import Pipe
from npusim.ops.indexing.gather import INDEX_TYPES
from npusim.ops.indexing.put_elements import scatter_elements
from npusim.schedules.bounds import fault_outside
from npusim.schedules.rows.shares import RowShare
from npusim.values.arithmetic import round_up
from npusim.values.errors import KernelError, RefusedTaskError

if TYPE_CHECKING:
    from npusim.ascendc.gm_slices import Place
    from npusim.ascendc.loops import Index
    from npusim.ascendc.task import Task
    from npusim.hardware.profile import Profile
    from npusim.operators.host import Host

_TOKENS = -2  # the axis of a cache's tokens
_PAIR = 2  # numbers of an index that names the sequence, too


class Scatter(Kernel):
    """var[b, ..., indices[b] + i, ...] = updates[b, ..., i, ...] along an axis, in place.

    Shapes: var and updates alike but along the first axis, of which updates may have less, and
    ``axis``; indices (b,), or (b, 2) where they name the sequence as well, or () for one.
    """

    generated = True  # recorded ones are as short on the scalar unit as compiled kernels: 0.15 us

    def __init__(
        self,
        profile: Profile,
        var: GlobalTensor,
        indices: GlobalTensor,
        updates: GlobalTensor,
        axis: int = _TOKENS,
    ) -> None:
        self.names_sequence = len(indices.shape) == _PAIR
        place = self._checked(var, indices, updates, axis)
        length, rows = var.shape[place], updates.shape[place]
        self.heads, self.width = prod(var.shape[1:place]), prod(var.shape[place + 1 :])
        self.sequences, self.places = var.shape[0], length - rows + 1
        self.row, self.count = length * self.width, rows * self.width
        self.reads, self.writes = (indices, updates), (var,)
        self.indices = indices
        self.var, self.updates = var.view(var.numel), updates.view(updates.numel)
        self.size, block = var.dtype.itemsize, profile.buffers.block_bytes
        room = int(profile.buffers.ub_bytes) - 2 * block - round_up(indices.nbytes, block)
        if room < block:
            raise KernelError(self.op_type, f"{indices.numel} indices don't fit into UB")
        padded = round_up(self.count * self.size, block)
        self.together = 1  # heads of a task
        if place == len(var.shape) - 1:
            self.together = _largest_part(self.heads, room // padded)
        self.part = min(self.count, room // self.size)
        self.held = max(self.together * padded, self.part * self.size)
        lines = updates.shape[0] * self.heads // self.together
        self.division = self.share = RowShare.of(lines, profile.cores.vector_cores, 1)
        self.block_dim = self.share.cores

    def _checked(
        self, var: GlobalTensor, indices: GlobalTensor, updates: GlobalTensor, axis: int
    ) -> int:
        """The axis from the front; KernelError where tensors don't fit together."""
        rank = len(var.shape)
        place = axis + rank if axis < 0 else axis
        lines = updates.shape[:1]
        known = [lines, (*lines, _PAIR), *([()] if lines == (1,) else [])]
        if not 0 < place < rank == len(updates.shape) or indices.shape not in known:
            problem = f"{updates.shape} at {indices.shape} of {var.shape}"
            raise RefusedTaskError(self.op_type, problem)
        whole = (updates.shape[0], *var.shape[1:place], updates.shape[place])
        beyond = updates.shape[0] > var.shape[0] or updates.shape[place] > var.shape[place]
        if updates.shape != (*whole, *var.shape[place + 1 :]) or beyond:
            raise RefusedTaskError(
                self.op_type, f"{updates.shape} into {var.shape} along axis {place}"
            )
        if indices.dtype not in INDEX_TYPES or updates.dtype is not var.dtype:
            problem = f"{updates.dtype} at {indices.dtype} into {var.dtype}"
            raise KernelError(self.op_type, problem)
        return place

    def process(self, core: Core) -> None:
        """Index and rows of each sequence and head, then the rows to their place."""
        counts = (self.sequences, self.places) if self.names_sequence else (self.places,)
        fault_outside(core, self.op_type, self.indices, *counts)
        ids = TQue(TPosition.VECIN, 1, "indices", consumer=Pipe.SCALAR)
        rows = TQue(TPosition.VECIN, 1, "rows", consumer=Pipe.MTE3)
        core.pipe.init_buffer(ids, 1, self.indices.nbytes)
        core.pipe.init_buffer(rows, 1, self.held)
        flat = self.indices.view(self.indices.numel)
        named = ids.copy_in(flat.span(0, flat.numel))
        share, block = self.share, core.get_block_idx()
        parts = self.heads // self.together
        for index in core.loop(share.length(block)):
            task = index + block * share.per_core
            line, step = task // parts, self.together
            where: tuple[tuple[Place, int], ...] = ((task, step * self.row),)
            if self.names_sequence:
                sequence = core.get_value(named, line * _PAIR)
                head = task % parts if parts > 1 else 0
                where = (sequence, self.heads * self.row), (head, step * self.row)
                line = line * _PAIR + 1
            place = core.get_value(named, line)
            core.scalar_alu("mul", 2)
            self._move(core, rows, task, (*where, (place, self.width)))
        ids.free_tensor(named)

    def _move(
        self, core: Core, rows: TQue, task: Index, where: tuple[tuple[Place, int], ...]
    ) -> None:
        """The rows of a task, in parts that fit."""
        step = self.together
        for first, count in core.tiles(0, self.count, self.part):
            shape = (step, count) if step > 1 else (count,)
            given = (task, step * self.count), (first, 1)
            steps = ((self.count, self.row), (1, 1)) if step > 1 else ((1, 1),)
            source, target = zip(*steps, strict=True)
            new = self.updates.window(given, shape, source)
            old = self.var.window((*where, (first, 1)), shape, target)
            tile = rows.copy_in(new.by_rows() if step > 1 else new)
            core.copy_runs(old.by_rows() if step > 1 else old, tile)
            rows.free_tensor(tile)


def _largest_part(whole: int, most: int) -> int:
    """The largest divisor that is no more than ``most``, at least one."""
    return next((each for each in range(min(whole, most), 0, -1) if whole % each == 0), 1)


def scatter(task: Task) -> tuple[Kernel, ...]:
    """Rows into a cache; or elements, as torch's scatter has it, with an index for each."""
    var, indices, updates = task.present(3)
    if task.attributes.get("reduce") == "update" or indices.shape != updates.shape:
        return (Scatter(task.profile, var, indices, updates, task.whole_number("axis", _TOKENS)),)
    return scatter_elements(task)


def updated(
    host: Host, data: GlobalTensor, indices: GlobalTensor, updates: GlobalTensor, *, axis: int
) -> Any:
    """aclnnInplaceScatterUpdate: rows along an axis."""
    host.run("Scatter", data, indices, updates, outputs=(data,), reduce="update", axis=axis)
    return data
