"""Queries and keys of latent attention against the formula, and interleaved rotations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npusim import Device
from support.tasks import BFLOAT16, assert_time_needs_no_numbers, run

Array = np.ndarray[Any, Any]

CHIP = "Ascend910B3"


def numbers(*shape: int, seed: int = 0, kind: Any = np.float16) -> Array:
    return (np.random.default_rng(seed).standard_normal(shape) / 4).astype(kind)


def turned(x: Array, sin: Array, cos: Array) -> Array:
    """Even places in front of odd ones, then the halves turned."""
    apart = np.concatenate((x[..., ::2], x[..., 1::2]), -1)
    half = apart.shape[-1] // 2
    return apart * cos + np.concatenate((-apart[..., half:], apart[..., :half]), -1) * sin


def normal(x: Array, gamma: Array) -> Array:
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * gamma


@settings(max_examples=12, deadline=None)
@given(
    batch=st.integers(1, 3),
    heads=st.sampled_from([1, 2, 5, 128]),
    tokens=st.sampled_from([1, 3, 130]),
    half=st.sampled_from([2, 8, 16, 32, 101]),
    kind=st.sampled_from([np.float16, np.float32, BFLOAT16]),
)
def test_neighbours_are_turned(batch: int, heads: int, tokens: int, half: int, kind: Any) -> None:
    tokens = min(tokens, 3) if heads > 5 else tokens
    x = numbers(batch, heads, tokens, 2 * half, kind=kind)
    angles = np.random.default_rng(1).random((batch, 1, tokens, 2 * half))
    cos, sin = np.cos(angles).astype(kind), np.sin(angles).astype(kind)
    given, outputs = [x, cos, sin], [np.zeros_like(x)]
    (got,) = run(CHIP, "InterleaveRope", given, outputs)
    wanted = turned(*(each.astype(np.float64) for each in (x, sin, cos)))
    tolerance = {np.float32: 1e-5, np.float16: 2e-3}.get(kind, 2e-2)
    np.testing.assert_allclose(got.astype(np.float64), wanted, rtol=tolerance, atol=tolerance)
    assert_time_needs_no_numbers(CHIP, "InterleaveRope", given, outputs)


@settings(max_examples=8, deadline=None)
@given(
    tokens=st.integers(1, 70),
    hidden=st.sampled_from([48, 96, 130]),
    low=st.sampled_from([32, 64]),
    heads=st.integers(1, 5),
    kind=st.sampled_from([np.float16, BFLOAT16]),
)
def test_tokens_become_queries_and_keys(
    tokens: int, hidden: int, low: int, heads: int, kind: Any
) -> None:
    depth, latent, rope = 16, 48, 32
    shapes = ((tokens, hidden), (hidden, low), (low, heads * (depth + rope)))
    shapes += ((heads, depth, latent), (hidden, latent + rope), (low,), (latent,))
    given = [numbers(*shape, seed=n, kind=kind) for n, shape in enumerate(shapes)]
    angles = np.random.default_rng(9).random((tokens, rope))
    given += [np.sin(angles).astype(kind), np.cos(angles).astype(kind)]
    outputs = [
        np.zeros(shape, kind)
        for shape in (
            (tokens, heads, latent),
            (tokens, heads, rope),
            (tokens, latent),
            (tokens, rope),
        )
    ]
    got = run(CHIP, "MlaProlog", given, outputs)
    x, down, up, of_heads, keys, first, second, sin, cos = (
        each.astype(np.float64) for each in given
    )
    q = (normal(x @ down, first) @ up).reshape(tokens, heads, depth + rope)
    c = x @ keys
    wanted = (
        np.einsum("tnd,ndl->tnl", q[..., :depth], of_heads),
        turned(q[..., depth:], sin[:, None], cos[:, None]),
        normal(c[:, :latent], second),
        turned(c[:, latent:], sin, cos),
    )
    tolerance = 4e-3 if kind is np.float16 else 4e-2
    for ours, theirs in zip(got, wanted, strict=True):
        np.testing.assert_allclose(
            ours.astype(np.float64), theirs, rtol=tolerance, atol=tolerance * np.abs(theirs).max()
        )


def test_its_phases_are_one_task() -> None:
    call = {
        "token_x": "bf16[1,4,7168]", "weight_dq": "bf16[7168,1536]",
        "weight_uq_qr": "bf16[1536,24576]", "weight_uk": "bf16[128,128,512]",
        "weight_dkv_kr": "bf16[7168,576]", "rmsnorm_gamma_cq": "bf16[1536]",
        "rmsnorm_gamma_ckv": "bf16[512]", "rope_sin": "bf16[1,4,64]", "rope_cos": "bf16[1,4,64]",
    }  # fmt: skip
    device = Device(CHIP)
    result = device.estimate("MlaProlog", **call)
    assert [task.name for task in result.tasks] == ["MlaProlog"]
    weights = 2 * (7168 * 1536 + 1536 * 24576 + 128 * 128 * 512 + 7168 * 576)
    assert result.tasks[0].bytes_read == pytest.approx(weights, rel=0.1)
    assert device.check("MlaProlog", **{**call, "weight_dkv_kr": "bf16[7168,575]"}).verdict != "yes"
