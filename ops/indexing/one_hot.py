"""Rows or columns of one value with another at the place that an index names.

A tile is filled with the value for "off" once; for every tile of rows the scalar unit stores the
value for "on" where the indices say, the tile goes to device memory, and the scalar unit stores
"off" there again. Where the new axis isn't the last one a tile has all of it and some columns,
whole blocks of them; the last tile of a row of columns ends with it, so that no store goes beyond.
Source: public operator sources (one_hot_d.py, _cloud_multi_core_ir and _multi_core_ir_prime_case;
of kernels for any shape ops-math one_hot_tiling.cpp, get_core_num).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import replace
from math import ceil, prod
from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.ascendc import Core, GlobalTensor, Kernel, LocalTensor, TPosition, TQue
from npusim.ascendc.task import Task, made
from npusim.engine.program import Pipe
from npusim.schedules.rows.shares import RowShare
from npusim.schedules.tile_grid import Grid
from npusim.values.arithmetic import greatest_divisor, round_up
from npusim.values.dtypes import INT16, INT32, INT64, UINT8
from npusim.values.errors import KernelError, RefusedTaskError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.ascendc.gm_slices import GmSlice
    from npusim.hardware.profile import Profile

_LEAST = 16  # elements of a core
_INDEX_TYPES = (INT32, INT64, UINT8)


class OneHot(Kernel):
    """out[r, k] = on where indices[r] is k, else off; the two are tensors of one number.

    ``axis`` is where k goes among the axes of the indices.
    """

    op_type = "OneHot"

    def __init__(
        self,
        profile: Profile,
        indices: GlobalTensor,
        on: GlobalTensor,
        off: GlobalTensor,
        out: GlobalTensor,
        axis: int = -1,
    ) -> None:
        if indices.dtype not in _INDEX_TYPES:
            raise KernelError(self.op_type, f"indices of {indices.dtype}")
        at = axis % (len(indices.shape) + 1)
        if (
            len(out.shape) != len(indices.shape) + 1
            or (*out.shape[:at], *out.shape[at + 1 :]) != indices.shape
        ):
            raise RefusedTaskError(self.op_type, f"{indices.shape} doesn't become {out.shape}")
        self.reads, self.writes = (indices, on, off), (out,)
        self.depth, rows = out.shape[at], indices.numel
        self.indices, self.out = indices.view(rows), out.view(out.numel)
        self.values, self.kind = (on.view(1), off.view(1)), out.dtype
        self.rest: Grid | None = None
        self.columns = prod(indices.shape[at:])
        block = profile.buffers.block_bytes
        room = profile.buffers.ub_bytes - 6 * block
        if self.columns == 1:
            self._share_rows(profile, rows, room)
        else:
            self._share_columns(profile, rows // self.columns, room)

    def _share_rows(self, profile: Profile, rows: int, room: int) -> None:
        each = self.depth * self.kind.itemsize + self.indices.dtype.itemsize
        if each > room:
            raise KernelError(self.op_type, f"a row of {self.depth} elements doesn't fit into UB")
        most, tile = profile.cores.vector_cores, room // each
        compiled = profile.software.compiled_for_shape
        share = self._static(profile, rows, tile) if compiled else RowShare.of(rows, most, tile)
        while share.cores > 1 and share.per_core * self.depth < _LEAST and not compiled:
            share = RowShare.of(rows, share.cores - 1, tile)
        self.division: RowShare | Grid = share
        self.tile = share.tile
        self.tile_bytes = self.tile * self.depth * self.kind.itemsize
        self.block_dim = share.cores

    def _static(self, profile: Profile, rows: int, tile: int) -> RowShare:
        """Like shares where there are such, of the most cores; else the last takes the rest."""
        most, block = profile.cores.vector_cores, profile.buffers.block_bytes
        row = self.depth * self.kind.itemsize
        cores = greatest_divisor(rows, most)
        if cores == 1 and rows > most and row >= block:
            last = rows - (most - 1) * (rows // most)
            return replace(RowShare.of(last, 1, tile), rows=rows, per_core=rows // most, many=most)
        if rows // cores * row < block:
            cores = 1  # neighbours would write into one block
        return RowShare.of(rows, cores, tile)

    def _share_columns(self, profile: Profile, parts: int, room: int) -> None:
        size, block = self.kind.itemsize, profile.buffers.block_bytes
        lanes = block // size
        fitting = room // (self.depth * block + lanes * self.indices.dtype.itemsize) * lanes
        if not fitting:
            raise KernelError(self.op_type, f"{self.depth} blocks of columns don't fit into UB")
        cores = profile.cores.vector_cores
        if self.columns < lanes:
            self.tile = self.columns
            cores = cores if profile.has("data_move_pad") else 1  # stores end in another's block
        else:
            self.tile = min(fitting, self.columns // lanes * lanes)
        self.tile_bytes = self.depth * round_up(self.tile * size, block)
        whole, rest = divmod(self.columns, self.tile)
        self.division = Grid((parts, whole), (1, 1), cores)
        self.rest = Grid((parts, 1), (1, 1), cores) if rest else None
        self.block_dim = max(each.used_cores for each in (self.division, self.rest) if each)

    @classmethod
    def from_task(cls, task: Task) -> tuple[Kernel, ...]:
        """Indices, in older records the depth, and both values; the new axis is the last one."""
        given = tuple(x for x in task.inputs if x is not None)
        if not 3 <= len(given) <= 4 or given[-2].numel != 1 or given[-1].numel != 1:
            raise task.refused("needs indices and two values")
        indices, on, off = given[0], given[-2], given[-1]
        axis, depth = task.whole_number("axis", -1), task.whole_number("depth", 0)
        if task.outputs:
            return (cls(task.profile, indices, on, off, task.outputs[0], axis),)
        if depth < 1:
            raise task.refused("the depth isn't known")
        shape = list(indices.shape)
        shape.insert(axis % (len(shape) + 1), depth)
        return (cls(task.profile, indices, on, off, made(tuple(shape), on.dtype), axis),)

    def block_kind(self, block_idx: int) -> Hashable:
        """Which tiles a core has."""
        others = self.rest.block_kind(block_idx) if self.rest else ()
        return self.division.block_kind(block_idx), others

    def process(self, core: Core) -> None:
        """Fill once, then set, store and reset."""
        id_que = TQue(TPosition.VECIN, 1, "indices", consumer=Pipe.SCALAR)
        out_que = TQue(TPosition.VECOUT, 1, "rows", producer=Pipe.SCALAR)
        value_que = TQue(TPosition.VECIN, 2, "values", consumer=Pipe.SCALAR)
        core.pipe.init_buffer(id_que, 1, self.tile * self.indices.dtype.itemsize)
        core.pipe.init_buffer(out_que, 1, self.tile_bytes)
        core.pipe.init_buffer(value_que, 2, core.block_bytes)
        on, off = (value_que.copy_in(value.span(0, 1)) for value in self.values)
        for each in (on, off):
            core.get_value(each)
        self._fill(core)
        for source, target in self._tiles(core):
            ids, count = id_que.copy_in(source), source.numel
            rows = out_que.alloc_tensor(self.kind, *target.shape)
            self._set(core, rows, ids, count)
            core.arrange(rows, ids, on, off, how=self._numbers)
            out_que.copy_out(target, rows)
            self._set(core, rows, ids, count)
            id_que.free_tensor(ids)
        for each in (on, off):
            value_que.free_tensor(each)

    def _tiles(self, core: Core) -> Iterator[tuple[GmSlice, GmSlice]]:
        """Indices, and where their rows or columns go."""
        depth, columns, tile = self.depth, self.columns, self.tile
        if isinstance(self.division, RowShare):
            for first, count in self.division.tiles(core):
                place = self.out.window(((first, depth),), (count * depth,), (1,))
                yield self.indices.span(first, count), place
            return
        for grid, start in ((self.division, 0), (self.rest, columns - tile)):
            for piece in grid.pieces(core) if grid else ():
                part, number = piece.starts
                moved = (number, tile), (start, 1)
                yield (
                    self.indices.window(((part, columns), *moved), (tile,), (1,)),
                    self.out.window(((part, depth * columns), *moved), (depth, tile), (columns, 1)),
                )

    def _fill(self, core: Core) -> None:
        if core.recording:
            halves = ceil(self.tile_bytes / INT16.itemsize)
            detail = f"{self.tile_bytes // self.kind.itemsize} elements"
            core.emit_vector("vector_dup", INT16, halves, chained=True, detail=detail)
            core.recorder.after_vector()

    def _set(self, core: Core, rows: LocalTensor, ids: LocalTensor, count: int) -> None:
        """A value stored in every row: the scalar unit loads the index and computes the place."""
        if core.recording:
            core.scalar_loop(count)
            core.scalar_alu("address", 2 * count)
            core.move_elements(rows, ids, count)

    def _numbers(self, places: NDArray[Any], on: NDArray[Any], off: NDArray[Any]) -> NDArray[Any]:
        depths = np.arange(self.depth)
        if self.columns == 1:
            chosen = places[..., None] == depths
        else:
            chosen = places[..., None, :] == depths[:, None]
        return np.where(chosen, on[..., None], off[..., None])
