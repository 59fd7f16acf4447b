"""One update per element: put along an axis of a tensor, or added to it.

The scalar unit puts elements one after the other into rows in UB, as many rows at a time as fit;
of a row that doesn't fit each core takes a part, and of all its updates those that fall into it.
Another axis than the last is turned to the back and back again; A2 brings indices into 32 bits
first. What the kernel can't do runs on the AI CPUs. Source: ops-nn index/scatter_elements_v2, host
interface and device schedule.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import ceil, prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from npusim.ascendc import Core, GlobalTensor, Kernel, LocalTensor, TPosition, TQue
from npusim.ascendc.loops import looked_up
from npusim.ascendc.task import Task, made
from npusim.engine.program import Pipe
from npusim.operators.registry import kernel_class
from npusim.operators.tasks import Tasks
from npusim.ops.indexing.axes import axis_of, last, row_places, turned
from npusim.ops.indexing.elements import element_loop
from npusim.schedules.bounds import fault_outside
from npusim.schedules.on_ai_cpu import OnAiCpu
from npusim.schedules.tile_grid import Grid
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import BFLOAT16, FLOAT, FLOAT16, INT8, INT32, INT64, UINT8
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from npusim.ascendc.loops import Index
    from npusim.hardware.profile import Profile

Array = NDArray[Any]

_MOST_AXES = 3  # of a tensor, where the kernel is that of the first generation
_REDUCTIONS = ("none", "add", "mul")  # by number
_ON_THE_HOST = ("multiply", "amin", "amax")  # as frameworks name what they compute there
_INDEX_TYPES = (INT32, INT64)
_TYPES = (FLOAT, FLOAT16, BFLOAT16, INT32, INT8, UINT8)
_LEAST_TILE = 64  # updates


class ScatterElements(Kernel):
    """var[r, indices[r, k]] = updates[r, k] for rows of matrices, in place; or added to it."""

    op_type = "ScatterElements"

    def __init__(
        self,
        profile: Profile,
        var: GlobalTensor,
        indices: GlobalTensor,
        updates: GlobalTensor,
        *,
        adds: bool = False,
    ) -> None:
        if indices.dtype not in _INDEX_TYPES or indices.shape != updates.shape:
            raise KernelError(self.op_type, f"{updates.shape} at {indices.dtype}{indices.shape}")
        self.reads, self.writes, self.adds = (indices, updates, var), (var,), adds
        self.width, self.count = var.shape[-1], indices.shape[-1]
        rows = indices.numel // self.count
        together = var.shape[:-1] == indices.shape[:-1]
        self.places = None if together else row_places(var.shape[:-1], indices.shape[:-1])
        self.var = var.view(var.numel // self.width, self.width)
        self.indices = indices.view(rows, self.count)
        self.updates = updates.view(rows, self.count)
        self.kind = var.dtype
        height, part, self.tile = self._extents(profile, rows, together)
        cores = profile.cores.vector_cores
        self.division = self.grid = Grid((rows, self.width), (height, part), cores)
        self.block_dim = self.grid.used_cores

    def _extents(self, profile: Profile, rows: int, together: bool) -> tuple[int, int, int]:
        """Rows at a time, elements of each, and updates of each."""
        size, update = self.kind.itemsize, self.kind.itemsize + self.indices.dtype.itemsize
        block, cores = profile.buffers.block_bytes, profile.cores.vector_cores
        room = int(profile.buffers.ub_bytes) - 4 * block
        row, updates = self.width * size, self.count * update
        if row + _LEAST_TILE * update > room:
            most = room // 2 // size // block * block
            part = min(most, round_up(ceil(self.width * rows / cores), block))
            return 1, part, min(self.count, room // 2 // update // block * block)
        if not together or row + updates > room:
            tile = max(_LEAST_TILE, (room - row) // update // block * block)
            return 1, self.width, min(self.count, tile)
        share = ceil(rows / cores)
        return ceil(share / ceil(share / (room // (row + updates)))), self.width, self.count

    def process(self, core: Core) -> None:
        """Rows to UB, their updates put in one by one, and back."""
        fault_outside(core, self.op_type, self.indices, self.width)
        (height, part), size = self.grid.extent, self.kind.itemsize
        row_que = TQue(TPosition.VECIN, 1, "row", consumer=Pipe.SCALAR)
        in_que = TQue(TPosition.VECIN, 1, "updates", consumer=Pipe.SCALAR)
        id_que = TQue(TPosition.VECIN, 1, "indices", consumer=Pipe.SCALAR)
        core.pipe.init_buffer(row_que, 1, height * part * size)
        core.pipe.init_buffer(in_que, 1, height * self.tile * size)
        core.pipe.init_buffer(id_que, 1, height * self.tile * self.indices.dtype.itemsize)
        for piece in self.grid.pieces(core):
            (row, begin), (rows, width) = piece.starts, piece.shape
            place = row if self.places is None else looked_up(row, self.places)
            where = ((place, self.width), (begin, 1))
            line = self.var.window(where, (rows * width,), (1,))
            x = row_que.copy_in(line)
            for first, count in core.tiles(0, self.count, self.tile, sequential=True):
                where = ((row, self.count), (first, 1))
                ids = id_que.copy_in(self.indices.window(where, (rows * count,), (1,)))
                new = in_que.copy_in(self.updates.window(where, (rows * count,), (1,)))
                self._put(core, x, new, ids)
                how = partial(_put, rows=rows, begin=self._begin(core, begin), adds=self.adds)
                core.arrange(x, x, new, ids, how=how)
                id_que.free_tensor(ids)
                in_que.free_tensor(new)
            core.copy_runs(line, x)
            row_que.free_tensor(x, by=Pipe.MTE3)

    def _begin(self, core: Core, begin: Index) -> Array:
        """Where the parts of rows begin that are in UB."""
        if not core.numerics:
            return np.zeros(1, np.int64)
        return np.asarray(core.counter(begin).values(core.depth))[..., None]

    def _put(self, core: Core, x: LocalTensor, new: LocalTensor, ids: LocalTensor) -> None:
        """Index by index; sums load what is there, parts of rows take what lies inside them."""
        element_loop(core, x, new, ids)
        count = ids.numel
        if self.adds:
            core.emit_scalar("ld_ub", loads=count, operations=count)
        if self.grid.extent[1] < self.width:
            core.scalar_alu("compare", 2 * count)


def scatter_elements(task: Task) -> tuple[Kernel, ...]:
    """torch.scatter: updates put into a copy of the tensor, or into itself where that comes out."""
    x, indices, updates = task.present(3)
    reduce = task.attributes.get("reduce") or "none"
    reduce = _REDUCTIONS[reduce] if isinstance(reduce, int) else str(reduce)
    if reduce in _ON_THE_HOST:
        raise task.refused(
            f"frameworks compute {reduce!r} on the host; the device has none and add"
        )
    axis = axis_of("ScatterElements", x, indices, task.attributes)
    out = task.outputs[0] if task.outputs else made(x.shape, x.dtype)
    if task.op_type == "ScatterElementsV2":  # in place, though records name a result
        out = x
    profile, order = task.profile, last(len(x.shape), axis)
    split = profile.paths.l0c_to_gm is not None  # vector cores of their own: A2 and later
    suits = _suits_split(x, indices, axis) if split else len(x.shape) <= _MOST_AXES
    if reduce not in ("none", "add") or (reduce == "add" and not split) or not suits:
        compute = partial(_scattered, axis=axis, reduce=reduce)
        on_cpu = OnAiCpu(task.op_type, compute)
        return on_cpu.from_task(replace(task, outputs=(out,)))
    tasks = Tasks(profile)
    if out.buffer is not x.buffer:
        tasks.run("TensorMove", x, out=out)
    var, places, new = out, indices, updates
    if split and task.op_type == "Scatter" and indices.dtype is INT32:
        # A framework indexes in 64 bits, whatever it is given.
        places = tasks.cast(indices, INT64)
    if axis != len(x.shape) - 1:
        var, places, new = (turned(tasks, each, order) for each in (out, places, new))
    if split:
        short = made(places.shape, INT32, "indices")
        places = tasks.run("LinearIndex", places, out=short, size=x.shape[axis])
    tasks.kernels.append(ScatterElements(profile, var, places, new, adds=reduce == "add"))
    if var is not out:
        tasks.kernels.append(kernel_class("Transpose")(profile, var.permuted(order), out))
    return tuple(tasks.kernels)


def _suits_split(x: GlobalTensor, indices: GlobalTensor, axis: int) -> bool:
    """Whether A2's kernel takes tensors: their types, and sizes that differ on outer axes alone."""
    order = last(len(x.shape), axis)
    sizes = [(x.shape[each], indices.shape[each]) for each in order]
    return x.dtype in _TYPES and all(have == given for have, given in sizes[1:-1])


def _scattered(x: Array, indices: Array, updates: Array, *, axis: int, reduce: str) -> Array:
    """Updates put into a copy, added to it, or multiplied with what is there."""
    places: list[Array] = list(np.indices(indices.shape, sparse=True))
    places[axis] = indices
    found = x.copy()
    if reduce == "none":
        found[tuple(places)] = updates
    else:
        (np.add if reduce == "add" else np.multiply).at(found, tuple(places), updates)
    return found


def _put(values: Array, new: Array, places: Array, *, rows: int, begin: Array, adds: bool) -> Array:
    """Rows of UB with their updates, of those inside them."""
    shape = np.broadcast_shapes(values.shape[:-1], places.shape[:-1])
    lines = prod(shape) * rows
    found = np.broadcast_to(values, (*shape, values.shape[-1])).reshape(lines, -1).copy()
    starts = np.repeat(np.broadcast_to(begin[..., 0], shape).reshape(-1), rows)[:, None]
    at = np.broadcast_to(places, (*shape, places.shape[-1])).reshape(lines, -1) - starts
    given = np.broadcast_to(new, (*shape, new.shape[-1])).reshape(lines, -1)
    inside = (at >= 0) & (at < found.shape[-1])
    line = np.broadcast_to(np.arange(lines)[:, None], at.shape)[inside]
    if adds:
        np.add.at(found, (line, at[inside].astype(np.intp)), given[inside])
    else:
        found[line, at[inside].astype(np.intp)] = given[inside]
    return found.reshape(*shape, -1)
