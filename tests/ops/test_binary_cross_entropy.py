"""BinaryCrossEntropyBackward: numbers, tasks, and physics on every chip."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from npusim import Device, Result
from npusim.values.dtypes import dtype
from npusim.values.errors import KernelError
from npusim.values.promotion import promote
from support import physics
from support.chips import A2, CHIPS, ONE_OF_EACH
from support.closeness import assert_close, assert_outputs_close, rounded
from support.cross_entropy import (
    CROSS_ENTROPY,
    TENSORS,
    calls,
    cross_entropy,
    cross_entropy_reference,
    shapes,
)
from support.golden import GoldenCase, numeric_cases, tiling_examples
from support.inputs import numpy_kind, strided, transposed
from support.tasks import like
from support.tasks import run as run_task

Array = np.ndarray[Any, Any]

EPSILON = {"float32": 2e-6, "float16": 2e-3, "bfloat16": 1.6e-2}

CASES = numeric_cases(CROSS_ENTROPY)
SOME = settings(max_examples=25, deadline=None)


def names(result: Result) -> list[str]:
    return [task.name for task in result.tasks]


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
    outputs = case.outputs
    if chip not in A2:  # where infinity is the largest number
        outputs = {name: np.nan_to_num(want) for name, want in outputs.items()}
    assert_outputs_close(result.outputs, outputs, rtol=case.rtol, atol=case.atol)
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
        outputs = (
            Device(chip).run(CROSS_ENTROPY, **arguments, weightOptional=None, reduction=0).outputs
        )
        assert outputs is not None
        assert outputs["out"][0] == pytest.approx(want, rel=1e-6)


def test_a_half_overflows_to_infinity_or_to_its_largest_number() -> None:
    one = np.ones(16, np.float16)
    for chip in ONE_OF_EACH:
        outputs = (
            Device(chip)
            .run(
                CROSS_ENTROPY,
                gradOutput=one,
                self=one * 0,
                target=one,
                weightOptional=None,
                reduction=0,
            )
            .outputs
        )
        assert outputs is not None
        assert (outputs["out"] == (-np.inf if chip in A2 else -65504.0)).all()


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


@settings(max_examples=60, deadline=None)
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
        (
            ("bfloat16", "float16", "float32", "float32"),
            "bfloat16",
            ["Cast"] * 2 + [KERNEL, "Cast"],
        ),
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
        ({"gradOutput": PLAIN["gradOutput"][:, :1].copy()}, [KERNEL]),
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


def test_an_operand_with_other_axes_of_length_one_needs_no_task() -> None:
    wide = {"self": PLAIN["self"][None], "gradOutput": PLAIN["gradOutput"][None]}
    result = Device("Ascend910B3").run(CROSS_ENTROPY, **PLAIN | wide)
    assert names(result) == [KERNEL]
    want = cross_entropy_reference(PLAIN).astype(np.float32)[None]
    np.testing.assert_allclose(result.outputs["out"], want, rtol=2e-6)  # type: ignore[index]


@pytest.mark.parametrize("kind", ["float32", "float16"])
def test_the_kernel_repeats_a_target_of_a_single_element(kind: str) -> None:
    random = np.random.default_rng(3)
    x, grad, weight = (random.uniform(0.1, 0.9, 300).astype(kind) for _ in range(3))
    y = np.array([0.25], kind)
    arguments = {"gradOutput": grad, "self": x, "target": y, "weightOptional": weight}
    for number, reduction in enumerate(("none", "mean")):
        inputs, out = (x, y, grad, weight), (like(x),)
        (got,) = run_task("Ascend910B3", KERNEL, inputs, out, reduction=reduction)
        want = cross_entropy_reference({**arguments, "reduction": number}).astype(kind)
        assert_close(got, want, rtol=EPSILON[kind], atol=1e-6)


def test_a_record_without_a_weight_is_no_call_of_the_kernel() -> None:
    x = np.ones(8, np.float32)
    with pytest.raises(KernelError, match="weight are needed"):
        run_task("Ascend910B3", KERNEL, (x, x, x, None), (like(x),))


def test_a_record_that_leaves_out_what_a_kernel_needs_is_no_programming_error() -> None:
    x = np.ones((2, 4, 8), np.float32)
    with pytest.raises(KernelError, match="doesn't tell enough"):
        run_task("Ascend910B3", "GroupNormGrad", (x, x, x[..., 0], x[..., 0]), (like(x),))


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
