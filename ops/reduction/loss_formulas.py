"""Losses that their kernels fold, where they are asked to: one row of a table for each.

Source of the formulas: public operator sources (ops/built-in/tbe/impl).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.schedules.formula_row import Compute
from npusim.schedules.functions import softplus_of_minus
from npusim.values.dtypes import LEAST_NORMAL
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from npusim.schedules.formula import Formula, Operand, Term

_EPSILON = 1e-12  # what logarithms are kept away from
_SIGMA = {"sigma": 1.0}
_LOG = {"log_target": False}


def _absolute(f: Formula, x: Term, target: Term) -> Term:
    return f.abs(f.sub(x, target))


def _divergence(f: Formula, x: Term, target: Term, log_target: bool) -> Term:
    """t (ln t - x), nothing where t is; e**t (t - x) where t is a logarithm."""
    if log_target:
        return f.mul(f.exp(target), f.sub(target, x))
    known = f.max(target, 0.0)
    return f.mul(known, f.sub(f.ln(f.max(known, LEAST_NORMAL)), x))


def _soft_margin(f: Formula, x: Term, target: Term) -> Term:
    """ln(1 + e**(-t x))."""
    return softplus_of_minus(f, f.mul(x, target))


def _binary_cross_entropy(f: Formula, x: Term, y: Term, weight: Operand | None) -> Term:
    """-(y ln x + (1 - y) ln(1 - x)) weight, logarithms of at least epsilon."""
    first = f.mul(y, f.ln(f.max(x, _EPSILON)))
    rest = f.ln(f.max(f.add(f.neg(x), 1.0), _EPSILON))
    second = f.mul(f.add(f.neg(y), 1.0), rest)
    loss = f.neg(f.add(first, second))
    return loss if weight is None else f.mul(loss, weight)


def _mse(f: Formula, x: Term, target: Term) -> Term:
    difference = f.sub(x, target)
    return f.mul(difference, difference)


def _smooth(f: Formula, x: Term, target: Term, sigma: float) -> Term:
    """d**2 / (2 sigma) below sigma, |d| - sigma / 2 above."""
    if not sigma:
        raise KernelError("SmoothL1Loss", "sigma = 0, which is the L1 loss, isn't modelled")
    size = f.abs(f.sub(x, target))
    near = f.min(size, sigma)
    return f.add(f.mul(f.mul(near, near), 0.5 / sigma), f.sub(size, near))


FOLDED = (
    Compute("BinaryCrossEntropy", _binary_cross_entropy, half_in_float=True),
    Compute("MseLoss", _mse, half_in_float=True),
    Compute("MSELossV2", _mse, half_in_float=True, generated=False),
    Compute("SmoothL1LossV2", _smooth, half_in_float=True, attributes=_SIGMA),
    Compute("LpLoss", _absolute, half_in_float=True),
    Compute("KLDivV2", _divergence, half_in_float=True, attributes=_LOG),
    Compute("SoftMarginLoss", _soft_margin, half_in_float=True),
)
