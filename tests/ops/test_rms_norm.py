"""RmsNorm forward, behind a sum, and backward, against closed forms in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npusim import Device
from npusim.values.errors import KernelError
from support.tasks import (
    BFLOAT16,
    CHIPS,
    assert_above_roofline,
    assert_tiling_changes_no_number,
    assert_time_needs_no_numbers,
    cycles,
    kernels,
    like,
    run,
)

Array = np.ndarray[Any, Any]

EPSILON = 1e-6
SHAPES = [(1, 1), (7, 33), (64, 768), (3, 5, 1999), (11, 2001), (300, 20), (3, 40_000)]


def numbers(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def normalised(x: Array) -> tuple[Array, Array]:
    """The reciprocal root mean square of every row, and x divided by the root."""
    wide = x.astype(np.float64)
    rstd = 1 / np.sqrt((wide**2).mean(-1, keepdims=True) + EPSILON)
    return rstd, wide * rstd


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_forward(chip: str, shape: tuple[int, ...]) -> None:
    x, gamma, other = numbers(*shape), numbers(shape[-1], seed=1), numbers(*shape, seed=2)
    rstd, y = normalised(x)
    one = np.zeros(shape[:-1], np.float32)
    got = run(chip, "RmsNorm", [x, gamma], [like(x), one])
    np.testing.assert_allclose(got[0], y * gamma, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(got[1], rstd[..., 0], rtol=1e-4)
    rstd, y = normalised(x + other)
    got = run(chip, "AddRmsNorm", [x, other, gamma], [like(x), one, like(x)])
    np.testing.assert_allclose(got[0], y * gamma, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(got[2], x + other, rtol=1e-6)


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("kind", [np.float32, np.float16, BFLOAT16])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_bias_behind_the_sum(shape: tuple[int, ...], kind: Any, biased: bool) -> None:
    x, other = (numbers(*shape, seed=seed).astype(kind) for seed in (0, 2))
    gamma, beta = (numbers(shape[-1], seed=seed).astype(kind) for seed in (1, 3))
    given = [x, other, gamma, beta if biased else None]
    one = np.zeros((*shape[:-1], 1), np.float32)
    got = run("Ascend910B3", "AddRmsNormBias", given, [like(x), one, like(x)])
    wide = [np.asarray(each, np.float64) for each in (x, other, gamma, beta)]
    rstd, y = normalised(wide[0] + wide[1])
    wanted = y * wide[2] + wide[3] * biased
    tolerance = {np.float32: 1e-4, np.float16: 4e-3}.get(kind, 3e-2)
    np.testing.assert_allclose(np.float64(got[0]), wanted, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(np.float64(got[1]), rstd, rtol=tolerance)
    np.testing.assert_allclose(np.float64(got[2]), wide[0] + wide[1], rtol=tolerance, atol=1e-2)
    plain = run("Ascend910B3", "AddRmsNorm", given[:3], [like(x), one, like(x)])
    assert (got[0] == plain[0]).all() != biased


def test_a_bias_costs_its_copy_and_an_addition() -> None:
    def spent(api: str, **more: str) -> float:
        x = "bf16[96,5120]"
        call = {"x1": x, "x2": x, "gamma": "bf16[5120]", **more}
        return Device("Ascend910B3").estimate(api, **call).cycles

    plain = spent("AddRmsNorm")
    assert spent("AddRmsNormBias") == plain
    assert plain < spent("AddRmsNormBias", beta="bf16[5120]") < 1.15 * plain


@pytest.mark.parametrize("chip", CHIPS)
def test_epsilon_decides_about_rows_of_next_to_nothing(chip: str) -> None:
    x = numbers(7, 33) * np.float32(1e-4)
    gamma, one = np.ones(33, np.float32), np.zeros(7, np.float32)
    got = run(chip, "RmsNorm", [x, gamma], [like(x), one], epsilon=0.25)
    np.testing.assert_allclose(got[0], 2 * x, rtol=1e-4)
    np.testing.assert_allclose(got[1], 2, rtol=1e-4)


@settings(max_examples=40, deadline=None)
@given(
    rows=st.integers(1, 300),
    columns=st.integers(1, 3000),
    kind=st.sampled_from([np.float16, np.float32]),
    chip=st.sampled_from(CHIPS),
)
def test_any_rows_and_time_by_shapes(rows: int, columns: int, kind: Any, chip: str) -> None:
    x, gamma = numbers(rows, columns).astype(kind), numbers(columns, seed=1).astype(kind)
    outputs = [like(x), np.zeros(rows, np.float32)]
    _, y = normalised(x)
    got = run(chip, "RmsNorm", [x, gamma], outputs)
    tolerance = 4e-3 if kind is np.float16 else 1e-4
    np.testing.assert_allclose(got[0], y * gamma, rtol=tolerance, atol=tolerance)
    assert_time_needs_no_numbers(chip, "RmsNorm", [x, gamma], outputs)


def test_bfloat16() -> None:
    x, gamma = numbers(40, 512).astype(BFLOAT16), numbers(512, seed=1).astype(BFLOAT16)
    _, y = normalised(x)
    got = run("Ascend910B3", "RmsNorm", [x, gamma], [like(x), np.zeros(40, np.float32)])
    want = y * gamma.astype(np.float64)
    np.testing.assert_allclose(got[0].astype(np.float64), want, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("shape", [(1, 1), (7, 33), (100, 256), (64, 4096), (3, 40_000)], ids=str)
@pytest.mark.parametrize("kind", [np.float32, np.float16])
def test_backward(chip: str, shape: tuple[int, int], kind: Any) -> None:
    x, grad = (numbers(*shape, seed=seed).astype(kind) for seed in (0, 1))
    gamma = numbers(shape[1], seed=2).astype(kind)
    rstd, y = normalised(x)
    scaled = grad.astype(np.float64) * gamma
    want = (scaled - y * (scaled * y).mean(-1, keepdims=True)) * rstd
    inputs = [grad, x, rstd[:, 0].astype(np.float32), gamma]
    outputs = [like(x), np.zeros(shape[1], np.float32)]
    got = run(chip, "RmsNormGrad", inputs, outputs)
    tolerance = 1e-2 if kind is np.float16 else 1e-4
    np.testing.assert_allclose(got[0], want, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(got[1], (grad.astype(np.float64) * y).sum(0), rtol=1e-4, atol=1e-3)
    assert_time_needs_no_numbers(chip, "RmsNormGrad", inputs, outputs)
    assert_above_roofline(chip, "RmsNormGrad", inputs, outputs)


def test_the_gradient_of_gamma_is_added_into_memory_that_was_cleared() -> None:
    x, row = numbers(100, 64), numbers(64)
    (kernel,), (_, dgamma) = kernels("Ascend910B3", "RmsNormGrad", [x, x, x[:, 0], row], [x, row])
    assert [each.buffer for each in kernel.adds_into] == [dgamma.buffer]


def test_tiling_changes_no_number() -> None:
    x, gamma = numbers(90, 1000), numbers(1000, seed=1)
    rstd, _ = normalised(x)
    rows = np.zeros(90, np.float32)
    for chip in CHIPS:
        assert_tiling_changes_no_number(chip, "RmsNorm", [x, gamma], [x, rows])
        inputs = [x, x, rstd[:, 0].astype(np.float32), gamma]
        assert_tiling_changes_no_number(chip, "RmsNormGrad", inputs, [x, np.zeros_like(gamma)])


def test_wrong_rows_are_refused() -> None:
    x = numbers(4, 30)
    with pytest.raises(KernelError, match="no rows of 7"):
        run("Ascend910B3", "RmsNorm", [x, numbers(7)], [x, numbers(4)])
    with pytest.raises(KernelError, match="3 tensors where 4 are needed"):
        run("Ascend910B3", "RmsNormGrad", [x, x, None, x], [x, x[0]])


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("op", ["RmsNorm", "AddRmsNorm"])
def test_more_rows_take_longer_and_nothing_beats_the_roofline(chip: str, op: str) -> None:
    times = []
    for rows in (1, 100, 1000, 10_000):
        x, gamma = np.zeros((rows, 1024), np.float16), np.zeros(1024, np.float16)
        inputs = [x, gamma] if op == "RmsNorm" else [x, x, gamma]
        outputs = [x, np.zeros(rows, np.float32), x][: len(inputs)]
        times.append(cycles(chip, op, inputs, outputs))
        assert_above_roofline(chip, op, inputs, outputs)
    assert times == sorted(times)


def test_a_norm_in_place_is_the_other_on_its_own_operands() -> None:
    x, other, gamma = numbers(5, 3, 100), numbers(5, 3, 100, seed=1), numbers(100, seed=2)
    apart = Device("Ascend910B3").run("AddRmsNorm", x1=x, x2=other, gamma=gamma).outputs
    in_place = Device("Ascend910B3").run("InplaceAddRmsNorm", x1=x, x2=other, gamma=gamma).outputs
    assert apart is not None
    assert in_place is not None
    np.testing.assert_array_equal(in_place["x1"], apart["y"])
    np.testing.assert_array_equal(in_place["x2"], apart["x"])
    assert in_place["rstd"].shape == (5, 3, 1)
    np.testing.assert_array_equal(in_place["rstd"].reshape(-1), apart["rstd"].reshape(-1))


def test_one_row_for_each_core_has_its_root_spread_by_the_scalar_unit() -> None:
    def taken(rows: int) -> float:
        call = {"x1": f"fp16[{rows},1024]", "x2": f"fp16[{rows},1024]", "gamma": "fp16[1024]"}
        call |= {"yOut": call["x1"], "rstdOut": f"fp32[{rows},1]", "xOut": call["x1"]}
        return Device("Ascend910B3").estimate("aclnnAddRmsNorm", **call).duration_us

    assert taken(1) < taken(40) < 0.95 * taken(80)
