"""BinaryCrossEntropyBackward: what its kernel does, and the physics of its time on every chip."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from npusim import Device, Result
from npusim.hardware import load_profile
from support import physics
from support.chips import CHIPS, ONE_OF_EACH, kinds
from support.cross_entropy import CROSS_ENTROPY, calls, cross_entropy, shapes
from support.inputs import numpy_kind
from support.spying import watching

SOME = settings(max_examples=25, deadline=None)

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


@settings(max_examples=60, deadline=None)
@given(any_chip, elements, st.integers(0, 2))
def test_never_below_the_roofline(chip: str, count: int, which: int) -> None:
    kind = kinds(chip)[which % len(kinds(chip))]
    physics.assert_above_roofline(
        chip, CROSS_ENTROPY, shapes(count, kind=kind), dict.fromkeys(WORK, float(count))
    )


@settings(max_examples=30, deadline=None)
@given(any_chip, st.integers(1, 40_000), st.sampled_from(["float32", "float16"]))
@example("Ascend910_9391", 512, "float16")
def test_twice_the_elements_are_never_faster(chip: str, count: int, kind: str) -> None:
    """Except where one core becomes several: that saves at most what its data pipes did."""
    before: Result | None = None
    for power in range(13):
        now = physics.estimate(chip, CROSS_ENTROPY, shapes(count * 2**power, kind=kind))
        if before is not None:
            more_cores = now.tasks[0].block_dim > before.tasks[0].block_dim
            divisible = sum(before.pipes[pipe] for pipe in ("VECTOR", "MTE2", "MTE3"))
            saved = divisible if more_cores else 1e-3
            assert now.duration_us >= before.duration_us * (1 - saved)
        before = now


def stores_of(chip: str, count: int, kind: str) -> tuple[int, list[str]]:
    """How many cores there are, and what the first of them stores."""
    result = physics.estimate(chip, CROSS_ENTROPY, shapes(count, kind=kind))
    slices = result.timeline.slices(result.timeline.cores[:1])
    return result.tasks[0].block_dim, [each.detail for each in slices if each.pipe == "MTE3"]


@SOME
@given(any_chip, st.integers(1, 10**6), st.floats(0, 0.2), st.sampled_from(["float32", "float16"]))
@example("Ascend910B3", 389_121, 0.016, "float16")
@example("Ascend310P1", 120_300, 0.001, "float32")
def test_more_elements_are_never_faster_while_the_tiling_stays(
    chip: str, count: int, more: float, kind: str
) -> None:
    """Across a step of the tiling they can be: fewer cores to launch, loads that overlap.

    Where each core's share becomes larger, the last core's becomes smaller, which leaves the others
    more of the bandwidth; and a last pass that becomes a turn of the loop has waited for its code
    with the first turn. Either is worth little.
    """
    larger = count + int(count * more)
    (cores, stores), (other_cores, other_stores) = (
        stores_of(chip, each, kind) for each in (count, larger)
    )
    if (cores, len(stores)) == (other_cores, len(other_stores)):
        both = [shapes(count, kind=kind), shapes(larger, kind=kind)]
        slack = 1e-3 if stores == other_stores else 0.02
        physics.assert_larger_is_not_faster(chip, CROSS_ENTROPY, both, slack=slack)


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
    physics.assert_players_agree(chip, CROSS_ENTROPY, shapes(few, kind=kind))


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
