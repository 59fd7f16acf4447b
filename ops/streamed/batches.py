"""Batch normalisation over the channels of maps [n, c, ...], its parts on several cards, gradients.

Source: ops-nn norm (documents of the interfaces).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.schedules.streamed import Streamed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


def _others(x: Array) -> tuple[int, ...]:
    return tuple(axis for axis in range(x.ndim) if axis != 1)


def _spread(line: Array, x: Array) -> Array:
    """A number for each channel, to be met by maps."""
    return line.reshape(-1).astype(np.float64).reshape(1, -1, *(1,) * (x.ndim - 2))


def _moments(x: Array) -> tuple[Array, Array]:
    wide = x.astype(np.float64)
    return wide.mean(_others(x)), wide.var(_others(x))


def _norm(
    x: Array, weight: Array | None = None, bias: Array | None = None, mean: Array | None = None,
    variance: Array | None = None, *, training: bool, momentum: float, eps: float,
) -> tuple[Array, ...]:  # fmt: skip
    """The maps, the running mean and variance, the mean and deviation that were used."""
    own, spread = (mean, variance) if not training else _moments(x)
    assert own is not None and spread is not None  # noqa: PT018 - by the host
    rstd = 1 / np.sqrt(spread.astype(np.float64) + eps)
    y = (x - _spread(own, x)) * _spread(rstd, x)
    y = y if weight is None else y * _spread(weight, x)
    y = y if bias is None else y + _spread(bias, x)
    running_mean = own if mean is None else mean
    running_variance = spread if variance is None else variance
    if training:
        count = x.size // x.shape[1]
        whole = spread * count / max(1, count - 1)
        running_mean = running_mean * (1 - momentum) + own * momentum
        running_variance = running_variance * (1 - momentum) + whole * momentum
    return y, running_mean, running_variance, own, rstd


def _gradient(
    grad: Array, x: Array, weight: Array | None, mean: Array, rstd: Array, *, training: bool
) -> tuple[Array, ...]:
    """Of the maps, of the gains and of the shifts."""
    dy, normal = grad.astype(np.float64), (x - _spread(mean, x)) * _spread(rstd, x)
    shifts, gains = dy.sum(_others(x)), (dy * normal).sum(_others(x))
    count = x.size // x.shape[1]
    inner = dy
    if training:
        inner = dy - _spread(shifts, x) / count - normal * _spread(gains, x) / count
    scale = rstd if weight is None else rstd * weight
    return inner * _spread(scale, x), gains, shifts


def _sums(x: Array) -> tuple[Array, Array]:
    wide = x.astype(np.float64)
    return wide.sum(_others(x)), (wide * wide).sum(_others(x))


def _gradient_sums(
    grad: Array, x: Array, mean: Array, rstd: Array, weight: Array | None = None
) -> tuple[Array, ...]:
    """Sums of gradients, of gradients times what is above the mean; of gains, of shifts."""
    del weight
    dy = grad.astype(np.float64)
    total = dy.sum(_others(x))
    above = (dy * (x - _spread(mean, x))).sum(_others(x))
    return total, above, above * rstd, total


def _elements_gradient(
    grad: Array, x: Array, mean: Array, rstd: Array, weight: Array | None, total: Array,
    above: Array, counts: Array,
) -> Array:  # fmt: skip
    """The gradient of the maps by sums of all cards."""
    count = counts.sum()
    slope = _spread(rstd.astype(np.float64) ** 2 * above / count, x)
    inner = grad - _spread(total / count, x) - (x - _spread(mean, x)) * slope
    scale = rstd if weight is None else rstd * weight
    return np.asarray(inner * _spread(scale, x))


def _gathered(
    means: Array, rstds: Array, counts: Array, mean: Array | None, variance: Array | None, *,
    momentum: float, eps: float,
) -> tuple[Array, ...]:  # fmt: skip
    """Mean and deviation of all cards, from those of each; running ones with them."""
    share = counts.reshape(-1, 1).astype(np.float64)
    whole = share.sum()
    total = (means * share).sum(0) / whole
    spreads = 1 / rstds.astype(np.float64) ** 2 - eps + (means - total) ** 2
    spread = (spreads * share).sum(0) / whole
    return _with_running(total, spread, whole, mean, variance, momentum, eps)


def _with_running(
    total: Array, spread: Array, count: float, mean: Array | None, variance: Array | None,
    momentum: float, eps: float,
) -> tuple[Array, ...]:  # fmt: skip
    """What was found, the deviation as its reciprocal; running numbers moved towards it."""
    whole = spread * count / max(1.0, count - 1)
    moved = total if mean is None else mean * (1 - momentum) + total * momentum
    other = whole if variance is None else variance * (1 - momentum) + whole * momentum
    return total, 1 / np.sqrt(spread + eps), moved, other


def _summed(
    sums: Array, squares: Array, counts: Array, mean: Array, variance: Array, *,
    momentum: float, eps: float,
) -> tuple[Array, ...]:  # fmt: skip
    """Mean and deviation of all cards from their sums."""
    count = float(counts.sum())
    total = sums.sum(0) / count
    spread = squares.sum(0) / count - total**2
    return _with_running(total, spread, count, mean, variance, momentum, eps)


def _row(name: str, compute: Any, passes: int, **attributes: object) -> Any:
    return Streamed(name, compute, ("vsub", "vmul", "vadd"), attributes, passes).from_task


_RATES = {"momentum": 0.1, "eps": 1e-5}
norm = _row("BatchNormV3", _norm, 2, training=True, **_RATES)
gradient = _row("BatchNormGradV3", _gradient, 2, training=True)
sums = _row("ReduceSumAndSquares", _sums, 1)
gradient_sums = _row("SyncBatchNormBackwardReduce", _gradient_sums, 1)
elements_gradient = _row("SyncBatchNormBackwardElemt", _elements_gradient, 1)
gathered = _row("SyncBatchNormGatherStatsWithCounts", _gathered, 1, **_RATES)
summed = _row("SyncBatchNormGatherStats", _summed, 1, **_RATES)
