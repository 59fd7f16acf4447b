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
from npusim.ascendc.rounding import RoundMode
from npusim.schedules.tile_grid import Grid
from npusim.values.dtypes import FLOAT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from npusim.ascendc import LocalTensor
    from npusim.hardware.profile import Profile

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
        room = profile.buffers.ub_bytes // (2 * _BUFFERS * self.width * FLOAT.itemsize)
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
        for queue in (ins, outs, *lines):
            core.pipe.init_buffer(queue, 1, rows * width * kind.itemsize)
        for buffer in buffers:
            core.pipe.init_buffer(buffer, 1, rows * width * FLOAT.itemsize)
        for piece in self.grid.pieces(core):
            (batch, beside, first), count = piece.starts, piece.shape[-1]
            steps = (self.x.head, self.x.token) if self.by_heads else (self.x.token, self.x.head)
            places = (
                (self.x.start, 1),
                (batch, self.x.batch),
                (beside, steps[1]),
                (first, steps[0]),
            )
            source = self.x.tensor.window(places, (count, width), (steps[0], 1))
            x = ins.copy_in(source.by_rows() if count > 1 else source)
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
            steps = (self.y.head, self.y.token) if self.by_heads else (self.y.token, self.y.head)
            places = (
                (self.y.start, 1),
                (batch, self.y.batch),
                (beside, steps[1]),
                (first, steps[0]),
            )
            target = self.y.tensor.window(places, (count, width), (steps[0], 1))
            outs.copy_out(target.by_rows() if count > 1 else target, y)


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
