"""RecurrentGatedDeltaRule against the formula of its page in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from npusim import Device
from support.tasks import BFLOAT16, assert_time_needs_no_numbers, cycles, run

Array = np.ndarray[Any, Any]

CHIP = "Ascend910B3"
CASES = [
    ((1,), 1, 1, 16, 16), ((1, 1, 1), 2, 4, 32, 24), ((3, 1, 8, 2), 2, 2, 128, 128),
    ((2, 2), 4, 8, 128, 200), ((0, 5), 1, 3, 48, 40), ((2,), 1, 1, 40, 16), ((1, 3), 1, 2, 7, 5),
]  # fmt: skip


def drawn(lengths: tuple[int, ...], key_heads: int, heads: int, keys: int, values: int) -> Any:
    """All inputs, with states of tokens in places of their own, shuffled."""
    rng, tokens = np.random.default_rng(len(lengths) * keys + values), sum(lengths)
    q, k = (
        (rng.standard_normal((tokens, key_heads, keys)) / keys**0.5).astype(BFLOAT16)
        for _ in range(2)
    )
    v = rng.standard_normal((tokens, heads, values)).astype(BFLOAT16)
    beta = rng.random((tokens, heads)).astype(BFLOAT16)
    decay = -rng.random((tokens, heads)).astype(np.float32)
    places = rng.permutation(tokens + 3)[:tokens].astype(np.int32)
    state = rng.standard_normal((tokens + 3, heads, values, keys)).astype(BFLOAT16)
    return [q, k, v, beta, state, np.array(lengths, np.int32), places, decay]


def wanted(given: list[Array], accepted: Array | None, scale: float) -> tuple[Array, Array]:
    q, k, v, beta, state, lengths, places, decay = (np.asarray(e, np.float64) for e in given)
    out, new, first = np.zeros(v.shape), state.copy(), 0
    group = v.shape[1] // k.shape[1]
    for sequence, count in enumerate(lengths.astype(int)):
        if not count:
            continue
        begins = first + (0 if accepted is None else int(accepted[sequence]) - 1)
        own = state[int(places[begins])].copy()
        for token in range(first, first + count):
            for head in range(v.shape[1]):
                key, query = k[token, head // group], q[token, head // group]
                held = np.exp(decay[token, head]) * own[head]
                own[head] = held + beta[token, head] * np.outer(v[token, head] - held @ key, key)
                out[token, head] = own[head] @ query * scale
            new[int(places[token])] = own
        first += count
    return out, new


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("accepting", [False, True])
def test_states_follow_the_formula(case: Any, accepting: bool) -> None:
    given, scale = drawn(*case), 0.3
    accepted = np.maximum(1, given[5]).astype(np.int32) if accepting else None
    want_out, want_state = wanted(given, accepted, scale)
    out, state = run(
        CHIP, "RecurrentGatedDeltaRule", [*given, None, accepted],
        [np.zeros_like(given[2]), given[4].copy()], scale_value=scale,
    )  # fmt: skip
    np.testing.assert_allclose(out.astype(np.float64), want_out, atol=0.02 * np.abs(want_out).max())
    np.testing.assert_allclose(state.astype(np.float64), want_state, atol=0.04, rtol=0.02)


def test_time_goes_by_sequences_and_needs_no_numbers() -> None:
    given, outputs = drawn((1,) * 8, 4, 8, 128, 128), None
    outputs = [np.zeros_like(given[2]), given[4].copy()]
    assert_time_needs_no_numbers(CHIP, "RecurrentGatedDeltaRule", given, outputs)
    many = drawn((1,) * 64, 4, 8, 128, 128)
    longer = cycles(CHIP, "RecurrentGatedDeltaRule", many, [np.zeros_like(many[2]), many[4].copy()])
    assert longer > 3 * cycles(CHIP, "RecurrentGatedDeltaRule", given, outputs)


def test_the_interface() -> None:
    call = ("query=bf16[32,16,128] key=bf16[32,16,128] value=bf16[32,32,128] beta=bf16[32,32] "
            "stateRef=bf16[40,32,128,128] actualSeqLengths=int32[32] ssmStateIndices=int32[32] "
            "g=fp32[32,32] scaleValue=0.1 out=bf16[32,32,128]")  # fmt: skip
    words: dict[str, Any] = dict(each.split("=") for each in call.split())
    words["scaleValue"] = 0.1
    for soc in (CHIP, "Ascend910_9391"):
        assert Device(soc).estimate("aclnnRecurrentGatedDeltaRule", **words).duration_us > 20
    found = Device("Ascend310P3").check("aclnnRecurrentGatedDeltaRule", **words)
    assert found.code != 0


def test_lengths_of_a_call_are_those_that_it_gives() -> None:
    """They are numbers of a tensor, and decide how work is divided."""
    given = drawn((1, 4, 2, 7), 2, 4, 128, 128)
    want, _ = wanted(given, None, 0.3)
    names = [
        "query",
        "key",
        "value",
        "beta",
        "stateRef",
        "actualSeqLengths",
        "ssmStateIndices",
        "g",
    ]
    call = dict(zip(names, given, strict=True), gk=None, numAcceptedTokens=None, scaleValue=0.3)
    out = Device(CHIP).run("aclnnRecurrentGatedDeltaRule", **call).outputs["out"]
    np.testing.assert_allclose(out.astype(np.float64), want, atol=0.02 * np.abs(want).max())
