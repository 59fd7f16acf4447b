"""Convolutions with what follows them in one kernel, on chips where results pass UB."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from npusim.ascendc import trace
from npusim.hardware import load_profile
from npusim.ops.convolution import geometry
from npusim.ops.convolution.forward import Conv2D
from npusim.values.errors import KernelError
from support.convolution import convolved, in_fractals, in_planes, in_slices, square
from support.kernels import content
from support.tasks import kernels

Array = np.ndarray[Any, Any]
UNIFIED = ["Ascend910A", "Ascend310P3"]


def drawn(images: int, plane: tuple[int, int], outs: int) -> tuple[list[Array], Array]:
    """Storage of images of 16 channels and of a 3 x 3 weight, and the convolution of float16."""
    random = np.random.default_rng(0)
    x = random.integers(-2, 3, (images, 16, *plane)).astype(np.float16)
    weight = random.integers(-2, 3, (outs, 16, 3, 3)).astype(np.float16)
    return [in_slices(x, 16), in_fractals(weight, 16)], convolved(x, weight, square(3, 1, 1))


def computed(
    chip: str, parts: str, inputs: list[Array], outputs: list[Array], *, reference: bool = False
) -> list[Array]:
    built, made = kernels(chip, f"FusionOp_Conv2D_{parts}", inputs, outputs)
    for kernel in built:
        trace(kernel, load_profile(chip), numerics=True, reference=reference)
    return [content(each) for each in made]


@pytest.mark.parametrize("chip", UNIFIED)
@pytest.mark.parametrize("reference", [False, True])
@pytest.mark.parametrize(
    ("images", "plane", "outs"), [(3, (9, 7), 48), (2, (40, 21), 16), (9, (3, 3), 17)]
)
def test_sums_of_batch_normalisation(
    chip: str, reference: bool, images: int, plane: tuple[int, int], outs: int
) -> None:
    inputs, wanted = drawn(images, plane, outs)
    slices = -(-outs // 16)
    y = np.zeros(geometry.feature_map(wanted.shape, 16), np.float16)
    sums = [np.zeros((1, slices, 1, 1, 16), np.float32) for _ in range(2)]
    found, total, squares = computed(
        chip, "BNTrainingReduce", inputs, [y, *sums], reference=reference
    )
    np.testing.assert_array_equal(in_planes(found, outs), wanted)
    for got, power in ((total, 1), (squares, 2)):
        expected = (wanted**power).sum(axis=(0, 2, 3))
        np.testing.assert_allclose(got.reshape(-1)[:outs], expected, rtol=1e-6)


def test_more_images_than_cores_are_summed_in_unequal_parts() -> None:
    """Also halves of images: 31 of 2048 positions, on 30 cores."""
    inputs, wanted = drawn(31, (64, 32), 16)
    y = np.zeros(geometry.feature_map(wanted.shape, 16), np.float16)
    sums = [np.zeros((1, 1, 1, 1, 16), np.float32) for _ in range(2)]
    built, made = kernels("Ascend910B", "FusionOp_Conv2D_BNTrainingReduce", inputs, [y, *sums])
    (kernel,) = built
    assert isinstance(kernel, Conv2D)
    assert (kernel.tiling.grid.images, kernel.tiling.grid.rows) == (11, 2)
    assert kernel.adds_into == tuple(made[1:])
    trace(kernel, load_profile("Ascend910B"), numerics=True)
    np.testing.assert_array_equal(in_planes(content(made[0]), 16), wanted)
    np.testing.assert_allclose(content(made[1]).reshape(-1), wanted.sum(axis=(0, 2, 3)), rtol=1e-6)


@pytest.mark.parametrize("chip", UNIFIED)
@pytest.mark.parametrize(
    ("parts", "others", "formula"),
    [
        ("Relu", 0, lambda y: np.maximum(y, 0)),
        ("AddN", 2, lambda y, a, b: y + a + b),
        ("Add_Relu", 1, lambda y, a: np.maximum(y + a, 0)),
        ("LeakyRelu", 0, lambda y: np.where(y > 0, y, 0.01 * y)),
        ("Mul", 1, lambda y, a: y * a),
    ],
)
@pytest.mark.parametrize("bias", [False, True])
def test_elementwise_parts(chip: str, parts: str, others: int, formula: Any, bias: bool) -> None:
    random = np.random.default_rng(1)
    inputs, wanted = drawn(2, (7, 9), 20)
    y = np.zeros(geometry.feature_map(wanted.shape, 16), np.float16)
    if bias:
        inputs.append(random.integers(-9, 9, 20).astype(np.float16))
        wanted = wanted + inputs[-1].astype(np.float64)[:, None, None]
    tiles = [random.integers(-2, 3, y.shape).astype(np.float16) for _ in range(others)]
    (found,) = computed(chip, parts, [*inputs, *tiles], [y])
    expected = formula(wanted, *(in_planes(each, 20).astype(np.float64) for each in tiles))
    np.testing.assert_allclose(in_planes(found, 20), expected, rtol=2**-10)


def test_what_is_refused() -> None:
    inputs, wanted = drawn(1, (4, 4), 16)
    y = np.zeros(geometry.feature_map(wanted.shape, 16), np.float16)
    sums = [np.zeros((1, 1, 1, 1, 16), np.float32)]
    with pytest.raises(KernelError, match="doesn't fuse vector work"):
        computed("Ascend910B3", "Relu", inputs, [y])
    with pytest.raises(KernelError, match="with two sums per channel"):
        computed("Ascend910A", "BNTrainingReduce", inputs, [y, *sums])
    with pytest.raises(KernelError, match="sums in FLOAT"):
        computed("Ascend910A", "BNTrainingReduce", inputs, [y, *(sums[0].astype(np.float16),) * 2])
