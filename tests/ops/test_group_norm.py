"""GroupNormBackward: numbers in every mode of the kernel, and the chain that replaces it."""

from __future__ import annotations

from math import ceil
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npusim import AclnnError, Device, Result
from npusim.hardware import load_profile
from npusim.ops.group_norm_backward.tiling import Mode, tile
from npusim.values.dtypes import dtype
from support import physics
from support.chips import A2, INFERENCE, TRAINING, kinds
from support.closeness import assert_outputs_close, rounded
from support.golden import GoldenCase, numeric_cases, tiling_examples
from support.group_norm import (
    GROUP_NORM,
    OFFERED,
    SIZES,
    TOLERANCE,
    Chip,
    Sizes,
    calls,
    group_norm,
    group_norm_reference,
    shapes,
    tiling_of,
)
from support.inputs import strided, transposed

Array = np.ndarray[Any, Any]

KERNEL = "GroupNormGrad"
SYSTEM_WORKSPACE = 16 * 1024 * 1024
CASES = numeric_cases(GROUP_NORM)

MODES = {
    "whole groups": Mode.GROUP,
    "refetched": Mode.GROUP,
    "one channel": Mode.CHANNEL,
    "channels": Mode.CHANNELS,
    "part of a channel": Mode.PART_OF_CHANNEL,
    "single elements": Mode.ELEMENTS,
}


def names(result: Result) -> list[str]:
    return [task.name for task in result.tasks]


def assert_right(arguments: dict[str, Any], result: Result, *, factor: float = 1.0) -> None:
    """All wanted outputs, close to the closed form in float64."""
    like = arguments["gradOut"]
    want = {name: rounded(array, like) for name, array in group_norm_reference(arguments).items()}
    rtol, atol = TOLERANCE[dtype(like.dtype).intrinsic]
    # Sums of many numbers of either sign are only as exact as their terms are large.
    terms = max(1, arguments["N"] * arguments["HxW"]) ** 0.5
    scale = max(1.0, float(np.abs(arguments["rstd"]).max(initial=0)))
    assert_outputs_close(result.outputs, want, rtol=rtol, atol=factor * atol * terms * scale)


# -- golden cases ----------------------------------------------------------------------------------


@pytest.mark.parametrize("chip", OFFERED)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_golden_cases(case: GoldenCase, chip: str) -> None:
    """Outputs are given: filled with NaN, so that everything in them must have been written."""
    if "BFLOAT16" in case.dtypes and chip not in A2:
        assert Device(chip).check(GROUP_NORM, **case.arguments).code == 161002
        return
    given_out = {name: np.full_like(array, np.nan) for name, array in case.outputs.items()}
    result = Device(chip).run(GROUP_NORM, **case.arguments, **given_out)
    assert_outputs_close(result.outputs, case.outputs, rtol=case.rtol, atol=case.atol)
    assert_outputs_close(given_out, case.outputs, rtol=case.rtol, atol=case.atol)
    assert (names(result) == [KERNEL]) is (chip in A2 and case.arguments["gamma"] is not None)


@pytest.mark.parametrize("chip", INFERENCE)
def test_inference_products_dont_offer_it(chip: str) -> None:
    for case in CASES:
        if "BFLOAT16" in case.dtypes:
            continue
        with pytest.raises(AclnnError) as error:
            Device(chip).run(GROUP_NORM, **case.arguments)
        assert error.value.code == 561003
        assert "Atlas inference products don't offer it" in error.value.message


def test_the_sample_on_the_page_prints_what_the_page_says() -> None:
    """Source: sample program of the page; gradInput cancels to rounding noise around zero."""
    (case,) = [case for case in CASES if case.name == "seed_sample"]
    for chip in OFFERED:
        outputs = Device(chip).run(GROUP_NORM, **case.arguments).outputs
        assert outputs is not None
        assert np.abs(outputs["gradInput"]).max() < 1e-5
        gamma = outputs["gradGammaOut"]
        assert gamma == pytest.approx([-75.896867, 2.896827, 155.849293], abs=1e-4)
        assert [f"{value:f}" for value in outputs["gradBetaOut"]] == [
            "68.000000",
            "100.000000",
            "132.000000",
        ]


# -- tiling ----------------------------------------------------------------------------------------


def _label(example: dict[str, Any]) -> str:
    return "x".join(str(value) for value in example["shape"].values())


@pytest.mark.parametrize("example", tiling_examples(KERNEL), ids=_label)
def test_tiling_examples(example: dict[str, Any]) -> None:
    shape, wanted = example["shape"], example["tiling"]
    sizes = (shape["N"], shape["C"], shape["HxW"], shape["group"])
    tiling = tile(Device(example["soc"]).profile, *sizes, dtype(shape["dtype"]))
    counts = [tiling.task_count(block) for block in range(tiling.block_dim)]
    found: dict[str, Any] = {
        "reserve_bytes": tiling.reserve_bytes,
        "groups_per_ub": tiling.groups_per_ub,
        "channels_per_ub": tiling.channels_per_ub,
        "mode": int(tiling.mode),
        "block_dim": tiling.block_dim,
        "tasks": tiling.tasks,
        "tasks_on_first_cores": counts[0],
        "first_cores": tiling.first_cores,
        "tasks_on_rest": counts[-1],
        "tiling_key": tiling.tiling_key,
        "user_workspace_bytes": tiling.user_workspace_bytes,
        "kernel_workspace_bytes": SYSTEM_WORKSPACE + tiling.user_workspace_bytes,
        "elements_per_pass": tiling.elements_per_pass,
        "passes_per_channel": ceil(tiling.size / tiling.elements_per_pass),
        "last_pass": tiling.size % tiling.elements_per_pass,
        "stage2": {}
        if tiling.stage2 is None
        else {"channels_per_core": tiling.stage2.channels, "cores": tiling.stage2.cores},
    }
    assert {name: found[name] for name in wanted} == wanted
    result = Device(example["soc"]).estimate(GROUP_NORM, **shapes(sizes, shape["dtype"]))
    assert result.workspace_size == wanted["kernel_workspace_bytes"]
    assert result.tasks[0].block_dim == max(wanted["block_dim"], wanted["stage2"].get("cores", 0))


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(A2),
    st.integers(1, 40),
    st.integers(1, 64),
    st.integers(1, 300),
    st.integers(1, 30_000),
    st.sampled_from(kinds(A2[0])),
)
def test_every_group_belongs_to_one_core(
    chip: str, batch: int, group: int, depth: int, size: int, kind: str
) -> None:
    tiling = tile(load_profile(chip), batch, group * depth, size, group, dtype(kind))
    following = 0
    for block in range(tiling.block_dim):
        assert tiling.first_task(block) == following
        assert tiling.task_count(block) >= 1
        following += tiling.task_count(block)
    assert following == batch * group
    assert tiling.block_dim <= load_profile(chip).cores.vector_cores
    if tiling.stage2 is not None:
        slices = tiling.stage2.cores // tiling.stage2.halves
        assert (slices - 1) * tiling.stage2.channels < tiling.channels
        assert slices * tiling.stage2.channels >= tiling.channels


# -- numbers in every mode -------------------------------------------------------------------------


@pytest.mark.parametrize("kind", kinds(A2[0]))
@pytest.mark.parametrize("batch", [1, 2, 3, 6])
@pytest.mark.parametrize("which", SIZES)
def test_every_mode_of_the_kernel(which: str, batch: int, kind: str) -> None:
    """Every way to cut up a group, times every way to add up over the batch."""
    _, channels, size, group = SIZES[which]
    if kind != "float32" and which == "one channel":
        size = 8000  # half types take more room
    arguments = group_norm(batch, channels, size, group, kind=kind)
    tiling = tiling_of(arguments)
    assert tiling.mode is MODES[which]
    assert tiling.refetches is (which == "refetched")
    assert (tiling.stage2 is None) is (batch == 1 or (batch == 2 and kind == "float32"))
    assert_right(arguments, Device("Ascend910B3").run(GROUP_NORM, **arguments))


@pytest.mark.parametrize("chip", TRAINING)
@pytest.mark.parametrize("kind", kinds(TRAINING[0]))
@pytest.mark.parametrize("which", ["whole groups", "refetched", "single elements"])
def test_the_composed_chain_gives_the_same_gradients(which: str, kind: str, chip: str) -> None:
    arguments = group_norm(*SIZES[which], kind=kind)
    result = Device(chip).run(GROUP_NORM, **arguments)
    assert_right(arguments, result)
    assert KERNEL not in names(result)


@settings(max_examples=100, deadline=None)
@given(calls())
def test_numbers_agree_with_the_closed_form(chosen: tuple[Chip, dict[str, Any]]) -> None:
    chip, arguments = chosen
    given_tensors = [value for value in arguments.values() if isinstance(value, np.ndarray)]
    before = [array.copy() for array in given_tensors]
    result = Device(chip.profile).run(GROUP_NORM, **arguments)
    assert_right(arguments, result)
    for array, copy in zip(given_tensors, before, strict=True):
        np.testing.assert_array_equal(array, copy)


@pytest.mark.parametrize("size", [2, 40, 50_000])
def test_the_chain_clears_what_its_cores_add_into(size: int) -> None:
    """Where everything is summed into one number, cores add to it, so a MemSet comes first."""
    arguments = group_norm(1, 1, size, 1, mask=(False, True, True))
    result = Device("Ascend910A").run(GROUP_NORM, **arguments)
    assert_right(arguments, result)
    sums = [index for index, name in enumerate(names(result)) if name == "ReduceSum"]
    assert [names(result)[index - 1] for index in sums] == ["MemSet"] * 4


def test_statistics_are_taken_as_given() -> None:
    arguments = group_norm(2, 8, 30, 4)
    arguments["mean"] = arguments["mean"] * 0 + 3.0
    arguments["rstd"] = arguments["rstd"] * 0 + 0.25
    for chip in ("Ascend910A", "Ascend910B3"):
        assert_right(arguments, Device(chip).run(GROUP_NORM, **arguments))


def test_only_counts_matter_in_the_shapes_of_inputs() -> None:
    """Source: unit test case_shape_not_same_normal of ops-nn."""
    arguments = group_norm(2, 12, 30, 4)
    want = Device("Ascend910B3").run(GROUP_NORM, **arguments).outputs
    arguments |= {
        "gradOut": arguments["gradOut"].reshape(24, 5, 6),
        "input": arguments["input"].reshape(2, 12, 5, 6),
        "mean": arguments["mean"].ravel(),
        "gamma": arguments["gamma"].reshape(3, 4),
    }
    for chip in ("Ascend910A", "Ascend910B3"):
        got = Device(chip).run(GROUP_NORM, **arguments).outputs
        assert got is not None
        assert want is not None
        assert got["gradInput"].shape == (2, 12, 5, 6)
        assert got["gradGammaOut"].shape == got["gradBetaOut"].shape == (3, 4)
        for name in want:
            np.testing.assert_allclose(got[name].ravel(), want[name].ravel(), rtol=1e-4, atol=1e-5)


def test_sums_of_two_batches_dont_depend_on_who_comes_first() -> None:
    """At most two addends meet in one cell, so other numbers of cores give the same bits."""
    arguments = group_norm(6, 24, 64, 6)
    first = Device("Ascend910B3").run(GROUP_NORM, **arguments).outputs
    assert first is not None
    for count in (2, 5, 40):
        chip = physics.with_cores("Ascend910B3", count)
        again = Device(chip).run(GROUP_NORM, **arguments).outputs
        assert again is not None
        np.testing.assert_array_equal(again["gradInput"], first["gradInput"])
        for name in ("gradGammaOut", "gradBetaOut"):
            np.testing.assert_array_equal(again[name], first[name])


# -- masks and tasks -------------------------------------------------------------------------------

MASKS = [(a, b, c) for a in (True, False) for b in (True, False) for c in (True, False)]
OUTPUTS = ("gradInput", "gradGammaOut", "gradBetaOut")

VARIANCE = ["Mul", "OnesLike", "RealDiv", "Fill", "Sub"]
NORM = [
    *["TransData", "TransData", "Fill", "TransData", "TransData", "MemSet", "MemSet"],
    *["BNTrainingUpdateGrad", "BNTrainingReduceGrad", "TransData"],
]
OF_GAMMA = ["BroadcastTo", "BroadcastTo", "Sub", "Mul", "Mul", "ReduceSum", "MemSet", "ReduceSum"]
OF_BETA = ["ReduceSum", "MemSet", "ReduceSum"]


@pytest.mark.parametrize("chip", ["Ascend910A", "Ascend910B3"])
@pytest.mark.parametrize("gamma", [True, False], ids=["gamma", "null"])
@pytest.mark.parametrize("mask", MASKS, ids=lambda mask: "".join(str(int(each)) for each in mask))
def test_the_mask_chooses_outputs_and_tasks(
    mask: tuple[bool, bool, bool], gamma: bool, chip: str
) -> None:
    arguments = group_norm(3, 12, 40, 4, mask=mask, gamma=gamma)
    untouched = {
        name: np.full(shape, 7.0, np.float32)
        for name, shape in zip(OUTPUTS, ((3, 12, 40), (12,), (12,)), strict=True)
    }
    result = Device(chip).run(GROUP_NORM, **arguments)
    assert_right(arguments, result)
    if chip == "Ascend910B3":
        tasks = ["Fill"] * (not gamma) + [KERNEL]
        assert names(result) == (tasks if any(mask) else [])
    else:
        weighted = ["Mul"] if gamma else []
        tasks = (weighted + VARIANCE + NORM) * mask[0] + OF_GAMMA * mask[1] + OF_BETA * mask[2]
        assert names(result) == tasks
    given_out = Device(chip).run(GROUP_NORM, **arguments, **untouched)
    assert given_out.duration_us == result.duration_us
    for name, wanted in zip(OUTPUTS, mask, strict=True):
        assert (untouched[name] == 7.0).all() is np.bool_(not wanted) or wanted


def test_fewer_gradients_cost_less() -> None:
    for chip in ("Ascend910A", "Ascend910B3"):
        times = {
            mask: Device(chip).run(GROUP_NORM, **group_norm(4, 24, 400, 6, mask=mask)).duration_us
            for mask in MASKS
        }
        for mask, duration_us in times.items():
            for index in range(3):
                fewer = tuple(each and place != index for place, each in enumerate(mask))
                assert times[fewer] <= duration_us  # type: ignore[index]
        assert times[False, False, False] == 0.0


@pytest.mark.parametrize("chip", ["Ascend910A", "Ascend910B3"])
@pytest.mark.parametrize("layout", [strided, transposed], ids=["strided", "transposed"])
@pytest.mark.parametrize("name", ["gradOut", "input", "mean", "rstd"])
def test_an_input_that_isnt_contiguous_costs_one_task(name: str, layout: Any, chip: str) -> None:
    arguments = group_norm(4, 12, 40, 4)
    dense = Device(chip).run(GROUP_NORM, **arguments)
    loose = Device(chip).run(GROUP_NORM, **arguments | {name: layout(arguments[name])})
    task = "StridedSlice" if layout is strided else "Transpose"
    assert sorted(names(loose)) == sorted([task, *names(dense)])
    assert_outputs_close(loose.outputs, dense.outputs, rtol=0, atol=0)  # type: ignore[arg-type]
    assert loose.duration_us > dense.duration_us


@pytest.mark.parametrize("chip", ["Ascend910A", "Ascend910B3"])
@pytest.mark.parametrize("which", OUTPUTS)
def test_an_output_that_isnt_contiguous_costs_one_task(which: str, chip: str) -> None:
    arguments = group_norm(4, 12, 40, 4)
    dense = Device(chip).run(GROUP_NORM, **arguments)
    assert dense.outputs is not None
    memory = np.full((*dense.outputs[which].shape, 2), -7.0, np.float32)
    loose = Device(chip).run(GROUP_NORM, **arguments, **{which: memory[..., 0]})
    assert sorted(names(loose)) == sorted(["ViewCopy", *names(dense)])
    np.testing.assert_array_equal(memory[..., 0], dense.outputs[which])
    assert (memory[..., 1] == -7.0).all()
    assert loose.duration_us > dense.duration_us


@pytest.mark.parametrize(
    ("sizes", "kind", "nbytes"),
    [
        ((2, 24, 64, 6), "float32", 0),
        ((1, 24, 64, 6), "float16", 8 * 24),
        ((2, 24, 64, 6), "float16", 8 * 24),
        ((3, 24, 64, 6), "float32", 8 * 2 * 24),
        ((9, 24, 64, 6), "bfloat16", 8 * 5 * 24),
    ],
)
def test_workspace_of_the_kernel(sizes: Sizes, kind: str, nbytes: int) -> None:
    """16 MiB for the system, and the sums over the batch."""
    for chip in A2:
        result = physics.estimate(chip, GROUP_NORM, shapes(sizes, kind))
        assert result.workspace_size == SYSTEM_WORKSPACE + nbytes
    ones = shapes(sizes, kind) | {"gamma": None}
    with_fill = physics.estimate("Ascend910B3", GROUP_NORM, ones)
    assert with_fill.workspace_size == SYSTEM_WORKSPACE + nbytes + 512


def test_workspace_of_the_chain_is_reused() -> None:
    """Far less than the sum of all intermediates, never less than what is alive at once."""
    sizes = (4, 32, 4096, 8)
    data = 4 * 4 * 32 * 4096
    size = physics.estimate("Ascend910A", GROUP_NORM, shapes(sizes)).workspace_size
    assert 3 * data < size < 6 * data


@pytest.mark.parametrize("chip", OFFERED)
@pytest.mark.parametrize("sizes", [(0, 12, 40, 4), (2, 12, 0, 4)])
def test_nothing_happens_to_empty_tensors(sizes: Sizes, chip: str) -> None:
    batch, channels, size, group = sizes
    x = np.zeros((batch, channels, size), np.float32)
    statistics = np.zeros((batch, group), np.float32)
    kept = np.full(channels, 7.0, np.float32)
    result = Device(chip).run(
        GROUP_NORM,
        gradOut=x,
        input=x,
        mean=statistics,
        rstd=statistics,
        gamma=kept.copy(),
        N=batch,
        C=channels,
        HxW=size,
        group=group,
        outputMask=[True, True, True],
        gradGammaOut=kept,
    )
    assert (result.tasks, result.workspace_size, result.cycles) == ((), 0, 0)
    assert (kept == 7.0).all()


# -- the kernel ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["float32", "float16"])
@pytest.mark.parametrize("which", SIZES)
def test_how_often_the_data_is_read(which: str, kind: str) -> None:
    """Whole groups once, everything else twice, groups off block boundaries three times."""
    _, channels, size, group = SIZES[which]
    if kind != "float32" and which == "one channel":
        size = 8000
    arguments = group_norm(2, channels, size, group, kind=kind)
    watches = physics.assert_numbers_pay_for_themselves("Ascend910B3", GROUP_NORM, arguments)
    watch, gamma = watches[-1], 2 * arguments["gamma"].nbytes  # once for each batch
    sums = 0 if kind == "float32" else 2 * channels * 4  # brought into the half type at the end
    passes = {"whole groups": 1, "single elements": 1, "refetched": 3}.get(which, 2)
    read = watch.bytes_read - gamma - sums
    assert read / (2 * arguments["input"].nbytes) == pytest.approx(passes, abs=0.01)
    assert watch.loads > 2
    assert watch.elements["reduce_sum"] >= 1


def test_the_chain_goes_over_the_data_nine_to_thirteen_times() -> None:
    sizes = (4, 32, 4096, 8)
    result = physics.estimate("Ascend910A", GROUP_NORM, shapes(sizes))
    moved = sum(task.bytes_read + task.bytes_written for task in result.tasks)
    assert 18 <= moved / (4 * 4 * 32 * 4096) <= 30  # reads and writes, so two for each pass
    fused = physics.estimate("Ascend910B3", GROUP_NORM, shapes(sizes))
    assert fused.duration_us < result.duration_us


def test_long_channels_pay_for_compensated_sums() -> None:
    result = physics.estimate("Ascend910B3", GROUP_NORM, shapes((1, 2, 40_000, 1)))
    assert any(each.name == "kahan" for each in result.timeline.slices())


def test_half_types_say_what_the_chain_leaves_out() -> None:
    half = physics.estimate("Ascend910A", GROUP_NORM, shapes((2, 8, 16, 4), "float16"))
    assert any("kept in float32" in each for each in half.assumptions)
    assert physics.estimate("Ascend910A", GROUP_NORM, shapes((2, 8, 16, 4))).assumptions == ()
