"""Functions that formulas are made of: polynomials, the error function.

Source of the coefficients: Ascend C's library (Erf), right to float32.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from npusim.schedules.formula import Formula, Term

_ERF_IS_ONE = 3.92
# x P(x**2) / Q(x**2), lowest power first.
_ERF_ABOVE = (29639.384698, 5063.7915060, 1393.8061484, 101.62808918, 7.5517016694, 0.053443748819)
_ERF_BELOW = (26267.224157, 13243.365831, 3023.1248150, 398.56963806, 31.212858877, 1.0)


def polynomial(f: Formula, x: Term, factors: Sequence[float]) -> Term:
    """The sum of factors[n] x**n, by Horner's rule."""
    *rest, last = factors
    total = f.mul(x, last)
    for factor in reversed(rest[1:]):
        total = f.mul(f.add(total, factor), x)
    return f.add(total, rest[0])


def erf(f: Formula, x: Term) -> Term:
    """x P(x**2) / Q(x**2), where |x| is at most what the result is one from."""
    x = f.min(f.max(x, -_ERF_IS_ONE), _ERF_IS_ONE)
    square = f.mul(x, x)
    above = f.mul(polynomial(f, square, _ERF_ABOVE), x)
    return f.div(above, polynomial(f, square, _ERF_BELOW))


def softplus_of_minus(f: Formula, x: Term) -> Term:
    """ln(1 + e**-x), without overflow."""
    size = f.sub(f.fill(0.0), f.abs(x))
    return f.add(f.ln(f.add(f.exp(size), 1.0)), f.max(f.neg(x), 0.0))
