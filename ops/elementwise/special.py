"""Error functions, and sums and products with logarithms, one row of a table for each.

Source of the formulas: public operator sources (ops/built-in/tbe/impl/dynamic); the error
functions are those of Ascend C's library, right to float32.
"""

from __future__ import annotations

from math import log, pi, sqrt
from typing import TYPE_CHECKING

from npusim.ascendc import CmpMode
from npusim.ops.elementwise.arithmetic import sign
from npusim.schedules.formula_classes import kernels_of_table
from npusim.schedules.formula_row import Compute
from npusim.schedules.functions import erf, polynomial
from npusim.values.arithmetic import inverse

if TYPE_CHECKING:
    from collections.abc import Callable

    from npusim.schedules.formula import Formula, Operand, Term

# erfc(x) = t e**(-x**2 + P(t)) with t = 1 / (1 + x / 2): Press et al., Numerical Recipes, 6.2.
_ERFC = (
    *(-1.26551223, 1.00002368, 0.37409196, 0.09678418, -0.18628806, 0.27886807, -1.13520398),
    *(1.48851587, -0.82215223, 0.17087277),
)
_CENTRAL = 0.7  # where erfinv starts from a series of x, else from one of the logarithm of 1 - |x|
_NEAR_ABOVE = (0.886226899, -1.645349621, 0.914624893, -0.140543331)
_NEAR_BELOW = (1.0, -2.118377725, 1.442710462, -0.329097515, 0.012229801)
_FAR_ABOVE = (-1.970840454, -1.624906493, 3.429567803, 1.641345311)
_FAR_BELOW = (1.0, 3.543889200, 1.637067800)


def _erfc(f: Formula, x: Term) -> Term:
    size = f.abs(x)
    t = f.div(f.fill(1.0), f.add(f.mul(size, 0.5), 1.0))
    exponent = f.sub(polynomial(f, t, _ERFC), f.mul(size, size))
    tail = f.mul(t, f.exp(exponent))
    return f.select(f.compare(x, 0.0, CmpMode.GE), tail, f.add(f.neg(tail), 2.0))


def _erfinv(f: Formula, y: Term) -> Term:
    """A quotient of series, made better by Newton's rule twice."""
    size, square = f.abs(y), f.mul(y, y)
    near = f.mul(y, polynomial(f, square, _NEAR_ABOVE))
    near = f.div(near, polynomial(f, square, _NEAR_BELOW))
    root = f.sqrt(f.abs(f.ln(f.mul(f.add(f.neg(size), 1.0), 0.5))))
    far = f.div(polynomial(f, root, _FAR_ABOVE), polynomial(f, root, _FAR_BELOW))
    far = f.mul(far, sign(f, y))
    x = f.select(f.compare(size, _CENTRAL, CmpMode.LE), near, far)
    for _ in range(2):
        slope = f.mul(f.exp(f.neg(f.mul(x, x))), 2.0 / sqrt(pi))
        x = f.sub(x, f.div(f.sub(erf(f, x), y), slope))
    ends = f.div(
        y, f.add(f.neg(size), 1.0)
    )  # infinite at one and minus one, where the series isn't
    return f.select(f.compare(size, 1.0, CmpMode.EQ), ends, x)


def _log_of_sum(f: Formula, a: Term, b: Term, base: float) -> Term:
    """The logarithm of base**a + base**b, with the larger of both outside; base -1 is e."""
    unit = 1.0 if base <= 0.0 else log(base)
    apart = f.mul(f.abs(f.sub(a, b)), -unit)
    tail = f.ln(f.add(f.exp(apart), 1.0))
    return f.add(f.max(a, b), f.mul(tail, inverse(unit)) if unit != 1.0 else tail)


def _times_log(f: Formula, x: Operand, y: Operand, more: float) -> Term:
    """x ln(y + more), which is zero where x is."""
    factor, number = f.tile(x), f.tile(y)
    product = f.mul(factor, f.ln(f.add(number, more) if more else number))
    return f.select(f.compare(factor, 0.0, CmpMode.EQ), f.mul(factor, 0.0), product)


def _row(op_type: str, formula: Callable[..., Term]) -> Compute:
    return Compute(op_type, formula, half_in_float=True)


_ROWS = (
    _row("Erf", erf),
    _row("Erfc", _erfc),
    _row("Erfinv", _erfinv),
    _row("Expm1", lambda f, x: f.add(f.exp(x), -1.0)),
    Compute("LogAddExp", _log_of_sum, half_in_float=True, attributes={"base": -1.0}),
    _row("Xlogy", lambda f, x, y: _times_log(f, x, y, 0.0)),
    _row("Xlog1py", lambda f, x, y: _times_log(f, x, y, 1.0)),
)

KERNELS = kernels_of_table(_ROWS)
