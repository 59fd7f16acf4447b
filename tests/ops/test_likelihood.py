"""Likelihoods and cross entropies of classes against closed forms in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npusim import Device
from npusim.values.errors import KernelError
from support import physics
from support.tasks import (
    BFLOAT16,
    CHIPS,
    assert_above_roofline,
    assert_time_needs_no_numbers,
    cycles,
    kernels,
    like,
    run,
)

Array = np.ndarray[Any, Any]

CHIP = "Ascend910B3"
TOLERANCES: dict[Any, float] = {np.float32: 2e-5, np.float16: 4e-3, BFLOAT16: 4e-2}


def numbers(*shape: int, seed: int = 0, kind: Any = np.float32) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32).astype(kind)


def places(*shape: int, below: int, kind: Any = np.int64) -> Array:
    return np.random.default_rng(5).integers(0, below, shape).astype(kind)


def likelihood(
    x: Array, target: Array, weight: Array, reduction: str, ignored: int
) -> tuple[Array, float]:
    """The loss of every row, their sum or mean; and the weights that count."""
    wide, counts = x.astype(np.float64), target != ignored
    safe = np.where(counts, target, 0)
    weights = np.where(counts, weight.astype(np.float64)[safe], 0)
    losses = -wide[np.arange(safe.size), safe] * weights
    total = float(weights.sum())
    if reduction == "none":
        return losses, total
    return losses.sum() / (total if reduction == "mean" else 1.0), total


@settings(max_examples=40, deadline=None)
@given(
    rows=st.integers(1, 300),
    classes=st.integers(1, 600),
    reduction=st.sampled_from(["none", "mean", "sum"]),
    kind=st.sampled_from(list(TOLERANCES)),
    index=st.sampled_from([np.int32, np.int64]),
    ignored=st.sampled_from([-100, 0]),
)
def test_likelihood(
    rows: int, classes: int, reduction: str, kind: Any, index: Any, ignored: int
) -> None:
    x, target = numbers(rows, classes, kind=kind), places(rows, below=classes, kind=index)
    target[:1] = max(0, classes - 1)
    target[1::7] = ignored
    weight = (np.abs(numbers(classes, seed=1)) + np.float32(0.5)).astype(kind)
    if (target == ignored).all():
        target[:] = 0
        ignored = -100
    want, total = likelihood(x, target, weight, reduction, ignored)
    outputs = [np.full(np.shape(want), 77, kind), np.zeros((), kind)]
    said = {"reduction": reduction, "ignore_index": ignored}
    got = run(CHIP, "NLLLoss", [x, target, weight], outputs, **said)
    fits = TOLERANCES[kind]
    np.testing.assert_allclose(got[0].astype(np.float64), want, rtol=fits, atol=fits * 20)
    if reduction != "none":
        np.testing.assert_allclose(float(got[1]), total, rtol=fits, atol=fits)
    assert_time_needs_no_numbers(CHIP, "NLLLoss", [x, target, weight], outputs, **said)


def test_rows_that_do_not_fit_are_picked_from_device_memory() -> None:
    chip = physics.with_ub(physics.profile_of(CHIP), 8192)
    x, target, weight = numbers(70, 3000), places(70, below=3000), numbers(3000, seed=1) ** 2
    target[5] = -100
    want, total = likelihood(x, target, weight, "mean", -100)
    outputs = [np.zeros((), np.float32)] * 2
    got = run(chip, "NLLLoss", [x, target, weight], outputs)
    np.testing.assert_allclose([got[0], got[1]], [want, total], rtol=1e-4)


def cross_entropy(x: Array, target: Array, reduction: str, ignored: int) -> Array:
    wide = np.moveaxis(x.astype(np.float64), 1, -1).reshape(-1, x.shape[1])
    shifted = wide - wide.max(-1, keepdims=True)
    logs = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    ones = np.ones(x.shape[1])
    return np.asarray(likelihood(logs, target.reshape(-1), ones, reduction, ignored)[0])


CASES: list[tuple[tuple[int, ...], Any, str]] = [
    ((33, 17), np.float32, "mean"),
    ((100, 130), np.float16, "sum"),
    ((40, 7), BFLOAT16, "none"),
    ((2, 5, 3, 9), np.float32, "mean"),
    ((3, 40, 6), np.float16, "none"),
]


@pytest.mark.parametrize(("shape", "kind", "reduction"), CASES, ids=str)
def test_cross_entropy(shape: tuple[int, ...], kind: Any, reduction: str) -> None:
    x, target = numbers(*shape, kind=kind), places(shape[0], *shape[2:], below=shape[1])
    target.reshape(-1)[2] = -1
    want = cross_entropy(x, target, reduction, -1)
    out = np.full(target.shape if reduction == "none" else (), 77, kind)
    said = {"reduction": reduction, "ignore_index": -1}
    (got,) = run(CHIP, "CrossEntropyLoss", [x, target], [out], **said)
    fits = TOLERANCES[kind]
    np.testing.assert_allclose(
        got.astype(np.float64).reshape(-1), want.reshape(-1), rtol=fits, atol=fits
    )
    tasks, _ = kernels(CHIP, "CrossEntropyLoss", [x, target], [out], said)
    names = [each.op_type for each in tasks]
    half = ["Cast"] * 2 * (kind is np.float16)
    turns = ["Transpose"] * (len(shape) > 2)
    clears = ["MemSet"] * (reduction != "none")
    assert names == ["LogSoftmaxV2", "OnesLike", *turns, *half, *clears, "NLLLoss", *half]


@settings(max_examples=20, deadline=None)
@given(
    rows=st.integers(1, 80),
    classes=st.integers(1, 300),
    kind=st.sampled_from([np.float16, np.float32]),
    chip=st.sampled_from(CHIPS),
)
def test_softmax_cross_entropy(rows: int, classes: int, kind: Any, chip: str) -> None:
    x = numbers(rows, classes, kind=kind)
    labels = np.abs(numbers(rows, classes, seed=1)).astype(kind)
    wide = x.astype(np.float64)
    shifted = wide - wide.max(-1, keepdims=True)
    logs = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    want = -(labels.astype(np.float64) * logs).sum(-1), np.exp(logs) - labels
    outputs = [np.full(rows, 77, kind), like(x)]
    got = run(chip, "SoftmaxCrossEntropyWithLogits", [x, labels], outputs)
    fits = 4e-3 if kind is np.float16 else 1e-4
    for ours, theirs in zip(got, want, strict=True):
        np.testing.assert_allclose(ours.astype(np.float64), theirs, rtol=fits, atol=fits)


def test_compiled_for_a_shape_the_largest_element_is_found_one_by_one() -> None:
    """Source: 100 classes take 5.8 us a row on the first generation, on one core."""
    x = numbers(64, 100)
    outputs = [np.zeros(64, np.float32), like(x)]
    times = {
        rows: cycles("Ascend910B", "SoftmaxCrossEntropyWithLogits",
            [x[:rows], x[:rows]], [outputs[0][:rows], outputs[1][:rows]])
        for rows in (32, 64)
    }  # fmt: skip
    assert 3000 * 32 < times[64] - times[32] < 8000 * 32


def test_long_ragged_rows_are_folded_before_the_last_repeat_is_searched() -> None:
    """1001 classes of 128 rows were profiled with 33.9 us; 992 need no search at all."""

    def duration_us(classes: int) -> float:
        x = numbers(128, classes)
        return cycles("Ascend910B", "SoftmaxCrossEntropyWithLogits", [x, x],
            [np.zeros(128, np.float32), like(x)]) / 900  # fmt: skip

    times = [duration_us(classes) for classes in (992, 1000, 1001)]
    assert times[0] < times[1] < 3 * times[0]
    assert 25 < times[2] < 42


@pytest.mark.parametrize(
    ("rows", "classes", "blocks"),
    [(64, 100, 1), (64, 1000, 8), (315, 100, 32), (315, 1000, 32), (1024, 2, 16), (256, 1001, 32),
        (315, 21128, 32), (12, 20_000, 1)],
)  # fmt: skip
def test_compiled_for_a_shape_rows_are_dealt_out_if_they_are_many_or_long(
    rows: int, classes: int, blocks: int
) -> None:
    x = np.zeros((rows, classes), np.float32)
    tasks, _ = kernels("Ascend910A", "SoftmaxCrossEntropyWithLogits", [x, x], [x[:, 0].copy(), x])
    assert [each.block_dim for each in tasks] == [blocks]


def test_calls() -> None:
    x, target, weight = numbers(6, 5), places(6, below=5), np.ones(5, np.float32)
    given_ = {"self": x, "target": target, "weight": weight}
    found = Device(CHIP).run("aclnnNLLLoss", **given_, reduction=1, ignoreIndex=-100).outputs
    assert found is not None
    want, total = likelihood(x, target, weight, "mean", -100)
    np.testing.assert_allclose(found["out"], want, rtol=1e-5)
    np.testing.assert_allclose(found["totalWeightOut"], total, rtol=1e-6)
    assert Device(CHIP).check("aclnnNLLLoss", **{**given_, "weight": x}, reduction=1,
        ignoreIndex=-100).code == 161002  # fmt: skip
    with pytest.raises(KernelError, match="targets of FLOAT"):
        run(CHIP, "NLLLoss", [x, weight[:1].repeat(6), weight], [weight[:1], weight[:1]])


def test_physics() -> None:
    x, target = numbers(4096, 1000), places(4096, below=1000)
    given_ = [x, target, np.ones(1000, np.float32)]
    assert_above_roofline(CHIP, "NLLLoss", given_, [np.zeros(4096, np.float32)], reduction="none")
