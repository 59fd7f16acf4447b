"""InstanceNorm: numbers against a float64 formula, and what it takes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npusim.values.errors import KernelError
from support.tasks import CHIPS, assert_above_roofline, like, run

Array = np.ndarray[Any, Any]


def normalised(x: Array, gamma: Array, beta: Array, epsilon: float) -> Array:
    """Every plane by itself."""
    wide = x.astype(np.float64)
    axes = tuple(range(2, x.ndim))
    centred = wide - wide.mean(axes, keepdims=True)
    rows = (1, -1, *(1,) * (x.ndim - 2))
    shares = centred / np.sqrt((centred**2).mean(axes, keepdims=True) + epsilon)
    found: Array = shares * gamma.reshape(rows) + beta.reshape(rows)
    return found


@settings(max_examples=25, deadline=None)
@given(
    chip=st.sampled_from(CHIPS),
    images=st.sampled_from([1, 2, 5]),
    channels=st.sampled_from([1, 3, 16, 37]),
    plane=st.sampled_from([(7, 7), (13, 14), (101,), (1,), (3, 5, 4)]),
    kind=st.sampled_from([np.float16, np.float32]),
)
def test_planes_have_mean_zero(
    chip: str, images: int, channels: int, plane: tuple[int, ...], kind: Any
) -> None:
    random = np.random.default_rng(0)
    x = (random.standard_normal((images, channels, *plane)) * 3 + 1).astype(kind)
    gamma, beta = (random.standard_normal(channels).astype(kind) for _ in range(2))
    (found,) = run(chip, "InstanceNorm", [x, gamma, beta], [like(x)], epsilon=1e-3)
    atol = 2e-2 if kind is np.float16 else 2e-4
    np.testing.assert_allclose(found, normalised(x, gamma, beta, 1e-3), atol=atol, rtol=5e-3)


@pytest.mark.parametrize("chip", CHIPS)
def test_planes_larger_than_a_buffer(chip: str) -> None:
    random = np.random.default_rng(1)
    x = random.standard_normal((2, 2, 300, 401)).astype(np.float16)
    gamma, beta = (random.standard_normal(2).astype(np.float16) for _ in range(2))
    (found,) = run(chip, "InstanceNorm", [x, gamma, beta], [like(x)])
    np.testing.assert_allclose(found, normalised(x, gamma, beta, 1e-5), atol=2e-2)
    assert_above_roofline(chip, "InstanceNorm", [x, gamma, beta], [like(x)])


@settings(max_examples=15, deadline=None)
@given(
    chip=st.sampled_from(CHIPS),
    images=st.sampled_from([1, 2, 5, 13]),
    slices=st.sampled_from([1, 3, 4]),
    plane=st.sampled_from([(7, 7), (13, 14), (1, 101), (64, 64)]),
    kind=st.sampled_from([np.float16, np.float32]),
)
def test_images_in_slices_are_summed_and_updated(
    chip: str, images: int, slices: int, plane: tuple[int, int], kind: Any
) -> None:
    """Two kernels for NC1HWC0 give what the one for planes does."""
    random = np.random.default_rng(2)
    x = (random.standard_normal((images, slices, *plane, 16)) * 3 + 1).astype(kind)
    gamma, beta = (random.standard_normal((1, slices, 1, 1, 16)).astype(np.float32) for _ in "gb")
    row = np.zeros((images, slices, 1, 1, 16), np.float32)
    total, squares = run(chip, "INTrainingReduceV2", [x], [row, row])
    wide = x.astype(np.float64)
    np.testing.assert_allclose(total, wide.sum((2, 3), keepdims=True), rtol=1e-3, atol=0.1)
    given = [x, total, squares, gamma, beta]
    y, mean, _ = run(chip, "INTrainingUpdateV2", given, [like(x), row, row], epsilon=1e-3)
    np.testing.assert_allclose(mean, wide.mean((2, 3), keepdims=True), rtol=1e-3, atol=1e-3)
    planar = np.moveaxis(x, -1, 2).reshape(images, slices * 16, *plane)
    want = normalised(planar, gamma.reshape(-1), beta.reshape(-1), 1e-3)
    found = np.moveaxis(y, -1, 2).reshape(want.shape)
    np.testing.assert_allclose(found, want, atol=3e-2 if kind is np.float16 else 3e-3, rtol=5e-3)


def test_a_factor_for_each_channel_is_needed() -> None:
    x, row = np.zeros((2, 3, 4, 4), np.float16), np.zeros(4, np.float16)
    with pytest.raises(KernelError, match="for each channel"):
        run("Ascend310P3", "InstanceNorm", [x, row, row], [x])
