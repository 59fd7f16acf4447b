"""Losses without their reduction, one row of a table for each.

Source of the formulas: public operator sources (ops/built-in/tbe/impl).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.schedules.comparisons import step
from npusim.schedules.formula_kernel import Compute, kernels_of_table
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from npusim.schedules.formula import Formula, Operand, Term

_EPSILON = 1e-12  # what logarithms are kept away from


def _cross_entropy_of_logits(f: Formula, x: Term, target: Term) -> Term:
    """max(x, 0) - x target + ln(1 + e**-|x|)."""
    above = f.max(x, 0.0)
    size = f.sub(f.fill(0.0), f.abs(x))
    tail = f.ln(f.add(f.exp(size), 1.0))
    return f.add(f.sub(tail, f.mul(x, target)), above)


def _cross_entropy_of_logits_grad(f: Formula, x: Term, target: Term, grad: Operand) -> Term:
    """(e**x / (1 + e**x) - target) grad."""
    power = f.exp(x)
    share = f.div(power, f.add(power, 1.0))
    difference = f.add(share, f.neg(target))
    return f.mul(difference, grad)


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


def _mse_grad(f: Formula, x: Term, target: Term, grad: Operand, scale: float) -> Term:
    """2 (x - target) grad, scaled by what the reduction divides by."""
    return f.mul(f.mul(f.sub(x, target), 2.0 * scale), grad)


def _smooths(sigma: float) -> None:
    if not sigma:
        raise KernelError("SmoothL1Loss", "sigma = 0, which is the L1 loss, isn't modelled")


def _smooth(f: Formula, x: Term, target: Term, sigma: float) -> Term:
    """d**2 / (2 sigma) below sigma, |d| - sigma / 2 above."""
    _smooths(sigma)
    size = f.abs(f.sub(x, target))
    near = f.min(size, sigma)
    return f.add(f.mul(f.mul(near, near), 0.5 / sigma), f.sub(size, near))


def _smooth_grad(f: Formula, x: Term, target: Term, grad: Operand, sigma: float) -> Term:
    """The difference cut off at +-sigma, over sigma."""
    _smooths(sigma)
    cut = f.max(f.min(f.sub(x, target), sigma), -sigma)
    return f.mul(f.mul(cut, 1.0 / sigma), grad)


def _absolute_grad(f: Formula, grad: Operand, x: Term, target: Term) -> Term:
    """The sign of the difference times the gradient."""
    difference = f.sub(x, target)
    sign = f.sub(step(f, difference), step(f, f.neg(difference)))
    return f.mul(sign, grad)


_SIGMA = {"sigma": 1.0}

_ROWS = (
    Compute("SigmoidCrossEntropyWithLogits", _cross_entropy_of_logits, half_in_float=True),
    Compute("SigmoidCrossEntropyWithLogitsGrad", _cross_entropy_of_logits_grad, half_in_float=True),
    Compute("BinaryCrossEntropy", _binary_cross_entropy, half_in_float=True),
    Compute("MseLoss", _mse, half_in_float=True),
    Compute("MseLossGrad", _mse_grad, half_in_float=True, attributes={"scale": 1.0}),
    Compute("SmoothL1LossV2", _smooth, half_in_float=True, attributes=_SIGMA),
    Compute("SmoothL1LossGradV2", _smooth_grad, half_in_float=True, attributes=_SIGMA),
    Compute("L1LossGrad", _absolute_grad, half_in_float=True, typed_by=1),
)

KERNELS = kernels_of_table(_ROWS)
