"""Rows of tokens as they are sent to other chips: int8, with the scale of each behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.ascendc import TBuf, TPosition, TQue
from npusim.library.row_quantiser import RowQuantiser
from npusim.values.dtypes import FLOAT, INT8

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.ascendc import Core, GlobalTensor, LocalTensor
    from npusim.ascendc.gm_slices import GmSlice
    from npusim.ascendc.loops import Index
    from npusim.values.dtypes import DType


class Quantised:
    """Rows by their largest elements as int8, with the scale behind each, from a block on."""

    def __init__(self, core: Core, kind: DType, width: int, beside: int, columns: int, depth: int,
        *, smooth: bool) -> None:  # fmt: skip
        self._core, self._width, self._beside, self._columns = core, width, beside, columns
        self._in, self._out = (TQue(TPosition.VECIN, depth, "row"),
            TQue(TPosition.VECOUT, depth, "int8"))  # fmt: skip
        self._wide, self._scale = TBuf("wide"), TBuf("scale")
        core.pipe.init_buffer(self._in, depth, width * kind.itemsize)
        core.pipe.init_buffer(self._out, depth, columns)
        core.pipe.init_buffer(self._wide, 1, self._width * FLOAT.itemsize)
        core.pipe.init_buffer(self._scale, 1, FLOAT.itemsize)
        self._smooth_in = TQue(TPosition.VECIN, 1, "smooth")
        if smooth:
            core.pipe.init_buffer(self._smooth_in, 1, width * FLOAT.itemsize)
        self._quantiser = RowQuantiser(core, width)

    @staticmethod
    def nbytes(width: int) -> int:
        """Bytes of UB beside rows that come and go."""
        return RowQuantiser.nbytes(width) + width * FLOAT.itemsize

    def row(self, source: GmSlice, smooth: tuple[GlobalTensor, Index] | None) -> LocalTensor:
        """A row, ready to be stored."""
        core = self._core
        given = self._in.copy_in(source)
        wide = core.cast(self._wide.get(FLOAT, self._width), given)
        self._in.free_tensor(given)
        if smooth is not None:
            tensor, row = smooth
            factors = self._smooth_in.copy_in(
                tensor.window(((row, self._width),), (self._width,), (1,))
            )
            core.mul(wide, wide, factors)
            self._smooth_in.free_tensor(factors)
        out, scale = self._out.alloc_tensor(INT8, self._columns), self._scale.get(FLOAT, 1)
        self._quantiser.by_largest(wide, out[: self._width], scale)
        beside = out[self._beside : self._beside + FLOAT.itemsize]
        core.emit_scalar("st_ub", stores=1)
        core.filled(beside)
        core.arrange(beside, scale, how=_as_bytes)
        self._out.enque(out)
        return self._out.deque(out)

    def free(self, row: LocalTensor) -> None:
        """The row has been stored."""
        self._out.free_tensor(row)


def _as_bytes(values: NDArray[Any]) -> NDArray[np.int8]:
    return np.ascontiguousarray(values).view(np.int8)


def scale_of(values: NDArray[Any]) -> NDArray[np.float32]:
    """The scale behind a row."""
    return np.ascontiguousarray(values).astype(np.int8).view(np.float32)
