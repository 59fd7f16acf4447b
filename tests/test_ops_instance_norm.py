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


def test_a_factor_for_each_channel_is_needed() -> None:
    x, row = np.zeros((2, 3, 4, 4), np.float16), np.zeros(4, np.float16)
    with pytest.raises(KernelError, match="for each channel"):
        run("Ascend310P3", "InstanceNorm", [x, row, row], [x])
