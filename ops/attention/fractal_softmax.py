"""Online softmax of scores that lie in UB as the cube leaves them: in blocks of 16 columns.

Instructions go through a block of columns at a time, whose rows are all there. What is kept of each
row, the largest score and the sum of weights, fills a block of 32 bytes; it is repeated to be as
wide as a block of columns, since these chips repeat no number along a row. Source: asc-devkit,
SoftmaxFlashV2 for scores in fractals (softmax_flashv2_nz_impl.h, softmax_common_nz_reduce.h).
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

import numpy as np

from npusim.ascendc import TBuf
from npusim.ops.attention.softmax import TINY
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import FLOAT
from npusim.values.formats import FRACTAL

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from numpy.typing import NDArray

    from npusim.ascendc import Core, LocalTensor

    Numbers = NDArray[Any]

_BLOCK = 8  # numbers in float32 that a block of 32 bytes has
_LARGEST, _SUM, _FACTOR, _PARTS = 0, 1, 3, 4  # what is kept; sums are those of two blocks of rows


class FractalSoftmax:
    """The softmax of one core for up to so many rows."""

    def __init__(self, core: Core, rows: int) -> None:
        self._core = core
        kept, self._spread = TBuf("kept"), TBuf("spread")
        core.pipe.init_buffer(kept, _PARTS, rows * _BLOCK * FLOAT.itemsize)
        core.pipe.init_buffer(self._spread, 2, rows * FRACTAL * FLOAT.itemsize)
        self._tiles = [kept.get(FLOAT, rows, _BLOCK, part=part) for part in range(_PARTS)]

    @staticmethod
    def bytes_of(rows: int) -> int:
        """What it takes of UB."""
        return (_PARTS * _BLOCK + 2 * FRACTAL) * rows * FLOAT.itemsize

    def weigh(self, x: LocalTensor, turn: int, *, first: bool) -> None:
        """Scores into weights, in place; sums go to one of two places by ``turn``."""
        rows = x.shape[0]
        largest, total, factor = (
            self._tiles[part][:rows] for part in (_LARGEST, _SUM + turn, _FACTOR)
        )
        found = self._wide(0, rows)
        self._fold("vmax", x, found, np.max)
        if first:
            self._keep(largest, found)
        else:
            self._small("vmax", found, largest, found, how=np.maximum)
            self._small("vsub", factor, largest, found, how=np.subtract)
            self._small("vexp", factor, factor, how=np.exp)
            self._keep(largest, found)
        self._repeat(found, largest)
        self._by_row("vsub", x, found, np.subtract)
        self._core.exp(x, x)
        self._fold("vadd", x, found, np.sum)
        if first:
            self._keep(total, found)
        else:
            self._small("vmul", total, total, factor, how=np.multiply)
            self._small("vadd", total, total, found, how=np.add)

    def shrink(self, x: LocalTensor) -> None:
        """X times what the last round's maxima scale it down by."""
        self._by_stat("vmul", x, self._tiles[_FACTOR][: x.shape[0]], np.multiply)

    def divide(self, x: LocalTensor, turn: int) -> None:
        """X by the sums of weights."""
        total = self._tiles[_SUM + turn][: x.shape[0]]
        self._by_stat("vdiv", x, total, lambda a, b: a / np.maximum(b, b.dtype.type(TINY)))

    def _by_stat(
        self, name: str, x: LocalTensor, stat: LocalTensor, how: Callable[..., Numbers]
    ) -> None:
        """An instruction on x and what is kept of its rows, in the dtype of x."""
        wide = self._wide(1, x.shape[0])
        self._repeat(wide, stat)
        if x.dtype is not FLOAT:
            narrow = self._spread.get(x.dtype, *wide.shape, part=1)
            wide = self._core.cast(narrow, wide)
        self._by_row(name, x, wide, how)

    def _by_row(
        self, name: str, x: LocalTensor, column: LocalTensor, how: Callable[..., Numbers]
    ) -> None:
        """An instruction on x and a number for each row, block of columns by block."""
        self._core.record_vector(name, x, _rows(x) * FRACTAL, rows=_blocks(x))
        self._core.arrange(x, x, column, how=lambda a, b: how(a, b[..., :1]))

    def _fold(
        self, name: str, x: LocalTensor, found: LocalTensor, how: Callable[..., Numbers]
    ) -> None:
        """A number for each row: block onto block, the halves of one, and what is left of it."""
        core, rows = self._core, _rows(x)
        found.check_write()
        core.record_vector("vmuls", found, rows * FRACTAL)
        for _ in range(_blocks(x) - 1):
            core.record_vector(name, found, rows * FRACTAL)
        core.record_vector(name, found, rows * _BLOCK)
        core.record_vector(f"vcg{name[1:]}", found, rows * _BLOCK)
        core.record_vector("vmuls", found, FRACTAL * _BLOCK, rows=rows // _BLOCK)
        core.turn_lines(found, found, rows // _BLOCK)
        core.arrange(found, x, how=lambda values: _repeated(how(values, axis=-1), FRACTAL))

    def _small(
        self, name: str, dst: LocalTensor, *sources: LocalTensor, how: Callable[..., Numbers]
    ) -> None:
        """One instruction on a number for each row."""
        self._core.record_vector(name, dst, _rows(dst) * _BLOCK)
        self._core.arrange(
            dst,
            *sources,
            how=lambda *each: _repeated(how(*(v[..., 0] for v in each)), dst.shape[1]),
        )

    def _keep(self, stat: LocalTensor, found: LocalTensor) -> None:
        """A block of each row out of what is as wide as a block of columns."""
        self._core.move_bursts(stat, found, stat.shape[0], 1)
        self._core.arrange(stat, found, how=lambda values: values[..., :_BLOCK])

    def _repeat(self, wide: LocalTensor, stat: LocalTensor) -> None:
        """As wide as a block of columns again: both halves of it."""
        for _ in range(FRACTAL // _BLOCK):
            self._core.move_bursts(wide, stat, stat.shape[0], 1, stride=FRACTAL // _BLOCK)
        self._core.arrange(wide, stat, how=lambda values: _repeated(values[..., 0], FRACTAL))

    def _wide(self, part: int, rows: int) -> LocalTensor:
        return self._spread.get(FLOAT, rows, FRACTAL, part=part)


def _rows(x: LocalTensor) -> int:
    """Rows of whole fractals."""
    return round_up(x.shape[0], FRACTAL)


def _blocks(x: LocalTensor) -> int:
    """Blocks of columns."""
    return ceil(x.shape[-1] / FRACTAL)


def _repeated(values: Numbers, width: int) -> Numbers:
    return np.repeat(values[..., None], width, -1)
