"""Rows of tokens as int8 on their way to their experts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.ascendc import TBuf, TPosition, TQue
from npusim.library.row_quantiser import RowQuantiser
from npusim.values.dtypes import FLOAT, INT8

if TYPE_CHECKING:
    from npusim.ascendc import Core, GlobalTensor, LocalTensor
    from npusim.ascendc.gm_slices import GmSlice
    from npusim.values.dtypes import DType


Scale = tuple["GlobalTensor | float", "GlobalTensor | float"]  # and an offset


class Quantising:
    """Every row by its largest element, or all by a scale and an offset (``by``)."""

    def __init__(self, core: Core, kind: DType, width: int, by: Scale | None) -> None:
        self._core, self._kind, self._by = core, kind, by
        self._in = TQue(TPosition.VECIN, 1, "row")
        self._out, self._scale = (TQue(TPosition.VECOUT, 1, name) for name in ("int8", "scale"))
        self._wide = TBuf("wide")
        core.pipe.init_buffer(self._in, 1, width * kind.itemsize)
        core.pipe.init_buffer(self._wide, 1, width * FLOAT.itemsize)
        core.pipe.init_buffer(self._out, 1, width)
        core.pipe.init_buffer(self._scale, 1, FLOAT.itemsize)
        self._quantiser = RowQuantiser(core, width)

    @staticmethod
    def nbytes(kind: DType, width: int) -> int:
        """Bytes of UB that it takes."""
        return RowQuantiser.nbytes(width) + (width + 32) * (kind.itemsize + FLOAT.itemsize + 1)

    def row(self, source: GmSlice) -> tuple[LocalTensor, LocalTensor]:
        """A row and its scale, ready to be stored."""
        core = self._core
        given = self._in.copy_in(source)
        wide = self._wide.get(FLOAT, given.numel)
        if self._kind is FLOAT:
            core.move(wide, given)
        else:
            core.cast(wide, given)
        self._in.free_tensor(given)
        out, scale = self._out.alloc_tensor(INT8, wide.numel), self._scale.alloc_tensor(FLOAT, 1)
        if self._by is None:
            self._quantiser.by_largest(wide, out, scale)
        else:
            factor, offset = (
                each if isinstance(each, float) else core.load_scalar(each.span(0, 1))
                for each in self._by
            )
            core.muls(wide, wide, factor)
            core.adds(wide, wide, offset)
            self._quantiser.rounded(wide, out)
            core.duplicate(scale, 0.0)
        for queue, tile in ((self._out, out), (self._scale, scale)):
            queue.enque(tile)
            queue.deque(tile)
        self._ready = out, scale
        return self._ready

    def free(self) -> None:
        """The row has been stored."""
        for queue, tile in zip((self._out, self._scale), self._ready, strict=True):
            queue.free_tensor(tile)
