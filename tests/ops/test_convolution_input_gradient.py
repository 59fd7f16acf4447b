"""Gradients of a convolution's input: numbers against float64, tap by tap, and transposed ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npusim.ascendc import trace
from npusim.ascendc.windows import Padding, Window
from npusim.hardware import load_profile
from npusim.ops.convolution.geometry import Geometry
from npusim.ops.convolution.input_gradient import InputGradient
from support.convolution import in_fractals, in_planes, in_slices
from support.convolution_cases import attributes
from support.reference import assert_like_the_reference
from support.tasks import run, tensor

Array = np.ndarray[Any, Any]
CHIPS = ("Ascend910B", "Ascend310P3", "Ascend910B2")


def gradient(dy: Array, weight: Array, window: Window, plane: tuple[int, int]) -> Array:
    """The gradient of NCHW images of ``plane`` in float64, tap by tap."""
    padding, (high, wide) = window.padding, dy.shape[2:]
    images, channels = dy.shape[0], weight.shape[1]
    rows = plane[0] + padding.top + padding.bottom
    columns = plane[1] + padding.left + padding.right
    padded = np.zeros((images, channels, rows, columns))
    (down, right), (below, beside) = window.stride, window.dilation
    for row in range(window.kernel[0]):
        for column in range(window.kernel[1]):
            seen = padded[:, :, row * below :: down, column * beside :: right]
            taps = weight[:, :, row, column].astype(np.float64)
            seen[:, :, :high, :wide] += np.einsum("nohw,oc->nchw", dy.astype(np.float64), taps)
    return padded[:, :, padding.top : padding.top + plane[0], padding.left :][..., : plane[1]]


def kernel_of(
    chip: str, dy: Array, weight: Array, window: Window, plane: tuple[int, int]
) -> InputGradient:
    lanes = 32 // dy.dtype.itemsize
    like = np.zeros((dy.shape[0], weight.shape[1], *plane), dy.dtype)
    given_dy, given_weight = tensor(in_slices(dy, lanes), "dy"), tensor(in_fractals(weight, lanes))
    dx = tensor(in_slices(like, lanes), "dx")
    geometry = Geometry.of("", dx, given_weight, given_dy, attributes(window))
    return InputGradient(load_profile(chip), given_dy, given_weight, dx, geometry)


def normal(rng: np.random.Generator, shape: tuple[int, ...], kind: Any = np.float16) -> Array:
    return rng.standard_normal(shape).astype(kind)


def assert_right(
    chip: str, dy: Array, weight: Array, window: Window, plane: tuple[int, int]
) -> None:
    kernel = kernel_of(chip, dy, weight, window, plane)
    trace(kernel, load_profile(chip), numerics=True)
    found = kernel.y.array
    assert found is not None
    want = gradient(dy, weight, window, plane)
    near = 2e-3 * max(1.0, float(np.abs(want).max(initial=0)))
    np.testing.assert_allclose(in_planes(found, weight.shape[1]), want, rtol=2e-3, atol=near)


def problem(
    rng: np.random.Generator,
    window: Window,
    plane: tuple[int, int],
    sizes: tuple[int, int, int],
    kind: Any = np.float16,
) -> tuple[Array, Array, Window, tuple[int, int]]:
    images, channels, outs = sizes
    dy = normal(rng, (images, outs, *window.positions(plane)), kind)
    return dy, normal(rng, (outs, channels, *window.kernel), kind), window, plane


@st.composite
def problems(draw: st.DrawFn, strides: int) -> tuple[Array, Array, Window, tuple[int, int]]:
    kernel = draw(st.tuples(st.integers(1, 4), st.integers(1, 4)))
    stride, dilation = (
        draw(st.tuples(st.integers(1, most), st.integers(1, most))) for most in (strides, 2)
    )
    plain = Window(kernel, stride, dilation)
    around = (draw(st.integers(0, min(2, plain.extent[axis] - 1))) for axis in (0, 0, 1, 1))
    window = Window(kernel, stride, dilation, Padding(*around))
    plane = (
        window.extent[0] + draw(st.integers(0, 8)),
        window.extent[1] + draw(st.integers(0, 8)),
    )
    sizes = draw(st.integers(1, 5)), draw(st.integers(1, 40)), draw(st.integers(1, 40))
    return problem(np.random.default_rng(draw(st.integers(0, 1 << 30))), window, plane, sizes)


@settings(max_examples=40, deadline=None)
@given(problems(1), st.sampled_from(CHIPS))
def test_numbers_of_any_window(given: Any, chip: str) -> None:
    assert_right(chip, *given)


@settings(max_examples=40, deadline=None)
@given(problems(3), st.sampled_from(CHIPS))
def test_numbers_of_any_stride(given: Any, chip: str) -> None:
    assert_right(chip, *given)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("stride", [(1, 1), (2, 2), (3, 1)])
def test_schedules_compute_what_is_computed_at_once(chip: str, stride: tuple[int, int]) -> None:
    rng = np.random.default_rng(3)
    kinds = (np.float16, np.float32) if chip == "Ascend910B2" else (np.float16,)
    for kind in kinds:
        for kernel, sizes in (
            ((3, 2), (3, 35, 50)),
            ((1, 1), (2, 40, 130)),
            ((5, 5), (1, 17, 300)),
        ):
            window = Window(kernel, stride, (1, 1), Padding(0, *(kernel[0] // 2,) * 3))
            asked = problem(rng, window, (17, 9), sizes, kind)
            assert_right(chip, *asked)

            def build(asked: Any = asked) -> Any:
                kernel = kernel_of(chip, *asked)
                return [kernel], [kernel.y]

            assert_like_the_reference(build, load_profile(chip), rounding=64)


@pytest.mark.parametrize("added", [False, True])
@pytest.mark.parametrize("chip", ["Ascend910B", "Ascend310P3"])
def test_what_is_added_and_kept_of_it(chip: str, added: bool) -> None:
    rng = np.random.default_rng(11)
    window, plane = Window((3, 3), (2, 1), (1, 1), Padding(1, 1, 1, 0)), (13, 10)
    dy, weight, _, _ = problem(rng, window, plane, (3, 48, 40))
    more = normal(rng, (3, 48, *plane))
    bits = rng.integers(0, 256, (3, 3, *plane, 2)).astype(np.uint8)
    want = gradient(dy, weight, window, plane) + (more if added else 0)
    kept = np.unpackbits(bits, axis=-1, bitorder="little")
    inputs = [in_slices(dy, 16), in_fractals(weight, 16), *([in_slices(more, 16)] * added), bits]
    name = f"FusionOp_Conv2DBackpropInput_{'AddN_' * added}ReluGradV2"
    like = np.zeros((3, 3, *plane, 16), np.float16)
    (found,) = run(chip, name, inputs, [like], **attributes(window))
    near = 4e-3 * np.abs(want).max()
    np.testing.assert_allclose(found, in_slices(want, 16) * kept, rtol=4e-3, atol=near)


@pytest.mark.parametrize("chip", CHIPS)
def test_transposed_with_a_bias(chip: str) -> None:
    rng = np.random.default_rng(5)
    window, plane = Window((4, 4), (2, 2), (1, 1), Padding(1, 1, 1, 1)), (12, 16)
    dy, weight, _, _ = problem(rng, window, plane, (2, 32, 24))
    bias = normal(rng, (32,))
    inputs = [np.array([2, 32, 12, 16], np.int32), in_slices(dy, 16), in_fractals(weight, 16), bias]
    like = np.zeros((2, 2, *plane, 16), np.float16)
    (found,) = run(chip, "Conv2DTranspose", inputs, [like], **attributes(window))
    want = gradient(dy, weight, window, plane) + bias.reshape(1, 32, 1, 1)
    near = 4e-3 * np.abs(want).max()
    np.testing.assert_allclose(in_planes(found, 32), want, rtol=4e-3, atol=near)


@pytest.mark.parametrize("chip", CHIPS)
def test_groups_are_products_of_their_own(chip: str) -> None:
    rng = np.random.default_rng(8)
    window, plane = Window((3, 3), (2, 2), (1, 1), Padding(1, 1, 1, 1)), (9, 7)
    parts = [problem(rng, window, plane, (2, 32, 16))[:2] for _ in range(3)]
    dy = np.concatenate([each for each, _ in parts], axis=1)
    fractals = np.concatenate([in_fractals(weight, 16) for _, weight in parts])
    want = np.concatenate([gradient(*each, window, plane) for each in parts], axis=1)
    like = np.zeros((2, 6, *plane, 16), np.float16)
    inputs = [in_slices(dy, 16), fractals]
    (found,) = run(chip, "Conv2DBackpropInput", inputs, [like], **attributes(window))
    near = 4e-3 * np.abs(want).max()
    np.testing.assert_allclose(in_planes(found, 96), want, rtol=4e-3, atol=near)


@pytest.mark.parametrize("chip", CHIPS)
def test_windows_of_one_tap_are_spread_out_on_their_way(chip: str) -> None:
    rng = np.random.default_rng(4)
    for stride, plane in (((2, 2), (28, 14)), ((3, 1), (9, 7)), ((2, 2), (7, 9))):
        asked = problem(rng, Window((1, 1), stride), plane, (3, 40, 33))
        assert_right(chip, *asked)

        def build(asked: Any = asked) -> Any:
            kernel = kernel_of(chip, *asked)
            return [kernel], [kernel.y]

        assert_like_the_reference(build, load_profile(chip), rounding=64)


def test_strides_of_one_tap_multiply_no_zeros() -> None:
    rng = np.random.default_rng(4)
    given = [problem(rng, Window((1, 1), (each, each)), (28, 28), (30, 64, 64)) for each in (1, 2)]
    profile = load_profile("Ascend910B")
    cube = [
        sum(each.cycles * runs for each, runs in group.program.instructions() if each.name == "mad")
        for asked in given
        for group in trace(kernel_of("Ascend910B", *asked), profile, numerics=False)[:1]
    ]
    assert cube[1] < cube[0] / 2


@pytest.mark.parametrize("chip", ["Ascend910B", "Ascend310P3"])
def test_lines_are_worked_on_upright(chip: str) -> None:
    """Sequences of a few samples or of more than a window's longest row: parts of them in L1."""
    rng = np.random.default_rng(3)
    for size, taps, stride in ((37, 7, 3), (40, 16, 8), (33, 3, 1)):
        window = Window((1, taps), (1, stride), (1, 1), Padding(0, 0, taps // 2, taps // 2))
        assert_right(chip, *problem(rng, window, (1, size), (2, 24, 20)))
    long = Window((1, 4), (1, 2), (1, 1), Padding(0, 0, 1, 1))
    assert kernel_of("Ascend310P3", *problem(rng, long, (1, 64_000), (1, 8, 8))).block_dim > 1
