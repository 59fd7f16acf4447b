"""Sums of batch normalisation per channel, over batch, height and width, against float64."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np
import pytest

from npusim import Device
from npusim.ascendc import GlobalTensor, GmBuffer
from npusim.ascendc.task import Task
from npusim.hardware import load_profile
from npusim.ops.batch_norm_training.cut import lines_of_tile
from npusim.ops.batch_norm_training.gradient import BNTrainingReduceGrad
from npusim.ops.batch_norm_training.loading import PlaneKernel
from npusim.ops.batch_norm_training.sums import BNTrainingReduce, BNTrainingUpdateGrad
from npusim.ops.batch_norm_training.update import BNTrainingUpdate
from npusim.runtime.task import run_tasks
from npusim.values.dtypes import FLOAT
from support.tasks import CHIPS, cycles, run


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("shape", [(1, 2, 3, 5, 16), (3, 1, 5, 7, 16), (100, 2, 3, 3, 16)])
def test_sums_and_sums_of_squares(chip: str, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    empty = np.zeros((1, shape[1], 1, 1, 16), np.float32)
    total, squares = run(chip, "BNTrainingReduce", [x], [empty, empty.copy()])
    wide = x.astype(np.float64)
    np.testing.assert_allclose(total, wide.sum((0, 2, 3), keepdims=True), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(squares, (wide**2).sum((0, 2, 3), keepdims=True), rtol=1e-4)


_RAGGED = [
    (1, 1, 1, 1), (1, 3, 7, 7), (2, 5, 13, 13), (16, 32, 7, 7), (16, 16, 14, 14), (29, 2, 19, 19),
    (31, 3, 5, 5), (32, 33, 14, 14), (5, 7, 33, 33), (1, 2, 65, 65), (7, 61, 3, 2), (8, 16, 30, 7),
]  # fmt: skip
_TENSORS = {  # maps and rows of numbers that go in, those that come out
    BNTrainingReduce: (1, 0, 0, 2),
    BNTrainingUpdateGrad: (2, 2, 0, 2),
    BNTrainingReduceGrad: (2, 5, 1, 0),
    BNTrainingUpdate: (1, 6, 1, 4),
}


def _made(chip: str, kernel: type[PlaneKernel], shape: tuple[int, int, int, int]) -> PlaneKernel:
    """A kernel on float32 planes [N, C1, H, W] of 16 lanes."""

    def tensor(*sizes: int) -> GlobalTensor:
        return GlobalTensor(GmBuffer("x", prod(sizes) * FLOAT.itemsize), FLOAT, sizes)

    maps, rows, maps_out, rows_out = _TENSORS[kernel]
    x, row = tensor(*shape, 16), tensor(1, shape[1], 1, 1, 16)
    given, made = (x,) * maps + (row,) * rows, (x,) * maps_out + (row,) * rows_out
    (found,) = kernel.from_task(Task(load_profile(chip), kernel.op_type, given, made, {}))
    assert isinstance(found, PlaneKernel)
    return found


@pytest.mark.parametrize("shape", _RAGGED)
@pytest.mark.parametrize("kernel", _TENSORS)
@pytest.mark.parametrize("chip", ["Ascend910A", "Ascend910B", "Ascend910B3"])
def test_every_row_of_every_plane_is_one_blocks(
    chip: str, kernel: type[PlaneKernel], shape: tuple[int, int, int, int]
) -> None:
    batch, slices, height, width = shape
    cut = _made(chip, kernel, shape).cut
    seen = np.zeros((batch, slices, height * width), int)
    for block in range(cut.block_dim):
        share = cut.share(block)
        batches = slice(share.first_batch, share.first_batch + share.batches)
        pieces = slice(share.first_slice, share.first_slice + share.slices)
        seen[batches, pieces, share.first_row : share.first_row + share.rows] += 1
    assert (seen == 1).all()


@pytest.mark.parametrize(
    ("kernel", "shape", "blocks", "working"),
    [
        (BNTrainingUpdate, (32, 16, 20, 20), 30, 16),  # the batch, a core two of it
        (BNTrainingUpdate, (16, 2, 160, 160), 2, 2),  # the slices, one for a core
        (BNTrainingUpdate, (16, 32, 7, 7), 30, 16),
        (BNTrainingReduce, (16, 16, 20, 20), 16, 16),
        (BNTrainingReduce, (64, 32, 20, 20), 16, 16),
        (BNTrainingUpdateGrad, (64, 32, 20, 20), 30, 16),
        (BNTrainingReduceGrad, (64, 8, 40, 40), 30, 22),
    ],
)
def test_blocks_of_a_launch_and_those_with_work(
    kernel: type[PlaneKernel], shape: tuple[int, int, int, int], blocks: int, working: int
) -> None:
    cut = _made("Ascend910B", kernel, shape).cut
    assert cut.block_dim == blocks
    assert sum(cut.share(block).rows > 0 for block in range(blocks)) == working


@pytest.mark.parametrize("shape", [(32, 16, 20, 20), (31, 3, 13, 13), (16, 101, 7, 7)])
def test_blocks_without_work_keep_nobody_waiting(shape: tuple[int, int, int, int]) -> None:
    """They are handed out while the others are at work."""
    profile = load_profile("Ascend910B")
    kernel = _made("Ascend910B", BNTrainingUpdateGrad, shape)
    assert kernel.block_dim == 30
    many = run_tasks([kernel], profile).duration_us
    kernel.cut = replace(kernel.cut, launched=0)
    kernel.block_dim = kernel.cut.block_dim
    assert kernel.block_dim < 30
    assert run_tasks([kernel], profile).duration_us == pytest.approx(many, rel=1e-3)


def test_lines_of_a_tile_divide_the_plane_unless_few_would() -> None:
    cases = {(56, 12): 8, (35, 19): 19, (147, 4): 3, (149, 4): 4, (71, 9): 9, (8, 8): 8}
    for (lines, fitting), expected in cases.items():
        assert lines_of_tile(lines, fitting, exact=False) == expected
        assert lines % lines_of_tile(lines, fitting, exact=True) == 0
    assert lines_of_tile(71, 9, exact=True) == 1


def test_planes_of_a_prime_height_go_by_line_by_line() -> None:
    """73 lines have no tile of several that divides them, 72 have."""

    def rows(size: int) -> int:
        return _made("Ascend910B", BNTrainingUpdateGrad, (16, 5, size, size)).tile_rows

    assert (rows(73), rows(72), rows(17)) == (73, 4 * 72, 17 * 17)


def test_masks_that_end_inside_blocks_of_others_take_tile_after_tile() -> None:
    """Planes of 15 by 16 pixels end with a block of the mask, those of 15 by 15 don't."""

    def taken(width: int) -> float:
        shape, row = (16, 2, 15, width, 16), np.zeros((1, 2, 1, 1, 16), np.float32)
        x = np.zeros(shape, np.float16)
        made = [x, np.zeros((16, 2, 15, width, 2), np.uint8), *[row] * 4]
        return cycles("Ascend910B", "FusionOp_BNTrainingUpdate_ReLUV2", [x, *[row] * 6], made)

    assert taken(15) > 1.5 * taken(16)


def test_small_planes_go_together_where_cores_share_the_batch() -> None:
    """As lines of a plane do: as many as divide the slices, unless that is less than half."""

    def together(*shape: int) -> int:
        kernel = _made("Ascend910B", BNTrainingUpdate, (shape[0], shape[1], shape[2], shape[3]))
        assert isinstance(kernel, BNTrainingUpdate)
        return kernel.together

    # 336 pixels of float32 fit: six planes of 7 by 7, one of 14 by 14.
    assert [together(32, 28, 7, 7), together(32, 7, 7, 7), together(32, 16, 14, 14)] == [4, 6, 1]
    assert together(16, 31, 7, 7) == 1


@pytest.mark.parametrize("chip", ["Ascend910B3", "Ascend910A"])
def test_statistics_of_nothing(chip: str) -> None:
    """The host fills them in: a mean of 0, and no deviation."""
    found = Device(chip).run("aclnnBatchNormStats", input=np.zeros((0, 3, 4), np.float32), eps=1e-5)
    assert found.outputs is not None
    np.testing.assert_array_equal(found.outputs["mean"], np.zeros(3))
    assert np.isnan(found.outputs["invstd"]).all()
