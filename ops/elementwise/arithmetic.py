"""Arithmetic, element by element, one row of a table for every operator.

Formulas are those of the vendor's compute functions: which instructions, in which order, on which
types. Source of the formulas: public operator sources (ops/built-in/tbe/impl).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from math import inf, log, nan, pi
from typing import TYPE_CHECKING

from npusim.ascendc import CmpMode, Core, RoundMode
from npusim.schedules.block_split import Axes
from npusim.schedules.comparisons import step
from npusim.schedules.formula_classes import kernels_of_table
from npusim.schedules.formula_row import Compute
from npusim.values.arithmetic import inverse
from npusim.values.dtypes import FLOAT, FLOAT16, INT32
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from npusim.schedules.formula import Formula, Number, Operand, Term


def _add_n(f: Formula, first: Term, *others: Operand) -> Term:
    total = first
    for other in others:
        total = f.add(total, other)
    return total if others else f.copied(total)


def _pow(f: Formula, x: Operand, y: Operand) -> Term:
    """e ** (y ln|x|), with the sign of x where y is odd."""
    base, power = f.tile(x), f.tile(y)
    own = base.dtype
    if not own.is_float:  # rounded to the next whole number at the end
        base, power = f.cast(base, FLOAT), f.cast(power, FLOAT)
    size = f.exp(f.mul(power, f.ln(f.abs(base))))
    if f.profile.supports_convert("float32", "float32"):
        found = _signed_power(f, base, power, size)
        return found if own.is_float else f.cast(found, own, RoundMode.CAST_RINT)
    half = f.mul(power, 0.5)
    whole = f.cast(f.cast(half, INT32, RoundMode.CAST_FLOOR), FLOAT)
    odd = f.mul(f.sub(half, whole), 4.0)  # 2 where y is odd, 0 where it is even
    negative = step(f, f.mul(base, -1.0))
    found = f.mul(size, f.add(f.mul(f.mul(odd, negative), -1.0), 1.0))
    return found if own.is_float else f.cast(found, own, RoundMode.CAST_RINT)


def _signed_power(f: Formula, x: Term, y: Term, size: Term) -> Term:
    """|x| ** y with signs, infinities and NaN of IEEE 754, where float32 rounds to float32.

    Source: impl/dynamic/pow.py.
    """
    one, zero, endless = f.fill(1.0), f.fill(0.0), f.fill(inf)
    even = f.mul(_floored(f, f.mul(f.abs(y), 0.5)), 2.0)
    odd = f.sub(f.abs(y), even)
    signed = f.mul(f.add(f.mul(odd, -2.0), 1.0), size)
    is_endless = f.compare(f.abs(y), endless, CmpMode.EQ)
    whole = f.select(f.compare(_floored(f, y), y, CmpMode.EQ), one, zero)
    whole = f.select(is_endless, zero, whole)
    sign = f.select(has_sign(f, x), one, zero)
    found = f.select(f.compare(f.mul(sign, whole), one, CmpMode.EQ), signed, size)
    below = f.select(f.compare(x, zero, CmpMode.LT), one, zero)
    below = f.select(f.compare(x, f.fill(-inf), CmpMode.EQ), zero, below)
    share = f.select(is_endless, zero, f.sub(one, whole))
    found = f.select(f.compare(f.mul(below, share), one, CmpMode.EQ), f.fill(nan), found)
    turning = f.select(f.compare(x, f.fill(-1.0), CmpMode.EQ), one, zero)
    turning = f.select(is_endless, turning, zero)
    found = f.select(f.compare(turning, one, CmpMode.EQ), one, found)
    found = f.select(f.compare(y, zero, CmpMode.EQ), one, found)
    return f.select(f.compare(x, one, CmpMode.EQ), one, found)


def _floored(f: Formula, x: Term) -> Term:
    """Rounded down, by one conversion from float32 to float32."""
    return f.step(Core.cast, (x,), (RoundMode.CAST_FLOOR,), FLOAT)


def has_sign(f: Formula, x: Term) -> Term:
    """A mask of numbers below zero and -0.0, whose reciprocal is below zero."""
    return f.compare(f.min(x, f.div(1.0, x)), f.fill(0.0), CmpMode.LT)


def clip(f: Formula, x: Term, low: Number | Term | None, high: Number | Term | None) -> Term:
    """At least ``low``, at most ``high``, as far as they are given."""
    if low is not None:
        x = f.max(x, low)
    return f.min(x, high) if high is not None else x


def _whole(mode: RoundMode) -> Callable[[Formula, Term], Term]:
    """To whole numbers by way of int32; what is whole stays."""

    def formula(f: Formula, x: Term) -> Term:
        if not x.dtype.is_float:
            return x
        return f.cast(f.cast(x, INT32, mode), FLOAT)

    return formula


_FULL_TURN = 2.0 * pi


def _taylor(f: Formula, total: Term, term: Term, square: Term, orders: range) -> Term:
    """Further terms of a series: each is the one before, times the square, by two more factors."""
    for order in orders:
        term = f.mul(f.mul(square, term), -1.0 / (order * (order - 1)))
        total = f.add(total, term)
    return total


def _sin(f: Formula, x: Term) -> Term:
    """Seven terms of the series of x less whole half turns, turned about for odd ones of them."""
    turns = f.cast(f.cast(f.mul(x, 1.0 / pi), INT32), FLOAT)
    x = f.sub(x, f.mul(turns, pi))
    square = f.mul(x, x)
    cubed = f.mul(f.mul(square, -1.0 / 6.0), x)
    sine = _taylor(f, f.add(x, cubed), cubed, square, range(5, 13, 2))
    above = f.cast(f.cast(f.mul(turns, 0.5), INT32, RoundMode.CAST_CEIL), FLOAT)
    odd = f.sub(f.mul(above, 2.0), turns)
    even = f.sub(f.fill(1.0), odd)
    return f.mul(sine, f.add(even, f.add(even, -1.0)))


def _cos(f: Formula, x: Term) -> Term:
    """Eight terms of the series of x less whole turns."""
    turns = f.cast(f.cast(f.mul(x, 1.0 / _FULL_TURN), INT32), FLOAT)
    x = f.sub(x, f.mul(turns, _FULL_TURN))
    square = f.mul(x, x)
    half = f.mul(square, -0.5)
    return _taylor(f, f.add(half, 1.0), half, square, range(4, 15, 2))


def sign(f: Formula, x: Operand) -> Term:
    """1, 0 or -1."""
    number = f.tile(x)
    own = number.dtype
    number = number if own.is_float else f.cast(number, FLOAT)
    found = f.sub(step(f, number), step(f, f.neg(number)))
    return found if own.is_float else f.cast(found, own)


def rounded(f: Formula, x: Term, decimals: int = 0) -> Term:
    """To so many decimals, halves to even; below zero to tens, hundreds."""
    if not decimals or (decimals > 0 and not x.dtype.is_float):
        return _whole(RoundMode.CAST_RINT)(f, x)
    shifted = f.mul(x if x.dtype.is_float else f.cast(x, FLOAT), _power_of_ten(decimals))
    return f.mul(_whole(RoundMode.CAST_RINT)(f, shifted), _power_of_ten(-decimals))


def _power_of_ten(exponent: int) -> float:
    """Infinite where the exponent is beyond that of floats, as on the device."""
    return 10.0**exponent if exponent <= sys.float_info.max_10_exp else inf


def _log(f: Formula, x: Term, base: float, scale: float, shift: float) -> Term:
    """The logarithm of scale x + shift to a base; -1 is e."""
    if scale != 1.0:
        x = f.mul(x, scale)
    if shift:
        x = f.add(x, shift)
    return f.mul(f.ln(x), inverse(log(base))) if base > 0.0 else f.ln(x)


def _clipped_norm(f: Formula, x: Term, zero: Operand, one: Operand, least: Operand) -> Term:
    """The root of a sum of squares where it is above ``zero``, at least ``least``."""
    above = step(f, f.sub(x, zero))
    below = f.add(f.neg(above), 1.0)
    root = f.sqrt(f.add(f.mul(above, x), f.mul(below, one)))
    return f.max(f.add(f.mul(above, root), f.mul(below, x)), least)


def _shared_out(
    f: Formula, grad: Term, larger: Operand, smaller: Operand, *, grad_x: bool, grad_y: bool
) -> tuple[Term | None, Term | None]:
    """The gradient goes to the first operand where ``larger`` >= ``smaller``, else to the second.

    Which one it is comes from arithmetic: the difference, cut off at the smallest number, scaled
    to one. Only the gradients asked for are computed.
    Source: public operator sources (impl/fused_minimum_or_maximum_grad.py).
    """
    if not (grad_x or grad_y):
        raise KernelError("MaximumGrad", "grad_x or grad_y has to be true")
    high, low = f.tile(larger), f.tile(smaller)
    if not high.dtype.is_float:
        raise KernelError("MaximumGrad", f"steps of {high.dtype} aren't modelled")
    zero = f.mul(high, 0.0)
    smallest, large, four = (f.add(zero, number) for number in (2.0**-126, 2.0**62, 4.0))
    difference = f.add(f.sub(high, low), 2.0**-126)
    chosen = f.min(f.max(difference, zero), smallest)
    chosen = f.mul(f.mul(f.mul(chosen, large), large), four)
    first = f.mul(grad, chosen) if grad_x else None
    if not grad_y:
        return first, None
    minus_one = f.fill(-1.0)
    second = f.mul(grad, f.mul(f.add(chosen, minus_one), minus_one))
    return first, second


_BOTH = {"grad_x": True, "grad_y": True}
_LOG = {"base": -1.0, "scale": 1.0, "shift": 0.0}

_ROWS = (
    Compute("Add", lambda f, a, b: f.add(a, b), axes=Axes.KEPT, wraps=FLOAT16),
    Compute("Sub", lambda f, a, b: f.sub(a, b), axes=Axes.KEPT, wraps=FLOAT16),
    Compute("Mul", lambda f, a, b: f.mul(a, b), axes=Axes.KEPT_WITH_NUMBER, wraps=FLOAT),
    Compute("RealDiv", lambda f, a, b: f.div(a, b), half_in_float=True),
    Compute("Div", lambda f, a, b: f.div(a, b)),
    Compute("Maximum", lambda f, a, b: f.max(a, b), axes=Axes.FUSED_IF_ALIKE),
    Compute("Minimum", lambda f, a, b: f.min(a, b), axes=Axes.KEPT),
    Compute("MaximumGrad", _shared_out, outputs=2, attributes=_BOTH, axes=Axes.KEPT),
    Compute(
        "MinimumGrad",
        lambda f, grad, a, b, **asked: _shared_out(f, grad, b, a, **asked),
        outputs=2,
        attributes=_BOTH,
        axes=Axes.KEPT,
    ),
    Compute("Adds", lambda f, x, value: f.add(x, value), attributes={"value": 0.0}, axes=Axes.KEPT),
    Compute("Muls", lambda f, x, value: f.mul(x, value), attributes={"value": 1.0}, axes=Axes.KEPT),
    Compute("AssignAdd", lambda f, x, value: f.add(x, value), like=(0,)),
    Compute("AssignSub", lambda f, x, value: f.sub(x, value), like=(0,), wraps=FLOAT16),
    Compute("AddN", _add_n),
    Compute("BiasAdd", lambda f, x, bias: f.add(x, bias), axes=Axes.KEPT),
    Compute("FusedMulAdd", lambda f, a, b, c: f.add(f.mul(a, b), c), axes=Axes.KEPT),
    Compute("FusedMulAddN", lambda f, a, b, c: f.add(f.mul(a, c), b), axes=Axes.KEPT),
    Compute(
        "FusedMulAddAdd", lambda f, a, b, c, d: f.add(f.add(f.mul(a, b), c), d), axes=Axes.KEPT
    ),
    Compute("Neg", lambda f, x: f.neg(x), wraps=FLOAT16),
    Compute("Cos", _cos, half_in_float=True),
    Compute("Sin", _sin, half_in_float=True),
    Compute("ClipByNormNoDivSum", _clipped_norm, axes=Axes.KEPT),
    Compute("Abs", lambda f, x: f.abs(x)),
    Compute("Square", lambda f, x: f.mul(x, x)),
    Compute("Sqrt", lambda f, x: f.sqrt(x)),
    Compute("Rsqrt", lambda f, x: f.div(1.0, f.sqrt(x))),
    Compute("Reciprocal", lambda f, x: f.div(1.0, x)),
    Compute("Log", _log, attributes=_LOG),
    Compute("Log1p", lambda f, x: f.ln(f.add(x, 1.0))),
    Compute("Pow", _pow, half_in_float=True),
    Compute("Sign", sign, half_in_float=True),
    Compute("Floor", _whole(RoundMode.CAST_FLOOR), half_in_float=True),
    Compute("Ceil", _whole(RoundMode.CAST_CEIL), half_in_float=True),
    Compute("Round", rounded, half_in_float=True, attributes={"decimals": 0}),
    Compute("ClipByValue", clip, like=(0,), axes=Axes.KEPT),
)

KERNELS = kernels_of_table(_ROWS)
