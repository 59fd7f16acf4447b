"""BinaryCrossEntropyBackward: numbers, tasks, and physics on every chip."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npusim import Device, Result, TensorSpec
from npusim.hardware import load_profile, profile_names
from npusim.values.dtypes import dtype
from npusim.values.promotion import promote
from support import physics
from support.closeness import assert_close, assert_outputs_close, rounded
from support.golden import GoldenCase, numeric_cases, tiling_examples
from support.inputs import (
    CROSS_ENTROPY,
    cross_entropy,
    cross_entropy_reference,
    numpy_kind,
    strided,
    transposed,
)
from support.spying import watching

Array = np.ndarray[Any, Any]

CHIPS = profile_names()
A2 = [name for name in CHIPS if load_profile(name).family == "A2"]
ONE_OF_EACH = ["Ascend910A", "Ascend910B3", "Ascend310P3"]
TENSORS = ("gradOutput", "self", "target", "weightOptional")
EPSILON = {"float32": 2e-6, "float16": 2e-3, "bfloat16": 1.6e-2}

CASES = numeric_cases(CROSS_ENTROPY)
SOME = settings(max_examples=25, deadline=None)


def names(result: Result) -> list[str]:
    return [task.name for task in result.tasks]


def shapes(*shape: int, kind: str = "float32") -> dict[str, Any]:
    """A call by its shapes alone."""
    spec = TensorSpec(shape, kind)
    return {**dict.fromkeys(TENSORS, spec), "reduction": 0}


# -- golden cases ----------------------------------------------------------------------------------


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_golden_cases(case: GoldenCase, chip: str) -> None:
    """Outputs are given: filled with NaN, so that everything in them must have been written."""
    if "BFLOAT16" in case.dtypes and chip not in A2:
        status = Device(chip).check(CROSS_ENTROPY, **case.arguments)
        assert (status.code, status.ok) == (161002, False)
        assert "BFLOAT16" in status.message
        return
    given_out = {name: np.full_like(array, np.nan) for name, array in case.outputs.items()}
    result = Device(chip).run(CROSS_ENTROPY, **case.arguments, **given_out)
    assert_outputs_close(result.outputs, case.outputs, rtol=case.rtol, atol=case.atol)
    np.testing.assert_array_equal(given_out["out"], result.outputs["out"])  # type: ignore[index]


def test_the_sample_on_the_page_prints_what_the_page_says() -> None:
    """Source: sample program of the operator's page, `result[%ld] is: %f`."""
    (case,) = [case for case in CASES if case.name == "seed_sample"]
    for chip in CHIPS:
        outputs = Device(chip).run(CROSS_ENTROPY, **case.arguments).outputs
        assert outputs is not None
        assert [f"{value:f}" for value in outputs["out"].ravel()] == ["-0.095238"] * 4


@pytest.mark.parametrize(
    ("x", "y", "want"),
    [
        (0.0, 1.0, -1e12),
        (1.0, 0.0, 1e12),
        (1 - 2.0**-24, 0.0, 16777216.0),
        (1e-7, 1.0, -1e7),
        (0.0, 0.0, 0.0),
        (1.0, 1.0, 0.0),
        (1.5, 1.0, 5e11),  # x (1 - x) below zero is kept at eps as well
    ],
)
def test_saturated_probabilities(x: float, y: float, want: float) -> None:
    one = np.ones(1, np.float32)
    arguments = {"gradOutput": one, "self": one * np.float32(x), "target": one * np.float32(y)}
    for chip in ONE_OF_EACH:
        outputs = Device(chip).run(
            CROSS_ENTROPY, **arguments, weightOptional=None, reduction=0
        ).outputs
        assert outputs is not None
        assert outputs["out"][0] == pytest.approx(want, rel=1e-6)


def test_a_half_overflows_to_infinity() -> None:
    one = np.ones(16, np.float16)
    for chip in ONE_OF_EACH:
        outputs = Device(chip).run(
            CROSS_ENTROPY,
            gradOutput=one,
            self=one * 0,
            target=one,
            weightOptional=None,
            reduction=0,
        ).outputs
        assert outputs is not None
        assert np.isneginf(outputs["out"]).all()


# -- tiling ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "example",
    tiling_examples("BinaryCrossEntropyGrad"),
    ids=lambda example: f"{example['soc']}-{example['shape']['elements']}",
)
def test_tiling_examples(example: dict[str, Any]) -> None:
    wanted, elements = example["tiling"], example["shape"]["elements"]
    small = np.float32
    device = Device(example["soc"])
    arguments = {name: np.broadcast_to(small(0.5), (elements,)) for name in TENSORS}
    result = device.estimate(
        CROSS_ENTROPY, **physics.shapes_only(shapes(elements) | {"reduction": 0})
    )
    assert result.tasks[-1].block_dim == wanted["block_dim"]
    if elements <= 10**6:
        arguments = {name: np.full(elements, 0.5, np.float32) for name in TENSORS}
        _, executor = device.get_workspace_size(CROSS_ENTROPY, **arguments, reduction=0)
        tiling = executor.chain.tasks[-1].tiling  # type: ignore[attr-defined]
        assert tiling.block_dim == wanted["block_dim"]
        assert tiling.per_core == wanted["elements_per_core"]
        assert tiling.tile == wanted["elements_per_pass"]
        assert tiling.double_buffer is wanted["double_buffer"]


# -- numbers ---------------------------------------------------------------------------------------


@st.composite
def calls(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """A chip and a call: any shapes that broadcast, any mix of the chip's dtypes, any reduction."""
    chip = draw(st.sampled_from(ONE_OF_EACH))
    kinds = ["float32", "float16", *(["bfloat16"] if chip in A2 else [])]
    shape = tuple(draw(st.lists(st.integers(1, 40), max_size=4)))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    mixed = draw(st.booleans())
    common = draw(st.sampled_from(kinds))

    def tensor(low: float, high: float, of: tuple[int, ...]) -> Array:
        kind = draw(st.sampled_from(kinds)) if mixed else common
        return np.asarray(random.uniform(low, high, of)).astype(numpy_kind(kind))

    def smaller() -> tuple[int, ...]:
        kept = shape[draw(st.integers(0, len(shape))) :]
        return tuple(1 if draw(st.integers(0, 2)) == 0 else size for size in kept)

    def operand() -> tuple[int, ...]:
        return smaller() if draw(st.booleans()) else shape

    weight = tensor(0.5, 1.5, operand()) if draw(st.booleans()) else None
    return chip, {
        "gradOutput": tensor(-2, 2, operand()),
        "self": tensor(0.02, 0.98, shape),
        "target": tensor(0, 1, operand()),
        "weightOptional": weight,
        "reduction": draw(st.integers(0, 2)),
    }


@settings(max_examples=120, deadline=None)
@given(calls())
def test_numbers_agree_with_the_closed_form(chosen: tuple[str, dict[str, Any]]) -> None:
    chip, arguments = chosen
    given_tensors = [value for value in arguments.values() if isinstance(value, np.ndarray)]
    before = [array.copy() for array in given_tensors]
    result = Device(chip).run(CROSS_ENTROPY, **arguments)
    assert result.outputs is not None
    out = result.outputs["out"]
    common = promote(*(dtype(array.dtype) for array in given_tensors))
    assert common is not None
    assert out.dtype == common.numpy
    want = rounded(cross_entropy_reference(arguments), out)
    assert_close(out, want, rtol=EPSILON[common.intrinsic], atol=1e-7)
    for array, copy in zip(given_tensors, before, strict=True):
        np.testing.assert_array_equal(array, copy)
    physics.assert_above_roofline(chip, CROSS_ENTROPY, arguments)


@pytest.mark.parametrize("chip", ONE_OF_EACH)
def test_inputs_of_half_type_are_computed_in_float32(chip: str) -> None:
    """x (1 - x) of 2**-20 is far below what float16 can hold, and yet no infinity comes out."""
    x = np.full(64, 2.0**-20, np.float16)
    arguments = {"gradOutput": x, "self": x, "target": 0 * x, "weightOptional": None}
    outputs = Device(chip).run(CROSS_ENTROPY, **arguments, reduction=0).outputs
    assert outputs is not None
    np.testing.assert_array_equal(outputs["out"], np.float16(2.0**-20 * (1 + 2.0**-20)))


def test_all_chips_give_the_same_numbers() -> None:
    arguments = cross_entropy(37, 130, reduction=1)
    results = [Device(chip).run(CROSS_ENTROPY, **arguments).outputs for chip in CHIPS]
    for outputs in results:
        assert outputs is not None
        np.testing.assert_array_equal(outputs["out"], results[0]["out"])  # type: ignore[index]


# -- tasks around the kernel -----------------------------------------------------------------------

KERNEL = "BinaryCrossEntropyGrad"
PLAIN = cross_entropy(24, 36, seed=4)


@pytest.mark.parametrize("chip", ONE_OF_EACH)
@pytest.mark.parametrize("layout", [strided, transposed], ids=["strided", "transposed"])
@pytest.mark.parametrize("name", TENSORS)
def test_an_input_that_isnt_contiguous_costs_one_task(name: str, layout: Any, chip: str) -> None:
    dense = Device(chip).run(CROSS_ENTROPY, **PLAIN)
    loose = Device(chip).run(CROSS_ENTROPY, **PLAIN | {name: layout(PLAIN[name])})
    task = "StridedSlice" if layout is strided else "Transpose"
    assert names(dense) == [KERNEL]
    assert names(loose) == [task, KERNEL]
    np.testing.assert_array_equal(loose.outputs["out"], dense.outputs["out"])  # type: ignore[index]
    assert loose.duration_us > dense.duration_us
    assert loose.workspace_size == -(-PLAIN[name].nbytes // 512) * 512


@pytest.mark.parametrize("chip", ONE_OF_EACH)
@pytest.mark.parametrize(
    ("view", "task"),
    [
        (lambda a: np.concatenate([a, a], axis=1)[:, :36], "Slice"),
        (lambda a: np.repeat(a, 3, axis=1)[:, ::3], "StridedSlice"),
        (lambda a: np.broadcast_to(a[:1], a.shape), "BroadcastTo"),
        (lambda a: np.repeat(a.T, 2, axis=1)[:, ::2].T, "AsStrided"),
    ],
    ids=["slice", "steps", "repeated", "scattered"],
)
def test_the_task_follows_the_strides(view: Any, task: str, chip: str) -> None:
    """Source: conversion/contiguous of ops-math; a view with a stride of zero is a broadcast."""
    loose = PLAIN | {"target": view(PLAIN["target"])}
    dense = PLAIN | {"target": np.ascontiguousarray(loose["target"])}
    got, want = (Device(chip).run(CROSS_ENTROPY, **each) for each in (loose, dense))
    assert names(got) == [task, KERNEL]
    np.testing.assert_array_equal(got.outputs["out"], want.outputs["out"])  # type: ignore[index]


@pytest.mark.parametrize("chip", ONE_OF_EACH)
def test_an_output_that_isnt_contiguous_costs_one_task(chip: str) -> None:
    dense = Device(chip).run(CROSS_ENTROPY, **PLAIN)
    memory = np.full((24, 72), -7.0, np.float32)
    loose = Device(chip).run(CROSS_ENTROPY, **PLAIN, out=memory[:, ::2])
    assert names(loose) == [KERNEL, "ViewCopy"]
    np.testing.assert_array_equal(memory[:, ::2], dense.outputs["out"])  # type: ignore[index]
    assert (memory[:, 1::2] == -7.0).all()
    assert loose.duration_us > dense.duration_us


@pytest.mark.parametrize("chip", ONE_OF_EACH)
def test_a_null_weight_is_a_task_that_writes_ones(chip: str) -> None:
    arguments = PLAIN | {"weightOptional": None}
    result = Device(chip).run(CROSS_ENTROPY, **arguments)
    assert names(result) == ["OnesLike", KERNEL]
    want = cross_entropy_reference(arguments).astype(np.float32)
    np.testing.assert_allclose(result.outputs["out"], want, rtol=2e-6)  # type: ignore[index]
    with_weight = Device(chip).run(CROSS_ENTROPY, **PLAIN)
    assert result.duration_us > with_weight.duration_us
    assert result.tasks[0].bytes_written == 24 * 36 * 4  # and reading the ones costs as well
    assert result.tasks[1].bytes_read == with_weight.tasks[0].bytes_read


@pytest.mark.parametrize(
    ("kinds", "out", "tasks"),
    [
        (("float16", "float32", "float32", "float32"), "float32", ["Cast", KERNEL]),
        (("float32", "float16", "float16", "float16"), "float32", ["Cast"] * 3 + [KERNEL]),
        (("float32",) * 4, "float16", [KERNEL, "Cast"]),
        (("float16",) * 4, "float32", [KERNEL, "Cast"]),
        (("bfloat16", "float16", "float32", "float32"), "bfloat16", ["Cast"] * 2 + [KERNEL, "Cast"]),
        (("bfloat16", "float16", "float16", "float16"), "float16", ["Cast"] * 4 + [KERNEL, "Cast"]),
    ],
)
def test_every_tensor_of_another_dtype_is_a_cast(
    kinds: tuple[str, ...], out: str, tasks: list[str]
) -> None:
    arguments = dict(PLAIN)
    for name, kind in zip(TENSORS, kinds, strict=True):
        arguments[name] = PLAIN[name].astype(numpy_kind(kind))
    target = np.empty((24, 36), numpy_kind(out))
    result = Device("Ascend910B3").run(CROSS_ENTROPY, **arguments, out=target)
    assert names(result) == tasks
    want = rounded(cross_entropy_reference(arguments), target)
    common = promote(*(dtype(kind) for kind in kinds))  # what the kernel rounds to, before the Cast
    assert common is not None
    assert_close(target, want, rtol=max(EPSILON[out], EPSILON[common.intrinsic]), atol=1e-6)


def test_a_smaller_operand_is_spread_out_where_the_kernel_needs_it() -> None:
    """gradOutput broadcasts inside the kernel; target and weight are spread out by a task."""
    row = PLAIN["target"][0]
    for changed, tasks in (
        ({"gradOutput": PLAIN["gradOutput"][0]}, [KERNEL]),
        ({"gradOutput": PLAIN["gradOutput"][:, :1]}, [KERNEL]),
        ({"gradOutput": PLAIN["gradOutput"][0, 0]}, [KERNEL]),
        ({"target": row}, ["BroadcastTo", KERNEL]),
        ({"target": row, "weightOptional": row}, ["BroadcastTo", "BroadcastTo", KERNEL]),
    ):
        arguments = PLAIN | changed
        result = Device("Ascend910B3").run(CROSS_ENTROPY, **arguments)
        assert names(result) == tasks
        wanted = {name: np.asarray(value) for name, value in arguments.items() if name in TENSORS}
        want = cross_entropy_reference(arguments | wanted).astype(np.float32)
        np.testing.assert_allclose(
            result.outputs["out"],  # type: ignore[index]
            want,
            rtol=2e-6,
        )


@pytest.mark.parametrize(
    ("changed", "size"),
    [
        ({}, 0),
        ({"weightOptional": None}, 24 * 36 * 4 // 512 * 512 + 512),
        ({"target": strided(PLAIN["target"]), "self": strided(PLAIN["self"])}, 2 * 3584),
        ({"gradOutput": PLAIN["gradOutput"].astype(np.float16)}, 3584),
    ],
    ids=["plain", "null-weight", "two-strided", "one-cast"],
)
def test_workspace(changed: dict[str, Any], size: int) -> None:
    for chip in ONE_OF_EACH:
        got, executor = Device(chip).get_workspace_size(CROSS_ENTROPY, **PLAIN | changed)
        assert got == executor.workspace_size == size


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 4, 5)])
def test_nothing_happens_to_empty_tensors(shape: tuple[int, ...]) -> None:
    empty = np.empty(shape, np.float32)
    for chip in ONE_OF_EACH:
        out = np.empty(shape, np.float32)
        result = Device(chip).run(
            CROSS_ENTROPY,
            gradOutput=empty,
            self=empty,
            target=empty,
            weightOptional=None,
            reduction=1,
            out=out,
        )
        assert (result.tasks, result.workspace_size, result.cycles) == ((), 0, 0)
        assert result.outputs is not None
        assert result.outputs["out"].shape == shape


# -- the kernel ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "casts", "reduction", "extra"),
    [("float32", 0, 0, 0), ("float32", 0, 1, 1), ("float16", 5, 0, 0), ("float16", 5, 1, 1)],
)
def test_operations_per_element(kind: str, casts: int, reduction: int, extra: int) -> None:
    """Eight vector operations, one more for the mean, and the casts of half types."""
    with watching() as watches:
        Device("Ascend910B3").run(
            CROSS_ENTROPY, **cross_entropy(5000, kind=kind, reduction=reduction)
        )
    (watch,) = watches
    once = {name: count / 5000 for name, count in watch.elements.items()}
    want = {"sub": 1, "muls": 1 + extra, "adds": 1, "mul": 3, "maxs": 1, "div": 1, "cast": casts}
    assert once == {name: count for name, count in want.items() if count}
    assert sum(once.values()) - casts == 8 + extra


@pytest.mark.parametrize("chip", ONE_OF_EACH)
@pytest.mark.parametrize("kind", ["float32", "float16"])
def test_numbers_come_tile_by_tile(kind: str, chip: str) -> None:
    elements = 300_001
    (watch,) = physics.assert_numbers_pay_for_themselves(
        chip, CROSS_ENTROPY, cross_entropy(elements, kind=kind)
    )
    size = numpy_kind(kind).itemsize
    assert watch.bytes_read == 4 * elements * size
    assert watch.stores >= load_profile(chip).cores.vector_cores
    assert watch.loads == 4 * watch.stores


# -- physics ---------------------------------------------------------------------------------------

WORK = ("vsub", "vmuls", "vadds", "vdiv")  # a lower bound that every variant has to do

elements = st.one_of(st.integers(1, 2000), st.integers(1, 10**6), st.integers(1, 2 * 10**8))
any_chip = st.sampled_from(CHIPS)


def kinds(chip: str) -> list[str]:
    return ["float32", "float16", *(["bfloat16"] if chip in A2 else [])]


@settings(max_examples=120, deadline=None)
@given(any_chip, elements, st.integers(0, 2))
def test_never_below_the_roofline(chip: str, count: int, which: int) -> None:
    kind = kinds(chip)[which % len(kinds(chip))]
    physics.assert_above_roofline(
        chip, CROSS_ENTROPY, shapes(count, kind=kind), dict.fromkeys(WORK, float(count))
    )


@settings(max_examples=60, deadline=None)
@given(any_chip, st.integers(1, 40_000), st.sampled_from(["float32", "float16"]))
def test_twice_the_elements_are_never_faster(chip: str, count: int, kind: str) -> None:
    growing = [shapes(count * 2**power, kind=kind) for power in range(13)]
    physics.assert_larger_is_not_faster(chip, CROSS_ENTROPY, growing)


def tiling_of(chip: str, count: int, kind: str) -> tuple[int, bool, int]:
    """Cores, double buffering and passes: what a few more elements may change."""
    result = physics.estimate(chip, CROSS_ENTROPY, shapes(count, kind=kind))
    stores = [slice_ for slice_ in result.timeline.slices(result.timeline.cores[:1])]
    passes = sum(slice_.pipe == "MTE3" for slice_ in stores)
    return result.tasks[0].block_dim, passes > 1, passes


@SOME
@given(any_chip, st.integers(1, 10**6), st.floats(0, 0.2), st.sampled_from(["float32", "float16"]))
def test_more_elements_are_never_faster_while_the_tiling_stays(
    chip: str, count: int, more: float, kind: str
) -> None:
    """Across a step of the tiling they can be: fewer cores to launch, or loads that begin to overlap."""
    larger = count + int(count * more)
    if tiling_of(chip, count, kind) == tiling_of(chip, larger, kind):
        physics.assert_larger_is_not_faster(
            chip, CROSS_ENTROPY, [shapes(count, kind=kind), shapes(larger, kind=kind)]
        )


@settings(max_examples=40, deadline=None)
@given(any_chip, elements, st.sampled_from(["float32", "float16"]))
def test_double_buffering_is_never_slower(chip: str, count: int, kind: str) -> None:
    assert physics.assert_double_buffering_helps(chip, CROSS_ENTROPY, shapes(count, kind=kind)) >= 1


@pytest.mark.parametrize("chip", CHIPS)
def test_double_buffering_pays(chip: str) -> None:
    assert physics.assert_double_buffering_helps(chip, CROSS_ENTROPY, shapes(4_000_000)) > 1.01


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("count", [8 * 128, 2**23, 2**26])
def test_more_cores_are_never_slower(chip: str, count: int) -> None:
    most = load_profile(chip).cores.vector_cores
    counts = [each for each in (1, 2, 4, 8, 16, 32) if each <= most]
    physics.assert_more_cores_help(
        chip, CROSS_ENTROPY, shapes(count), counts, launches=count > 10**6
    )


@settings(max_examples=30, deadline=None)
@given(any_chip, elements, st.sampled_from(["float32", "float16"]))
def test_jumping_ends_at_the_cycle_of_playing(chip: str, count: int, kind: str) -> None:
    few = min(count, 20_000_000)
    physics.assert_jumping_is_exact(chip, CROSS_ENTROPY, shapes(few, kind=kind), tolerance=1e-4)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("shape", [(1,), (777,), (50, 3001), (400_000,)])
def test_every_element_is_stored_once_and_time_needs_no_data(
    chip: str, shape: tuple[int, ...]
) -> None:
    arguments = cross_entropy(*shape)
    out = np.full(shape, np.nan, np.float32)
    physics.assert_written_once(chip, CROSS_ENTROPY, arguments | {"out": out})
    assert np.isfinite(out).all()
    physics.assert_time_needs_no_data(chip, CROSS_ENTROPY, arguments)


@SOME
@given(calls())
def test_every_element_of_every_task_is_stored_once(
    chosen: tuple[str, dict[str, Any]],
) -> None:
    chip, arguments = chosen
    physics.assert_written_once(chip, CROSS_ENTROPY, arguments)
    physics.assert_time_needs_no_data(chip, CROSS_ENTROPY, arguments)


@pytest.mark.parametrize("chip", ONE_OF_EACH)
@pytest.mark.parametrize("kind", ["float32", "float16"])
def test_tiling_changes_no_number(chip: str, kind: str) -> None:
    chips = [
        load_profile(chip),
        *(physics.with_cores(chip, count) for count in (1, 3, 7)),
        *(physics.with_ub(chip, size) for size in (32_768, 100_000)),
    ]
    for shape in ((100_003,), (17, 250, 11)):
        physics.assert_tiling_changes_no_number(
            chips, CROSS_ENTROPY, cross_entropy(*shape, kind=kind), rtol=0, atol=0
        )


def test_the_same_timeline_in_another_process() -> None:
    physics.assert_same_in_another_process(
        (chip, CROSS_ENTROPY, shapes(*shape, kind=kind))
        for chip in CHIPS
        for shape, kind in (((100,), "float32"), ((3, 70_001), "float16"), ((2**21,), "float32"))
    )


def test_pipes_work_at_the_same_time() -> None:
    result = physics.estimate("Ascend910B3", CROSS_ENTROPY, shapes(2**26))
    assert physics.busy_pipes(result) == {"SCALAR", "VECTOR", "MTE2", "MTE3"}
    assert result.pipes["MTE2"] > 0.9
    assert sum(result.pipes.values()) > 1.5


def test_traffic_is_four_reads_and_a_write() -> None:
    count = 2**26
    for chip in ONE_OF_EACH:
        (task,) = physics.estimate(chip, CROSS_ENTROPY, shapes(count)).tasks
        assert task.bytes_read == 4 * 4 * count
        assert task.bytes_written == 4 * count
        memory = load_profile(chip).memory
        sustained = memory.hbm_nominal_gbps * memory.hbm_sustained_fraction
        assert 0.85 * sustained < task.bandwidth_gbps <= 1.26 * sustained  # stores that stay in L2
