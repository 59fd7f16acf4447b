"""What the AI CPUs compute of activations and their gradients, in NumPy: float64."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


def _sigmoid(x: Array) -> Any:
    return 1 / (1 + np.exp(-x))


def _softplus_slope(grad: Array, x: Array, beta: float = 1.0, threshold: float = 20.0) -> Any:
    return np.where(x * beta > threshold, grad, grad * _sigmoid(x * beta))


AI_CPU = {
    "LeakyReluGrad": lambda grad, x, negative_slope=0.0: np.where(
        x > 0, grad, grad * negative_slope
    ),
    "Sigmoid": _sigmoid,
    "SigmoidGrad": lambda y, grad: grad * y * (1 - y),
    "SoftplusV2Grad": _softplus_slope,
    "Tanh": np.tanh,
    "TanhGrad": lambda y, grad: grad * (1 - y * y),
}
