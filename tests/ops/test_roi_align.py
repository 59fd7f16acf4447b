"""aclnnRoiAlignV2Backward: numbers in every variant of the kernel, and its chain of tasks."""

from __future__ import annotations

import time
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npusim import AclnnError, Device, Result, TensorSpec
from npusim.hardware import load_profile, profile_names
from npusim.ops.roi_align_v2_backward.tiling import BATCH, Tiling, Variant
from npusim.values.errors import DeviceFault
from support import physics
from support.closeness import assert_close, assert_outputs_close
from support.golden import GoldenCase, numeric_cases, tiling_examples
from support.inputs import strided, transposed
from support.roi import ROI_ALIGN, reference, roi_align, torch_reference
from support.spying import watching

Array = np.ndarray[Any, Any]

CHIPS = profile_names()
ONE_OF_EACH = ["Ascend910A", "Ascend910B3", "Ascend310P3"]
CHAIN = ["TransData", "MemSet", "ROIAlignGrad", "TransData"]
KERNEL = "ROIAlignGrad"
CASES = numeric_cases(ROI_ALIGN)
KIB = 1024


def names(result: Result) -> list[str]:
    return [task.name for task in result.tasks]


def grad_input(result: Result) -> Array:
    assert result.outputs is not None
    return result.outputs["gradInput"]


def tiling_of(arguments: dict[str, Any], chip: Any) -> Tiling:
    """How the kernel would share its work."""
    boxes, channels, *bins = arguments["gradOutput"].shape
    images, _, height, width = arguments["inputShape"]
    slices = -(-channels // 16)
    profile = physics.profile_of(chip)
    return Tiling.of(profile, (boxes, slices, *bins, 16), (images, slices, height, width, 16))


def assert_right(arguments: dict[str, Any], chip: Any, tolerance: float = 1e-5) -> Result:
    result = Device(physics.profile_of(chip)).run(ROI_ALIGN, **arguments)
    want = reference(arguments)
    scale = float(np.abs(want).max(initial=1.0))
    assert_close(
        grad_input(result), want.astype(np.float32), rtol=tolerance * 10, atol=tolerance * scale
    )
    return result


# -- golden cases ----------------------------------------------------------------------------------


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_golden_cases(case: GoldenCase, chip: str) -> None:
    """The output is given: filled with NaN, so that everything in it must have been written."""
    given_out = np.full_like(case.outputs["gradInput"], np.nan)
    result = Device(chip).run(ROI_ALIGN, **case.arguments, gradInput=given_out)
    assert_outputs_close(result.outputs, case.outputs, rtol=case.rtol, atol=case.atol)
    np.testing.assert_array_equal(given_out, grad_input(result))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_oracle_agrees_with_the_golden_cases(case: GoldenCase) -> None:
    want = case.outputs["gradInput"]
    assert_close(reference(case.arguments).astype(np.float32), want, rtol=case.rtol, atol=case.atol)


def test_the_sample_on_the_page_prints_what_the_page_says() -> None:
    """Source: sample program of the operator's page, `result[%ld] is: %f`."""
    (case,) = [case for case in CASES if case.name == "seed_sample"]
    lines = [
        "1.125000 1.125000 1.625000 1.625000 2.125000 2.125000",
        "4.125000 4.125000 4.625000 4.625000 5.125000 5.125000",
        "7.125000 7.125000 7.625000 7.625000 8.125000 8.125000",
    ]
    wanted = [line for line in lines for _ in (0, 1)]
    for chip in ONE_OF_EACH:
        rows = grad_input(Device(chip).run(ROI_ALIGN, **case.arguments))[0, 0]
        assert [" ".join(f"{value:f}" for value in row) for row in rows] == wanted


@pytest.mark.parametrize("aligned", [False, True])
def test_pytorch_agrees(aligned: bool) -> None:
    torch = pytest.importorskip(
        "torch", reason="PyTorch isn't installed: pip install torch==2.13.0"
    )
    arguments = roi_align(12, 5, (2, 19, 23), (3, 4), ratio=3, aligned=aligned, pixels=(0.2, 30.0))
    want = torch_reference(arguments, torch)
    assert_close(reference(arguments), want, rtol=1e-9, atol=1e-9)
    result = Device("Ascend910B3").run(ROI_ALIGN, **arguments)
    assert_close(grad_input(result), want.astype(np.float32), rtol=1e-4, atol=1e-5)


# -- tiling ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "example",
    tiling_examples(KERNEL),
    ids=lambda each: "-".join(map(str, [each["soc"], *each["shape"].values()])),
)
def test_worked_tiling(example: dict[str, Any]) -> None:
    shape, want = example["shape"], example["tiling"]
    width = shape["pooledWidth"]
    grad = (shape["K"], want["c1"], width, width, 16)
    tiling = Tiling.of(load_profile(f"Ascend{example['soc']}"), grad, (1, want["c1"], 200, 272, 16))
    assert tiling.block_dim == want["block_dim"]
    assert min(want["c1"], tiling.slices_per_pass) == want["c1_per_pass_static_kernel"]
    items = [
        sum(share.boxes * share.slices for share in tiling.shares(block))
        for block in range(tiling.block_dim)
    ]
    assert items == [want["items_core0"]] + [want["items_other"]] * (tiling.block_dim - 1)
    assert sum(items) == want["work_items"]
    assert want["points_per_vector_batch"] == BATCH


@given(
    boxes=st.integers(1, 300),
    slices=st.integers(1, 20),
    cores=st.integers(1, 48),
)
def test_every_item_belongs_to_one_core(boxes: int, slices: int, cores: int) -> None:
    profile = physics.with_cores("Ascend910B1", cores)
    tiling = Tiling.of(profile, (boxes, slices, 7, 7, 16), (1, slices, 50, 50, 16))
    seen = np.zeros((boxes, slices), np.int64)
    for block in range(tiling.block_dim):
        for share in tiling.shares(block):
            box, slice_ = share.first_box, share.first_slice
            seen[box : box + share.boxes, slice_ : slice_ + share.slices] += 1
    assert (seen == 1).all()


def of_size(channels: int, width: int, ub: int | None, chip: str = "Ascend910A") -> Tiling:
    found = physics.profile_of(chip) if ub is None else physics.with_ub(chip, ub)
    slices = channels // 16
    return Tiling.of(found, (10, slices, 7, 7, 16), (1, slices, 40, width, 16))


@pytest.mark.parametrize(
    ("channels", "width", "ub", "variant", "per_pass"),
    [
        (256, 80, None, Variant.SUM_ROW, 16),
        (256, 272, None, Variant.LOAD_ROW, 16),
        (16, 272, None, Variant.SUM_ROW, 1),
        (256, 80, 64 * KIB, Variant.LOAD_ROW, 16),
        (256, 80, 40 * KIB, Variant.LOAD_ROW, 8),
        (256, 80, 31 * KIB + 64, Variant.SINGLE, 1),
    ],
)
def test_what_fits_decides_the_variant(
    channels: int, width: int, ub: int | None, variant: Variant, per_pass: int
) -> None:
    tiling = of_size(channels, width, ub)
    assert (tiling.variant, tiling.slices_per_pass) == (variant, per_pass)


# -- numbers ---------------------------------------------------------------------------------------

SMALL = roi_align(9, 40, (2, 14, 17), (3, 4), pixels=(0.5, 20.0))


@cache
def result_of_small(chip: str) -> Result:
    """Which some of these compare with; nobody writes to its arrays."""
    return Device(chip).run(ROI_ALIGN, **SMALL)


BY_VARIANT = {
    Variant.SUM_ROW: 192 * KIB,
    Variant.LOAD_ROW: 32 * KIB,
    Variant.SINGLE: 30 * KIB + 14 * 64,
}


@pytest.mark.parametrize("ratio", [0, 1, 2, 3])
@pytest.mark.parametrize("variant", BY_VARIANT, ids=lambda variant: variant.name)
@pytest.mark.parametrize("chip", ONE_OF_EACH)
def test_all_variants_compute_the_same(chip: str, variant: Variant, ratio: int) -> None:
    arguments = SMALL | {"samplingRatio": ratio}
    shrunk = physics.with_ub(chip, BY_VARIANT[variant])
    assert tiling_of(arguments, shrunk).variant is variant
    assert_right(arguments, shrunk)


@settings(max_examples=40, deadline=None)
@given(
    boxes=st.integers(1, 30),
    channels=st.integers(1, 40),
    maps=st.tuples(st.integers(1, 3), st.integers(1, 20), st.integers(1, 20)),
    bins=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    ratio=st.integers(0, 3),
    aligned=st.booleans(),
    scale=st.sampled_from([0.0625, 0.25, 1.0, 2.0]),
    largest=st.sampled_from([0.5, 4.0, 25.0]),
    cores=st.sampled_from([1, 2, 7, 32]),
    ub=st.sampled_from(list(BY_VARIANT.values())),
    seed=st.integers(0, 1000),
)
def test_any_shape_on_any_cut(
    boxes: int,
    channels: int,
    maps: tuple[int, int, int],
    bins: tuple[int, int],
    ratio: int,
    aligned: bool,
    scale: float,
    largest: float,
    cores: int,
    ub: int,
    seed: int,
) -> None:
    arguments = roi_align(
        boxes,
        channels,
        maps,
        bins,
        ratio=ratio,
        aligned=aligned,
        scale=scale,
        pixels=(0.1, largest),
        seed=seed,
    )
    assert_right(arguments, physics.with_ub(physics.with_cores("Ascend910A", cores), ub), 3e-5)


def test_cores_and_buffers_change_no_number() -> None:
    arguments = roi_align(17, 40, (2, 20, 24), (3, 4), ratio=0)
    profiles = [
        physics.with_ub(physics.with_cores("Ascend910B3", cores), ub)
        for cores, ub in ((1, 192 * KIB), (40, 192 * KIB), *((7, ub) for ub in BY_VARIANT.values()))
    ]
    physics.assert_tiling_changes_no_number(profiles, ROI_ALIGN, arguments, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("variant", BY_VARIANT, ids=lambda variant: variant.name)
def test_more_rows_and_columns_than_one_batch_holds(variant: Variant) -> None:
    """Boxes of more than 128 sample columns, and more than 128 sample rows in a bin."""
    arguments = roi_align(2, 17, (1, 150, 160), (1, 3), ratio=0, pixels=(130.0, 145.0))
    arguments["boxes"][1, 3] = arguments["boxes"][1, 1] + 30
    ub = {
        Variant.SUM_ROW: 1024 * KIB,
        Variant.LOAD_ROW: 34 * KIB,
        Variant.SINGLE: 30 * KIB + 14 * 64,
    }
    shrunk = physics.with_ub("Ascend910A", ub[variant])
    assert tiling_of(arguments, shrunk).variant is variant
    assert_right(arguments, shrunk)


def test_more_boxes_than_one_batch_holds() -> None:
    arguments = roi_align(300, 3, (2, 20, 20), (2, 2), ratio=0, pixels=(0.5, 9.0))
    for cores in (1, 2):
        assert_right(arguments, physics.with_cores("Ascend910B3", cores))


def test_more_slices_than_one_pass_takes() -> None:
    arguments = roi_align(4, 16 * 21 + 5, (1, 12, 13), (3, 3))
    shrunk = physics.with_ub("Ascend910B3", 36 * KIB)
    tiling = tiling_of(arguments, shrunk)
    assert tiling.slices_per_pass < tiling.slices
    assert tiling.slices % tiling.slices_per_pass
    assert_right(arguments, shrunk)


@pytest.mark.parametrize("size", [(1, 1), (1, 9), (9, 1), (2, 2)])
@pytest.mark.parametrize("variant", BY_VARIANT, ids=lambda variant: variant.name)
def test_maps_with_a_single_row_or_column(size: tuple[int, int], variant: Variant) -> None:
    arguments = roi_align(5, 20, (2, *size), (2, 3), pixels=(0.5, 9.0))
    assert_right(arguments, physics.with_ub("Ascend910A", BY_VARIANT[variant]))


def test_inverted_boxes_walk_backwards() -> None:
    arguments = roi_align(6, 18, (1, 12, 14), (3, 4), ratio=2)
    arguments["boxes"][::2] = arguments["boxes"][::2][:, [0, 3, 4, 1, 2]]
    for ub in BY_VARIANT.values():
        assert_right(arguments, physics.with_ub("Ascend910B3", ub))


def test_boxes_without_samples_leave_no_trace() -> None:
    """Ids beyond the batch, and empty boxes with adaptive sampling."""
    arguments = roi_align(8, 18, (2, 12, 14), (3, 4), ratio=0)
    arguments["boxes"][[0, 3], 0] = (-0.5, 2.0)
    arguments["boxes"][5, 3] = arguments["boxes"][5, 1]
    arguments["boxes"][6, 4] = arguments["boxes"][6, 2] - 8
    assert_right(arguments, "Ascend910B3")
    kept = [1, 2, 4, 7]
    alone = arguments | {
        "gradOutput": arguments["gradOutput"][kept],
        "boxes": arguments["boxes"][kept],
    }
    np.testing.assert_allclose(reference(arguments), reference(alone))


def test_counts_come_from_a_true_division() -> None:
    """21 pixels in 7 bins are 3 samples; multiplied by float32(1 / 7) they would be 4."""
    arguments = roi_align(1, 1, (1, 40, 40), (7, 7), ratio=0, scale=1.0, aligned=False)
    arguments["boxes"][0] = (0, 3, 4, 24, 25)
    fixed = arguments | {"samplingRatio": 3}
    adaptive, three = (
        grad_input(Device("Ascend910B3").run(ROI_ALIGN, **each)) for each in (arguments, fixed)
    )
    np.testing.assert_allclose(adaptive, three, rtol=1e-6, atol=1e-7)


def test_boxes_that_are_not_numbers_dont_bring_the_simulator_down() -> None:
    arguments = roi_align(4, 3, (1, 9, 9), (2, 2), ratio=0)
    arguments["boxes"][0, 1:3] = np.nan
    arguments["boxes"][1, 0] = np.nan
    arguments["boxes"][2, 1:] = (-np.inf, 3, np.inf, 4)
    with pytest.raises(DeviceFault, match="box 2 asks for 1 x 2147483648 samples per bin") as fault:
        Device("Ascend910B3").run(ROI_ALIGN, **arguments)
    assert fault.value.code == 507035
    arguments["boxes"][2] = 0
    assert np.isfinite(grad_input(Device("Ascend910B3").run(ROI_ALIGN, **arguments))).all()
    Device("Ascend910B3").run(ROI_ALIGN, **(arguments | {"samplingRatio": 2}))


def test_a_ratio_beyond_what_float_can_number_is_a_fault_too() -> None:
    arguments = roi_align(1, 3, (1, 9, 9), (2, 2), ratio=2**30)
    with pytest.raises(DeviceFault, match="the task never ends"):
        Device("Ascend910B3").run(ROI_ALIGN, **arguments)


def test_the_boxes_that_count_are_those_at_execution() -> None:
    """On the device the boxes are read when the task runs, not when it is planned."""
    arguments = roi_align(6, 16, (1, 20, 20), (2, 2), ratio=0)
    device = Device("Ascend910B3")
    out = np.zeros(arguments["inputShape"], np.float32)
    size, executor = device.get_workspace_size(ROI_ALIGN, **arguments, gradInput=out)
    arguments["boxes"][:, 3:] += 12
    stream = device.create_stream()
    assert stream.execute(bytearray(size), size, executor).ok
    stream.synchronize()
    np.testing.assert_allclose(out, reference(arguments), rtol=1e-4, atol=1e-5)


# -- chain of tasks --------------------------------------------------------------------------------


@pytest.mark.parametrize("chip", ONE_OF_EACH)
def test_the_chain(chip: str) -> None:
    result = Device(chip).run(ROI_ALIGN, **SMALL)
    assert names(result) == CHAIN
    # Both copies in NC1HWC0 are alive together, in buckets of 512 bytes.
    packed = [9 * 3 * 3 * 4 * 16 * 4, 2 * 3 * 14 * 17 * 16 * 4]
    assert result.workspace_size == sum(-(-nbytes // 512) * 512 for nbytes in packed)


@pytest.mark.parametrize(
    ("name", "layout", "task"),
    [
        ("gradOutput", strided, "StridedSlice"),
        ("gradOutput", transposed, "Transpose"),
        ("boxes", strided, "StridedSlice"),
        ("boxes", transposed, "Transpose"),
    ],
)
def test_an_input_that_isnt_contiguous_costs_one_task(name: str, layout: Any, task: str) -> None:
    arguments = SMALL | {name: layout(SMALL[name])}
    for chip in ONE_OF_EACH:
        result = Device(chip).run(ROI_ALIGN, **arguments)
        assert names(result) == [task, *CHAIN]
        plain = result_of_small(chip)
        np.testing.assert_array_equal(grad_input(result), grad_input(plain))


@pytest.mark.parametrize("layout", [strided, transposed])
def test_an_output_that_isnt_contiguous_costs_one_task(layout: Any) -> None:
    for boxes in (SMALL["boxes"], SMALL["boxes"][:0]):
        out = layout(np.full(SMALL["inputShape"], np.nan, np.float32))
        arguments = SMALL | {"boxes": boxes, "gradOutput": SMALL["gradOutput"][: len(boxes)]}
        result = Device("Ascend910A").run(ROI_ALIGN, **arguments, gradInput=out)
        assert names(result) == [*(CHAIN if len(boxes) else ["Fill"]), "ViewCopy"]
        np.testing.assert_allclose(out, reference(arguments), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("chip", ONE_OF_EACH)
@pytest.mark.parametrize("bins", [(0, 7), (7, 0), (0, 0)])
def test_without_gradients_there_are_zeros(bins: tuple[int, int], chip: str) -> None:
    arguments = roi_align(3, 5, (2, 6, 7), bins)
    out = np.full(arguments["inputShape"], np.nan, np.float32)
    result = Device(chip).run(ROI_ALIGN, **arguments, gradInput=out)
    assert names(result) == ["Fill"]
    assert not out.any()


def test_without_a_map_there_is_nothing_to_do() -> None:
    arguments = roi_align(3, 5, (1, 6, 7)) | {"inputShape": [0, 5, 6, 7]}
    result = Device("Ascend910B3").run(ROI_ALIGN, **arguments)
    assert names(result) == []
    assert grad_input(result).shape == (0, 5, 6, 7)


@pytest.mark.parametrize(
    ("changed", "code", "message"),
    [
        ({"boxes": SMALL["boxes"].astype(np.float16)}, 161002, "boxes DT_FLOAT16"),
        ({"gradOutput": None}, 161001, "gradOutput"),
        ({"boxes": SMALL["boxes"][:, :4]}, 161002, "image id, x1, y1, x2, y2"),
        ({"boxes": SMALL["boxes"][:5]}, 161002, "boxes"),
        ({"samplingRatio": -1}, 161002, "samplingRatio"),
        ({"spatialScale": float("nan")}, 161002, "spatialScale"),
        ({"inputShape": [2, 41, 14, 17]}, 161002, "channels"),
        ({"gradInput": np.zeros((2, 40, 14, 18), np.float32)}, 161002, "gradInput"),
    ],
)
def test_wrong_calls_are_refused(changed: dict[str, Any], code: int, message: str) -> None:
    for chip in ONE_OF_EACH:
        with pytest.raises(AclnnError, match=message) as error:
            Device(chip).run(ROI_ALIGN, **(SMALL | changed))
        assert error.value.code == code


# -- tile by tile ----------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", BY_VARIANT, ids=lambda variant: variant.name)
def test_the_numbers_come_by_tiles(variant: Variant) -> None:
    """Four products of each sample, and as many atomic stores as the variant makes."""
    arguments = roi_align(8, 32, (1, 30, 31), (3, 4), pixels=(2.0, 9.0))
    arguments["boxes"][:, 1:] = arguments["boxes"][:, 1:].clip(8, 100)
    profile = physics.with_ub("Ascend910B3", BY_VARIANT[variant])
    with watching() as watches:
        result = Device(profile).run(ROI_ALIGN, **arguments)
    (watch,) = [each for each in watches if each.kernel.op_type == KERNEL]
    rows, samples, slices = 8 * 6, 8 * 6 * 8, 2
    # One item per core: every core has one slice of one box.
    assert watch.elements["muls"] > 4 * samples * slices * 16
    stores = {Variant.SUM_ROW: rows, Variant.LOAD_ROW: 2 * samples, Variant.SINGLE: 2 * samples}
    assert watch.stores == stores[variant] * slices
    loads = {Variant.SUM_ROW: 8 * 3, Variant.LOAD_ROW: 8 * 3, Variant.SINGLE: samples}
    assert watch.loads == loads[variant] * slices + result.tasks[2].block_dim
    assert watch.largest_tile_bytes < profile.buffers.ub_bytes


def test_everything_is_stored_once_and_sums_go_on_top() -> None:
    for ratio in (0, 2):
        physics.assert_written_once("Ascend910B3", ROI_ALIGN, SMALL | {"samplingRatio": ratio})


# -- large -----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("ratio", [2, 0])
def test_a_thousand_boxes_on_a_large_map_in_not_much_more_time_than_numpy(ratio: int) -> None:
    arguments = roi_align(1000, 256, (1, 200, 272), ratio=ratio, pixels=(7.0, 30.0))
    started = time.process_time()
    result = Device("Ascend910B3").run(ROI_ALIGN, **arguments)
    ran = time.process_time()
    want = reference(arguments)
    assert ran - started < 60 * (time.process_time() - ran)
    scale = float(np.abs(want).max())
    assert_close(grad_input(result), want.astype(np.float32), rtol=1e-3, atol=2e-5 * scale)


def test_an_estimate_is_quick_whatever_the_size() -> None:
    grad = TensorSpec((1000, 256, 7, 7), "float32", "NCHW")
    arguments = roi_align(1, 1, (1, 1, 1)) | {
        "gradOutput": grad,
        "boxes": TensorSpec((1000, 5), "float32"),
        "inputShape": [4, 256, 2000, 2720],
    }
    started = time.process_time()
    result = Device("Ascend910B3").estimate(ROI_ALIGN, **arguments)
    assert time.process_time() - started < 2
    assert names(result) == CHAIN


@pytest.mark.parametrize("samples", [10**6, 2**31 - 1])
def test_more_cycles_than_a_clock_counts_are_refused_by_both(samples: int) -> None:
    call: dict[str, Any] = {
        "gradOutput": TensorSpec((4, 16, 7, 7), "float32"),
        "boxes": TensorSpec((4, 5), "float32"),
        "inputShape": [1, 16, 64, 64],
        "pooledHeight": 7,
        "pooledWidth": 7,
        "spatialScale": 1.0,
        "samplingRatio": samples,
        "aligned": True,
    }
    device = Device("Ascend910B3")
    assert device.check("aclnnRoiAlignV2Backward", **call).verdict == "unknown"
    with pytest.raises(AclnnError, match="a clock counts"):
        device.estimate("aclnnRoiAlignV2Backward", **call)
