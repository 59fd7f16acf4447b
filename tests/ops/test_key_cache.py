"""Latent keys normalised, turned and put into caches, against float64, however caches lie."""

from __future__ import annotations

from math import ceil
from typing import Any

import numpy as np
import pytest

from npusim import Device, TensorSpec
from npusim.values.errors import AclnnError, DeviceFault

A2 = Device("Ascend910B3")
API = "aclnnKvRmsNormRopeCache"
PAGE, LONGEST = 32, 64  # tokens of a page, and of a sequence's cache
WIDTHS = {"kCacheRef": 64, "ckvCacheRef": 512}
Array = np.ndarray[Any, Any]


def call(mode: str, batch: int, length: int, *, shared: bool, quantised: bool) -> dict[str, Any]:
    """A call with random numbers, whose first token or page is skipped."""
    dice = np.random.default_rng(batch)
    tokens = batch * length
    pages = batch * ceil(length / PAGE)
    shape = (batch, 1, LONGEST) if mode == "Norm" else (tokens // PAGE + pages, PAGE, 1)
    index = dice.permutation(LONGEST if mode == "Norm" else tokens)[:tokens]
    if mode == "Norm":
        index = np.stack([dice.permutation(LONGEST)[:length] for _ in range(batch)])
    elif "BLK" in mode:
        index = dice.permutation(pages) * PAGE
    index.reshape(-1)[0] = -1
    kind = np.int8 if quantised else np.float16
    return {
        "kv": dice.standard_normal((batch, 1, length, 576)).astype(np.float16),
        "gamma": dice.standard_normal(512).astype(np.float16),
        **{name: dice.uniform(-1, 1, (batch, 1, 1 if shared else length, 64)).astype(np.float16)
           for name in ("cos", "sin")},
        "index": index.astype(np.int64),
        **{name: np.zeros((*shape, width), kind) for name, width in WIDTHS.items()},
        "kRopeScaleOptional": dice.uniform(9, 30, 64).astype(np.float32) if quantised else None,
        "cKvScaleOptional": dice.uniform(9, 30, 512).astype(np.float32) if quantised else None,
        "kRopeOffsetOptional": None,
        "cKvOffsetOptional": None,
        "epsilon": 1e-5,
        "cacheModeOptional": mode,
        "isOutputKv": True,
        "kRopeOut": np.zeros((batch, 1, length, 64), np.float16),
        "cKvOut": np.zeros((batch, 1, length, 512), np.float16),
    }  # fmt: skip


def wanted(given: dict[str, Any]) -> tuple[Array, Array]:
    """Turned and normalised rows in float64, [batch, tokens, width]."""
    x = given["kv"].astype(np.float64)[:, 0]
    latent, pairs = x[..., :512], x[..., 512:]
    root = np.sqrt((latent**2).mean(-1, keepdims=True) + given["epsilon"])
    even, odd = pairs[..., ::2], pairs[..., 1::2]
    cos, sin = (given[name].astype(np.float64)[:, 0] for name in ("cos", "sin"))
    turned = np.concatenate((even, odd), -1) * cos + np.concatenate((-odd, even), -1) * sin
    return turned, latent / root * given["gamma"].astype(np.float64)


def cache_of(mode: str, given: dict[str, Any], name: str, rows: Array) -> Array:
    """What a cache becomes."""
    empty, width = given[name], WIDTHS[name]
    flat = np.zeros(empty.shape).reshape(-1, width)
    batch, length = rows.shape[:2]
    of_pages = given["index"].reshape(batch, -1)
    for sequence in range(batch):
        for token in range(length):
            at = of_pages[sequence, token // PAGE if "BLK" in mode else token]
            if at >= 0:
                own = sequence * LONGEST if mode == "Norm" else token % PAGE * ("BLK" in mode)
                flat[at + own] = rows[sequence, token]
    if "NZ" not in mode:
        return flat.reshape(empty.shape)
    lanes = 32 // empty.dtype.itemsize
    pages = flat.reshape(-1, PAGE, width // lanes, lanes).swapaxes(1, 2)
    return np.ascontiguousarray(pages).reshape(empty.shape)


@pytest.mark.parametrize("sizes", [(5, 1, False), (8, 1, True), (2, 35, False), (3, 19, True)])
@pytest.mark.parametrize(
    ("mode", "quantised"),
    [("Norm", False), ("PA", True), ("PA_BNSD", False), ("PA_NZ", True), ("PA_NZ", False),
     ("PA_BLK_BNSD", False), ("PA_BLK_BNSD", True), ("PA_BLK_NZ", False)],
)  # fmt: skip
def test_tokens_come_to_their_places(
    mode: str, quantised: bool, sizes: tuple[int, int, bool]
) -> None:
    batch, length, shared = sizes
    given = call(mode, batch, length, shared=shared, quantised=quantised)
    found = A2.run(API, **given).outputs
    turned, normal = wanted(given)
    np.testing.assert_allclose(found["kRopeOut"][:, 0], turned, atol=1e-2, rtol=4e-3)
    np.testing.assert_allclose(found["cKvOut"][:, 0], normal, atol=1e-2, rtol=4e-3)
    pairs = ("kCacheRef", turned, "kRopeScaleOptional"), ("ckvCacheRef", normal, "cKvScaleOptional")
    for name, rows, scale in pairs:
        bytes_ = np.clip(np.rint(rows * given[scale]), -128, 127) if quantised else rows
        want = cache_of(mode, given, name, bytes_)
        off = 1.01 if quantised else 1e-2
        np.testing.assert_allclose(found[name].astype(float), want, atol=off, rtol=4e-3)


def test_more_tokens_take_longer_and_fractals_longer_still() -> None:
    times = [
        A2.run(API, **call(mode, batch, 64, shared=False, quantised=False)).duration_us
        for mode, batch in (("PA_BNSD", 2), ("PA_BNSD", 16), ("PA_NZ", 16))
    ]
    assert times == sorted(times)


def test_what_the_tiling_refuses() -> None:
    given = {**call("PA_NZ", 4, 1, shared=False, quantised=False), "isOutputKv": False}
    odd = {
        "gamma": TensorSpec((256,), "float16"),
        "kCacheRef": TensorSpec((4, 24, 1, 64), "float16"),  # pages of 24 tokens
        "index": TensorSpec((3,), "int64"),
    }
    assert A2.check(API, **given).ok
    for name, spec in odd.items():
        status = A2.check(API, **{**given, name: spec})
        assert status.code == 561002, name
    with pytest.raises(AclnnError):
        Device("Ascend310P3").run(API, **given)


def test_an_index_behind_the_cache_is_a_fault() -> None:
    given = call("PA_BNSD", 4, 1, shared=False, quantised=False)
    given["index"][2] = 10_000
    with pytest.raises(DeviceFault, match="index 10000"):
        A2.run(API, **given)


def test_a_later_interface_does_what_the_first_does() -> None:
    given = call("Norm", 2, 8, shared=False, quantised=False)
    first, later = (A2.estimate(name, **given) for name in (API, f"{API}V2"))
    assert first.duration_us == later.duration_us
    refused = A2.check(f"{API}V2", **given, vOptional=np.zeros((2, 1, 8, 512), np.float16))
    assert refused.verdict == "unknown"
