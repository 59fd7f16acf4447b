"""Quotients in whole numbers, what they leave over, and rounding towards zero.

Quotients are computed in float32. Source of the formulas: public operator sources
(ops/built-in/tbe/impl/dynamic).
"""

from __future__ import annotations

from math import inf, nan
from typing import TYPE_CHECKING

from npusim.ascendc import CmpMode, Core, RoundMode
from npusim.ops.elementwise.arithmetic import has_sign
from npusim.schedules.formula_classes import kernels_of_table
from npusim.schedules.formula_row import Compute
from npusim.values.dtypes import FLOAT, INT32

if TYPE_CHECKING:
    from collections.abc import Callable

    from npusim.schedules.formula import Formula, Operand, Term

_FLOOR, _TRUNC = RoundMode.CAST_FLOOR, RoundMode.CAST_TRUNC


def whole(f: Formula, x: Term, mode: RoundMode) -> Term:
    """A float32 rounded to a whole number: by one conversion, or by way of int32; others stay."""
    if not x.dtype.is_float:
        return x
    if f.profile.supports_convert("float32", "float32"):
        return f.step(Core.cast, (x,), (mode,), FLOAT)
    return f.cast(f.cast(x, INT32, mode), FLOAT)


def _quotient(f: Formula, a: Operand, b: Operand, mode: RoundMode) -> Term:
    return whole(f, f.div(f.cast(a, FLOAT), f.cast(b, FLOAT)), mode)


def _divided(mode: RoundMode) -> Callable[[Formula, Operand, Operand], Term]:
    """The quotient, in the type that the operator computes in."""
    return lambda f, a, b: f.cast(_quotient(f, a, b, mode), f.dtype, _TRUNC)


def _left_over(mode: RoundMode) -> Callable[[Formula, Operand, Operand], Term]:
    """a less as many b as the quotient says."""

    def formula(f: Formula, a: Operand, b: Operand) -> Term:
        times = f.cast(_quotient(f, a, b, mode), f.dtype, _TRUNC)
        return f.sub(a, f.mul(times, b))

    return formula


def _floor_mod(f: Formula, a: Operand, b: Operand) -> Term:
    """What the quotient rounded down leaves over.

    On Atlas A2 and A3 fractions are mended afterwards: NaN is left of infinities, a itself where b
    is infinite, and what is left gets the sign of b. Source: impl/dynamic/floor_mod.py.
    """
    left = _left_over(_FLOOR)(f, a, b)
    if not (f.profile.features.inf_nan and f.dtype.is_float):
        return left
    a, b = f.tile(a), f.tile(b)
    one, zero, endless = f.fill(1.0), f.fill(0.0), f.fill(inf)
    left = f.select(f.compare(f.abs(b), endless, CmpMode.EQ), a, left)
    left = f.select(f.compare(f.abs(a), endless, CmpMode.EQ), f.fill(nan), left)
    signs = (f.select(has_sign(f, each), one, zero) for each in (b, left))
    there = f.select(f.compare(left, zero, CmpMode.NE), one, zero)
    differs = f.compare(f.mul(there, f.sub(*signs)), zero, CmpMode.NE)
    return f.select(differs, f.add(left, b), left)


_ROWS = (
    Compute("Trunc", lambda f, x: whole(f, x, _TRUNC), half_in_float=True),
    Compute("FloorDiv", _divided(_FLOOR), half_in_float=True),
    Compute("TruncateDiv", _divided(_TRUNC), half_in_float=True),
    Compute("FloorMod", _floor_mod, half_in_float=True),
    Compute("Mod", _left_over(_TRUNC), half_in_float=True),
)

KERNELS = kernels_of_table(_ROWS)
