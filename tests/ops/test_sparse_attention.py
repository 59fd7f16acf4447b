"""Sparse attention and its indexer against their pages' formulas in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from npusim import Device
from npusim.ops.attention.indexer_dealing import Dealt
from npusim.ops.attention.lengths import Lengths
from support.tasks import BFLOAT16, assert_time_needs_no_numbers, cycles, like, run

Array = np.ndarray[Any, Any]

CHIP = "Ascend910B3"
PAGE = 128
EVERYTHING = 2**63 - 1


def cache(rng: Any, batch: int, keys: int, *widths: int, paged: bool) -> tuple[list[Array], Any]:
    """Tensors of keys, in pages that are shuffled or one behind the other, and their table."""
    if not paged:
        return [
            rng.standard_normal((batch, keys, 1, each)).astype(BFLOAT16) for each in widths
        ], None
    pages = -(-keys // PAGE)
    table = rng.permutation(batch * pages).reshape(batch, pages).astype(np.int32)
    shape = (batch * pages, PAGE, 1)
    return [rng.standard_normal((*shape, each)).astype(BFLOAT16) for each in widths], table


def together(kept: Array, table: Array | None) -> Array:
    """Keys of each sequence, whatever pages they lie in, in float64."""
    if table is not None:
        kept = kept[table].reshape(table.shape[0], -1, *kept.shape[2:])
    return kept[:, :, 0].astype(np.float64)


def chosen(rng: Any, lengths: Array, queries: int, count: int) -> Array:
    """Some keys of those that each query sees, and -1 behind them."""
    found = np.full((len(lengths), queries, 1, count), -1, np.int32)
    for sequence, keys in enumerate(lengths):
        for query in range(queries):
            seen = int(keys) - (queries - 1 - query)
            own = min(count, seen)
            found[sequence, query, 0, :own] = rng.permutation(seen)[:own]
    return found


def attended(
    q: Array, turned: Array, keys: Array, ropes: Array, places: Array, scale: float
) -> Any:
    out = np.zeros(q.shape)
    for sequence, query in np.ndindex(q.shape[:2]):
        own = places[sequence, query, 0]
        own = own[own >= 0]
        key, rope = keys[sequence, own], ropes[sequence, own]
        scores = q[sequence, query].astype(np.float64) @ key.T
        scores = (scores + turned[sequence, query].astype(np.float64) @ rope.T) * scale
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        out[sequence, query] = shares / shares.sum(-1, keepdims=True) @ key
    return out


@pytest.mark.parametrize(
    ("batch", "queries", "heads", "keys", "count", "paged"),
    [(2, 1, 16, 300, 40, False), (2, 2, 128, 700, 600, True), (1, 3, 32, 1300, 1100, True),
     (3, 1, 1, 65, 64, False)],
)  # fmt: skip
def test_queries_attend_to_the_keys_that_were_chosen(
    batch: int, queries: int, heads: int, keys: int, count: int, paged: bool
) -> None:
    rng = np.random.default_rng(keys)
    q, turned = (
        rng.standard_normal((batch, queries, heads, each)).astype(BFLOAT16) for each in (512, 64)
    )
    (key, rope), table = cache(rng, batch, keys, 512, 64, paged=paged)
    lengths = rng.integers(max(queries, keys // 2), keys + 1, batch).astype(np.int32)
    places = chosen(rng, lengths, queries, count)
    given = [q, key, key, places, table, None, lengths, turned, rope]
    (out,) = run(CHIP, "SparseFlashAttention", given, [like(q)], scale_value=0.04)
    want = attended(q, turned, together(key, table), together(rope, table), places, 0.04)
    np.testing.assert_allclose(out.astype(np.float64), want, atol=0.01 * np.abs(want).max())
    assert_time_needs_no_numbers(CHIP, "SparseFlashAttention", given, [like(q)], scale_value=0.04)


def test_packed_queries_and_blocks_of_keys() -> None:
    rng = np.random.default_rng(1)
    ends, key_ends = np.array([1, 4], np.int32), np.array([50, 170], np.int32)
    q, turned = (rng.standard_normal((4, 8, each)).astype(BFLOAT16) for each in (512, 64))
    key, rope = (rng.standard_normal((170, 1, each)).astype(BFLOAT16) for each in (512, 64))
    blocks = np.full((4, 1, 9), -1, np.int32)
    for query, count in enumerate((12, 29, 29, 30)):
        blocks[query, 0, :9] = rng.permutation(count)[:9]
    given = [q, key, key, blocks, None, ends, key_ends, turned, rope]
    said: dict[str, Any] = {"layout_query": "TND", "layout_kv": "TND", "sparse_block_size": 4}
    said["scale_value"] = 0.04
    (out,) = run(CHIP, "SparseFlashAttention", given, [like(q)], **said)
    for query in range(4):
        begin, seen = (0, 50) if query == 0 else (50, 120 - (3 - query))
        own = (blocks[query, 0][:, None] * 4 + np.arange(4)).reshape(-1)
        own = begin + own[own < seen]
        alone = [each[None, query : query + 1] for each in (q, turned)]
        flat = [each[None, own, 0].astype(np.float64) for each in (key, rope)]
        every = np.arange(len(own), dtype=np.int32)[None, None, None]
        want = attended(*alone, *flat, every, 0.04)[0, 0]
        np.testing.assert_allclose(out[query].astype(np.float64), want, atol=0.01)


@pytest.mark.parametrize(
    ("batch", "queries", "heads", "keys", "count", "paged", "causal"),
    [(2, 1, 64, 3000, 2048, True, 3), (3, 2, 8, 700, 100, False, 3),
     (1, 13, 24, 1100, 300, False, 3), (1, 5, 64, 9, 16, False, 3),
     (2, 9, 16, 12000, 2048, True, 3), (2, 3, 5, 1500, 64, False, 0),
     (1, 6, 3, 4, 8, False, 3)],
)  # fmt: skip
def test_the_best_keys_are_found(
    batch: int, queries: int, heads: int, keys: int, count: int, paged: bool, causal: int
) -> None:
    rng = np.random.default_rng(keys + heads)
    kind = np.dtype(np.float32 if heads == 8 else BFLOAT16)
    q = rng.standard_normal((batch, queries, heads, 128)).astype(BFLOAT16)
    weights = rng.random((batch, queries, heads)).astype(kind)
    (key,), table = cache(rng, batch, keys, 128, paged=paged)
    lengths = rng.integers(max(1, keys // 2), keys + 1, batch).astype(np.int32)
    outs = [np.full((batch, queries, 1, count), 77, np.int32)]
    said = {"sparse_count": count, "sparse_mode": causal}
    if not paged:
        said["return_value"] = True
        outs.append(like(outs[0], BFLOAT16))
    given = [q, key, weights, None, lengths, table]
    places, *values = run(CHIP, "LightningIndexer", given, outs, **said)
    flat = together(key, table)
    for sequence, query in np.ndindex(batch, queries):
        seen = int(lengths[sequence]) - (queries - 1 - query if causal else 0)
        own, kept = places[sequence, query, 0], max(0, min(count, seen))
        assert (own[kept:] == -1).all()
        assert len(set(own[:kept].tolist())) == kept
        scores = np.maximum(q[sequence, query].astype(np.float64) @ flat[sequence].T, 0)
        scores = (scores * weights[sequence, query].astype(np.float64)[:, None]).sum(0)[
            : max(0, seen)
        ]
        best = np.sort(scores)[::-1][:kept]
        np.testing.assert_allclose(scores[own[:kept]], best, rtol=1e-3, atol=1e-3)
        if values:
            told = values[0][sequence, query, 0]
            np.testing.assert_allclose(told[:kept].astype(np.float64), best, rtol=0.01, atol=1e-3)
    assert_time_needs_no_numbers(CHIP, "LightningIndexer", given, outs, **said)


def test_what_stands_for_blocks_are_as_many() -> None:
    for queries, keys in (([1] * 9, [5000] * 9), ([40, 3, 1], [9000, 700, 1]), ([4096], [70000])):
        zeros = np.zeros(len(queries), np.int64)
        lengths = Lengths(np.array(queries), np.array(keys), zeros, zeros)
        dealt = Dealt(lengths, 24, causal=True)
        assert (
            sum(part.last - part.first for each in dealt.parts for part in each) == dealt.ends[-1]
        )
        for cluster in range(0, dealt.used, 5):
            times = sum(times for _, times in dealt.typical(cluster).values())
            assert times == len(dealt.turns(cluster))


def test_more_keys_take_longer() -> None:
    def indexed(keys: int, queries: int = 1) -> float:
        given = [np.zeros((8, queries, 64, 128), BFLOAT16), np.zeros((8, keys, 1, 128), BFLOAT16),
                 np.zeros((8, queries, 64), BFLOAT16)]  # fmt: skip
        outs = [np.zeros((8, queries, 1, 512), np.int32)]
        return cycles(CHIP, "LightningIndexer", given, outs, sparse_count=512)

    times = [indexed(keys) for keys in (512, 4096, 32768)]
    assert times[0] < times[1] < times[2] / 3
    assert indexed(512) < indexed(512, 8)


ATTENTION = (
    "query=bf16[2,1,128,512] key=bf16[40,128,1,512] value=bf16[40,128,1,512] "
    "sparseIndices=int32[2,1,1,64] blockTableOptional=int32[2,20] "
    "actualSeqLengthsKvOptional=int32[2] queryRopeOptional=bf16[2,1,128,64] "
    "keyRopeOptional=bf16[40,128,1,64] layoutQueryOptional=BSND layoutKvOptional=PA_BSND "
    "attentionOut=bf16[2,1,128,512]"
)
INDEXER = (
    "query=bf16[24,1,64,128] key=bf16[1536,128,1,128] weights=bf16[24,1,64] "
    "actualSeqLengthsKeyOptional=int32[24] blockTableOptional=int32[24,64] "
    "layoutQueryOptional=BSND layoutKeyOptional=PA_BSND sparseIndicesOut=int32[24,1,1,2048]"
)
SAID: dict[str, dict[str, Any]] = {
    ATTENTION: {"scaleValue": 0.04, "sparseBlockSizeOptional": 1, "attentionMode": 2,
                "returnSoftmaxLse": False},
    INDEXER: {"sparseCount": 2048, "returnValues": False},
}  # fmt: skip


def asked(call: str, soc: str, **changed: Any) -> Any:
    words: dict[str, Any] = dict(each.split("=") for each in call.split())
    usual = {"sparseMode": 3, "preTokens": EVERYTHING, "nextTokens": EVERYTHING}
    name = "aclnnSparseFlashAttention" if call is ATTENTION else "aclnnLightningIndexer"
    return Device(soc).check(name, **(words | usual | SAID[call] | changed))


@pytest.mark.parametrize("call", [ATTENTION, INDEXER])
def test_products_that_have_them(call: str) -> None:
    for soc in (CHIP, "Ascend910_9391"):
        assert asked(call, soc).code == 0
    for soc in ("Ascend310P3", "Ascend910A"):
        assert asked(call, soc).code == 561003


@pytest.mark.parametrize(
    ("call", "changed"),
    [
        (ATTENTION, {"attentionMode": 0}),
        (ATTENTION, {"sparseMode": 1}),
        (ATTENTION, {"sparseBlockSizeOptional": 3}),
        (ATTENTION, {"preTokens": 5}),
        (ATTENTION, {"blockTableOptional": None}),
        (ATTENTION, {"layoutQueryOptional": "TND"}),
        (ATTENTION, {"queryRopeOptional": "bf16[2,1,128,32]"}),
        (ATTENTION, {"query": "bf16[2,1,100,512]", "queryRopeOptional": "bf16[2,1,100,64]",
                     "attentionOut": "bf16[2,1,100,512]"}),
        (INDEXER, {"sparseCount": 2049, "sparseIndicesOut": "int32[24,1,1,2049]"}),
        (INDEXER, {"key": "bf16[1536,100,1,128]"}),
        (INDEXER, {"weights": "fp16[24,1,64]"}),
        (INDEXER, {"returnValues": True, "sparseValuesOut": "bf16[24,1,1,2048]"}),
        (INDEXER, {"query": "bf16[24,1,65,128]", "weights": "bf16[24,1,65]"}),
    ],
)  # fmt: skip
def test_tilings_refuse(call: str, changed: dict[str, Any]) -> None:
    assert asked(call, CHIP, **changed).code == 561002
