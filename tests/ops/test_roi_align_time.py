"""aclnnRoiAlignV2Backward: how long it takes, and what that depends on."""

from __future__ import annotations

from itertools import pairwise
from math import ceil
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from npusim import Device, Result
from npusim.ascendc import trace
from npusim.hardware import load_profile
from npusim.ops.roi_align_v2_backward import accumulation, schedule
from npusim.ops.roi_align_v2_backward.schedule import Attributes, Group, Samples
from npusim.ops.roi_align_v2_backward.tiling import Tiling
from npusim.values.errors import ArgumentError
from support import digests, physics
from support.closeness import assert_close
from support.roi import ROI_ALIGN, reference, roi_align
from support.spying import watching

CHIP = "Ascend910B3"
ONE_OF_EACH = ["Ascend910A", "Ascend910B3", "Ascend310P3"]
KERNEL = "ROIAlignGrad"
KIB = 1024
LARGE = roi_align(320, 64, (1, 100, 136), pixels=(13.0, 14.0))
ADAPTIVE = LARGE | {"samplingRatio": 0}
MIXED = roi_align(90, 40, (2, 60, 66), (3, 4), ratio=0)


def kernel_us(result: Result) -> float:
    (found,) = [task.duration_us for task in result.tasks if task.name == KERNEL]
    return found


def estimate(arguments: dict[str, Any], chip: Any = CHIP, **assume: float) -> Result:
    """From shapes alone."""
    shapes = physics.shapes_only(arguments)
    return Device(physics.profile_of(chip)).estimate(ROI_ALIGN, assume=assume or None, **shapes)


def with_boxes(arguments: dict[str, Any], chip: Any = CHIP) -> Result:
    """From the shape of the gradient and the numbers of the boxes."""
    shapes = physics.shapes_only(arguments) | {"boxes": arguments["boxes"]}
    return Device(physics.profile_of(chip)).estimate(ROI_ALIGN, **shapes)


def at_one_place(arguments: dict[str, Any]) -> dict[str, Any]:
    """All boxes as the first one."""
    return arguments | {"boxes": np.repeat(arguments["boxes"][:1], len(arguments["boxes"]), axis=0)}


# -- what data tells -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments", [MIXED | {"samplingRatio": 2}, MIXED], ids=["fixed", "adaptive"]
)
@pytest.mark.parametrize("chip", ONE_OF_EACH)
def test_boxes_tell_an_estimate_as_much_as_a_run(arguments: dict[str, Any], chip: str) -> None:
    run = Device(chip).run(ROI_ALIGN, **arguments)
    assert digests.digest(run) == digests.digest(with_boxes(arguments, chip))
    assert not run.assumptions


def test_adaptive_sampling_takes_its_counts_from_the_boxes() -> None:
    times = [
        kernel_us(with_boxes(roi_align(64, 32, (1, 90, 90), ratio=0, pixels=(size, size))))
        for size in (6.0, 13.0, 20.0, 34.0)
    ]
    fixed = [
        kernel_us(with_boxes(roi_align(64, 32, (1, 90, 90), ratio=ratio, pixels=(size, size))))
        for ratio, size in ((1, 6.0), (2, 13.0), (3, 20.0), (5, 34.0))
    ]
    assert times == sorted(times)
    # The same samples, and a conversion and a division for every 128 boxes.
    assert times == pytest.approx(fixed, rel=0.01)
    assert all(one > other for one, other in zip(times, fixed, strict=True))


def test_boxes_that_are_skipped_cost_next_to_nothing() -> None:
    skipped = LARGE | {"boxes": LARGE["boxes"].copy()}
    skipped["boxes"][40:, 0] = 7
    few = {"gradOutput": LARGE["gradOutput"][:40], "boxes": LARGE["boxes"][:40]}
    alone = physics.with_cores(CHIP, 1)
    assert kernel_us(with_boxes(skipped, alone)) == pytest.approx(
        kernel_us(with_boxes(LARGE | few, alone)), rel=0.05
    )
    nothing = LARGE | {"boxes": LARGE["boxes"] * 0 + 9}
    assert kernel_us(with_boxes(nothing)) < kernel_us(with_boxes(LARGE)) / 10


@pytest.mark.parametrize("ub", [192 * KIB, 40 * KIB])
def test_boxes_at_one_place_cost_contention(ub: int) -> None:
    """With rows that go out at once, and with samples that go out one by one."""
    chip = physics.with_ub(CHIP, ub)
    assert kernel_us(with_boxes(at_one_place(LARGE), chip)) > 1.1 * kernel_us(
        with_boxes(LARGE, chip)
    )
    # A core alone has nobody to meet.
    alone = physics.with_cores(chip, 1)
    assert kernel_us(with_boxes(at_one_place(LARGE), alone)) == pytest.approx(
        kernel_us(with_boxes(LARGE, alone)), rel=0.01
    )


def test_one_box_meets_nobody() -> None:
    """Its slices lie apart, however many cores share them."""
    profile = load_profile(CHIP)
    tiling = Tiling.of(profile, (1, 40, 7, 7, 16), (1, 40, 30, 30, 16))
    attributes = Attributes(1.0, 2, aligned=True)
    samples = schedule.samples_of(np.array([[0, 1, 1, 20, 20]], np.float32), tiling, attributes)
    assert tiling.block_dim == 40
    assert schedule.measured(tiling, samples).sharers == 1.0


def test_cores_meet_as_often_as_chance_says() -> None:
    """Two boxes on two cores: each writes to one line of the other's ten in a tenth of its time."""
    tiling = Tiling.of(physics.with_cores(CHIP, 2), (2, 1, 2, 2, 16), (1, 1, 20, 80, 16))
    assert tiling.line_columns == 8
    ones, image = np.ones(2, np.int64), np.zeros(2, np.int64)
    rows = (np.array([0, 9]), np.array([9, 18]))
    columns = (np.array([0, 0]), np.array([7, 7]))
    samples = Samples(ones, ones, rows, columns, image)
    assert schedule.measured(tiling, samples).sharers == pytest.approx(1 + 0.1 * 0.1)
    same = Samples(ones, ones, (rows[0] * 0, rows[0] * 0 + 9), columns, image)
    assert schedule.measured(tiling, same).sharers == pytest.approx(1 + 0.1)


# -- what is assumed without -----------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [LARGE, ADAPTIVE], ids=["fixed", "adaptive"])
@pytest.mark.parametrize("chip", ONE_OF_EACH)
def test_without_boxes_they_are_assumed_to_be_usual(arguments: dict[str, Any], chip: str) -> None:
    assumed = estimate(arguments, chip)
    (sentence,) = assumed.assumptions
    assert sentence.startswith("boxes aren't given: assumes that they are alike and spread evenly")
    # The boxes at hand are what is assumed: bins of 2 pixels.
    assert assumed.duration_us == pytest.approx(with_boxes(arguments, chip).duration_us, rel=0.05)


def test_assumptions_can_be_set() -> None:
    three = estimate(ADAPTIVE, samples_per_bin=3)
    assert "with 3 samples per bin and axis" in three.assumptions[0]
    assert kernel_us(three) == pytest.approx(
        kernel_us(estimate(LARGE | {"samplingRatio": 3}, pixels_per_bin=3)), rel=0.01
    )
    boxes = roi_align(320, 64, (1, 100, 136), ratio=0, pixels=(20.0, 21.0))
    assert kernel_us(three) == pytest.approx(kernel_us(with_boxes(boxes)), rel=0.05)
    assert "bins 5.5 pixels high" in estimate(LARGE, pixels_per_bin=5.5).assumptions[0]


def test_more_samples_per_bin_take_longer() -> None:
    for chip in ONE_OF_EACH:
        fixed = [kernel_us(estimate(LARGE | {"samplingRatio": n}, chip)) for n in (1, 2, 3, 6)]
        assumed = [kernel_us(estimate(ADAPTIVE, chip, samples_per_bin=n)) for n in (1, 2, 3, 6)]
        for times in (fixed, assumed):
            assert all(one < other for one, other in pairwise(times))


@pytest.mark.parametrize(
    ("arguments", "assume", "message"),
    [
        (ADAPTIVE, {"samples_per_bin": 0}, "can't assume samples_per_bin = 0"),
        (ADAPTIVE, {"samples_per_bin": True}, "can't assume samples_per_bin = True"),
        (ADAPTIVE, {"samples_per_bin": "2"}, "can't assume samples_per_bin = '2'"),
        (LARGE, {"pixels_per_bin": -1.0}, "can't assume pixels_per_bin = -1.0"),
        (LARGE, {"pixels_per_bin": float("nan")}, "can't assume pixels_per_bin = nan"),
        (LARGE, {"samples_per_bin": 2}, "This call assumes: pixels_per_bin"),
        (ADAPTIVE, {"points_inside": 1}, "This call assumes: samples_per_bin"),
    ],
)
def test_senseless_assumptions_are_refused(
    arguments: dict[str, Any], assume: dict[str, Any], message: str
) -> None:
    with pytest.raises(ArgumentError, match=message):
        estimate(arguments, **assume)


def test_nothing_is_assumed_where_the_boxes_are_there() -> None:
    shapes = physics.shapes_only(ADAPTIVE) | {"boxes": ADAPTIVE["boxes"]}
    with pytest.raises(ArgumentError, match="assumes: nothing; it follows from the arguments"):
        Device(CHIP).estimate(ROI_ALIGN, assume={"samples_per_bin": 2}, **shapes)


# -- schedule --------------------------------------------------------------------------------------


def work(groups: tuple[Group, ...]) -> tuple[int, int, int]:
    """Boxes, sample rows of a bin, and samples of all slices."""
    return (
        sum(group.boxes for group in groups),
        sum(group.boxes * group.samples_y for group in groups),
        sum(group.boxes * group.samples_y * group.columns * group.slices for group in groups),
    )


@settings(max_examples=60, deadline=None)
@given(
    boxes=st.integers(1, 400),
    slices=st.integers(1, 6),
    cores=st.integers(1, 40),
    most=st.integers(1, 40),
    seed=st.integers(0, 99),
)
@example(boxes=12, slices=5, cores=9, most=2, seed=1)
def test_the_busiest_core_keeps_its_samples_and_the_kinds_stay_few(
    boxes: int, slices: int, cores: int, most: int, seed: int
) -> None:
    random = np.random.default_rng(seed)
    tiling = Tiling.of(
        physics.with_cores(CHIP, cores), (boxes, slices, 7, 7, 16), (1, slices, 90, 90, 16)
    )
    y, x = random.integers(0, most + 1, (2, boxes))
    zero = np.zeros(boxes, np.int64)
    samples = Samples(y * (x > 0), x * (y > 0), (zero, zero + 9), (zero, zero + 9), zero)
    found = schedule.measured(tiling, samples)
    own, weights = [], []
    for block in range(tiling.block_dim):
        groups = [
            Group(1, 0, share.slices, int(samples.y[box]), int(samples.x[box]) * 7, 10)
            for share in tiling.shares(block)
            for box in range(share.first_box, share.first_box + share.boxes)
        ]
        own.append(work(tuple(groups)))
        weights.append(sum(schedule._weight(group, tiling) for group in groups))
    scheduled = [work(found.groups(block)) for block in range(tiling.block_dim)]
    assert len({found.groups(block) for block in range(tiling.block_dim)}) <= 2
    busiest = found._busiest
    # Rounding to whole columns is all that may be lost of the busiest core.
    assert scheduled[busiest][:2] == own[busiest][:2]
    assert scheduled[busiest][2] == pytest.approx(own[busiest][2], rel=0.02, abs=200 * slices)
    # The busiest takes the longest; a core with fewer slices may do so with fewer samples.
    assert weights[busiest] >= 0.95 * max(weights)
    assert all(len(found.groups(block)) < 60 for block in range(tiling.block_dim))


def test_all_cores_together_do_about_all_the_work() -> None:
    arguments = roi_align(1000, 256, (1, 200, 272), ratio=0)
    result = with_boxes(arguments)
    profile, attributes = load_profile(CHIP), Attributes(0.25, 0, aligned=True)
    tiling = Tiling.of(profile, (1000, 16, 7, 7, 16), (1, 16, 200, 272, 16))
    samples = schedule.samples_of(arguments["boxes"], tiling, attributes)
    stores = int((samples.y * samples.x).sum()) * 49 * 2
    kernel = next(task for task in result.tasks if task.name == KERNEL)
    assert kernel.bytes_written == pytest.approx(stores * 16 * 128, rel=0.02)


# -- physics ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("chip", ONE_OF_EACH)
def test_time_is_above_the_roofline(chip: str) -> None:
    for arguments in (LARGE, ADAPTIVE, LARGE | {"samplingRatio": 1}):
        ratio = arguments["samplingRatio"] or 2
        products = 4 * 320 * 64 * 49 * ratio**2
        work = {"vmuls": products, "vadd": products}
        physics.assert_above_roofline(chip, ROI_ALIGN, arguments, work)


@pytest.mark.parametrize("chip", ONE_OF_EACH)
def test_more_of_anything_is_not_faster(chip: str) -> None:
    for growing in (
        # Numbers of boxes that the cores divide: what is left over goes to the first core alone.
        [roi_align(boxes, 64, (1, 50, 50)) for boxes in (160, 320, 640, 1280)],
        [roi_align(160, channels, (1, 50, 50)) for channels in (1, 16, 64, 256)],
        [roi_align(160, 64, (1, 50, 50), (bins, bins)) for bins in (1, 3, 7, 14)],
        [roi_align(160, 256, (1, side, side)) for side in (90, 150, 200, 400)],
    ):
        physics.assert_larger_is_not_faster(chip, ROI_ALIGN, growing, slack=0.01)


@pytest.mark.parametrize("arguments", [LARGE, ADAPTIVE], ids=["fixed", "adaptive"])
def test_more_cores_help_where_the_boxes_divide(arguments: dict[str, Any]) -> None:
    # Fewer cores than would wait for each other's lines.
    physics.assert_more_cores_help(CHIP, ROI_ALIGN, arguments, [1, 2, 4, 8, 16, 32])


@pytest.mark.parametrize("chip", ONE_OF_EACH)
def test_jumping_over_repetitions_is_exact(chip: str) -> None:
    arguments = roi_align(40, 48, (1, 60, 60), (3, 3))
    physics.assert_players_agree(chip, ROI_ALIGN, arguments)


def test_deeper_queues_never_hurt() -> None:
    physics.assert_double_buffering_helps(CHIP, ROI_ALIGN, LARGE)


def test_another_process_gives_the_same_timeline() -> None:
    small = roi_align(20, 40, (1, 40, 40), (3, 3))
    calls = [(chip, small | {"samplingRatio": ratio}) for chip in ONE_OF_EACH for ratio in (0, 2)]
    physics.assert_same_in_another_process([(chip, ROI_ALIGN, call) for chip, call in calls])


@pytest.mark.parametrize("ub", [192 * KIB, 40 * KIB])
@pytest.mark.parametrize(
    ("ratio", "boxes", "cores", "tolerance"),
    [
        (2, 40, 20, 0.01),
        (0, 40, 20, 0.05),
        # Two boxes a core: their average of 5.6 rows of samples is recorded as 6.
        (0, 80, 40, 0.5 / 5),
    ],
)
def test_numbers_and_instructions_move_the_same_bytes(
    ratio: int, boxes: int, cores: int, tolerance: float, ub: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As far as cores are alike: all but the busiest are recorded as the average of the others."""
    # Boxes that the host computes together move as much as the widest of them: take one at a time.
    monkeypatch.setattr(accumulation, "_HOST_BYTES", 1)
    chip = physics.with_cores(physics.with_ub(CHIP, ub), cores)
    watches = physics.assert_numbers_pay_for_themselves(
        chip, ROI_ALIGN, roi_align(boxes, 32, (1, 60, 60), ratio=ratio), tolerance=tolerance
    )
    assert len(watches) == 4


@pytest.mark.parametrize("boxes", [1, 128, 129, 300])
def test_every_box_is_loaded_once(boxes: int) -> None:
    """Five numbers each, 128 boxes at a time."""
    profile = physics.with_cores(CHIP, 1)
    with watching() as watches:
        Device(profile).run(ROI_ALIGN, **roi_align(boxes, 3, (1, 20, 20), (2, 2)))
    (kernel,) = [each.kernel for each in watches if each.kernel.op_type == KERNEL]
    (group,) = trace(kernel, profile, numerics=False)
    (listed,) = [each for each in kernel.reads if each.shape == (boxes, 5)]
    loads = [
        (each.transfer.payload_bytes, times)
        for each, times in group.program.instructions()
        if each.transfer is not None and each.transfer.buffer == listed.buffer.number
    ]
    assert sum(payload * times for payload, times in loads) == boxes * 5 * 4
    assert sum(times for _, times in loads) == ceil(boxes / 128)


@pytest.mark.parametrize("ratio", [0, 2])
def test_the_usual_core_stores_what_cores_store_on_average(ratio: int) -> None:
    """Summed over the cores, rows and columns that are stored stay what the boxes ask for."""
    slices, boxes = 3, 480
    tiling = Tiling.of(load_profile(CHIP), (boxes, slices, 7, 7, 16), (1, slices, 60, 60, 16))
    for seed in range(5):
        arguments = roi_align(boxes, 48, (1, 60, 60), ratio=ratio, seed=seed)
        attributes = Attributes(0.25, ratio, aligned=True)
        samples = schedule.samples_of(arguments["boxes"], tiling, attributes)
        first, last = samples.columns
        wanted = int((samples.y * (last - first + 1)).sum()) * slices
        found = schedule.measured(tiling, samples)
        every = [group for block in range(tiling.block_dim) for group in found.groups(block)]
        stored = sum(each.boxes * each.samples_y * each.slices * each.span for each in every)
        assert stored == pytest.approx(wanted, rel=0.02)


def test_the_sum_of_rows_saves_stores() -> None:
    """The same call with less of UB stores sample by sample, and takes longer."""
    narrow = roi_align(320, 64, (1, 40, 40))
    plenty, little = (
        estimate(narrow, physics.with_ub(CHIP, ub)).tasks[2] for ub in (192 * KIB, 36 * KIB)
    )
    assert little.duration_us > plenty.duration_us


def test_numbers_stay_right_where_time_is_summarised() -> None:
    arguments = roi_align(150, 33, (2, 40, 44), ratio=0, pixels=(0.5, 38.0))
    result = Device(CHIP).run(ROI_ALIGN, **arguments)
    assert result.outputs is not None
    want = reference(arguments).astype(np.float32)
    assert_close(result.outputs["gradInput"], want, rtol=1e-3, atol=1e-4)
