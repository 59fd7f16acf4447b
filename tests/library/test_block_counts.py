"""Kernels launch as many blocks as the profiler recorded; only those that clear are told."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from block_counts import by_family, counted
from specifics import SWITCHES, numbers, switches

from npusim.hardware import load_profile
from npusim.operators.tasks import TaskSpec, kernels_of
from npusim.validation.table import read_rows
from npusim.values.tensors import TensorSpec
from support.paths import ROOT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from npusim.validation.table import MeasuredRow

TABLE = ROOT / "reports" / "data" / "measured_ops.csv.gz"
_LEAST = 0.95
# Families whose tilings nobody has published: tuned by hand, or chosen by the compiler's search (of
# BatchNorm those of the odd planes of one network).
_SEARCHED = {"910 gen1 (30 cores), Conv": 0.8, "910 gen1 (30 cores), BatchNorm": 0.93}


def measured() -> Sequence[MeasuredRow]:
    """The rows of the first generation, of families of 100 and more that record their blocks."""
    rows = [row for row in read_rows(TABLE) if row.blocks]
    counts = Counter((row.chip, row.family) for row in rows)
    return [row for row in rows if counts[row.chip, row.family] >= 100 and "gen1" in row.chip]


def test_block_counts_are_the_recorded_ones() -> None:
    families = by_family(measured()[::3])
    assert len(families) > 7
    for name, (rows, right) in families.items():
        assert right >= _SEARCHED.get(name, _LEAST) * rows - 1, f"{name}: {right} of {rows}"


def test_no_kernel_is_told_how_many_blocks_there_were() -> None:
    """Told other counts, the rows launch as many as before."""
    some = measured()[::197]
    before = [blocks for _, blocks in counted(some)]
    other = [replace(row, blocks=row.blocks + 1) for row in some]
    assert [blocks for _, blocks in counted(other)] == before


def test_every_number_of_a_family_is_found_with_what_it_is() -> None:
    found = {each.place: each for each in numbers(["ops/reduction"])}
    assert found["ops/reduction/total.py"].meaning.startswith("whole ones, beyond which")
    assert "reduce_atomic_schedule" in found["ops/reduction/total.py"].source
    left = {each.name for each in switches(["ops/layer_norm", "ops/reduction"])}
    assert left == {"fuses", "by_lanes", "many_variants", "most_columns"} <= set(SWITCHES)


@pytest.mark.parametrize(
    ("shape", "kind", "blocks", "cleared_bytes"),
    [
        ((16, 12, 71, 71, 16), "float16", 30, 2 * 16 * 12 * 71 * 71 * 16),  # a map that is added to
        ((16, 12, 71, 71, 16), "float16", 1, 4 * 2 * 12 * 16),  # two sums for each channel
        ((16, 12, 71, 71, 16), "float16", 0, 4 * 2 * 12 * 16),  # nobody knows
        ((16, 12, 71, 71, 16), "float16", 5, 5 * 49152 - 32),
        ((512, 128, 768), "float32", 11, 11 * 49152 - 32),  # two sums of rows
        ((32, 128, 768), "float32", 1, 49152 - 32),
        ((512, 768), "float32", 17, 4 * 512 * 768),
        ((512, 768), "float32", 0, 4 * 512 * 768),
    ],
)
def test_the_blocks_that_clear_tell_how_much(
    shape: tuple[int, ...], kind: str, blocks: int, cleared_bytes: int
) -> None:
    """Source: rows of AtomicAddrClean of the first generation; a block clears 48 KB."""
    task = TaskSpec(
        "AtomicAddrClean", (TensorSpec(shape, kind),), (), {"block_dim": blocks} if blocks else {}
    )
    (kernel,) = kernels_of(load_profile("Ascend910B"), task)
    assert sum(each.nbytes for each in kernel.writes) == pytest.approx(cleared_bytes, abs=4)
    if blocks:
        assert kernel.block_dim == pytest.approx(blocks, abs=2)
