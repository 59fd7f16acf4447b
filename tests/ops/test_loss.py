"""Elementwise losses and their gradients against closed forms in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.tasks import CHIPS, cycles, like, run

Array = np.ndarray[Any, Any]


def operands(*shape: int) -> tuple[Array, Array, Array]:
    """Logits, targets between 0 and 1, a gradient."""
    rng = np.random.default_rng(0)
    x, grad = (rng.standard_normal(shape).astype(np.float32) * 2 for _ in range(2))
    return x, rng.random(shape).astype(np.float32), grad


def cases(x: Array, target: Array, grad: Array) -> list[tuple[str, list[Array | None], Array]]:
    """Operator, inputs, result."""
    logits, y = x.astype(np.float64), target.astype(np.float64)
    share = 1 / (1 + np.exp(-logits))
    chance = (share * 0.98 + 0.01).astype(np.float32)
    entropy = -(y * np.log(chance) + (1 - y) * np.log(1 - chance.astype(np.float64)))
    d = logits - y
    smooth = np.where(np.abs(d) < 1, 0.5 * d * d, np.abs(d) - 0.5)
    crossed = np.maximum(logits, 0) - logits * y + np.log1p(np.exp(-np.abs(logits)))
    return [
        ("SigmoidCrossEntropyWithLogits", [x, target], crossed),
        ("SigmoidCrossEntropyWithLogitsGrad", [x, target, grad], (share - y) * grad),
        ("BinaryCrossEntropy", [chance, target, None], entropy),
        ("BinaryCrossEntropy", [chance, target, grad], entropy * grad),
        ("MseLoss", [x, target], d * d),
        ("MseLossGrad", [x, target, grad], 2 * d * grad),
        ("SmoothL1Loss", [x, target], smooth),
        ("SmoothL1LossGrad", [x, target, grad], np.clip(d, -1, 1) * grad),
        ("L1LossGrad", [grad, x, target], np.sign(d) * grad),
    ]


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("shape", [(), (7,), (40, 51), (33000,)], ids=str)
def test_numbers(chip: str, shape: tuple[int, ...]) -> None:
    x, target, grad = operands(*shape)
    for op, inputs, want in cases(x, target, grad):
        (got,) = run(chip, op, inputs, [like(x)])
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5, err_msg=op)


@pytest.mark.parametrize("chip", CHIPS)
def test_half_types_are_computed_in_float32(chip: str) -> None:
    x, target, grad = (each.astype(np.float16) for each in operands(20, 33))
    wanted = {op: want for op, _, want in cases(x, target, grad)}
    for op, inputs in (
        ("SigmoidCrossEntropyWithLogits", [x, target]),
        ("MseLossGrad", [x, target, grad]),
    ):
        (got,) = run(chip, op, inputs, [like(x)])
        np.testing.assert_allclose(got, wanted[op], rtol=2e-3, atol=2e-3)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 60_000), st.sampled_from(CHIPS))
def test_time_doesnt_depend_on_numbers(count: int, chip: str) -> None:
    x, target, _ = operands(count)
    op = "SigmoidCrossEntropyWithLogits"
    times = [cycles(chip, op, [x, target], [x], numerics=each) for each in (False, True)]
    assert times[0] == times[1]
