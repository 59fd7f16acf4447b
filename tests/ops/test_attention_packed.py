"""Packed sequences: where maxima and sums lie, turned parts of heads, and gradients from them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from npusim import Device
from support.tasks import BFLOAT16

Array = np.ndarray[Any, Any]

DEVICE = Device("Ascend910B3")
ROWS, KEYS = (60, 1, 140), (90, 30, 170)
HEADS, SHARED, COLUMNS = 4, 2, 16
SAID: dict[str, Any] = {
    "scaleValue": 0.25, "keepProb": 1.0, "preTokens": 65536, "nextTokens": 65536,
    "headNum": HEADS, "inputLayout": "TND", "innerPrecise": 0, "sparseMode": 0,
    "actualSeqQLenOptional": np.cumsum(ROWS).tolist(),
    "actualSeqKvLenOptional": np.cumsum(KEYS).tolist(),
}  # fmt: skip


def packed(tokens: int, heads: int, seed: int, kind: Any = np.float16) -> Array:
    return np.random.default_rng(seed).standard_normal((tokens, heads, COLUMNS)).astype(kind)


def sequences(x: Array, lengths: tuple[int, ...]) -> list[Array]:
    """(heads, tokens, columns) of each sequence in float64."""
    parts = np.split(x.astype(np.float64), np.cumsum(lengths)[:-1])
    return [np.repeat(each, HEADS // each.shape[1], 1).swapaxes(0, 1) for each in parts]


def stats(q: Array, k: Array) -> list[tuple[Array, Array]]:
    """Maxima and sums of the scores of each sequence (heads, tokens)."""
    found = []
    for own, theirs in zip(sequences(q, ROWS), sequences(k, KEYS), strict=True):
        scores = own @ theirs.swapaxes(1, 2) * 0.25
        top = scores.max(-1)
        found.append((top, np.exp(scores - top[..., None]).sum(-1)))
    return found


@pytest.mark.parametrize(
    "version", ["", "V2", "V4", "V4 as the queries", "V5", "V5 as the queries"]
)
def test_maxima_and_sums_of_packed_sequences(version: str) -> None:
    """By default head by head in each sequence: the device's kernel has no other place for them."""
    name, _, as_input = version.partition(" ")
    q, k = packed(sum(ROWS), HEADS, 0), packed(sum(KEYS), SHARED, 1)
    more = {"softmaxOutLayout": "same_as_input" if as_input else ""} if name > "V2" else {}
    more |= {"pseType": 1} if name in ("V2", "V5") else {}
    found = DEVICE.run(
        f"aclnnFlashAttentionVarLenScore{name}", query=q, key=k, value=k, softmaxOutOut=None,
        **SAID, **more,
    ).outputs  # fmt: skip
    for at, output in enumerate(("softmaxMaxOut", "softmaxSumOut")):
        assert found[output].shape == (sum(ROWS), HEADS, 8)
        parts = [each[at].T if as_input else each[at] for each in stats(q, k)]
        wanted = np.concatenate([np.repeat(each.reshape(-1, 1), 8, 1) for each in parts])
        np.testing.assert_allclose(found[output].reshape(-1, 8), wanted, rtol=2e-3)


def test_turned_parts_beside_packed_heads() -> None:
    q, k = (packed(sum(x), n, s, BFLOAT16) for x, n, s in ((ROWS, HEADS, 0), (KEYS, SHARED, 1)))
    turned = [packed(sum(x), n, s, BFLOAT16)[..., :8] for x, n, s in
              ((ROWS, HEADS, 2), (KEYS, SHARED, 3))]  # fmt: skip
    mask = np.zeros((max(ROWS), max(KEYS)), np.uint8)
    given = {"query": q, "key": k, "value": k, "attenMaskOptional": mask, "pseType": 1, **SAID}
    rope = {"queryRope": turned[0], "keyRope": turned[1]}
    name = "aclnnFlashAttentionVarLenScoreV3"
    out = DEVICE.run(name, **given, **rope).outputs["attentionOutOut"]
    joined = [np.concatenate([each, more], -1) for each, more in zip((q, k), turned, strict=True)]
    parts = [*(sequences(x, n) for x, n in zip(joined, (ROWS, KEYS), strict=True))]
    for got, own, theirs, values in zip(
        sequences(out, ROWS), *parts, sequences(k, KEYS), strict=True
    ):
        scores = own @ theirs.swapaxes(1, 2) * 0.25
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        wanted = weights / weights.sum(-1, keepdims=True) @ values
        np.testing.assert_allclose(got, wanted, atol=2e-2)
    assert DEVICE.check(name, **given, queryRope=turned[0], keyRope=None).code == 161001
    assert DEVICE.check(name, **{**given, **rope, "attenMaskOptional": None}).code == 161001
    assert DEVICE.check(name, **{**given, **rope, "keepProb": 0.5}).code == 161002
    assert DEVICE.check(name, **{**given, **rope, "sparseMode": 6}).code == 161002
    longer = {"queryRope": "bf16[201,4,17]", "keyRope": "bf16[290,2,17]"}
    assert DEVICE.check(name, **given, **longer).code == 161002


def test_gradients_of_packed_sequences() -> None:
    """What the forward keeps, in either order, gives the gradients."""
    q, k, dy = (packed(sum(x), n, s) for x, n, s in
                ((ROWS, HEADS, 0), (KEYS, SHARED, 1), (ROWS, HEADS, 2)))  # fmt: skip
    want_q, want_k = np.zeros(q.shape), np.zeros(k.shape)
    edges = [np.cumsum((0, *each)) for each in (ROWS, KEYS)]
    outs, kept, turned = [], [], []
    for at, (own, theirs, grad) in enumerate(
        zip(sequences(q, ROWS), sequences(k, KEYS), sequences(dy, ROWS), strict=True)
    ):
        scores = own @ theirs.swapaxes(1, 2) * 0.25
        top = scores.max(-1, keepdims=True)
        total = np.exp(scores - top).sum(-1, keepdims=True)
        weights = np.exp(scores - top) / total
        out = weights @ theirs
        inner = grad @ theirs.swapaxes(1, 2) - (grad * out).sum(-1, keepdims=True)
        inner = weights * inner * 0.25
        want_q[slice(*edges[0][at : at + 2])] = (inner @ theirs).swapaxes(0, 1)
        both = inner.swapaxes(1, 2) @ own, weights.swapaxes(1, 2) @ grad
        shared = (SHARED, HEADS // SHARED, KEYS[at], COLUMNS)
        want_k[slice(*edges[1][at : at + 2])] = (
            sum(both).reshape(shared).sum(1).swapaxes(0, 1)  # keys are values
        )
        outs.append(out.swapaxes(0, 1))
        pair = np.stack([top[..., 0], total[..., 0]])
        kept.append(pair.reshape(2, -1))
        turned.append(pair.swapaxes(1, 2).reshape(2, -1))
    for name, order, more in (
        ("", kept, {}),
        ("V2", kept, {"pseType": 1}),
        ("V4", kept, {"softmaxInLayout": ""}),
        ("V4", turned, {"softmaxInLayout": "same_as_input"}),
        ("V5", turned, {"softmaxInLayout": "same_as_input", "pseType": 1}),
    ):
        rows = np.concatenate(order, 1).reshape(2, sum(ROWS), HEADS, 1)
        top, total = np.repeat(rows, 8, 3).astype(np.float32)
        found = DEVICE.run(
            f"aclnnFlashAttentionUnpaddingScoreGrad{name}", query=q, keyIn=k, value=k, dy=dy,
            softmaxMaxOptional=top, softmaxSumOptional=total, dpseOut=None,
            attentionInOptional=np.concatenate(outs).astype(np.float16), **SAID, **more,
        ).outputs  # fmt: skip
        np.testing.assert_allclose(found["dqOut"].astype(np.float64), want_q, atol=2e-2)
        summed = found["dkOut"].astype(np.float64) + found["dvOut"].astype(np.float64)
        np.testing.assert_allclose(summed, want_k, atol=6e-2)


def test_what_the_pages_refuse_of_packed_sequences() -> None:
    call: dict[str, Any] = {"query": "fp16[201,4,16]", "key": "fp16[290,2,16]",
                            "value": "fp16[290,2,16]", **SAID}  # fmt: skip
    name = "aclnnFlashAttentionVarLenScore"
    for change, code in (({"inputLayout": "BSH"}, 161002), ({"sparseMode": 9}, 561103)):
        assert DEVICE.check(name, **{**call, **change}).code == code
    for output in ("softmaxMaxOut", "attentionOutOut"):
        assert DEVICE.check(name, **call, **{output: None}).code == 161001
    slopes = DEVICE.check(f"{name}V2", **call, pseType=2, realShiftOptional="fp32[4]")
    assert slopes.verdict == "unknown"
    assert Device("Ascend310P3").check(f"{name}V4", **call).code == 561003


def test_ragged_sequences_take_as_long_as_whole_blocks() -> None:
    """Scores and weights lie in rows of whole blocks, which are moved at once."""

    def duration_us(length: int) -> float:
        tokens, ends = 10 * length, [length * number for number in range(1, 11)]
        tensors = {
            "query": f"bf16[{tokens},14,64]",
            "key": [f"bf16[{tokens},2,64]"],
            "value": [f"bf16[{tokens},2,64]"],
        }
        said = {"numHeads": 14, "numKeyValueHeads": 2, "scaleValue": 0.1, "inputLayout": "TND"}
        lengths = dict.fromkeys(("actualSeqLengthsOptional", "actualSeqLengthsKvOptional"), ends)
        return DEVICE.estimate(
            "aclnnFusedInferAttentionScoreV3", **tensors, **said, **lengths
        ).duration_us

    assert duration_us(207) == pytest.approx(duration_us(208), rel=0.02)
    assert duration_us(209) == pytest.approx(duration_us(208), rel=0.02)


def test_packed_prompts_begin_as_late_as_packed_tokens() -> None:
    """One kernel does both; other layouts begin earlier."""
    begins = DEVICE.profile.launch.attention_us
    said: dict[str, Any] = {"numHeads": 4, "numKeyValueHeads": 4, "scaleValue": 0.1}
    packed_us, plain_us = (
        DEVICE.estimate(
            "aclnnFusedInferAttentionScoreV3", query=f"bf16{shape}", key=[f"bf16{shape}"],
            value=[f"bf16{shape}"], inputLayout=layout, **said, **lengths,
        ).duration_us
        for layout, shape, lengths in (
            ("TND", [256, 4, 128],
             {"actualSeqLengthsOptional": [256], "actualSeqLengthsKvOptional": [256]}),
            ("BSND", [1, 256, 4, 128], {}),
        )
    )  # fmt: skip
    assert packed_us - plain_us == pytest.approx(begins, rel=0.2)
