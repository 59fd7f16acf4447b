"""Images of another size: nearest pixels, their gradient, and between four pixels."""

from __future__ import annotations

from functools import partial
from math import floor, prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npusim.hardware import load_profile
from npusim.ops.resize.by_rows import Shares
from npusim.values.errors import KernelError
from support.reference import observed
from support.tasks import (
    BFLOAT16,
    CHIPS,
    assert_above_roofline,
    assert_tiling_changes_no_number,
    assert_time_needs_no_numbers,
    cycles,
    kernels,
    like,
    run,
)

Array = np.ndarray[Any, Any]
Size = tuple[int, int]

SIZES: list[tuple[Size, Size]] = [
    ((4, 5), (8, 10)),
    ((4, 5), (9, 13)),
    ((12, 9), (5, 4)),
    ((1, 1), (3, 7)),
    ((20, 60), (20, 60)),
    ((7, 6), (1, 1)),
]
CORNERS: list[dict[str, bool]] = [
    {},
    {"align_corners": True},
    {"half_pixel_centers": True},
]


def images(*shape: int, kind: Any = np.float32, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(kind)


def blocked(planar: Array) -> Array:
    """NCHW as NC1HWC0."""
    n, c, h, w = planar.shape
    padded = np.zeros((n, -(-c // 16) * 16, h, w), planar.dtype)
    padded[:, :c] = planar
    return np.ascontiguousarray(padded.reshape(n, -1, 16, h, w).transpose(0, 1, 3, 4, 2))


def nearest_pixel(place: int, inside: int, outside: int, corners: dict[str, bool]) -> int:
    """One source pixel, by the definition and in Python's own arithmetic."""
    aligned = corners.get("align_corners", False)
    scale = (inside - 1) / (outside - 1) if aligned and outside > 1 else inside / outside
    where = (place + 0.5 if corners.get("half_pixel_centers") else place) * scale
    return min(inside - 1, floor(where + 0.5) if aligned else floor(where))


def nearest(x: Array, size: Size, corners: dict[str, bool]) -> Array:
    rows, columns = (
        [nearest_pixel(place, inside, outside, corners) for place in range(outside)]
        for inside, outside in zip(x.shape[2:], size, strict=True)
    )
    return x[:, :, rows][..., columns]


def between(count: int, inside: int, corners: dict[str, bool]) -> Array:
    """The matrix that takes a line of pixels to ``count`` pixels."""
    matrix = np.zeros((count, inside))
    aligned = corners.get("align_corners", False)
    scale = (inside - 1) / (count - 1) if aligned and count > 1 else inside / count
    for place in range(count):
        half = corners.get("half_pixel_centers") and not aligned
        where = max(0.0, (place + 0.5) * scale - 0.5) if half else place * scale
        low = min(inside - 1, int(where))
        matrix[place, low] += 1 - (where - low)
        matrix[place, min(inside - 1, low + 1)] += where - low
    return matrix


def bilinear(x: Array, size: Size, corners: dict[str, bool]) -> Array:
    rows, columns = (
        between(outside, inside, corners) for outside, inside in zip(size, x.shape[2:], strict=True)
    )
    return np.einsum("ph,nchw,qw->ncpq", rows, x.astype(np.float64), columns)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("corners", CORNERS, ids=str)
def test_nearest(chip: str, sizes: tuple[Size, Size], corners: dict[str, bool]) -> None:
    x = images(2, 20, *sizes[0])
    want = nearest(x, sizes[1], corners)
    (got,) = run(chip, "ResizeNearestNeighborV2", [x], [like(want)], **corners)
    np.testing.assert_array_equal(got, want)
    (got,) = run(chip, "ResizeNearestNeighborV2D", [blocked(x)], [like(blocked(want))], **corners)
    np.testing.assert_array_equal(got, blocked(want))


@settings(max_examples=40, deadline=None)
@given(
    inside=st.tuples(st.integers(1, 30), st.integers(1, 30)),
    outside=st.tuples(st.integers(1, 40), st.integers(1, 40)),
    channels=st.integers(1, 33),
    kind=st.sampled_from([np.float16, np.float32]),
    corners=st.sampled_from(CORNERS),
    chip=st.sampled_from(CHIPS),
)
def test_any_size_and_time_by_shapes(
    inside: Size, outside: Size, channels: int, kind: Any, corners: dict[str, bool], chip: str
) -> None:
    x = images(2, channels, *inside, kind=kind)
    want = nearest(x, outside, corners)
    (got,) = run(chip, "ResizeNearestNeighbor", [x], [like(want)], **corners)
    np.testing.assert_array_equal(got, want)
    assert_time_needs_no_numbers(chip, "ResizeNearestNeighbor", [x], [want], **corners)
    packed = blocked(x)
    smooth = blocked(bilinear(x, outside, corners).astype(np.float32))
    (got,) = run(chip, "ResizeBilinearV2", [packed], [like(smooth)], **corners)
    np.testing.assert_allclose(got, smooth, rtol=1e-3, atol=2e-3)
    assert_time_needs_no_numbers(chip, "ResizeBilinearV2", [packed], [smooth], **corners)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 40), st.integers(1, 300), st.integers(1, 900), st.integers(1, 32))
def test_cores_share_planes_rows_and_columns(
    planes: int, height: int, width: int, cores: int
) -> None:
    shares = Shares.of((planes, height, width), cores)
    places = [shares.ranges(block) for block in range(shares.cores)]
    assert shares.cores <= cores
    assert all(count > 0 for ranges in places for _, count in ranges)
    assert sum(prod(count for _, count in ranges) for ranges in places) == planes * height * width


def test_rows_of_float16_take_a_tile_each_where_vbi_blends_them() -> None:
    """Stretches of 128 columns; what finds the next row is paid for however short they are."""
    chip = "Ascend310P3"
    x, corners = images(1, 17, 20, 40, kind=np.float16), {"half_pixel_centers": True}
    for size in ((70, 300), (90, 131)):
        want = blocked(bilinear(x, size, corners).astype(np.float16))
        (got,) = run(chip, "ResizeBilinearV2", [blocked(x)], [like(want)], **corners)
        np.testing.assert_allclose(got, want, rtol=2e-3, atol=2e-3)
    outs = [np.zeros((1, 2, 400, width, 16), np.float16) for width in (16, 128)]
    short, whole = (cycles(chip, "ResizeBilinearV2", [blocked(x)], [out]) for out in outs)
    assert short < whole < 4 * short
    wide = np.zeros((1, 2, 400, 16, 16), np.float32)
    assert cycles(chip, "ResizeBilinearV2", [blocked(x)], [wide]) > short


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_the_gradient_of_nearest_adds_up_what_a_pixel_became(
    chip: str, sizes: tuple[Size, Size]
) -> None:
    inside, outside = sizes
    grad = images(2, 20, *outside)
    want = np.zeros((2, 20, *inside))
    for row in range(outside[0]):
        for column in range(outside[1]):
            h = nearest_pixel(row, inside[0], outside[0], {})
            w = nearest_pixel(column, inside[1], outside[1], {})
            want[..., h, w] += grad[..., row, column]
    zeros = np.zeros(blocked(want).shape, np.float32)
    (got,) = run(chip, "ResizeNearestNeighborV2GradD", [blocked(grad)], [zeros])
    np.testing.assert_allclose(got, blocked(want), rtol=1e-5, atol=1e-5)
    op = "ResizeNearestNeighborV2GradD"
    assert_time_needs_no_numbers(chip, op, [blocked(grad)], [zeros])
    (kernel,), (out,) = kernels(chip, op, [blocked(grad)], [zeros])
    assert [each.buffer for each in kernel.adds_into] == [out.buffer]


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_planar_images_go_by_way_of_blocks_of_channels(sizes: tuple[Size, Size]) -> None:
    """As torch has them: half centres unless told otherwise, bfloat16 in float32."""
    x = images(2, 20, *sizes[0])
    want = bilinear(x, sizes[1], {"half_pixel_centers": True})
    for kind, tolerance in ((np.float32, 1e-5), (BFLOAT16, 3e-2)):
        out = np.zeros(want.shape, kind)
        (got,) = run("Ascend910B3", "ResizeBilinear", [x.astype(kind)], [out])
        np.testing.assert_allclose(got.astype(np.float64), want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("op", ["ResizeNearestNeighborV2", "ResizeBilinearV2"])
def test_tiling_changes_no_number(op: str) -> None:
    x = images(3, 16, 30, 40)
    for chip in CHIPS:
        assert_tiling_changes_no_number(chip, op, [x], [np.zeros((3, 16, 45, 61), np.float32)])


def test_what_isnt_a_resized_image_is_refused() -> None:
    x, chip = images(2, 3, 4, 5), "Ascend910B3"
    cases: list[tuple[str, Array, Array, str]] = [
        ("ResizeNearestNeighborV2", x, images(2, 4, 8, 10), "doesn't become"),
        ("ResizeBilinearV2", x, images(3, 3, 8, 10), "doesn't become"),
        ("ResizeBilinearV2", x.astype(np.int32), x, "blends floats"),
        ("ResizeNearestNeighborV2", images(4, 5), images(8, 10), "no batch of images"),
        ("ResizeNearestNeighborV2GradD", x.astype(np.float16), x, "adds FLOAT"),
    ]
    for op, source, target, reason in cases:
        with pytest.raises(KernelError, match=reason):
            run(chip, op, [source], [target])
    with pytest.raises(KernelError, match="size of the result isn't known"):
        kernels(chip, "ResizeNearestNeighborV2", [x], [])


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("op", ["ResizeNearestNeighborV2", "ResizeBilinearV2"])
def test_larger_images_take_longer_and_nothing_beats_the_roofline(chip: str, op: str) -> None:
    times = []
    for side in (8, 32, 128):
        x = np.zeros((2, 4, side, side, 16), np.float32)
        out = np.zeros((2, 4, 2 * side, 2 * side, 16), np.float32)
        times.append(cycles(chip, op, [x], [out]))
        assert_above_roofline(chip, op, [x], [out])
    assert times == sorted(times)
    assert times[-1] > 3 * times[0]  # the smallest ones mostly wait for their code


@pytest.mark.parametrize("chip", [chip for chip in CHIPS if chip != "Ascend910B3"])
def test_between_four_pixels_every_row_is_blended_twice(chip: str) -> None:
    """Down, then across, where both neighbours of every pixel are gathered first."""
    rows = 9
    x, out = images(1, 1, 4, 5, 16), images(1, 1, rows, 13, 16)
    build = partial(kernels, chip, "ResizeBilinearV2", [x], [out])
    (found,) = observed(build, load_profile(chip), reference=False)
    for name in ("vgatherb", "vsub", "vmuls", "vadd"):
        assert found.instructions["VECTOR", name] == 2 * rows


@pytest.mark.parametrize("kind", [np.float16, np.float32])
def test_vbi_in_float32_blends_halves_of_the_channels(kind: Any) -> None:
    """As many pixels as the largest tile has; the next row's place by ten instructions."""
    rows, chip = 9, "Ascend910B3"
    x, out = images(1, 1, 4, 5, 16, kind=kind), images(1, 1, rows, 13, 16, kind=kind)
    build = partial(kernels, chip, "ResizeBilinearV2", [x], [out])
    (found,) = observed(build, load_profile(chip), reference=False)
    assert found.instructions["VECTOR", "vbi"] == 2 * rows
    assert found.instructions["VECTOR", "vmuls"] == (4 + 1) * rows
    conversions = 2 + 2 * (kind is np.float16)  # of places, of pixels and results
    assert found.instructions["VECTOR", "vconv"] == conversions * rows


def test_planes_and_rows_are_dealt_out_as_recorded() -> None:
    """45 blocks of 910B2 (msprof): 9 of eight planes, 5 of ten rows."""
    x, out = images(1, 72, 27, 27, 16, kind=np.float16), np.zeros((1, 72, 48, 80, 16), np.float16)
    (kernel,), _ = kernels("Ascend910B2", "ResizeBilinearV2", [x], [out])
    assert kernel.block_dim == 45


@pytest.mark.parametrize("chip", CHIPS)
def test_sizes_and_factors_say_what_comes_out(chip: str) -> None:
    x = images(1, 2, 6, 8)
    for said, size in (({"size": [3, 5]}, (3, 5)), ({"scales": [2.0, 1.5]}, (12, 12))):
        (kernel,), _ = kernels(chip, "ResizeNearestNeighborV2", [x], [], said)
        assert kernel.writes[0].shape == (1, 2, *size)
