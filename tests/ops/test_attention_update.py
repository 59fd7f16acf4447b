"""Attention over parts of the keys, merged: numbers, checks and time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from npusim import Device
from npusim.hardware import load_profile
from support.reference import assert_like_the_reference
from support.tasks import BFLOAT16, assert_above_roofline, kernels

CHIP = "Ascend910B3"
NAME = "aclnnAttentionUpdate"


@pytest.mark.parametrize("kind", [np.float16, BFLOAT16, np.float32])
@pytest.mark.parametrize(
    ("rows", "wide", "parts"), [(1, 8, 1), (5, 128, 3), (333, 64, 2), (1000, 512, 16)]
)
def test_parts_count_as_much_as_their_sums(rows: int, wide: int, parts: int, kind: Any) -> None:
    """Those without keys, whose logarithm is infinite, count nothing."""
    dice = np.random.default_rng(rows)
    lse = [dice.standard_normal(rows).astype(np.float32) * 9 for _ in range(parts)]
    if parts > 1:
        lse[1][rows // 2] = np.inf
    own = [dice.standard_normal((rows, wide)).astype(kind) for _ in range(parts)]
    call = {"lse": lse, "localOut": own, "updateType": 1, "lseOut": np.zeros(rows, np.float32)}
    found = Device(CHIP).run(NAME, **call).outputs
    assert found is not None
    logarithms = np.array(lse, np.float64)
    logarithms[np.isinf(logarithms)] = -np.inf
    total = np.logaddexp.reduce(logarithms)
    weights = np.exp(logarithms - total)
    want = np.einsum("pr,prd->rd", weights, np.array(own, np.float64))
    tolerance = {np.float16: 2e-3, np.float32: 1e-5}.get(kind, 2e-2)
    np.testing.assert_allclose(found["out"].astype(np.float64), want, rtol=0.01, atol=tolerance)
    np.testing.assert_allclose(found["lseOut"], total, rtol=1e-5, atol=1e-5)


_CALL = {
    "lse": ["fp32[96]"] * 2, "localOut": ["bf16[96,128]"] * 2, "updateType": 0,
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({}, 0),
        ({"updateType": 1, "lseOut": "fp32[96]"}, 0),
        ({"updateType": 1}, 161002),
        ({"updateType": 2}, 161002),
        ({"lse": ["fp32[96]"] * 3}, 161002),
        ({"lse": ["fp32[95]"] * 2}, 161002),
        ({"localOut": ["bf16[96,124]"] * 2}, 161002),
        ({"localOut": ["bf16[96,520]"] * 2}, 161002),
        ({"localOut": ["bf16[96,128]", "bf16[96,64]"]}, 161002),
        ({"lse": ["fp32[96]"] * 17, "localOut": ["bf16[96,128]"] * 17}, 161002),
        ({"lse": ["fp32[96]"] * 16, "localOut": ["bf16[96,128]"] * 16}, 0),
        ({"lseOut": "fp32[96]"}, 161002),
    ],
)
def test_what_it_takes(change: dict[str, Any], code: int) -> None:
    assert Device(CHIP).check(NAME, **{**_CALL, **change}).code == code


def test_time_and_the_reference() -> None:
    shape, parts = (700, 128), 3
    given = [np.ones(shape[0], np.float32)] * parts + [np.ones(shape, np.float16)] * parts
    outputs = [np.zeros(shape, np.float16)]
    assert_above_roofline(CHIP, "AttentionUpdate", given, outputs)

    def build() -> Any:
        return kernels(CHIP, "AttentionUpdate", given, outputs)

    assert_like_the_reference(build, load_profile(CHIP))
