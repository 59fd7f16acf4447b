"""Pooling of plain images by the aclnn interfaces: means, largest elements, and gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from npusim import Device, TensorSpec
from npusim.values.errors import AclnnError
from support.tasks import CHIPS

Array = np.ndarray[Any, Any]
Places = list[tuple[int, ...]]

A2 = "Ascend910B3"


def outs(shape: tuple[int, ...], said: dict[str, Any]) -> list[int]:
    """Windows along each axis; one that would begin in the padding behind is left out."""
    found = []
    each = zip(shape, said["kernelSize"], said["stride"], said["padding"], strict=True)
    for size, window, stride, pad in each:
        room = size + 2 * pad - window
        count = (-(-room // stride) if said["ceilMode"] else room // stride) + 1
        found.append(count - (said["ceilMode"] and (count - 1) * stride >= size + pad))
    return found


def seen(shape: tuple[int, ...], at: tuple[int, ...], said: dict[str, Any]) -> tuple[Places, int]:
    """The elements that a window sees, and how many it has with the padding around the image."""
    ranges, held = [], 1
    each = zip(shape, at, said["kernelSize"], said["stride"], said["padding"], strict=True)
    for size, place, window, stride, pad in each:
        start = place * stride - pad
        end = min(start + window, size + pad)
        ranges.append(range(max(start, 0), min(end, size)))
        held *= end - start
    grid = np.meshgrid(*ranges, indexing="ij")
    return list(zip(*(axis.reshape(-1) for axis in grid), strict=True)), held


def in_planes(x: Array, axes: int) -> Array:
    return x.reshape(-1, *x.shape[x.ndim - axes :]).astype(np.float64)


@st.composite
def images(draw: st.DrawFn, axes: int) -> tuple[Array, dict[str, Any]]:
    """Images of small whole numbers, with or without a batch, and windows over them."""
    spatial = [draw(st.integers(3, 12 if axes == 2 else 6)) for _ in range(axes)]
    shape = (*draw(st.sampled_from([(3,), (1, 2), (2, 17)])), *spatial)
    window = [draw(st.integers(1, 3)) for _ in range(axes)]
    said = {
        "kernelSize": window,
        "stride": [draw(st.integers(1, 3)) for _ in range(axes)],
        "padding": [draw(st.integers(0, size // 2)) for size in window],
        "ceilMode": draw(st.booleans()),
    }
    x = np.random.default_rng(draw(st.integers(0, 99))).permutation(int(np.prod(shape)))
    return (x.reshape(shape) % 97 - 48).astype(np.float32), said


def spelled(axes: int, said: dict[str, Any]) -> dict[str, Any]:
    """The forward form over planes calls two of its lists otherwise."""
    if axes == 3:
        return said
    other = {"stride": "strides", "padding": "paddings"}
    return {other.get(name, name): value for name, value in said.items()} | {"cubeMathType": 0}


@pytest.mark.parametrize("axes", [2, 3])
@settings(max_examples=12, deadline=None)
@given(st.data(), st.booleans(), st.sampled_from([0, 0, 5]), st.sampled_from(CHIPS))
def test_means_of_windows(
    axes: int, data: st.DataObject, padded: bool, divisor: int, chip: str
) -> None:
    x, said = data.draw(images(axes))
    device, more = Device(chip), {"countIncludePad": padded, "divisorOverride": divisor}
    arguments = {"self": x} | spelled(axes, said) | more
    assume(device.check(f"aclnnAvgPool{axes}d", **arguments).code == 0)
    spatial = x.shape[-axes:]
    wanted = np.zeros((in_planes(x, axes).shape[0], *outs(spatial, said)))
    dx, flat = np.zeros(in_planes(x, axes).shape), in_planes(x, axes)
    dy = np.random.default_rng(1).integers(-3, 4, wanted.shape).astype(np.float32)
    for at in np.ndindex(*wanted.shape[1:]):
        places, held = seen(spatial, at, said)
        share = 1 / (divisor or (held if padded else max(1, len(places))))
        for place in places:
            wanted[(slice(None), *at)] += flat[(slice(None), *place)] * share
            dx[(slice(None), *place)] += dy[(slice(None), *at)] * share
    found = device.run(f"aclnnAvgPool{axes}d", **arguments).outputs["out"]
    np.testing.assert_allclose(in_planes(found, axes), wanted, rtol=1e-5, atol=1e-4)
    given_ = {"gradOutput" if axes == 2 else "gradOuput": dy.reshape(found.shape), "self": x}
    back = given_ | said | more | ({"cubeMathType": 0} if axes == 2 else {})
    assume(device.check(f"aclnnAvgPool{axes}dBackward", **back).code == 0)
    (grad,) = device.run(f"aclnnAvgPool{axes}dBackward", **back).outputs.values()
    np.testing.assert_allclose(in_planes(grad, axes), dx, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(
    ("axes", "name"), [(2, "aclnnMaxPool2dWithIndices"), (3, "aclnnMaxPool3dWithArgmax")]
)
@settings(max_examples=12, deadline=None)
@given(st.data(), st.sampled_from(CHIPS))
def test_largest_elements_and_their_places(
    axes: int, name: str, data: st.DataObject, chip: str
) -> None:
    x, said = data.draw(images(axes))
    device, arguments = Device(chip), {"self": x, "dilation": [1] * axes} | said
    assume(device.check(name, **arguments).code == 0)
    spatial, flat = x.shape[-axes:], in_planes(x, axes)
    wanted = np.zeros((len(flat), *outs(spatial, said)))
    where = np.zeros(wanted.shape, np.int64)
    for at in np.ndindex(*wanted.shape[1:]):
        places, _ = seen(spatial, at, said)
        held = np.stack([flat[(slice(None), *place)] for place in places])
        wanted[(slice(None), *at)] = held.max(0)
        numbers = np.array([np.ravel_multi_index(place, spatial) for place in places])
        where[(slice(None), *at)] = numbers[held.argmax(0)]
    found = device.run(name, **arguments).outputs
    np.testing.assert_array_equal(in_planes(found["out"], axes), wanted)
    np.testing.assert_array_equal(in_planes(found["indices"], axes), where)
    dy = np.random.default_rng(1).integers(-3, 4, found["out"].shape).astype(np.float32)
    back = {"gradOutput": dy, "indices": found["indices"]} | arguments
    assume(device.check(f"{name}Backward", **back).code == 0)
    dx = np.zeros((len(flat), int(np.prod(spatial))))
    for plane, (grads, places_) in enumerate(zip(in_planes(dy, axes), where, strict=True)):
        np.add.at(dx[plane], places_.reshape(-1), grads.reshape(-1))
    grad = device.run(f"{name}Backward", **back).outputs["gradInput"]
    np.testing.assert_array_equal(in_planes(grad, axes).reshape(dx.shape), dx)


def even(size: int, out: int) -> list[range]:
    return [range(i * size // out, -(-(i + 1) * size // out)) for i in range(out)]


@pytest.mark.parametrize("axes", [2, 3])
@settings(max_examples=12, deadline=None)
@given(st.data(), st.sampled_from(CHIPS), st.booleans())
def test_windows_that_cover_images_evenly(
    axes: int, data: st.DataObject, chip: str, largest: bool
) -> None:
    spatial = [data.draw(st.integers(1, 9)) for _ in range(axes)]
    size = [data.draw(st.integers(1, 5)) for _ in range(axes)]
    x = np.random.default_rng(0).permutation(6 * int(np.prod(spatial))).astype(np.float32)
    x = x.reshape(2, 3, *spatial)
    device, name = Device(chip), f"aclnnAdaptive{'Max' if largest else 'Avg'}Pool{axes}d"
    assume(device.check(name, self=x, outputSize=size).code == 0)
    windows = [even(*each) for each in zip(spatial, size, strict=True)]
    flat = in_planes(x, axes)
    wanted, dx = np.zeros((6, *size)), np.zeros(flat.shape)
    dy = np.random.default_rng(1).integers(-3, 4, wanted.shape).astype(np.float32)
    for at in np.ndindex(*size):
        box = np.ix_(range(6), *(window[i] for window, i in zip(windows, at, strict=True)))
        held = flat[box]
        rows = held.reshape(6, -1)
        wanted[(slice(None), *at)] = rows.max(1) if largest else rows.mean(1)
        if largest:
            taken = rows == rows.max(1, keepdims=True)
            dx[box] += (taken * dy[(slice(None), *at)][:, None]).reshape(held.shape)
        else:
            share = dy[(slice(None), *at)] / rows.shape[1]
            dx[box] += share.reshape(6, *(1,) * axes)
    found = device.run(name, self=x, outputSize=size).outputs
    first = found["outputOut" if largest else "out"]
    np.testing.assert_allclose(in_planes(first, axes), wanted, rtol=1e-5)
    back: dict[str, Any] = {"gradOutput": dy.reshape(first.shape), "self": x}
    back |= {"indices": found["indicesOut"]} if largest else {}
    assume(device.check(f"{name}Backward", **back).code == 0)
    (grad,) = device.run(f"{name}Backward", **back).outputs.values()
    np.testing.assert_allclose(in_planes(grad, axes), dx, rtol=1e-5, atol=1e-5)


def test_a_plain_pooling_keeps_the_largest_alone() -> None:
    x = np.random.default_rng(0).integers(-9, 9, (2, 3, 6, 8)).astype(np.float32)
    said = {"kernelShape": [2, 2], "strides": [2, 2], "pads": [0, 0, 0, 0], "dilations": [1, 1]}
    found = Device(A2).run("aclnnMaxPool", self=x, autoPad=0, ceilMode=0, **said).outputs["out"]
    np.testing.assert_array_equal(found, x.reshape(2, 3, 3, 2, 4, 2).max((3, 5)))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"kernelSize": [0, 2]}, "at least 1"),
        ({"kernelSize": [2, 2, 2]}, "ksize has 3 entries"),
        ({"paddings": [2, 0]}, "more than half of a window"),
        ({"kernelSize": [20, 2]}, "doesn't fit into 9 elements"),
        ({"self": TensorSpec((9, 9), "float32")}, "Expected 3-4 dimension input"),
        ({"out": TensorSpec((2, 3, 9, 9), "float32")}, "out should have the shape [2, 3, 5, 5]"),
    ],
)
def test_what_is_refused(changed: dict[str, Any], words: str) -> None:
    x = TensorSpec((2, 3, 9, 9), "float32")
    said = {"kernelSize": [3, 3], "stride": [2, 2], "padding": [1, 1], "ceilMode": False}
    said |= {"countIncludePad": True, "divisorOverride": 0}
    with pytest.raises(AclnnError, match="161002") as refused:
        Device(A2).estimate("aclnnAvgPool2d", **{"self": x} | spelled(2, said) | changed)
    assert words in str(refused.value)


def test_more_planes_never_take_less_and_a_large_call_is_quick() -> None:
    said = {"kernelSize": [3, 3], "stride": [2, 2], "padding": [1, 1], "ceilMode": False}
    times = [
        Device(A2)
        .estimate(
            "aclnnMaxPool2dWithIndices",
            self=TensorSpec((images_, 64, 112, 112), "float32"),
            dilation=[1, 1],
            **said,
        )
        .duration_us
        for images_ in (1, 8, 64)
    ]
    assert times == sorted(times)
    moved = 64 * 64 * 112 * 112 * 4 * 1.5
    assert times[-1] > moved / 1.8e6  # bytes per us of HBM


@settings(max_examples=20, deadline=None)
@given(
    st.tuples(*[st.integers(1, 3)] * 2),
    st.tuples(*[st.integers(1, 3)] * 2),
    st.tuples(*[st.integers(0, 3)] * 2),
    st.tuples(*[st.integers(1, 2)] * 2),
    st.sampled_from([(3,), (2, 1), (1, 17)]),
    st.sampled_from(CHIPS),
    st.sampled_from([np.float32, np.float16]),
)
def test_windows_side_by_side(
    window: tuple[int, int],
    stride: tuple[int, int],
    pad: tuple[int, int],
    dilation: tuple[int, int],
    lead: tuple[int, ...],
    chip: str,
    kind: Any,
) -> None:
    """Tap by tap and window by window, and their gradients added up again."""
    x = np.random.default_rng(0).integers(-4, 5, (*lead, 7, 6)).astype(kind)
    wide = np.pad(x.astype(float), [(0, 0)] * len(lead) + [(pad[0],) * 2, (pad[1],) * 2])
    extent = [(w - 1) * d + 1 for w, d in zip(window, dilation, strict=True)]
    rows, columns = (
        (size - e) // s + 1 for size, e, s in zip(wide.shape[-2:], extent, stride, strict=True)
    )
    held, total = np.zeros((*lead, *window, rows, columns)), np.zeros(wide.shape)
    dy = np.random.default_rng(1).integers(-3, 4, held.shape).astype(kind)
    for i, j in np.ndindex(*window):
        top, left = i * dilation[0], j * dilation[1]
        seen = (
            ...,
            slice(top, top + (rows - 1) * stride[0] + 1, stride[0]),
            slice(left, left + (columns - 1) * stride[1] + 1, stride[1]),
        )
        held[..., i, j, :, :] = wide[seen]
        total[seen] += dy[..., i, j, :, :]
    lists = {"kernelSize": list(window), "stride": list(stride)}
    lists |= {"padding": list(pad), "dilation": list(dilation)}
    device = Device(chip)
    assume(device.check("aclnnIm2col", self=x, **lists).code == 0)
    found = device.run("aclnnIm2col", self=x, **lists).outputs["out"]
    shape = (*lead[:-1], lead[-1] * window[0] * window[1], rows * columns)
    np.testing.assert_array_equal(found, held.reshape(shape))
    back = {"gradOutput": dy.reshape(shape), "inputSize": [7, 6]} | lists
    assume(device.check("aclnnIm2colBackward", **back).code == 0)
    grad = device.run("aclnnIm2colBackward", **back).outputs["out"]
    inside = total[..., pad[0] : pad[0] + 7, pad[1] : pad[1] + 6]
    np.testing.assert_allclose(grad, inside, rtol=2**-10)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"kernelSize": [2]}, "ksize should be two numbers from 1 on"),
        ({"inputSize": [2, 2, 2]}, "inputSize should be two positive numbers"),
        ({"inputSize": [9, 4]}, "gradOutput should end with a multiple of 4, 24"),
    ],
)
def test_windows_that_dont_fit_are_refused(changed: dict[str, Any], words: str) -> None:
    said = {"gradOutput": TensorSpec((1, 8, 9), "float32"), "inputSize": [4, 4]}
    said |= {"kernelSize": [2, 2], "stride": [1, 1], "padding": [0, 0], "dilation": [1, 1]}
    with pytest.raises(AclnnError, match="161002") as refused:
        Device(A2).estimate("aclnnIm2colBackward", **said | changed)
    assert words in str(refused.value)
