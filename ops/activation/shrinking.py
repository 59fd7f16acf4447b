"""Activation functions that are straight in parts, smooth ones with limits, and their gradients.

Source of the formulas: public operator sources (ops/built-in/tbe/impl); parameters as on the
pages of ops-nn/activation.
"""

from __future__ import annotations

from math import pi, sqrt
from typing import TYPE_CHECKING

from npusim.ascendc import CmpMode
from npusim.ops.activation.forward import SELU_ALPHA, SELU_SCALE, sigmoid
from npusim.ops.activation.gradients import gelu_grad
from npusim.schedules.formula_classes import kernels_of_table
from npusim.schedules.formula_row import Compute
from npusim.schedules.functions import erf
from npusim.values.arithmetic import inverse

if TYPE_CHECKING:
    from npusim.schedules.formula import Formula, Operand, Term


def _where(f: Formula, x: Term, mode: CmpMode, limit: float, a: Operand, b: Operand) -> Term:
    """a where x <mode> the limit, else b."""
    return f.select(f.compare(x, limit, mode), f.tile(a), f.tile(b))


def _zero(f: Formula) -> Term:
    return f.fill(0.0)


# Functions ---------------------------------------------------------------------------------------


def _hard_shrink(f: Formula, x: Term, lambd: float) -> Term:
    """0 where x is no further from zero than lambda, else x, which NaN is too."""
    return _where(f, f.abs(x), CmpMode.LE, lambd, _zero(f), x)


def _shrink(f: Formula, x: Term, lambd: float, bias: float) -> Term:
    """x moved towards zero by the bias where it is beyond lambda, else 0."""
    above = _where(f, x, CmpMode.GT, lambd, f.add(x, -bias), _zero(f))
    return _where(f, x, CmpMode.LT, -lambd, f.add(x, bias), above)


def _soft_shrink(f: Formula, x: Term, lambd: float) -> Term:
    """x moved towards zero by lambda, as far as zero."""
    return f.add(f.max(f.add(x, -lambd), 0.0), f.min(f.add(x, lambd), 0.0))


def _log_sigmoid(f: Formula, x: Term) -> Term:
    """min(x, 0) - ln(1 + e**-|x|)."""
    return f.sub(f.min(x, 0.0), f.ln(f.add(f.exp(f.neg(f.abs(x))), 1.0)))


def _celu(f: Formula, x: Term, alpha: float) -> Term:
    """x above zero, alpha (e**(x / alpha) - 1) below."""
    power = f.exp(f.mul(f.min(x, 0.0), inverse(alpha)))
    return f.add(f.max(x, 0.0), f.mul(f.add(power, -1.0), alpha))


def _heaviside(f: Formula, x: Term, value: Operand) -> Term:
    """0 below zero, 1 above, the value in between."""
    step = _where(f, x, CmpMode.GT, 0.0, f.fill(1.0), _zero(f))
    return _where(f, x, CmpMode.EQ, 0.0, value, step)


def _prelu(f: Formula, x: Term, weight: Operand) -> Term:
    """x above zero, else x times the weight, in x's own type.

    Atlas A2 and later select. Source: tbe/impl/dynamic/prelu.py, whose case is whether there is a
    vcopy.
    """
    if f.profile.intrinsics.vector.get("vcopy"):
        return _where(f, x, CmpMode.GT, 0.0, x, f.mul(x, weight))
    return f.add(f.max(x, 0.0), f.mul(f.min(x, 0.0), weight))


# Gradients ---------------------------------------------------------------------------------------


def _between(f: Formula, grad: Term, x: Term, low: float, high: float) -> Term:
    """The gradient where x is between both, else 0."""
    below = _where(f, x, CmpMode.LT, high, grad, _zero(f))
    return _where(f, x, CmpMode.GT, low, below, _zero(f))


def _hard_sigmoid_grad(f: Formula, grad: Term, x: Term, alpha: float, beta: float) -> Term:
    """alpha grad where the function rises."""
    return _between(f, f.mul(grad, alpha), f.add(f.mul(x, alpha), beta), 0.0, 1.0)


def _hard_shrink_grad(f: Formula, grad: Term, x: Term, lambd: float) -> Term:
    """grad times 0 where x is no further from zero than lambda, else times 1."""
    return f.mul(grad, _where(f, f.abs(x), CmpMode.LE, lambd, _zero(f), f.fill(1.0)))


def _soft_shrink_grad(f: Formula, grad: Term, x: Term, lambd: float) -> Term:
    """0 where x is no further from zero than lambda, else grad, which it is of NaN too."""
    return _where(f, f.abs(x), CmpMode.LE, lambd, _zero(f), grad)


def _hard_swish_grad(f: Formula, grad: Term, x: Term, below: CmpMode, above: CmpMode) -> Term:
    """grad times x / 3 + 1/2 between -3 and 3, times 0 below, times 1 above."""
    slope = f.add(f.mul(x, 1.0 / 3.0), 0.5)
    slope = _where(f, x, below, -3.0, _zero(f), slope)
    slope = _where(f, x, above, 3.0, f.fill(1.0), slope)
    return f.mul(grad, slope)


def _leaky_relu_grad(f: Formula, grad: Term, x: Term, negative_slope: float) -> Term:
    return _where(f, x, CmpMode.GT, 0.0, grad, f.mul(grad, negative_slope))


def _mish_grad(f: Formula, grad: Term, x: Term, given: Term | None = None) -> Term:
    """grad (t + x sigmoid(x) (1 - t**2)) with t = tanh(ln(1 + e**x))."""
    t = given
    if t is None:
        power = f.add(f.exp(f.min(x, _MISH_IS_X)), 1.0)
        square = f.mul(power, power)
        t = f.div(f.add(square, -1.0), f.add(square, 1.0))
    flat = f.add(f.neg(f.mul(t, t)), 1.0)
    return f.mul(grad, f.add(t, f.mul(f.mul(x, sigmoid(f, x)), flat)))


_MISH_IS_X = 20.0  # (1 + e**x)**2 is finite up to 44, t is one from 9 on


def _selu_grad(f: Formula, grad: Term, y: Term) -> Term:
    below = f.mul(grad, f.add(y, SELU_SCALE * SELU_ALPHA))
    return _where(f, y, CmpMode.GT, 0.0, f.mul(grad, SELU_SCALE), below)


def _celu_or_elu_grad(
    f: Formula,
    grad: Term,
    activation: Term,
    alpha: float,
    scale: float,
    input_scale: float,
    is_result: bool,
) -> Term:
    """scale grad above zero; below by the function's result, or by what it was given."""
    if is_result:
        slope = f.mul(f.add(activation, alpha * scale), input_scale)
    else:
        power = f.exp(f.mul(f.min(activation, 0.0), input_scale))
        slope = f.mul(power, alpha * scale * input_scale)
    return _where(f, activation, CmpMode.GT, 0.0, f.mul(grad, scale), f.mul(grad, slope))


def _softplus_grad(f: Formula, grad: Term, x: Term, beta: float, threshold: float) -> Term:
    """grad sigmoid(beta x), grad where beta x is above the threshold."""
    scaled = f.mul(x, beta)
    return _where(f, scaled, CmpMode.GT, threshold, grad, f.mul(grad, sigmoid(f, scaled)))


def _gelu_grad_v2(f: Formula, grad: Term, x: Term, approximate: str) -> Term:
    """The derivative of x cdf(x), of the normal distribution, or of the form by tanh."""
    if approximate == "tanh":
        return gelu_grad(f, grad, x)
    share = f.mul(f.add(erf(f, f.mul(x, sqrt(0.5))), 1.0), 0.5)
    density = f.mul(f.exp(f.mul(f.mul(x, x), -0.5)), 1.0 / sqrt(2.0 * pi))
    return f.mul(grad, f.add(share, f.mul(x, density)))


def _fast_gelu_grad(f: Formula, grad: Term, x: Term) -> Term:
    """The derivative of x sigmoid(1.702 x)."""
    s = sigmoid(f, f.mul(x, 1.702))
    rest = f.mul(f.mul(x, 1.702), f.add(f.neg(s), 1.0))
    return f.mul(grad, f.mul(s, f.add(rest, 1.0)))


_LAMBDA = {"lambd": 0.5}
_ELU = {"alpha": 1.0, "scale": 1.0, "input_scale": 1.0, "is_result": True}
_SOFTPLUS = {"beta": 1.0, "threshold": 20.0}


_ROWS = (
    Compute("CeluV2", _celu, half_in_float=True, attributes={"alpha": 1.0}),
    Compute("HardShrink", _hard_shrink, attributes=_LAMBDA),
    Compute("Heaviside", _heaviside),
    Compute("LogSigmoid", _log_sigmoid, half_in_float=True),
    Compute("PRelu", _prelu, like=(0,)),
    Compute("Shrink", _shrink, attributes={"lambd": 0.5, "bias": 0.0}),
    Compute("SoftShrink", _soft_shrink, half_in_float=True, attributes=_LAMBDA),
    Compute("SquaredRelu", lambda f, x: f.mul(f.relu(x), f.relu(x)), half_in_float=True),
    Compute(
        "Threshold",
        lambda f, x, threshold, value: _where(f, x, CmpMode.LE, threshold, f.fill(value), x),
        attributes={"threshold": 0.0, "value": 0.0},
    ),
    Compute("EluGradV2", _celu_or_elu_grad, half_in_float=True, attributes=_ELU),
    Compute("FastGeluGrad", _fast_gelu_grad, half_in_float=True),
    Compute("GeluGradV2", _gelu_grad_v2, half_in_float=True, attributes={"approximate": "none"}),
    Compute(
        "HardShrinkGrad",
        _hard_shrink_grad,
        attributes=_LAMBDA,
    ),
    Compute(
        "HardSigmoidGrad",
        _hard_sigmoid_grad,
        half_in_float=True,
        attributes={"alpha": 1.0 / 6.0, "beta": 0.5},
    ),
    Compute(
        "HardSwishGrad",
        lambda f, grad, x: _hard_swish_grad(f, grad, x, CmpMode.LT, CmpMode.GT),
        half_in_float=True,
    ),
    Compute(  # -3 and 3 are outside by its page, inside by that of the first one
        "HardSwishGradV2",
        lambda f, grad, x: _hard_swish_grad(f, grad, x, CmpMode.LE, CmpMode.GE),
        half_in_float=True,
    ),
    Compute(
        "HardtanhGrad",
        lambda f, x, grad, min_val, max_val: _between(f, grad, x, min_val, max_val),
        attributes={"min_val": -1.0, "max_val": 1.0},
    ),
    Compute("LeakyReluGrad", _leaky_relu_grad, attributes={"negative_slope": 0.01}),
    Compute(
        "LogSigmoidGrad",
        lambda f, grad, x: f.mul(grad, sigmoid(f, f.neg(x))),
        half_in_float=True,
    ),
    Compute("MishGrad", _mish_grad, half_in_float=True),
    Compute("SeluGrad", _selu_grad, half_in_float=True),
    Compute(
        "SoftShrinkGrad",
        _soft_shrink_grad,
        attributes=_LAMBDA,
    ),
    Compute("SoftplusV2Grad", _softplus_grad, half_in_float=True, attributes=_SOFTPLUS),
    Compute(
        "ThresholdGradV2D",
        lambda f, grad, x, threshold: _where(f, x, CmpMode.GT, threshold, grad, _zero(f)),
        half_in_float=True,
        attributes={"threshold": 0.0},
    ),
)

KERNELS = kernels_of_table(_ROWS)
