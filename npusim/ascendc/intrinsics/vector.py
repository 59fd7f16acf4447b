"""Vector intrinsics: elementwise work on tiles, checked against the chip's dtype lists."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.ascendc import rounding
from npusim.ascendc.issuer import Issuer
from npusim.ascendc.rounding import RoundMode
from npusim.ascendc.tensors import LocalTensor, Scalar
from npusim.engine.program import Pipe
from npusim.values.errors import KernelError, UnsupportedIntrinsicError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray


Number = float | Scalar


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


class Vector(Issuer):
    """The elementwise part of :class:`npusim.ascendc.core.Core`."""

    def add(self, dst: LocalTensor, src0: LocalTensor, src1: LocalTensor) -> LocalTensor:
        """dst = src0 + src1 (vadd)."""
        return self._binary("vadd", np.add, dst, src0, src1)

    def sub(self, dst: LocalTensor, src0: LocalTensor, src1: LocalTensor) -> LocalTensor:
        """dst = src0 - src1 (vsub)."""
        return self._binary("vsub", np.subtract, dst, src0, src1)

    def mul(self, dst: LocalTensor, src0: LocalTensor, src1: LocalTensor) -> LocalTensor:
        """dst = src0 * src1 (vmul)."""
        return self._binary("vmul", np.multiply, dst, src0, src1)

    def div(self, dst: LocalTensor, src0: LocalTensor, src1: LocalTensor) -> LocalTensor:
        """dst = src0 / src1 (vdiv)."""
        return self._binary("vdiv", np.divide, dst, src0, src1)

    def max(self, dst: LocalTensor, src0: LocalTensor, src1: LocalTensor) -> LocalTensor:
        """The larger of src0 and src1 (vmax)."""
        return self._binary("vmax", np.maximum, dst, src0, src1)

    def min(self, dst: LocalTensor, src0: LocalTensor, src1: LocalTensor) -> LocalTensor:
        """The smaller of src0 and src1 (vmin)."""
        return self._binary("vmin", np.minimum, dst, src0, src1)

    def adds(self, dst: LocalTensor, src: LocalTensor, scalar: Number) -> LocalTensor:
        """dst = src + scalar (vadds)."""
        return self._with_scalar("vadds", np.add, dst, src, scalar)

    def muls(self, dst: LocalTensor, src: LocalTensor, scalar: Number) -> LocalTensor:
        """dst = src * scalar (vmuls)."""
        return self._with_scalar("vmuls", np.multiply, dst, src, scalar)

    def maxs(self, dst: LocalTensor, src: LocalTensor, scalar: Number) -> LocalTensor:
        """dst = max(src, scalar) (vmaxs; on a chip without it a fill and vmax)."""
        return self._scalar_or_fill("vmaxs", np.maximum, dst, src, scalar)

    def mins(self, dst: LocalTensor, src: LocalTensor, scalar: Number) -> LocalTensor:
        """dst = min(src, scalar) (vmins; on a chip without it a fill and vmin)."""
        return self._scalar_or_fill("vmins", np.minimum, dst, src, scalar)

    def abs(self, dst: LocalTensor, src: LocalTensor) -> LocalTensor:
        """dst = |src| (vabs)."""
        return self._unary("vabs", np.absolute, dst, src)

    def exp(self, dst: LocalTensor, src: LocalTensor) -> LocalTensor:
        """dst = e**src (vexp)."""
        return self._unary("vexp", np.exp, dst, src)

    def ln(self, dst: LocalTensor, src: LocalTensor) -> LocalTensor:
        """dst = natural logarithm of src (vln)."""
        return self._unary("vln", np.log, dst, src)

    def sqrt(self, dst: LocalTensor, src: LocalTensor) -> LocalTensor:
        """dst = square root of src (vsqrt)."""
        return self._unary("vsqrt", np.sqrt, dst, src)

    def rsqrt(self, dst: LocalTensor, src: LocalTensor) -> LocalTensor:
        """dst = 1 / square root of src (vrsqrt)."""
        return self._unary("vrsqrt", _rsqrt, dst, src)

    def reciprocal(self, dst: LocalTensor, src: LocalTensor) -> LocalTensor:
        """dst = 1 / src (vrec)."""
        return self._unary("vrec", _reciprocal, dst, src)

    def relu(self, dst: LocalTensor, src: LocalTensor) -> LocalTensor:
        """dst = max(src, 0) (vrelu)."""
        return self._unary("vrelu", _relu, dst, src)

    def copy(self, dst: LocalTensor, src: LocalTensor) -> LocalTensor:
        """Copy inside UB, repeating rows and columns of one (vadds with zero, or a move)."""
        adds = self.profile.supports_vector("vadds", dst.dtype.intrinsic)
        self._issue("vadds" if adds else "ub2ub", dst, (src,))
        if self.numerics:
            depth = self.depth
            np.copyto(dst.target(depth), src.values(depth))
        return dst

    def move(self, dst: LocalTensor, src: LocalTensor) -> LocalTensor:
        """dst = src inside UB, whatever the dtype (copy_ubuf_to_ubuf)."""
        self._issue("ub2ub", dst, (src,))
        if self.numerics:
            depth = self.depth
            np.copyto(dst.target(depth), src.values(depth))
        return dst

    def duplicate(self, dst: LocalTensor, scalar: Number) -> LocalTensor:
        """Fill dst with a number (vector_dup)."""
        self._issue("vector_dup", dst, ())
        if self.numerics:
            depth = self.depth
            dst.target(depth)[...] = _number(scalar, depth, len(dst.shape), dst)
        return dst

    def broadcast_column(self, column: LocalTensor) -> LocalTensor:
        """A tile (rows,) as a column (rows, 1) that instructions repeat along rows (vbrcb)."""
        if self.recording:
            self._emit(
                "vbrcb",
                column.dtype.intrinsic,
                column.dtype.itemsize,
                column,
                self.reads_last(column),
                "",
            )
        self.wrote(column)
        spread = LocalTensor(
            column.core, column.dtype, (*column.shape, 1), column.buffer, column.slot
        )
        if self.numerics:
            spread.alias(column.values(column.depth)[..., None])
        return spread

    def transpose_block(self, dst: LocalTensor, src: LocalTensor) -> LocalTensor:
        """dst = src turned in UB: 16 x 16 blocks, each one vnchwconv.

        The tile's logical shape stays as it is.

        ``src`` was loaded along its other axis, so its numbers already stand where ``dst`` wants
        them; what the instruction does is to bring them into that order physically.
        """
        if self.recording:
            itemsize = src.dtype.itemsize
            self._emit("vnchwconv", src.dtype.intrinsic, itemsize, src, self.reads_last(src), "")
        self.wrote(dst)
        if self.numerics:
            depth = self.depth
            np.copyto(dst.target(depth), src.values(depth))
        return dst

    def compare(
        self, dst: LocalTensor, src0: LocalTensor, src1: LocalTensor, mode: CmpMode
    ) -> LocalTensor:
        """dst = src0 <mode> src1 as a mask of UINT8 zeros and ones (vcmpv)."""
        self.require(f"vcmpv_{mode}", src0)
        self._issue(f"vcmpv_{mode}", src0, (src0, src1), writes=dst)
        if self.numerics:
            depth = self.depth
            _COMPARE[mode](
                src0.values(depth), src1.values(depth), out=dst.target(depth), casting="unsafe"
            )
        return dst

    def set_cmpmask(self, bits: LocalTensor) -> None:
        """Load the mask register, one bit for each element of a repeat, from UB (set_cmpmask).

        What selects by it waits for the register, not for a result in UB: the load pays the
        pipeline's depth, the selections of a loop don't depend on each other.
        """
        if self.recording:
            dtype = bits.dtype
            self._emit("set_cmpmask", dtype.intrinsic, dtype.itemsize, bits[:1], True, "mask")
        self.set_register()

    def select(
        self, dst: LocalTensor, mask: LocalTensor, src0: LocalTensor, src1: LocalTensor
    ) -> LocalTensor:
        """dst = src0 where the mask is set, else src1 (vsel)."""
        self.require("vsel", dst)
        self._issue("vsel", dst, (mask, src0, src1))
        if self.numerics:
            depth = self.depth
            picked = np.where(mask.values(depth) != 0, src0.values(depth), src1.values(depth))
            dst.target(depth)[...] = picked
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
            self._emit(
                "vconv",
                f"{source}->{target}",
                wide,
                src,
                self.reads_last(src),
                f"{source}->{target} {mode}",
            )
        self.wrote(dst)
        if self.numerics:
            depth = self.depth
            if src.dtype is dst.dtype and mode is not RoundMode.CAST_NONE:
                dst.target(depth)[...] = rounding.to_whole(src.values(depth), mode)
            else:
                rounding.convert(src.values(depth), dst.target(depth), dst.dtype, mode)
        return dst

    def _unary(
        self, intrinsic: str, function: Callable[..., Any], dst: LocalTensor, src: LocalTensor
    ) -> LocalTensor:
        self.require(intrinsic, dst)
        self._issue(intrinsic, dst, (src,))
        if self.numerics:
            depth = self.depth
            function(src.values(depth), out=dst.target(depth))
        return dst

    def _binary(
        self,
        intrinsic: str,
        function: np.ufunc,
        dst: LocalTensor,
        src0: LocalTensor,
        src1: LocalTensor,
    ) -> LocalTensor:
        self.require(intrinsic, dst)
        if not all(_fits(src.shape, dst.shape) for src in (src0, src1)):
            raise KernelError(
                self.kernel_name, f"{intrinsic} on shapes {dst.shape}, {src0.shape}, {src1.shape}"
            )
        self._issue(intrinsic, dst, (src0, src1))
        if self.numerics:
            depth = self.depth
            function(src0.values(depth), src1.values(depth), out=dst.target(depth))
        return dst

    def _with_scalar(
        self, intrinsic: str, function: np.ufunc, dst: LocalTensor, src: LocalTensor, scalar: Number
    ) -> LocalTensor:
        self.require(intrinsic, dst)
        self._issue(intrinsic, dst, (src,))
        if self.numerics:
            depth = self.depth
            function(
                src.values(depth),
                _number(scalar, depth, len(src.shape), src),
                out=dst.target(depth),
            )
        return dst

    def _scalar_or_fill(
        self, intrinsic: str, function: np.ufunc, dst: LocalTensor, src: LocalTensor, scalar: Number
    ) -> LocalTensor:
        if self.profile.supports_vector(intrinsic, dst.dtype.intrinsic):
            return self._with_scalar(intrinsic, function, dst, src, scalar)
        plain = intrinsic.removesuffix("s")
        self.require(plain, dst)
        self._issue("vector_dup", dst, ())
        self._issue(plain, dst, (src,))
        if self.numerics:
            depth = self.depth
            function(
                src.values(depth),
                _number(scalar, depth, len(src.shape), src),
                out=dst.target(depth),
            )
        return dst

    def _issue(
        self,
        intrinsic: str,
        shape_of: LocalTensor,
        reads: tuple[LocalTensor, ...],
        writes: LocalTensor | None = None,
    ) -> None:
        """Append one vector instruction over ``shape_of``."""
        target = writes if writes is not None else shape_of
        if self.recording:
            dtype = shape_of.dtype
            self._emit(
                intrinsic,
                dtype.intrinsic,
                dtype.itemsize,
                shape_of,
                self.reads_last(target, *reads),
                "",
            )
        self.wrote(target)

    def _emit(
        self,
        intrinsic: str,
        dtype: str,
        itemsize: int,
        tensor: LocalTensor,
        chained: bool,
        detail: str,
    ) -> None:
        cycles = self.costs.vector(
            intrinsic, dtype, itemsize, tensor.row_elements, rows=tensor.rows, chained=chained
        )
        note = detail or f"{dtype} {'x'.join(map(str, tensor.shape)) or '1'}"
        self.recorder.emit(Pipe.VECTOR, intrinsic, cycles, detail=note)


def _fits(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    """True for equal shapes, and for rows or columns of one, repeated with stride zero."""
    if shape == target:
        return True
    return len(shape) == len(target) and all(
        a in (1, b) for a, b in zip(shape, target, strict=True)
    )


def _number(
    scalar: Number, depth: int, trailing: int, like: LocalTensor
) -> NDArray[Any] | np.generic:
    assert like.dtype.numpy is not None
    if isinstance(scalar, Scalar):
        values = scalar.values(depth, trailing)
        return values if like.dtype.is_float else np.asarray(values, like.dtype.numpy)
    number: np.generic = like.dtype.numpy.type(scalar)
    return number


def _rsqrt(src: NDArray[Any], out: NDArray[Any]) -> None:
    np.sqrt(src, out=out)
    np.divide(out.dtype.type(1), out, out=out)


def _reciprocal(src: NDArray[Any], out: NDArray[Any]) -> None:
    np.divide(out.dtype.type(1), src, out=out)


def _relu(src: NDArray[Any], out: NDArray[Any]) -> None:
    np.maximum(src, out.dtype.type(0), out=out)
