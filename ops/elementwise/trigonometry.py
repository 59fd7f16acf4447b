"""Trigonometric and hyperbolic functions and their inverses, one row of a table for each.

Source of the formulas: public operator sources (ops/built-in/tbe/impl/dynamic).
"""

from __future__ import annotations

from math import factorial, inf, log, pi, tan
from typing import TYPE_CHECKING

from npusim.ascendc import CmpMode
from npusim.ops.elementwise.arithmetic import has_sign, sign
from npusim.schedules.formula_classes import kernels_of_table
from npusim.schedules.formula_row import Compute
from npusim.schedules.functions import polynomial
from npusim.values.dtypes import FLOAT, INT32

if TYPE_CHECKING:
    from collections.abc import Callable

    from npusim.schedules.formula import Formula, Term

_HALVINGS = 6  # of the angle whose tangent comes from a series
_TAN_SERIES = (1 / 3, 2 / 15, 17 / 315, 62 / 2835, 1382 / 155925)
_NEAR = 0.5**0.5  # below it arcs come from their own series
_ASIN_SERIES = tuple(
    factorial(2 * n) / (4.0**n * factorial(n) ** 2 * (2 * n + 1)) for n in range(8)
)
_ATAN_SERIES = tuple((-1.0) ** n / (2 * n + 1) for n in range(7))


def _tan(f: Formula, x: Term) -> Term:
    """By a series of a 64th of the angle less whole half turns, doubled as often as it takes."""
    turns = f.cast(f.cast(f.mul(x, 1.0 / pi), INT32), FLOAT)
    part = f.mul(f.sub(x, f.mul(turns, pi)), 0.5**_HALVINGS)
    square, term, total = f.mul(part, part), part, part
    for factor in _TAN_SERIES:
        term = f.mul(f.mul(square, term), factor)
        total = f.add(total, term)
    for _ in range(_HALVINGS):
        below = f.add(f.neg(f.mul(total, total)), 1.0)
        total = f.div(f.mul(total, 2.0), below)
    return total


def _asin(f: Formula, x: Term) -> Term:
    """The series of x, or a quarter turn less that of sqrt(1 - x**2) where it is nearer."""
    size = f.abs(x)
    near = f.mul(polynomial(f, f.mul(size, size), _ASIN_SERIES), size)
    square = f.add(f.neg(f.mul(size, size)), 1.0)
    arc = f.mul(polynomial(f, square, _ASIN_SERIES), f.sqrt(square))
    far = f.add(f.neg(arc), pi / 2)
    return f.mul(f.select(f.compare(size, _NEAR, CmpMode.LT), near, far), sign(f, x))


def _arc_series(f: Formula, x: Term) -> Term:
    """The smaller of two series: of x, and of what is left of it beyond an eighth of a turn."""
    own = f.mul(polynomial(f, f.mul(x, x), _ATAN_SERIES[:5]), x)
    offset = tan(pi / 8)
    rest = f.abs(f.div(f.add(x, -offset), f.add(f.mul(x, offset), 1.0)))
    other = f.mul(polynomial(f, f.mul(rest, rest), _ATAN_SERIES), rest)
    return f.min(own, f.add(other, pi / 8))


def _atan(f: Formula, x: Term, most: float = 16394.0) -> Term:
    """Series of |x| and of (|x| - 1) / (|x| + 1), each right or too large; the sign of x.

    Slopes beyond `most` count as that much.
    """
    size = f.min(f.abs(x), most)
    turned = f.abs(f.div(f.add(size, -1.0), f.add(size, 1.0)))
    arc = f.min(_arc_series(f, size), f.add(_arc_series(f, turned), pi / 4))
    return f.mul(arc, sign(f, x))


def _atan2(f: Formula, y: Term, x: Term) -> Term:
    """The arc of y / x, half a turn on where x is below zero, a quarter turn where it is zero."""
    zero = f.fill(0.0)
    side = f.select(f.compare(y, zero, CmpMode.GE), f.fill(1.0), f.fill(-1.0))
    arc = _atan(f, f.div(y, x), most=1e7)
    behind = f.mul(f.select(f.compare(x, zero, CmpMode.LT), side, zero), pi)
    arc = f.select(f.compare(x, zero, CmpMode.EQ), f.mul(side, pi / 2), arc)
    found = f.add(arc, behind)
    return _atan2_of_odd_numbers(f, y, x, found) if f.profile.features.inf_nan else found


def _atan2_of_odd_numbers(f: Formula, y: Term, x: Term, found: Term) -> Term:
    """Zeros with their signs, infinities and NaN as IEEE 754 has them, afterwards."""
    zero, endless = f.fill(0.0), f.fill(inf)
    side = f.select(has_sign(f, y), f.fill(-1.0), f.fill(1.0))
    flat = f.select(has_sign(f, x), f.fill(pi), zero)
    found = f.select(f.compare(y, zero, CmpMode.EQ), f.mul(flat, side), found)
    right = f.compare(x, endless, CmpMode.EQ)
    found = f.select(right, f.mul(zero, side), found)
    left = f.compare(x, f.fill(-inf), CmpMode.EQ)
    steep = f.select(right, f.fill(pi / 4), f.select(left, f.fill(3 * pi / 4), f.fill(pi / 2)))
    found = f.select(f.compare(f.abs(y), endless, CmpMode.EQ), f.mul(steep, side), found)
    for each in (y, x):
        found = f.select(f.compare(each, each, CmpMode.EQ), found, each)
    return found


def _hyperbolic(f: Formula, x: Term) -> tuple[Term, Term]:
    """Halves of e**x and e**-x."""
    return f.exp(f.add(x, -_LN2)), f.mul(f.exp(f.neg(x)), 0.5)


_LN2 = log(2.0)


def _asinh(f: Formula, x: Term) -> Term:
    """ln(|x| + sqrt(x**2 + 1)) with the sign of x."""
    size = f.abs(x)
    root = f.sqrt(f.add(f.mul(size, size), 1.0))
    return f.mul(f.ln(f.add(root, size)), sign(f, x))


def _acosh(f: Formula, x: Term) -> Term:
    """ln(x + sqrt(x**2 - 1)); on Atlas A2 and A3 by way of x - 1, at most ln(x) + ln(2)."""
    if f.profile.features.inf_nan:
        above = f.add(x, -1.0)
        root = f.sqrt(f.add(f.mul(above, above), f.add(above, above)))
        rest = f.add(above, root)
        whole = f.add(rest, 1.0)
        kept = f.min(f.max(f.add(whole, -1.0), 1e-45), 3.4028235e34)
        found = f.div(f.mul(f.ln(whole), rest), kept)
        return f.min(found, f.add(f.ln(x), _LN2))
    return f.ln(f.add(f.sqrt(f.add(f.mul(x, x), -1.0)), x))


def _atanh(f: Formula, x: Term) -> Term:
    """ln((1 + x) / (1 - x)) / 2."""
    return f.mul(f.ln(f.div(f.add(x, 1.0), f.add(f.neg(x), 1.0))), 0.5)


def _row(op_type: str, formula: Callable[..., Term]) -> Compute:
    return Compute(op_type, formula, half_in_float=True)


_ROWS = (
    _row("Tan", _tan),
    _row("Asin", _asin),
    _row("Acos", lambda f, x: f.add(f.neg(_asin(f, x)), pi / 2)),
    _row("Atan", _atan),
    _row("Atan2", _atan2),
    _row("Sinh", lambda f, x: f.sub(*_hyperbolic(f, x))),
    _row("Cosh", lambda f, x: f.add(*_hyperbolic(f, x))),
    _row("Asinh", _asinh),
    _row("Acosh", _acosh),
    _row("Atanh", _atanh),
)

KERNELS = kernels_of_table(_ROWS)
