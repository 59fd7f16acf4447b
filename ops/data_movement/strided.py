"""Copies between strided views: planes of rows and columns, in the order of the destination.

A plane whose rows are contiguous on both sides is copied row by row. Where the source runs along the other axis
(a transposition), tiles are read along the source's contiguous axis and turned in UB. Anything more scattered moves
element by element, each in a block of its own.
"""

from __future__ import annotations

from collections.abc import Hashable

from npusim.dialect import Core, GlobalTensor, Kernel, TPosition, TQue
from npusim.dialect.broadcasting import broadcast
from npusim.dialect.elementwise import PlaneTiling
from npusim.engine.program import Pipe
from npusim.hardware.profile import Profile


class StridedCopy(Kernel):
    """dst = src, both of one shape (src may broadcast), either of them strided."""

    def __init__(self, profile: Profile, src: GlobalTensor, dst: GlobalTensor) -> None:
        self.reads, self.writes = (src,), (dst,)
        self.dst, self.src = dst, src
        self.plane = broadcast(dst.shape, (dst, src))
        target, source = self.plane.operands
        # A tile is turned in UB when source and destination run along different axes.
        self.turns = (
            source.steps[-1] != target.steps[-1] and min(source.steps[-1], target.steps[-1]) > 0
        )
        self.planes = PlaneTiling.of(
            profile, self.plane, 2 if self.turns else 1, dst.dtype.itemsize
        )
        self.block_dim = self.planes.block_dim

    def work(self, block_idx: int) -> Hashable:
        return self.planes.work(block_idx)

    def process(self, core: Core) -> None:
        nbytes = self.planes.footprint * self.dst.dtype.itemsize
        in_que = TQue(
            TPosition.VECIN,
            self.buffer_num,
            "in",
            consumer=Pipe.VECTOR if self.turns else Pipe.MTE3,
        )
        core.pipe.init_buffer(in_que, self.buffer_num, nbytes)
        out_que = TQue(TPosition.VECOUT, self.buffer_num, "turned")
        if self.turns:
            core.pipe.init_buffer(out_que, self.buffer_num, nbytes)
        for tile in self.planes.tiles(core):
            source = tile.sources[0]
            if source is None:
                source = self.src.window(((0, 1),), tile.shape, (0,) * len(tile.shape))
            x = in_que.copy_in(source, tile.shape)
            if not self.turns:
                core.copy_runs(tile.target, x)
                in_que.free_tensor(x)
                continue
            turned_tile = core.transpose_block(out_que.alloc_tensor(x.dtype, *tile.shape), x)
            in_que.free_tensor(x)
            out_que.copy_out(tile.target, turned_tile)


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
