"""aclnnMultiScaleDeformableAttentionGrad: how long it takes, and what that depends on."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npusim import Device, Result
from npusim.hardware import load_profile
from npusim.ops.multi_scale_deformable_attention_grad.contract import Sizes
from npusim.ops.multi_scale_deformable_attention_grad.loads import Load, deal
from npusim.ops.multi_scale_deformable_attention_grad.points import Mix
from npusim.ops.multi_scale_deformable_attention_grad.tiling import Tiling
from npusim.values.errors import ArgumentError
from support import digests, physics
from support.closeness import assert_outputs_close
from support.deformable import DEFORMABLE, as_outputs, deformable, reference

CHIP = "Ascend910B3"
KERNEL = "MultiScaleDeformableAttentionGrad"
SQUARES = ((30, 30),) * 2


def layer(where: tuple[float, float] = (0.0, 1.0), **sizes: Any) -> dict[str, Any]:
    """Two square maps; heads, points and channels as in a detection transformer."""
    usual = {"queries": 120, "heads": 8, "channels": 32, "points": 4, "where": where}
    return deformable(SQUARES, **{**usual, **sizes})


def at(x: float, y: float, **sizes: Any) -> dict[str, Any]:
    """All points at one place of their map."""
    arguments = layer(**sizes)
    arguments["location"][...] = (x, y)
    return arguments


def kernel_us(result: Result) -> float:
    return next(task.duration_us for task in result.tasks if task.name == KERNEL)


def estimate(arguments: dict[str, Any], chip: str = CHIP, **assume: float) -> Result:
    shapes = physics.shapes_only(arguments)
    return Device(chip).estimate(DEFORMABLE, assume=assume or None, **shapes)


def counts(result: Result) -> Counter[str]:
    """Instructions of the kernel per pipe, markers left out."""
    slices = (each for each in result.timeline.slices() if each.task == KERNEL)
    return Counter(each.pipe for each in slices)


# -- what data tells -------------------------------------------------------------------------------


def test_a_point_costs_what_its_corners_cost() -> None:
    one = {"queries": 1, "heads": 1, "points": 1}
    arguments = deformable([(4, 4)], channels=32, **one)
    found = {}
    for name, x in {"outside": 2.0, "corner": 0.0, "edge": 0.5, "interior": 0.5}.items():
        y = 0.0 if name == "edge" else x
        arguments["location"][...] = (x, y)
        found[name] = counts(Device(CHIP).run(DEFORMABLE, **arguments))
    more = {name: found[name] - found["outside"] for name in ("corner", "edge", "interior")}
    assert [more[name]["MTE2"] for name in more] == [1, 2, 4]
    assert [more[name]["MTE3"] for name in more] == [1, 2, 4]
    assert more["interior"]["VECTOR"] == 21
    assert more["edge"]["VECTOR"] == 4 + 1 + 2 * 6 + 4
    assert found["outside"]["MTE3"] == 1 + 3  # one core clears gradValue; sums of the block


def test_more_corners_take_longer() -> None:
    alone = physics.with_cores(CHIP, 1)  # many cores in the corners of the maps would meet there
    places = {"outside": (2.0, 2.0), "corner": (0.0, 0.0), "edge": (0.0, 0.5), "inside": (0.5, 0.5)}
    times = [
        kernel_us(Device(alone).run(DEFORMABLE, **at(*place, queries=30)))
        for place in places.values()
    ]
    assert times == sorted(times)
    assert times[-1] > 3 * times[0]


def test_hot_cells_cost_contention() -> None:
    spread, hot = layer((0.05, 0.95)), at(0.52, 0.52)
    slow, fast = (Device(CHIP).run(DEFORMABLE, **arguments) for arguments in (hot, spread))
    assert kernel_us(slow) > 1.2 * kernel_us(fast)
    assert_outputs_close(slow.outputs, as_outputs(hot, reference(hot)), rtol=1e-3, atol=1e-2)
    # A core alone has nobody to meet.
    alone = physics.with_cores(CHIP, 1)
    slow, fast = (Device(alone).run(DEFORMABLE, **arguments) for arguments in (hot, spread))
    assert kernel_us(slow) == pytest.approx(kernel_us(fast), rel=0.01)


def test_contention_grows_with_the_share_of_points_that_meet() -> None:
    pyramid = ((100, 134), (50, 67), (25, 34), (13, 17))
    arguments = deformable(pyramid, queries=300, heads=8, channels=32, points=4, where=(0.1, 0.9))
    times = []
    for share in (0.0, 0.3, 0.6, 1.0):
        arguments["location"][:, : round(share * 300)] = 0.5
        times.append(kernel_us(Device(CHIP).estimate(DEFORMABLE, **arguments)))
    # A little of it hides behind the loads of the next point.
    assert all(now >= before * (1 - 1e-6) for before, now in pairwise(times))
    assert times[-1] > 1.5 * times[0]


def test_arrays_tell_an_estimate_as_much_as_a_run() -> None:
    arguments = layer((-0.3, 1.1))
    run = Device(CHIP).run(DEFORMABLE, **arguments)
    from_arrays = Device(CHIP).estimate(DEFORMABLE, **arguments)
    assert digests.digest(run) == digests.digest(from_arrays)
    assert from_arrays.outputs is None
    assert not run.assumptions
    assert not from_arrays.assumptions


def test_half_type_arrays_tell_an_estimate_as_much_as_a_run() -> None:
    arguments = layer((-0.3, 1.1), kind="bfloat16", index="int64", queries=20)
    run = Device(CHIP).run(DEFORMABLE, **arguments)
    assert run.cycles == Device(CHIP).estimate(DEFORMABLE, **arguments).cycles


# -- what is assumed without -----------------------------------------------------------------------


def test_without_data_points_are_assumed_to_be_spread_evenly() -> None:
    arguments = layer(queries=300)
    assumed = estimate(arguments)
    assert len(assumed.assumptions) == 3
    assert "1 of the sampling points lie inside" in assumed.assumptions[0]
    run = Device(CHIP).run(DEFORMABLE, **arguments)
    assert kernel_us(assumed) == pytest.approx(kernel_us(run), rel=0.02)


def test_assumptions_can_be_set() -> None:
    arguments = layer((-0.3, 1.1), queries=300)
    at_cell = arguments["location"] * np.float32(30) - np.float32(0.5)
    inside = ((at_cell > -1) & (at_cell < 30)).all(axis=-1)
    interior = ((at_cell >= 0) & (at_cell < 29)).all(axis=-1)
    shares = {
        "points_inside": float(inside.mean()),
        "points_at_border": float((inside & ~interior).sum() / inside.sum()),
    }
    run = Device(CHIP).run(DEFORMABLE, **arguments)
    # The slowest of 40 cores has a few per cent more points inside than the average.
    assert kernel_us(estimate(arguments, **shares)) == pytest.approx(kernel_us(run), rel=0.05)
    assert (
        f"{shares['points_inside']:g} of the sampling"
        in estimate(arguments, **shares).assumptions[0]
    )


@pytest.mark.parametrize("name", ["points_inside", "points_at_border", "cores_per_line"])
def test_assumptions_shift_the_time_in_one_direction(name: str) -> None:
    values = (1.0, 4.0, 16.0) if name == "cores_per_line" else (0.0, 0.4, 1.0)
    times = [kernel_us(estimate(layer(), **{name: value})) for value in values]
    if name == "points_at_border":  # half as many cells, but one after the other
        assert max(times) < 1.1 * min(times)
    else:
        assert times == sorted(times)
    assert times[0] != times[-1]


@pytest.mark.parametrize(
    "assume",
    [{"points_inside": 1.5}, {"points_at_border": -0.1}, {"cores_per_line": 100}, {"samples": 1}],
)
def test_senseless_assumptions_are_refused(assume: dict[str, float]) -> None:
    with pytest.raises(ArgumentError, match=next(iter(assume))):
        estimate(layer(), **assume)


def test_nothing_is_assumed_where_the_data_is_there() -> None:
    with pytest.raises(ArgumentError, match="points_inside"):
        Device(CHIP).estimate(DEFORMABLE, assume={"points_inside": 0.5}, **layer())


# -- physics ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("chip", ["Ascend910B1", "Ascend910B4"])
def test_time_is_above_the_roofline(chip: str) -> None:
    arguments = layer(queries=900)
    elements = arguments["attnWeight"].size * 32
    work = {"vmuls": 9 * elements, "vadd": 5 * elements, "vsub": 4 * elements}
    physics.assert_above_roofline(chip, DEFORMABLE, arguments, work)


def test_more_queries_heads_and_keys_are_not_faster() -> None:
    for growing in (
        [layer(queries=queries) for queries in (1, 40, 112, 113, 250, 600)],
        [layer(heads=heads) for heads in (1, 2, 8, 16)],
        [deformable([(side, side)], queries=10) for side in (2, 20, 200)],
    ):
        physics.assert_larger_is_not_faster(
            CHIP, DEFORMABLE, growing, slack=0.01, kernel="MultiScaleDeformableAttentionGrad"
        )


def test_clearing_large_maps_is_serial_and_takes_its_time() -> None:
    small, large = (deformable([(side, side)], queries=10) for side in (20, 400))
    grown = estimate(large).duration_us - estimate(small).duration_us
    profile = load_profile(CHIP)
    rate = profile.paths.ub_to_gm.bytes_per_cycle * profile.clock_mhz  # bytes per us of one core
    assert grown > (large["value"].nbytes - small["value"].nbytes) / rate


def test_more_cores_help_where_the_tasks_divide() -> None:
    physics.assert_more_cores_help(CHIP, DEFORMABLE, layer(queries=224), [1, 2, 4, 8, 16])


@pytest.mark.parametrize("queries", [30, 300])
def test_jumping_over_repetitions_is_exact(queries: int) -> None:
    physics.assert_players_agree(CHIP, DEFORMABLE, layer(queries=queries))


def test_deeper_queues_never_hurt() -> None:
    physics.assert_double_buffering_helps(CHIP, DEFORMABLE, layer())


def test_another_process_gives_the_same_timeline() -> None:
    physics.assert_same_in_another_process([(CHIP, DEFORMABLE, layer(queries=40))])


# -- loads -----------------------------------------------------------------------------------------


def points_of(load: Load) -> Mix:
    mixes = [[count * part.tasks for count in part.mix] for part in load.parts]
    return Mix(*(sum(each) for each in zip(*mixes, strict=True))) if mixes else Mix(0, 0, 0, 0)


def rows_of(mix: Mix) -> int:
    """Rows of channels that points move: their gradient, their cells there and back."""
    return 9 * mix.interior + 5 * mix.edge + 3 * mix.corner + mix.outside


@settings(max_examples=60, deadline=None)
@given(queries=st.integers(1, 3000), heads=st.integers(1, 8), data=st.data())
def test_the_slowest_core_keeps_its_load_and_the_others_move_their_average(
    queries: int, heads: int, data: st.DataObject
) -> None:
    tiling = Tiling.of(load_profile(CHIP), Sizes(1, 99, heads, 32, queries, 2, 4))
    mixes = []
    for block in range(tiling.block_dim):
        total = len(tiling.points_of(block))
        interior = data.draw(st.integers(0, total))
        edge = data.draw(st.integers(0, total - interior))
        mixes.append(Mix(interior, edge, 0, total - interior - edge))
    loads = deal(tiling, mixes)
    weights = [6 * mix.interior + 5 * mix.edge + mix.outside for mix in mixes]
    slowest = weights.index(max(weights))
    assert points_of(loads[slowest]) == mixes[slowest]
    assert len(set(loads)) <= 3
    for load in loads:
        assert all(min(part.mix) >= 0 and part.tasks > 0 for part in load.parts)
    others = [block for block, mix in enumerate(mixes) if mix.total and mix != mixes[slowest]]
    if others:
        wanted = sum(rows_of(mixes[block]) for block in others) / len(others)
        found = rows_of(points_of(loads[others[0]]))
        parts = loads[slowest].parts
        # Within a task, or the tasks that few cores have at the ends of their planes.
        few = min((part.tasks for part in parts[:-1]), default=0) if len(parts) > 2 else 0
        slack = 9 * tiling.queries_per_task * (1 + few)
        assert abs(found - wanted) <= slack


def test_cores_that_come_too_late_stay_idle() -> None:
    # 49 tasks: two for each of 24 cores, one for the next, none for 15.
    sizes = Sizes(1, 99, 1, 32, 112 * 49, 1, 1)
    tiling = Tiling.of(load_profile(CHIP), sizes)
    mixes = [Mix(len(tiling.points_of(block)), 0, 0, 0) for block in range(tiling.block_dim)]
    loads = deal(tiling, mixes)
    assert [len(load.parts) > 0 for load in loads] == [True] * 25 + [False] * 15
    assert sum(rows_of(points_of(load)) for load in loads) == pytest.approx(
        9 * sizes.sampled, rel=0.01
    )
