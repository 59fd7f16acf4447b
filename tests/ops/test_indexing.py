"""Gather and scatter: numbers for every index, bounds of time, and what runs elsewhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npusim import Device
from npusim.ascendc import trace
from npusim.hardware import load_profile
from npusim.ops.indexing.frequencies import most_used
from npusim.ops.indexing.gather import GatherRows
from npusim.values.errors import DeviceFault, KernelError
from support import physics
from support.tasks import (
    BFLOAT16,
    CHIPS,
    assert_tiling_changes_no_number,
    assert_time_needs_no_numbers,
    cycles,
    kernels,
    like,
    run,
)

Array = np.ndarray[Any, Any]

KINDS = [np.float32, np.float16, np.int32]


def numbers(*shape: int, kind: Any = np.float32, seed: int = 0) -> Array:
    return (np.random.default_rng(seed).standard_normal(shape) * 9).astype(kind)


def places(count: int, below: int, kind: Any = np.int32, seed: int = 5) -> Array:
    return np.random.default_rng(seed).integers(0, below, count).astype(kind)


@settings(max_examples=60, deadline=None)
@given(
    rows=st.integers(1, 200),
    width=st.sampled_from([1, 3, 8, 16, 100, 768]),
    count=st.integers(1, 300),
    kind=st.sampled_from(KINDS),
    index=st.sampled_from([np.int32, np.int64]),
    chip=st.sampled_from(CHIPS),
)
def test_rows_of_a_table(
    rows: int, width: int, count: int, kind: Any, index: Any, chip: str
) -> None:
    table, ids = numbers(rows, width, kind=kind), places(count, rows, index)
    want = table[ids]
    for op in ("GatherV2", "Embedding"):
        (got,) = run(chip, op, [table, ids], [like(want)])
        np.testing.assert_array_equal(got, want)
    assert_time_needs_no_numbers(chip, "GatherV2", [table, ids], [want])


@settings(max_examples=60, deadline=None)
@given(
    planes=st.sampled_from([1, 2, 7, 24, 48, 99]),
    rows=st.integers(1, 40),
    width=st.sampled_from([1, 3, 16, 37, 101, 999, 4099]),
    count=st.sampled_from([1, 2, 7, 13, 60]),
    chip=st.sampled_from(CHIPS),
)
def test_rows_of_planes(planes: int, rows: int, width: int, count: int, chip: str) -> None:
    """Planes, indices or elements dealt out: every one of them is gathered."""
    table, ids = numbers(planes, rows, width, kind=np.float16), places(count, rows)
    want = table[:, ids]
    (got,) = run(chip, "GatherV2", [table, ids], [like(want)], axis=1)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    ("planes", "count", "width", "blocks"),
    [
        (1, 8, 1024, 8),  # indices
        (1, 49, 999, 25),
        (1, 1, 1024, 47),  # elements, of 22
        (2, 1, 16384, 48),
        (1, 1, 700, 1),  # less than a block for each core
        (1, 8, 37, 1),
        (2, 4, 128, 2),  # planes
        (99, 13, 101, 33),
        (30, 1, 1, 2),  # of 16 elements at least
    ],
)
def test_the_first_axis_that_is_long_enough_is_dealt_out(
    planes: int, count: int, width: int, blocks: int
) -> None:
    table, ids = numbers(planes, 3, width, kind=np.float16), places(count, 3)
    inputs, axis = [table, ids], {"axis": 1}
    (kernel,), _ = kernels("Ascend910B2", "GatherV2", inputs, [table[:, ids]], axis)
    assert kernel.block_dim == blocks


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_along_an_axis_that_is_recorded_or_follows_from_the_result(chip: str, axis: int) -> None:
    table, ids = numbers(4, 7, 33), places(5, 4).reshape(5, 1)
    want = np.take(table, ids, axis=axis)
    (got,) = run(chip, "GatherV2", [table, ids], [like(want)], axis=axis)
    np.testing.assert_array_equal(got, want)
    (got,) = run(chip, "Gather", [table, ids], [like(want)])
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("many", [1, 2, 3])
def test_tuples_of_numbers(chip: str, many: int) -> None:
    table = numbers(40, 5, 6)
    ids = np.stack([places(30, size) for size in table.shape[:many]], -1).reshape(10, 3, many)
    want = table[tuple(np.moveaxis(ids, -1, 0))]
    (got,) = run(chip, "GatherNd", [table, ids], [like(want)])
    np.testing.assert_array_equal(got, want)
    with pytest.raises(KernelError, match="index tuples"):
        run(chip, "GatherNd", [table, ids], [numbers(3, 7)])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("shape", "axis"), [((50, 33), 1), ((50, 33), 0), ((4, 9, 20), 1)])
def test_an_index_for_every_element(kind: Any, shape: tuple[int, ...], axis: int) -> None:
    x = numbers(*shape, kind=kind)
    ids = places(x.size, shape[axis], np.int64).reshape(shape)
    want = np.take_along_axis(x, ids, axis)
    for chip in CHIPS:
        (got,) = run(chip, "GatherElements", [x, ids], [like(want)], dim=axis)
        np.testing.assert_array_equal(got, want)
        (got,) = run(chip, "Gather", [x, ids], [like(want)], dim=axis)
        np.testing.assert_array_equal(got, want)
        assert_time_needs_no_numbers(chip, "GatherElements", [x, ids], [want], dim=axis)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize(("shape", "axis"), [((50, 33), 1), ((33, 50), 0)])
def test_elements_put_where_indices_say(chip: str, shape: tuple[int, ...], axis: int) -> None:
    x, new = numbers(*shape), numbers(*shape, seed=1)
    # No place twice along the axis: which of two updates wins isn't defined.
    ids = np.argsort(numbers(*shape, seed=2), axis=axis).astype(np.int64)
    want = x.copy()
    np.put_along_axis(want, ids, new, axis)
    (got,) = run(chip, "ScatterElements", [x, ids, new], [like(x)], axis=axis)
    np.testing.assert_array_equal(got, want)
    (got,) = run(chip, "ScatterElements", [x, ids, new], [like(x)], axis=axis, reduce="add")
    np.testing.assert_allclose(got, x + np.take_along_axis(new, np.argsort(ids, axis), axis))


@pytest.mark.parametrize("reduce", ["none", "add"])
@pytest.mark.parametrize(
    ("shape", "count", "axis"),
    [((3, 7, 5, 4), 3, 1), ((101, 37), 13, -1), ((200_003,), 40, 0), ((5, 70_001), 9, 1)],
)
def test_updates_of_ragged_tensors(
    shape: tuple[int, ...], count: int, axis: int, reduce: str
) -> None:
    """Several axes, many rows at a time, and rows that UB doesn't hold."""
    given_ = list(shape)
    given_[axis] = count
    x, new = numbers(*shape), numbers(*given_, seed=1)
    drawn = np.random.default_rng(3).random(given_)
    ids = np.argsort(drawn, axis=axis) * (shape[axis] // count)  # no place twice
    ids.reshape(-1)[0] -= shape[axis]  # from the end
    want = x.astype(np.float64)
    at: list[Array] = list(np.indices(given_, sparse=True))
    at[axis] = np.where(ids < 0, ids + shape[axis], ids)
    if reduce == "add":
        np.add.at(want, tuple(at), new)
    else:
        want[tuple(at)] = new
    (got,) = run("Ascend910B3", "ScatterElements", [x, ids, new], [like(x)],
        axis=axis, reduce=reduce)  # fmt: skip
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)


@settings(max_examples=50, deadline=None)
@given(
    rows=st.integers(1, 100),
    width=st.sampled_from([1, 3, 8, 40, 768]),
    count=st.integers(1, 200),
    chip=st.sampled_from(CHIPS),
)
def test_sums_of_segments(rows: int, width: int, count: int, chip: str) -> None:
    x, ids = numbers(count, width), places(count, rows)
    want = np.zeros((rows, width))
    np.add.at(want, ids, x.astype(np.float64))
    out = np.zeros((rows, width), np.float32)
    (got,) = run(chip, "UnsortedSegmentSum", [x, ids], [out])
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-3)
    assert_time_needs_no_numbers(chip, "UnsortedSegmentSum", [x, ids], [out])


@pytest.mark.parametrize("kind", [np.float16, np.int32])
def test_a_scalar_has_no_segments(kind: Any) -> None:
    x, ids = numbers(kind=np.float16), numbers(kind=kind)
    with pytest.raises(KernelError, match="a scalar has no segments"):
        run("Ascend910B3", "UnsortedSegmentSumD", [x, ids], [x], num_segments=64)


def changed(chip: str, op: str, inputs: list[Array], **given: object) -> Array:
    """The variable that an operator works on in place."""
    (kernel,), _ = kernels(chip, op, inputs, [], given)
    trace(kernel, load_profile(chip), numerics=True)
    found = kernel.writes[0].array
    assert found is not None
    return found


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("width", [1, 8, 33])
def test_rows_of_a_variable_replaced_and_added_to(chip: str, width: int) -> None:
    var, new = numbers(60, width), numbers(20, width, seed=1)
    once = np.random.default_rng(2).permutation(60)[:20].astype(np.int32)
    want = var.copy()
    want[once] = new
    for op, ids in (("ScatterUpdate", once), ("ScatterNdUpdate", once.reshape(20, 1))):
        got = changed(chip, op, [var, ids, new]).reshape(var.shape)
        np.testing.assert_array_equal(got, want)
    twice = places(20, 5)
    want = var.astype(np.float64)
    np.add.at(want, twice, new)
    for op, ids in (("ScatterAdd", twice), ("ScatterNdAdd", twice.reshape(20, 1))):
        got = changed(chip, op, [var, ids, new]).reshape(var.shape)
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_index_add_along_an_axis(chip: str, axis: int) -> None:
    var = numbers(9, 12, 20)
    ids = places(6, var.shape[axis], np.int64)
    shape = list(var.shape)
    shape[axis] = 6
    new = numbers(*shape, seed=3)
    want = np.moveaxis(var.astype(np.float64), axis, 0).copy()
    np.add.at(want, ids, np.moveaxis(new, axis, 0))
    got = changed(chip, "InplaceIndexAdd", [var, ids, new], axis=axis).reshape(var.shape)
    np.testing.assert_allclose(got, np.moveaxis(want, 0, axis), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(("rows", "count", "width"), [(1, 5, 3), (60, 21, 40), (7, 600, 30000)])
def test_rows_of_bfloat16_are_added_in_the_order_of_their_places(
    rows: int, count: int, width: int
) -> None:
    device, ids = Device("Ascend910B3"), places(count, rows, np.int64)
    x = numbers(rows, width).astype(BFLOAT16)
    new = numbers(count, width, seed=3).astype(BFLOAT16)
    want = x.astype(np.float32)
    np.add.at(want, ids, new.astype(np.float32))
    call = {"dim": 0, "index": ids, "alpha": 1}
    done = device.run("aclnnIndexAdd", self=x, source=new, **call)
    took = {task.name: task.duration_us for task in done.tasks}
    assert took.keys() >= {"Cast", "InplaceIndexAddWithSorted"}
    adding = took["InplaceIndexAddWithSorted"]
    assert done.outputs is not None
    got = done.outputs["out"].astype(np.float32)
    np.testing.assert_allclose(got, want.astype(BFLOAT16).astype(np.float32), rtol=1e-2, atol=0.5)
    twice = device.run("aclnnIndexAdd", self=x, source=np.repeat(new, 2, 0),
        **{**call, "index": np.repeat(ids, 2)})  # fmt: skip
    more = {task.name: task.duration_us for task in twice.tasks}["InplaceIndexAddWithSorted"]
    assert more > adding > (2 * min(rows, count) + count) * width * 2 / 5.2e6  # bytes of L2 a us


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize(
    ("rows", "depth"), [(1, 5), (60, 21), (512, 10), (7, 3000), (127, 16), (1279, 9), (53, 3)]
)
def test_one_hot(chip: str, rows: int, depth: int) -> None:
    ids = places(rows, depth)
    on, off = np.array([2.5], np.float32), np.array([-1.0], np.float32)
    want = np.where(ids[:, None] == np.arange(depth), on, off).astype(np.float32)
    (got,) = run(chip, "OneHotD", [ids, on, off], [like(want)])
    np.testing.assert_array_equal(got, want)
    (got,) = run(chip, "OneHot", [ids, np.array([depth], np.int32), on, off], [like(want)])
    np.testing.assert_array_equal(got, want)
    assert_time_needs_no_numbers(chip, "OneHotD", [ids, on, off], [want])
    ids = places(6 * rows, depth).reshape(2, 3, rows)
    for axis in range(3):
        sizes = [1] * axis + [depth] + [1] * (3 - axis)
        chosen = np.expand_dims(ids, axis) == np.arange(depth).reshape(sizes)
        want = np.where(chosen, on, off).astype(np.float32)
        (got,) = run(chip, "OneHotD", [ids, on, off], [like(want)], axis=axis)
        np.testing.assert_array_equal(got, want)


def test_tiling_changes_no_number() -> None:
    table, ids = numbers(500, 200), places(700, 500)
    sums = np.zeros((500, 200), np.float32)
    for chip in CHIPS:
        assert_tiling_changes_no_number(chip, "GatherV2", [table, ids], [numbers(700, 200)])
        assert_tiling_changes_no_number(
            chip, "UnsortedSegmentSum", [numbers(700, 200), ids], [sums]
        )


def test_what_cant_be_done_is_refused_with_its_reason() -> None:
    table, ids, chip = numbers(40, 8), places(5, 40), "Ascend910B3"
    cases: list[tuple[str, list[Array], list[Array], str]] = [
        ("GatherV2", [table, ids.astype(np.float32)], [table[:5]], "indices of FLOAT"),
        ("GatherV2", [table, ids], [table[:5].astype(np.float16)], "into FLOAT16"),
        ("GatherV2", [table, ids], [table[:6]], "doesn't give"),
        ("GatherElements", [table, ids], [ids], "indices"),
        ("UnsortedSegmentSum", [table, ids], [table], "numbers for"),
        ("Index", [table, ids], [table[:5]], "2 tensors where 4"),
        ("OneHotD", [ids, table, table], [table], "two values"),
        ("OneHotD", [ids, table[0, :1], table[0, :1]], [ids], "doesn't become"),
    ]
    for op, inputs, outputs, reason in cases:
        with pytest.raises(KernelError, match=reason):
            run(chip, op, inputs, outputs)
    with pytest.raises(KernelError, match="AI CPU"):
        run(
            "Ascend910A",
            "ScatterAdd",
            [table.astype(np.float16), ids, table[:5].astype(np.float16)],
            [],
        )


@pytest.mark.parametrize("wrong", [40, -1, 10**6])
@pytest.mark.parametrize("chip", CHIPS)
def test_an_index_outside_stops_the_device(chip: str, wrong: int) -> None:
    table, ids = numbers(40, 8), np.array([0, 39, wrong], np.int32)
    each = np.zeros((40, 8), np.int32)
    each[7, 3] = wrong
    cases: list[tuple[str, list[Array], list[Array]]] = [
        ("GatherV2", [table, ids], [table[:3]]),
        ("UnsortedSegmentSum", [table[:3], ids], [np.zeros((40, 8), np.float32)]),
        ("ScatterUpdate", [table, ids, table[:3]], []),
        ("GatherElements", [table, each], [table]),
        ("ScatterElements", [table, each, table], [table]),
    ]
    for op, inputs, outputs in cases:
        if op == "ScatterElements" and wrong == -1 and chip == "Ascend910B3":
            continue  # counted from the end, by LinearIndex
        with pytest.raises(DeviceFault, match=f"index {wrong} is outside of an axis of"):
            run(chip, op, inputs, outputs)


def test_an_element_takes_a_load_and_a_store_and_its_index_a_load() -> None:
    """By the scalar unit, which moves pairs of them: half a pair for the index."""
    profile = physics.with_cores("Ascend910B3", 1)
    x, ids, new = numbers(4, 40), np.zeros((4, 30), np.int32), numbers(4, 30)
    tasks, _ = kernels(profile, "ScatterElements", [x, ids, new], [like(x)], {"axis": 1})
    (group,) = trace(tasks[-1], profile, numerics=False)
    taken = sum(
        times * each.cycles
        for each, times in group.program.instructions()
        if each.name == "ld_st_ub"
    )
    unit = profile.scalar
    assert taken == 1.5 * ids.size * (unit.ub_load_cycles + unit.ub_store_cycles)


def test_the_most_frequent_words_are_as_frequent_as_one_by_their_rank() -> None:
    for places in (1, 2, 7, 1000, 184965):
        ranks = 1 / np.arange(1, places + 1)
        for together in (1, 2, 16):
            want = ranks[:together].sum() / ranks.sum()
            assert most_used(places, together) == pytest.approx(want, rel=0.01)
    assert most_used(1000, 0.1) == most_used(1000, 1)  # a row that takes several lines


@pytest.mark.parametrize("chip", CHIPS)
def test_rows_looked_up_share_lines_as_words_do(chip: str) -> None:
    """Sixteen rows of 32 bytes are a line: 3.4 of the 10.5 that all of 20,000 words come to."""
    profile = load_profile(chip)
    words, count = 20000, 9000
    table, rows, ids = numbers(words, 8), numbers(count, 8), places(count, words)
    cores = profile.cores.vector_cores
    others, memory = cores * 0.3228 - 1, profile.memory
    (summing,), _ = kernels(profile, "UnsortedSegmentSum", [rows, ids], [table])
    (looking,), _ = kernels(profile, "GatherV2", [table, ids], [rows])
    (adding,), _ = kernels(profile, "ScatterAdd", [table, ids, rows], [])
    for kernel, name, expected in (
        (summing, "copy_ubuf_to_gm", others * memory.atomic_conflict_cycles),
        (looking, "copy_gm_to_ubuf", others * memory.load_conflict_cycles),
        (adding, "copy_ubuf_to_gm", 0.0),
    ):
        (group, *_) = trace(kernel, profile, numerics=False)
        taken = min(
            each.cycles
            for each, _ in group.program.instructions()
            if each.name == name and each.transfer is not None and each.transfer.payload_bytes == 32
        )
        assert taken == pytest.approx(expected, rel=0.01, abs=1e-9)


@pytest.mark.parametrize("words", [1000, 100_000])
def test_short_rows_of_a_table_on_chip_take_a_turn_of_a_loop_for_each_element(words: int) -> None:
    """In UB, or in L1, from where a block comes to UB first."""
    profile = load_profile("Ascend910A")
    table, ids, width = numbers(words, 2), places(3200, words), 2
    (kernel,), _ = kernels(profile, "GatherV2", [table, ids], [numbers(3200, width)])
    assert isinstance(kernel, GatherRows)
    assert kernel.in_ub is (words == 1000)
    taken = sum(
        group.size * times * each.cycles
        for group in trace(kernel, profile, numerics=False)
        for each, times in group.program.instructions()
        if each.name == "loop"
    )
    assert taken == ids.size * width * profile.scalar.loop_cycles


# -- physics ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("op", ["GatherV2", "UnsortedSegmentSum"])
def test_more_indices_take_longer_and_nothing_beats_the_roofline(chip: str, op: str) -> None:
    times = []
    for count in (10, 1000, 30_000):
        rows, ids = np.zeros((count, 256), np.float32), np.zeros(count, np.int32)
        table = np.zeros((40_000, 256), np.float32)
        inputs, out = ([table, ids], rows) if op == "GatherV2" else ([rows, ids], table)
        times.append(cycles(chip, op, inputs, [out]))
        profile = load_profile(chip)
        least = physics.roofline_us(profile, 2 * rows.nbytes + ids.nbytes, {})
        assert times[-1] / profile.clock_mhz >= least
    assert times == sorted(times)


@pytest.mark.parametrize("chip", CHIPS)
def test_short_rows_cost_more_than_their_bytes(chip: str) -> None:
    """The same four megabytes as rows of 8 and of 1024 elements: a transfer for each row."""
    times = []
    for width in (8, 1024):
        count = (1 << 20) // width
        table, ids = np.zeros((count, width), np.float32), np.zeros(count, np.int32)
        times.append(cycles(chip, "GatherV2", [table, ids], [table]))
    assert times[0] > 4 * times[1]


@settings(max_examples=25, deadline=None)
@given(
    sizes=st.tuples(st.integers(1, 5), st.integers(1, 20), st.integers(1, 40)),
    rows=st.integers(1, 3),
    width=st.sampled_from([1, 16, 33, 128]),
    kind=st.sampled_from([np.float16, np.float32]),
    chip=st.sampled_from(CHIPS),
)
def test_a_cache_takes_rows_of_every_head(
    sizes: tuple[int, int, int], rows: int, width: int, kind: Any, chip: str
) -> None:
    batch, heads, length = sizes
    rows = min(rows, length)
    var = np.random.default_rng(0).standard_normal((*sizes, width)).astype(kind)
    new = np.random.default_rng(1).standard_normal((batch, heads, rows, width)).astype(kind)
    ids = np.random.default_rng(2).integers(0, length - rows + 1, batch)
    want = var.copy()
    for sequence, place in enumerate(ids):
        want[sequence, :, place : place + rows] = new[sequence]
    got = changed(chip, "Scatter", [var, ids, new]).reshape(var.shape)
    np.testing.assert_array_equal(got, want)


def test_a_cache_by_name() -> None:
    var, new = np.zeros((2, 3, 5, 16), np.float16), np.ones((2, 3, 1, 16), np.float16)
    ids = np.array([4, 0])
    Device("Ascend910B3").run("Scatter", var=var, indices=ids, updates=new)
    assert var.sum() == new.sum()
    assert (var[0, :, 4] == 1).all()
    assert (var[1, :, 0] == 1).all()
    refused = Device("Ascend910B3").check("Scatter", var=var, indices=ids, updates=new[:, :2])
    assert refused.code == 161002


def test_an_index_outside_stops_the_ai_cpu_too() -> None:
    x = numbers(2, 2, 2, 3, 1)
    indices = np.full(x.shape, 4, np.int64)
    device = Device("Ascend910A")
    given = {"x": x.astype(np.float16), "index": indices, "dim": 0}
    assert device.check("GatherElements", **given).ok
    with pytest.raises(DeviceFault, match="GatherElements: index 4 is out of bounds") as fault:
        device.run("GatherElements", **given)
    assert fault.value.code == 507018


@pytest.mark.parametrize("chip", ["Ascend910B3", "Ascend910A"])
def test_rows_of_one_segment_are_put_together_before_they_are_stored(chip: str) -> None:
    """Cores don't wait for each other, as they do where a few places are named."""
    x = numbers(70_000)
    times = {}
    for segments in (1, 2):
        ids, out = places(x.size, segments), np.zeros(segments, np.float32)
        (got,) = run(chip, "UnsortedSegmentSum", [x, ids], [out])
        want = np.bincount(ids, x.astype(np.float64), segments)
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-2)
        times[segments] = cycles(chip, "UnsortedSegmentSum", [x, ids], [out])
    assert times[1] < times[2] / 20


def test_added_rows_wait_for_each_other_as_far_as_a_batch_names_places() -> None:
    """128 rows are put together by their places: three of them, or nearly as many as there are."""
    rows = numbers(4096, 64)
    times = {}
    for many in (1, 3, 4000):
        var, ids = np.zeros((many, 64), np.float32), places(len(rows), many)
        times[many] = cycles("Ascend910B3", "ScatterAdd", [var, ids, rows], [var])
    assert times[1] <= times[3] < 1.3 * times[4000]
