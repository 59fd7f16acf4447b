"""Arguments of the operators under test, from a seed and from shapes."""

from __future__ import annotations

from typing import Any

import numpy as np

from npusim.values.dtypes import dtype

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]

CROSS_ENTROPY = "aclnnBinaryCrossEntropyBackward"
GROUP_NORM = "aclnnGroupNormBackward"


def generator(seed: int) -> np.random.Generator:
    """Numbers that are the same in every run."""
    return np.random.default_rng(seed)


def numpy_kind(name: str) -> np.dtype[Any]:
    """The NumPy dtype of one of our dtypes."""
    kind = dtype(name).numpy
    assert kind is not None
    return kind


def cross_entropy(
    *shape: int, kind: str = "float32", weight: bool = True, reduction: int = 0, seed: int = 1
) -> dict[str, Any]:
    """BinaryCrossEntropyBackward on tensors of one shape and dtype, probabilities away from 0 and 1."""
    random, numpy = generator(seed), numpy_kind(kind)
    return {
        "gradOutput": random.standard_normal(shape).astype(numpy),
        "self": random.uniform(0.02, 0.98, shape).astype(numpy),
        "target": random.integers(0, 2, shape).astype(numpy),
        "weightOptional": random.uniform(0.5, 1.5, shape).astype(numpy) if weight else None,
        "reduction": reduction,
    }


def cross_entropy_reference(arguments: dict[str, Any]) -> Array:
    """The closed form in float64 on whole arrays; eps as the device holds it."""
    x = arguments["self"].astype(np.float64)
    y, go = (arguments[name].astype(np.float64) for name in ("target", "gradOutput"))
    weight = arguments["weightOptional"]
    w = 1.0 if weight is None else weight.astype(np.float64)
    eps = float(np.float32(1e-12))
    scale = 1.0 / x.size if arguments["reduction"] == 1 else 1.0
    result: Array = go * w * (x - y) / np.maximum(x * (1 - x), eps) * scale
    return np.broadcast_to(result, x.shape)


def group_norm(
    batch: int,
    channels: int,
    size: int,
    group: int,
    *,
    kind: str = "float32",
    gamma: bool = True,
    mask: tuple[bool, bool, bool] = (True, True, True),
    seed: int = 1,
) -> dict[str, Any]:
    """GroupNormBackward on [N, C, HxW] with the true statistics of the input."""
    random, numpy = generator(seed), numpy_kind(kind)
    x = random.normal(0.5, 1.5, (batch, channels, size)).astype(numpy)
    groups = x.astype(np.float64).reshape(batch, group, -1)
    return {
        "gradOut": random.standard_normal(x.shape).astype(numpy),
        "input": x,
        "mean": groups.mean(axis=2).astype(numpy),
        "rstd": (1 / np.sqrt(groups.var(axis=2) + 1e-5)).astype(numpy),
        "gamma": random.normal(1.0, 0.2, channels).astype(numpy) if gamma else None,
        "N": batch,
        "C": channels,
        "HxW": size,
        "group": group,
        "outputMask": list(mask),
    }


def group_norm_reference(arguments: dict[str, Any]) -> dict[str, Array]:
    """The wanted gradients in float64 from the closed form, shaped as the operator shapes them."""
    batch, channels, size, group = (arguments[name] for name in ("N", "C", "HxW", "group"))
    shape = (batch, group, channels // group, size)
    dy, x = (arguments[name].astype(np.float64).reshape(shape) for name in ("gradOut", "input"))
    mean, rstd = (
        arguments[name].astype(np.float64).reshape(batch, group, 1, 1) for name in ("mean", "rstd")
    )
    given = arguments["gamma"]
    scale = np.ones(channels) if given is None else given.astype(np.float64).ravel()
    gamma = scale.reshape(1, group, -1, 1)
    xh = (x - mean) * rstd
    c1 = (gamma * dy).mean(axis=(2, 3), keepdims=True)
    c2 = (gamma * dy * xh).mean(axis=(2, 3), keepdims=True)
    of_gamma = (channels,) if given is None else given.shape
    everything = {
        "gradInput": (rstd * (gamma * dy - c1 - xh * c2)).reshape(arguments["input"].shape),
        "gradGammaOut": (dy * xh).sum(axis=(0, 3)).reshape(of_gamma),
        "gradBetaOut": dy.sum(axis=(0, 3)).reshape(of_gamma),
    }
    wanted = zip(everything.items(), arguments["outputMask"], strict=True)
    return {name: array for (name, array), flag in wanted if flag}


def strided(array: Array, step: int = 2) -> Array:
    """The same numbers in memory that skips elements of the last axis."""
    wide = np.full((*array.shape[:-1], array.shape[-1] * step), np.nan, array.dtype)
    wide[..., ::step] = array
    return wide[..., ::step]


def transposed(array: Array) -> Array:
    """The same numbers with the last two axes the other way round in memory."""
    return np.swapaxes(np.ascontiguousarray(np.swapaxes(array, -1, -2)), -1, -2)
