"""Copies between strided views: planes of rows and columns, in the order of the destination.

A plane whose rows are contiguous on both sides is copied row by row. Where the source runs along the other axis
(a transposition), tiles are read along the source's contiguous axis and turned in UB. Anything more scattered moves
element by element, each in a block of its own.
"""

from __future__ import annotations

from collections.abc import Hashable

from npusim.dialect import Core, GlobalTensor, GmSlice, Kernel, LocalTensor, TPosition, TQue
from npusim.dialect.broadcasting import broadcast
from npusim.dialect.elementwise import PlaneTiling, Tile
from npusim.engine.program import Pipe
from npusim.hardware.profile import Profile


class StridedCopy(Kernel):
    """dst = src, both of one shape (src may broadcast), either of them strided."""

    def __init__(self, profile: Profile, src: GlobalTensor, dst: GlobalTensor) -> None:
        self.reads, self.writes = (src,), (dst,)
        self.dst, self.src = dst, src
        self.plane = broadcast(dst.shape, (dst, src))
        target, source = self.plane.operands
        # A tile is turned in UB when source and destination run along different axes, and spread
        # where the source has one element for a row or a column.
        columns = target.steps[-1], source.steps[-1]
        self.turns = columns[0] != columns[1] and min(columns) > 0
        self.spreads = not all(source.steps[-2:]) and self.plane.rows * self.plane.columns > 1
        self.through_vector = self.turns or self.spreads
        slots = 2 if self.through_vector else 1
        self.planes = PlaneTiling.of(profile, self.plane, slots, dst.dtype.itemsize)
        self.block_dim = self.planes.block_dim

    def work(self, block_idx: int) -> Hashable:
        return self.planes.work(block_idx)

    def process(self, core: Core) -> None:
        nbytes = self.planes.footprint * self.dst.dtype.itemsize
        consumer = Pipe.VECTOR if self.through_vector else Pipe.MTE3
        in_que = TQue(TPosition.VECIN, self.buffer_num, "in", consumer=consumer)
        out_que = TQue(TPosition.VECOUT, self.buffer_num, "out")
        core.pipe.init_buffer(in_que, self.buffer_num, nbytes)
        if self.through_vector:
            core.pipe.init_buffer(out_que, self.buffer_num, nbytes)
        for tile in self.planes.tiles(core):
            if not self.through_vector:
                x = in_que.copy_in(self._source(tile))
                core.copy_runs(tile.target, x)
                in_que.free_tensor(x)
                continue
            out = out_que.alloc_tensor(self.dst.dtype, *tile.shape)
            if self.turns:
                x = in_que.copy_in(self._source(tile))
                core.transpose_block(out, x)
            else:
                x = self._spread(core, in_que, tile, out)
            in_que.free_tensor(x)
            out_que.copy_out(tile.target, out)

    def _source(self, tile: Tile) -> GmSlice:
        source = tile.sources[0]
        return source if source is not None else self.src.span(0, 1)

    def _spread(self, core: Core, in_que: TQue, tile: Tile, out: LocalTensor) -> LocalTensor:
        """Repeat a row, a column or a single element over the tile."""
        source = self._source(tile)
        if source.numel == 1:
            x = in_que.copy_in(source, (1,))
            core.duplicate(out, core.get_value(x))
        elif source.shape[-1] == 1:
            x = in_que.copy_in(source, (source.shape[0],))
            core.copy(out, core.broadcast_column(x))
        else:
            x = in_que.copy_in(source)
            core.copy(out, x)
        return x


class AsStrided(StridedCopy):
    """A view with any strides made contiguous."""

    op_type = "AsStrided"


class BroadcastTo(StridedCopy):
    """A tensor repeated along axes of stride zero."""

    op_type = "BroadcastTo"


class Slice(StridedCopy):
    """A part of a tensor made contiguous."""

    op_type = "Slice"


class StridedSlice(StridedCopy):
    """Every n-th element made contiguous."""

    op_type = "StridedSlice"


class Transpose(StridedCopy):
    """Axes in another order."""

    op_type = "Transpose"


class ViewCopy(StridedCopy):
    """A contiguous value written into a strided output."""

    op_type = "ViewCopy"
