"""Functions of elements and of rows: complex numbers, bits of signs, halves, differences.

Source: ops-math math, ops-nn activation, norm and loss (documents of the interfaces).
"""

from __future__ import annotations

from math import pi
from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.schedules.streamed import Streamed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

_TWICE = ("vmul", "vadd")
_CURVE = ("vexp", "vadd", "vdiv", "vmul", "vmul")
_LOG = ("vln", "vmuls", "vadd", "vdiv")
_GELU_ROOT, _GELU_CUBE = (2 / pi) ** 0.5, 0.044715


def _logistic(x: Array) -> Any:
    return 1 / (1 + np.exp(-x))


def _halves(x: Array, dim: int = -1) -> list[Array]:
    return np.split(x, 2, axis=dim)


def _gelu(x: Array) -> Any:
    return 0.5 * x * (1 + np.tanh(_GELU_ROOT * (x + _GELU_CUBE * x**3)))


def _gelu_slope(x: Array) -> Any:
    inner = np.tanh(_GELU_ROOT * (x + _GELU_CUBE * x**3))
    slope = _GELU_ROOT * (1 + 3 * _GELU_CUBE * x**2)
    return 0.5 * (1 + inner) + 0.5 * x * (1 - inner**2) * slope


def _ge_glu_grad(
    grad: Array, x: Array, gelu: Array, *, dim: int, approximate: int, activate_left: bool
) -> Any:
    """The gradients of both halves, that of the curved one by Gelu's slope."""
    del approximate
    first, second = _halves(x, dim)
    curved, other = (first, second) if activate_left else (second, first)
    parts = grad * other * _gelu_slope(curved), grad * gelu
    return np.concatenate(parts if activate_left else parts[::-1], axis=dim)


def _logit(x: Array, *, eps: float) -> Any:
    kept = x if eps < 0 else np.clip(x, eps, 1 - eps)
    return np.log(kept / (1 - kept))


def _logit_grad(x: Array, dy: Array, *, eps: float) -> Any:
    least = max(eps, 0.0)
    outside = (x < least) | (x > 1 - least)
    return np.where(outside, np.nan if eps < 0 else 0, dy / (x * (1 - x)))


def _clipped(
    x: Array, groups: Array | None, *, dim: int, alpha: float, limit: float, bias: float,
    interleaved: bool,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """Both halves, and which rows count."""
    axis = dim % x.ndim
    rows = x.reshape(int(np.prod(x.shape[:axis])), -1)
    half = rows.shape[1] // 2
    parts = (rows[:, ::2], rows[:, 1::2]) if interleaved else (rows[:, :half], rows[:, half:])
    counted = len(rows) if groups is None else int(groups.sum())
    del alpha, limit, bias
    return (*parts, np.arange(len(rows))[:, None] < counted)


def _clipped_swiglu(x: Array, groups: Array | None = None, **given: Any) -> Any:
    first, second, there = _clipped(x, groups, **given)
    gate = np.minimum(first, given["limit"])
    up = np.clip(second, -given["limit"], given["limit"])
    found = gate * _logistic(given["alpha"] * gate) * (up + given["bias"])
    return np.where(there, found, 0)


def _clipped_swiglu_grad(grad: Array, x: Array, groups: Array | None = None, **given: Any) -> Any:
    first, second, there = _clipped(x, groups, **given)
    limit, alpha, bias = given["limit"], given["alpha"], given["bias"]
    gate, up = np.minimum(first, limit), np.clip(second, -limit, limit)
    share, dy = _logistic(alpha * gate), grad.reshape(first.shape)
    slope = share * (1 + alpha * gate * (1 - share))
    parts = (
        np.where(there & (first <= limit), dy * (up + bias) * slope, 0),
        np.where(there & (abs(second) <= limit), dy * gate * share, 0),
    )
    return np.stack(parts, -1) if given["interleaved"] else np.concatenate(parts, 1)


def _situ(x: Array, *, dim: int, beta: float, linear_beta: float, activate_left: bool) -> Any:
    """The gate and its slope, the other half and its slope."""
    first, second = _halves(x, dim)
    gate, up = (first, second) if activate_left else (second, first)
    bent, share = np.tanh(gate / beta), _logistic(gate)
    curved = beta * bent * share
    slope = (1 - bent**2) * share + curved * (1 - share)
    if linear_beta > 0:
        bent = np.tanh(up / linear_beta)
        return curved, slope, linear_beta * bent, 1 - bent**2
    return curved, slope, up, np.ones_like(up)


def _situ_glu(x: Array, **given: Any) -> Any:
    curved, _, up, _ = _situ(x, **given)
    return np.asarray(curved * up)


def _situ_glu_grad(grad: Array, x: Array, **given: Any) -> Any:
    curved, slope, up, up_slope = _situ(x, **given)
    parts = grad * slope * up, grad * curved * up_slope
    return np.concatenate(parts if given["activate_left"] else parts[::-1], axis=given["dim"])


def _pack_signs(x: Array, *, size: int) -> Any:
    """A bit for each element that isn't negative, the last byte filled with ones."""
    padded = np.ones(-(-x.size // (8 * size)) * 8 * size, bool)
    padded[: x.size] = x.reshape(-1) >= 0
    return np.packbits(padded, bitorder="little").reshape(size, -1)


def _unpack_signs(x: Array, *, size: int) -> Any:
    bits = np.unpackbits(x.reshape(-1).astype(np.uint8), bitorder="little")
    return (2.0 * bits - 1).reshape(size, -1)


def _cross(a: Array, b: Array, *, dim: int) -> Any:
    return np.cross(a, b, axis=dim)


def _histogram(x: Array, *, bins: int, low: float, high: float) -> Any:
    if low == high:
        low, high = (float(x.min()), float(x.max())) if x.size else (0.0, 0.0)
    if low == high:
        low, high = low - 1, high + 1
    return np.histogram(x, bins, (low, high))[0]


def _distances(a: Array, b: Array, *, p: float) -> Any:
    apart = abs(a[..., :, None, :].astype(np.float64) - b[..., None, :, :])
    if p == 0:
        return (apart != 0).sum(-1)
    if np.isinf(p):
        return apart.max(-1)
    return (apart**p).sum(-1) ** (1 / p)


def _distances_grad(grad: Array, a: Array, b: Array, distance: Array, *, p: float) -> Any:
    apart = a[..., :, None, :].astype(np.float64) - b[..., None, :, :]
    far = distance[..., None]
    if p == 0:
        return np.zeros_like(a)
    if np.isinf(p):
        share = np.sign(apart) * (abs(apart) == far)
    else:
        share = np.where(far == 0, 0, np.sign(apart) * abs(apart) ** (p - 1) / far ** (p - 1))
    return (grad[..., None] * share).sum(-2)


def _segment_sums(x: Array) -> Any:
    """exp of the sums of what is between two places; zero above the diagonal."""
    sums = np.cumsum(x.astype(np.float64), -1)
    return np.tril(np.exp(sums[..., :, None] - sums[..., None, :]))


def _segment_sums_grad(grad: Array, found: Array) -> Any:
    product = np.tril(grad.astype(np.float64) * found)
    behind = np.flip(np.cumsum(np.flip(product, -2), -2), -2)
    return np.tril(behind, -1).sum(-1)


def _masked_softmax(x: Array, mask: Array | None = None, *, scale: float, causal: bool) -> Any:
    del causal
    wide = x.astype(np.float64) * scale
    if mask is not None:
        wide = np.where(mask != 0, -10000.0, wide)
    powers = np.exp(wide - wide.max(-1, keepdims=True))
    return np.asarray(powers / powers.sum(-1, keepdims=True))


def _masked_softmax_grad(
    grad: Array, y: Array, mask: Array | None = None, *, scale: float, causal: bool
) -> Any:
    del causal
    wide = grad.astype(np.float64) * y
    found = (wide - wide.sum(-1, keepdims=True) * y) * scale
    return found if mask is None else np.where(mask != 0, 0, found)


def _margins(x: Array, target: Array, *, reduction: int) -> tuple[Array, Array]:
    rows, labels = (np.atleast_2d(each) for each in (x, target))
    count = rows.shape[1]
    is_target = np.zeros(rows.shape)
    for row, wanted in zip(is_target, labels, strict=True):
        ends = np.flatnonzero(wanted < 0)
        row[wanted[: ends[0] if ends.size else count].astype(int)] = 1
    apart = np.maximum(0, 1 - (rows[:, :, None] - rows[:, None, :]))
    pairs = is_target[:, :, None] * (1 - is_target[:, None, :])
    losses = (apart * pairs).sum((1, 2)) / count
    found = (losses, losses.mean(), losses.sum())[reduction]
    return found if x.ndim > 1 or reduction else losses.reshape(()), is_target


def _amp_scale(
    scale: Array, tracker: Array, found: Array, *, growth: float, backoff: float, interval: int
) -> tuple[Array, Array]:
    """The scale of gradients: smaller where one was infinite, larger after a while without."""
    broken, grown = found != 0, tracker + 1 == interval
    grows = grown & np.isfinite(scale * growth)
    value = np.where(broken, scale * backoff, np.where(grows, scale * growth, scale))
    return value, np.where(broken | grown, 0, tracker + 1)


def _bias_rescale(qkv: Array, bias: Array, *, heads: int) -> tuple[Array, ...]:
    """Queries, keys and values [b, heads, t, d], the queries divided by the root of d."""
    batch, steps, width = qkv.shape
    size = width // 3 // heads
    moved = (qkv + bias).reshape(batch, steps, 3, heads, size).transpose(2, 0, 3, 1, 4)
    return moved[0] / size**0.5, moved[1], moved[2]


def _grouped_sums(grad: Array, ends: Array | None = None, *, group_idx_type: int = 0) -> Any:
    """Of rows by the ends of their groups, or (type 1) by how many each has."""
    if ends is None:
        return grad.sum(1)
    ends = ends.cumsum() if group_idx_type else ends
    parts = np.split(grad, ends.astype(int)[:-1])
    return np.stack([each.sum(0) for each in parts])


def _unfolded_grad(grad: Array, *, sizes: list[int], dim: int, size: int, step: int) -> Any:
    found = np.zeros(sizes, np.float64)
    axis = dim % max(1, len(sizes))
    target, source = np.moveaxis(found, axis, 0), np.moveaxis(grad, axis, 0)
    for window in range(source.shape[0]):
        target[window * step : window * step + size] += np.moveaxis(source[window], -1, 0)
    return found


def _chunks(*tensors: Array, dim: int, chunks: int) -> Any:
    """Every tensor in parts along an axis, zeros behind; the parts side by side, one per row."""
    found = []
    for each in tensors:
        long = -(-each.shape[dim] // chunks) * chunks - each.shape[dim]
        pads = [(0, long if axis == dim else 0) for axis in range(each.ndim)]
        parts = np.split(np.pad(each, pads), chunks, axis=dim)
        found.append(np.stack([part.reshape(*part.shape[:dim], -1) for part in parts], dim))
    return np.concatenate(found, -1)


def _row(name: str, compute: Any, steps: tuple[str, ...] = _TWICE, **attributes: object) -> Any:
    return Streamed(name, compute, steps, attributes).from_task


_CLIPPED = {"dim": -1, "alpha": 1.702, "limit": 7.0, "bias": 1.0, "interleaved": True}
_SITU = {"dim": -1, "beta": 1.0, "linear_beta": 0.0, "activate_left": True}

real = _row("Real", np.real, ("vgather",))
complex_of = _row("Complex", lambda a, b: a + 1j * b, ("vgather",))
polar = _row("Polar", lambda r, angle: r * np.exp(1j * angle.astype(np.float64)), _CURVE)
angle = _row("AngleV2", np.angle, (*_CURVE, "vsel"))
common = _row("Gcd", np.gcd, _CURVE * 8)
logit = _row("Logit", _logit, _LOG, eps=-1.0)
logit_grad = _row("LogitGrad", _logit_grad, _LOG, eps=-1.0)
gelu_mul = _row("GeluMul", lambda x: _gelu(_halves(x)[0]) * _halves(x)[1], _CURVE)
fatrelu_mul = _row(
    "FatreluMul",
    lambda x, least: (
        # what equals the threshold is none: public kernel and PyTorch; the page has it as one
        np.where(_halves(x)[0] > least.reshape(-1)[0], _halves(x)[0], 0) * _halves(x)[1]
    ),
    ("vcmpv_gt", "vsel", "vmul"),
)
ge_glu_grad = _row("GeGluGradV2", _ge_glu_grad, (*_CURVE, *_TWICE),
                   dim=-1, approximate=1, activate_left=False)  # fmt: skip
clipped_swiglu = _row("ClippedSwiglu", _clipped_swiglu, _CURVE, **_CLIPPED)
clipped_swiglu_grad = _row("ClippedSwigluGrad", _clipped_swiglu_grad, _CURVE, **_CLIPPED)
situ_glu = _row("SituGlu", _situ_glu, _CURVE, **_SITU)
situ_glu_grad = _row("SituGluGrad", _situ_glu_grad, _CURVE, **_SITU)
pack_signs = _row("SignBitsPack", _pack_signs, ("vcmpv_ge",), size=1)
unpack_signs = _row("SignBitsUnpack", _unpack_signs, ("vsel",), size=1)
cross = _row("Cross", _cross, _TWICE * 2, dim=-1)
histogram = _row("HistogramV2", _histogram, (*_TWICE, "vconv"), bins=100, low=0.0, high=0.0)
distances = _row("Cdist", _distances, (*_TWICE, *_LOG), p=2.0)
distances_grad = _row("CdistGrad", _distances_grad, (*_TWICE, *_LOG), p=2.0)
segment_sums = _row("Segsum", _segment_sums, _CURVE)
segment_sums_grad = _row("ExpSegsumGrad", _segment_sums_grad, _CURVE)
masked_softmax = _row("ScaledMaskedSoftmaxV2", _masked_softmax, (*_CURVE, "vcadd", "vsel"),
                      scale=1.0, causal=False)  # fmt: skip
masked_softmax_grad = _row("ScaledMaskedSoftmaxGradV2", _masked_softmax_grad,
                           (*_TWICE, "vcadd", "vsel"), scale=1.0, causal=False)  # fmt: skip
margins = _row("MultilabelMarginLoss", _margins, _CURVE, reduction=1)
amp_scale = _row("AmpUpdateScale", _amp_scale, _TWICE, growth=2.0, backoff=0.5, interval=1)
compared = _row("PrecisionCompare", lambda a, b: np.where((a == b).all(), 0, 1), ("vcmpv_ne",))
bias_rescale = _row("TransformBiasRescaleQkv", _bias_rescale, _TWICE, heads=1)
grouped_sums = _row("GroupedBiasAddGrad", _grouped_sums, ("vadd",), group_idx_type=0)
unfolded_grad = _row("UnfoldGrad", _unfolded_grad, ("vadd",), sizes=[], dim=0, size=1, step=1)
chunks = _row("ChunkCat", _chunks, (), dim=0, chunks=1)
