"""Rows of one value with another at the place that an index names.

A tile is filled with the value for "off" once; for every tile of rows the scalar unit stores the
value for "on" where the indices say, the tile goes to device memory, and the scalar unit stores
"off" there again. Source: public operator sources (one_hot_d.py).
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.ascendc import Core, GlobalTensor, Kernel, LocalTensor, TPosition, TQue
from npusim.ascendc.task import Task, made
from npusim.engine.program import Pipe
from npusim.schedules.rows.shares import RowShare
from npusim.values.dtypes import INT16, INT32, INT64, UINT8
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.hardware.profile import Profile

_INDEX_TYPES = (INT32, INT64, UINT8)


class OneHot(Kernel):
    """out[r, k] = on where indices[r] is k, else off; the two are tensors of one number."""

    op_type = "OneHot"

    def __init__(
        self,
        profile: Profile,
        indices: GlobalTensor,
        on: GlobalTensor,
        off: GlobalTensor,
        out: GlobalTensor,
    ) -> None:
        if indices.dtype not in _INDEX_TYPES:
            raise KernelError(self.op_type, f"indices of {indices.dtype}")
        if not out.shape or out.shape[:-1] != indices.shape:
            raise KernelError(self.op_type, f"{indices.shape} doesn't become {out.shape}")
        self.reads, self.writes = (indices, on, off), (out,)
        self.depth, rows = out.shape[-1], indices.numel
        self.indices, self.out = indices.view(rows), out.view(rows, self.depth)
        self.values, self.kind = (on.view(1), off.view(1)), out.dtype
        most = profile.cores.vector_cores
        cores = max(each for each in range(1, most + 1) if rows % each == 0)  # shared out evenly
        block = profile.buffers.block_bytes
        if rows // cores * self.depth * self.kind.itemsize < block:
            cores = 1  # neighbours would write into one block
        each = self.depth * self.kind.itemsize + indices.dtype.itemsize
        room = profile.buffers.ub_bytes - 6 * block
        if each > room:
            raise KernelError(self.op_type, f"a row of {self.depth} elements doesn't fit into UB")
        self.division = self.share = RowShare.of(rows, cores, room // each)
        self.block_dim = cores

    @classmethod
    def from_task(cls, task: Task) -> tuple[Kernel, ...]:
        """Indices, in older records the depth, and both values; the new axis is the last one."""
        given = tuple(x for x in task.inputs if x is not None)
        if not 3 <= len(given) <= 4 or given[-2].numel != 1 or given[-1].numel != 1:
            raise task.refused("needs indices and two values")
        indices, on, off = given[0], given[-2], given[-1]
        if task.outputs:
            return (cls(task.profile, indices, on, off, task.outputs[0]),)
        depth = task.whole_number("depth", 0)
        if depth < 1:
            raise task.refused("the depth isn't known")
        return (cls(task.profile, indices, on, off, made((*indices.shape, depth), on.dtype)),)

    def process(self, core: Core) -> None:
        """Fill once, then set, store and reset."""
        share, block = self.share, core.get_block_idx()
        size, tile = self.kind.itemsize, share.tile
        id_que = TQue(TPosition.VECIN, 1, "indices", consumer=Pipe.SCALAR)
        out_que = TQue(TPosition.VECOUT, 1, "rows", producer=Pipe.SCALAR)
        value_que = TQue(TPosition.VECIN, 2, "values", consumer=Pipe.SCALAR)
        core.pipe.init_buffer(id_que, 1, tile * self.indices.dtype.itemsize)
        core.pipe.init_buffer(out_que, 1, tile * self.depth * size)
        core.pipe.init_buffer(value_que, 2, core.block_bytes)
        if not share.length(block):
            return
        on, off = (value_que.copy_in(value.span(0, 1)) for value in self.values)
        for each in (on, off):
            core.get_value(each)
        self._fill(core, tile)
        for first, count in core.tiles(block * share.per_core, share.length(block), tile):
            ids = id_que.copy_in(self.indices.span(first, count))
            rows = out_que.alloc_tensor(self.kind, count * self.depth)
            self._set(core, rows, ids, count)
            core.arrange(rows, ids, on, off, how=self._numbers)
            out_que.copy_out(self.out.window(((first, self.depth),), (rows.numel,), (1,)), rows)
            self._set(core, rows, ids, count)
            id_que.free_tensor(ids)
        for each in (on, off):
            value_que.free_tensor(each)

    def _fill(self, core: Core, rows: int) -> None:
        if core.recording:
            elements, kind = rows * self.depth, self.kind
            halves = ceil(elements * kind.itemsize / INT16.itemsize)
            detail = f"{elements} elements"
            core.emit_vector("vector_dup", INT16, halves, chained=True, detail=detail)
            core.recorder.after_vector()

    def _set(self, core: Core, rows: LocalTensor, ids: LocalTensor, count: int) -> None:
        """A value stored in every row: the scalar unit loads the index and computes the place."""
        if core.recording:
            core.scalar_loop(count)
            core.scalar_alu("address", 2 * count)
            core.move_elements(rows, ids, count)

    def _numbers(self, places: NDArray[Any], on: NDArray[Any], off: NDArray[Any]) -> NDArray[Any]:
        chosen = places[..., None] == np.arange(self.depth)
        return np.where(chosen, on[..., None], off[..., None])
