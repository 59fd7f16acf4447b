"""The gamma function's logarithm, and the derivative of that."""

from __future__ import annotations

from math import inf, pi
from math import lgamma as lgamma_of
from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.schedules.on_ai_cpu import FUNCTION, OnAiCpu

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

_FAR = 10.0  # from where the asymptotic series is right to double precision
_SERIES = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)


def _lgamma(x: float) -> float:
    """Infinite at whole numbers below one."""
    return inf if abs(x) == inf or (x <= 0.0 and x == int(x)) else lgamma_of(x)


def _digamma(x: Array) -> Array:
    """By reflection below zero, by recurrence up to where the series is right."""
    x = np.asarray(x, np.float64)
    mirrored = x < 0.0
    z = np.where(mirrored, 1.0 - x, x)
    total = np.zeros_like(z)
    for _ in range(int(_FAR)):
        near = z < _FAR
        total -= np.where(near, 1.0 / z, 0.0)
        z = np.where(near, z + 1.0, z)
    inverse = 1.0 / (z * z)
    series = np.zeros_like(z)
    for factor in reversed(_SERIES):
        series = (series + factor) * inverse
    total += np.log(z) - 0.5 / z - series
    found: Array = np.where(mirrored, total - pi / np.tan(pi * x), total)
    return np.where(mirrored & (x == np.floor(x)), np.nan, found)


lgamma = OnAiCpu("Lgamma", np.vectorize(_lgamma, otypes=[float]), FUNCTION).from_task
digamma = OnAiCpu("Digamma", _digamma, 2 * FUNCTION).from_task
