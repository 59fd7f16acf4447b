"""Vector intrinsics: elementwise work on tiles, checked against the chip's dtype lists."""

from __future__ import annotations

from enum import StrEnum
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.ascendc import rounding
from npusim.ascendc.chains import COPY
from npusim.ascendc.intrinsics.elementwise import Elementwise, Number, number_of
from npusim.ascendc.passes import Work
from npusim.ascendc.rounding import RoundMode
from npusim.ascendc.tensors import LocalTensor
from npusim.engine.program import Pipe
from npusim.values.dtypes import FLOAT
from npusim.values.errors import UnsupportedIntrinsicError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.values.dtypes import DType


class CmpMode(StrEnum):
    """Comparisons of Ascend C."""

    LT = "lt"
    GT = "gt"
    EQ = "eq"
    LE = "le"
    GE = "ge"
    NE = "ne"


_COMPARE: dict[CmpMode, np.ufunc] = {
    CmpMode.LT: np.less,
    CmpMode.GT: np.greater,
    CmpMode.EQ: np.equal,
    CmpMode.LE: np.less_equal,
    CmpMode.GE: np.greater_equal,
    CmpMode.NE: np.not_equal,
}


def _filled(number: NDArray[Any], out: NDArray[Any]) -> None:
    np.copyto(out, number, casting="unsafe")


def _compared(a: NDArray[Any], b: NDArray[Any], out: NDArray[Any], *, comparison: np.ufunc) -> None:
    np.copyto(out, comparison(a, b), casting="unsafe")


def _selected(mask: NDArray[Any], a: NDArray[Any], b: NDArray[Any], out: NDArray[Any]) -> None:
    out[...] = np.where(mask != 0, a, b)


_DUPLICATE = Work("duplicate", _filled, settles=False)
_SELECT = Work("select", _selected, settles=False)
_COMPARISONS = {
    mode: Work(f"compare {mode}", partial(_compared, comparison=comparison), settles=False)
    for mode, comparison in _COMPARE.items()
}


@cache
def _conversion(source: DType, target: DType, mode: RoundMode) -> Work:
    """What ``cast`` computes."""

    def whole(values: NDArray[Any], out: NDArray[Any]) -> None:
        out[...] = rounding.to_whole(values, mode)

    def converted(values: NDArray[Any], out: NDArray[Any]) -> None:
        rounding.convert(values, out, target, mode)

    to_whole = source is target and mode is not RoundMode.CAST_NONE
    return Work(
        f"{source.intrinsic} to {target.intrinsic} {mode}", whole if to_whole else converted
    )


class Vector(Elementwise):
    """The part of :class:`npusim.ascendc.core.Core` that moves, fills, compares, converts."""

    def copy(self, dst: LocalTensor, src: LocalTensor) -> LocalTensor:
        """Copy inside UB, repeating rows and columns of one (vadds with zero, or a move)."""
        self.same_dtypes("copy", dst, src)
        adds = self.profile.supports_vector("vadds", dst.dtype.intrinsic)
        self.issue("vadds" if adds else "ub2ub", dst, (src,))
        return self._copied(dst, src)

    def move(self, dst: LocalTensor, src: LocalTensor) -> LocalTensor:
        """dst = src inside UB, whatever the dtype (copy_ubuf_to_ubuf)."""
        self.issue("ub2ub", dst, (src,))
        return self._copied(dst, src)

    def duplicate(self, dst: LocalTensor, scalar: Number, *, apart_bytes: int = 0) -> LocalTensor:
        """Fill dst with a number (vector_dup).

        ``apart_bytes`` is how far apart the blocks of a repeat are stored, if they are.
        """
        if apart_bytes:
            kind, size = dst.dtype.intrinsic, dst.dtype.itemsize
            waited = self.costs.line_cycles(dst.numel * size // self.block_bytes, apart_bytes)
            own = self.costs.vector("vector_dup", kind, size, dst.numel)
            self.slowed = max(1.0, waited / own)
        self.issue("vector_dup", dst, ())
        self.slowed = 1.0
        if self.numerics:
            dst.becomes(_DUPLICATE, number_of(scalar, self.depth, dst))
        self.computed("duplicate", dst)
        return dst

    def broadcast_column(self, column: LocalTensor) -> LocalTensor:
        """A tile (rows,) as a column (rows, 1) that instructions repeat along rows (vbrcb)."""
        self.issue("vbrcb", column, (column,))
        spread = column.same_place(*column.shape, 1, depth=column.depth)
        if self.numerics:
            spread.alias(column.values(column.depth)[..., None])
        return spread

    def compare(
        self,
        dst: LocalTensor,
        src0: LocalTensor,
        src1: LocalTensor | float,
        mode: CmpMode,
        *,
        packed: bool = False,
    ) -> LocalTensor:
        """dst = src0 <mode> src1 as a mask of UINT8 zeros and ones, or ``packed`` as bits (vcmpv).

        The first of eight bits is the lowest. With a number it is CompareScalar (vcmpvs).
        """
        if not isinstance(src1, LocalTensor):
            return self._compare_number(dst, src0, src1, mode, packed=packed)
        self.require(f"vcmpv_{mode}", src0, src1)
        self.issue(f"vcmpv_{mode}", src0, (src0, src1), writes=dst)
        if self.numerics and packed:
            depth = self.depth
            true = _COMPARE[mode](src0.values(depth), src1.values(depth))
            dst.target(depth)[...] = np.packbits(true, axis=-1, bitorder="little")
        elif self.numerics:
            dst.becomes(_COMPARISONS[mode], src0, src1)
        self.computed("compare", src0)
        return dst

    def _compare_number(
        self, dst: LocalTensor, src: LocalTensor, number: float, mode: CmpMode, *, packed: bool
    ) -> LocalTensor:
        self.require(f"vcmpvs_{mode}", src)
        self.issue(f"vcmpvs_{mode}", src, (src,), writes=dst)
        if self.numerics and packed:
            depth = self.depth
            true = _COMPARE[mode](src.values(depth), number_of(number, depth, src))
            dst.target(depth)[...] = np.packbits(true, axis=-1, bitorder="little")
        elif self.numerics:
            dst.becomes(_COMPARISONS[mode], src, number_of(number, self.depth, src))
        self.computed("compare", src)
        return dst

    def compare64(
        self, dst: LocalTensor, src0: LocalTensor, src1: LocalTensor, mode: CmpMode
    ) -> LocalTensor:
        """dst = src0 <mode> src1, of 64 bits, as a mask of UINT8 zeros and ones.

        The operator compiler writes several instructions for it, as for a difference.
        """
        self.require("vcmp64", src0, src1)
        self.issue("vcmp64", src0, (src0, src1), writes=dst)
        if self.numerics:
            dst.becomes(_COMPARISONS[mode], src0, src1)
        self.computed("compare", src0)
        return dst

    def set_cmpmask(self, bits: LocalTensor) -> None:
        """Load the mask register, one bit for each element of a repeat, from UB (set_cmpmask).

        What selects by it waits for the register, not for a result in UB: the load pays the
        pipeline's depth, the selections of a loop don't depend on each other.
        """
        self.emit_vector("set_cmpmask", bits.dtype, 1, chained=True, detail="mask")
        self.set_register()

    def select(
        self,
        dst: LocalTensor,
        mask: LocalTensor,
        src0: LocalTensor,
        src1: LocalTensor | float,
        *,
        packed: bool = False,
    ) -> LocalTensor:
        """dst = src0 where the mask is set, else src1 (vsel); a ``packed`` mask has a bit each."""
        others = (src0, src1) if isinstance(src1, LocalTensor) else (src0,)
        self.require("vsel", dst, *others)
        self.issue("vsel", dst, (mask, *others))
        if self.numerics:
            depth = self.depth
            kept: LocalTensor | NDArray[Any] = mask
            if packed:
                bits = mask.values(depth)
                count = dst.row_elements if len(mask.shape) > 1 else dst.numel
                kept = np.unpackbits(bits, axis=-1, count=count, bitorder="little")
            other = src1 if isinstance(src1, LocalTensor) else number_of(src1, depth, src0)
            dst.becomes(_SELECT, kept, src0, other)
        self.computed("select", dst)
        return dst

    def select_lanes(
        self, dst: LocalTensor, mask: LocalTensor, src0: LocalTensor, src1: LocalTensor
    ) -> LocalTensor:
        """dst = src0 where the mask is set, else src1, whatever the lanes of four bytes stand for.

        The instruction is that of float32 (vsel): it moves bits. 64 bits are two lanes.
        """
        self.same_dtypes("vsel", dst, src0, src1)
        *rows, elements = dst.shape or (1,)
        lanes = dst.same_place(*rows, elements * dst.dtype.itemsize // 4, dtype=FLOAT)
        self.require("vsel", lanes)
        self.issue("vsel", lanes, (mask, src0, src1), writes=dst)
        if self.numerics:
            dst.becomes(_SELECT, mask, src0, src1)
        self.computed("select", dst)
        return dst

    def cast(
        self, dst: LocalTensor, src: LocalTensor, mode: RoundMode = RoundMode.CAST_NONE
    ) -> LocalTensor:
        """dst = src in dst's dtype (vconv); CAST_NONE rounds to nearest even where it must.

        From a float type to itself the other modes round to whole numbers (Ceil, Floor, ...).
        """
        source, target = src.dtype.intrinsic, dst.dtype.intrinsic
        if not self.profile.supports_convert(source, target):
            raise UnsupportedIntrinsicError(
                self.kernel_name, "vconv", f"{source}->{target}", self.profile.name, ()
            )
        if self.recording:
            wide = max(src.dtype.itemsize, dst.dtype.itemsize)
            form, chained = f"{source}->{target}", self.reads_last(src)
            cycles = self.costs.vector(
                "vconv", form, wide, src.row_elements, rows=src.rows, chained=chained
            )
            self.recorder.emit(Pipe.VECTOR, "vconv", cycles, detail=f"{form} {mode}")
        self.wrote(dst)
        if self.numerics:
            dst.becomes(_conversion(src.dtype, dst.dtype, mode), src)
        self.computed("cast", dst)
        return dst

    def _copied(self, dst: LocalTensor, src: LocalTensor) -> LocalTensor:
        if self.numerics:
            dst.becomes(COPY, src)
        self.computed("copy", dst)
        return dst
