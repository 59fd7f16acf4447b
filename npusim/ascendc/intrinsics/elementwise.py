"""The table of elementwise intrinsics: what the chip calls each one, and what it computes.

A row is all that an intrinsic needs: a core has it as a method (``core.add(dst, a, b)``), formulas
of schedules take it by its name (``Core.add``), and its price is the profile's row of the same
hardware name.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from numbers import Real
from types import MethodType
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Self, overload

import numpy as np

from npusim.ascendc.issuer import Issuer
from npusim.ascendc.passes import Work
from npusim.ascendc.scalars import Scalar
from npusim.ascendc.tensors import LocalTensor
from npusim.values.dtypes import INT16
from npusim.values.errors import KernelError, UnsupportedIntrinsicError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.hardware.profile import Profile
    from npusim.values.dtypes import DType

Number = float | Scalar
Operands = ParamSpec("Operands")


class Intrinsic(Generic[Operands]):
    """One row: ``computation`` takes the numbers of ``tiles`` operands, and ``out``.

    ``number`` says that one more operand is a number. A chip without the instruction for a dtype
    refuses it, or fills a tile with the number for the instruction called ``instead``. ``updates``
    marks results that go on from what the target holds, which comes last among the numbers then.
    """

    def __init__(
        self,
        hardware_name: str,
        computation: Callable[..., object],
        meaning: str,
        *,
        tiles: int,
        number: bool = False,
        instead: str = "",
        updates: bool = False,
    ) -> None:
        self.hardware_name = hardware_name
        self.computation = computation
        self.tiles = tiles
        self.number = number
        self.instead = instead
        self.updates = updates
        self.__doc__ = f"{meaning} ({hardware_name})."

    def __set_name__(self, owner: type[Issuer], name: str) -> None:
        self.__name__ = name
        self._work = Work(name, self.computation)

    @overload
    def __get__(self, core: None, owner: type[Issuer]) -> Self: ...
    @overload
    def __get__(self, core: Issuer, owner: type[Issuer]) -> Callable[Operands, LocalTensor]: ...
    def __get__(
        self, core: Issuer | None, owner: type[Issuer]
    ) -> Self | Callable[Operands, LocalTensor]:
        return self if core is None else MethodType(self, core)

    def __call__(self, core: Issuer, dst: LocalTensor, *operands: Any) -> LocalTensor:
        """Compute on ``core``, and append the instruction."""
        if core.users_code:
            self._check(core, dst, *operands)
        sources: tuple[LocalTensor, ...] = operands[: self.tiles]
        name = self.hardware_name
        if self.instead and not core.profile.supports_vector(name, dst.dtype.intrinsic):
            name = self.instead
            core.issue("vector_dup", dst, ())
        core.require(name, dst, *sources)
        shared = core.shares_rows and any(source.shape != dst.shape for source in sources)
        for source in sources:
            if source.shape != dst.shape and not _repeats(source.shape, dst.shape):
                shapes = ", ".join(str(tensor.shape) for tensor in (dst, *sources))
                raise KernelError(core.kernel_name, f"{name} on shapes {shapes}")
        core.issue(name, dst, sources, by_blocks=shared)
        if core.numerics:
            self.compute(core, dst, *operands)
        core.computed(self.__name__, dst)
        return dst

    def _check(self, core: Issuer, *operands: Any) -> None:
        """Refuse operands of another number or kind: a run without numbers wouldn't see them."""
        kinds = ["tile"] * (1 + self.tiles) + ["number"] * self.number
        given = [_kind(each) for each in operands]
        if given != kinds:
            raise KernelError(
                core.kernel_name,
                f"{self.__name__} of ({', '.join(given)})",
                f"It takes ({', '.join(kinds)}), the first of which is written.",
            )
        target = operands[0]
        for source in operands[1 : 1 + self.tiles]:
            if source.shape == (1,) != target.shape and len(target.shape) == 1:
                raise KernelError(
                    core.kernel_name,
                    f"{self.__name__} of {target.numel} elements reads {source.buffer}, which has "
                    "one: the chip would read on behind it",
                    f"Fill a tile with it (core.duplicate(tile, core.get_value({source.buffer}))).",
                )

    def require(self, profile: Profile, op_type: str, dtype: DType) -> None:
        """Raise UnsupportedIntrinsicError for a dtype that the chip's instruction doesn't take."""
        names = [name for name in (self.hardware_name, self.instead) if name]
        if not any(profile.supports_vector(name, dtype.intrinsic) for name in names):
            known = profile.vector_dtypes(names[0])
            raise UnsupportedIntrinsicError(op_type, names[0], dtype.intrinsic, profile.name, known)

    def compute(self, core: Issuer, dst: LocalTensor, *operands: Any) -> None:
        """The numbers alone, for schedules whose instructions are others."""
        sources = [*operands[: self.tiles]]
        if self.number:
            sources.append(number_of(operands[-1], core.depth, operands[self.tiles - 1]))
        if self.updates:
            sources.append(dst)
        dst.becomes(self._work, *sources)


class _OnWords(Intrinsic[Operands]):
    """A row whose instruction takes words of 16 bits, of whatever dtype they are parts."""

    def __call__(self, core: Issuer, dst: LocalTensor, *operands: Any) -> LocalTensor:
        """Compute on ``core``, and append the instruction."""
        if core.users_code:
            self._check(core, dst, *operands)
        core.same_dtypes(self.hardware_name, dst, *operands)
        for source in operands:
            if source.shape != dst.shape and not _repeats(source.shape, dst.shape):
                shapes = ", ".join(str(tensor.shape) for tensor in (dst, *operands))
                raise KernelError(core.kernel_name, f"{self.hardware_name} on shapes {shapes}")
        core.issue(self.hardware_name, _words(dst), operands, writes=dst)
        if core.numerics:
            self.compute(core, dst, *operands)
        core.computed(self.__name__, dst)
        return dst

    def require(self, profile: Profile, op_type: str, dtype: DType) -> None:
        """Raise UnsupportedIntrinsicError where words have no such instruction, or for floats."""
        super().require(profile, op_type, dtype if dtype.is_float else INT16)


def _kind(operand: object) -> str:
    if isinstance(operand, Real | Scalar | np.generic):
        return "number"
    return "tile" if hasattr(operand, "check_read") else type(operand).__name__


def _words(tile: LocalTensor) -> LocalTensor:
    """The same place as words of 16 bits."""
    *rows, elements = tile.shape or (1,)
    words = ceil(elements * tile.dtype.itemsize / INT16.itemsize)
    return tile.same_place(*rows, words, dtype=INT16)


def number_of(number: Number, depth: int, like: LocalTensor) -> NDArray[Any] | np.generic:
    """A number in the dtype of a tile, behind the stack axes of ``depth`` loops."""
    assert like.dtype.numpy is not None
    if isinstance(number, Scalar):
        values = number.values(depth, len(like.shape))
        return values if like.dtype.is_float else np.asarray(values, like.dtype.numpy)
    single: np.generic = like.dtype.numpy.type(number)
    return single


def _repeats(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    """True for rows or columns of one, which instructions repeat with stride zero."""
    return len(shape) == len(target) and all(
        a in (1, b) for a, b in zip(shape, target, strict=True)
    )


def _rsqrt(src: NDArray[Any], out: NDArray[Any]) -> None:
    np.sqrt(src, out=out)
    np.divide(out.dtype.type(1), out, out=out)


def _reciprocal(src: NDArray[Any], out: NDArray[Any]) -> None:
    np.divide(out.dtype.type(1), src, out=out)


def _relu(src: NDArray[Any], out: NDArray[Any]) -> None:
    np.maximum(src, out.dtype.type(0), out=out)


def _axpy(src: NDArray[Any], number: NDArray[Any], before: NDArray[Any], out: NDArray[Any]) -> None:
    np.add(before, src * number, out=out)


def _leaky_relu(src: NDArray[Any], slope: NDArray[Any], out: NDArray[Any]) -> None:
    np.copyto(out, np.where(src >= 0, src, src * slope))


def _add_relu(a: NDArray[Any], b: NDArray[Any], out: NDArray[Any]) -> None:
    np.maximum(np.add(a, b), out.dtype.type(0), out=out)


def _madd(a: NDArray[Any], b: NDArray[Any], before: NDArray[Any], out: NDArray[Any]) -> None:
    np.add(a * before, b, out=out)


def _madd_relu(a: NDArray[Any], b: NDArray[Any], before: NDArray[Any], out: NDArray[Any]) -> None:
    np.maximum(a * before + b, out.dtype.type(0), out=out)


def _mla(a: NDArray[Any], b: NDArray[Any], before: NDArray[Any], out: NDArray[Any]) -> None:
    np.add(before, a * b, out=out)


_OfTile = Intrinsic[[LocalTensor, LocalTensor]]
_OfTwo = Intrinsic[[LocalTensor, LocalTensor, LocalTensor]]
_BitsOfTile = _OnWords[[LocalTensor, LocalTensor]]
_BitsOfTwo = _OnWords[[LocalTensor, LocalTensor, LocalTensor]]
_OfTileAndNumber = Intrinsic[[LocalTensor, LocalTensor, Number]]


class Elementwise(Issuer):
    """The table, as the part of :class:`npusim.ascendc.core.Core` that has its rows as methods."""

    add = _OfTwo("vadd", np.add, "dst = src0 + src1", tiles=2)
    sub = _OfTwo("vsub", np.subtract, "dst = src0 - src1", tiles=2)
    mul = _OfTwo("vmul", np.multiply, "dst = src0 * src1", tiles=2)
    div = _OfTwo("vdiv", np.divide, "dst = src0 / src1", tiles=2)
    max = _OfTwo("vmax", np.maximum, "dst = the larger of src0 and src1", tiles=2)
    min = _OfTwo("vmin", np.minimum, "dst = the smaller of src0 and src1", tiles=2)
    # Integers of 64 bits: the compiler writes several instructions for each of these.
    add64 = _OfTwo("vadd64", np.add, "dst = src0 + src1, of 64 bits", tiles=2)
    sub64 = _OfTwo("vsub64", np.subtract, "dst = src0 - src1, of 64 bits", tiles=2)
    max64 = _OfTwo("vmax64", np.maximum, "dst = the larger of two, of 64 bits", tiles=2)
    min64 = _OfTwo("vmin64", np.minimum, "dst = the smaller of two, of 64 bits", tiles=2)
    adds = _OfTileAndNumber("vadds", np.add, "dst = src + number", tiles=1, number=True)
    muls = _OfTileAndNumber("vmuls", np.multiply, "dst = src * number", tiles=1, number=True)
    maxs = _OfTileAndNumber(
        "vmaxs", np.maximum, "dst = max(src, number)", tiles=1, number=True, instead="vmax"
    )
    mins = _OfTileAndNumber(
        "vmins", np.minimum, "dst = min(src, number)", tiles=1, number=True, instead="vmin"
    )
    axpy = _OfTileAndNumber(
        "vaxpy", _axpy, "dst += src * number, rounded twice", tiles=1, number=True, updates=True
    )
    leaky_relu = _OfTileAndNumber(
        "vlrelu", _leaky_relu, "dst = src, times number where negative", tiles=1, number=True
    )
    shift_left = _OfTileAndNumber(
        "vshl", np.left_shift, "dst = src << number", tiles=1, number=True
    )
    shift_right = _OfTileAndNumber(
        "vshr", np.right_shift, "dst = src >> number", tiles=1, number=True
    )
    add_relu = _OfTwo("vaddrelu", _add_relu, "dst = max(src0 + src1, 0)", tiles=2)
    fused_mul_add = _OfTwo("vmadd", _madd, "dst = src0 * dst + src1", tiles=2, updates=True)
    fused_mul_add_relu = _OfTwo(
        "vmaddrelu", _madd_relu, "dst = max(src0 * dst + src1, 0)", tiles=2, updates=True
    )
    mul_add_dst = _OfTwo("vmla", _mla, "dst += src0 * src1, rounded twice", tiles=2, updates=True)
    abs = _OfTile("vabs", np.absolute, "dst = |src|", tiles=1)
    exp = _OfTile("vexp", np.exp, "dst = e**src", tiles=1)
    ln = _OfTile("vln", np.log, "dst = natural logarithm of src", tiles=1)
    sqrt = _OfTile("vsqrt", np.sqrt, "dst = square root of src", tiles=1)
    rsqrt = _OfTile("vrsqrt", _rsqrt, "dst = 1 / square root of src", tiles=1)
    reciprocal = _OfTile("vrec", _reciprocal, "dst = 1 / src", tiles=1)
    bitwise_and = _BitsOfTwo("vand", np.bitwise_and, "dst = src0 & src1", tiles=2)
    bitwise_or = _BitsOfTwo("vor", np.bitwise_or, "dst = src0 | src1", tiles=2)
    bitwise_not = _BitsOfTile("vnot", np.invert, "dst = ~src", tiles=1)
    relu = _OfTile("vrelu", _relu, "dst = max(src, 0)", tiles=1)


BY_HARDWARE_NAME = {
    row.hardware_name: row for row in vars(Elementwise).values() if isinstance(row, Intrinsic)
}
