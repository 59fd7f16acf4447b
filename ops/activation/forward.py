"""Activation functions, one row of a table for each: the vendor's formulas.

Half types are computed in float32 where the formula takes exponentials. Source of the formulas:
public operator sources (ops/built-in/tbe/impl, static and dynamic).
"""

from __future__ import annotations

from math import pi, sqrt
from typing import TYPE_CHECKING

from npusim.ascendc import CmpMode, Core
from npusim.schedules.formula_classes import kernels_of_table
from npusim.schedules.formula_row import Compute
from npusim.schedules.functions import polynomial
from npusim.values.arithmetic import inverse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from npusim.schedules.formula import Formula, Term

HIGH_PERFORMANCE = "high_performance"
"""What ATC calls the faster one of an operator's implementations."""

CUBIC = 0.044715  # of the tanh form of Gelu
_GELU_SLOPE = 2.0 * sqrt(2.0 / pi)
SELU_SCALE, SELU_ALPHA = 1.0507009873554805, 1.6732632423543772


def sigmoid(f: Formula, x: Term) -> Term:
    """1 / (1 + e**-x), the quotient of a tile of ones."""
    total = f.add(f.exp(f.neg(x)), 1.0)
    return f.div(f.fill(1.0), total)


_SIGMOID_SERIES = (0.229270815, -0.0102459298, 0.000207697530)


def _sigmoid(f: Formula, x: Term, impl_mode: str) -> Term:
    """The faster one is half of a polynomial's odd part, cut off at 0 and 1, in x's own type."""
    if impl_mode != HIGH_PERFORMANCE:
        return sigmoid(f, x)
    odd = f.mul(polynomial(f, f.mul(x, x), _SIGMOID_SERIES), x)
    return f.max(f.min(f.add(odd, 0.5), 1.0), 0.0)


def tanh(f: Formula, x: Term) -> Term:
    """(1 - e**(-2|x|)) / (1 + e**(-2|x|)) with the sign of x."""
    size = f.abs(x)
    power = f.exp(f.mul(size, -2.0))
    above = f.sub(x, f.mul(power, x))
    below = f.mul(f.add(power, 1.0), f.add(size, 2.0**-126))
    return f.div(above, below)


_TANH_SERIES = (1.0, -0.333327681, 0.133152977, -0.0523039624, 0.0157396831)
_TANH_NEAR, _TANH_IS_ONE, _TANH_END = 0.55, 20.0, 8.8


def _tanh(f: Formula, x: Term) -> Term:
    """As its operator computes it, which each generation does in its own way.

    Atlas A2: a series below 0.55, beyond it (e**2x - 1) / (e**2x + 1), as 310P has it everywhere.
    """
    if not f.masks_in_memory:
        return tanh(f, x)
    if not f.profile.features.inf_nan:
        return _by_exponential(f, f.max(f.min(x, _TANH_END), -_TANH_END))
    size = f.abs(x)
    near = f.mul(polynomial(f, f.mul(x, x), _TANH_SERIES), x)
    far = _by_exponential(f, f.min(x, _TANH_IS_ONE))
    return f.select(f.compare(size, _TANH_NEAR, CmpMode.LT), near, far)


def _by_exponential(f: Formula, x: Term) -> Term:
    power = f.exp(f.mul(x, 2.0))
    return f.div(f.add(power, -1.0), f.add(power, 1.0))


def gelu(f: Formula, x: Term, approximate: object) -> Term:
    """x / (1 + e**-y) with y = 2 sqrt(2 / pi) (x + 0.044715 x**3).

    Where an exponential can't become infinite, both it and its quotient are kept below one.
    """
    del approximate  # the device computes the tanh form for both
    inner = f.add(x, f.mul(f.mul(f.mul(x, x), x), CUBIC))
    if f.profile.features.inf_nan:
        return f.div(x, f.add(f.exp(f.mul(inner, -_GELU_SLOPE)), 1.0))
    y = f.mul(inner, _GELU_SLOPE)
    right = f.exp(f.min(y, 0.0))
    below = f.add(f.exp(f.mul(f.abs(y), -1.0)), 1.0)
    return f.mul(f.div(x, below), right)


def _fast_gelu(f: Formula, x: Term) -> Term:
    """x e**(0.851 (x - |x|)) / (1 + e**(-1.702 |x|))."""
    size = f.abs(x)
    below = f.add(f.exp(f.mul(size, -1.702)), 1.0)
    right = f.exp(f.mul(f.sub(x, size), 0.851))
    return f.div(f.mul(x, right), below)


def _fast_gelu_v2(f: Formula, x: Term) -> Term:
    """x (sign(x) (0.5 - 0.1444 (min(0.7071 |x|, 1.769) - 1.769)**2) + 0.5), without exponentials.

    The sign is a quotient whose divisor stays a normal number of float16.
    """
    size = f.add(f.min(f.abs(f.mul(x, 0.7071)), 1.769), -1.769)
    half = f.add(f.mul(f.mul(size, size), -0.1444), 0.5)
    sign = f.mul(x, f.reciprocal(f.max(f.abs(x), 2.0**-14)))
    return f.mul(x, f.add(f.mul(half, sign), 0.5))


def _mish(f: Formula, x: Term, impl_mode: str) -> Term:
    """x tanh(ln(1 + e**x)), with exponentials of numbers below zero on both sides of it.

    Kernels that are compiled for one shape have x (1 - 2 / (1 + (1 + e**x)**2)) in x's own type.
    """
    if impl_mode == HIGH_PERFORMANCE:
        power = f.add(f.exp(x), 1.0)
        share = f.mul(f.reciprocal(f.add(f.mul(power, power), 1.0)), -2.0)
        return f.mul(x, f.add(share, 1.0))
    zero = f.fill(0.0)
    positive = f.compare(x, zero, CmpMode.GT)
    once, twice = (f.mul(f.exp(f.mul(x, rate)), 2.0) for rate in (-1.0, -2.0))
    above = f.add(once, 1.0)
    below = f.add(f.add(once, twice), 1.0)
    right = f.select(positive, f.div(above, below), zero)
    negative = f.compare(x, zero, CmpMode.LE)
    sum_ = f.add(f.mul(f.exp(x), 2.0), f.exp(f.mul(x, 2.0)))
    left = f.select(negative, f.div(sum_, f.add(sum_, 2.0)), zero)
    return f.mul(x, f.add(right, left))


def elu(f: Formula, x: Term, alpha: float, scale: float = 1.0, input_scale: float = 1.0) -> Term:
    """scale (max(x, 0) + alpha (e**(input_scale min(x, 0)) - 1))."""
    rest = f.min(x, 0.0)
    below = f.add(f.exp(f.mul(rest, input_scale) if input_scale != 1.0 else rest), -1.0)
    whole = f.add(f.max(x, 0.0), f.mul(below, alpha))
    return f.mul(whole, scale) if scale != 1.0 else whole


def _softplus(f: Formula, x: Term) -> Term:
    """ln(1 + e**-|x|) + max(x, 0)."""
    tail = f.ln(f.add(f.exp(f.mul(f.abs(x), -1.0)), 1.0))
    return f.add(tail, f.max(x, 0.0))


def _softplus_v2(f: Formula, x: Term, beta: float, threshold: float) -> Term:
    """ln(1 + e**(beta x)) / beta, and x where beta x is above the threshold."""
    scaled = f.mul(x, beta) if beta != 1.0 else x
    smooth = _softplus(f, scaled)
    smooth = f.mul(smooth, inverse(beta)) if beta != 1.0 else smooth
    if threshold >= _SOFTPLUS["threshold"]:  # where both are equal in float32
        return smooth
    return f.select(f.compare(scaled, threshold, CmpMode.GT), x, smooth)


def _hard_swish(f: Formula, x: Term) -> Term:
    """x min(max(x + 3, 0), 6) / 6."""
    gate = f.min(f.max(f.add(x, 3.0), 0.0), 6.0)
    return f.mul(f.mul(x, gate), 1.0 / 6.0)


def _leaky_relu(f: Formula, x: Term, negative_slope: float) -> Term:
    """By the chip's instruction, or the parts above and below zero, of which one is scaled."""
    if f.profile.supports_vector("vlrelu", x.dtype.intrinsic):
        return f.step(Core.leaky_relu, (x,), (negative_slope,))
    return f.add(f.max(x, 0.0), f.mul(f.min(x, 0.0), negative_slope))


def _swish(f: Formula, x: Term, scale: float, impl_mode: str = "") -> Term:
    """x / (1 + e**(-scale x)), or x times its faster sigmoid."""
    if impl_mode == HIGH_PERFORMANCE and scale == 1.0:
        return f.mul(x, _sigmoid(f, x, impl_mode))
    return f.div(x, f.add(f.exp(f.mul(x, -scale)), 1.0))


def _exactly(given: Mapping[str, object]) -> bool:
    """Whether an operator isn't asked for in its faster implementation."""
    return given["impl_mode"] != HIGH_PERFORMANCE


_EXACT = {"impl_mode": "high_precision"}
_ELU = {"alpha": 1.0, "scale": 1.0, "input_scale": 1.0}
_SOFTPLUS = {"beta": 1.0, "threshold": 20.0}

_ROWS = (
    Compute("Relu", lambda f, x: f.relu(x)),
    Compute("ReluV2", lambda f, x: f.relu(x)),
    Compute("Relu6", lambda f, x: f.min(f.max(x, 0.0), 6.0)),
    Compute("LeakyRelu", _leaky_relu, attributes={"negative_slope": 0.01}),
    Compute("Sigmoid", _sigmoid, half_in_float=_exactly, attributes=_EXACT),
    Compute("Tanh", _tanh, half_in_float=True),
    Compute("Gelu", gelu, half_in_float=True, attributes={"approximate": "tanh"}),
    Compute("GeluV2", gelu, half_in_float=True, attributes={"approximate": "none"}),
    Compute("FastGelu", _fast_gelu, half_in_float=True),
    Compute("FastGeluV2", _fast_gelu_v2),
    Compute("Mish", _mish, half_in_float=_exactly, attributes=_EXACT),
    Compute("Swish", _swish, half_in_float=_exactly, attributes={"scale": 1.0, **_EXACT}),
    Compute("Silu", lambda f, x: _swish(f, x, 1.0), half_in_float=True),
    Compute("Elu", elu, half_in_float=True, attributes=_ELU),
    Compute("Selu", lambda f, x: elu(f, x, SELU_ALPHA, SELU_SCALE), half_in_float=True),
    Compute("Softplus", _softplus, half_in_float=True),
    Compute("SoftplusV2", _softplus_v2, half_in_float=True, attributes=_SOFTPLUS),
    Compute("Softsign", lambda f, x: f.div(x, f.add(f.abs(x), 1.0)), half_in_float=True),
    Compute(
        "HardSigmoid",
        lambda f, x, alpha, beta: f.min(f.max(f.add(f.mul(x, alpha), beta), 0.0), 1.0),
        half_in_float=True,
        attributes={"alpha": 1.0 / 6.0, "beta": 0.5},
    ),
    Compute("HardSwish", _hard_swish, half_in_float=True),
)

KERNELS = kernels_of_table(_ROWS)
