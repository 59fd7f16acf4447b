"""Losses by the aclnn interfaces: every reduction, weights, and gradients, in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from npusim import Device, TensorSpec
from npusim.values.errors import AclnnError
from support.tasks import CHIPS

Array = np.ndarray[Any, Any]
Function = Callable[..., Array]

A2 = "Ascend910B3"


def logistic(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def with_logits(x: Array, t: Array, w: Array = 1.0, p: Array = 1.0) -> Array:  # type: ignore[assignment]
    return -w * (p * t * np.log(logistic(x)) + (1 - t) * np.log(1 - logistic(x)))


def smooth(x: Array, t: Array, beta: float) -> Array:
    d = np.abs(x - t)
    return np.where(d < beta, d * d / 2 / (beta or 1), d - beta / 2)


def divergence(x: Array, t: Array, log: bool) -> Array:
    return np.exp(t) * (t - x) if log else t * (np.log(t) - x)


# Interface, the loss, more arguments, names of weights, and the last reduction there is.
LOSSES: list[tuple[str, Function, dict[str, Any], tuple[str, ...], int]] = [
    ("MseLoss", lambda x, t: (x - t) ** 2, {}, (), 2),
    ("L1Loss", lambda x, t: np.abs(x - t), {}, (), 2),
    ("SmoothL1Loss", lambda x, t: smooth(x, t, 0.5), {"beta": 0.5}, (), 2),
    ("SmoothL1Loss", lambda x, t: np.abs(x - t), {"beta": 0.0}, (), 2),
    ("SoftMarginLoss", lambda x, t: np.log1p(np.exp(-x * t)), {}, (), 2),
    ("KlDiv", lambda x, t: divergence(x, t, False), {"logTarget": False}, (), 3),
    ("KlDiv", lambda x, t: divergence(x, t, True), {"logTarget": True}, (), 3),
    ("BinaryCrossEntropyWithLogits", with_logits, {}, (), 2),
    ("BinaryCrossEntropyWithLogits", with_logits, {},
        ("weightOptional", "posWeightOptional"), 2),
]  # fmt: skip


def reduced(losses: Array, reduction: int) -> Array:
    kinds = (losses, losses.mean(), losses.sum(), losses.sum() / losses.shape[0])
    return np.asarray(kinds[reduction])


@pytest.mark.parametrize("case", LOSSES, ids=lambda case: f"{case[0]}{case[2]}{len(case[3])}")
@settings(max_examples=8, deadline=None)
@given(
    st.sampled_from([(7,), (3, 5), (2, 3, 4), (40, 130)]),
    st.integers(0, 3),
    st.sampled_from(CHIPS),
    st.sampled_from([np.float32, np.float16]),
)
def test_losses_and_gradients(
    case: tuple[str, Function, dict[str, Any], tuple[str, ...], int],
    shape: tuple[int, ...],
    reduction: int,
    chip: str,
    kind: Any,
) -> None:
    name, loss, more, weights, most = case
    reduction, device = min(reduction, most), Device(chip)
    random = np.random.default_rng(0)
    x, t = random.standard_normal(shape).astype(kind), random.uniform(0.1, 0.9, shape).astype(kind)
    held = [random.uniform(0.5, 2, shape).astype(kind) for _ in weights]
    wide = [each.astype(np.float64) for each in (x, t, *held)]
    said = {"self": x, "target": t, "reduction": reduction} | more
    said |= dict(zip(weights, held, strict=True))
    assume(device.check(f"aclnn{name}", **said).code == 0)
    (found,) = device.run(f"aclnn{name}", **said).outputs.values()
    close = {"rtol": 2**-9, "atol": 2**-9} if kind is np.float16 else {"rtol": 2e-5, "atol": 1e-5}
    np.testing.assert_allclose(found, reduced(loss(*wide), reduction), **close)
    dy = random.standard_normal(shape if not reduction else ()).astype(kind)
    step = 1e-6
    sides = [loss(wide[0] + sign * step, *wide[1:]) for sign in (1, -1)]
    slope = (sides[0] - sides[1]) / (2 * step)
    share = (1, 1 / x.size, 1, 1 / shape[0])[reduction]
    api = f"aclnn{name}Backward"
    back = {"gradOut" if name == "SmoothL1Loss" else "gradOutput": dy} | said
    assume(device.check(api, **back).code == 0)
    (grad,) = device.run(api, **back).outputs.values()
    close = {name: max(value, 1e-4) for name, value in close.items()}
    np.testing.assert_allclose(grad, slope * share * dy.astype(np.float64), **close)


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("reduction", range(4))
def test_the_gradient_of_the_target_of_a_divergence(log: bool, reduction: int) -> None:
    random = np.random.default_rng(0)
    x, t, dy = (random.uniform(0.1, 0.9, (5, 9)).astype(np.float32) for _ in range(3))
    dy = dy if reduction == 0 else dy[0, 0]
    said = {"self": x, "target": t, "reduction": reduction, "logTarget": log}
    found = Device(A2).run("aclnnKlDivTargetBackward", gradOutput=np.asarray(dy), **said)
    x, t = x.astype(np.float64), t.astype(np.float64)
    slope = np.exp(t) * (t - x + 1) if log else np.log(t) + 1 - x
    wanted = slope * dy * (1, 1 / 45, 1, 1 / 5)[reduction]
    np.testing.assert_allclose(found.outputs["gradTarget"], wanted, rtol=1e-4, atol=1e-5)


def test_the_gradient_of_the_target_of_logits() -> None:
    random = np.random.default_rng(0)
    x, t, dy, w, p = (random.uniform(0.1, 2, (5, 9)).astype(np.float32) for _ in range(5))
    said = {"weightOptional": w, "posWeightOptional": p, "reduction": 0}
    name = "aclnnBinaryCrossEntropyWithLogitsTargetBackward"
    found = Device(A2).run(name, gradOutput=dy, self=x, target=t, **said).outputs["gradTarget"]
    wide = x.astype(np.float64)
    slope = -w * (p * np.log(logistic(wide)) - np.log(1 - logistic(wide)))
    np.testing.assert_allclose(found, slope * dy, rtol=1e-4, atol=1e-5)


def test_a_divergence_has_nothing_where_the_target_has_nothing() -> None:
    t = np.array([0.0, 0.5, 0.0], np.float32)
    said = {"self": np.array([1.0, 2.0, -np.float32(3)]), "reduction": 0, "logTarget": False}
    found = Device(A2).run("aclnnKlDiv", **said | {"self": t - 1, "target": t}).outputs["out"]
    np.testing.assert_allclose(found, [0, 0.5 * (np.log(0.5) + 0.5), 0], rtol=1e-5)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"reduction": 3}, "reduction should be 0 to 2"),
        ({"target": TensorSpec((3, 5), "float32")}, "can't be broadcast together"),
        ({"out": TensorSpec((4, 5), "float32")}, "out should be one number"),
        ({"reduction": 0, "out": TensorSpec((4,), "float32")}, "out should be [4, 5]"),
    ],
)
def test_what_is_refused(changed: dict[str, Any], words: str) -> None:
    said = {name: TensorSpec((4, 5), "float32") for name in ("self", "target")}
    with pytest.raises(AclnnError, match="161002") as refused:
        Device(A2).estimate("aclnnMseLoss", **said | {"reduction": 1} | changed)
    assert words in str(refused.value)


@settings(max_examples=20, deadline=None)
@given(
    st.sampled_from([(7, 5), (130, 33), (40, 1), (3, 5000), (2, 6, 3, 4), (1, 40, 5, 7)]),
    st.integers(0, 2),
    st.sampled_from([A2, "Ascend910A"]),
    st.sampled_from([np.int64, np.int32]),
)
def test_likelihoods_of_rows_and_of_pixels(
    shape: tuple[int, ...], reduction: int, chip: str, labels: Any
) -> None:
    """Classes are the second axis; some targets are ignored."""
    random, device, planar = np.random.default_rng(0), Device(chip), len(shape) == 4
    name = f"aclnnNLLLoss{'2d' * planar}"
    x, around = random.standard_normal(shape).astype(np.float32), (shape[0], *shape[2:])
    target = random.integers(0, shape[1], around).astype(labels)
    target.reshape(-1)[::5] = 2
    weight = random.uniform(0.5, 2, shape[1]).astype(np.float32)
    said = {"self": x, "target": target, "weight": weight}
    said |= {"reduction": reduction, "ignoreIndex": 2}
    assume(device.check(name, **said).code == 0)
    held = np.where(target == 2, 0, weight[np.minimum(target, shape[1] - 1)].astype(np.float64))
    place = np.minimum(np.expand_dims(target, 1), shape[1] - 1)
    picked = np.take_along_axis(x.astype(np.float64), place, 1)[:, 0]
    losses = -picked * held
    assume(held.sum() > 0)
    wanted = (losses, losses.sum() / held.sum(), losses.sum())[reduction]
    found = device.run(name, **said).outputs
    np.testing.assert_allclose(found["out"], wanted, rtol=1e-4, atol=1e-5)
    dy = np.asarray(random.standard_normal(around if not reduction else ()), np.float32)
    total = np.asarray(held.sum(), np.float32).reshape(1)
    back = said | {"gradOutput": dy, "totalWeight": total}
    assume(device.check(f"{name}Backward", **back).code == 0)
    slope = -held * dy / (held.sum() if reduction == 1 else 1)
    dx = np.zeros(shape)
    np.put_along_axis(dx, place, np.expand_dims(slope, 1), 1)
    grad = device.run(f"{name}Backward", **back).outputs["out"]
    np.testing.assert_allclose(grad, dx, rtol=1e-4, atol=1e-6)


def test_gradients_of_many_classes_are_no_faster() -> None:
    times = []
    for classes in (1000, 20_000, 150_000):
        x = TensorSpec((512, classes), "float32")
        one, row = TensorSpec((1,), "float32"), TensorSpec((classes,), "float32")
        said = {"self": x, "target": TensorSpec((512,), "int64"), "weight": row}
        said |= {"totalWeight": one, "reduction": 1, "ignoreIndex": -100, "gradOutput": one}
        times.append(Device(A2).estimate("aclnnNLLLossBackward", **said).duration_us)
    assert times == sorted(times)
    assert times[-1] > 512 * 150_000 * 4 / 5.2e6  # bytes per us of L2


@pytest.mark.parametrize(
    ("chip", "kind", "name", "types"),
    [
        (A2, "float32", "MseLoss", ["MSELossV2"]),
        ("Ascend310P3", "float16", "MseLoss", ["MSELossV2"]),
        ("Ascend910A", "float32", "MseLoss", ["MemSet", "MseLoss"]),
        (A2, "float32", "L1Loss", ["MemSet", "LpLoss"]),
        (A2, "float16", "L1Loss", ["LpLoss"]),
        (A2, "bfloat16", "KlDiv", ["KLDivV2"]),
        (A2, "float32", "MseLossOut", ["MSELossV2", "MemSet", "ReduceMean"]),
    ],
)
def test_operators_fold_what_they_compute(
    chip: str, kind: str, name: str, types: list[str]
) -> None:
    """The reduction is an attribute of the operator; results of half types meet in workspace."""
    x = TensorSpec((300, 1000), kind)
    more = {"logTarget": False} if name == "KlDiv" else {}
    estimate = Device(chip).estimate(f"aclnn{name}", self=x, target=x, reduction=1, **more)
    assert [task.name for task in estimate.tasks] == types


def test_the_shares_of_mse_loss_v2() -> None:
    """At least 4 KiB for each block, what is left over for the last. Source: its public tiling."""
    blocks = []
    for elements in (7, 1024, 1025, 4096, 40 * 1024 + 9, 1 << 20):
        x = TensorSpec((elements,), "float32")
        (task,) = Device(A2).estimate("aclnnMseLoss", self=x, target=x, reduction=2).tasks
        blocks.append(task.block_dim)
    assert blocks == [1, 1, 1, 4, 40, 40]


def test_losses_of_nothing_are_filled_in() -> None:
    x = np.empty((0, 3), np.float32)
    for reduction, wanted in ((1, np.nan), (2, 0)):
        found = Device(A2).run("aclnnMseLoss", self=x, target=x, reduction=reduction).outputs
        np.testing.assert_array_equal(found["out"], wanted)
