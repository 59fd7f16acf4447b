"""Reductions along any axes against float64, and what decides their time."""

from __future__ import annotations

import random
from collections import Counter
from math import ceil
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npusim.ascendc import trace
from npusim.hardware import load_profile
from npusim.operators.tasks import TaskSpec, kernels_of
from npusim.values.errors import KernelError
from npusim.values.tensors import TensorSpec
from support.reduce_tiling import blocks
from support.tasks import (
    BFLOAT16,
    CHIPS,
    assert_above_roofline,
    assert_tiling_changes_no_number,
    assert_time_needs_no_numbers,
    cycles,
    kernels,
    run,
)

Array = np.ndarray[Any, Any]

KINDS: dict[str, Any] = {
    "ReduceSum": np.sum,
    "ReduceMean": np.mean,
    "ReduceMax": np.max,
    "ReduceMin": np.min,
    "SquareSumV1": lambda x, axis, keepdims: (x**2).sum(axis, keepdims=keepdims),
}


def numbers(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@settings(max_examples=80, deadline=None)
@given(
    data=st.data(),
    shape=st.lists(st.sampled_from([1, 2, 3, 8, 17, 40, 130]), min_size=1, max_size=4),
    op=st.sampled_from(sorted(KINDS)),
    keep=st.booleans(),
    chip=st.sampled_from(CHIPS),
)
def test_any_axes(data: st.DataObject, shape: list[int], op: str, keep: bool, chip: str) -> None:
    if np.prod(shape) > 40_000:
        shape = shape[:2]
    axes = data.draw(st.sets(st.integers(0, len(shape) - 1), min_size=1))
    x, said = numbers(*shape), {"axes": sorted(axes)}
    want = KINDS[op](x.astype(np.float64), axis=tuple(sorted(axes)), keepdims=keep)
    out = np.zeros(want.shape, np.float32)
    (got,) = run(chip, op, [x], [out], **said)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
    assert_time_needs_no_numbers(chip, op, [x], [out], **said)


@settings(max_examples=40, deadline=None)
@given(
    data=st.data(),
    shape=st.lists(st.sampled_from([1, 2, 3, 8, 17, 40, 130]), min_size=1, max_size=3),
    op=st.sampled_from(["ReduceSum", "ReduceMax", "ReduceMin"]),
)
def test_integers_of_64_bits_are_folded_exactly(
    data: st.DataObject, shape: list[int], op: str
) -> None:
    axes = tuple(sorted(data.draw(st.sets(st.integers(0, len(shape) - 1), min_size=1))))
    x = np.random.default_rng(4).integers(-(2**45), 2**45, tuple(shape))
    want = KINDS[op](x, axis=axes, keepdims=False)
    (got,) = run("Ascend910B3", op, [x], [np.zeros_like(want)], axes=list(axes))
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize(
    ("shape", "axis"),
    [((4096, 24), 0), ((1000, 101), 0), ((50, 3), 0), ((7, 300, 5), 1), ((10, 9001), 1)],
    ids=str,
)
def test_blocks_that_share_what_is_folded_add_it_up(
    chip: str, shape: tuple[int, ...], axis: int
) -> None:
    x = numbers(*shape)
    for op, want in (("ReduceSum", x.sum(axis)), ("ReduceMean", x.mean(axis))):
        (got,) = run(chip, op, [x], [np.zeros_like(want)], axes=[axis])
        np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("chip", "shape", "axis", "blocks"),
    [
        ("Ascend910B", (128, 768), 0, 32),  # parts of 128 // 30 rows
        ("Ascend910B", (1000, 101), 0, 31),  # of 1000 // 30
        ("Ascend910B", (20, 64), 0, 5),  # a part for each KiB
        ("Ascend910B", (20, 63), 0, 20),  # for each 256 bytes, where rows are no whole blocks
        ("Ascend910B", (2560, 21128), 0, 30),  # recorded: columns are shared if UB holds no row
        ("Ascend910B2", (32, 1000), 0, 42),  # recorded: not for fewer rows than cores
        ("Ascend910B2", (4096, 768), 0, 48),
        ("Ascend910B2", (100, 768), 0, 34),
        ("Ascend910B2", (10, 5000), 1, 48),  # few results
        ("Ascend910B2", (256, 5000), 1, 43),  # more than half of a block for each core
    ],
)
def test_what_is_folded_is_shared_where_the_compiler_shares_it(
    chip: str, shape: tuple[int, ...], axis: int, blocks: int
) -> None:
    given, made = TensorSpec(shape, "float32"), TensorSpec((shape[1 - axis],), "float32")
    profile = load_profile(chip)
    (kernel,) = kernels_of(profile, TaskSpec("ReduceSum", (given,), (made,), {"axes": [axis]}))
    assert kernel.block_dim == blocks


@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1)], ids=str)
def test_half_types_are_added_up_in_float32(axes: tuple[int, ...]) -> None:
    for kind, chips, tolerance in ((np.float16, CHIPS, 2e-3), (BFLOAT16, ("Ascend910B3",), 1e-2)):
        x = (np.abs(numbers(300, 70)) + 1).astype(kind)
        want = x.astype(np.float64).sum(axes)
        for chip in chips:
            out = np.zeros(want.shape, kind)
            (got,) = run(chip, "ReduceSum", [x], [out], axes=list(axes))
            np.testing.assert_allclose(got.astype(np.float64), want, rtol=tolerance)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("kind", [np.float16, np.float32])
def test_rows_of_two_fit_into_ub_with_their_results(chip: str, kind: Any) -> None:
    x = numbers(300_000, 2).astype(kind)
    for op, want in (("ReduceMinD", x.min(1)), ("ReduceSumD", x.astype(np.float64).sum(1))):
        (got,) = run(chip, op, [x], [np.zeros(300_000, kind)], axes=[1])
        np.testing.assert_allclose(got.astype(np.float64), want, rtol=4e-3, atol=1e-2)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize(("rows", "columns"), [(2, 401_408), (3, 78_592)])
def test_a_few_wide_rows_fit_into_ub_with_their_results(chip: str, rows: int, columns: int) -> None:
    x = np.ones((1, rows, columns), np.float16)
    (got,) = run(chip, "ReduceSumD", [x], [np.zeros((1, columns), np.float16)], axes=[1])
    np.testing.assert_array_equal(got, rows)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("shape", [(512, 2), (64, 100), (128, 768), (5, 3, 40)], ids=str)
def test_the_gradient_of_a_bias_and_sums_of_squares(chip: str, shape: tuple[int, ...]) -> None:
    x = numbers(*shape)
    (got,) = run(chip, "BiasAddGrad", [x], [np.zeros(shape[-1], np.float32)])
    np.testing.assert_allclose(got, x.reshape(-1, shape[-1]).sum(0), rtol=1e-4, atol=1e-4)
    total = np.sum(x.astype(np.float64) ** 2)
    (half,) = run(chip, "L2Loss", [x], [np.zeros((), np.float32)])
    np.testing.assert_allclose(half, total / 2, rtol=1e-5)
    (found, squares) = run(chip, "SquareSumV2", [x], [np.zeros(1, np.float32), np.zeros_like(x)])
    np.testing.assert_allclose(found, total, rtol=1e-5)
    np.testing.assert_allclose(squares, x**2, rtol=1e-6)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("length", [98_304, 100_003])
def test_rows_longer_than_ub_are_folded_in_pieces(chip: str, length: int) -> None:
    """Each row has its largest number, and all of its sum that isn't zero, in its last element."""
    x = np.zeros((3, length), np.float32)
    x[:, -1] = [1, 2, 3]
    assert x[0].nbytes > load_profile(chip).buffers.ub_bytes
    for op in ("ReduceSum", "ReduceMax"):
        (got,) = run(chip, op, [x], [np.zeros(3, np.float32)], axes=[1])
        np.testing.assert_array_equal(got, [1, 2, 3])


def test_a_load_brings_as_many_rows_as_fit_into_one_of_two_slots() -> None:
    """Rows of a fifth of UB: two in each slot."""
    profile = load_profile("Ascend910B3")
    width = profile.buffers.ub_bytes // 5 // 256 * 64
    x = np.zeros((8 * profile.cores.vector_cores, width), np.float32)
    (kernel,), _ = kernels(profile, "ReduceSum", [x], [np.zeros(len(x), np.float32)], {"axes": [1]})
    (group,) = trace(kernel, profile, numerics=False)
    moved: Counter[int] = Counter()
    for each, times in group.program.instructions():
        if each.transfer is not None and not each.transfer.write:
            moved[each.transfer.payload_bytes] += times
    assert moved == {2 * 4 * width: 4}


@pytest.mark.parametrize(
    ("op", "dtype", "rows_slots", "columns_slots"),
    [
        ("ReduceSum", "float32", 2, 1),
        ("ReduceSum", "float16", 1, 2),
        ("ReduceMax", "float32", 1, 2),
    ],
)
def test_kernels_for_one_shape_wait_where_their_schedule_has_one_slot(
    op: str, dtype: str, rows_slots: int, columns_slots: int
) -> None:
    """Sums that may be added in memory have another schedule; chips with any shape have two."""
    for axis, slots in ((1, rows_slots), (0, columns_slots)):
        x = TensorSpec((331, 4999), dtype)
        out = TensorSpec((x.shape[1 - axis],), dtype)
        for chip, wanted in (("Ascend910B", slots), ("Ascend910B2", 2)):
            task = TaskSpec(op, (x,), (out,), {"axes": [axis]})
            (kernel,) = kernels_of(load_profile(chip), task)
            assert cast("Any", kernel).plan.depth == wanted


def test_tiling_changes_no_number() -> None:
    x = numbers(60, 70, 33)
    for chip in CHIPS:
        for axes, shape in (((0,), (70, 33)), ((2,), (60, 70)), ((0, 2), (70,)), ((0, 1, 2), ())):
            out = np.zeros(shape, np.float32)
            assert_tiling_changes_no_number(chip, "ReduceSum", [x], [out], axes=list(axes))


def test_results_that_no_axes_explain_are_refused() -> None:
    for shape in ((7,), (40, 3)):
        with pytest.raises(KernelError):
            run("Ascend910B3", "ReduceSum", [numbers(40, 50)], [np.zeros(shape, np.float32)])
    with pytest.raises(KernelError, match="no input or no output"):
        kernels("Ascend910B3", "ReduceSum", [numbers(40)], [])


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("axis", [0, 1])
def test_more_elements_take_longer_and_nothing_beats_the_roofline(chip: str, axis: int) -> None:
    times = []
    for rows in (16, 512, 8192):
        x = np.zeros((rows, 768), np.float32)
        out = np.zeros(x.shape[1 - axis], np.float32)
        times.append(cycles(chip, "ReduceSum", [x], [out], axes=[axis]))
        assert_above_roofline(chip, "ReduceSum", [x], [out], axes=[axis])
    assert times == sorted(times)


def test_what_is_added_into_is_named() -> None:
    """Sums of all elements meet in memory that another task has cleared."""
    x, out = numbers(100_000), np.zeros((), np.float32)
    (kernel,), (total,) = kernels("Ascend910B3", "ReduceSum", [x], [out])
    assert kernel.block_dim > 1
    assert [each.buffer for each in kernel.adds_into] == [total.buffer]


def test_blocks_that_start_late_enough_dont_meet_at_the_end() -> None:
    """The additions of a chip whose blocks start further apart cost less."""
    profile = load_profile("Ascend910B3")
    x, out = np.zeros(100_000, np.float32), np.zeros((), np.float32)
    times = []
    for per_block_us in (0.0, 1.0):
        launch = profile.launch.model_copy(update={"per_block_us": per_block_us})
        chip = profile.model_copy(update={"launch": launch})
        times.append(cycles(chip, "ReduceSum", [x], [out]))
    assert times[1] < times[0]


@pytest.mark.parametrize(("rows", "length"), [(2048, 3), (1037, 33), (700, 5)])
def test_many_ragged_rows_are_turned_side_by_side(rows: int, length: int) -> None:
    """Not a load for each row where the compiler turns them, and the same numbers."""
    x = numbers(rows, length)
    out = np.zeros(rows, np.float32)
    for op in ("ReduceSum", "ReduceMean", "ReduceMax"):
        (got,) = run("Ascend310P3", op, [x], [out], axes=[1])
        np.testing.assert_allclose(got, KINDS[op](x, axis=1, keepdims=False), rtol=1e-4, atol=1e-5)
    assert_time_needs_no_numbers("Ascend310P3", "ReduceSum", [x], [out], axes=[1])
    aligned = cycles("Ascend310P3", "ReduceSum", [numbers(rows, 64)], [out], axes=[1])
    assert cycles("Ascend310P3", "ReduceSum", [x], [out], axes=[1]) < aligned


@pytest.mark.parametrize(
    ("shape", "result", "blocks"),
    [
        ((31, 1008), (1008,), 42),  # 24 columns each
        ((31, 1009), (1009,), 46),  # 22 columns each
        ((3, 257, 119), (3, 257), 46),  # 17 rows each
        ((5003,), (), 49),  # 104 elements each, and what is left
        ((311,), (), 5),  # a repeat each
        ((7,), (), 1),
    ],
)
def test_blocks_of_sums_for_any_shape_on_a2(
    shape: tuple[int, ...], result: tuple[int, ...], blocks: int
) -> None:
    """Whole blocks of columns are shared in such, and no block's share of all is below a repeat."""
    task = TaskSpec("ReduceSum", (TensorSpec(shape, "float32"),), (TensorSpec(result, "float32"),))
    (kernel,) = kernels_of(load_profile("Ascend910B2"), task)
    assert kernel.block_dim == blocks


@given(st.integers(1, 40_000))
@settings(max_examples=50)
def test_numbers_that_become_one_are_split_as_the_compiler_splits_an_axis(count: int) -> None:
    """In shares of size // parts, a part for each KiB and each core: never in shares of a few."""
    profile = load_profile("Ascend910A")
    parts = min(profile.cores.vector_cores, ceil(4 * count / 1024))
    given, made = (TensorSpec((count,), "float32"),), (TensorSpec((), "float32"),)
    (kernel,) = kernels_of(profile, TaskSpec("ReduceSum", given, made, {"axes": [0]}))
    assert kernel.block_dim == ceil(count / (count // parts))


def test_blocks_for_any_shape_are_those_of_an_independent_reading() -> None:
    """Ragged shapes drawn at random."""
    chance, profile = random.Random(5), load_profile("Ascend910B2")  # noqa: S311 - no secret
    sizes, same = (2, 3, 5, 7, 13, 16, 17, 31, 48, 64, 65, 100, 255, 256, 1000), []
    for _ in range(400):
        shape = tuple(chance.choice(sizes) for _ in range(chance.randint(2, 3)))
        axes = tuple(sorted(chance.sample(range(len(shape)), chance.randint(1, len(shape) - 1))))
        out = tuple(size for axis, size in enumerate(shape) if axis not in axes)
        for op_type in ("ReduceSum", "ReduceMax"):
            given, made = (TensorSpec(shape, "float32"),), (TensorSpec(out, "float32"),)
            task = TaskSpec(op_type, given, made, {"axes": list(axes)})
            found = [each for each in kernels_of(profile, task) if each.op_type == op_type]
            wanted = blocks(shape, axes, 48, 20_000, adds=op_type == "ReduceSum")
            same.append(found[0].block_dim == wanted)
    assert np.mean(same) > 0.99
