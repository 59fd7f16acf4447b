"""Attention of a few queries a sequence, as drafts are verified: layouts, caches in pages, time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from npusim.hardware import load_profile
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


@pytest.mark.parametrize("size", [0, 16, 512])
@pytest.mark.parametrize("layout", ["TND", "BSH", "BSND", "BNSD"])
@pytest.mark.parametrize(
    ("shared", "group", "queries", "keys"),
    [(2, 7, 2, 700), (1, 5, 8, 61), (3, 12, 13, 90)],
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
@pytest.mark.parametrize(("layout", "count"), [("TND", 16), ("BNSD", 48), ("BSH", 64)])
def test_few_queries_beside_a_rope(layout: str, size: int, count: int) -> None:
    """More rows than a block has, and keys that are split where sequences are few."""
    q, q_rope = (heads(1, count, 3, columns, columns) for columns in (64, 16))
    k, k_rope = (heads(1, 1, 700, columns, columns + 1) for columns in (64, 16))
    inputs, given = call(q, k, k, layout, size=size, ropes=(q_rope, k_rope))
    (out,) = run(CHIP, "FusedInferAttentionScore", inputs, [np.zeros_like(inputs[0])], **given)
    q, q_rope, k, k_rope = rounded(q, q_rope, k, k_rope, kind=np.float16)
    joined = [np.concatenate(pair, -1) for pair in ((q, q_rope), (k, k_rope))]
    seen = np.arange(700) <= np.arange(3)[:, None] + 697
    want, _, _ = attention(*joined, k, seen, 0.2)
    np.testing.assert_allclose(
        out.astype(np.float64), stored(want, layout).astype(np.float64), atol=4e-3
    )


@pytest.mark.parametrize("layout", ["TND", "BNSD"])
def test_the_reference_does_the_same(layout: str) -> None:
    q, k, v = heads(2, 14, 3, 32, 0), heads(2, 2, 600, 32, 1), heads(2, 2, 600, 32, 2)
    inputs, given = call(q, k, v, layout, size=64, ropes=None)
    outputs = [np.zeros_like(inputs[0])]

    def build() -> tuple[Any, Any]:
        return kernels(CHIP, "FusedInferAttentionScore", inputs, outputs, given)

    # A round is on its way while the one before is finished: loops begin the last one first.
    assert_like_the_reference(build, load_profile(CHIP), rounding=64, typical=layout == "TND")


@pytest.mark.parametrize(("layout", "cores"), [("TND", 4), ("BSH", 20)])
def test_keys_of_packed_sequences_are_not_split(layout: str, cores: int) -> None:
    """Each head of each sequence has a core; all cores have parts where sequences lie apart."""
    q, k = (2, 8, 1, 128), (2, 2, 4096, 128)
    packed = layout == "TND"
    given = {
        "num_heads": 8, "num_key_value_heads": 2, "input_layout": layout, "sparse_mode": 3,
        "actual_seq_lengths": [1, 1 + packed], "actual_seq_lengths_kv": [4096] * 2,
    }  # fmt: skip
    inputs: list[Array | None] = [empty(q, layout), *[empty(k, layout, 128)] * 2, None, TRIANGLE]
    inputs += [*[None] * 9, np.zeros((2, 32), np.int32), *[None] * 6]
    (kernel,), _ = kernels(CHIP, "FusedInferAttentionScore", inputs, [empty(q, layout)], given)
    assert kernel.block_dim == cores


def time_of(queries: int, size: int, layout: str, *, latent: bool = False) -> float:
    """Cycles for 24 sequences of 4,096 keys; nobody looks at the numbers."""
    shared, group, columns = (1, 32, 512) if latent else (4, 8, 128)
    q, k = (24, shared * group, queries, columns), (24, shared, 4096, columns)
    packed, table = layout == "TND", np.zeros((24, 4096 // (size or 1)), np.int32)
    given = {
        "num_heads": q[1], "num_key_value_heads": shared, "input_layout": layout, "sparse_mode": 3,
        "actual_seq_lengths": [queries * (b + 1 if packed else 1) for b in range(24)],
        "actual_seq_lengths_kv": [4096 * (b + 1 if packed and not size else 1) for b in range(24)],
    }  # fmt: skip
    inputs: list[Array | None] = [empty(q, layout), *[empty(k, layout, size)] * 2, None, TRIANGLE]
    inputs += [*[None] * 9, table if size else None, *[None] * 6]
    inputs += [empty((*q[:3], 64), layout), empty((*k[:3], 64), layout, size)] if latent else []
    return cycles(CHIP, "FusedInferAttentionScore", inputs, [empty(q, layout)], **given)


def empty(shape: tuple[int, ...], layout: str, size: int = 0) -> Array:
    """Heads in a layout, in pages of so many tokens if any."""
    batch, number, length, columns = shape
    if size:
        batch, length = batch * length // size, size
    sizes = {"TND": (batch * length, number, columns), "BNSD": (batch, number, length, columns)}
    flat = batch, length, number * columns
    found = flat if size and layout != "BNSD" else sizes.get(layout, flat)
    return np.broadcast_to(np.zeros((), np.float16), found)


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
