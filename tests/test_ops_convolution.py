"""Convolutions: their geometry, numbers, times and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from npusim.ascendc.windows import Padding, Window
from npusim.ops.convolution import geometry
from npusim.ops.convolution.geometry import Geometry
from npusim.values.errors import KernelError
from support.convolution import in_fractals, in_slices, square
from support.kernels import gm

SIZES = st.integers(1, 40)


def shown(x: tuple[int, ...], weight: tuple[int, ...], y: tuple[int, ...]) -> Geometry:
    """The geometry that shapes show, without attributes."""
    x_map, taps, y_map = (gm(np.zeros(shape, np.float16)) for shape in (x, weight, y))
    return Geometry.of("Conv2D", x_map, taps, y_map, {})


@given(SIZES, SIZES, st.sampled_from([1, 3, 5, 7]), st.sampled_from([1, 2]), SIZES, SIZES)
def test_shapes_show_the_usual_windows(
    high: int, wide: int, kernel: int, stride: int, channels: int, outs: int
) -> None:
    """Of same-sized windows: the stride, and the padding that keeps the middle in the middle."""
    window = square(kernel, stride, kernel // 2)
    assume(min(high, wide) > 2 * kernel)
    x, weight = (1, channels, high, wide), (outs, channels, kernel, kernel)
    y = (1, outs, *window.positions((high, wide)))
    found = shown(*(geometry.feature_map(x, 16), geometry.weight(weight, 16, 16)),
                  geometry.feature_map(y, 16))  # fmt: skip
    assert found.window.kernel == window.kernel
    assert found.window.stride == window.stride
    assert found.window.positions((high, wide)) == y[2:]
    if stride == 1:
        assert found.window == window
    assert (found.depth, found.groups) == (-(-channels // 16) * 16 * kernel**2, 1)


@pytest.mark.parametrize(
    ("attributes", "window"),
    [
        ({}, Window((3, 3), padding=Padding(1, 1, 1, 1))),
        ({"strides": [1] * 4, "pads": [0, 2, 1, 1]}, Window((3, 3), padding=Padding(0, 2, 1, 1))),
        ({"ksize": [9, 1], "pads": [4, 4, 0, 0]}, Window((9, 1), padding=Padding(4, 4, 0, 0))),
        ({"dilations": 2}, Window((3, 3), (1, 1), (2, 2), Padding(2, 2, 2, 2))),
    ],
)  # fmt: skip
def test_attributes_come_before_guesses(attributes: dict[str, object], window: Window) -> None:
    tensors = [np.zeros(shape, np.float16) for shape in ((2, 1, 8, 9, 16), (9, 1, 16, 16))]
    x, weight = map(gm, tensors)
    y = gm(np.zeros((2, 1, 8, 9, 16), np.float16), "y")
    assert Geometry.of("Conv2D", x, weight, y, attributes).window == window


def test_tensors_that_do_not_belong_together_are_refused() -> None:
    with pytest.raises(KernelError, match="NC1HWC0 and FRACTAL_Z are needed"):
        shown((1, 16, 8, 8), (9, 1, 16, 16), (1, 1, 8, 8, 16))
    with pytest.raises(KernelError, match="don't make"):
        shown((1, 1, 8, 8, 16), (1, 1, 16, 16), (1, 1, 9, 9, 16))


@given(st.integers(1, 70), st.integers(1, 70), st.integers(1, 3), st.sampled_from([8, 16, 32]))
def test_storage_shapes_hold_what_is_brought_into_them(
    channels: int, outs: int, kernel: int, lanes: int
) -> None:
    x, weight = np.zeros((2, channels, 3, 4)), np.zeros((outs, channels, kernel, kernel))
    assert geometry.feature_map(x.shape, lanes) == in_slices(x, lanes).shape
    assert geometry.weight(weight.shape, lanes, 16) == in_fractals(weight, lanes).shape


@pytest.mark.parametrize(
    ("shape", "groups", "lanes", "stored"),
    [
        ((32, 1, 3, 3), 32, 16, (18, 1, 16, 16)),  # depthwise: a slice is a packed group
        ((7, 1, 3, 3), 7, 16, (9, 1, 16, 16)),
        ((64, 24, 1, 1), 2, 16, (3, 4, 16, 16)),  # both groups in one weight
        ((64, 32, 1, 1), 2, 16, (4, 2, 16, 16)),
        ((32, 1, 3, 3), 32, 8, (36, 1, 16, 8)),
    ],
)
def test_groups_are_packed_until_slices_are_full(
    shape: tuple[int, ...], groups: int, lanes: int, stored: tuple[int, ...]
) -> None:
    assert geometry.weight(shape, lanes, 16, groups=groups) == stored


def test_few_channels_lie_four_by_four() -> None:
    assert geometry.weight((64, 3, 7, 7), 16, 16, c04=True) == (13, 4, 16, 16)
