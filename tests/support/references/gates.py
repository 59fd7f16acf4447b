"""References of gradients whose forward form an interface doesn't know: gates, distances, sums."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from support.references.activations import gradient
from support.references.norms import _gated_gelu, _layer_gradients
from support.references.row import Draw, Row, as_dtype, positive, torch

Array = np.ndarray[Any, Any]


def _halved(d: Draw, grad: str, whole: str) -> dict[str, Any]:
    shape = (*d.shape(1, 3, (1, 3, 5)), 2 * d.one_of(1, 5, 16, 33))
    x = d.tensor(whole, shape)
    return {grad: d.tensor(grad, (*shape[:-1], shape[-1] // 2), kind=d.kind), whole: x, "dim": -1}


def _clipped_backward(d: Draw) -> Mapping[str, Any]:
    numbers = {"alpha": d.one_of(1.702, 1.0), "limit": d.one_of(2.0, 7.0), "bias": d.one_of(0.0, 1)}
    return {**_halved(d, "gradY", "x"), **numbers, "interleaved": d.one_of(True, False)}


def _clipped(x: Any, _: int, alpha: float, limit: float, bias: float, interleaved: bool) -> Any:
    gate, value = (x[..., ::2], x[..., 1::2]) if interleaved else torch.chunk(x, 2, -1)
    gate, value = gate.clamp(max=limit), value.clamp(-limit, limit)
    return gate * torch.sigmoid(alpha * gate) * (value + bias)


def _bent_backward(d: Draw) -> Mapping[str, Any]:
    numbers = {"beta": d.one_of(1.0, 2.0), "linearBeta": d.one_of(0.0, 1.5)}
    return {**_halved(d, "gradY", "x"), **numbers, "activateLeft": d.one_of(True, False)}


def _bent(x: Any, _: int, beta: float, linear: float, left: bool) -> Any:
    gate, value = torch.chunk(x, 2, -1)
    gate, value = (gate, value) if left else (value, gate)
    value = linear * torch.tanh(value / linear) if linear else value
    return beta * torch.tanh(gate / beta) * torch.sigmoid(gate) * value


def _geglu_backward(d: Draw) -> Mapping[str, Any]:
    made = _halved(d, "gradOutput", "self")
    left = d.api.endswith("V3Backward") and d.one_of(True, False)
    gate = np.split(np.asarray(made["self"], np.float64), 2, -1)[not left]
    gelu = 0.5 * gate * (1 + np.tanh((2 / np.pi) ** 0.5 * (gate + 0.044715 * gate**3)))
    dim = made.pop("dim")
    made |= {"gelu": as_dtype(gelu, d.kind), "dim": dim, "approximate": 1}
    return {**made, "activateLeft": left} if d.api.endswith("V3Backward") else made


def _geglu_gradient(grad: Array, x: Array, _: Array, dim: int, how: int, left: bool = False) -> Any:
    return gradient(lambda x: _gated_gelu(x, dim, how, left)[0])(grad, x)


def _distances_backward(d: Draw) -> Mapping[str, Any]:
    batch, m, n, k = d.shape(0, 2, (1, 2, 3)), d.whole(1, 7), d.whole(1, 7), d.whole(1, 9)
    grad = d.tensor("grad", (*batch, m, n))
    first, second = (
        d.tensor(name, (*batch, rows, k), kind=d.kind) for name, rows in (("x1", m), ("x2", n))
    )
    order = d.one_of(1.0, 2.0, 3.0)
    apart = np.abs(first[..., :, None, :].astype(np.float64) - second[..., None, :, :])
    found = as_dtype((apart**order).sum(-1) ** (1 / order), d.kind)
    return {"grad": grad, "x1": first, "x2": second, "cdist": found, "p": order}


def _distances(x1: Any, x2: Any, _: Any, order: float) -> Any:
    return torch.cdist(x1, x2.double(), order)


def _segments_backward(d: Draw) -> Mapping[str, Any]:
    a = d.rng.uniform(-1, 1, (*d.shape(1, 3, (1, 2, 3)), d.one_of(1, 2, 5, 17)))
    sums = a.cumsum(-1)
    known = np.tril(np.exp(sums[..., None] - sums[..., None, :]))
    grad = d.tensor("gradOutput", known.shape)
    return {"gradOutput": grad, "gradSelf": as_dtype(known, d.kind)}


def _segments_gradient(grad: Array, known: Array) -> Array:
    steps = grad * known
    ends = steps.sum(-1) - steps.sum(-2)
    return np.asarray(np.flip(np.flip(ends, -1).cumsum(-1), -1))


def _rows(d: Draw, *names: str) -> dict[str, Any]:
    """Tensors of one shape, and gamma, mean and rstd that go with them."""
    shape = (*d.shape(1, 2, (1, 2, 5)), d.one_of(1, 8, 33))
    made: dict[str, Any] = {names[0]: d.tensor(names[0], shape)}
    made |= {name: d.tensor(name, shape, kind=d.kind) for name in names[1:]}
    made["gamma"] = d.tensor("gamma", shape[-1:], positive, kind=d.kind)
    rows = (*shape[:-1], 1)
    return made | {name: d.tensor(name, rows, positive, kind="FLOAT") for name in ("mean", "rstd")}


def _sum_backward(d: Draw) -> Mapping[str, Any]:
    made = _rows(d, "dy", "x1", "x2", "dsumOptional")
    order = ("dy", "x1", "x2", "rstd", "mean", "gamma", "dsumOptional")
    return {name: made[name] for name in order}


def _sum_gradients(
    dy: Array, x1: Array, x2: Array, rstd: Array, mean: Array, gamma: Array, more: Array
) -> Any:
    dx, dgamma, dbeta = _layer_gradients(dy, x1 + x2, gamma.shape, mean, rstd, gamma)
    return dx + more, dgamma, dbeta


def _deep_backward(d: Draw) -> Mapping[str, Any]:
    return {**_rows(d, "dy", "x", "gx"), "alpha": d.one_of(0.3, 2.0)}


def _deep_gradients(
    dy: Array, x: Array, gx: Array, gamma: Array, mean: Array, rstd: Array, alpha: float
) -> Any:
    dx, dgamma, dbeta = _layer_gradients(dy, alpha * x + gx, gamma.shape, mean, rstd, gamma)
    return alpha * dx, dx, dbeta, dgamma


ROWS = (
    Row("aclnnClippedSwigluGrad", _clipped_backward, gradient(_clipped), loose=4, given=True),
    Row("aclnnSituGluGrad", _bent_backward, gradient(_bent), loose=4, given=True),
    Row("aclnnGeGluBackward", _geglu_backward, _geglu_gradient, loose=4, given=True),
    Row("aclnnGeGluV3Backward", _geglu_backward, _geglu_gradient, loose=4, given=True),
    Row("aclnnCdistBackward", _distances_backward, gradient(_distances), loose=8, given=True),
    Row("aclnnExpSegsumBackward", _segments_backward, _segments_gradient, loose=16, given=True),
    Row(
        "aclnnAddLayerNormGrad", _sum_backward, _sum_gradients, loose=16, natural=False, given=True
    ),
    Row("aclnnDeepNormGrad", _deep_backward, _deep_gradients, loose=16, natural=False, given=True),
)
