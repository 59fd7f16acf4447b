"""One index per element: gathered along an axis.

Along the last axis elements of two or four bytes are gathered by the vector unit, row by row; all
else is moved by the scalar unit, one element after the other. Another axis is turned to the back
and back again. Tensors of four axes and more run on the AI CPU.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from npusim.ascendc import Core, GlobalTensor, Kernel, LocalTensor, TBuf, TPosition, TQue
from npusim.ascendc.loops import looked_up
from npusim.ascendc.task import Task, made
from npusim.engine.program import Pipe
from npusim.operators.registry import kernel_class
from npusim.operators.tasks import Tasks
from npusim.ops.indexing.axes import axis_of, last, row_places, turned
from npusim.schedules.bounds import fault_outside
from npusim.schedules.on_ai_cpu import OnAiCpu
from npusim.schedules.tile_grid import Grid
from npusim.values.dtypes import INT32, INT64
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from npusim.hardware.profile import Profile

Array = NDArray[Any]

_MOST_AXES = 3
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
        self.places = row_places(x.shape[:-1], indices.shape[:-1])
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
            element_loop(core, out, x, ids)
            return
        if ids.dtype is INT64:
            core.record_vector("vconv", offsets, offsets.numel)
        core.record_vector("vmuls", offsets, offsets.numel)
        core.record_vector("vgather", out, out.numel)


def gather_elements(task: Task) -> tuple[Kernel, ...]:
    """torch.gather: another axis than the last is turned to the back and back again.

    Then indices of 64 bits become such of 32 where the chip can, except for data of 64 bits.
    """
    x, indices = task.present(2)
    axis = axis_of("GatherElements", x, indices, task.attributes)
    out = task.outputs[0] if task.outputs else made(indices.shape, x.dtype)
    if len(x.shape) > _MOST_AXES:
        return _on_ai_cpu(task, out, partial(_taken, axis=axis))
    if axis == len(x.shape) - 1:
        return (GatherElements(task.profile, x, indices, out),)
    order = last(len(x.shape), axis)
    tasks = Tasks(task.profile)
    table, places = (turned(tasks, each, order) for each in (x, indices))
    shortens = task.profile.supports_convert(INT64.intrinsic, INT32.intrinsic)
    if places.dtype is INT64 and x.dtype.itemsize < INT64.itemsize and shortens:
        places = tasks.cast(places, INT32)
    result = made(places.shape, x.dtype)
    tasks.kernels.append(GatherElements(task.profile, table, places, result))
    tasks.kernels.append(kernel_class("Transpose")(task.profile, result.permuted(order), out))
    return tuple(tasks.kernels)


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


def _picked(values: Array, places: Array) -> Array:
    values = np.broadcast_to(values, (*places.shape[:-1], values.shape[-1]))
    return np.take_along_axis(values, places.astype(np.intp), axis=-1)


def element_loop(core: Core, dst: LocalTensor, src: LocalTensor, ids: LocalTensor) -> None:
    """For every index: the scalar unit reads it, computes an address, loads and stores."""
    if core.recording:
        count = ids.numel
        core.scalar_loop(count)
        core.scalar_alu("address", 2 * count)
        core.move_elements(dst, ids, ceil(count / 2))  # half of a load and a store: the index
        core.move_elements(dst, src, count)
