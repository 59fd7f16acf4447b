"""Rows of float32 to int8, one after the other, as kernels do that have the row in UB anyway."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.ascendc.queues import TBuf
from npusim.ascendc.rounding import RoundMode
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import FLOAT, FLOAT16, INT32

if TYPE_CHECKING:
    from npusim.ascendc.core import Core
    from npusim.ascendc.tensors import LocalTensor

LARGEST = 127.0  # of int8
_BLOCK = 32
_ELEMENT_BYTES = FLOAT.itemsize + INT32.itemsize + FLOAT16.itemsize


class RowQuantiser:
    """Scratch memory for rows of up to ``width`` elements; magnitudes may lie ``elsewhere``."""

    def __init__(self, core: Core, width: int, *, elsewhere: bool = False) -> None:
        self._core, self._width = core, width
        names = ("magnitudes", "whole", "halves", "largest")
        self._magnitudes, self._whole, self._halves, self._largest = map(TBuf, names)
        kinds = [(self._whole, INT32), (self._halves, FLOAT16)]
        if not elsewhere:
            kinds.insert(0, (self._magnitudes, FLOAT))
        for buffer, kind in kinds:
            core.pipe.init_buffer(buffer, 1, width * kind.itemsize)
        core.pipe.init_buffer(self._largest, 1, core.block_bytes)

    @staticmethod
    def nbytes(width: int, *, elsewhere: bool = False) -> int:
        """Bytes of UB that it takes."""
        each = _ELEMENT_BYTES - elsewhere * FLOAT.itemsize
        return round_up(width, _BLOCK) * each + _BLOCK

    def by_largest(
        self,
        row: LocalTensor,
        out: LocalTensor,
        scale: LocalTensor,
        magnitudes: LocalTensor | None = None,
    ) -> None:
        """out, scale = the row with 127 for its largest element, and what one step of it is."""
        core = self._core
        if magnitudes is None:
            magnitudes = self._magnitudes.get(FLOAT, row.numel)
        magnitudes = core.abs(magnitudes, row)
        largest = core.reduce_max(self._largest.get(FLOAT, 1), magnitudes)
        step = core.get_value(largest) / LARGEST
        core.set_value(scale.view(1), 0, step)
        core.muls(row, row, 1.0 / step)
        self.rounded(row, out)

    def rounded(self, row: LocalTensor, out: LocalTensor) -> None:
        """out = the nearest whole numbers, by way of int32 and float16."""
        core, count = self._core, row.numel
        whole = core.cast(self._whole.get(INT32, count), row, RoundMode.CAST_RINT)
        halves = core.cast(self._halves.get(FLOAT16, count), whole)
        core.cast(out, halves, RoundMode.CAST_TRUNC)
