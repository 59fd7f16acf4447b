"""LayerNorm forward and backward against closed forms in float64, plain and in fractals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npusim import Device
from npusim.schedules.rows.kernel import RowKernel
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

EPSILON = 1e-5
SHAPES = [(1, 1), (7, 33), (64, 768), (3, 5, 1024), (2000, 20), (4, 30_000), (1, 100_000)]


def numbers(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def operands(*shape: int, kind: Any = np.float32) -> tuple[Array, Array, Array]:
    x, gamma, beta = numbers(*shape), numbers(shape[-1], seed=1), numbers(shape[-1], seed=2)
    return x.astype(kind), gamma.astype(kind), beta.astype(kind)


def normalised(x: Array) -> tuple[Array, Array, Array]:
    """Mean, variance and x normalised."""
    wide = x.astype(np.float64)
    mean, variance = wide.mean(-1, keepdims=True), wide.var(-1, keepdims=True)
    return mean, variance, (wide - mean) / np.sqrt(variance + EPSILON)


def fractals(x: Array) -> Array:
    """A matrix of whole fractals in FRACTAL_NZ."""
    rows, columns = x.shape
    return np.ascontiguousarray(x.reshape(rows // 16, 16, columns // 16, 16).transpose(2, 0, 1, 3))


def results(x: Array, *, rows: Any = np.float32) -> list[Array]:
    return [like(x), *(np.zeros(x.shape[:-1], rows) for _ in range(2))]


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_forward(chip: str, shape: tuple[int, ...]) -> None:
    x, gamma, beta = operands(*shape)
    mean, variance, y = normalised(x)
    for op, second in (("LayerNorm", variance), ("LayerNormV3", 1 / np.sqrt(variance + EPSILON))):
        got = run(chip, op, [x, gamma, beta], results(x), epsilon=EPSILON)
        np.testing.assert_allclose(got[0], y * gamma + beta, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(got[1], mean[..., 0], rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(got[2], second[..., 0], rtol=1e-3)


@pytest.mark.parametrize(
    ("kind", "columns", "wanted"),
    [
        ("bf16", 1024, "LayerNormV4"),
        ("bf16", 4096, "LayerNormV4"),
        ("bf16", 2048, "LayerNormV3"),
        ("fp16", 1024, "LayerNormV3"),
        ("fp16", 50, "LayerNormV4"),
        ("fp16", 48, "LayerNormV3"),
        ("fp32", 65, "LayerNormV3"),
    ],
)
def test_rows_that_a_kernel_written_by_hand_takes(kind: str, columns: int, wanted: str) -> None:
    rows, line = f"{kind}[100,{columns}]", f"{kind}[{columns}]"
    given = {"input": rows, "weightOptional": line, "biasOptional": line, "eps": 1e-5}
    for chip, name in (("Ascend910B3", wanted), ("Ascend910A", "LayerNormV3")):
        if kind != "bf16" or chip == "Ascend910B3":
            found = Device(chip).estimate("aclnnLayerNorm", normalizedShape=[columns], **given)
            assert [task.name for task in found.tasks] == [name]


@settings(max_examples=20, deadline=None)
@given(rows=st.integers(1, 300), columns=st.sampled_from([9, 50, 1024, 4096]))
def test_groups_of_rows(rows: int, columns: int) -> None:
    x, gamma, beta = operands(rows, columns, kind=BFLOAT16)
    mean, variance, y = normalised(x)
    axes = np.array([columns], np.int64)
    given = ("Ascend910B3", "LayerNormV4", [x, axes, gamma, beta])
    got = run(*given, results(x), epsilon=EPSILON)
    want = y * gamma.astype(float) + beta.astype(float)
    np.testing.assert_allclose(got[0].astype(float), want, rtol=2e-2, atol=2e-2)
    np.testing.assert_allclose(got[1], mean[..., 0], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(got[2], 1 / np.sqrt(variance + EPSILON)[..., 0], rtol=1e-3)
    assert_time_needs_no_numbers(*given, results(x))


@pytest.mark.parametrize(
    ("kind", "columns", "at_once", "together"),
    [
        (np.float16, 499, 0, True),
        (np.float16, 500, 25, False),  # (196,608 - 256 - 4,096 - 2,048) / (14 * 512 + 264)
        (np.float16, 1152, 11, False),
        (np.float16, 1153, 10, False),
        (np.float16, 2040, 6, False),
        (np.float16, 2041, 4, False),  # an instruction doesn't step over it: folded singly
        (np.float32, 1152, 5, False),
        (np.float32, 7001, 1, False),
    ],
)
def test_added_rows_come_as_many_at_a_time_as_the_tiling_says(
    kind: Any, columns: int, at_once: int, *, together: bool
) -> None:
    x, gamma, beta = operands(3000, columns, kind=kind)
    outputs = [np.zeros_like(x), *results(x)[1:], np.zeros_like(x)]
    (kernel,), _ = kernels("Ascend910B2", "AddLayerNorm", [x, x, gamma, beta], outputs)
    layout: Any = getattr(kernel, "layout", None)
    assert layout.one_by_one == (not together)
    assert together or layout.rows_at_once == at_once >= layout.tile_rows >= at_once // 2
    assert layout.folds_singly == (together or kind is np.float32 or columns > 2040)


@settings(max_examples=20, deadline=None)
@given(
    rows=st.integers(1, 300),
    columns=st.sampled_from([1, 33, 499, 500, 1153, 2041]),
    kind=st.sampled_from([np.float16, np.float32]),
)
def test_added_rows(rows: int, columns: int, kind: Any) -> None:
    x, gamma, beta = operands(rows, columns, kind=kind)
    other = numbers(rows, columns, seed=3).astype(kind)
    total = x.astype(float) + other.astype(float)
    _, _, y = normalised(total)
    outputs = [np.zeros_like(x), *results(x)[1:], np.zeros_like(x)]
    given = ("Ascend910B2", "AddLayerNorm", [x, other, gamma, beta])
    got = run(*given, outputs, epsilon=EPSILON)
    loose = 1e-2 if kind is np.float16 else 1e-4
    want = y * gamma.astype(float) + beta.astype(float)
    np.testing.assert_allclose(got[0].astype(float), want, rtol=loose, atol=loose)
    np.testing.assert_allclose(got[3].astype(float), total, rtol=loose, atol=loose)
    assert_time_needs_no_numbers(*given, outputs)


@settings(max_examples=20, deadline=None)
@given(rows=st.integers(1, 300), columns=st.integers(1, 3000), chip=st.sampled_from(CHIPS))
def test_any_rows_and_time_by_shapes(rows: int, columns: int, chip: str) -> None:
    x, gamma, beta = operands(rows, columns)
    _, _, y = normalised(x)
    got = run(chip, "LayerNorm", [x, gamma, beta], results(x), epsilon=EPSILON)
    np.testing.assert_allclose(got[0], y * gamma + beta, rtol=1e-4, atol=1e-4)
    assert_time_needs_no_numbers(chip, "LayerNorm", [x, gamma, beta], results(x))


def test_half_types_are_normalised_in_float32() -> None:
    for kind, chips, tolerance in ((np.float16, CHIPS, 4e-3), (BFLOAT16, ("Ascend910B3",), 3e-2)):
        x, gamma, beta = operands(50, 512, kind=kind)
        _, _, y = normalised(x)
        want = y * gamma.astype(np.float64) + beta.astype(np.float64)
        for chip in chips:
            got = run(chip, "LayerNorm", [x, gamma, beta], results(x, rows=kind), epsilon=EPSILON)
            np.testing.assert_allclose(
                got[0].astype(np.float64), want, rtol=tolerance, atol=tolerance
            )


@pytest.mark.parametrize("chip", CHIPS)
def test_matrices_in_fractals(chip: str) -> None:
    x, gamma, beta = operands(64, 96, kind=np.float16)
    mean, _, y = normalised(x)
    outputs = [like(fractals(x)), *(np.zeros(64, np.float16) for _ in range(2))]
    got = run(chip, "LayerNorm", [fractals(x), gamma, beta], outputs, epsilon=EPSILON)
    want = y * gamma.astype(np.float64) + beta.astype(np.float64)
    np.testing.assert_allclose(got[0], fractals(want), rtol=4e-3, atol=8e-3)
    np.testing.assert_allclose(got[1], mean[:, 0], rtol=4e-3, atol=4e-3)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("shape", [(7, 33), (64, 768), (3, 30_000)], ids=str)
def test_the_gradient_of_the_input(chip: str, shape: tuple[int, int]) -> None:
    x, gamma, _ = operands(*shape)
    grad = numbers(*shape, seed=3)
    mean, variance, y = normalised(x)
    rstd = 1 / np.sqrt(variance + EPSILON)
    scaled = grad.astype(np.float64) * gamma
    inner = scaled - scaled.mean(-1, keepdims=True) - y * (scaled * y).mean(-1, keepdims=True)
    middle = mean.astype(np.float32)
    for op, second in (("LayerNormXBackpropV2", variance), ("LayerNormXBackpropV3", rstd)):
        given = {"epsilon": EPSILON} if op.endswith("V2") else {}
        inputs = [grad, x, second.astype(np.float32), middle, gamma]
        got = run(chip, op, inputs, [like(x), like(x)], **given)
        np.testing.assert_allclose(got[0], rstd * inner, rtol=1e-3, atol=1e-3)
        np.testing.assert_allclose(got[1], y, rtol=1e-3, atol=1e-4)
        assert_time_needs_no_numbers(chip, op, inputs, [x, x])


@settings(max_examples=15, deadline=None)
@given(
    rows=st.integers(1, 500),
    columns=st.integers(1, 1100),
    kind=st.sampled_from([np.float16, np.float32]),
    chip=st.sampled_from(CHIPS),
)
def test_gradients_of_the_parameters_are_sums_of_rows(
    rows: int, columns: int, kind: Any, chip: str
) -> None:
    grad, y = (numbers(rows, columns, seed=seed).astype(kind) for seed in (1, 2))
    outputs = [np.zeros(columns, np.float32) for _ in range(2)]
    op = "LayerNormBetaGammaBackpropV2"
    got = run(chip, op, [grad, y], outputs)
    wide = grad.astype(np.float64)
    np.testing.assert_allclose(got[0], (wide * y).sum(0), rtol=1e-4, atol=2e-3)
    np.testing.assert_allclose(got[1], wide.sum(0), rtol=1e-4, atol=2e-3)
    assert_time_needs_no_numbers(chip, op, [grad, y], outputs)


@pytest.mark.parametrize("chip", CHIPS)
def test_gradients_of_the_parameters_in_fractals(chip: str) -> None:
    grad, y = (numbers(48, 80, seed=seed).astype(np.float16) for seed in (1, 2))
    outputs = [np.zeros(80, np.float32) for _ in range(2)]
    got = run(chip, "LayerNormBetaGammaBackpropV2", [fractals(grad), fractals(y)], outputs)
    wide = grad.astype(np.float64)
    np.testing.assert_allclose(got[0], (wide * y).sum(0), rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(got[1], wide.sum(0), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("op", ["LayerNorm", "LayerNormV3"])
def test_tiling_changes_no_number(op: str) -> None:
    x, gamma, beta = operands(90, 1000)
    for chip in CHIPS:
        assert_tiling_changes_no_number(chip, op, [x, gamma, beta], results(x))


def test_rows_that_dont_divide_the_tensor_are_refused() -> None:
    x, gamma = numbers(4, 30), numbers(7)
    with pytest.raises(KernelError, match="no rows of 7"):
        run("Ascend910B3", "LayerNorm", [x, gamma, gamma], results(x))
    with pytest.raises(KernelError, match="no rows of 7"):
        run("Ascend910B3", "LayerNormBetaGammaBackpropV2", [x, x], [gamma, gamma])
    with pytest.raises(KernelError, match="no input"):
        kernels("Ascend910B3", "LayerNorm", [None, gamma, gamma], results(x))


@pytest.mark.parametrize("chip", CHIPS)
def test_more_rows_take_longer_and_nothing_beats_the_roofline(chip: str) -> None:
    times = []
    for rows in (1, 100, 1000, 10_000):
        x, gamma = np.zeros((rows, 768), np.float32), np.zeros(768, np.float32)
        outputs = results(x)
        times.append(cycles(chip, "LayerNorm", [x, gamma, gamma], outputs))
        assert_above_roofline(chip, "LayerNorm", [x, gamma, gamma], outputs)
    assert times == sorted(times)
    assert_above_roofline(chip, "LayerNormXBackpropV3", [x, x, *outputs[1:], gamma], [x, x])


@pytest.mark.parametrize("chip", CHIPS)
def test_rows_that_dont_fit_go_by_several_times(chip: str) -> None:
    """Mean, variance and result are three passes; rows in UB are loaded once."""
    times = []
    for columns in (2000, 128_000):
        x, gamma = np.zeros((128_000 * 240 // columns, columns), np.float32), np.zeros(columns)
        line = gamma.astype(np.float32)
        (kernel,), _ = kernels(chip, "LayerNorm", [x, line, line], results(x))
        times.append(cycles(chip, "LayerNorm", [x, line, line], results(x)))
        assert kernel.layout.whole is (columns == 2000)  # type: ignore[attr-defined]
    assert times[1] > 1.25 * times[0]


@pytest.mark.parametrize("kind", [np.float32, np.float16, BFLOAT16])
@pytest.mark.parametrize("shape", [(1, 10), (97, 33), (3, 70, 64), (300, 768), (5, 20_000)])
def test_all_gradients_in_one_task(shape: tuple[int, ...], kind: Any) -> None:
    """Added up in UB, row by row, and in pieces of rows."""
    x, gamma, _ = operands(*shape, kind=kind)
    grad = numbers(*shape, seed=3).astype(kind)
    mean, rstd = (each.astype(np.float32) for each in moments(x))
    line = np.zeros(shape[-1], np.float32)
    inputs, outputs = [grad, x, rstd, mean, gamma], [np.zeros_like(x), line, line]
    got = run("Ascend910B3", "LayerNormGradV3", inputs, outputs)
    wide, slope = (each.astype(np.float64) for each in (grad, gamma))
    normed, scaled = (x.astype(np.float64) - mean) * rstd, wide * slope
    shared = scaled.mean(-1, keepdims=True) + normed * (scaled * normed).mean(-1, keepdims=True)
    rows = tuple(range(len(shape) - 1))
    wanted = rstd * (scaled - shared), (wide * normed).sum(rows), wide.sum(rows)
    fits = (1e-5 if kind is np.float32 else 1e-2, 1e-4, 1e-4)
    for found, want, off in zip(got, wanted, fits, strict=True):
        np.testing.assert_allclose(found.astype(np.float64), want, rtol=off, atol=off)
    assert_time_needs_no_numbers("Ascend910B3", "LayerNormGradV3", inputs, outputs)
    assert_above_roofline("Ascend910B3", "LayerNormGradV3", inputs, outputs)


def moments(x: Array) -> tuple[Array, Array]:
    wide = x.astype(np.float64)
    return wide.mean(-1, keepdims=True), 1 / np.sqrt(wide.var(-1, keepdims=True) + EPSILON)


def test_more_rows_take_longer_in_the_task_for_all_gradients() -> None:
    times = []
    for rows in (1, 100, 1000, 10_000):
        x, line = np.zeros((rows, 1024), np.float32), np.zeros(1024, np.float32)
        column = np.zeros((rows, 1), np.float32)
        given = [x, x, column, column, line]
        times.append(cycles("Ascend910B3", "LayerNormGradV3", given, [x, line, line]))
    assert times == sorted(times)


def test_results_lie_where_the_task_stores_them_anyhow(monkeypatch: pytest.MonkeyPatch) -> None:
    """No kernel is made for each result in turn: one tells what comes out, one is the task."""
    made: list[str] = []
    real = RowKernel.__init__

    def noting(kernel: RowKernel, *given: Any, **more: Any) -> None:
        made.append(kernel.op_type)
        real(kernel, *given, **more)

    monkeypatch.setattr(RowKernel, "__init__", noting)
    x, gamma, beta = operands(40, 300)
    call: dict[str, Any] = {
        "input": x, "normalizedShape": [300], "weightOptional": gamma, "biasOptional": beta,
    }  # fmt: skip
    found = Device("Ascend910B3").run("aclnnLayerNorm", **call, eps=EPSILON)
    assert made == ["LayerNormV3"] * 2
    mean, variance, y = normalised(x)
    assert found.outputs is not None
    wanted = y * gamma + beta, mean, 1 / np.sqrt(variance + EPSILON)
    for ours, theirs in zip(found.outputs.values(), wanted, strict=True):
        np.testing.assert_allclose(ours, theirs.reshape(ours.shape), rtol=1e-4, atol=1e-4)
