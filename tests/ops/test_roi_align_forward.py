"""RoI align: bins of boxes filled with the mean of samples between four pixels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npusim import Device, TensorSpec
from npusim.values.errors import KernelError
from support.tasks import CHIPS, cycles, kernels, run

Array = np.ndarray[Any, Any]


def sample(image: Array, y: float, x: float) -> Array:
    """Between four pixels of [channel, row, column]; nothing more than a pixel outside."""
    height, width = image.shape[1:]
    if not (-1 <= y <= height and -1 <= x <= width):
        return np.zeros(len(image))
    y, x = min(max(y, 0), height - 1), min(max(x, 0), width - 1)
    low, left = int(y), int(x)
    high, right = min(low + 1, height - 1), min(left + 1, width - 1)
    down, over = y - low, x - left
    return (
        image[:, low, left] * (1 - down) * (1 - over)
        + image[:, low, right] * (1 - down) * over
        + image[:, high, left] * down * (1 - over)
        + image[:, high, right] * down * over
    )


def pooled(x: Array, boxes: Array, bins: tuple[int, int], each: int, aligned: bool) -> Array:
    """In float64, from corners in float32."""
    out = np.zeros((len(boxes), x.shape[1], *bins))
    for box, (image, *corners) in enumerate(boxes.astype(float)):
        x1, y1, x2, y2 = np.asarray(corners) * 0.5 - (0.5 if aligned else 0)
        if not aligned:
            x2, y2 = max(x2, x1 + 1), max(y2, y1 + 1)
        for row, column in np.ndindex(bins):
            for i, j in np.ndindex(each, each):
                y = y1 + (row * each + i + 0.5) * (y2 - y1) / (bins[0] * each)
                z = x1 + (column * each + j + 0.5) * (x2 - x1) / (bins[1] * each)
                taken = sample(x[int(image)].astype(float), y, z)
                out[box, :, row, column] += taken / each**2
    return out


@settings(max_examples=12, deadline=None)
@given(
    st.tuples(st.integers(1, 2), st.integers(1, 35), st.integers(1, 9), st.integers(1, 9)),
    st.integers(1, 5),
    st.tuples(st.integers(1, 4), st.integers(1, 4)),
    st.integers(1, 3),
    st.booleans(),
    st.sampled_from([np.float32, np.float16]),
    st.sampled_from(CHIPS),
)
def test_bins_are_means_of_samples_between_pixels(
    shape: tuple[int, int, int, int],
    count: int,
    bins: tuple[int, int],
    each: int,
    aligned: bool,
    kind: Any,
    chip: str,
) -> None:
    random = np.random.default_rng(count)
    x = random.standard_normal(shape).astype(kind)
    boxes = np.zeros((count, 5), kind)
    boxes[:, 0] = random.integers(0, shape[0], count)
    corners = np.sort(random.integers(-4, 24, (count, 2, 2)), axis=1) + np.array([[0, 0], [1, 2]])
    boxes[:, 1:] = corners.reshape(count, 4)
    attributes = {"outputHeight": bins[0], "outputWidth": bins[1], "spatial_scale": 0.5}
    (found,) = run(
        chip,
        "ROIAlign",
        [x, boxes],
        [np.zeros((count, shape[1], *bins), kind)],
        **attributes,
        sampling_ratio=each,
        aligned=aligned,
    )
    tolerance = 1e-4 if kind is np.float32 else 1e-2
    expected = pooled(x, boxes, bins, each, aligned)
    np.testing.assert_allclose(found.astype(float), expected, tolerance, tolerance)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("kind", [np.float32, np.float16])
def test_interfaces_place_boxes_on_their_images(chip: str, kind: Any) -> None:
    random, device = np.random.default_rng(1), Device(chip)
    x, images = random.standard_normal((2, 19, 9, 7)).astype(kind), np.array([1, 0, 1], np.int32)
    corners = np.array([[0, 1, 8, 9], [2, 2, 5, 12], [1, 4, 12, 6]], kind)
    boxes = np.concatenate([images[:, None].astype(kind), corners], 1)
    call = {"samplingRatio": 2, "spatialScale": 0.5, "out": np.ones((3, 19, 3, 2), kind)}
    pool = {"pooledHeight": 3, "pooledWidth": 2}
    limit = 1e-4 if kind is np.float32 else 2e-2
    for aligned in (True, False):
        found = device.run("aclnnRoiAlignV2", self=x, boxes=boxes, aligned=aligned, **call, **pool)
        assert found.outputs is not None
        got = found.outputs["out"].astype(float)
        np.testing.assert_allclose(got, pooled(x, boxes, (3, 2), 2, aligned), limit, limit)
    split = {"rois": corners, "batchIndices": images, "outputHeight": 3, "outputWidth": 2}
    again = device.run("aclnnRoiAlign", self=x, mode="avg", **split, **call)
    assert again.outputs is not None
    np.testing.assert_array_equal(again.outputs["out"].astype(float), got)
    for wrong, said in ({"rois": boxes}, "columns"), ({"mode": "min"}, "avg or max"), (
        {"outputWidth": 3}, "out should be"), ({"samplingRatio": -1}, "at least 0"):  # fmt: skip
        status = device.check(
            "aclnnRoiAlign", **{"self": x, "mode": "avg", **split, **call, **wrong}
        )
        assert status.code == 161002
        assert said in status.message
    left = {"boxes": boxes, "aligned": True, **pool, **call, "samplingRatio": 0}
    status = device.check("aclnnRoiAlignV2", self=x, **left)
    assert status.verdict == "unknown"


def test_more_samples_take_longer() -> None:
    x, boxes = np.zeros((1, 32, 20, 20), np.float32), np.zeros((64, 5), np.float32)
    out = np.zeros((64, 32, 7, 7), np.float32)
    times = [
        cycles("Ascend910B2", "ROIAlign", [x, boxes], [out], outputHeight=7, outputWidth=7,
            sampling_ratio=ratio) for ratio in (1, 2, 4)
    ]  # fmt: skip
    assert times[0] < times[1] < times[2]


def test_a_record_has_to_tell_the_bins() -> None:
    x, boxes = np.zeros((1, 32, 20, 20), np.float32), np.zeros((64, 5), np.float32)
    with pytest.raises(KernelError, match="how many bins"):
        kernels("Ascend910B2", "ROIAlign", [x, boxes], [], {})


def test_two_neighbours_are_one_load() -> None:
    """Each of the four pixels of a sample has a neighbour beside it."""
    done = Device("Ascend910B2").estimate(
        "aclnnRoiAlignV2", self=TensorSpec((1, 48, 20, 20), "float32"),
        boxes=TensorSpec((1, 5), "float32"), pooledHeight=3, pooledWidth=2, spatialScale=1.0,
        samplingRatio=2, aligned=True,
    )  # fmt: skip
    pixels = [
        each.bytes
        for each in done.timeline.slices()
        if (each.task, each.pipe) == ("ROIAlign", "MTE2") and each.bytes > 32
    ]
    assert len(pixels) == 2 * 3 * 2 * 2 * 2
    assert set(pixels) == {2 * 48 * 4}
