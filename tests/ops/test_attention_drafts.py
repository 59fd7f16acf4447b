"""Attention of a few queries a sequence, as drafts are verified: layouts, caches in pages, time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from support.attention import attention, heads, laid_out, rounded
from support.reference import assert_like_the_reference
from support.tasks import cycles, kernels, run

Array = np.ndarray[Any, Any]

CHIP = "Ascend910B3"
TRIANGLE = np.triu(np.ones((2048, 2048), np.uint8), 1)


def stored(x: Array, layout: str) -> Array:
    """Heads of one length in a layout, packed ones too."""
    if layout == "TND":
        return x.swapaxes(1, 2).reshape(-1, x.shape[1], x.shape[3]).astype(np.float16)
    return laid_out(x, layout, np.float16)


def in_pages(x: Array, size: int, layout: str) -> tuple[Array, Array]:
    """Keys of one length in pages out of order, and the table."""
    batch, shared, keys, columns = x.shape
    each = -(-keys // size)
    table = np.random.default_rng(1).permutation(batch * each).reshape(batch, each).astype(np.int32)
    whole = np.zeros((batch, shared, each * size, columns), np.float16)
    whole[:, :, :keys] = x
    cache = np.zeros((batch * each, shared, size, columns), np.float16)
    cache[table] = whole.reshape(batch, shared, each, size, columns).swapaxes(1, 2)
    if layout != "BNSD":
        cache = cache.swapaxes(1, 2).reshape(batch * each, size, -1)
    return cache, table


def call(
    q: Array, k: Array, v: Array, layout: str, *, size: int = 0, ropes: tuple[Array, Array] | None
) -> tuple[list[Array | None], dict[str, Any]]:
    """Inputs and attributes of FusedInferAttentionScore, causal from the lower right."""
    batch, count, queries, _ = q.shape
    keys = k.shape[2]
    own = [queries * (b + 1) for b in range(batch)] if layout == "TND" else [queries] * batch
    theirs = [keys * (b + 1) for b in range(batch)] if layout == "TND" else [keys] * batch
    given: dict[str, Any] = {
        "num_heads": count, "num_key_value_heads": k.shape[1], "input_layout": layout,
        "sparse_mode": 3, "scale": 0.2, "actual_seq_lengths": own,
        "actual_seq_lengths_kv": [keys] * batch if size else theirs,
    }  # fmt: skip
    inputs: list[Array | None] = [stored(q, layout), None, None, None, TRIANGLE, *[None] * 20]
    for at, x in ((1, k), (2, v), (22, None if ropes is None else ropes[1])):
        if x is not None:
            inputs[at] = stored(x, layout)
            if size:
                inputs[at], inputs[14] = in_pages(x, size, layout)
    if ropes is not None:
        inputs[21] = stored(ropes[0], layout)
    return inputs, given


@pytest.mark.parametrize("size", [0, 16, 48, 512])
@pytest.mark.parametrize("layout", ["TND", "BSH", "BSND", "BNSD"])
@pytest.mark.parametrize(
    ("shared", "group", "queries", "keys"),
    [(2, 7, 2, 700), (1, 5, 8, 61), (2, 8, 3, 1200), (3, 12, 13, 90)],
)
def test_few_queries(
    layout: str, size: int, shared: int, group: int, queries: int, keys: int
) -> None:
    q = heads(2, shared * group, queries, 32, 0)
    k, v = (heads(2, shared, keys, 32, seed) for seed in (1, 2))
    inputs, given = call(q, k, v, layout, size=size, ropes=None)
    outputs = [np.zeros_like(inputs[0])]
    (out,) = run(CHIP, "FusedInferAttentionScore", inputs, outputs, **given)
    seen = np.arange(keys) <= np.arange(queries)[:, None] + keys - queries
    want, _, _ = attention(*rounded(q, k, v, kind=np.float16), seen, 0.2)
    np.testing.assert_allclose(
        out.astype(np.float64), stored(want, layout).astype(np.float64), atol=4e-3
    )


@pytest.mark.parametrize("size", [0, 128])
@pytest.mark.parametrize(("layout", "count"), [("TND", 16), ("BNSD", 48), ("BSH", 128)])
def test_few_queries_beside_a_rope(layout: str, size: int, count: int) -> None:
    """More rows than a block has, and keys that are split where sequences are few."""
    q, q_rope = (heads(1, count, 3, columns, columns) for columns in (64, 16))
    k, k_rope = (heads(1, 1, 1300, columns, columns + 1) for columns in (64, 16))
    inputs, given = call(q, k, k, layout, size=size, ropes=(q_rope, k_rope))
    (out,) = run(CHIP, "FusedInferAttentionScore", inputs, [np.zeros_like(inputs[0])], **given)
    q, q_rope, k, k_rope = rounded(q, q_rope, k, k_rope, kind=np.float16)
    joined = [np.concatenate(pair, -1) for pair in ((q, q_rope), (k, k_rope))]
    seen = np.arange(1300) <= np.arange(3)[:, None] + 1297
    want, _, _ = attention(*joined, k, seen, 0.2)
    np.testing.assert_allclose(
        out.astype(np.float64), stored(want, layout).astype(np.float64), atol=4e-3
    )


@pytest.mark.parametrize("layout", ["TND", "BNSD"])
def test_the_reference_does_the_same(layout: str) -> None:
    q, k, v = heads(2, 14, 3, 32, 0), heads(2, 2, 600, 32, 1), heads(2, 2, 600, 32, 2)
    inputs, given = call(q, k, v, layout, size=64, ropes=None)
    outputs = [np.zeros_like(inputs[0])]
    (kernel,), profile = kernels(CHIP, "FusedInferAttentionScore", inputs, outputs, given)
    assert_like_the_reference(kernel, profile)


def time_of(queries: int, size: int, layout: str, *, latent: bool = False) -> float:
    shared, group, columns = (1, 32, 512) if latent else (4, 8, 128)
    q, k = heads_of(24, shared * group, queries, columns), heads_of(24, shared, 4096, columns)
    ropes = (heads_of(24, 32, queries, 64), heads_of(24, 1, 4096, 64)) if latent else None
    inputs, given = call(q, k, k, layout, size=size, ropes=ropes)
    return cycles(CHIP, "FusedInferAttentionScore", inputs, [inputs[0]], **given)


def heads_of(batch: int, number: int, length: int, columns: int) -> Array:
    """Numbers that nobody looks at."""
    return np.broadcast_to(np.zeros((), np.float16), (batch, number, length, columns))


@pytest.mark.parametrize("latent", [False, True])
@pytest.mark.parametrize("layout", ["TND", "BSH", "BNSD"])
def test_the_cache_is_read_once_for_all_queries(layout: str, latent: bool) -> None:
    """Heads and queries that share keys are rows of one block, in pages as elsewhere."""
    one, plain = (time_of(queries, 0, layout, latent=latent) for queries in (1, 4))
    for size in (128, 512):
        times = [time_of(queries, size, layout, latent=latent) for queries in (1, 2, 4)]
        assert times == sorted(times)
        assert times[-1] < 1.9 * one
        assert times[-1] == pytest.approx(plain, rel=0.1)
