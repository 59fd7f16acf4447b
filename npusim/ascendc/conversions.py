"""Which conversions lead from one dtype to another on a chip that lacks the direct one."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from npusim.values.dtypes import BFLOAT16, BOOL, FLOAT, FLOAT16, INT16, INT32, UINT8, DType
from npusim.values.errors import UnsupportedIntrinsicError

if TYPE_CHECKING:
    from npusim.hardware.profile import Profile

_MIDDLE = (FLOAT, FLOAT16, INT32, INT16, BFLOAT16)  # widest first: the fewest roundings
_LONGEST = 3  # conversions in a row


def device_dtype(dtype: DType) -> DType:
    """The dtype that instructions see: a truth value is a byte."""
    return UINT8 if dtype is BOOL else dtype


@lru_cache(maxsize=256)
def conversion_path(profile: Profile, source: DType, target: DType) -> tuple[DType, ...]:
    """The dtypes to convert to one after the other; empty for equal types.

    The shortest way wins, among those the one whose steps lose least. Raises
    UnsupportedIntrinsicError where there is no way.
    """
    source, target = device_dtype(source), device_dtype(target)
    if source is target:
        return ()
    ways: list[tuple[DType, ...]] = [(source,)]
    for _ in range(_LONGEST):
        for way in ways:
            if profile.supports_convert(way[-1].intrinsic, target.intrinsic):
                return (*way[1:], target)
        ways = [
            (*way, middle)
            for way in ways
            for middle in _MIDDLE
            if middle not in way and profile.supports_convert(way[-1].intrinsic, middle.intrinsic)
        ]
    raise UnsupportedIntrinsicError(
        "Cast", "vconv", f"{source.intrinsic}->{target.intrinsic}", profile.name, ()
    )
