"""References of normalisations, their gradients, rotary embeddings and gated units."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from support.references.activations import by_torch
from support.references.row import Draw, Row, as_dtype, positive, torch

Array = np.ndarray[Any, Any]


def _layer(d: Draw) -> Mapping[str, Any]:
    shape = d.sized(1, 5)
    kept = d.whole(1, len(shape))
    inner = shape[len(shape) - kept :]
    x = d.tensor("input", shape)
    made: dict[str, Any] = {"input": x, "normalizedShape": list(inner)}
    for name in ("weightOptional", "biasOptional"):
        given = d.api == "aclnnLayerNormBackward" or d.one_of(True, True, False)
        made[name] = d.tensor(name, inner, positive, kind=d.kind) if given else None
    made["eps"] = d.one_of(1e-5, 1e-3)
    if d.api.endswith("ImplMode"):
        made["implMode"] = 0
    return made


def _layer_norm(x: Array, inner: Any, weight: Any, bias: Any, eps: float, *_: Any) -> Any:
    axes = tuple(range(x.ndim - len(inner), x.ndim))
    mean = x.mean(axes, keepdims=True)
    rstd = 1 / np.sqrt(x.var(axes, keepdims=True) + eps)
    found = (x - mean) * rstd
    found = found * (1 if weight is None else weight) + (0 if bias is None else bias)
    return found, mean, rstd


def _layer_backward(d: Draw) -> Mapping[str, Any]:
    made = dict(_layer(d))
    x, inner = made["input"], made["normalizedShape"]
    _, mean, rstd = _layer_norm(np.asarray(x, np.float64), inner, None, None, 1e-5)
    kind = "FLOAT" if d.kind == "FLOAT" else d.kind
    grad = d.tensor("gradOut", x.shape, kind=d.kind)
    return {
        "gradOut": grad,
        "input": x,
        "normalizedShape": inner,
        "mean": as_dtype(mean, kind),
        "rstd": as_dtype(rstd, kind),
        "weightOptional": made["weightOptional"],
        "biasOptional": made["biasOptional"],
        "outputMask": [True, True, True],
    }


def _layer_gradients(
    grad: Array, x: Array, inner: Any, mean: Array, rstd: Array, weight: Any, *_: Any
) -> Any:
    axes = tuple(range(x.ndim - len(inner), x.ndim))
    outer = tuple(range(x.ndim - len(inner)))
    normed, scaled = (x - mean) * rstd, grad * (1 if weight is None else weight)
    rest = scaled.mean(axes, keepdims=True) + normed * (scaled * normed).mean(axes, keepdims=True)
    return rstd * (scaled - rest), (grad * normed).sum(outer), grad.sum(outer)


def _rms(d: Draw) -> Mapping[str, Any]:
    shape = d.sized(2, 5)
    first = {"aclnnRmsNorm": "x", "aclnnRmsNormGrad": "x"}.get(d.api, "x1")
    x = d.tensor(first, shape)
    gamma = d.tensor("gamma", shape[-d.one_of(1, 1, len(shape) - 1) :], positive, kind=d.kind)
    return {"x": x, "gamma": gamma}


def _rms_norm(x: Array, gamma: Array, eps: float) -> Any:
    axes = tuple(range(x.ndim - gamma.ndim, x.ndim))
    rstd = 1 / np.sqrt((x * x).mean(axes, keepdims=True) + eps)
    return x * rstd * gamma, rstd


def _rms_forward(d: Draw) -> Mapping[str, Any]:
    return {**_rms(d), "epsilon": 1e-6}


def _add_rms(d: Draw) -> Mapping[str, Any]:
    made = _rms(d)
    other = d.tensor("x2", made["x"].shape, kind=d.kind)
    if "Inplace" in d.api:
        return {"x1Ref": made["x"], "x2Ref": other, "gamma": made["gamma"], "epsilon": 1e-6}
    return {"x1": made["x"], "x2": other, "gamma": made["gamma"], "epsilon": 1e-6}


def _add_rms_norm(x1: Array, x2: Array, gamma: Array, eps: float) -> Any:
    found, rstd = _rms_norm(x1 + x2, gamma, eps)
    return found, rstd, x1 + x2


def _add_rms_bias(d: Draw) -> Mapping[str, Any]:
    made = _add_rms(d)
    return {**made, "betaOptional": d.tensor("betaOptional", made["gamma"].shape, kind=d.kind)}


def _add_rms_norm_bias(x1: Array, x2: Array, gamma: Array, eps: float, beta: Array) -> Any:
    found, rstd, total = _add_rms_norm(x1, x2, gamma, eps)
    return found + beta, rstd, total


def _rms_backward(d: Draw) -> Mapping[str, Any]:
    made = _rms(d)
    x, gamma = made["x"], made["gamma"]
    rstd = _rms_norm(np.asarray(x, np.float64), np.asarray(gamma, np.float64), 1e-6)[1]
    outer = x.shape[: x.ndim - gamma.ndim]
    return {
        "dy": d.tensor("dy", x.shape, kind=d.kind),
        "x": x,
        "rstd": as_dtype(rstd.reshape(outer), "FLOAT"),
        "gamma": gamma,
    }


def _rms_gradients(dy: Array, x: Array, rstd: Array, gamma: Array) -> Any:
    axes = tuple(range(x.ndim - gamma.ndim, x.ndim))
    rstd = rstd.reshape(rstd.shape + (1,) * gamma.ndim)
    normed, scaled = x * rstd, dy * gamma
    outer = tuple(range(x.ndim - gamma.ndim))
    return rstd * (scaled - normed * (scaled * normed).mean(axes, keepdims=True)), (
        dy * normed
    ).sum(outer)


def _group(d: Draw) -> Mapping[str, Any]:
    group = d.one_of(1, 2, 3)
    shape = (d.whole(1, 3), group * d.whole(1, 4), *d.shape(1, 2, (1, 3, 5, 7)))
    x = d.tensor("self", shape)
    gamma, beta = (d.tensor(n, (shape[1],), positive, kind=d.kind) for n in ("gamma", "beta"))
    if d.api == "aclnnGroupNorm":
        sizes = {"N": shape[0], "C": shape[1], "HxW": int(np.prod(shape[2:]))}
        return {"self": x, "gamma": gamma, "beta": beta, **sizes, "group": group, "eps": 1e-5}
    made = {"self": x, "gamma": gamma, "beta": beta, "group": group, "eps": 1e-5}
    return {**made, "activateSilu": d.one_of(True, False)} if d.api.endswith("V2") else made


def _grouped(x: Array, gamma: Array, beta: Array, *rest: Any) -> Any:
    group, eps, silu = (
        (rest[3], rest[4], False) if len(rest) == 5 else (rest[0], rest[1], (*rest, True)[2])
    )
    rows = x.reshape(x.shape[0], group, -1)
    mean = rows.mean(2)
    rstd = 1 / np.sqrt(rows.var(2) + eps)
    found = ((rows - mean[..., None]) * rstd[..., None]).reshape(x.shape)
    inner = (1, -1) + (1,) * (x.ndim - 2)
    found = found * gamma.reshape(inner) + beta.reshape(inner)
    return (found / (1 + np.exp(-found)) if silu else found), mean, rstd


def _group_backward(d: Draw) -> Mapping[str, Any]:
    group, n, inner, image = d.one_of(1, 2, 3), d.whole(1, 3), d.whole(1, 4), d.whole(1, 33)
    x = d.tensor("input", (n, group * inner, image))
    mean, rstd = (d.tensor(name, (n, group), positive, kind=d.kind) for name in ("mean", "rstd"))
    return {
        "gradOut": d.tensor("gradOut", x.shape, kind=d.kind),
        "input": x,
        "mean": mean,
        "rstd": rstd,
        "gamma": d.tensor("gamma", (group * inner,), positive, kind=d.kind),
        "N": n,
        "C": group * inner,
        "HxW": image,
        "group": group,
        "outputMask": [True, True, True],
    }


def _group_gradients(
    grad: Array,
    x: Array,
    mean: Array,
    rstd: Array,
    gamma: Array,
    n: int,
    _: int,
    __: int,
    group: int,
    ___: Any,
) -> Any:
    rows = lambda t: t.reshape(n, group, -1)  # noqa: E731
    normed = (rows(x) - mean[..., None]) * rstd[..., None]
    scaled = rows(grad * gamma[:, None])
    rest = scaled.mean(2, keepdims=True) + normed * (scaled * normed).mean(2, keepdims=True)
    return (
        ((scaled - rest) * rstd[..., None]).reshape(x.shape),
        (grad * normed.reshape(x.shape)).sum((0, 2)),
        grad.sum((0, 2)),
    )


def _geglu(d: Draw) -> Mapping[str, Any]:
    shape = (*d.shape(1, 3, (1, 3, 5)), 2 * d.one_of(1, 5, 16, 33))
    made = {"self": d.tensor("self", shape), "dim": -1, "approximate": d.whole(0, 1)}
    return {**made, "activateLeft": d.one_of(False, True)} if d.api.endswith("V3") else made


def _gated_gelu(x: Any, dim: int, approximate: int, left: bool = False) -> Any:
    value, gate = torch.chunk(x, 2, dim)
    value, gate = (gate, value) if left else (value, gate)
    gelu = torch.nn.functional.gelu(gate, approximate="tanh" if approximate else "none")
    return value * gelu, gelu


def _rotary(d: Draw) -> Mapping[str, Any]:
    batch, length, heads, width = (
        d.whole(1, 3),
        d.whole(1, 5),
        d.whole(1, 5),
        2 * d.one_of(8, 16, 32),
    )
    x = d.tensor("x", (batch, length, heads, width))
    turns = [d.tensor(name, (1, length, 1, width), kind=d.kind) for name in ("cos", "sin")]
    return {"x": x, "cos": turns[0], "sin": turns[1], "mode": d.whole(0, 1)}


def _turned(x: Array, cos: Array, sin: Array, mode: int) -> Any:
    if mode:
        other = np.stack((-x[..., 1::2], x[..., ::2]), -1).reshape(x.shape)
    else:
        half = x.shape[-1] // 2
        other = np.concatenate((-x[..., half:], x[..., :half]), -1)
    return x * cos + other * sin


def _rotary_both(d: Draw) -> Mapping[str, Any]:
    batch, length, width = d.whole(1, 3), d.whole(1, 5), 128
    query, key = (
        d.tensor(n, (batch, length, d.whole(1, 4), width), kind=d.kind)
        for n in ("queryRef", "keyRef")
    )
    turns = [d.tensor(n, (batch, length, 1, width), kind=d.kind) for n in ("cos", "sin")]
    made = {"queryRef": query, "keyRef": key, "cos": turns[0], "sin": turns[1], "layout": 1}
    return {**made, "rotaryMode": "half"} if d.api.endswith("V2") else made


_GELU = by_torch(_gated_gelu)

ROWS = (
    Row("aclnnLayerNorm", _layer, _layer_norm, loose=2, natural=False, given=True),
    Row("aclnnFastLayerNorm", _layer, _layer_norm, loose=2, natural=False, given=True),
    Row("aclnnLayerNormWithImplMode", _layer, _layer_norm, loose=2, natural=False, given=True),
    Row("aclnnLayerNormBackward", _layer_backward, _layer_gradients, loose=8, given=True),
    Row("aclnnRmsNorm", _rms_forward, _rms_norm, loose=2, natural=False, given=True),
    Row("aclnnAddRmsNorm", _add_rms, _add_rms_norm, loose=4, natural=False, given=True),
    Row("aclnnInplaceAddRmsNorm", _add_rms, _add_rms_norm, loose=4, natural=False),
    Row(
        "aclnnAddRmsNormBias", _add_rms_bias, _add_rms_norm_bias, loose=4, natural=False, given=True
    ),
    Row("aclnnRmsNormGrad", _rms_backward, _rms_gradients, loose=8, natural=False),
    Row("aclnnGroupNorm", _group, _grouped, loose=4, natural=False, given=True),
    Row("aclnnGroupNormSilu", _group, _grouped, loose=4, natural=False, given=True),
    Row("aclnnGroupNormSiluV2", _group, _grouped, loose=4, natural=False, given=True),
    Row("aclnnGroupNormBackward", _group_backward, _group_gradients, loose=16, natural=False),
    Row("aclnnGeGlu", _geglu, _GELU, loose=4),
    Row("aclnnGeGluV3", _geglu, _GELU, loose=4),
    Row("aclnnRotaryPositionEmbedding", _rotary, _turned, loose=2),
    Row("aclnnRotaryPositionEmbeddingV2", _rotary, _turned, loose=2),
    Row(
        "aclnnApplyRotaryPosEmb",
        _rotary_both,
        lambda q, k, c, s, *_: (_turned(q, c, s, 0), _turned(k, c, s, 0)),
        loose=2,
    ),
    Row(
        "aclnnApplyRotaryPosEmbV2",
        _rotary_both,
        lambda q, k, c, s, *_: (_turned(q, c, s, 0), _turned(k, c, s, 0)),
        loose=2,
    ),
)
