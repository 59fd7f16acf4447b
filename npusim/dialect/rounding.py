"""Conversions between dtypes with the rounding modes of the device.

bfloat16 is handled as the upper half of a float32, on integers: an order of magnitude faster than element by element.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npusim.values.dtypes import BFLOAT16, DType


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


def convert(src: NDArray[Any], dst: NDArray[Any], dtype: DType, mode: RoundMode) -> None:
    """Write ``src`` into ``dst`` (of ``dtype``), rounding as ``mode`` says."""
    if dtype is BFLOAT16:
        _to_bfloat16(np.asarray(src, np.float32), dst.view(np.uint16), mode)
    elif src.dtype.itemsize == 2 and src.dtype.kind == "V" and dst.dtype == np.float32:
        np.left_shift(src.view(np.uint16), np.uint32(16), out=dst.view(np.uint32), dtype=np.uint32)
    elif dst.dtype.kind in "iu" and src.dtype.kind == "f":
        dst[...] = _saturated(_to_whole(src, mode), dst.dtype)
    else:
        dst[...] = src


def _to_whole(src: NDArray[Any], mode: RoundMode) -> NDArray[Any]:
    if mode is RoundMode.CAST_ROUND:  # to nearest, ties away from zero
        src = src + np.copysign(src.dtype.type(0.5), src)
        mode = RoundMode.CAST_TRUNC
    result: NDArray[Any] = _WHOLE.get(mode, np.rint)(src)
    return result


def _saturated(values: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """What a conversion to whole numbers makes of numbers beyond its range: the end of the range, and 0 of NaN."""
    limits = np.iinfo(dtype)
    low, high = values.dtype.type(limits.min), values.dtype.type(limits.max)
    if high > limits.max:  # the float type has no number between here and the end of the range
        high = np.nextafter(high, values.dtype.type(0))
    if not (values.max(initial=0) <= high and values.min(initial=0) >= low):  # also for NaN
        values = np.nan_to_num(values, nan=0.0).clip(low, high)
    return values


def _to_bfloat16(src: NDArray[np.float32], dst: NDArray[np.uint16], mode: RoundMode) -> None:
    bits = src.view(np.uint32)
    if mode is RoundMode.CAST_ROUND:  # to nearest, ties away from zero
        rounded = bits + np.uint32(0x8000)
    elif mode is RoundMode.CAST_TRUNC:
        rounded = bits.copy()
    else:  # to nearest, ties to even
        rounded = bits >> np.uint32(16)
        rounded &= np.uint32(1)
        rounded += np.uint32(0x7FFF)
        rounded += bits
    rounded >>= np.uint32(16)
    np.copyto(dst, rounded, casting="unsafe")
    nan = np.isnan(src)
    if nan.any():
        dst[nan] = 0x7FC0
