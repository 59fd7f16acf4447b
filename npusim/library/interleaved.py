"""Rotations of rows by pairs of neighbours, which are laid apart and turned by angles.

Elements at even places come first and those at odd places behind them; then the halves are turned.
Heads of a token lie below each other in UB, or tokens where there is one head. Source:
ops-transformer posembedding/interleave_rope, attention/mla_prolog
(service_rotary_position_embedding).
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from npusim.ascendc import Core, GlobalTensor, Kernel, TBuf, TPosition, TQue
from npusim.ascendc.queues import footprint_bytes
from npusim.ascendc.rounding import RoundMode
from npusim.schedules.tile_grid import Grid
from npusim.values.dtypes import FLOAT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from npusim.ascendc import GmSlice, LocalTensor
    from npusim.hardware.profile import Profile
    from npusim.schedules.tile_grid import Piece

_BUFFERS = 5  # of a tile in float32
_MOST_ROWS = 128


class Rows(NamedTuple):
    """Rows of a tensor: where the first starts, elements to the next batch, token and head."""

    tensor: GlobalTensor
    start: int
    batch: int
    token: int
    head: int


class Interleaved(Kernel):
    """y = x' * cos + turned(x') * sin for rows of batches, tokens and heads."""

    op_type = "InterleaveRope"

    def __init__(
        self,
        profile: Profile,
        x: Rows,
        cos: GlobalTensor,
        sin: GlobalTensor,
        y: Rows,
        sizes: tuple[int, int, int],
    ) -> None:
        self.x, self.y, self.width = x, y, cos.shape[-1]
        self.angles = cos.view(cos.numel), sin.view(sin.numel)
        self.reads, self.writes = (x.tensor, cos, sin), (y.tensor,)
        batches, self.tokens, heads = sizes
        self.by_heads = heads > 1
        down, beside = (heads, self.tokens) if self.by_heads else (self.tokens, 1)
        cores = profile.cores.vector_cores
        padded = footprint_bytes(FLOAT, (self.width,), profile.buffers.block_bytes)
        room = profile.buffers.ub_bytes // (2 * _BUFFERS * padded)
        share = ceil(down / max(1, cores // max(1, batches * beside)))
        tile = max(1, min(room, _MOST_ROWS, share))
        self.division = self.grid = Grid((batches, beside, down), (1, 1, tile), cores)
        self.block_dim = self.grid.used_cores

    def process(self, core: Core) -> None:
        """Tile by tile."""
        rows, width, kind = self.grid.extent[-1], self.width, self.x.tensor.dtype
        ins, outs = TQue(TPosition.VECIN, 1, "x"), TQue(TPosition.VECOUT, 1, "y")
        lines = [TQue(TPosition.VECIN, 1, name) for name in ("cos", "sin")]
        buffers = [TBuf(name) for name in ("apart", "turned", "cos_wide", "sin_wide")]
        narrow, wide = (
            footprint_bytes(each, (rows, width), core.block_bytes) for each in (kind, FLOAT)
        )
        for queue in (ins, outs, *lines):
            core.pipe.init_buffer(queue, 1, narrow)
        for buffer in buffers:
            core.pipe.init_buffer(buffer, 1, wide)
        for piece in self.grid.pieces(core):
            (batch, beside, first), count = piece.starts, piece.shape[-1]
            x = ins.copy_in(self._heads(self.x, piece))
            line = 1 if self.by_heads else count
            token = beside if self.by_heads else first
            where = ((batch, self.tokens * width), (token, width))
            angles = [
                queue.copy_in(each.window(where, (line, width), (width, 1)))
                for queue, each in zip(lines, self.angles, strict=True)
            ]
            y = outs.alloc_tensor(kind, count, width)
            found = turn(core, x, angles, buffers)
            if kind is FLOAT:
                core.move(y, found)
            else:
                core.cast(y, found, RoundMode.CAST_RINT)
            ins.free_tensor(x)
            for queue, tile in zip(lines, angles, strict=True):
                queue.free_tensor(tile)
            outs.copy_out(self._heads(self.y, piece), y)

    def _heads(self, rows: Rows, piece: Piece) -> GmSlice:
        """The rows of a tile: heads of a token, or tokens of a head."""
        (batch, beside, first), count = piece.starts, piece.shape[-1]
        down, across = (rows.head, rows.token) if self.by_heads else (rows.token, rows.head)
        places = ((rows.start, 1), (batch, rows.batch), (beside, across), (first, down))
        found = rows.tensor.window(places, (count, self.width), (down, 1))
        return found.by_rows() if count > 1 else found


def turn(
    core: Core, x: LocalTensor, angles: Sequence[LocalTensor], buffers: Sequence[TBuf]
) -> LocalTensor:
    """Halves of even and odd places, times cosines, and the other way around times sines.

    ``x`` [rows, width], cosines and sines alike or one row; four buffers of float32, of which the
    first has the result.
    """
    apart, turned = (buffer.get(FLOAT, *x.shape) for buffer in buffers[:2])
    for _ in range(2):
        core.record_vector("vreducev2", apart, x.numel)
    core.record_vector("vconv", apart, x.numel)
    core.arrange(apart, x, how=_apart)
    core.wrote(apart)
    core.record_vector("vmuls", turned, x.numel // 2)
    core.record_vector("vadds", turned, x.numel // 2)
    core.arrange(turned, apart, how=_turned)
    core.wrote(turned)
    cos, sin = (
        each if each.dtype is FLOAT else core.cast(buffer.get(FLOAT, *each.shape), each)
        for each, buffer in zip(angles, buffers[2:], strict=True)
    )
    core.mul(apart, apart, cos)
    core.mul(turned, turned, sin)
    return core.add(apart, apart, turned)


def _apart(values: NDArray[np.floating]) -> NDArray[np.floating]:
    wide = values.astype(np.float32)
    return np.concatenate((wide[..., ::2], wide[..., 1::2]), -1)


def _turned(values: NDArray[np.floating]) -> NDArray[np.floating]:
    half = values.shape[-1] // 2
    return np.concatenate((-values[..., half:], values[..., :half]), -1)
