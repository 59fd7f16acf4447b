"""GroupNormBackward: the physics of its time, and where its numbers go, on every chip."""

from __future__ import annotations

from math import ceil
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from npusim import Device
from npusim.hardware import load_profile
from npusim.ops.group_norm_backward.tiling import Mode
from support import physics
from support.chips import A2, TRAINING, kinds
from support.group_norm import (
    GROUP_NORM,
    OFFERED,
    SIZES,
    TOLERANCE,
    Chip,
    Sizes,
    calls,
    group_norm,
    shapes,
    tiling_of,
)
from support.spying import watching


@st.composite
def estimates(draw: st.DrawFn, *, aligned: bool = False) -> tuple[str, Sizes, str]:
    """A chip, sizes and a dtype, up to some million elements."""
    chip = draw(st.sampled_from(OFFERED))
    size = draw(st.one_of(st.integers(1, 64), st.integers(1, 5000), st.sampled_from([1, 65536])))
    batch, group = draw(st.integers(1, 9)), draw(st.sampled_from([1, 2, 5, 8, 32]))
    depth = draw(st.integers(1, 24))
    if aligned and size > 1:
        size = ceil(size / 16) * 16
    assume(batch * group * depth * size < 3 * 10**6)
    kind = draw(st.sampled_from(kinds(chip)))
    return chip, (batch, group * depth, size, group), kind


@settings(max_examples=40, deadline=None)
@given(estimates())
def test_never_below_the_roofline(chosen: tuple[str, Sizes, str]) -> None:
    chip, sizes, kind = chosen
    count = float(sizes[0] * sizes[1] * sizes[2])
    physics.assert_above_roofline(
        chip, GROUP_NORM, shapes(sizes, kind), {"vmul": 2 * count, "vadd": 2 * count}
    )


@settings(max_examples=25, deadline=None)
@given(estimates(aligned=True), st.sampled_from(["batch", "size", "depth", "groups"]))
def test_twice_the_elements_are_never_faster(chosen: tuple[str, Sizes, str], which: str) -> None:
    """Rows stay at block boundaries: off them groups are fetched twice.

    Of a chain of small tasks some may need fewer cores, and so less to launch: hence the slack, and
    a thousand elements at least.
    """
    chip, (batch, channels, size, group), kind = chosen
    assume(channels > 1)  # into a single number sums are added, after one more task
    assume(chip in A2 or batch * channels * size > 1000)
    assume(which != "size" or size > 1)

    def grown(factor: int) -> Sizes:
        return {
            "batch": (factor * batch, channels, size, group),
            "size": (batch, channels, factor * size, group),
            "depth": (batch, factor * channels, size, group),
            "groups": (batch, factor * channels, size, factor * group),
        }[which]

    growing = [shapes(grown(factor), kind) for factor in (1, 2, 4)]
    physics.assert_larger_is_not_faster(chip, GROUP_NORM, growing, slack=0.02)


@settings(max_examples=30, deadline=None)
@given(estimates())
def test_double_buffering_is_never_slower(chosen: tuple[str, Sizes, str]) -> None:
    chip, sizes, kind = chosen
    assert physics.assert_double_buffering_helps(chip, GROUP_NORM, shapes(sizes, kind)) >= 0.999


@pytest.mark.parametrize("chip", OFFERED)
def test_double_buffering_pays(chip: str) -> None:
    """On Atlas A2 two channels are in flight where two fit."""
    sizes = (2, 512, 4000, 8)
    assert physics.assert_double_buffering_helps(chip, GROUP_NORM, shapes(sizes)) > 1.01


@pytest.mark.parametrize(
    ("chip", "sizes"),
    [
        *((chip, sizes) for chip in OFFERED for sizes in ((8, 64, 512, 16), (4, 64, 16384, 16))),
        *((chip, (16, 64, 1, 8)) for chip in A2),
    ],
)
def test_more_cores_are_never_slower(chip: str, sizes: Sizes) -> None:
    physics.assert_more_cores_help(chip, GROUP_NORM, shapes(sizes), [2, 4, 8, 16])


@settings(max_examples=20, deadline=None)
@given(estimates())
def test_jumping_ends_at_the_cycle_of_playing(chosen: tuple[str, Sizes, str]) -> None:
    chip, sizes, kind = chosen
    physics.assert_players_agree(chip, GROUP_NORM, shapes(sizes, kind))


@settings(max_examples=25, deadline=None)
@given(calls())
def test_every_element_of_every_task_is_stored_once(chosen: tuple[Chip, dict[str, Any]]) -> None:
    chip, arguments = chosen
    physics.assert_written_once(chip.profile, GROUP_NORM, arguments)


@settings(max_examples=15, deadline=None)
@given(calls())
def test_time_needs_no_data(chosen: tuple[Chip, dict[str, Any]]) -> None:
    chip, arguments = chosen
    physics.assert_time_needs_no_data(chip.profile, GROUP_NORM, arguments)


@pytest.mark.parametrize(
    ("chip", "which"),
    [(chip, which) for chip in A2 for which in SIZES]
    + [(chip, which) for chip in TRAINING for which in ("whole groups", "refetched")],
)
def test_every_output_is_stored_once_in_every_mode(which: str, chip: str) -> None:
    _, channels, size, group = SIZES[which]
    arguments = group_norm(3, channels, size, group)
    outputs = {
        "gradInput": np.full((3, channels, size), np.nan, np.float32),
        "gradGammaOut": np.full(channels, np.nan, np.float32),
        "gradBetaOut": np.full(channels, np.nan, np.float32),
    }
    physics.assert_written_once(chip, GROUP_NORM, arguments | outputs)
    for array in outputs.values():
        assert np.isfinite(array).all()


@pytest.mark.parametrize("kind", kinds(A2[0]))
def test_tiling_changes_no_number(kind: str) -> None:
    """Buffers from a few kilobytes up bring one call through all modes."""
    arguments = group_norm(5, 24, 200, 3, kind=kind)
    chips = [load_profile("Ascend910B3")]
    least = 3_400 if kind == "float32" else 4_900
    chips += [physics.with_ub("Ascend910B3", size) for size in (least, 5_600, 8_000, 12_000)]
    modes = {tiling_of(arguments, chip).mode for chip in chips}
    assert modes == {Mode.GROUP, Mode.CHANNEL, Mode.CHANNELS, Mode.PART_OF_CHANNEL}
    chips += [physics.with_cores("Ascend910B3", count) for count in (1, 4, 7)]
    rtol, atol = TOLERANCE[kind]
    physics.assert_tiling_changes_no_number(chips, GROUP_NORM, arguments, rtol=rtol, atol=atol * 10)


def test_the_same_timeline_in_another_process() -> None:
    physics.assert_same_in_another_process(
        (chip, GROUP_NORM, shapes(sizes, kind))
        for chip in OFFERED
        for sizes, kind in (
            ((5, 24, 64, 6), "float32"),
            ((3, 12, 101, 4), "float16"),
        )
    )


def test_watched_kernels_do_the_work_of_the_formula() -> None:
    """Per element: scale and shift for xh, the product with dy, four steps for gradInput."""
    arguments = group_norm(2, 24, 64, 6)
    with watching() as watches:
        Device("Ascend910B3").run(GROUP_NORM, **arguments)
    count = arguments["input"].size
    for name, least in (("muls", 3), ("adds", 2), ("mul", 1), ("add", 1), ("reduce_sum", 2)):
        assert watches[-1].elements[name] >= least * count, name
