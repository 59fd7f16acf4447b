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
_LEAST = 2.0**-126  # the smallest normal number


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
    tail = _softplus_of_minus(f, x)
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


def _weighted_cross_entropy_target_grad(
    f: Formula,
    x: Term,
    grad: Operand,
    weight: Operand | None,
    pos_weight: Operand | None,
    scale: float,
) -> Term:
    """((p - 1) (ln(1 + e**-|x|) + max(-x, 0)) - x) w grad."""
    found = f.neg(x)
    if pos_weight is not None:
        found = f.add(found, f.mul(f.add(pos_weight, -1.0), _softplus_of_minus(f, x)))
    found = found if weight is None else f.mul(found, weight)
    return _scaled(f, f.mul(found, grad), scale)


def _softplus_of_minus(f: Formula, x: Term) -> Term:
    """ln(1 + e**-x), without overflow."""
    size = f.sub(f.fill(0.0), f.abs(x))
    return f.add(f.ln(f.add(f.exp(size), 1.0)), f.max(f.neg(x), 0.0))


def _scaled(f: Formula, x: Term, scale: float) -> Term:
    """Times what the reduction divides by."""
    return x if scale == 1 else f.mul(x, scale)


def _absolute(f: Formula, x: Term, target: Term) -> Term:
    return f.abs(f.sub(x, target))


def _divergence(f: Formula, x: Term, target: Term, log_target: bool) -> Term:
    """t (ln t - x), nothing where t is; e**t (t - x) where t is a logarithm."""
    if log_target:
        return f.mul(f.exp(target), f.sub(target, x))
    known = f.max(target, 0.0)
    return f.mul(known, f.sub(f.ln(f.max(known, _LEAST)), x))


def _divergence_grad(
    f: Formula, grad: Operand, target: Term, log_target: bool, scale: float
) -> Term:
    """-t grad."""
    found = f.neg(f.exp(target) if log_target else target)
    return _scaled(f, f.mul(found, grad), scale)


def _divergence_target_grad(
    f: Formula, grad: Operand, x: Term, target: Term, log_target: bool, scale: float
) -> Term:
    """(ln t + 1 - x) grad, nothing where t is; e**t (t - x + 1) grad where t is a logarithm."""
    if log_target:
        found = f.mul(f.exp(target), f.add(f.sub(target, x), 1.0))
    else:
        slope = f.sub(f.add(f.ln(f.max(target, _LEAST)), 1.0), x)
        found = f.mul(slope, step(f, target))
    return _scaled(f, f.mul(found, grad), scale)


def _soft_margin(f: Formula, x: Term, target: Term) -> Term:
    """ln(1 + e**(-t x))."""
    return _softplus_of_minus(f, f.mul(x, target))


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
    Compute("BinaryCrossEntropy", _binary_cross_entropy, half_in_float=True),
    Compute("MseLoss", _mse, half_in_float=True),
    Compute("MseLossGrad", _mse_grad, half_in_float=True, attributes=_SCALE),
    Compute("SmoothL1LossV2", _smooth, half_in_float=True, attributes=_SIGMA),
    Compute("SmoothL1LossGradV2", _smooth_grad, half_in_float=True, attributes=_SIGMA | _SCALE),
    Compute("LpLoss", _absolute, half_in_float=True),
    Compute("L1LossGrad", _absolute_grad, half_in_float=True, typed_by=1, attributes=_SCALE),
    Compute("KLDivV2", _divergence, half_in_float=True, attributes=_LOG),
    Compute(
        "KlDivLossGrad",
        _divergence_grad,
        half_in_float=True,
        typed_by=1,
        attributes={**_LOG, **_SCALE},
    ),
    Compute(
        "KlDivTargetGrad",
        _divergence_target_grad,
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
    Compute(
        "SigmoidCrossEntropyWithLogitsTargetGrad",
        _weighted_cross_entropy_target_grad,
        half_in_float=True,
        attributes=_SCALE,
    ),
    Compute("SoftMarginLoss", _soft_margin, half_in_float=True),
    Compute("SoftMarginLossGrad", _soft_margin_grad, half_in_float=True, attributes=_SCALE),
)

KERNELS = kernels_of_table(_ROWS)
