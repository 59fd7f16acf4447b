"""Whole numbers of 64 bits on chips whose vconv doesn't know them: halves are put in or left out.

The halves of a tile are turned into lines by vnchwconv, lines of upper halves are set to the signs
or dropped, and the lines are turned back. Source: the dtypes that Cast takes on an AI Core of these
chips (ops-math, math/cast/op_api); the schedule is an assumption, that of interleaved rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.ascendc import Core, GlobalTensor, Kernel, TPosition, TQue
from npusim.ascendc.queues import BUFFER_NUM
from npusim.schedules.rows.folds import planes, turn_planes
from npusim.schedules.rows.shares import RowShare

if TYPE_CHECKING:
    from npusim.ascendc.loops import Index
    from npusim.hardware.profile import Profile

_ELEMENTS = 256  # a multiple of them makes whole planes


class Halves(Kernel):
    """out = x, one of INT32 and the other of INT64; what doesn't fit loses its upper bits."""

    op_type = "Cast"
    generated = True

    def __init__(self, profile: Profile, x: GlobalTensor, out: GlobalTensor) -> None:
        self.reads, self.writes = (x,), (out,)
        self.x, self.out = x.view(x.numel), out.view(out.numel)
        each = BUFFER_NUM * (x.dtype.itemsize + out.dtype.itemsize)
        tile = profile.buffers.ub_bytes // each // _ELEMENTS * _ELEMENTS
        cores = profile.cores.vector_cores
        self.division = self.share = RowShare.of(x.numel, cores, tile, _ELEMENTS)
        self.block_dim = self.share.cores

    def process(self, core: Core) -> None:
        """Tile by tile."""
        tile = self.share.tile
        self.in_que = TQue(TPosition.VECIN, BUFFER_NUM, "x")
        self.out_que = TQue(TPosition.VECOUT, BUFFER_NUM, "y")
        core.pipe.init_buffer(self.in_que, BUFFER_NUM, tile * self.x.dtype.itemsize)
        core.pipe.init_buffer(self.out_que, BUFFER_NUM, tile * self.out.dtype.itemsize)
        for first, count in self.share.tiles(core):
            self._tile(core, first, count)

    def _tile(self, core: Core, first: Index, count: int) -> None:
        kind = self.out.dtype
        x = self.in_que.copy_in(self.x.span(first, count))
        out = self.out_que.alloc_tensor(kind, count)
        core.turn_lines(out, x, planes(count * x.dtype.itemsize))
        core.move_blocks(out, out, count * kind.itemsize)
        turn_planes(core, out, out, count)
        core.wrote(out)
        core.arrange(out, x, how=lambda values: values.astype(kind.numpy))
        self.in_que.free_tensor(x)
        self.out_que.copy_out(self.out.span(first, count), out)
