"""Softmax, its logarithm and their gradients against float64, along any axis."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npusim.hardware import load_profile
from npusim.operators.tasks import TaskSpec, kernels_of
from npusim.runtime.task import run_tasks
from npusim.schedules.rows.formats import FractalLayout
from npusim.values.errors import KernelError
from npusim.values.tensors import TensorSpec
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


def numbers(*shape: int, seed: int = 0) -> Array:
    return (np.random.default_rng(seed).standard_normal(shape) * 2).astype(np.float32)


def softmax(x: Array, axis: int = -1) -> Array:
    wide = x.astype(np.float64)
    e = np.exp(wide - wide.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("op", ["SoftmaxV2", "LogSoftmaxV2"])
def test_large_numbers_overflow_nothing(chip: str, op: str) -> None:
    """Rows are shifted by their largest element: e**1000 is beyond float32."""
    x = numbers(3, 17) + np.float32(1000)
    (got,) = run(chip, op, [x], [like(x)], axes=[1])
    want = softmax(x)
    np.testing.assert_allclose(
        got, want if op == "SoftmaxV2" else np.log(want), rtol=1e-3, atol=1e-4
    )


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("shape", [(1970, 3), (2, 5001, 1), (1300, 7)])
def test_long_rows_side_by_side_fit_into_ub(chip: str, shape: tuple[int, ...]) -> None:
    """A few places take a block for each element of the rows."""
    axis = len(shape) - 2
    x = numbers(*shape)
    (got,) = run(chip, "SoftmaxV2", [x], [like(x)], axes=[axis])
    np.testing.assert_allclose(got, softmax(x, axis), rtol=1e-4, atol=1e-5)


@settings(max_examples=60, deadline=None)
@given(
    data=st.data(),
    shape=st.lists(st.sampled_from([1, 2, 3, 8, 17, 40, 300]), min_size=1, max_size=3),
    chip=st.sampled_from(CHIPS),
)
def test_along_any_axis(data: st.DataObject, shape: list[int], chip: str) -> None:
    if np.prod(shape) > 40_000:
        shape = shape[:2]
    axis = data.draw(st.integers(0, len(shape) - 1))
    x, grad = numbers(*shape), numbers(*shape, seed=1)
    y = softmax(x, axis)
    for op, want in (("SoftmaxV2", y), ("LogSoftmaxV2", np.log(y))):
        (got,) = run(chip, op, [x], [like(x)], axes=[axis])
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
        assert_time_needs_no_numbers(chip, op, [x], [x], axes=[axis])
    inputs = [y.astype(np.float32), grad]
    want = y * (grad - (grad * y).sum(axis, keepdims=True))
    (got,) = run(chip, "SoftmaxGrad", inputs, [like(x)], axes=[axis])
    np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-5)
    inputs = [grad, np.log(y).astype(np.float32)]
    want = grad - y * grad.astype(np.float64).sum(axis, keepdims=True)
    (got,) = run(chip, "LogSoftmaxGrad", inputs, [like(x)], axis=axis)
    np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("columns", [40_000, 100_000])
def test_rows_that_dont_fit(chip: str, columns: int) -> None:
    x = numbers(3, columns)
    (got,) = run(chip, "SoftmaxV2", [x], [like(x)])
    np.testing.assert_allclose(got, softmax(x), rtol=1e-3, atol=1e-9)


def test_half_types() -> None:
    for kind, chips, tolerance in ((np.float16, CHIPS, 4e-3), (BFLOAT16, ("Ascend910B3",), 2e-2)):
        x = numbers(40, 300).astype(kind)
        for chip in chips:
            (got,) = run(chip, "SoftmaxV2", [x], [like(x)])
            want = softmax(x)
            np.testing.assert_allclose(got.astype(np.float64), want, rtol=tolerance, atol=1e-4)


def test_tiling_changes_no_number() -> None:
    x = numbers(90, 1000)
    for chip in CHIPS:
        for axis in (0, 1):
            assert_tiling_changes_no_number(chip, "SoftmaxV2", [x], [like(x)], axes=[axis])


@pytest.mark.parametrize("high", [1, 7, 8, 11, 13, 64])
def test_tiles_of_fractals_share_a_block_evenly(high: int) -> None:
    """All rows once, in as few tiles as fit, none of which is a remainder."""
    x = TensorSpec((96, 8, high, 16, 16), "float16", "FRACTAL_NZ")
    task = TaskSpec("SoftmaxGradExt", (x, x, TensorSpec((1,), "float16")), (x,), {"axes": [-1]})
    layout = cast("Any", kernels_of(load_profile("Ascend910B"), task)[0]).layout
    assert isinstance(layout, FractalLayout)
    rows = 16 * high
    assert (layout.tile_rows == rows) == (high == 1 or high * layout.tile_batches <= 6)
    assert layout.tile_rows % 16 == 0
    last = rows % layout.tile_rows or layout.tile_rows
    assert layout.tile_rows - last < 16 * -(-rows // layout.tile_rows)
    assert last >= layout.tile_rows // 2


def test_rows_that_arent_whole_blocks_come_one_by_one() -> None:
    """In code for one shape each row of 50 halves is loaded and worked on by itself."""
    x = np.zeros((3000, 50), np.float16)
    times = {
        chip: [cycles(chip, "Softmax", [each], [each]) for each in (x, x[:, :48].copy())]
        for chip in ("Ascend910B", "Ascend910B3")
    }
    ragged, whole = times["Ascend910B"]
    assert ragged > 3 * whole
    assert times["Ascend910B3"][0] < 3 * times["Ascend910B3"][1]


def test_axes_that_arent_there_are_refused() -> None:
    x = numbers(4, 30)
    for axes in ([2], [0, 1], "last"):
        with pytest.raises(KernelError, match="can't work along axis"):
            kernels("Ascend910B3", "SoftmaxV2", [x], [x], {"axes": axes})


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("op", ["SoftmaxV2", "SoftmaxGrad"])
def test_more_rows_take_longer_and_nothing_beats_the_roofline(chip: str, op: str) -> None:
    times = []
    for rows in (1, 100, 1000, 10_000):
        x = np.zeros((rows, 512), np.float16)
        inputs = [x] if op == "SoftmaxV2" else [x, x]
        times.append(cycles(chip, op, inputs, [x]))
        assert_above_roofline(chip, op, inputs, [x])
    assert times == sorted(times)


@pytest.mark.parametrize(("columns", "times"), [(8192, 1), (16384, 3)])
def test_values_of_code_for_any_shape_have_one_buffer(columns: int, times: int) -> None:
    """Rows of a sixth of UB come once; longer ones go by three times."""
    profile, x = load_profile("Ascend910B2"), TensorSpec((96, columns), "float32")
    (kernel,) = kernels_of(profile, TaskSpec("SoftmaxV2", (x,), (x,), {"axes": [-1]}))
    assert run_tasks([kernel], profile).tasks[0].bytes_read == times * x.nbytes


@pytest.mark.parametrize(("op", "rows", "blocks"), [
    ("LogSoftmax", 32, 4), ("LogSoftmax", 64, 8), ("LogSoftmax", 512, 16),
    ("LogSoftmaxGrad", 32, 8), ("LogSoftmaxGrad", 64, 16),
])  # fmt: skip
def test_short_rows_are_dealt_out_in_blocks_of_the_narrowest_tile(
    op: str, rows: int, blocks: int
) -> None:
    """Largest elements are found among halves on the first generation (recorded block counts)."""
    x = TensorSpec((rows, 2), "float32")
    task = TaskSpec(op, (x,) * (1 + op.endswith("Grad")), (x,))
    (kernel,) = kernels_of(load_profile("Ascend910B"), task)
    assert kernel.block_dim == blocks


@pytest.mark.parametrize("chip", ["Ascend910B2", "Ascend310P3"])
@pytest.mark.parametrize("columns", [2, 3, 7, 15])
def test_short_ragged_rows_take_no_longer_than_whole_blocks(chip: str, columns: int) -> None:
    """They are padded in UB, so that no row is worked on by itself; longer ones are."""
    profile = load_profile(chip)

    def taken(width: int) -> float:
        x = TensorSpec((1 << 14, width), "float16")
        (kernel,) = kernels_of(profile, TaskSpec("SoftmaxV2", (x,), (x,), {"axes": [-1]}))
        return run_tasks([kernel], profile).duration_us

    assert taken(columns) < taken(16)
    assert taken(65) > 1.2 * taken(64)


@pytest.mark.parametrize("columns", [2, 5, 15, 17])
def test_rows_padded_in_ub_have_the_numbers_of_others(columns: int) -> None:
    x = np.random.default_rng(columns).standard_normal((301, columns)).astype(np.float16)
    (got,) = run("Ascend910B2", "SoftmaxV2", [x], [like(x)], axes=[-1])
    power = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    np.testing.assert_allclose(got, power / power.sum(axis=1, keepdims=True), rtol=6e-3)
