"""Attention of heads in float64, and how layouts have them."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

LAYOUTS = {"BSH": "bsnd", "SBH": "sbnd", "BNSD": "bnsd", "BSND": "bsnd"}


def heads(batch: int, number: int, length: int, columns: int, seed: int) -> Array:
    return np.random.default_rng(seed).standard_normal((batch, number, length, columns))


def laid_out(x: Array, layout: str, kind: Any) -> Array:
    """(batch, heads, tokens, columns) as a layout has it."""
    order = ["bnsd".index(axis) for axis in LAYOUTS[layout]]
    moved = x.transpose(order).astype(kind)
    return moved.reshape(*moved.shape[:2], -1) if layout.endswith("H") else moved


def attention(
    q: Array, k: Array, v: Array, seen: Array | bool = True, scale: float | None = None
) -> tuple[Array, Array, Array]:
    """Attention of heads in float64, and the maximum and sum of every row."""
    k, v = (np.repeat(each, q.shape[1] // k.shape[1], 1) for each in (k, v))
    scores = q @ k.swapaxes(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    scores = np.where(seen, scores, -np.inf)
    top = scores.max(-1, keepdims=True)
    weights = np.where(seen, np.exp(scores - np.where(np.isfinite(top), top, 0)), 0)
    total = weights.sum(-1, keepdims=True)
    return weights @ v / np.maximum(total, 1e-300), top, total


def rounded(*heads: Array, kind: Any) -> list[Array]:
    return [each.astype(kind).astype(np.float64) for each in heads]
