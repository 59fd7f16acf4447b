"""Optimizer steps against the textbook in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from support.tasks import BFLOAT16, CHIPS, cycles, kernels, like, run

Array = np.ndarray[Any, Any]

SHAPES = [(1,), (7,), (30, 41), (33000,)]
RATE, BETA1, BETA2, EPSILON, DECAY = 0.01, 0.9, 0.999, 1e-8, 0.1
POWER1, POWER2 = 0.5, 0.6


def number(value: float) -> Array:
    return np.array(value, np.float32)


def state(*shape: int) -> tuple[Array, Array, Array, Array]:
    """Variable, first and second moment, gradient."""
    rng = np.random.default_rng(0)
    var, m, v, grad = (rng.standard_normal(shape).astype(np.float32) for _ in range(4))
    return var, m, np.abs(v), grad


def check(chip: str, op: str, inputs: list[Array], want: list[Array], **attributes: object) -> None:
    outputs = [np.zeros(each.shape, np.float32) for each in want]
    got = run(chip, op, inputs, outputs, **attributes)
    for result, reference in zip(got, want, strict=True):
        np.testing.assert_allclose(result, reference, rtol=2e-4, atol=2e-5, err_msg=op)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_momentum(chip: str, shape: tuple[int, ...]) -> None:
    var, accum, _, grad = state(*shape)
    moved = BETA1 * accum.astype(np.float64) + grad
    plain = [var, accum, number(RATE), grad, number(BETA1)]
    check(chip, "ApplyMomentum", plain, [var - RATE * moved, moved])
    check(chip, "SGD", [var, grad, number(RATE), accum, number(BETA1), var], [var - RATE * moved])
    moved = BETA1 * accum.astype(np.float64) + 0.5 * grad
    check(chip, "FusedMulApplyMomentum", [*plain, number(0.5)], [var - RATE * moved, moved])


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("op", ["Adam", "ApplyAdam"])
def test_adam(chip: str, op: str, shape: tuple[int, ...]) -> None:
    var, m, v, grad = state(*shape)
    factors = [number(x) for x in (POWER1, POWER2, RATE, BETA1, BETA2, EPSILON)]
    next_m = m + (1 - BETA1) * (grad.astype(np.float64) - m)
    next_v = v + (1 - BETA2) * (grad.astype(np.float64) ** 2 - v)
    alpha = RATE * np.sqrt(1 - POWER2) / (1 - POWER1)
    next_var = var - alpha * next_m / (np.sqrt(next_v) + EPSILON)
    check(chip, op, [var, m, v, *factors, grad], [next_var, next_m, next_v])


def adam_w(state_: tuple[Array, Array, Array, Array], power1: float, power2: float) -> list[Array]:
    var, m, v, grad = (each.astype(np.float64) for each in state_)
    m = BETA1 * m + (1 - BETA1) * grad
    v = BETA2 * v + (1 - BETA2) * grad**2
    below = np.sqrt(v / (1 - power2 * BETA2)) + EPSILON
    return [var * (1 - RATE * DECAY) - RATE * (m / (1 - power1 * BETA1)) / below, m, v]


@pytest.mark.parametrize("chip", CHIPS)
def test_adam_w(chip: str) -> None:
    var, m, v, grad = state(30, 41)
    factors = [number(x) for x in (POWER1, POWER2, RATE, DECAY, BETA1, BETA2, EPSILON)]
    want = adam_w((var, m, v, grad), POWER1, POWER2)
    check(chip, "ApplyAdamW", [var, m, v, *factors, grad], want)
    attributes = {"lr": RATE, "beta1": BETA1, "beta2": BETA2, "weight_decay": DECAY}
    first = adam_w((var, m, v, grad), 1.0, 1.0)
    check(chip, "ApplyAdamW", [var, grad, m, v], first, epsilon=EPSILON, **attributes)
    uphill = adam_w((var, m, v, -grad), 1.0, 1.0)
    check(chip, "ApplyAdamW", [var, grad, m, v], uphill, maximize=True, **attributes)


def test_adam_w_in_bfloat16() -> None:
    wide = state(20, 33)
    var, m, v, grad = (each.astype(BFLOAT16) for each in wide)
    want = adam_w((var, m, v, grad), 1.0, 1.0)
    got = run(
        "Ascend910B3", "ApplyAdamW", [var, grad, m, v], [like(var)] * 3, lr=RATE, weight_decay=DECAY
    )
    for result, reference in zip(got, want, strict=True):
        np.testing.assert_allclose(result.astype(np.float64), reference, rtol=2e-2, atol=1e-2)


@pytest.mark.parametrize("chip", CHIPS)
def test_lamb(chip: str) -> None:
    var, m, v, grad = state(30, 41)
    steps = 3.0
    next_m = BETA1 * m.astype(np.float64) + (1 - BETA1) * grad
    next_v = BETA2 * v.astype(np.float64) + (1 - BETA2) * grad.astype(np.float64) ** 2
    below = np.sqrt(next_v / (1 - BETA2**steps)) + 1e-6
    update = next_m / (1 - BETA1**steps) / below + DECAY * var
    scalars = (BETA1, 1 - BETA1, BETA2, 1 - BETA2, 1e-6, steps, 1.0, DECAY)
    operands = [grad, v, m, var, *(number(x).reshape(1) for x in scalars)]
    outputs = [np.zeros(var.shape, np.float32)] * 3
    got = run(chip, "LambApplyOptimizerAssign", operands, outputs)
    for result, reference in zip(got, (update, next_v, next_m), strict=True):
        np.testing.assert_allclose(result, reference, rtol=2e-3, atol=2e-4)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize(
    ("weight", "grad", "ratio"), [(2.0, 3.0, 2 / 3), (0.0, 3.0, 1), (2.0, 0.0, 1)]
)
def test_lamb_scales_by_the_norms_unless_one_is_zero(
    chip: str, weight: float, grad: float, ratio: float
) -> None:
    var, update, _, _ = state(30, 41)
    operands = [number(weight), number(grad), number(RATE), update, var]
    check(chip, "LambApplyWeightAssign", operands, [var - RATE * ratio * update])


@pytest.mark.parametrize("chip", CHIPS)
def test_rms_prop(chip: str) -> None:
    var, mom, ms, grad = state(30, 41)
    next_ms = 0.9 * ms + 0.1 * grad.astype(np.float64) ** 2
    next_mom = RATE * grad / np.sqrt(next_ms + 1e-10)
    want = [var - next_mom, next_ms, next_mom]
    check(chip, "ApplyRMSProp", [var, ms, mom, number(RATE), grad], want)


@pytest.mark.parametrize("chip", CHIPS)
def test_lists_of_tensors(chip: str) -> None:
    shapes = [(20, 30), (7,), (3, 500)]
    a, b, c = ([state(*shape)[which] for shape in shapes] for which in (0, 1, 2))
    c = [each + np.float32(0.1) for each in c]
    check(
        chip,
        "ForeachAddcdivScalar",
        [*a, *b, *c],
        [x + 0.5 * y / z for x, y, z in zip(a, b, c, strict=True)],
        scalar=0.5,
    )
    check(chip, "ForeachAddList", [*a, *b], [x + y for x, y in zip(a, b, strict=True)])
    check(chip, "ForeachMulScalar", a, [x * 3 for x in a], scalar=3.0)


def test_variables_of_the_last_step_are_stale() -> None:
    """A gradient has just been made where a step asks for no other one."""
    var, accum, v, grad = state(64, 64)
    operands = [var, accum, number(RATE), grad, number(BETA1)]
    (kernel,), _ = kernels("Ascend910A", "ApplyMomentum", operands, [var, accum])
    assert kernel.cold == kernel.reads[:2]
    factors = [number(x) for x in (POWER1, POWER2, RATE, BETA1, BETA2, EPSILON)]
    (kernel,), _ = kernels("Ascend910A", "Adam", [var, accum, v, *factors, grad], [var, accum, v])
    assert set(kernel.cold) == set(kernel.reads)


@pytest.mark.parametrize("chip", CHIPS)
def test_time_doesnt_depend_on_numbers(chip: str) -> None:
    var, m, v, grad = state(333, 41)
    factors = [number(x) for x in (POWER1, POWER2, RATE, BETA1, BETA2, EPSILON)]
    inputs, outputs = [var, m, v, *factors, grad], [var, m, v]
    times = [cycles(chip, "Adam", inputs, outputs, numerics=each) for each in (False, True)]
    assert times[0] == times[1]


@pytest.mark.parametrize(
    ("name", "lists", "formula"),
    [
        ("ForeachSubList", 2, lambda x, y: x - 0.5 * y),
        ("ForeachMulList", 2, lambda x, y: x * y),
        ("ForeachDivList", 2, lambda x, y: x / y),
        ("ForeachMaximumList", 2, np.maximum),
        ("ForeachMinimumList", 2, np.minimum),
        ("ForeachLerpScalar", 2, lambda x, y: x + 0.5 * (y - x)),
        ("ForeachAddScalar", 1, lambda x: x + 0.5),
        ("ForeachSubScalar", 1, lambda x: x - 0.5),
        ("ForeachDivScalar", 1, lambda x: x / 0.5),
        ("ForeachMaximumScalar", 1, lambda x: np.maximum(x, 0.5)),
        ("ForeachMinimumScalar", 1, lambda x: np.minimum(x, 0.5)),
        ("ForeachAbs", 1, np.abs),
        ("ForeachExp", 1, np.exp),
        ("ForeachLog", 1, np.log),
        ("ForeachNeg", 1, np.negative),
        ("ForeachReciprocal", 1, lambda x: 1 / x),
        ("ForeachSqrt", 1, np.sqrt),
    ],
)
def test_formulas_on_lists(name: str, lists: int, formula: Any) -> None:
    shapes = [(7, 33), (5,), (2, 3, 4)]
    given_ = [
        [np.abs(np.random.default_rng(seed).standard_normal(shape)) + 0.1 for shape in shapes]
        for seed in range(lists)
    ]
    want = [formula(*each) for each in zip(*given_, strict=True)]
    inputs = [x.astype(np.float32) for xs in given_ for x in xs]
    got = run("Ascend910B3", name, inputs, [like(x) for x in inputs[: len(shapes)]], scalar=0.5)
    for ours, theirs in zip(got, want, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
