"""Parts of layers whose kernels pass their tensors through UB once or twice.

Source: ops-nn rnn, loss, vfusion, norm, quant and activation (documents of the interfaces; the
order of the gates as in the kernels).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.schedules.streamed import Streamed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

_CURVE = ("vexp", "vadd", "vdiv", "vmul", "vmul")
_TWICE = ("vmul", "vadd")
_GATES = 4


def _logistic(x: Array) -> Any:
    return 1 / (1 + np.exp(-x))


def _lstm_cell(
    given: Array, hidden: Array, cell: Array, first: Array | None = None,
    second: Array | None = None,
) -> tuple[Array, ...]:  # fmt: skip
    """Hidden state, cell and gates (in, forget, new, out) from the products of a step."""
    gates = given + hidden
    for bias in (first, second):
        gates = gates if bias is None else gates + bias.reshape(-1)
    enter, forget, new, out = np.split(gates, _GATES, axis=-1)
    enter, forget, new, out = _logistic(enter), _logistic(forget), np.tanh(new), _logistic(out)
    state = forget * cell + enter * new
    return out * np.tanh(state), state, np.concatenate((enter, forget, new, out), -1)


def _lstm_cell_grad(
    hidden: Array | None, later: Array | None, before: Array, cell: Array, gates: Array
) -> tuple[Array, ...]:
    """Gradients of the gates before their curves, of the cell before, and of the bias."""
    enter, forget, new, out = np.split(gates, _GATES, axis=-1)
    bent = np.tanh(cell)
    hidden = np.zeros_like(cell) if hidden is None else hidden
    total = hidden * out * (1 - bent**2) + (0 if later is None else later)
    parts = (
        total * new * enter * (1 - enter),
        total * before * forget * (1 - forget),
        total * enter * (1 - new**2),
        hidden * bent * out * (1 - out),
    )
    found = np.concatenate(parts, -1)
    return found, total * forget, found.sum(0)


def _of_targets(
    target: Array, weight: Array | None, classes: int, ignored: int
) -> tuple[Array, Array]:
    """The class of each row, and its weight: nought where it is ignored."""
    counted = target != ignored
    places = np.where(counted, target, 0).astype(np.int64)
    weights = np.ones(classes) if weight is None else weight.astype(np.float64)
    return places, weights[places] * counted


def _cross_entropy_grad(
    grad: Array, logarithms: Array, target: Array, weight: Array | None = None, *,
    reduction: str, ignored: int,
) -> Array:  # fmt: skip
    """The gradient of the input, from that of the loss and the logarithms of the shares."""
    rows, classes = logarithms.shape
    places, weights = _of_targets(target, weight, classes, ignored)
    each = np.broadcast_to(grad.reshape(-1), (rows,)).astype(np.float64) * weights
    hit = each / weights.sum() if reduction == "mean" else each
    found = np.exp(logarithms.astype(np.float64)) * hit[:, None]
    found[np.arange(rows), places] -= hit
    return np.asarray(found)


def _modulated_grad(grad: Array, x: Array, scale: Array | None = None) -> tuple[Array, ...]:
    """Of the input, of the scale and of the shift, image by image."""
    wide = grad.astype(np.float64)
    inner = wide if scale is None else wide * scale.reshape(len(x), 1, -1)
    return inner, (wide * x).sum(1), wide.sum(1)


def _biased_softmax(x: Array, *added: Array, scale: float, masked: bool) -> Array:
    """Shares of rows of windows [..., windows, heads, rows, columns] with a bias for each head."""
    *mask, bias = added
    heads, rows, columns = bias.shape[-3:]
    scores = scale * x.astype(np.float64).reshape(-1, heads, rows, columns) + bias
    if masked:
        windows = mask[0].reshape(-1, 1, rows, columns)
        scores = scores.reshape(-1, len(windows), heads, rows, columns) + windows
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return np.asarray(powers / powers.sum(-1, keepdims=True)).reshape(x.shape)


def _dequantised(
    x: Array, weight: Array, *more: Array, by_row: bool, biased: bool, whole: bool
) -> Array:
    """Sums of products of whole numbers by the scales of columns and of rows, and a bias."""
    rest = list(more)
    rows = rest.pop(0).reshape(-1, 1) if by_row else 1.0
    bias = rest.pop(0) if biased else 0
    wide = x.astype(np.float64)
    scale = weight.astype(np.float64) * rows
    return np.asarray((wide + bias) * scale if whole else wide * scale + bias)


def _prelu_grad(grad: Array, x: Array, weight: Array) -> tuple[Array, Array]:
    """Of the input and of the slopes, one for all or one for each channel."""
    wide = np.broadcast_to(grad, x.shape).astype(np.float64)
    spread = (1, -1, *(1,) * (x.ndim - 2)) if weight.size > 1 else (1,) * x.ndim
    slopes = weight.reshape(spread)
    below = np.where(x > 0, 0, wide * x)
    others = tuple(axis for axis in range(x.ndim) if axis != 1 or weight.size == 1)
    return np.where(x > 0, wide, wide * slopes), below.sum(others).reshape(weight.shape)


def _grouped(x: Array, groups: int) -> Array:
    return x.astype(np.float64).reshape(len(x), groups, -1)


def _spread(line: Array, x: Array) -> Array:
    return line.astype(np.float64).reshape(1, -1, *(1,) * (x.ndim - 2))


def _swish_norm(
    x: Array, gamma: Array, beta: Array, *, groups: int, eps: float, curved: bool, scale: float
) -> tuple[Array, ...]:
    """Maps normalised by groups of channels, bent; mean and deviation of each group."""
    rows = _grouped(x, groups)
    mean, rstd = rows.mean(-1), 1 / np.sqrt(rows.var(-1) + eps)
    normal = ((rows - mean[..., None]) * rstd[..., None]).reshape(x.shape)
    y = normal * _spread(gamma, x) + _spread(beta, x)
    return y * _logistic(scale * y) if curved else y, mean, rstd


def _swish_norm_grad(
    dy: Array, mean: Array, rstd: Array, x: Array, gamma: Array, beta: Array, *, groups: int,
    scale: float,
) -> tuple[Array, ...]:  # fmt: skip
    """Of the maps, of the gains and of the shifts."""
    rows = _grouped(x, groups)
    centred = (rows - mean.reshape(len(x), groups, 1)) * rstd.reshape(len(x), groups, 1)
    normal = centred.reshape(x.shape)
    y = normal * _spread(gamma, x) + _spread(beta, x)
    share = _logistic(scale * y)
    slope = dy * share * (1 + scale * y * (1 - share))
    others = tuple(axis for axis in range(x.ndim) if axis != 1)
    inner = _grouped(slope * _spread(gamma, x), groups)
    means = inner.mean(-1, keepdims=True)
    lean = (inner * centred).mean(-1, keepdims=True)
    dx = (inner - means - centred * lean) * rstd.reshape(len(x), groups, 1)
    return dx.reshape(x.shape), (slope * normal).sum(others), slope.sum(others)


def _row(
    name: str, compute: Any, steps: tuple[str, ...] = _TWICE, passes: int = 1, **given: object
) -> Any:
    return Streamed(name, compute, steps, given, passes).from_task


_SWISH = {"groups": 1, "scale": 1.0}
_TARGETS = {"reduction": "mean", "ignored": -100}

lstm_cell = _row("ThnnFusedLstmCell", _lstm_cell, _CURVE)
lstm_cell_grad = _row("ThnnFusedLstmCellGrad", _lstm_cell_grad, (*_CURVE, *_TWICE))
cross_entropy_grad = _row("CrossEntropyLossGrad", _cross_entropy_grad, (*_CURVE, "vcadd"), 1,
                          **_TARGETS)  # fmt: skip
modulated_grad = _row("ModulateGrad", _modulated_grad)
biased_softmax = _row("MaskedSoftmaxWithRelPosBias", _biased_softmax, (*_CURVE, "vcmax", "vcadd"),
                      scale=1.0, masked=False)  # fmt: skip
dequantised = _row("DequantBias", _dequantised, ("vconv", *_TWICE), by_row=False, biased=False,
                   whole=False)  # fmt: skip
prelu_grad = _row("PReluGrad", _prelu_grad, ("vcmpv_gt", "vsel", *_TWICE))
swish_norm = _row("GroupNormSwish", _swish_norm, (*_TWICE, *_CURVE), 2, **_SWISH, eps=1e-5,
                  curved=True)  # fmt: skip
swish_norm_grad = _row("GroupNormSwishGrad", _swish_norm_grad, (*_TWICE, *_CURVE), 2, **_SWISH)
