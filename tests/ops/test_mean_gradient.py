"""Gradients of means of windows: numbers, how planes are shared, and what a record tells."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npusim import TensorSpec
from npusim.hardware import load_profile
from npusim.operators.tasks import TaskSpec, kernels_of
from npusim.values.errors import KernelError
from npusim.values.formats import Format
from support import tasks
from support.tasks import assert_above_roofline, cycles, kernels, run

Array = np.ndarray[Any, Any]

_UB_TO_L1 = ("Ascend910A", "Ascend310P3")  # chips with a way from UB to L1


def half(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).integers(-8, 9, shape).astype(np.float16) / np.float16(8)


def weights(slices: int, high: int, wide: int, seed: int = 3) -> Array:
    """Numbers on the diagonals of fractals, different ones for every channel and tap."""
    found = np.zeros((slices, high, wide, 1, 16, 16), np.float16)
    lanes = np.arange(16)
    found[..., 0, lanes, lanes] = half(seed, slices, high, wide, 16)
    return found


def shared_out(
    grads: Array, share: Array, weight: Array, dx: Array, stride: int, pad: int
) -> Array:
    """Every gradient added to the elements of its window, window by window in float64."""
    _, _, high, wide = grads.shape[:4]
    rows, columns = weight.shape[1:3]
    total = np.zeros((*dx.shape[:2], dx.shape[2] + 2 * pad, dx.shape[3] + 2 * pad, 16))
    part = (grads * share).astype(np.float64)  # in halves, as UB has them
    # The window moves over dx in the order of its taps, over the gradients in reverse.
    factors = np.einsum("chwll->chwl", weight[:, ::-1, ::-1, 0].astype(np.float64))
    for row, column in np.ndindex(high, wide):
        here = np.s_[
            :, :, row * stride : row * stride + rows, column * stride : column * stride + columns
        ]
        total[here] += part[:, :, row : row + 1, column : column + 1] * factors[None]
    return total[:, :, pad : pad + dx.shape[2], pad : pad + dx.shape[3]]


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(_UB_TO_L1), st.integers(1, 3), st.integers(1, 3), st.integers(4, 40),
    st.sampled_from([(3, 1, 1), (5, 1, 2), (3, 2, 0), (3, 2, 1), (2, 2, 0), (5, 3, 0), (4, 1, 0)]),
)  # fmt: skip
def test_numbers(chip: str, images: int, slices: int, size: int, how: tuple[int, int, int]) -> None:
    kernel, stride, pad = how
    if size + 2 * pad < kernel:
        return
    out = (size + 2 * pad - kernel) // stride + 1
    grads, share = (half(seed, images, slices, out, out, 16) for seed in (1, 2))
    weight = weights(slices, kernel, kernel)
    dx = tasks.like(np.zeros((images, slices, size, size, 16), np.float16))
    said = {"strides": [1, 1, stride, stride], "pads": [pad] * 4}
    if (out, kernel) == (1, size):
        return
    (found,) = run(chip, "AvgPoolGradVm", [grads, share, weight], [dx], **said)
    wanted = shared_out(grads, share, weight, dx, stride, pad)
    np.testing.assert_allclose(found, wanted, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize(("high", "wide", "stride"), [(67, 90, 1), (61, 123, 2), (130, 40, 3)])
def test_planes_larger_than_what_l1_and_ub_hold_at_a_time(
    high: int, wide: int, stride: int
) -> None:
    outs = [(size - 3) // stride + 1 for size in (high, wide)]
    grads, share = (half(seed, 2, 1, *outs, 16) for seed in (1, 2))
    dx = tasks.like(np.zeros((2, 1, high, wide, 16), np.float16))
    said = {"strides": [1, 1, stride, stride], "pads": [0] * 4}
    (found,) = run("Ascend910A", "AvgPoolGradVm", [grads, share, weights(1, 3, 3)], [dx], **said)
    wanted = shared_out(grads, share, weights(1, 3, 3), dx, stride, 0)
    np.testing.assert_allclose(found, wanted, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("shape", [(2, 3, 7, 5), (40, 2, 9, 9), (1, 1, 3, 2), (2, 4000, 6, 6)])
def test_a_whole_plane_gets_its_mean(shape: tuple[int, ...]) -> None:
    grads = half(1, *shape[:2], 1, 1, 16)
    dx = tasks.like(np.zeros((*shape, 16), np.float16))
    (found,) = run("Ascend910A", "AvgPoolGradD", [grads], [dx])
    wanted = np.broadcast_to(grads.astype(np.float64) / (shape[2] * shape[3]), dx.shape)
    np.testing.assert_allclose(found, wanted, rtol=2e-3)


def test_planes_are_shared_as_evenly_as_images_and_slices_can_be() -> None:
    """As profiled: 16 images and 12, 48 and 80 slices on 30 cores."""
    for slices, blocks in ((12, 30), (16, 30), (48, 28), (80, 30), (128, 30), (1, 16)):
        grads = np.zeros((16, slices, 8, 8, 16), np.float16)
        (kernel,), _ = kernels(
            "Ascend910B", "AvgPoolGradVm", [grads, grads, weights(slices, 3, 3)], [grads]
        )
        assert kernel.block_dim == blocks


def test_large_planes_come_in_parts_and_nothing_is_faster_than_memory() -> None:
    for size in (31, 147):
        grads = half(1, 1, 2, size, size, 16)
        given = [grads, grads, weights(2, 3, 3)]
        assert_above_roofline("Ascend910A", "AvgPoolGradVm", given, [grads])
    one, two = (
        cycles("Ascend910A", "AvgPoolGradVm", [each, each, weights(2, 3, 3)], [each])
        for each in (half(1, 1, 2, size, size, 16) for size in (146, 147))
    )
    assert one <= two < 1.1 * one


def test_what_a_record_lacks_or_has_wrong_is_said() -> None:
    profile = load_profile("Ascend910B")
    grads, weight = TensorSpec((2, 3, 8, 8, 16), "float16"), (3, 3, 3, 1, 16, 16)
    fractals = TensorSpec(weight, "float16", "C1HWNCoC0")
    assert fractals.format is Format.C1HWNCOC0
    assert fractals.format.is_private
    good = TaskSpec("AvgPoolGradVm", (grads, grads, fractals), (grads,))
    assert len(kernels_of(profile, good)) == 1
    other = TensorSpec((4, *weight[1:]), "float16")
    for tensors, problem in (
        ((grads, grads), "weights in C1HWNCoC0 are needed"),
        ((grads, TensorSpec((2, 3, 4, 4, 16), "float16"), fractals), "shares like the gradients"),
        ((grads, grads, other), "don't make|weights"),
        ((TensorSpec((2, 3, 8, 8, 16), "float32"), grads, fractals), "FLOAT16"),
    ):
        with pytest.raises(KernelError, match=problem):
            kernels_of(profile, TaskSpec("AvgPoolGradVm", tensors, (grads,)))
    with pytest.raises(KernelError, match="no way from UB to L1"):
        kernels_of(load_profile("Ascend910B3"), good)
