"""Activation functions and their gradients against closed forms in float64."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npusim import TensorSpec
from npusim.hardware import load_profile
from npusim.operators.tasks import TaskSpec, kernels_of
from npusim.runtime.task import run_tasks
from support.tasks import BFLOAT16, CHIPS, cycles, like, run

if TYPE_CHECKING:
    from collections.abc import Callable

Array = np.ndarray[Any, Any]

SELU = (1.0507009873554805, 1.6732632423543772)


def sigmoid(x: Array) -> Array:
    result: Array = 1 / (1 + np.exp(-x))
    return result


def gelu(x: Array) -> Array:
    result: Array = 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    return result


def slope(function: Callable[[Array], Array], x: Array) -> Array:
    """The derivative, from both sides."""
    step = 1e-6
    return (function(x + step) - function(x - step)) / (2 * step)


def fast_gelu(x: Array) -> Array:
    """The vendor's formula: a parabola for the error function, a sign for large and small."""
    half = 0.5 - 0.1444 * (np.minimum(0.7071 * np.abs(x), 1.769) - 1.769) ** 2
    return x * (np.sign(x) * half + 0.5)


FORWARD: dict[str, Callable[[Array], Array]] = {
    "Relu": lambda x: np.maximum(x, 0),
    "ReluV2": lambda x: np.maximum(x, 0),
    "Relu6": lambda x: np.clip(x, 0, 6),
    "LeakyRelu": lambda x: np.where(x > 0, x, 0.01 * x),
    "Sigmoid": sigmoid,
    "Tanh": np.tanh,
    "Gelu": gelu,
    "GeluV2": gelu,
    "FastGelu": lambda x: x * sigmoid(1.702 * x),
    "FastGeluV2": fast_gelu,
    "Mish": lambda x: x * np.tanh(np.log1p(np.exp(x))),
    "Silu": lambda x: x * sigmoid(x),
    "Swish": lambda x: x * sigmoid(x),
    "Elu": lambda x: np.where(x > 0, x, np.expm1(x)),
    "Selu": lambda x: SELU[0] * np.where(x > 0, x, SELU[1] * np.expm1(x)),
    "Softplus": lambda x: np.log1p(np.exp(x)),
    "Softsign": lambda x: x / (1 + np.abs(x)),
    "HardSigmoid": lambda x: np.clip(x / 6 + 0.5, 0, 1),
    "HardSwish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
}


def numbers(*shape: int, seed: int = 0) -> Array:
    return (np.random.default_rng(seed).standard_normal(shape) * 2).astype(np.float32)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("op", FORWARD)
@pytest.mark.parametrize("shape", [(), (7,), (3, 40, 77), (33000,)], ids=str)
def test_forward(chip: str, op: str, shape: tuple[int, ...]) -> None:
    x = numbers(*shape)
    (got,) = run(chip, op, [x], [like(x)])
    np.testing.assert_allclose(got, FORWARD[op](x.astype(np.float64)), rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("op", ["Relu", "Sigmoid", "Gelu", "Mish", "Silu"])
def test_forward_in_half_types(op: str) -> None:
    for kind, chips, rtol in ((np.float16, CHIPS, 2e-3), (BFLOAT16, ("Ascend910B3",), 1e-2)):
        x = numbers(20, 70).astype(kind)
        for chip in chips:
            got = run(chip, op, [x], [like(x)])[0].astype(np.float64)
            np.testing.assert_allclose(got, FORWARD[op](x.astype(np.float64)), rtol=rtol, atol=1e-3)


@pytest.mark.parametrize("op", ["Sigmoid", "Swish"])
def test_sigmoid_in_its_faster_implementation(op: str) -> None:
    """A polynomial of halves, near the function; without exponentials it takes a third less."""
    x = np.linspace(-30, 30, 5000).astype(np.float16)
    (got,) = run("Ascend310P3", op, [x], [like(x)], impl_mode="high_performance")
    wide = x.astype(np.float64)
    near = np.clip(
        0.5 + np.polyval([0.00020769753, -0.0102459298, 0.229270815], wide**2) * wide, 0, 1
    )
    np.testing.assert_allclose(got, near * (wide if op == "Swish" else 1), rtol=1e-2, atol=1e-2)
    exact = FORWARD["Sigmoid"](wide)
    assert np.abs(near - exact)[np.abs(wide) < 4].max() < 0.02
    large = np.zeros(3_000_000, np.float16)
    usual, faster = (
        cycles("Ascend310P3", op, [large], [large], impl_mode=mode)
        for mode in ("high_precision", "high_performance")
    )
    assert faster < usual


@pytest.mark.parametrize("chip", ["Ascend910A", "Ascend310P3"])
def test_mish_in_its_faster_implementation(chip: str) -> None:
    """In halves a difference from one is what counts: near to the reference, not beyond it."""
    x = np.linspace(-12, 60, 5000).astype(np.float16)
    (got,) = run(chip, "Mish", [x], [like(x)], impl_mode="high_performance")
    np.testing.assert_allclose(got, FORWARD["Mish"](x.astype(np.float64)), rtol=5e-3, atol=1e-2)
    large = np.zeros(3_000_000, np.float16)
    usual, faster = (
        cycles(chip, "Mish", [large], [large], impl_mode=mode)
        for mode in ("high_precision", "high_performance")
    )
    assert faster < usual / 3


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 60_000), st.sampled_from(sorted(FORWARD)), st.sampled_from(CHIPS))
def test_time_doesnt_depend_on_numbers(count: int, op: str, chip: str) -> None:
    x = numbers(count)
    assert cycles(chip, op, [x], [x]) == cycles(chip, op, [x], [x], numerics=True)


@pytest.mark.parametrize("chip", CHIPS)
def test_gradients(chip: str) -> None:
    x, grad = numbers(40, 50), numbers(40, 50, seed=1)
    wide = x.astype(np.float64)
    s = sigmoid(wide)
    cases: list[tuple[str, list[Array], Array]] = [
        ("ReluGrad", [grad, x], grad * (x > 0)),
        ("SigmoidGrad", [s.astype(np.float32), grad], s * (1 - s) * grad),
        ("TanhGrad", [np.tanh(x), grad], (1 - np.tanh(wide) ** 2) * grad),
        ("GeluGrad", [grad, x, gelu(x).astype(np.float32)], slope(gelu, wide) * grad),
        ("SiluGrad", [grad, x], slope(FORWARD["Silu"], wide) * grad),
        ("SwishGrad", [grad, x, (x * s).astype(np.float32)], slope(FORWARD["Swish"], wide) * grad),
        (
            "EluGradV2",
            [grad, FORWARD["Elu"](x).astype(np.float32)],
            slope(FORWARD["Elu"], wide) * grad,
        ),
    ]
    for op, inputs, want in cases:
        (got,) = run(chip, op, inputs, [like(x)])
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4, err_msg=op)


@pytest.mark.parametrize("elements", [484_623, 489_000, 1_184_627])
def test_tiles_by_a_mask_fit_where_its_bytes_are_rounded_up(elements: int) -> None:
    x, mask = TensorSpec((elements,), "float32"), TensorSpec((-(-elements // 8),), "uint8")
    profile = load_profile("Ascend910B3")
    kernels = kernels_of(profile, TaskSpec("ReluGradV2", (x, mask), (x,)))
    assert run_tasks(kernels, profile, numerics=False).duration_us > 0


@pytest.mark.parametrize("chip", CHIPS)
def test_relu_gradients_in_float16(chip: str) -> None:
    x, grad = numbers(9, 16).astype(np.float16), numbers(9, 16, seed=1).astype(np.float16)
    (got,) = run(chip, "ReluGrad", [grad, x], [like(x)])
    np.testing.assert_array_equal(got, grad * (x > 0))
    bits = np.packbits(x > 0, bitorder="little").reshape(9, 2)
    (got,) = run(chip, "ReluGradV2", [grad, bits], [like(x)])
    np.testing.assert_array_equal(got, np.where(x > 0, grad, 0))


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize(
    ("shape", "dim"),
    [
        ((8, 20), -1),
        ((8, 20, 6), 1),
        ((4, 6, 33), 0),
        ((1001, 2), -1),
        ((4,), -1),
        ((1, 4, 2), 1),
        ((7, 20011), -1),
        ((101, 2 * 4099), -1),
        ((2, 600_002), -1),
        ((9001, 3, 66), -1),
    ],
)
def test_swiglu_gates_one_half_with_the_other(chip: str, shape: tuple[int, ...], dim: int) -> None:
    x = numbers(*shape)
    even = x[..., : shape[-1] // 2 * 2].astype(np.float64)  # an odd last axis loses its last column
    first, second = np.split(even, 2, axis=dim)
    want = first * sigmoid(first) * second
    (got,) = run(chip, "SwiGlu", [x], [np.zeros(want.shape, np.float32)], dim=dim)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("chip", CHIPS)
def test_a_longer_formula_takes_longer(chip: str) -> None:
    x = np.zeros(3_000_000, np.float32)
    times = [cycles(chip, op, [x], [x]) for op in ("Relu", "Gelu", "Mish")]
    assert times == sorted(times)
    assert times[0] < times[2]


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize(("shape", "dim"), [((5, 40), -1), ((3, 8, 33), 1), ((2, 130), 1)])
def test_a_gated_unit_backwards(chip: str, shape: tuple[int, ...], dim: int) -> None:
    x = np.random.default_rng(0).standard_normal(shape)
    a, b = np.split(x, 2, dim)
    grad = np.random.default_rng(1).standard_normal(a.shape)
    want = np.concatenate(
        [grad * b * slope(lambda v: v * sigmoid(v), a), grad * a * sigmoid(a)], dim
    )
    given_ = [grad.astype(np.float32), x.astype(np.float32)]
    (got,) = run(chip, "SwiGluGrad", given_, [like(given_[1])], dim=dim)
    np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("left", [False, True])
def test_a_unit_gated_by_gelu(chip: str, left: bool) -> None:
    x = np.random.default_rng(0).standard_normal((5, 3, 66))
    a, b = np.split(x, 2, -1)
    curved = gelu(a if left else b)
    want = (curved * (b if left else a), curved)
    outputs = [np.zeros(a.shape, np.float32) for _ in range(2)]
    got = run(chip, "GeGluV2", [x.astype(np.float32)], outputs, activate_left=left)
    for ours, theirs in zip(got, want, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-5)
