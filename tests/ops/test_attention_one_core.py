"""Attention of inference where cube and vector unit share a core: numbers, schedule, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from npusim import Device, TensorSpec
from npusim.hardware import load_profile
from npusim.values.errors import KernelError
from support import physics
from support.attention import Array, attention, heads, laid_out, rounded
from support.reference import observed
from support.tasks import cycles, kernels, run

CHIP = "Ascend310P3"
PROMPT, TOKENS = "PromptFlashAttention", "IncreFlashAttention"


def called(
    shape: tuple[int, ...], layout: str, mask: Array | None = None, **given: Any
) -> tuple[list[Array | None], list[Array], dict[str, Any]]:
    """Operands of (batch, heads, heads of keys, queries, keys, columns), results, attributes."""
    batch, number, shared, queries, keys, columns = shape
    inputs: list[Array | None] = [
        laid_out(heads(batch, *each, columns, seed), layout, np.float16)
        for seed, each in enumerate([(number, queries), (shared, keys), (shared, keys)])
    ]
    named = {"num_heads": number, "num_key_value_heads": shared, "input_layout": layout}
    out = np.zeros_like(inputs[0])
    more = [] if mask is None else [None, mask]
    return [*inputs, *more], [out], {**named, "scale_value": columns**-0.5, **given}


def wanted(shape: tuple[int, ...], layout: str, seen: Array | bool = True) -> Array:
    batch, number, shared, queries, keys, columns = shape
    q, k, v = (
        heads(batch, *each, columns, seed)
        for seed, each in enumerate([(number, queries), (shared, keys), (shared, keys)])
    )
    found, _, _ = attention(*rounded(q, k, v, kind=np.float16), seen)
    return laid_out(found, layout, np.float64)


CASES = [
    (PROMPT, (2, 4, 2, 200, 300, 64), "BSH"),
    (PROMPT, (1, 2, 2, 37, 517, 128), "BSND"),
    (PROMPT, (1, 1, 1, 130, 200, 256), "BNSD"),
    (TOKENS, (2, 4, 1, 1, 1300, 128), "BNSD"),  # heads that share keys: the cube
    (TOKENS, (1, 2, 2, 1, 900, 64), "BNSD"),  # long sequences of heads of their own: the cube
    (TOKENS, (1, 2, 2, 1, 9000, 64), "BSH"),  # and else the vector unit, here two rounds
    (TOKENS, (3, 2, 2, 1, 37, 80), "BNSD"),
]


@pytest.mark.parametrize(("op_type", "shape", "layout"), CASES)
def test_against_attention_in_float64(op_type: str, shape: tuple[int, ...], layout: str) -> None:
    inputs, outputs, given = called(shape, layout)
    (out,) = run(CHIP, op_type, inputs, outputs, **given)
    np.testing.assert_allclose(out.astype(np.float64), wanted(shape, layout), atol=2e-3)


@pytest.mark.parametrize(("op_type", "queries"), [(PROMPT, 272), (TOKENS, 1)])
def test_masked_scores(op_type: str, queries: int) -> None:
    shape = (1, 2, 2, queries, 272, 64)
    hidden = np.triu(np.ones((272, 272), np.bool_), 1)[-queries:]
    hidden[:, 60:70] |= queries == 1
    given = {"next_tokens": 0} if queries > 1 else {}
    inputs, outputs, given = called(shape, "BNSD", hidden, **given)
    (out,) = run(CHIP, op_type, inputs, outputs, **given)
    want = wanted(shape, "BNSD", ~hidden)
    np.testing.assert_allclose(out.astype(np.float64), want, atol=2e-3)


def test_padded_sequences_and_caches_in_pages() -> None:
    shape, lengths = (2, 2, 1, 1, 192, 32), [150, 70]
    inputs, outputs, given = called(shape, "BSH", actual_seq_lengths_kv=lengths)
    pages = np.random.default_rng(3).permutation(12).reshape(2, 6).astype(np.int32)
    for place in (1, 2):
        plain = inputs[place]
        assert plain is not None
        cache = np.zeros((12, 32, 32), np.float16)
        cache[pages.reshape(-1)] = plain.reshape(12, 32, 32)
        inputs[place] = cache
    inputs += [None] * 9 + [pages]
    (out,) = run(CHIP, TOKENS, inputs, outputs, **given)
    seen = np.arange(192) < np.array(lengths)[:, None, None, None]
    np.testing.assert_allclose(out.astype(np.float64), wanted(shape, "BSH", seen), atol=2e-3)


@pytest.mark.parametrize(("op_type", "shape", "layout"), [CASES[0], CASES[3], CASES[5]])
def test_what_is_written_down_is_what_its_blocks_do(
    op_type: str, shape: tuple[int, ...], layout: str
) -> None:
    profile = physics.with_cores(CHIP, 2)

    def build() -> Any:
        inputs, outputs, given = called(shape, layout)
        return kernels(profile, op_type, inputs, outputs, given)

    ((fast,), (literal,)) = (observed(build, profile, reference=each) for each in (False, True))
    np.testing.assert_allclose(
        fast.outputs[0].astype(np.float32), literal.outputs[0].astype(np.float32), atol=1e-3
    )
    for pipe in ("CUBE", "MTE2", "VECTOR"):
        if pipe in literal.cycles:
            assert fast.cycles[pipe] == pytest.approx(literal.cycles[pipe], rel=0.25), pipe


def test_nothing_but_operands_passes_through_device_memory() -> None:
    inputs, outputs, given = called((1, 2, 2, 512, 512, 64), "BNSD")
    made, _ = kernels(load_profile(CHIP), PROMPT, inputs, outputs, given)
    assert [each.scratch for each in made] == [()]
    times = []
    for size in (1024, 2048):
        inputs, outputs, given = called((1, 8, 8, size, size, 64), "BNSD")
        times.append(cycles(CHIP, PROMPT, inputs, outputs, **given))
    assert 3 < times[1] / times[0] < 4.5


@pytest.mark.parametrize(
    ("shape", "layout", "problem"),
    [
        ((1, 2, 2, 32, 32, 24), "BNSD", "multiples of 16"),
        ((129, 1, 1, 16, 16, 16), "BSH", "129 sequences"),
        ((1, 1, 1, 16, 65552, 16), "BSH", "65552 tokens"),
    ],
)
def test_refused(shape: tuple[int, ...], layout: str, problem: str) -> None:
    inputs, outputs, given = called(shape, layout)
    with pytest.raises(KernelError, match=problem):
        kernels(CHIP, PROMPT, inputs, outputs, given)


def test_a_refusal_names_a_call_that_is_taken() -> None:
    """With bfloat16 the way out is float16, which is simulated; the tiling's limits say so."""
    device = Device(CHIP)
    given: dict[str, Any] = {"numHeads": 8, "inputLayout": "BNSD", "scaleValue": 0.1}

    def spec(kind: str, columns: int = 64) -> dict[str, TensorSpec]:
        each = TensorSpec((1, 8, 256, columns), kind)
        return {"query": each, "key": each, "value": each}

    status = device.check("aclnnPromptFlashAttention", **spec("bf16"), **given)
    assert status.code == 161002
    assert "cast to FLOAT16" in status.remedy
    assert device.estimate("aclnnPromptFlashAttention", **spec("fp16"), **given).cycles > 0
    status = device.check("aclnnPromptFlashAttention", **spec("fp16", 40), **given)
    assert status.code == 561103
    assert "multiples of 16" in status.message
