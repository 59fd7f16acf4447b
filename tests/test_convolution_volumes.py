"""Conv3D: volumes against a float64 sum over taps, in all runs of planes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from npusim.ascendc import trace
from npusim.hardware import load_profile
from npusim.values.errors import KernelError
from support.convolution import convolved, in_fractals, in_planes, in_slices, windows
from support.kernels import content
from support.tasks import CHIPS, kernels

if TYPE_CHECKING:
    from npusim.ascendc.windows import Window

Array = np.ndarray[Any, Any]


def of_volumes(x: Array, weight: Array, window: Window, depth: tuple[int, int, int]) -> Array:
    """NCDHW with (out channels, channels, depth, rows, columns); depth: stride, before, after."""
    stride, before, after = depth
    padded = np.pad(x, ((0, 0), (0, 0), (before, after), (0, 0), (0, 0)))
    results = (padded.shape[2] - weight.shape[2]) // stride + 1
    planes = []
    for result in range(results):
        taps = range(weight.shape[2])
        seen = (convolved(padded[:, :, result * stride + t], weight[:, :, t], window) for t in taps)
        planes.append(sum(seen))
    return np.stack(planes, axis=2)


def stored(x: Array) -> Array:
    """NCDHW as NDC1HWC0."""
    return np.stack([in_slices(x[:, :, d], 16) for d in range(x.shape[2])], axis=1)


@settings(max_examples=12, deadline=None)
@given(
    windows(),
    st.tuples(st.integers(1, 3), st.integers(1, 6), st.integers(1, 6), st.integers(1, 5)),
    st.tuples(st.integers(1, 3), st.integers(1, 2), st.integers(0, 2), st.integers(0, 2)),
    st.sampled_from([(5, 3), (20, 17)]),
    st.sampled_from(CHIPS),
    st.booleans(),
)
def test_volumes_are_convolved(
    window: Window,
    shape: tuple[int, int, int, int],
    depth: tuple[int, int, int, int],
    channels: tuple[int, int],
    chip: str,
    reference: bool,
) -> None:
    (volumes, planes, *plane), (deep, stride, before, after) = shape, depth
    assume(min(window.positions((plane[0], plane[1]))) > 0)
    assume(max(before, after) < deep <= planes + before + after)
    random = np.random.default_rng(0)
    x = random.integers(-3, 4, (volumes, channels[0], planes, *plane)).astype(np.float16)
    weight = random.integers(-3, 4, (channels[1], channels[0], deep, *window.kernel))
    weight = weight.astype(np.float16)
    wanted = of_volumes(x, weight, window, (stride, before, after))
    fractals = np.concatenate([in_fractals(weight[:, :, t], 16) for t in range(deep)])
    y = np.full(stored(wanted.astype(np.float16)).shape, 77, np.float16)
    said = {
        "ksize": [deep, *window.kernel],
        "strides": [stride, *window.stride],
        "dilations": [1, *window.dilation],
        "pads": [before, after, *window.padding],
    }
    built, outputs = kernels(chip, "Conv3D", [stored(x), fractals], [y], said)
    trace(built[0], load_profile(chip), numerics=True, reference=reference)
    found = content(outputs[0])
    got = np.stack([in_planes(found[:, d], channels[1]) for d in range(found.shape[1])], axis=2)
    np.testing.assert_allclose(got, wanted, rtol=2**-10)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({}, "have to be told"),
        ({"ksize": [1, 1, 1], "pads": [1, 1, 0, 0, 0, 0]}, "see zeros alone"),
        ({"ksize": [1, 1, 1], "dilations": [2, 1, 1]}, "a dilation of the depth"),
        ({"ksize": [1, 1, 1], "strides": [2, 1, 1]}, "don't make"),
    ],
)
def test_what_conv3d_refuses(said: dict[str, object], words: str) -> None:
    x = np.zeros((1, 3, 1, 4, 4, 16), np.float16)
    weight = np.zeros((1, 1, 16, 16), np.float16)
    with pytest.raises(KernelError, match=words):
        kernels("Ascend910B3", "Conv3D", [x, weight], [x], said)
