"""Queries and keys of latent attention against the formula, and interleaved rotations."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npusim import Device
from npusim.ascendc import GlobalTensor, trace
from npusim.hardware import load_profile
from npusim.values.formats import Format
from support.tasks import (
    BFLOAT16,
    assert_time_needs_no_numbers,
    fractals,
    kernels,
    run,
    tensor,
)

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


def blocks(matrix: Array) -> GlobalTensor:
    """A matrix in blocks of 16 x 16, edges filled up."""
    return replace(tensor(fractals(matrix)), format=Format.FRACTAL_NZ)


@pytest.mark.parametrize("op_type", ["MlaPrologV2", "MlaPrologV3"])
@pytest.mark.parametrize(("tokens", "hidden", "heads"), [(1, 48, 1), (37, 96, 3), (130, 64, 2)])
def test_keys_go_to_caches(op_type: str, tokens: int, hidden: int, heads: int) -> None:
    """In pages of 16 tokens by the index of each; a negative one goes nowhere."""
    kind, low, depth = np.float16, 32, 16
    shapes = ((tokens, hidden), (hidden, low), (low, heads * (depth + 64)), (heads, depth, 512))
    shapes += ((hidden, 576), (low,), (512,))
    given = [numbers(*shape, seed=n, kind=kind) for n, shape in enumerate(shapes)]
    angles = np.random.default_rng(9).random((tokens, 64))
    given += [np.sin(angles).astype(kind), np.cos(angles).astype(kind)]
    index = np.random.default_rng(1).permutation(160)[:tokens].astype(np.int64)
    index[0] = -1
    caches = [np.zeros((10, 16, 1, width), kind) for width in (512, 64)]
    stored = [index, *caches] if op_type == "MlaPrologV2" else [*caches, index]
    inputs = [blocks(each) if n in (1, 2, 4) else each for n, each in enumerate(given)]
    outputs = [np.zeros((tokens, heads, width), kind) for width in (512, 64)]
    built, results = kernels(CHIP, op_type, [*inputs, *stored], outputs)
    for kernel in built:
        trace(kernel, load_profile(CHIP), numerics=True)
    x, down, up, of_heads, keys, first, second, sin, cos = (
        each.astype(np.float64) for each in given
    )
    q = (normal(x @ down, first) @ up).reshape(tokens, heads, depth + 64)
    c = x @ keys
    wanted = [
        np.einsum("tnd,ndl->tnl", q[..., :depth], of_heads),
        turned(q[..., depth:], sin[:, None], cos[:, None]),
        normal(c[:, :512], second),
        turned(c[:, 512:], sin, cos),
    ]
    for at, width in ((2, 512), (3, 64)):
        rows = np.zeros((160, width))
        rows[index[index >= 0]] = wanted[at][index >= 0]
        wanted[at] = rows.reshape(10, 16, 1, width)
    got = [*results, *built[0].writes[2:]]
    for ours, theirs in zip(got, wanted, strict=True):
        close = {"rtol": 4e-3, "atol": 4e-3 * max(1.0, np.abs(theirs).max())}
        np.testing.assert_allclose(ours.array.astype(np.float64), theirs, **close)


_PROLOG = (
    "tokenX=bf16[4,2,7168] weightDq=bf16[7168,1536] weightUqQr=bf16[1536,6144] "
    "weightUk=bf16[32,128,512] weightDkvKr=bf16[7168,576] rmsnormGammaCq=bf16[1536] "
    "rmsnormGammaCkv=bf16[512] ropeSin=bf16[4,2,64] ropeCos=bf16[4,2,64] {index}=int64[4,2] "
    "kvCacheRef=bf16[9,128,1,512] krCacheRef=bf16[9,128,1,64] rmsnormEpsilonCq=1e-5 "
    "rmsnormEpsilonCkv=1e-5 cacheModeOptional=PA_BSND"
)
_SMALLER = "tokenX=bf16[4,2,6144] weightDq=bf16[6144,1536] weightDkvKr=bf16[6144,576]"


@pytest.mark.parametrize(
    ("change", "second", "third"),
    [
        ("", 0, 0),
        (_SMALLER, 561002, 0),
        ("cacheModeOptional=PA_NZ", 0, 0),
        ("cacheModeOptional=BSND", 561002, 561002),
        ("ropeCos=bf16[4,2,32]", 561002, 561002),
        ("weightUqQr=bf16[1536,6080]", 561002, 561002),
        ("kvCacheRef=bf16[9,64,1,512] krCacheRef=bf16[9,64,1,64]", 561002, 561002),
        ("krCacheRef=bf16[9,128,1,128]", 561002, 561002),
        ("smoothScalesCqOptional=fp32[1,1536]", None, None),
    ],
)
def test_what_a_prolog_with_caches_takes(
    change: str, second: int | None, third: int | None
) -> None:
    device = Device(CHIP)
    reserved = ("weightQuantMode", "kvCacheQuantMode", "queryQuantMode", "ckvkrRepoMode")
    more = dict.fromkeys((*reserved, "quantScaleRepoMode"), 0) | {"tileSize": 128}
    more |= dict.fromkeys(("qcQrScale", "kcScale"), 1.0)
    for version, index, said, code in (
        ("V2", "cacheIndex", {}, second), ("V3", "cacheIndexOptional", more, third)
    ):  # fmt: skip
        words = f"{_PROLOG.format(index=index)} {change}".split()
        call: dict[str, Any] = dict(each.split("=", 1) for each in words)
        for name in ("rmsnormEpsilonCq", "rmsnormEpsilonCkv"):
            call[name] = float(call[name])
        found = device.check(f"aclnnMlaProlog{version}WeightNz", **call, **said)
        if code is None:
            assert found.verdict == "unknown", found
        else:
            assert found.code == code, (version, found)


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
