"""Prices of instructions, counted by hand: repeats, runs and granules of a profile."""

from __future__ import annotations

import numpy as np
import pytest

from npusim.ascendc.costs import GmCopy, InstructionCosts
from npusim.hardware import Profile, load_profile
from support.kernels import doubling, gm, numbers, timed
from support.tasks import CHIPS

pytestmark = pytest.mark.parametrize("chip", CHIPS)


def costs(chip: str) -> InstructionCosts:
    return InstructionCosts(load_profile(chip))


@pytest.mark.parametrize(("intrinsic", "special"), [("vmuls", False), ("vexp", True)])
def test_vector_instructions_take_a_price_for_every_repeat_that_they_begin(
    chip: str, intrinsic: str, special: bool
) -> None:
    """A repeat is 256 bytes: 64 floats, and the 65th begins another, in every row."""
    vector = load_profile(chip).vector
    scale = vector.special_scale if special else vector.simple_scale
    each = vector.instructions[intrinsic]["float32"].cycles_per_repeat * scale

    def cycles(elements: int, rows: int = 1) -> float:
        return costs(chip).vector(intrinsic, "float32", 4, elements, rows=rows)

    for more, repeats in (((64 * 101, 1), 100), ((65, 1), 1), ((64, 8), 7), ((65, 8), 15)):
        assert cycles(*more) - cycles(64) == pytest.approx(repeats * each)


def test_the_scalar_unit_pays_for_loads_stores_operations_and_turns(chip: str) -> None:
    unit = load_profile(chip).scalar
    priced = {
        "loads": unit.ub_load_cycles,
        "stores": unit.ub_store_cycles,
        "operations": unit.alu_cycles,
        "turns": unit.loop_cycles,
    }
    for what, cycles in priced.items():
        assert cycles > 0
        assert costs(chip).scalar(**{what: 7}) == pytest.approx(7 * cycles)


def with_path(chip: str, **prices: float) -> InstructionCosts:
    """The chip, whose path from UB to global memory has other prices."""
    profile = load_profile(chip)
    path = profile.paths.ub_to_gm.model_copy(update=prices)
    return InstructionCosts(
        profile.model_copy(update={"paths": profile.paths.model_copy(update={"ub_to_gm": path})})
    )


@pytest.mark.parametrize(
    ("run_bytes", "runs", "ragged", "cycles", "traffic"),
    [
        (32, 1, 0, 10, 32),
        (256, 9, 0, 10 + 8 * 3, 9 * 256),
        (33, 9, 0, 10 + 8 * 3, 9 * 64),  # bytes on the bus come in granules of 32
        (4, 1, 50, 10, 32),  # a single run is never ragged
        (256, 9, 50, 10 + 8 * 3, 9 * 256),
        (33, 9, 50, 10 + 9 * 50, 9 * 64),
    ],
)
def test_copies_pay_for_every_run_and_for_whole_granules(
    chip: str, run_bytes: int, runs: int, ragged: float, cycles: float, traffic: float
) -> None:
    prices = {"setup_cycles": 10.0, "burst_cycles": 3.0, "granule_bytes": 32}
    priced = with_path(chip, **prices, ragged_burst_cycles=ragged)
    path = priced.profile.paths.ub_to_gm
    found = priced.gm_copy(path, run_bytes, runs, rows_apart=False, atomic_sharers=0)
    taken = found.traffic_bytes / found.bytes_per_cycle
    assert (found.cycles, found.traffic_bytes) == (0.0, traffic)
    assert taken == pytest.approx(cycles + traffic / path.bytes_per_cycle)


def test_every_kernel_begins_with_its_entry_code(chip: str) -> None:
    x, y = gm(numbers(640)), gm(np.zeros(640, np.float32), "y")

    def taken(profile: Profile) -> float:
        return timed(doubling(x, y, 64), x, y, chip=profile).core_cycles

    profile = load_profile(chip)
    head = profile.launch.kernel_head_cycles
    longer = profile.launch.model_copy(update={"kernel_head_cycles": head + 1000})
    assert head > 0
    slower = profile.model_copy(update={"launch": longer})
    assert taken(slower) - taken(profile) == pytest.approx(1000)


def test_runs_inside_ub_take_their_bytes_or_a_burst_and_meet_in_their_banks(chip: str) -> None:
    """One by one where every run is stored to the same groups of banks."""
    profile = load_profile(chip)
    path = profile.paths.ub_to_ub.model_copy(
        update={"setup_cycles": 10.0, "burst_cycles": 3.0, "bytes_per_cycle": 64.0}
    )
    paths = profile.paths.model_copy(update={"ub_to_ub": path})
    priced = InstructionCosts(profile.model_copy(update={"paths": paths}))
    groups = profile.buffers.ub_bank_groups
    assert priced.ub_bursts(7, 1, 0) == 10 + 7 * 3
    assert priced.ub_bursts(7, 64, 0) == 10 + 7 * 64 * 32 / 64
    assert priced.ub_bursts(7, 1, groups + 1) == 10 + 7 * 3
    assert priced.ub_bursts(7, 5, groups) == 10 + 7 * (5 + 3)


def test_cores_that_add_to_the_same_lines_wait_for_each_other(chip: str) -> None:
    priced = costs(chip)
    path, memory = priced.profile.paths.ub_to_gm, priced.profile.memory

    def copied(sharers: float) -> GmCopy:
        return priced.gm_copy(path, 256, 4, rows_apart=False, atomic_sharers=sharers)

    plain, alone, five = (copied(sharers) for sharers in (0, 1, 5))
    assert five.cycles - alone.cycles == pytest.approx(4 * memory.atomic_conflict_cycles)
    assert alone.cycles == plain.cycles
    assert plain.rate_fraction == 1
    # What a core stores isn't slower for being added; what all of them may store is.
    added = five.bytes_per_cycle * five.rate_fraction
    assert added == pytest.approx(plain.bytes_per_cycle)
    assert alone.rate_fraction == five.rate_fraction == memory.atomic_rate_fraction
    assert plain.traffic_bytes == five.traffic_bytes == 4 * 256
