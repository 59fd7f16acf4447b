"""How Transpose for any shape cuts its work: which way, which tiles, which cores."""

from __future__ import annotations

from collections import Counter
from math import prod
from typing import Any

import numpy as np
import pytest

from npusim.ascendc import trace
from npusim.hardware import load_profile
from npusim.operators.tasks import TaskSpec, kernels_of
from npusim.ops.data_movement.permuting import Transpose
from npusim.values.tensors import TensorSpec
from support.tasks import CHIPS, run

Shape = tuple[int, ...]


def transposed(chip: str, shape: Shape, order: Shape, dtype: str = "float16") -> Transpose:
    after = tuple(shape[axis] for axis in order)
    specs = (TensorSpec(shape, dtype),), (TensorSpec(after, dtype),)
    (kernel,) = kernels_of(load_profile(chip), TaskSpec("Transpose", *specs, {"perm": order}))
    assert isinstance(kernel, Transpose)
    return kernel


def tiles_of_cores(kernel: Transpose) -> list[Counter[Shape]]:
    """Tiles of each core by their extent."""
    assert kernel.division is not None
    found = []
    for block in range(kernel.block_dim):
        tiles: Counter[Shape] = Counter()
        for extent, count in kernel.division.block_kind(block):
            tiles[extent] += count
        found.append(tiles)
    return found


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize(
    ("shape", "order", "kind"),
    [
        ((60, 9, 64), (1, 0, 2), np.float16),  # rows, contiguous where they are loaded
        ((9, 60, 64), (1, 0, 2), np.float16),  # rows, contiguous where they are stored
        ((50, 2, 3, 3072), (0, 2, 1, 3), np.float32),  # more rows of an axis than UB has room for
        ((352, 288), (1, 0), np.float16),  # whole blocks
        ((416, 96), (1, 0), np.int8),
        ((50, 70, 90), (0, 2, 1), np.float16),  # planes
        ((3, 70, 1000), (0, 2, 1), np.float32),  # few planes, and columns
        ((3, 1000, 70), (0, 2, 1), np.float32),  # few planes, and rows
        ((70, 3, 1003), (2, 1, 0), np.float16),  # planes between columns and rows
        ((830, 21), (1, 0), np.int64),  # line by line
    ],
)
def test_each_way_leaves_every_number_in_its_place(
    chip: str, shape: Shape, order: Shape, kind: Any
) -> None:
    x = (np.random.default_rng(0).standard_normal(shape) * 9).astype(kind)
    want = np.ascontiguousarray(x.transpose(order))
    (got,) = run(chip, "Transpose", [x], [np.zeros_like(want)], perm=list(order))
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    ("shape", "tile"),
    [
        ((512, 16, 80), (16, 1, 80)),  # 512 times 16 rows as they lie in the source
        ((16, 512, 80), (1, 16, 80)),  # 512 times 16 rows as they lie in the target
    ],
)
def test_rows_go_along_the_axis_that_leaves_most_tiles(shape: Shape, tile: Shape) -> None:
    found = tiles_of_cores(transposed("Ascend910B2", shape, (1, 0, 2)))
    assert sum(found, Counter()) == {tile: 512}
    assert {sum(each.values()) for each in found} == {10, 11}


def test_no_axis_of_rows_is_cut_for_the_sake_of_idle_cores() -> None:
    """64 times 512 rows are two tiles for 16 of 48 cores, as the vendor's tiling has them."""
    found = tiles_of_cores(transposed("Ascend910B2", (4, 16, 512, 80), (0, 2, 1, 3)))
    assert Counter(each[1, 512, 1, 80] for each in found) == {1: 32, 2: 16}


def test_squares_of_whole_blocks_leave_cores_idle_that_no_factor_has() -> None:
    """21 times 9 tiles and the rest, on 10 times 4 of 48 cores; the last ones get what is left."""
    found = tiles_of_cores(transposed("Ascend910B2", (1152, 3840), (1, 0)))
    assert sum(not each for each in found) == 8
    assert found[0] == {(176, 128): 9}  # three columns of tiles, three rows
    assert found[39] == {(176, 128): 4, (144, 128): 2}
    assert sum(prod(extent) * n for each in found for extent, n in each.items()) == 1152 * 3840


@pytest.mark.parametrize(
    ("planes", "parts"),
    [
        (4, [48, 48, 48, 48, 48, 32, 32, 32, 32, 16]),  # the last one is given what fills a block
        (8, [80, 80, 80, 80, 64]),
    ],
)
def test_few_planes_are_split_by_columns(planes: int, parts: list[int]) -> None:
    """As blocks of 910B4: 10 or 5 cores for each plane of 384 columns, 128 of 256 rows a tile."""
    found = tiles_of_cores(transposed("Ascend910B4", (planes, 256, 384), (0, 2, 1)))
    assert found == [{(1, part, 128): 2} for _ in range(planes) for part in parts]


def test_last_tiles_begin_early_to_be_whole_blocks() -> None:
    """69 columns are 64 and, once more in part, the last 16; 2,049 rows are dealt out in blocks."""
    kernel = transposed("Ascend910B2", (2049, 69), (1, 0))
    assert all(
        size % 16 == 0 for tiles in tiles_of_cores(kernel) for extent in tiles for size in extent
    )
    stored = sum(prod(extent) * n for each in tiles_of_cores(kernel) for extent, n in each.items())
    assert stored > 2049 * 69


@pytest.mark.parametrize("way", [(50, 70, 90), (352, 288)])
def test_tiles_follow_each_other_in_one_buffer(way: Shape) -> None:
    """Nothing is loaded while the tile before it is on its way out."""
    order = (0, 2, 1) if len(way) == 3 else (1, 0)
    kernel = transposed("Ascend910B3", way, order)
    profile = load_profile("Ascend910B3")
    for group in trace(kernel, profile, numerics=False):
        names = Counter[str]()
        for each, times in group.program.instructions():
            names[each.name] += times
        assert names["pipe_barrier"] == names["vnchwconv"]
