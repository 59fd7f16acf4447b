"""Order: running extremes, places of extremes, the k largest, what is there at all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npusim import Device
from npusim.ascendc import trace
from npusim.hardware import load_profile
from npusim.runtime.task import run_tasks
from npusim.values.errors import KernelError
from support.tasks import BFLOAT16, cycles, kernels, run

Array = np.ndarray[Any, Any]
A2 = "Ascend910B2"

SHAPES = st.lists(st.integers(1, 40), min_size=1, max_size=3).map(tuple)
KINDS = st.sampled_from([np.float32, np.float16, BFLOAT16])


def whole(shape: tuple[int, ...], kind: Any, seed: int = 0) -> Array:
    """Whole numbers around zero, many of them equal."""
    return np.random.default_rng(seed).integers(-9, 10, shape).astype(kind)


@settings(max_examples=15, deadline=None)
@given(SHAPES, st.integers(0, 2), KINDS, st.booleans())
def test_running_extremes_and_the_last_places_of_them(
    shape: tuple[int, ...], axis: int, kind: Any, smallest: bool
) -> None:
    x, axis = whole(shape, kind), axis % len(shape)
    name, fold = ("Cummin", np.minimum) if smallest else ("Cummax", np.maximum)
    y, places = np.zeros(shape, kind), np.zeros(shape, np.int64)
    y, places = run(A2, name, [x], [y, places], dim=axis)
    expected = fold.accumulate(x.astype(float), axis=axis)
    np.testing.assert_array_equal(y.astype(float), expected)
    steps = np.arange(shape[axis]).reshape([-1 if at == axis else 1 for at in range(len(shape))])
    where = np.where(x.astype(float) == expected, steps, 0)
    np.testing.assert_array_equal(places, np.maximum.accumulate(where, axis=axis))


def test_cores_share_the_running_extremes_of_long_rows() -> None:
    """All but one an equal part of 32 and more, the last one what is left, from a block on."""
    x = whole((5, 1537), np.float32)
    outputs = [np.zeros(x.shape, np.float32), np.zeros(x.shape, np.int32)]
    (task,), _ = kernels(load_profile(A2), "Cummin", [x], outputs, {"dim": 0})
    assert task.block_dim == 48
    y, _ = run(A2, "Cummin", [x], outputs, dim=0)
    np.testing.assert_array_equal(y, np.minimum.accumulate(x))


@settings(max_examples=15, deadline=None)
@given(SHAPES, st.integers(0, 2), KINDS, st.booleans(), st.sampled_from([A2, "Ascend910A"]))
def test_the_first_place_of_the_extreme(
    shape: tuple[int, ...], axis: int, kind: Any, largest: bool, chip: str
) -> None:
    if kind is BFLOAT16 and chip == "Ascend910A":
        return
    x, axis = whole(shape, kind), axis % len(shape)
    left = (*shape[:axis], *shape[axis + 1 :])
    name, best = ("ArgMax", np.argmax) if largest else ("ArgMin", np.argmin)
    result = np.zeros(left, np.int32 if chip == "Ascend910A" else np.int64)
    (places,) = run(chip, name, [x], [result], dim=axis)
    np.testing.assert_array_equal(places, best(x.astype(float), axis=axis))


@pytest.mark.parametrize("chip", ["Ascend910A", "Ascend310P3", "Ascend910B3"])
def test_masks_of_the_last_repeat_begin_with_a_full_word(chip: str) -> None:
    """104 of 128 halves are a word and 40 bits, as 40 of 64 floats are: no more work for halves."""
    half, whole = (np.zeros((64, 1000), kind) for kind in (np.float16, np.float32))
    places = np.zeros(64, np.int32)
    halves, floats = (cycles(chip, "ArgMaxV2", [x], [places], dimension=1) for x in (half, whole))
    assert halves < 1.05 * floats
    word, more = (np.zeros((64, columns), np.float16) for columns in (64, 65))
    assert cycles(chip, "ArgMaxV2", [word], [places], dimension=1) < cycles(
        chip, "ArgMaxV2", [more], [places], dimension=1
    )


@pytest.mark.parametrize(
    ("rows", "kind", "any_shape", "one_shape"),
    [
        (1, np.float32, 1, 1),
        (7, np.float32, 1, 48),
        (8, np.float32, 1, 48),
        (9, np.float32, 2, 48),
        (66, np.float32, 9, 48),
        (66, np.float16, 9, 48),
        (66, BFLOAT16, 5, 48),
        (1009, np.float32, 43, 48),  # 24 rows each
    ],
)
def test_code_for_any_shape_deals_out_blocks_of_rows(
    rows: int, kind: Any, any_shape: int, one_shape: int
) -> None:
    x, places = np.zeros((rows, 100), kind), np.zeros(rows, np.int32)
    for compiled, blocks in ((False, any_shape), (True, one_shape)):
        told = {"dimension": 1, "compiled_for_shape": compiled}
        (kernel,), _ = kernels("Ascend910B2", "ArgMaxV2", [x], [places], told)
        assert kernel.block_dim == blocks


@settings(max_examples=15, deadline=None)
@given(rows=st.integers(1, 500), columns=st.integers(1, 400))
def test_rows_in_blocks_are_found(rows: int, columns: int) -> None:
    x = np.random.default_rng(rows).standard_normal((rows, columns)).astype(np.float32)
    (places,) = run("Ascend910B2", "ArgMaxV2", [x], [np.zeros(rows, np.int32)], dimension=1)
    np.testing.assert_array_equal(places, x.argmax(axis=-1))


def test_a_long_row_is_searched_in_segments() -> None:
    x = np.random.default_rng(0).standard_normal((2, 100_003)).astype(np.float32)
    out = [np.zeros(2, np.int32), np.zeros(2, np.float32)]
    places, values = run(A2, "ArgMaxWithValue", [x], out, dim=-1)
    np.testing.assert_array_equal(places, x.argmax(axis=-1))
    np.testing.assert_array_equal(values, x.max(axis=-1))


@settings(max_examples=20, deadline=None)
@given(
    SHAPES,
    st.integers(0, 2),
    st.floats(0, 1),
    st.sampled_from([np.float32, np.float16, BFLOAT16, np.int8, np.uint8, np.int32]),
    st.booleans(),
)
def test_the_k_largest_in_order(
    shape: tuple[int, ...], axis: int, share: float, kind: Any, largest: bool
) -> None:
    axis %= len(shape)
    count = max(1, round(share * shape[axis]))
    x = whole(shape, np.float32, 1).astype(kind)
    taken = (*shape[:axis], count, *shape[axis + 1 :])
    out = [np.zeros(taken, kind), np.zeros(taken, np.int64)]
    values, places = run(A2, "TopK", [x], out, dim=axis, k=count, largest=largest)
    wide = x.astype(float)
    first = np.argsort(-wide if largest else wide, axis=axis, kind="stable")
    first = np.take(first, range(count), axis=axis)
    np.testing.assert_array_equal(places, first)
    np.testing.assert_array_equal(values.astype(float), np.take_along_axis(wide, first, axis))


@settings(max_examples=10, deadline=None)
@given(SHAPES, st.integers(0, 2), KINDS, st.booleans())
def test_all_numbers_in_order(
    shape: tuple[int, ...], axis: int, kind: Any, descending: bool
) -> None:
    x, axis = whole(shape, kind, 2), axis % len(shape)
    out = [np.zeros(shape, kind), np.zeros(shape, np.int32)]
    values, places = run(A2, "Sort", [x], out, axis=axis, descending=descending)
    wide = x.astype(float)
    first = np.argsort(-wide if descending else wide, axis=axis, kind="stable")
    np.testing.assert_array_equal(places, first)
    np.testing.assert_array_equal(values.astype(float), np.take_along_axis(wide, first, axis))


@pytest.mark.parametrize("chip", ["Ascend910A", "Ascend310P3"])
@pytest.mark.parametrize("kind", [np.float16, np.float32])
@pytest.mark.parametrize(
    ("rows", "length", "count"),
    [(3, 5, 2), (70, 100, 17), (9, 4096, 1000), (5, 4097, 16), (2, 20_011, 300), (1, 1500, 1500),
     (5, 300, 9)],
)  # fmt: skip
@pytest.mark.parametrize("largest", [True, False])
def test_chips_without_pairs_sort_proposals(
    chip: str, kind: Any, rows: int, length: int, count: int, largest: bool
) -> None:
    """As halves where proposals have no others; equal numbers stay as they come."""
    x = np.random.default_rng(length).standard_normal((rows, length)).astype(kind)
    out = [np.zeros((rows, count), kind), np.zeros((rows, count), np.int32)]
    given = {"k": count, "largest": largest}
    values, places = run(chip, "TopK", [x], out, **given)
    wide = x.astype(np.float16 if chip == "Ascend910A" else kind).astype(np.float64)
    first = np.argsort(-wide if largest else wide, axis=-1, kind="stable")[:, :count]
    np.testing.assert_array_equal(places, first)
    np.testing.assert_array_equal(values.astype(float), np.take_along_axis(wide, first, -1))
    tasks, _ = kernels(load_profile(chip), "TopK", [x], out, given)
    sorting = next(each for each in tasks if each.op_type == "TopK")
    cores = load_profile(chip).cores.vector_cores
    few = {"Ascend910A": 16, "Ascend310P3": 8}[chip]  # the latter adds halves in memory
    assert sorting.block_dim == (1 if count < few else min(rows, cores))
    whole = [np.zeros((rows, count), kind), np.zeros((rows, count), np.int32)]
    assert cycles(chip, "TopK", [np.tile(x, (120, 1))], [np.tile(y, (120, 1)) for y in whole],
        **given) > 2 * cycles(chip, "TopK", [x], whole, **given)  # fmt: skip


def test_few_of_many_are_found_by_the_ai_cpus_where_one_core_would_store_them() -> None:
    x = np.zeros((64, 1000), np.float16)
    out = [np.zeros((64, 5), np.float16), np.zeros((64, 5), np.int32)]
    (task,), _ = kernels(load_profile("Ascend910A"), "TopK", [x], out, {"k": 5})
    assert task.runs_on == "AI CPU"
    (task,), _ = kernels(load_profile("Ascend910A"), "TopK", [x], [
        np.zeros((64, 15), np.float16), np.zeros((64, 15), np.int32)], {"k": 15})  # fmt: skip
    assert task.runs_on == "AI CPU"
    (task,), _ = kernels(load_profile(A2), "TopK", [x], out, {"k": 5})
    assert not task.runs_on
    with pytest.raises(KernelError, match="5120 are modelled"):
        cycles("Ascend910A", "Sort", [np.zeros((2, 6000), np.float16)], [])


@pytest.mark.parametrize("chip", ["Ascend910A", "Ascend310P3", A2])
def test_few_of_the_last_axis_are_found_among_the_first(chip: str) -> None:
    x = np.random.default_rng(0).standard_normal((4, 100)).astype(np.float16)
    done = Device(chip).run("aclnnTopk", self=x, k=3, dim=-1, largest=True, sorted=True)
    assert [task.name for task in done.tasks] == ["TopKV2", "TopKV2", "GatherElements", "Cast"]
    first = np.argsort(-x.astype(float), axis=-1, kind="stable")[:, :3]
    assert done.outputs is not None
    np.testing.assert_array_equal(done.outputs["indicesOut"], first)


@pytest.mark.parametrize(("length", "count"), [(1500, 7), (60_001, 30), (300_007, 100)])
def test_rows_that_no_core_holds_are_sorted_in_parts(length: int, count: int) -> None:
    x = np.random.default_rng(2).permutation(length).astype(np.float32)[None]
    out = [np.zeros((1, count), np.float32), np.zeros((1, count), np.int32)]
    values, places = run(A2, "TopK", [x], out, k=count)
    np.testing.assert_array_equal(values[0], np.arange(length - 1, length - 1 - count, -1))
    np.testing.assert_array_equal(x[0, places[0]], values[0])


@pytest.mark.parametrize("shape", [(1, 1650), (1, 50_001), (3, 9001)])
def test_a_whole_order_that_no_core_holds_is_merged_from_parts(shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(4).integers(-99, 99, shape).astype(np.float32)
    out = [np.zeros_like(x), np.zeros(shape, np.int32)]
    values, places = run(A2, "Sort", [x], out, axis=1)
    np.testing.assert_array_equal(places, np.argsort(x, axis=1, kind="stable"))
    np.testing.assert_array_equal(values, np.sort(x, axis=1))


def test_what_is_there_and_where() -> None:
    x = whole((3, 50), np.float16)
    values, places = run(
        A2, "Unique", [x], [np.zeros(150, np.float16), np.zeros(x.shape, np.int64)]
    )
    found = np.unique(x)
    np.testing.assert_array_equal(values[: found.size], found)
    np.testing.assert_array_equal(values[places], x)


def test_integers_of_a_byte_take_milliseconds_on_the_ai_cpu() -> None:
    """As two measurements on 910B2 say: 13.8 ms, where halves of the same rows take 0.2."""
    x = whole((2048, 2048), np.int8)
    taken = [np.zeros((2048, 100), np.int8), np.zeros((2048, 100), np.int32)]
    profile = load_profile(A2)
    tasks, _ = kernels(profile, "TopK", [x], taken, {"k": 100})
    task = run_tasks(tasks, profile).longest
    assert task is not None
    assert task.bound == "AI CPU"
    assert 5e3 < task.duration_us < 5e4
    halves = [np.zeros((2048, 100), np.float16), taken[1]]
    faster = cycles(A2, "TopK", [x.astype(np.float16)], halves, k=100) / profile.clock_mhz
    assert faster < task.duration_us / 20


def test_bytes_are_added_by_the_ai_cpu() -> None:
    held, added = whole((5, 7), np.int8), whole((4, 7), np.int8, 1)
    places, profile = np.array([1, 1, 0, 4]), load_profile(A2)
    (task,), _ = kernels(profile, "InplaceIndexAdd", [held, places, added], [], {"axis": 0})
    expected = held.copy()
    np.add.at(expected, places, added)
    trace(task, profile, numerics=True)
    np.testing.assert_array_equal(task.writes[0].array, expected)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_largest_numbers_of_64_bits_keep_all_of_them(axis: int) -> None:
    x = np.random.default_rng(5).integers(-(2**60), 2**60, (3, 7, 5))
    found = Device("Ascend910B3").run("aclnnMaxDim", self=x, dim=axis, keepdim=False).outputs
    assert found is not None
    np.testing.assert_array_equal(found["out"], x.max(axis))
    np.testing.assert_array_equal(found["indices"], x.argmax(axis))


@pytest.mark.parametrize(("kept", "blocks"), [(5, 16), (8, 32), (1, 4)])
def test_cores_store_whole_blocks_of_the_first_numbers(kept: int, blocks: int) -> None:
    """32 rows on 48 cores, of which recorded launches of 5 have 16."""
    x = np.random.default_rng(3).standard_normal((32, 1000)).astype(np.float32)
    values = np.zeros((32, kept), np.float32)
    outputs = [values, np.zeros((32, kept), np.int32)]
    found, _ = kernels("Ascend910B2", "TopKV2", [x, np.array(kept, np.int32)], outputs)
    assert [each.block_dim for each in found] == [blocks]
