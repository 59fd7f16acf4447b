"""Gradients of activation functions.

Source of the formulas: public operator sources (ops/built-in/tbe/impl).
"""

from __future__ import annotations

from math import pi, sqrt
from typing import TYPE_CHECKING

from npusim.ops.activation.forward import CUBIC, sigmoid, tanh
from npusim.schedules.comparisons import half_step, step
from npusim.schedules.formula_classes import kernels_of_table
from npusim.schedules.formula_row import Compute
from npusim.values.dtypes import FLOAT16

if TYPE_CHECKING:
    from npusim.schedules.formula import Formula, Term

_SLOPE = sqrt(2.0 / pi)


def _relu_grad(f: Formula, grad: Term, features: Term) -> Term:
    """grad where the feature is positive: a product with ones and zeros made by arithmetic."""
    chosen = half_step(f, features) if f.dtype is FLOAT16 else step(f, features)
    return f.mul(grad, chosen)


def gelu_grad(f: Formula, grad: Term, x: Term) -> Term:
    """The derivative of the tanh form."""
    inner = f.add(f.mul(f.mul(f.mul(x, x), x), CUBIC), x)
    t = tanh(f, f.mul(inner, _SLOPE))
    slope = f.add(f.mul(f.mul(x, x), 1.5 * _SLOPE * CUBIC), 0.5 * _SLOPE)
    curved = f.mul(f.add(f.neg(f.mul(t, t)), 1.0), x)
    derivative = f.add(f.mul(f.add(t, 1.0), 0.5), f.mul(slope, curved))
    return f.mul(grad, derivative)


def _gelu_grad(f: Formula, grad: Term, x: Term, y: Term) -> Term:
    """The same; y takes part with a factor of zero, as on the device."""
    return f.add(gelu_grad(f, grad, x), f.mul(y, 0.0))


def _silu_grad(f: Formula, grad: Term, x: Term) -> Term:
    """s (1 + x (1 - s)) grad with s = sigmoid(x)."""
    s = sigmoid(f, x)
    inner = f.add(f.mul(f.add(f.neg(s), 1.0), x), 1.0)
    return f.mul(f.mul(s, inner), grad)


def _swish_grad(f: Formula, grad: Term, x: Term, y: Term, scale: float) -> Term:
    """(scale y + s (1 - scale y)) grad with s = sigmoid(scale x)."""
    s = sigmoid(f, f.mul(x, scale))
    scaled = f.mul(y, scale)
    return f.mul(f.add(scaled, f.mul(s, f.add(f.neg(scaled), 1.0))), grad)


_ROWS = (
    Compute("ReluGrad", _relu_grad),
    Compute("SigmoidGrad", lambda f, y, grad: f.mul(f.sub(y, f.mul(y, y)), grad)),
    Compute(
        "TanhGrad",
        lambda f, y, grad: f.mul(f.add(f.neg(f.mul(y, y)), 1.0), grad),
        half_in_float=True,
    ),
    Compute("GeluGrad", _gelu_grad, half_in_float=True),
    Compute("SiluGrad", _silu_grad, half_in_float=True),
    Compute("SwishGrad", _swish_grad, half_in_float=True, attributes={"scale": 1.0}),
)

KERNELS = kernels_of_table(_ROWS)
