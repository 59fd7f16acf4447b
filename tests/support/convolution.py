"""Convolutions in float64, tap by tap, and tensors in their storage formats."""

from __future__ import annotations

from math import ceil
from typing import Any

import numpy as np
from hypothesis import strategies as st

from npusim.ascendc.windows import Padding, Window

Array = np.ndarray[Any, Any]


def convolved(x: Array, weight: Array, window: Window, groups: int = 1) -> Array:
    """The convolution of NCHW images with (out channels, channels of a group, rows, columns)."""
    images, channels, *_ = x.shape
    padding, (high, wide) = window.padding, window.positions((x.shape[2], x.shape[3]))
    around = ((0, 0), (0, 0), (padding.top, padding.bottom), (padding.left, padding.right))
    padded = np.pad(x.astype(np.float64), around)
    out_of, of = weight.shape[0] // groups, channels // groups
    y = np.zeros((images, weight.shape[0], high, wide))
    for group in range(groups):
        outs, ins = slice(group * out_of, (group + 1) * out_of), slice(group * of, group * of + of)
        for row in range(window.kernel[0]):
            for column in range(window.kernel[1]):
                top, left = row * window.dilation[0], column * window.dilation[1]
                seen = padded[:, ins, top:, left:][:, :, :: window.stride[0], :: window.stride[1]]
                taps = weight[outs, :, row, column].astype(np.float64)
                y[:, outs] += np.einsum("nchw,oc->nohw", seen[:, :, :high, :wide], taps)
    return y


def in_slices(x: Array, lanes: int) -> Array:
    """NCHW as NC1HWC0."""
    images, channels, high, wide = x.shape
    slices = ceil(channels / lanes)
    whole = np.zeros((images, slices * lanes, high, wide), x.dtype)
    whole[:, :channels] = x
    return np.ascontiguousarray(
        whole.reshape(images, slices, lanes, high, wide).transpose(0, 1, 3, 4, 2)
    )


def in_planes(y: Array, channels: int) -> Array:
    """NC1HWC0 as NCHW."""
    images, slices, high, wide, lanes = y.shape
    turned = y.transpose(0, 1, 4, 2, 3).reshape(images, slices * lanes, high, wide)
    return turned[:, :channels]


def in_fractals(weight: Array, lanes: int, high: int = 16) -> Array:
    """(out channels, channels, rows, columns) as FRACTAL_Z, without groups."""
    outs, channels, rows, columns = weight.shape
    slices, blocks = ceil(channels / lanes), ceil(outs / high)
    whole = np.zeros((blocks * high, slices * lanes, rows, columns), weight.dtype)
    whole[:outs, :channels] = weight
    split = whole.reshape(blocks, high, slices, lanes, rows, columns).transpose(2, 4, 5, 0, 1, 3)
    return np.ascontiguousarray(split.reshape(slices * rows * columns, blocks, high, lanes))


def square(kernel: int, stride: int = 1, padding: int = 0, dilation: int = 1) -> Window:
    """A window that treats rows and columns alike."""
    around = Padding(padding, padding, padding, padding)
    return Window((kernel, kernel), (stride, stride), (dilation, dilation), around)


@st.composite
def windows(draw: st.DrawFn) -> Window:
    """Small windows, rows and columns each on their own."""

    def pair() -> tuple[int, int]:
        return draw(st.integers(1, 3)), draw(st.integers(1, 3))

    around = Padding(*(draw(st.integers(0, 2)) for _ in range(4)))
    return Window(pair(), pair(), pair(), around)


def call(shape: tuple[int, ...], outs: int, window: Window, **more: Any) -> dict[str, Any]:
    """Arguments of a convolution of small whole numbers."""
    random, kind = np.random.default_rng(0), more.pop("kind", np.float16)
    line = len(shape) == 3
    kernel = window.kernel[1:] if line else window.kernel
    pads = list(window.padding)
    return {
        "input": random.integers(-3, 4, shape).astype(kind),
        "weight": random.integers(-3, 4, (outs, shape[1], *kernel)).astype(kind),
        "stride": list(window.stride[line:]),
        "padding": pads[2:] if line else pads,
        "dilation": list(window.dilation[line:]),
        "transposed": False,
        "outputPadding": [0] * (len(shape) - 2),
        "groups": 1,
        "cubeMathType": 1,
    } | more
