"""Conv3D: volumes against a float64 sum over taps, in all runs of planes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from npusim import TensorSpec
from npusim.ascendc import trace
from npusim.ascendc.windows import Window
from npusim.hardware import load_profile
from npusim.operators.tasks import TaskSpec, kernels_of
from npusim.ops.batch_norm_training.update import BNInfer
from npusim.ops.convolution.volumes import Depth
from npusim.values.errors import KernelError
from support.convolution import convolved, in_fractals, in_planes, in_slices, windows
from support.kernels import content
from support.tasks import CHIPS, cycles, kernels, run

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


def test_transposed_convolutions_of_stored_volumes_are_the_transpose() -> None:
    """<conv(x), g> = <x, the transposed convolution of g>, with a bias left out."""
    random = np.random.default_rng(1)
    x = random.integers(-3, 4, (2, 20, 4, 6, 8)).astype(np.float16)
    weight = random.integers(-3, 4, (33, 20, 2, 2, 2)).astype(np.float16)
    window = Window((2, 2), (2, 2))
    wanted = of_volumes(x, weight, window, (2, 0, 0))
    grads = random.integers(-3, 4, wanted.shape).astype(np.float16)
    fractals = np.concatenate([in_fractals(weight[:, :, t], 16) for t in range(2)])
    said = {"ksize": [2] * 3, "strides": [2] * 3, "dilations": [1] * 3, "pads": [0] * 6}
    (found,) = run("Ascend310P3", "Conv3DTranspose", [stored(grads), fractals], [stored(x)], **said)
    got = np.stack([in_planes(found[:, d], 20) for d in range(found.shape[1])], axis=2)
    assert (got.astype(np.float64) * x).sum() == (wanted * grads).sum()


def test_batch_norms_of_volumes_are_those_of_their_slices() -> None:
    chip = load_profile("Ascend310P3")
    rows = [TensorSpec((64,), "float32")] * 4
    shape = (3, 64, 20, 20, 16)
    for x in (
        TensorSpec(shape, "float16", "NC1HWC0"),
        TensorSpec((1, 3, *shape[1:]), "float16", "NDC1HWC0"),
    ):
        (kernel,) = kernels_of(chip, TaskSpec("BNInfer", (x, *rows), (x,)))
        assert isinstance(kernel, BNInfer)
        assert (kernel.planes.batch, kernel.planes.slices, kernel.planes.lanes) == (3, 64, 16)


@pytest.mark.parametrize("deep", [1, 3])
def test_sums_and_relu_are_fused_behind_volumes(deep: int) -> None:
    """The same numbers as one after the other, and less time than both."""
    chip, around = "Ascend310P3", deep // 2
    random = np.random.default_rng(3)
    x = random.integers(-3, 4, (2, 3, 2, 5, 9, 16)).astype(np.float16)
    weight = random.integers(-3, 4, (deep * 2, 1, 16, 16)).astype(np.float16)
    other = random.integers(-9, 10, (2, 3, 1, 5, 9, 16)).astype(np.float16)
    said = {"ksize": [deep, 1, 1], "pads": [around, around, 0, 0, 0, 0]}
    (alone,) = run(chip, "Conv3D", [x, weight], [other], **said)
    (fused,) = run(chip, "FusionOp_Conv3D_Add_Relu", [x, weight, other], [other], **said)
    np.testing.assert_allclose(fused, np.maximum(alone + other, 0), rtol=2**-9)
    (cut,) = run(chip, "FusionOp_Conv3D_Relu", [x, weight], [other], **said)
    np.testing.assert_array_equal(cut, np.maximum(alone, 0))
    wide = np.zeros((4, 8, 2, 56, 56, 16), np.float16)
    made = np.zeros((4, 8, 1, 56, 56, 16), np.float16)
    both = cycles(chip, "FusionOp_Conv3D_Relu", [wide, weight], [made], **said)
    apart = cycles(chip, "Conv3D", [wide, weight], [made], **said)
    assert 0.95 * apart < both < apart + cycles(chip, "Relu", [made], [made])


def test_planes_with_one_tap_are_one_run() -> None:
    assert len(list(Depth(8, 8, 1, 1, 0).runs(0, 24))) == 1
    assert [run.images for run in Depth(8, 4, 1, 2, 0).runs(0, 8)] == [8]
    assert [run.images for run in Depth(8, 8, 3, 1, 1).runs(0, 16)] == [1, 6, 1, 1, 6, 1]


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
