"""Gradients of a convolution's weights: numbers against float64, tap by tap."""

from __future__ import annotations

from math import ceil
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npusim.ascendc import trace
from npusim.ascendc.windows import Padding, Window
from npusim.hardware import load_profile
from npusim.ops.convolution.filter_gradient import FilterGradient
from npusim.ops.convolution.filter_tiling import FilterShape, filter_partition
from npusim.runtime.cache_start import new_cache
from npusim.runtime.task import play
from npusim.values.dtypes import FLOAT16
from support import physics, tasks
from support.convolution import in_fractals, in_slices
from support.convolution_cases import attributes
from support.reference import assert_like_the_reference
from support.tasks import tensor

Array = np.ndarray[Any, Any]
CHIPS = ("Ascend910B", "Ascend310P3", "Ascend910B2")


def gradient(x: Array, dy: Array, window: Window) -> Array:
    """The gradient of (out channels, channels, rows, columns) in float64, tap by tap."""
    padding = window.padding
    around = ((0, 0), (0, 0), (padding.top, padding.bottom), (padding.left, padding.right))
    padded = np.pad(x.astype(np.float64), around)
    dw = np.zeros((dy.shape[1], x.shape[1], *window.kernel))
    high, wide = dy.shape[2:]
    (down, right), (below, beside) = window.stride, window.dilation
    for row in range(window.kernel[0]):
        for column in range(window.kernel[1]):
            seen = padded[:, :, row * below :: down, column * beside :: right][:, :, :high, :wide]
            dw[:, :, row, column] = np.einsum("nchw,nohw->oc", seen, dy.astype(np.float64))
    return dw


def kernel_of(chip: str, x: Array, dy: Array, window: Window) -> FilterGradient:
    lanes = 32 // x.dtype.itemsize
    zeros = np.zeros((dy.shape[1], x.shape[1], *window.kernel), np.float32)
    held = tensor(in_fractals(zeros, lanes), "dw")
    given_x, given_dy = tensor(in_slices(x, lanes), "x"), tensor(in_slices(dy, lanes), "dy")
    return FilterGradient(load_profile(chip), given_x, given_dy, held, window)


def run(chip: str, x: Array, dy: Array, window: Window) -> Array:
    kernel = kernel_of(chip, x, dy, window)
    trace(kernel, load_profile(chip), numerics=True)
    found = kernel.dw.array
    assert found is not None
    return found


def normal(rng: np.random.Generator, shape: tuple[int, ...], kind: Any = np.float16) -> Array:
    return rng.standard_normal(shape).astype(kind)


def assert_right(chip: str, x: Array, dy: Array, window: Window) -> None:
    want = in_fractals(gradient(x, dy, window), 32 // x.dtype.itemsize)
    np.testing.assert_allclose(run(chip, x, dy, window), want, rtol=2e-3, atol=2e-3 * want.max())


@st.composite
def problems(draw: st.DrawFn) -> tuple[Array, Array, Window]:
    size = st.integers(1, 9)
    kernel = draw(st.tuples(st.integers(1, 4), st.integers(1, 4)))
    stride, dilation = (draw(st.tuples(st.integers(1, 3), st.integers(1, 2))) for _ in range(2))
    padding = Padding(*(draw(st.integers(0, 2)) for _ in range(4)))
    window = Window(kernel, stride, dilation, padding)
    plane = tuple(
        draw(size) + max(0, window.extent[axis] - padding[2 * axis] - padding[2 * axis + 1])
        for axis in range(2)
    )
    images, channels, outs = (
        draw(st.integers(1, 5)),
        draw(st.integers(1, 40)),
        draw(st.integers(1, 40)),
    )
    rng = np.random.default_rng(draw(st.integers(0, 1 << 30)))
    x = normal(rng, (images, channels, *plane))
    dy = normal(rng, (images, outs, *window.positions((plane[0], plane[1]))))
    return x, dy, window


@settings(max_examples=40, deadline=None)
@given(problems(), st.sampled_from(CHIPS))
def test_numbers_of_any_window(problem: tuple[Array, Array, Window], chip: str) -> None:
    assert_right(chip, *problem)


@pytest.mark.parametrize("chip", CHIPS)
def test_float32_on_a2_and_schedules_that_compute_alike(chip: str) -> None:
    rng = np.random.default_rng(5)
    kinds = (np.float16, np.float32) if chip == "Ascend910B2" else (np.float16,)
    for kind in kinds:
        window = Window((3, 2), (2, 1), (1, 2), Padding(1, 0, 1, 2))
        x = normal(rng, (3, 35, 17, 9), kind)
        dy = normal(rng, (3, 50, *window.positions((17, 9))), kind)
        assert_right(chip, x, dy, window)

        def build(x: Array = x, dy: Array = dy, window: Window = window) -> Any:
            kernel = kernel_of(chip, x, dy, window)
            return [kernel], [kernel.dw]

        assert_like_the_reference(build, load_profile(chip), rounding=64)


@pytest.mark.parametrize("chip", ["Ascend910B", "Ascend310P3"])
def test_results_leave_in_parts_where_gradients_are_made_in_ub(chip: str) -> None:
    """64 rows of 784 sums fill L0C, so that x is unfolded once, but more than half of UB."""
    rng, profile = np.random.default_rng(6), physics.with_cores(chip, 1)
    window = Window((7, 7), (2, 2), (1, 1), Padding(3, 3, 3, 3))
    x = in_slices(normal(rng, (1, 3, 18, 14)), 16)
    grads = in_slices(normal(rng, (1, 64, *window.positions((18, 14)))), 16)
    known = [rng.uniform(0.5, 2.0, (1, 4, 1, 1, 16)).astype(np.float32) for _ in range(5)]
    dw = in_fractals(np.zeros((64, 3, 7, 7), np.float32), 16)

    def build() -> Any:
        outputs = [np.zeros_like(grads), dw.copy()]
        return tasks.kernels(
            profile, "FusedDbnDw", [x, grads, grads, *known], outputs, attributes(window)
        )

    ((kernel,), _) = build()
    blocks = kernel.partition.blocks
    assert (blocks.base_m, blocks.base_n) == (64, 784)
    (group, *_) = trace(kernel, profile, numerics=False)
    taken = [
        (each.transfer.payload_bytes, times)
        for each, times in group.program.instructions()
        if each.transfer is not None and each.transfer.atomic
    ]
    assert sum(nbytes * times for nbytes, times in taken) == 64 * 784 * 4
    assert max(nbytes for nbytes, _ in taken) <= profile.buffers.ub_bytes // 2
    assert_like_the_reference(build, profile, rounding=64)


@pytest.mark.parametrize("chip", ["Ascend910B", "Ascend310P3"])
@pytest.mark.parametrize("size", [3, 7])
def test_gradients_of_a_normalisation_on_their_way(chip: str, size: int) -> None:
    rng = np.random.default_rng(2)
    window = Window((size, size), (2, 2), (1, 1), Padding(1, 1, 1, 1))
    x = normal(rng, (3, 20, 15, 12))
    grads, after = (normal(rng, (3, 48, *window.positions((15, 12)))) for _ in range(2))
    known = [rng.uniform(0.5, 2.0, (1, 3, 1, 1, 16)).astype(np.float32) for _ in range(5)]
    each = [one.reshape(1, 48, 1, 1).astype(np.float64) for one in known]
    diff_scale, diff_offset, scale, mean, variance = each
    count, rstd = after.size / 48, 1 / np.sqrt(variance + 1e-4)
    centred = (after - mean) * rstd * diff_scale / count
    dy = (grads - diff_offset / count - centred) * rstd * scale
    inputs = [in_slices(x, 16), in_slices(grads, 16), in_slices(after, 16), *known]
    dw = in_fractals(np.zeros((48, 20, size, size), np.float32), 16)
    outputs = [np.zeros_like(inputs[1]), dw]
    found = tasks.run(chip, "FusedDbnDw", inputs, outputs, **attributes(window))
    np.testing.assert_allclose(found[0], in_slices(dy, 16), rtol=3e-3, atol=3e-3)
    want = in_fractals(gradient(x, dy.astype(np.float16), window), 16)
    np.testing.assert_allclose(found[1], want, rtol=4e-3, atol=4e-3 * np.abs(want).max())


@pytest.mark.parametrize("chip", CHIPS)
def test_groups_are_products_of_their_own(chip: str) -> None:
    rng = np.random.default_rng(8)
    window = Window((3, 3), (2, 1), (1, 1), Padding(1, 1, 1, 1))
    x = normal(rng, (2, 3 * 32, 9, 7))
    dy = normal(rng, (2, 3 * 16, *window.positions((9, 7))))
    parts = [(x[:, 32 * g : 32 * g + 32], dy[:, 16 * g : 16 * g + 16]) for g in range(3)]
    want = np.concatenate([in_fractals(gradient(*each, window), 16) for each in parts])
    held = np.zeros(want.shape, np.float32)
    inputs = [in_slices(x, 16), None, in_slices(dy, 16)]
    (found,) = tasks.run(chip, "Conv2DBackpropFilter", inputs, [held], **attributes(window))
    np.testing.assert_allclose(found, want, rtol=2e-3, atol=2e-3 * np.abs(want).max())


@pytest.mark.parametrize(("taps", "stride"), [(11, 4), (7, 2), (13, 3)])
def test_large_windows_read_planes_a_few_times(taps: int, stride: int) -> None:
    """Not again for every column of taps: parts are as large as L0 has room for."""
    window, side = Window((taps, taps), (stride, stride)), 67
    high, wide = window.positions((side, side))
    x, dy = np.zeros((8, 8, side, side), np.float32), np.zeros((8, 64, high, wide), np.float32)
    kernel = kernel_of("Ascend910B2", x, dy, window)
    profile = load_profile("Ascend910B2")
    run = play(kernel, profile, new_cache(profile))
    again = ceil(taps / stride)  # rows that two positions see, with one row of these at a time
    parts = ceil(taps * taps * 8 * 4 / (profile.buffers.l0b_bytes / 2 / 16))
    assert run.traffic.read_bytes < 1.3 * (again * parts * x.nbytes + parts * dy.nbytes)


@pytest.mark.parametrize("images", [2, 12, 16, 32, 48, 64])
def test_kernels_for_one_shape_share_images_first(images: int) -> None:
    profile = load_profile("Ascend910B")
    parts = max(count for count in range(1, 33) if images % count == 0)
    for rows, slices, side in ((48, 8, 5), (5, 20, 8), (1, 1, 300), (128, 28, 8)):
        shape = FilterShape(images, rows * 16, slices, (side, side), Window((1, 1)), FLOAT16, 16)
        found = filter_partition(profile, shape)
        assert found.sharers == parts
        assert found.block_dim % parts == 0


def test_channels_are_cut_further_where_two_turns_take_less_than_one() -> None:
    """Two turns of thirds of 16 blocks, on 30 cores; halves would take as long as wholes."""
    profile = load_profile("Ascend910B")
    for rows, slices, blocks in ((12, 12, 48), (4, 3, 48), (24, 28, 48), (10, 10, 16), (8, 32, 16)):
        shape = FilterShape(16, rows * 16, slices, (17, 17), Window((3, 3)), FLOAT16, 16)
        assert filter_partition(profile, shape).block_dim == blocks
        for whole in (32, 64):
            assert filter_partition(profile, shape._replace(images=whole)).block_dim == 32


def test_a_network_whose_tilings_were_searched_for_adds_less() -> None:
    profile = load_profile("Ascend910B")
    layer = FilterShape(32, 128 * 16, 32, (7, 7), Window((1, 1)), FLOAT16, 16)
    assert filter_partition(profile, layer).sharers < 32
    assert filter_partition(profile, layer._replace(images=16)).sharers == 16
    assert filter_partition(profile, layer._replace(plane=(9, 9))).sharers == 32
