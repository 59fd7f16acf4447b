"""ChunkGatedDeltaRule against its formula, token by token, in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from npusim import Device
from support.tasks import BFLOAT16, assert_time_needs_no_numbers

Array = np.ndarray[Any, Any]

CHIP = "Ascend910B3"
CASES = [
    ((64,), 1, 1, 128, 128),
    ((130, 1, 64), 2, 4, 128, 128),
    ((7, 0, 200), 1, 3, 32, 16),
    ((3300,), 2, 2, 64, 128),  # more than a group
]


def drawn(lengths: tuple[int, ...], key_heads: int, heads: int, keys: int, values: int) -> Any:
    """Keys of length one, as models have them, and states."""
    rng, tokens = np.random.default_rng(sum(lengths) * heads), sum(lengths)
    q, k = (rng.standard_normal((tokens, key_heads, keys)) for _ in range(2))
    q, k = (each / np.linalg.norm(each, axis=-1, keepdims=True) for each in (q, k))
    v = rng.standard_normal((tokens, heads, values))
    beta, decay = rng.random((tokens, heads)), -rng.random((tokens, heads)) / 8
    state = rng.standard_normal((len(lengths), heads, values, keys))
    halves = [each.astype(BFLOAT16) for each in (q, k, v, beta, state)]
    return [*halves, np.array(lengths, np.int32), decay.astype(np.float32)]


def wanted(given: list[Array], scale: float, *, decays: bool) -> tuple[Array, Array]:
    q, k, v, beta, state, lengths, decay = (np.asarray(e, np.float64) for e in given)
    out, new, group = np.zeros(v.shape), state.copy(), v.shape[1] // k.shape[1]
    ends = np.cumsum(lengths).astype(int)
    for sequence, (count, end) in enumerate(zip(lengths.astype(int), ends, strict=True)):
        for token in range(end - count, end):
            key, query = (np.repeat(each[token], group, 0) for each in (k, q))
            left = np.exp(decay[token]) if decays else np.ones(v.shape[1])
            held = left[:, None, None] * new[sequence]
            rest = v[token] - np.einsum("hvd,hd->hv", held, key)
            new[sequence] = held + np.einsum("h,hv,hd->hvd", beta[token], rest, key)
            out[token] = np.einsum("hvd,hd->hv", new[sequence], query) * scale
    return out, new


def called(given: list[Array], scale: float, *, decays: bool) -> dict[str, Any]:
    names = ["query", "key", "value", "beta", "initialState", "actualSeqLengths", "gOptional"]
    call = dict(zip(names, given, strict=True))
    return {**call, "scaleValue": scale, **({} if decays else {"gOptional": None})}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("decays", [True, False])
def test_states_follow_the_formula(case: Any, decays: bool) -> None:
    given = drawn(*case)
    want_out, want_state = wanted(given, 0.3, decays=decays)
    found = Device(CHIP).run("aclnnChunkGatedDeltaRule", **called(given, 0.3, decays=decays))
    out, state = (found.outputs[name].astype(np.float64) for name in ("out", "finalState"))
    np.testing.assert_allclose(out, want_out, atol=0.03 * np.abs(want_out).max())
    used = given[5] > 0
    np.testing.assert_allclose(state[used], want_state[used], atol=0.03 * np.abs(want_state).max())


def test_time_goes_by_tokens_and_heads() -> None:
    def taken_us(tokens: int, heads: int = 32, sequences: int = 1, **more: Any) -> float:
        call = {"query": f"bf16[{tokens},16,128]", "key": f"bf16[{tokens},16,128]",
            "value": f"bf16[{tokens},{heads},128]", "beta": f"bf16[{tokens},{heads}]",
            "initialState": f"bf16[{sequences},{heads},128,128]", "scaleValue": 0.1,
            "actualSeqLengths": f"int32[{sequences}]",
            "gOptional": f"fp32[{tokens},{heads}]"}  # fmt: skip
        found = Device(CHIP).estimate("aclnnChunkGatedDeltaRule", **call | more)
        assert [each.name for each in found.tasks] == ["ChunkGatedDeltaRule"]
        return found.duration_us

    one = taken_us(4096)
    assert 1.8 * one < taken_us(8192) < 2.2 * one
    assert 0.4 * one < taken_us(4096, heads=16) < 0.7 * one
    assert taken_us(4096, gOptional=None) < one
    # As many tokens in short sequences leave cores alone.
    assert taken_us(4096, sequences=64) > 1.2 * one
    # All that is read and written at least.
    assert one > 4096 * 32 * 128 * 2 * 4 / 1.6e6


def test_time_needs_no_numbers() -> None:
    given = drawn((130, 1, 64), 2, 4, 128, 128)
    outputs = [np.zeros_like(given[2]), np.zeros_like(given[4])]
    assert_time_needs_no_numbers(CHIP, "ChunkGatedDeltaRule", given, outputs, scale_value=0.1)


def test_what_page_and_tiling_refuse() -> None:
    given = {"query": "bf16[128,2,128]", "key": "bf16[128,2,128]", "value": "bf16[128,4,128]",
        "beta": "bf16[128,4]", "initialState": "bf16[3,4,128,128]", "gOptional": "fp32[128,4]",
        "actualSeqLengths": "int32[3]", "scaleValue": 1.0, "out": "bf16[128,4,128]",
        "finalState": "bf16[3,4,128,128]"}  # fmt: skip
    for soc, code in ((CHIP, 0), ("Ascend910_9391", 0), ("Ascend310P3", 561003)):
        assert Device(soc).check("aclnnChunkGatedDeltaRule", **given).code == code
    npu = Device(CHIP)
    for changed, code in (
        ({"gOptional": None}, 0),
        ({"beta": None}, 161001),
        ({"query": "fp16[128,2,128]"}, 161002),
        ({"initialState": "fp32[3,4,128,128]", "finalState": "fp32[3,4,128,128]"}, 561002),
        ({"gOptional": "bf16[128,4]"}, 161002),
        ({"key": "bf16[128,2,64]"}, 561002),
        ({"query": "bf16[128,3,128]", "key": "bf16[128,3,128]"}, 561002),
        ({"actualSeqLengths": "int32[2]"}, 561002),
        (
            {
                "query": "bf16[128,2,144]",
                "key": "bf16[128,2,144]",
                "initialState": "bf16[3,4,128,144]",
                "finalState": "bf16[3,4,128,144]",
            },
            561002,
        ),
    ):
        found = npu.check("aclnnChunkGatedDeltaRule", **{**given, **changed})
        assert found.code == code, changed
