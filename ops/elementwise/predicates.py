"""What numbers are: finite, infinite, close to others. Whole numbers are all finite."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from npusim.ascendc import CmpMode
from npusim.schedules.formula_classes import kernels_of_table
from npusim.schedules.formula_row import Compute
from npusim.values.dtypes import BOOL, FLOAT, FLOAT16, UINT8

if TYPE_CHECKING:
    from npusim.schedules.formula import Formula, Operand, Term


def truth(f: Formula, mask: Term) -> Term:
    """A mask as ones and zeros in bytes."""
    chosen = f.select(mask, f.fill(1.0, FLOAT16), f.fill(0.0, FLOAT16))
    return f.cast(chosen, UINT8)


def _is(f: Formula, x: Operand, number: float) -> Term:
    return truth(f, f.compare(f.cast(x, FLOAT), f.fill(number, FLOAT), CmpMode.EQ))


def _is_finite(f: Formula, x: Operand) -> Term:
    """Where a number less itself is zero, which it isn't of infinities and NaN."""
    wide = f.cast(x, FLOAT)
    return truth(f, f.compare(f.sub(wide, wide), f.fill(0.0, FLOAT), CmpMode.EQ))


def _is_nan(f: Formula, x: Operand) -> Term:
    wide = f.cast(x, FLOAT)
    return truth(f, f.compare(wide, wide, CmpMode.NE))


def _is_close(
    f: Formula, a: Operand, b: Operand, rtol: float, atol: float, equal_nan: bool
) -> Term:
    """|a - b| <= atol + rtol |b|, or equal, or both no numbers where those count as equal."""
    x, y = f.cast(a, FLOAT), f.cast(b, FLOAT)
    one, zero = f.fill(1.0, FLOAT), f.fill(0.0, FLOAT)
    allowed = f.add(f.mul(f.abs(y), rtol), atol)
    apart = f.abs(f.sub(x, y))
    within = f.select(f.compare(apart, allowed, CmpMode.LE), one, zero)
    finite = f.select(f.compare(allowed, f.fill(inf, FLOAT), CmpMode.NE), within, zero)
    close = f.select(f.compare(x, y, CmpMode.EQ), one, finite)
    if equal_nan:
        neither = f.select(f.compare(x, x, CmpMode.NE), one, zero)
        close = f.max(close, f.select(f.compare(y, y, CmpMode.NE), neither, zero))
    return truth(f, f.compare(close, zero, CmpMode.NE))


def _nan_to_num(f: Formula, x: Term, nan: float, posinf: float, neginf: float) -> Term:
    """Numbers in place of what is none, and of infinities."""
    for number, instead in ((inf, posinf), (-inf, neginf)):
        x = f.select(f.compare(x, number, CmpMode.NE), x, f.fill(instead))
    return f.select(f.compare(x, x, CmpMode.EQ), x, f.fill(nan))


_TOLERANCES = {"rtol": 1e-5, "atol": 1e-8, "equal_nan": False}
_LARGEST = (2.0 - 2.0**-23) * 2.0**127  # of float32
_INSTEAD = {"nan": 0.0, "posinf": _LARGEST}
_INSTEAD["neginf"] = -_INSTEAD["posinf"]

_ROWS = (
    Compute("IsFinite", _is_finite, raw=(0,), result=BOOL),
    Compute("IsNan", _is_nan, raw=(0,), result=BOOL),
    Compute(
        "IsInf",
        lambda f, x: _is(f, f.abs(f.cast(x, FLOAT)), inf),
        raw=(0,),
        result=BOOL,
    ),
    Compute("IsPosInf", lambda f, x: _is(f, x, inf), raw=(0,), result=BOOL),
    Compute("IsNegInf", lambda f, x: _is(f, x, -inf), raw=(0,), result=BOOL),
    Compute("IsClose", _is_close, raw=(0, 1), result=BOOL, attributes=_TOLERANCES),
    Compute("NanToNum", _nan_to_num, half_in_float=True, attributes=_INSTEAD),
)

KERNELS = kernels_of_table(_ROWS)
