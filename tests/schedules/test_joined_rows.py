"""Rows that kernels for all shapes put together and take apart by turning groups of them."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npusim.ascendc import trace
from npusim.ascendc.costs import InstructionCosts
from npusim.hardware import load_profile
from npusim.ops.data_movement.join_tiling import JoinTiling
from npusim.validation.fitting import with_values
from support.physics import with_cores
from support.tasks import assert_tiling_changes_no_number, cycles, kernels

CHIP = "Ascend910B2"
PLANE_BYTES = 512


def turned(op: str, rows: int, widths: tuple[int, ...], kind: Any) -> tuple[int, int]:
    """Blocks of the launch, and planes of 16 lines that one core turns if it does all."""
    whole, parts = np.zeros((rows, sum(widths)), kind), [np.zeros((rows, w), kind) for w in widths]
    sides = (parts, [whole]) if op == "ConcatV2D" else ([whole], parts)
    said = {"axis": 1} if op == "ConcatV2D" else {"split_dim": 1}
    (kernel,), _ = kernels(CHIP, op, *sides, said)
    alone = with_cores(CHIP, 1)
    (single,), _ = kernels(alone, op, *sides, said)
    (group,) = trace(single, alone, numerics=False)
    done = group.program.instructions()
    counts = ((re.match(r"\d+", each.detail), n) for each, n in done if each.name == "vnchwconv")
    return kernel.block_dim, sum(n * int(found.group()) for found, n in counts if found)


@pytest.mark.parametrize(
    ("rows", "widths", "kind", "blocks", "padded"),
    [
        (3, (64, 64), np.float32, 1, 128),  # whole blocks, but all that one core puts together
        (3, (64, 64), np.float16, 1, 256),
        (2, (3, 5), np.int64, 1, 64),
        (129, (64, 64), np.float32, 1, 0),  # whole blocks of more rows than a group
        (3, (64, 72), np.float32, 2, 0),
        (1, (3, 5), np.float16, 1, 0),  # a single row
        (1000, (7, 7), np.float16, 1, 1024),
        (100_000, (7, 7), np.float16, 31, 100_096),
        (1000, (4, 12), np.float32, 1, 1024),  # half blocks: groups of 32
        (999, (4, 140), np.float32, 7, 1024 - 1024 % 32),
    ],
)
def test_rows_are_put_together_in_whole_groups(
    rows: int, widths: tuple[int, ...], kind: Any, blocks: int, padded: int
) -> None:
    """Source: concat_dsl.cc; a core's tiles are padded to groups, parts are turned and all back."""
    launched, planes = turned("ConcatV2D", rows, widths, kind)
    nbytes = 2 * padded * sum(widths) * np.dtype(kind).itemsize
    assert (launched, planes * PLANE_BYTES) == (blocks, nbytes)


@pytest.mark.parametrize(
    ("rows", "widths", "kind", "padded"),
    [
        (3, (16, 24, 24, 16, 24, 24), np.float16, 256),
        (300, (7, 9), np.int16, 512),
        (3, (16, 32), np.float16, 0),  # parts of whole blocks
        (3, (7, 9), np.float32, 0),  # only two bytes are turned
        (3, (60, 90), np.float16, 0),  # wider than a third of UB has room for
    ],
)
def test_ragged_halves_are_taken_apart_in_whole_groups(
    rows: int, widths: tuple[int, ...], kind: Any, padded: int
) -> None:
    """Source: split_dsl.cc."""
    _, planes = turned("SplitVD", rows, widths, kind)
    assert planes * PLANE_BYTES == 2 * padded * sum(widths) * 2


def test_one_row_more_than_one_takes_a_group_of_them() -> None:
    """Profiles of 910B2 have 3.8 us for three rows of two times 64 floats, 1.5 us for one row.

    The vector unit is busy for 0.81 of the first and 0.01 of the other.
    """
    taken = []
    for rows in (1, 2, 16):
        x = np.zeros((rows, 64), np.float32)
        taken.append(cycles(CHIP, "ConcatV2D", [x, x], [np.concatenate([x, x], 1)], axis=1))
    assert taken[1] > 2 * taken[0]
    assert taken[2] < 1.1 * taken[1]


@settings(max_examples=25, deadline=None)
@given(
    rows=st.integers(1, 5000),
    widths=st.lists(st.integers(1, 200), min_size=2, max_size=5),
    itemsize=st.sampled_from([2, 4, 8]),
)
def test_tiles_of_turned_rows_fit_into_half_of_ub(
    rows: int, widths: list[int], itemsize: int
) -> None:
    profile = load_profile(CHIP)
    lined = JoinTiling.of(profile, rows, widths, itemsize).turned
    if lined is None:
        return
    share = lined.share
    assert share.tile % lined.group == 0
    assert lined.padded(share.tile) * sum(widths) * itemsize <= profile.buffers.ub_bytes // 2
    assert sum(share.length(block) for block in range(share.cores)) == rows
    assert share.cores <= profile.cores.vector_cores


@pytest.mark.parametrize(
    ("rows", "widths", "blocks"),
    # Recorded by msprof on 910B3: 7 blocks and 1. Long rows come to 24 KB for a core sooner.
    [(2688, (64, 64), 7), (336, (64, 64), 1), (512, (1280, 1280, 1280), 43), (8192, (16, 48), 11)],
)
def test_rows_of_whole_blocks_are_dealt_out_as_recorded(
    rows: int, widths: tuple[int, ...], blocks: int
) -> None:
    assert turned("ConcatV2D", rows, widths, np.float16) == (blocks, 0)


@settings(max_examples=25, deadline=None)
@given(
    rows=st.integers(2, 5000),
    widths=st.lists(st.integers(1, 40), min_size=2, max_size=5),
    itemsize=st.sampled_from([1, 2, 4, 8]),
)
def test_tiles_of_whole_blocks_fit_into_half_of_ub(
    rows: int, widths: list[int], itemsize: int
) -> None:
    profile = load_profile(CHIP)
    whole = [each * 32 // itemsize for each in widths]
    share = JoinTiling.of(profile, rows, whole, itemsize).whole
    assert share is not None
    assert share.tile * sum(whole) * itemsize <= profile.buffers.ub_bytes // 2
    assert sum(share.length(block) for block in range(share.cores)) == rows
    assert share.cores <= profile.cores.vector_cores
    assert JoinTiling.of(profile, rows, [*whole[1:], whole[0] + 1], itemsize).whole is None


def test_short_rows_of_whole_blocks_take_no_longer_than_ragged_ones() -> None:
    """One transfer for a tile of each part, not one for each row."""
    taken = []
    for width in (63, 64):
        x = np.zeros((2048, width), np.float16)
        taken.append(cycles("Ascend910B3", "ConcatD", [x, x], [np.concatenate([x, x], 1)], axis=1))
    assert taken[1] < taken[0]


def test_parts_of_a_row_may_be_wider_than_ub_has_columns() -> None:
    profile = with_values(load_profile(CHIP), {"buffers.ub_bytes": 16384})
    lined = JoinTiling.of(profile, 5000, [3, 5, 7], 4).turned
    assert lined is None or lined.share.tile >= lined.group


def test_tiling_of_turned_rows_changes_no_number() -> None:
    rng = np.random.default_rng(1)
    parts = [rng.standard_normal((700, width)).astype(np.float16) for width in (3, 17, 9)]
    whole = np.concatenate(parts, 1)
    assert_tiling_changes_no_number(CHIP, "ConcatD", parts, [whole], concat_dim=1)
    assert_tiling_changes_no_number(CHIP, "SplitVD", [whole], parts, split_dim=1)
    parts = [rng.standard_normal((3000, width)).astype(np.float16) for width in (16, 48, 32)]
    assert_tiling_changes_no_number(CHIP, "ConcatD", parts, [np.concatenate(parts, 1)], axis=1)


@pytest.mark.parametrize(
    ("apart", "waited"),
    [(0, 0), (32, 1), (96, 1), (64, 2), (256, 8), (768, 8), (512, 16), (4096, 16)],
)
def test_lines_that_meet_few_bank_groups_wait_for_them(apart: int, waited: int) -> None:
    """16 groups of which each takes a block of 32 bytes a cycle."""
    assert InstructionCosts(load_profile(CHIP)).line_cycles(16, apart) == waited
