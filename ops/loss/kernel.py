"""Losses without their reduction, one row of a table for each.

Source of the formulas: public operator sources (ops/built-in/tbe/impl).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.schedules.comparisons import step
from npusim.schedules.formula_classes import kernels_of_table
from npusim.schedules.formula_row import Compute
from npusim.schedules.functions import softplus_of_minus
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from npusim.schedules.formula import Formula, Operand, Term


def _cross_entropy_of_logits(f: Formula, x: Term, target: Term) -> Term:
    """max(x, 0) - x target + ln(1 + e**-|x|)."""
    above = f.max(x, 0.0)
    size = f.sub(f.fill(0.0), f.abs(x))
    tail = f.ln(f.add(f.exp(size), 1.0))
    return f.add(f.sub(tail, f.mul(x, target)), above)


def _weighted_cross_entropy(
    f: Formula, x: Term, target: Term, weight: Operand | None, pos_weight: Operand | None
) -> Term:
    """((1 - t) x + (1 + (p - 1) t) (ln(1 + e**-|x|) + max(-x, 0))) w."""
    tail = softplus_of_minus(f, x)
    if pos_weight is not None:
        tail = f.mul(tail, f.add(f.mul(f.add(pos_weight, -1.0), target), 1.0))
    loss = f.add(f.mul(f.add(f.neg(target), 1.0), x), tail)
    return loss if weight is None else f.mul(loss, weight)


def _weighted_cross_entropy_grad(
    f: Formula,
    x: Term,
    target: Term,
    grad: Operand,
    weight: Operand | None,
    pos_weight: Operand | None,
    scale: float,
) -> Term:
    """((p t + 1 - t) s - p t) w grad, where s is 1 / (1 + e**-x)."""
    share = f.div(f.fill(1.0), f.add(f.exp(f.neg(x)), 1.0))
    if pos_weight is None:
        found = f.sub(share, target)
    else:
        positive = f.mul(pos_weight, target)
        whole = f.add(f.sub(positive, target), 1.0)
        found = f.sub(f.mul(whole, share), positive)
    found = found if weight is None else f.mul(found, weight)
    return _scaled(f, f.mul(found, grad), scale)


def _scaled(f: Formula, x: Term, scale: float) -> Term:
    """Times what the reduction divides by."""
    return x if scale == 1 else f.mul(x, scale)


def _divergence_grad(
    f: Formula, grad: Operand, target: Term, log_target: bool, scale: float
) -> Term:
    """-t grad."""
    found = f.neg(f.exp(target) if log_target else target)
    return _scaled(f, f.mul(found, grad), scale)


def _soft_margin_grad(f: Formula, x: Term, target: Term, grad: Operand, scale: float) -> Term:
    """-t grad / (1 + e**(t x))."""
    below = f.add(f.exp(f.mul(x, target)), 1.0)
    return _scaled(f, f.mul(f.div(f.neg(target), below), grad), scale)


def _cross_entropy_of_logits_grad(f: Formula, x: Term, target: Term, grad: Operand) -> Term:
    """(e**x / (1 + e**x) - target) grad."""
    power = f.exp(x)
    share = f.div(power, f.add(power, 1.0))
    difference = f.add(share, f.neg(target))
    return f.mul(difference, grad)


def _mse_grad(f: Formula, x: Term, target: Term, grad: Operand, scale: float) -> Term:
    """2 (x - target) grad, scaled by what the reduction divides by."""
    return f.mul(f.mul(f.sub(x, target), 2.0 * scale), grad)


def _smooths(sigma: float) -> None:
    if not sigma:
        raise KernelError("SmoothL1Loss", "sigma = 0, which is the L1 loss, isn't modelled")


def _smooth_grad(
    f: Formula, x: Term, target: Term, grad: Operand, sigma: float, scale: float
) -> Term:
    """The difference cut off at +-sigma, over sigma."""
    _smooths(sigma)
    cut = f.max(f.min(f.sub(x, target), sigma), -sigma)
    return f.mul(f.mul(cut, scale / sigma), grad)


def _absolute_grad(f: Formula, grad: Operand, x: Term, target: Term, scale: float) -> Term:
    """The sign of the difference times the gradient."""
    difference = f.sub(x, target)
    sign = f.sub(step(f, difference), step(f, f.neg(difference)))
    return _scaled(f, f.mul(sign, grad), scale)


_SIGMA = {"sigma": 1.0}
_SCALE = {"scale": 1.0}
_LOG = {"log_target": False}

_ROWS = (
    Compute("SigmoidCrossEntropyWithLogits", _cross_entropy_of_logits, half_in_float=True),
    Compute("SigmoidCrossEntropyWithLogitsGrad", _cross_entropy_of_logits_grad, half_in_float=True),
    Compute("MseLossGrad", _mse_grad, half_in_float=True, attributes=_SCALE),
    Compute("SmoothL1LossGradV2", _smooth_grad, half_in_float=True, attributes=_SIGMA | _SCALE),
    Compute("L1LossGrad", _absolute_grad, half_in_float=True, typed_by=1, attributes=_SCALE),
    Compute(
        "KlDivLossGrad",
        _divergence_grad,
        half_in_float=True,
        typed_by=1,
        attributes={**_LOG, **_SCALE},
    ),
    Compute("SigmoidCrossEntropyWithLogitsV2", _weighted_cross_entropy, half_in_float=True),
    Compute(
        "SigmoidCrossEntropyWithLogitsGradV2",
        _weighted_cross_entropy_grad,
        half_in_float=True,
        attributes=_SCALE,
    ),
    Compute("SoftMarginLossGrad", _soft_margin_grad, half_in_float=True, attributes=_SCALE),
)

KERNELS = kernels_of_table(_ROWS)
