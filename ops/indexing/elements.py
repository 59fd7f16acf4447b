"""One index per element: gathered or scattered along an axis.

Along the last axis elements of two or four bytes are gathered by the vector unit, row by row; all
else is moved by the scalar unit, one element after the other. Another axis is turned to the back
and back again. Tensors of four axes and more, and reductions while scattering, run on the AI CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from math import ceil, prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from npusim.ascendc import Core, GlobalTensor, Kernel, LocalTensor, TBuf, TPosition, TQue
from npusim.ascendc.loops import looked_up
from npusim.ascendc.task import Task, made
from npusim.engine.program import Pipe
from npusim.operators.registry import kernel_class
from npusim.schedules.bounds import fault_outside
from npusim.schedules.on_ai_cpu import OnAiCpu
from npusim.schedules.tile_grid import Grid
from npusim.values.dtypes import INT32, INT64
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from npusim.hardware.profile import Profile

Array = NDArray[Any]

_MOST_AXES = 3
_REDUCTIONS = ("none", "add", "mul")  # by number
_INDEX_TYPES = (INT32, INT64)


class GatherElements(Kernel):
    """out[r, k] = x[r, indices[r, k]] for rows of matrices; x may have more rows."""

    op_type = "GatherElements"

    def __init__(
        self, profile: Profile, x: GlobalTensor, indices: GlobalTensor, out: GlobalTensor
    ) -> None:
        if indices.dtype not in _INDEX_TYPES:
            raise KernelError(self.op_type, f"indices of {indices.dtype}")
        self.reads, self.writes = (x, indices), (out,)
        self.width, self.count = x.shape[-1], indices.shape[-1]
        rows = indices.numel // self.count
        self.indices, self.out = indices.view(rows, self.count), out.view(rows, self.count)
        self.kind = out.dtype
        same = x.shape[:-1] == indices.shape[:-1]
        intrinsic = {2: "uint16", 4: "uint32"}.get(self.kind.itemsize, "")
        self.by_vector = same and profile.supports_vector("vgather", intrinsic)
        self.x_rows = x.view(x.numel // self.width, self.width)
        self.places = _row_places(x.shape[:-1], indices.shape[:-1])
        size, index = self.kind.itemsize, indices.dtype.itemsize
        room = profile.buffers.ub_bytes - self.width * size
        each = 2 * (size + index + 4)
        if room < each * 64:
            raise KernelError(self.op_type, f"a row of {self.width} elements doesn't fit into UB")
        block = profile.buffers.block_bytes
        tile = min(self.count, max(block, room // each // block * block - 2 * block))
        self.division = self.grid = Grid(
            (rows, self.count), (1, tile), min(profile.cores.vector_cores, rows)
        )
        self.block_dim = self.grid.used_cores

    def process(self, core: Core) -> None:
        """A row of x, then stretches of its indices."""
        fault_outside(core, self.op_type, self.indices, self.width)
        tile, size = self.grid.extent[1], self.kind.itemsize
        consumer = Pipe.VECTOR if self.by_vector else Pipe.SCALAR
        row_que = TQue(TPosition.VECIN, 1, "row", consumer=consumer)
        id_que = TQue(TPosition.VECIN, 2, "indices", consumer=consumer)
        out_que = TQue(TPosition.VECOUT, 2, "gathered", producer=consumer)
        offsets = TBuf("offsets")
        core.pipe.init_buffer(row_que, 1, self.width * size)
        core.pipe.init_buffer(id_que, 2, tile * self.indices.dtype.itemsize)
        core.pipe.init_buffer(out_que, 2, tile * size)
        core.pipe.init_buffer(offsets, 1, tile * INT32.itemsize)
        for piece in self.grid.pieces(core):
            row, first = piece.starts
            count = piece.shape[1]
            place = looked_up(row, self.places)
            x = row_que.copy_in(self.x_rows.window(((place, self.width),), (self.width,), (1,)))
            ids = id_que.copy_in(
                self.indices.window(((row, self.count), (first, 1)), (count,), (1,))
            )
            out = out_que.alloc_tensor(self.kind, count)
            self._pick(core, out, x, ids, offsets.get(INT32, count))
            core.arrange(out, x, ids, how=_picked)
            row_que.free_tensor(x)
            id_que.free_tensor(ids)
            out_que.copy_out(self.out.window(((row, self.count), (first, 1)), (count,), (1,)), out)

    def _pick(
        self,
        core: Core,
        out: LocalTensor,
        x: LocalTensor,
        ids: LocalTensor,
        offsets: LocalTensor,
    ) -> None:
        if not self.by_vector:
            _element_loop(core, out, x, ids)
            return
        if ids.dtype is INT64:
            core.record_vector("vconv", offsets, offsets.numel)
        core.record_vector("vmuls", offsets, offsets.numel)
        core.record_vector("vgather", out, out.numel)


class ScatterElements(Kernel):
    """var[r, indices[r, k]] = updates[r, k] for rows of matrices, in place."""

    op_type = "ScatterElements"

    def __init__(
        self, profile: Profile, var: GlobalTensor, indices: GlobalTensor, updates: GlobalTensor
    ) -> None:
        if indices.dtype not in _INDEX_TYPES or indices.shape != updates.shape:
            raise KernelError(self.op_type, f"{updates.shape} at {indices.dtype}{indices.shape}")
        self.reads, self.writes = (indices, updates, var), (var,)
        self.width, self.count = var.shape[-1], indices.shape[-1]
        rows = indices.numel // self.count
        self.places = _row_places(var.shape[:-1], indices.shape[:-1])
        self.var = var.view(var.numel // self.width, self.width)
        self.indices = indices.view(rows, self.count)
        self.updates = updates.view(rows, self.count)
        self.kind = var.dtype
        size, index = self.kind.itemsize, indices.dtype.itemsize
        room = profile.buffers.ub_bytes - self.width * size
        if room < 64 * (size + index):
            raise KernelError(self.op_type, f"a row of {self.width} elements doesn't fit into UB")
        block = profile.buffers.block_bytes
        tile = min(self.count, max(block, room // (size + index) // block * block - 2 * block))
        self.tile = tile
        self.division = self.grid = Grid((rows,), (1,), min(profile.cores.vector_cores, rows))
        self.block_dim = self.grid.used_cores

    def process(self, core: Core) -> None:
        """A row of the variable to UB, its updates put in one by one, and back."""
        fault_outside(core, self.op_type, self.indices, self.width)
        size = self.kind.itemsize
        row_que = TQue(TPosition.VECIN, 1, "row", consumer=Pipe.SCALAR)
        in_que = TQue(TPosition.VECIN, 1, "updates", consumer=Pipe.SCALAR)
        id_que = TQue(TPosition.VECIN, 1, "indices", consumer=Pipe.SCALAR)
        core.pipe.init_buffer(row_que, 1, self.width * size)
        core.pipe.init_buffer(in_que, 1, self.tile * size)
        core.pipe.init_buffer(id_que, 1, self.tile * self.indices.dtype.itemsize)
        for piece in self.grid.pieces(core):
            row = piece.starts[0]
            place = looked_up(row, self.places)
            line = self.var.window(((place, self.width),), (self.width,), (1,))
            x = row_que.copy_in(line)
            for first, count in core.tiles(0, self.count, self.tile, sequential=True):
                where = ((row, self.count), (first, 1))
                ids = id_que.copy_in(self.indices.window(where, (count,), (1,)))
                new = in_que.copy_in(self.updates.window(where, (count,), (1,)))
                _element_loop(core, x, new, ids)
                core.arrange(x, x, new, ids, how=_put)
                id_que.free_tensor(ids)
                in_que.free_tensor(new)
            core.copy_runs(line, x)
            row_que.free_tensor(x, by=Pipe.MTE3)


def gather_elements(task: Task) -> tuple[Kernel, ...]:
    """torch.gather: another axis than the last is turned to the back and back again.

    Then indices of 64 bits become such of 32 where the chip can, except for data of 64 bits.
    """
    x, indices = task.present(2)
    axis = _axis("GatherElements", x, indices, task.attributes)
    out = task.outputs[0] if task.outputs else made(indices.shape, x.dtype)
    if len(x.shape) > _MOST_AXES:
        return _on_ai_cpu(task, out, partial(_taken, axis=axis))
    if axis == len(x.shape) - 1:
        return (GatherElements(task.profile, x, indices, out),)
    order = _last(len(x.shape), axis)
    tasks: list[Kernel] = []
    table, places = (_turned(task.profile, each, order, tasks) for each in (x, indices))
    shortens = task.profile.supports_convert(INT64.intrinsic, INT32.intrinsic)
    if places.dtype is INT64 and x.dtype.itemsize < INT64.itemsize and shortens:
        short = made(places.shape, INT32)
        tasks.append(kernel_class("Cast")(task.profile, places, short))
        places = short
    result = made(places.shape, x.dtype)
    tasks.append(GatherElements(task.profile, table, places, result))
    tasks.append(kernel_class("Transpose")(task.profile, result.permuted(order), out))
    return tuple(tasks)


def scatter_elements(task: Task) -> tuple[Kernel, ...]:
    """torch.scatter: a copy of the tensor, and updates put into it."""
    x, indices, updates = task.present(3)
    reduce = task.attributes.get("reduce") or "none"
    reduce = _REDUCTIONS[reduce] if isinstance(reduce, int) else str(reduce)
    axis = _axis("ScatterElements", x, indices, task.attributes)
    out = task.outputs[0] if task.outputs else made(x.shape, x.dtype)
    if reduce != "none" or len(x.shape) > _MOST_AXES:
        return _on_ai_cpu(task, out, partial(_scattered, axis=axis, reduce=reduce))
    tasks: list[Kernel] = [kernel_class("TensorMove")(task.profile, x, out)]
    if axis == len(x.shape) - 1:
        return (
            *tasks,
            ScatterElements(task.profile, out, indices, updates),
        )
    order = _last(len(x.shape), axis)
    given = (out, indices, updates)
    var, places, new = (_turned(task.profile, each, order, tasks) for each in given)
    tasks.append(ScatterElements(task.profile, var, places, new))
    tasks.append(kernel_class("Transpose")(task.profile, var.permuted(order), out))
    return tuple(tasks)


def _on_ai_cpu(task: Task, out: GlobalTensor, compute: Callable[..., Array]) -> tuple[Kernel, ...]:
    """One of the AI CPUs after another moves an element."""
    return OnAiCpu(task.op_type, compute).from_task(replace(task, outputs=(out,)))


def _places(indices: Array, axis: int) -> tuple[Array, ...]:
    """Where the elements of the indices' shape are, with the indices along one axis."""
    found: list[Array] = list(np.indices(indices.shape, sparse=True))
    found[axis] = indices
    return tuple(found)


def _taken(x: Array, indices: Array, *, axis: int) -> Array:
    found: Array = x[_places(indices, axis)]
    return found


def _scattered(x: Array, indices: Array, updates: Array, *, axis: int, reduce: str) -> Array:
    """Updates put into a copy, added to it, or multiplied with what is there."""
    found, places = x.copy(), _places(indices, axis)
    if reduce == "none":
        found[places] = updates
    else:
        (np.add if reduce == "add" else np.multiply).at(found, places, updates)
    return found


def index_elements(task: Task) -> tuple[Kernel, ...]:
    """Advanced indexing isn't modelled: which axes are indexed isn't recorded."""
    raise task.refused("which axes are indexed isn't recorded")


def _picked(values: Array, places: Array) -> Array:
    values = np.broadcast_to(values, (*places.shape[:-1], values.shape[-1]))
    return np.take_along_axis(values, places.astype(np.intp), axis=-1)


def _put(values: Array, new: Array, places: Array) -> Array:
    found = np.broadcast_to(values, (*places.shape[:-1], values.shape[-1])).copy()
    np.put_along_axis(found, places.astype(np.intp), new, axis=-1)
    return found


def _element_loop(core: Core, dst: LocalTensor, src: LocalTensor, ids: LocalTensor) -> None:
    """For every index: the scalar unit reads it, computes an address, loads and stores."""
    if core.recording:
        count = ids.numel
        core.scalar_loop(count)
        core.scalar_alu("address", 2 * count)
        core.move_elements(dst, ids, ceil(count / 2))  # half of a load and a store: the index
        core.move_elements(dst, src, count)


def _axis(
    op_type: str, x: GlobalTensor, indices: GlobalTensor, attributes: Mapping[str, object]
) -> int:
    rank = len(x.shape)
    if len(indices.shape) != rank or not rank:
        raise KernelError(op_type, f"indices {indices.shape} for {x.shape}")
    found = attributes.get("dim", attributes.get("axis", 0))
    axis = int(found) % rank if isinstance(found, int) else 0
    for place, (own, given) in enumerate(zip(x.shape, indices.shape, strict=True)):
        if place != axis and given > own:
            raise KernelError(op_type, f"indices {indices.shape} reach beyond {x.shape}")
    return axis


def _last(rank: int, axis: int) -> tuple[int, ...]:
    """The order of axes with ``axis`` and the last one exchanged."""
    order = list(range(rank))
    order[axis], order[-1] = order[-1], order[axis]
    return tuple(order)


def _turned(
    profile: Profile, tensor: GlobalTensor, order: tuple[int, ...], tasks: list[Kernel]
) -> GlobalTensor:
    view = tensor.permuted(order)
    dense = made(view.shape, tensor.dtype)
    tasks.append(kernel_class("Transpose")(profile, view, dense))
    return dense


def _row_places(whole: tuple[int, ...], part: tuple[int, ...]) -> Any:
    """Which row of the data each row of the indices belongs to."""
    grid = np.arange(max(1, prod(whole))).reshape(whole)
    return grid[tuple(slice(0, size) for size in part)].reshape(-1)
