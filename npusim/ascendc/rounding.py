"""Conversions between dtypes with the rounding modes of the device.

bfloat16 is handled as the upper half of a float32, on integers: an order of magnitude faster than
element by element.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.values.dtypes import BFLOAT16, DType

if TYPE_CHECKING:
    from numpy.typing import NDArray


class RoundMode(StrEnum):
    """Rounding modes of Ascend C's Cast."""

    CAST_NONE = "CAST_NONE"
    CAST_RINT = "CAST_RINT"
    CAST_FLOOR = "CAST_FLOOR"
    CAST_CEIL = "CAST_CEIL"
    CAST_ROUND = "CAST_ROUND"
    CAST_TRUNC = "CAST_TRUNC"


_WHOLE: dict[RoundMode, np.ufunc] = {
    RoundMode.CAST_FLOOR: np.floor,
    RoundMode.CAST_CEIL: np.ceil,
    RoundMode.CAST_TRUNC: np.trunc,
}

_TO_EVEN = (RoundMode.CAST_NONE, RoundMode.CAST_RINT)  # what NumPy does by itself

_DROPPED = 13  # bits of a float32's fraction that a float16 has no place for
_SMALLEST_NORMAL = np.float32(2.0**-14)  # of float16
_SMALLEST = np.float32(2.0**-24)


def convert(src: NDArray[Any], dst: NDArray[Any], dtype: DType, mode: RoundMode) -> None:
    """Write ``src`` into ``dst`` (of ``dtype``), rounding as ``mode`` says."""
    if dtype is BFLOAT16:
        _to_bfloat16(np.asarray(src, np.float32), dst.view(np.uint16), mode)
    elif src.dtype.itemsize == 2 and src.dtype.kind == "V" and dst.dtype == np.float32:
        np.left_shift(src.view(np.uint16), np.uint32(16), out=dst.view(np.uint32), dtype=np.uint32)
    elif dst.dtype.kind in "iu" and src.dtype.kind == "f":
        exact = (
            src.astype(np.float32) if src.dtype == np.float16 else src
        )  # NumPy is slow on halves
        to_integers(to_whole(exact, mode), dst)
    elif dst.dtype == np.float16 and src.dtype == np.float32 and mode not in _TO_EVEN:
        _to_float16(src, dst, mode)
    else:
        dst[...] = src


def to_hf32(values: NDArray[Any]) -> NDArray[np.float32]:
    """float32 rounded to nearest even with 12 bits of significand, as the cube reads it in HF32."""
    bits = _rounded(
        np.ascontiguousarray(values, np.float32).view(np.uint32), 12, RoundMode.CAST_RINT
    )
    return (bits & np.uint32(0xFFFFF000)).view(np.float32)


def saturate(values: NDArray[Any]) -> None:
    """In place, what a chip without infinities leaves of results: their largest number, and 0.

    Infinity becomes the largest finite number of its sign, NaN 0. Source: the saturation mode of
    aclrtFloatOverflowMode and INF_NAN_MODE_ENABLE (CANN documentation), the only mode of the Atlas
    training and Atlas inference products.
    """
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        np.nan_to_num(values, copy=False)


def to_whole(src: NDArray[Any], mode: RoundMode) -> NDArray[Any]:
    """``src`` rounded to whole numbers, in its own dtype."""
    result: NDArray[Any] = _WHOLE.get(mode, np.rint)(src)
    if (
        mode is RoundMode.CAST_ROUND
    ):  # to nearest, ties away from zero; src + 0.5 would round itself
        result = np.trunc(src)
        one = src.dtype.type(1)
        np.add(result, np.copysign(one, src), out=result, where=np.abs(src - result) >= one / 2)
    return result


def to_integers(values: NDArray[Any], dst: NDArray[Any]) -> None:
    """Whole numbers as integers; beyond their range the end of the range, and 0 of NaN."""
    limits = np.iinfo(dst.dtype)
    low, end = float(limits.min), float(limits.max) + 1  # both are powers of two, or 0
    if float(values.max(initial=0)) < end and float(values.min(initial=0)) >= low:  # no NaN
        dst[...] = values
        return
    values = values.astype(np.float64)  # a half has no number beyond the end of the range
    dst[...] = np.where((values >= low) & (values < end), values, 0)
    dst[values < low] = limits.min
    dst[values >= end] = limits.max


def _to_bfloat16(src: NDArray[np.float32], dst: NDArray[np.uint16], mode: RoundMode) -> None:
    rounded = _rounded(src.view(np.uint32), 16, mode)
    rounded >>= np.uint32(16)
    np.copyto(dst, rounded, casting="unsafe")
    if np.isnan(src.max(initial=0.0)):  # the cheapest look for a NaN: it is larger than anything
        dst[np.isnan(src)] = 0x7FC0


def _to_float16(src: NDArray[np.float32], dst: NDArray[np.float16], mode: RoundMode) -> None:
    """For the modes that NumPy doesn't have.

    Cut to ten bits first, so that nothing is left to round.
    """
    kept = _rounded(src.view(np.uint32), _DROPPED, mode) & np.uint32(-1 << _DROPPED & 0xFFFFFFFF)
    dst[...] = kept.view(np.float32)
    small = np.abs(src) < _SMALLEST_NORMAL
    if small.any():  # subnormal numbers have fewer bits: whole multiples of the smallest
        dst[small] = to_whole(src[small] / _SMALLEST, mode) * _SMALLEST
    nan = np.isnan(src)
    if nan.any():
        dst[nan] = np.nan


def _rounded(bits: NDArray[np.uint32], dropped: int, mode: RoundMode) -> NDArray[np.uint32]:
    """The bits of float32 numbers, so that cutting off ``dropped`` bits rounds by ``mode``."""
    most = np.uint32((1 << dropped) - 1)
    if mode is RoundMode.CAST_ROUND:  # to nearest, ties away from zero
        return bits + np.uint32(1 << (dropped - 1))
    if mode is RoundMode.CAST_TRUNC:
        return bits.copy()
    if mode in (RoundMode.CAST_FLOOR, RoundMode.CAST_CEIL):  # away from zero on one side of it
        upwards = (bits >> np.uint32(31) == 0) == (mode is RoundMode.CAST_CEIL)
        return bits + np.where(upwards, most, np.uint32(0))
    rounded = bits >> np.uint32(dropped)  # to nearest, ties to even
    rounded &= np.uint32(1)
    rounded += most >> np.uint32(1)
    rounded += bits
    return rounded
