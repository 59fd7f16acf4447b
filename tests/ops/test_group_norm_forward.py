"""GroupNorm forward against its definition in float64."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npusim import Device, TensorSpec
from npusim.hardware import load_profile
from npusim.ops.group_norm.tiling import Tiling
from npusim.values.dtypes import dtype
from npusim.values.errors import KernelError
from support.tasks import (
    BFLOAT16,
    CHIPS,
    assert_above_roofline,
    assert_tiling_changes_no_number,
    assert_time_needs_no_numbers,
    cycles,
    like,
    run,
)

Array = np.ndarray[Any, Any]

EPSILON = 1e-5


def numbers(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def operands(shape: tuple[int, ...], kind: Any = np.float32) -> list[Array]:
    lines = (numbers(shape[1], seed=seed) for seed in (1, 2))
    return [each.astype(kind) for each in (numbers(*shape), *lines)]


def results(x: Array, groups: int) -> list[Array]:
    return [like(x), *(np.zeros(x.shape[0] * groups, x.dtype) for _ in range(2))]


def normalised(inputs: list[Array], groups: int) -> tuple[Array, Array, Array]:
    """The result, mean and reciprocal deviation."""
    x, gamma, beta = (each.astype(np.float64) for each in inputs)
    rows = x.reshape(x.shape[0], groups, -1)
    mean = rows.mean(-1, keepdims=True)
    rstd = 1 / np.sqrt(rows.var(-1, keepdims=True) + EPSILON)
    line = (1, -1, *(1,) * (x.ndim - 2))
    y = ((rows - mean) * rstd).reshape(x.shape) * gamma.reshape(line) + beta.reshape(line)
    return y, mean.ravel(), rstd.ravel()


@settings(max_examples=40, deadline=None)
@given(
    images=st.integers(1, 5),
    groups=st.integers(1, 6),
    channels=st.integers(1, 7),
    spatial=st.lists(st.integers(1, 40), max_size=2),
    chip=st.sampled_from(CHIPS),
)
def test_any_groups_and_time_by_shapes(
    images: int, groups: int, channels: int, spatial: list[int], chip: str
) -> None:
    inputs = operands((images, groups * channels, *spatial))
    outputs = results(inputs[0], groups)
    said = {"num_groups": groups, "epsilon": EPSILON}
    got = run(chip, "GroupNorm", inputs, outputs, **said)
    for ours, want in zip(got, normalised(inputs, groups), strict=True):
        if channels * prod(spatial) > 1:  # of a single element the deviation is epsilon's root
            np.testing.assert_allclose(ours, want, rtol=2e-3, atol=2e-3)
    assert_time_needs_no_numbers(chip, "GroupNorm", inputs, outputs, **said)


@pytest.mark.parametrize("shape", [(3, 9000), (2, 3000, 20), (2, 64, 32)], ids=str)
def test_halves_with_scales_in_float32(shape: tuple[int, ...]) -> None:
    """In UB scales then take more room than x."""
    x, *lines = operands(shape)
    inputs = [x.astype(np.float16), *lines]
    got = run("Ascend910B3", "GroupNormSilu", inputs, results(inputs[0], 4), num_groups=4)[0]
    y = normalised(inputs, 4)[0]
    np.testing.assert_allclose(got, y / (1 + np.exp(-y)), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("kind", [np.float16, BFLOAT16, np.float32])
@pytest.mark.parametrize("shape", [(2, 32, 67, 71), (64, 64, 128), (100, 257)], ids=str)
def test_dtypes(kind: Any, shape: tuple[int, ...]) -> None:
    groups = 1 if shape[1] % 4 else 4
    inputs = operands(shape, kind)
    outputs = results(inputs[0], groups)
    got = run("Ascend910B3", "GroupNorm", inputs, outputs, num_groups=groups)
    tolerance = {np.float16: 4e-3, BFLOAT16: 4e-2, np.float32: 1e-4}[kind]
    want = normalised(inputs, groups)[0]
    np.testing.assert_allclose(got[0].astype(np.float64), want, rtol=tolerance, atol=tolerance)


def test_the_gate_multiplies_by_the_sigmoid() -> None:
    inputs = operands((2, 8, 30))
    outputs = results(inputs[0], 2)
    y = normalised(inputs, 2)[0]
    gated = run("Ascend910B3", "GroupNormSilu", inputs, outputs, num_groups=2)[0]
    np.testing.assert_allclose(gated, y / (1 + np.exp(-y)), rtol=1e-4, atol=1e-4)
    said = {"num_groups": 2, "activate_silu": False}
    plain = run("Ascend910B3", "GroupNormSilu", inputs, outputs, **said)[0]
    np.testing.assert_allclose(plain, y, rtol=1e-4, atol=1e-4)
    times = [
        cycles("Ascend910B3", op, inputs, outputs, num_groups=2)
        for op in ("GroupNorm", "GroupNormSilu")
    ]
    assert times[0] < times[1]


def test_tiling_changes_no_number() -> None:
    inputs = operands((4, 6, 70, 80))
    for chip in CHIPS:
        outputs = results(inputs[0], 3)
        assert_tiling_changes_no_number(chip, "GroupNorm", inputs, outputs, num_groups=3)


def test_groups_that_dont_divide_are_refused() -> None:
    inputs = operands((2, 8, 30))
    for groups, given_lines, reason in (
        (3, inputs, "aren't 3 equal groups"),
        (2, [inputs[0], inputs[1][:4], inputs[2]], "for"),
        (2, [inputs[0][0, :, 0], *inputs[1:]], "has no channels"),
    ):
        with pytest.raises(KernelError, match=reason):
            run("Ascend910B3", "GroupNorm", given_lines, results(inputs[0], 2), num_groups=groups)


@pytest.mark.parametrize("chip", CHIPS)
def test_more_elements_take_longer_and_nothing_beats_the_roofline(chip: str) -> None:
    times = []
    for side in (4, 16, 64, 128):
        inputs = [np.zeros((8, 64, side, side), np.float32), *(np.zeros(64, np.float32),) * 2]
        outputs = results(inputs[0], 8)
        times.append(cycles(chip, "GroupNorm", inputs, outputs, num_groups=8))
        assert_above_roofline(chip, "GroupNorm", inputs, outputs, num_groups=8)
    assert times == sorted(times)


def test_by_its_aclnn_name() -> None:
    x, gamma, beta = operands((2, 8, 30))
    done = Device("Ascend910B3").run(
        "aclnnGroupNorm", self=x, gamma=gamma, beta=beta, N=2, C=8, HxW=30, group=4, eps=EPSILON
    )
    assert done.outputs is not None
    want = normalised([x, gamma, beta], 4)
    for name, each in zip(("out", "meanOut", "rstdOut"), want, strict=True):
        np.testing.assert_allclose(done.outputs[name].ravel(), each.ravel(), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("shape", "groups", "kind", "passes"),
    [
        ((2, 64, 16, 16), 8, "float32", 1),  # a group is a tile
        ((2, 64, 16, 16), 8, "float16", 1),
        ((2, 64, 15, 15), 8, "float32", 2),  # its channels don't start at blocks
        ((2, 64, 64, 64), 8, "float16", 2),  # a group is several tiles
        ((64, 64), 1, "float32", 2),
    ],
    ids=str,
)
def test_a_group_is_read_once_where_it_fits(
    shape: tuple[int, ...], groups: int, kind: str, passes: int
) -> None:
    line = TensorSpec((shape[1],), kind)
    sizes = {"N": shape[0], "C": shape[1], "HxW": prod(shape[2:]), "group": groups, "eps": EPSILON}
    done = Device("Ascend910B2").estimate(
        "aclnnGroupNorm", self=TensorSpec(shape, kind), gamma=line, beta=line, **sizes
    )
    (task,) = done.tasks
    lines = 2 * shape[1] * task.block_dim * dtype(kind).itemsize
    if len(shape) == 2:  # scales and shifts of every group
        lines = 2 * prod(shape) * dtype(kind).itemsize
    read = task.bytes_read - lines
    assert read == pytest.approx(passes * prod(shape) * dtype(kind).itemsize, rel=0.02)


def test_channels_that_share_a_tile_are_faster_than_ones_off_the_blocks() -> None:
    """A tile of many short channels is one load and one store."""
    times = []
    for area in (120, 128):
        inputs = [np.zeros((64, 64, area), np.float32), *(np.zeros(64, np.float32),) * 2]
        off_blocks = [each.astype(np.float16) for each in inputs]
        times.append(
            cycles("Ascend910B2", "GroupNorm", off_blocks, results(off_blocks[0], 4), num_groups=4)
        )
    assert times[1] < 0.8 * times[0]


@settings(max_examples=200, deadline=None)
@given(
    chip=st.sampled_from(CHIPS),
    images=st.integers(1, 300),
    groups=st.integers(1, 64),
    depth=st.integers(1, 300),
    area=st.one_of(st.integers(1, 40), st.integers(1, 30_000)),
    kind=st.sampled_from(["float32", "float16"]),
)
def test_every_group_belongs_to_one_core_and_results_to_whole_blocks(
    chip: str, images: int, groups: int, depth: int, area: int, kind: str
) -> None:
    profile = load_profile(chip)
    shape = (images, groups * depth, area)
    tiling = Tiling.of(profile, shape, groups, dtype(kind), dtype(kind))
    lengths = [tiling.share.length(block) for block in range(tiling.share.cores)]
    assert sum(lengths) == images * groups
    assert min(lengths) > 0
    assert tiling.length == depth * area
    block = profile.buffers.block_bytes // dtype(kind).itemsize
    assert tiling.share.cores == 1 or max(area, depth if area == 1 else 0) >= block
    assert tiling.rows * area <= tiling.tile
    assert tiling.rows == 0 or area % block == 0
    assert tiling.whole is False or tiling.length <= tiling.tile
