"""Elements each repeated in place: RepeatInterleaveV2 along a last axis.

Rows of a single element are less than what the MTE moves, so that the scalar unit loads each of
them and stores it as often as it is wanted, in loops that are unrolled as those of other kernels
that move elements are (ops-nn, scatter_elements_v2, eight at a time).
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

import numpy as np

from npusim.ascendc import Core, GlobalTensor, Kernel, TPosition, TQue
from npusim.engine.program import Pipe
from npusim.schedules.tile_grid import Grid
from npusim.values.arithmetic import round_up
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from npusim.hardware.profile import Profile

_BUFFERS = 2
_MOST_TILE = 4096  # elements
_UNROLLED = 8  # elements in a turn of the loop


class RepeatElements(Kernel):
    """y [times * n] = each element of x [n] ``times`` times in a row."""

    op_type = "RepeatInterleaveV2"

    def __init__(self, profile: Profile, x: GlobalTensor, y: GlobalTensor) -> None:
        self.times, rest = divmod(y.numel, max(1, x.numel))
        if rest or x.dtype is not y.dtype:
            raise KernelError(self.op_type, f"{x.numel} elements of {x.dtype} into {y.numel}")
        self.reads, self.writes = (x,), (y,)
        self.x, self.y = x.view(x.numel), y.view(y.numel)
        block = profile.buffers.block_bytes
        room = profile.buffers.ub_bytes // (_BUFFERS * (1 + self.times) * x.dtype.itemsize)
        share = round_up(ceil(x.numel / profile.cores.vector_cores), block)
        tile = min(share, max(block, min(_MOST_TILE, room) // block * block))
        self.division = self.grid = Grid((x.numel,), (tile,), profile.cores.vector_cores)
        self.block_dim = self.grid.used_cores

    def process(self, core: Core) -> None:
        """Tile by tile: every element is loaded once and stored ``times`` times."""
        tile, size = self.grid.extent[0], self.x.dtype.itemsize
        taken = TQue(TPosition.VECIN, _BUFFERS, "x", consumer=Pipe.SCALAR)
        given = TQue(TPosition.VECOUT, _BUFFERS, "y", producer=Pipe.SCALAR)
        core.pipe.init_buffer(taken, _BUFFERS, tile * size)
        core.pipe.init_buffer(given, _BUFFERS, tile * self.times * size)
        for piece in self.grid.pieces(core):
            (first,), (count,) = piece.starts, piece.shape
            x = taken.copy_in(self.x.window(((first, 1),), (count,), (1,)))
            y = given.alloc_tensor(self.y.dtype, count * self.times)
            core.scalar_loop(ceil(count / _UNROLLED))
            core.scalar_alu("address", count)
            core.move_elements(y, x, count)
            core.emit_scalar("st_ub", stores=count * (self.times - 1))
            core.arrange(y, x, how=lambda values: np.repeat(values, self.times, axis=-1))
            taken.free_tensor(x)
            target = self.y.window(((first, self.times),), (count * self.times,), (1,))
            given.copy_out(target, y)
