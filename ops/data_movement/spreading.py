"""Repetition of tensors: along axes of one element (BroadcastTo), or of whole tensors (Tile).

Source of the schedules for one shape: broadcast by register of the public tensor compiler (see
:mod:`npusim.schedules.spreading`).
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil, prod
from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.ascendc import Core, GlobalTensor, GmSlice, Kernel, LocalTensor, TPosition, TQue
from npusim.ascendc.queues import footprint_bytes
from npusim.ops.data_movement.strided import StridedCopy, by_rows
from npusim.schedules.block_split import broadcast_split
from npusim.schedules.spreading import spread_column
from npusim.schedules.tile_grid import Box, BoxTile, BoxTiling, whole_axes
from npusim.values.errors import RefusedTaskError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.ascendc.task import Task
    from npusim.hardware.profile import Profile

_TILES_PER_CORE = 8  # so that numbers are spread while others are stored


class SpreadRows(Kernel):
    """dst = src repeated, for one shape: numbers along rows one by one, rows by the vector unit.

    Rows that aren't whole blocks are stored one by one, and nothing overlaps with that.
    """

    op_type = "TileD"

    def __init__(
        self, profile: Profile, src: GlobalTensor, dst: GlobalTensor, leading: int
    ) -> None:
        self.reads, self.writes = (src,), (dst,)
        self.kind = dst.dtype
        self.box = Box.of(src, dst)
        sizes, cores = self.box.sizes, profile.cores.vector_cores
        block = profile.buffers.block_bytes // self.kind.itemsize
        self.ragged = bool(sizes[-1] % block) and prod(sizes[:-1]) > 1
        # Code for one shape launches a block for each core and splits the first axis; parts are
        # whole blocks of 32 bytes, and the last cores may have none.
        launched = shared = cores
        if leading > 1:
            even, least = ceil(leading / cores), ceil(block * leading / dst.numel)
            shared = ceil(leading / max(even, least))
            launched = min(leading, cores) if even >= least else shared
        self.depth = 1 if self.ragged else 2
        share = ceil(dst.numel / min(shared, cores))
        room = profile.buffers.ub_bytes // (2 * self.depth) // self.kind.itemsize - block
        limit = min(room, max(_TILES_PER_CORE * block, share // _TILES_PER_CORE))
        if not any(src.steps):  # one number: one fill makes a tile of any length
            limit = room
        extent = whole_axes(sizes, limit, shared, multiple=block, padded=block)
        self.tiling = BoxTiling.of(self.box, extent, min(shared, cores))
        self.division = self.tiling.grid
        self.block_dim = max(min(launched, cores), self.tiling.grid.used_cores)

    def process(self, core: Core) -> None:
        nbytes = footprint_bytes(self.kind, self.tiling.extent, core.block_bytes)
        self.in_que = TQue(TPosition.VECIN, self.depth, "in")
        out_que = TQue(TPosition.VECOUT, self.depth, "spread")
        core.pipe.init_buffer(self.in_que, self.depth, nbytes)
        core.pipe.init_buffer(out_que, self.depth, nbytes)
        for tile in self.tiling.tiles(core):
            out = out_que.alloc_tensor(self.kind, *tile.shape)
            x = self._spread(core, tile, out)
            self.in_que.free_tensor(x)
            out_que.copy_out(by_rows(tile.dst, core), out)

    def _spread(self, core: Core, tile: BoxTile, out: LocalTensor) -> LocalTensor:
        source, rows = by_rows(tile.src, core), prod(tile.shape[:-1])
        if source.numel == 1:
            x = self.in_que.copy_in(source, (1,))
            core.duplicate(out, core.get_value(x))
            return x
        if source.shape[-1] < tile.shape[-1]:
            x = self.in_que.copy_in(source, source.shape[:-1])
            spread_column(core, out, x)
            return x
        x = self.in_que.copy_in(source)
        width = tile.shape[-1]

        def row_by_row() -> None:
            own = np.arange(source.numel // width).reshape(source.shape[:-1])
            own = np.broadcast_to(own, tile.shape[:-1]).reshape(-1)
            wide, narrow = out.view(rows, width), x.view(-(-x.numel // width), width)
            for row in core.loop(rows):
                core.move_bursts(out, x, 1, ceil(width * self.kind.itemsize / core.block_bytes))
                core.arrange(wide[row], narrow[int(own[row.first])])

        core.separately(
            row_by_row,
            lambda: core.arrange(out, x, how=lambda values: _spread_to(values, source, out)),
        )
        return x


def _spread_to(values: NDArray[Any], source: GmSlice, out: LocalTensor) -> NDArray[Any]:
    stack = values.shape[: values.ndim - len(source.shape)]
    return np.broadcast_to(values, (*stack, *out.shape))


class BroadcastTo(StridedCopy):
    """A tensor repeated along axes of one element."""

    op_type = "BroadcastTo"
    generated = broadcasts = True

    def _most_cores(self) -> int:
        """As for operands that repeat along axes."""
        cores, block = self.profile.cores.vector_cores, self.profile.buffers.block_bytes
        return broadcast_split(self.box.sizes, self.itemsize, cores, block).block_dim

    @classmethod
    def from_task(cls, task: Task) -> tuple[Kernel, ...]:
        x, out = task.present(1, 1)
        profile, spread = task.profile, SpreadRows.called(task.op_type)
        src, dst = repeated(task.op_type, x, out)
        if not profile.software.compiled_for_shape:
            return (cls(profile, src, dst),)
        if x.numel == 1:  # the schedule for one shape uses two cores for little
            cores = 2 if dst.nbytes <= profile.buffers.ub_bytes else profile.cores.vector_cores
            one = replace(src, shape=(dst.numel,), strides=(0,))
            return (spread(profile, one, dst.view(dst.numel), cores),)
        leading = next((size for size in out.shape if size > 1), 1)
        return (spread(profile, src, dst, leading),)


def repeated(op_type: str, x: GlobalTensor, out: GlobalTensor) -> tuple[GlobalTensor, GlobalTensor]:
    """Both tensors in a shape where ``x`` is repeated along axes of stride zero."""
    missing = len(out.shape) - len(x.shape)
    if missing < 0:
        raise RefusedTaskError(op_type, f"{x.shape} doesn't become {out.shape}")
    before = (1,) * missing + x.shape
    own = (0,) * missing + x.steps
    shape: list[int] = []
    steps: list[int] = []
    for size, step, wanted in zip(before, own, out.shape, strict=True):
        if size == 0 or wanted % size:
            raise RefusedTaskError(op_type, f"{x.shape} doesn't become {out.shape}")
        if wanted > size:
            shape.append(wanted // size)
            steps.append(0)
        if size > 1 or wanted == 1:
            shape.append(size)
            steps.append(step if size > 1 else 0)
    src = replace(x, shape=tuple(shape), strides=tuple(steps))
    return src, out.view(*shape)
