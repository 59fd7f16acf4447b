"""Padding by numbers and by what is inside, and the gradients, against numpy.pad in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from npusim import Device, TensorSpec
from npusim.values.errors import AclnnError
from support.tasks import CHIPS

A2 = "Ascend910B3"
MODES = {"ReflectionPad": "reflect", "ReplicationPad": "edge", "CircularPad": "wrap"}


def frame(padding: list[int], rank: int) -> list[tuple[int, int]]:
    """What numpy.pad takes: every axis, the first one first."""
    pairs = list(zip(padding[::2], padding[1::2], strict=True))[::-1]
    return [(0, 0)] * (rank - len(pairs)) + pairs


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("name", MODES)
@settings(max_examples=6, deadline=None)
@given(st.data(), st.sampled_from(CHIPS), st.sampled_from([np.float32, np.float16]))
def test_padding_by_what_is_inside(
    name: str, axes: int, data: st.DataObject, chip: str, kind: Any
) -> None:
    api, device = f"aclnn{name}{axes}d", Device(chip)
    if (name, axes) == ("CircularPad", 1):
        return
    spatial = [data.draw(st.integers(2, 9)) for _ in range(axes)]
    padding = [data.draw(st.integers(0, size - 1)) for size in spatial[::-1] for _ in range(2)]
    lead = data.draw(st.sampled_from([(3,), (1, 2), (2, 17)]))
    random = np.random.default_rng(0)
    x = random.integers(-9, 9, (*lead, *spatial)).astype(kind)
    assume(device.check(api, self=x, padding=padding).code == 0)
    around, mode = frame(padding, x.ndim), MODES[name]
    found = device.run(api, self=x, padding=padding).outputs["out"]
    np.testing.assert_array_equal(found, np.pad(x, around, mode=mode))  # type: ignore[call-overload]
    dy = random.integers(-3, 4, found.shape).astype(kind)
    back = {"gradOutput": dy, "self": x, "padding": padding}
    assume(device.check(f"{api}Backward", **back).code == 0)
    numbers = np.arange(x.size).reshape(x.shape)
    copies = np.pad(numbers, around, mode=mode)  # type: ignore[call-overload]
    wanted = np.bincount(copies.reshape(-1), dy.reshape(-1).astype(float), x.size)
    grad = device.run(f"{api}Backward", **back).outputs["gradInput"]
    np.testing.assert_allclose(grad.reshape(-1), wanted, rtol=2**-10)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=4),
    st.data(),
    st.sampled_from([0.0, 3.0, -2.0]),
    st.sampled_from(CHIPS),
    st.sampled_from([np.float32, np.float16, np.int32]),
)
def test_a_frame_of_one_number(
    shape: list[int], data: st.DataObject, value: float, chip: str, kind: Any
) -> None:
    """Negative padding cuts off."""
    axes = data.draw(st.integers(1, len(shape)))
    padding = [data.draw(st.integers(-1, 4)) for _ in range(2 * axes)]
    pairs = frame(padding, len(shape))
    assume(all(size + min(a, 0) + min(b, 0) > 0 for size, (a, b) in zip(shape, pairs, strict=True)))
    x = np.random.default_rng(0).integers(-9, 9, shape).astype(kind)
    found = Device(chip).run("aclnnConstantPadNd", self=x, pad=padding, value=value).outputs["out"]
    kept = x[
        tuple(slice(max(-a, 0), n + min(b, 0)) for n, (a, b) in zip(shape, pairs, strict=True))
    ]
    around = [(max(a, 0), max(b, 0)) for a, b in pairs]
    np.testing.assert_array_equal(found, np.pad(kept, around, constant_values=value))


@pytest.mark.parametrize(
    ("name", "padding", "words"),
    [
        ("ReflectionPad2d", [1, 1, 1], "padding should be 4 numbers"),
        ("ReflectionPad2d", [-1, 0, 0, 0], "padding should be 4 numbers from 0 on"),
        ("ReflectionPad2d", [5, 0, 0, 0], "should be at most 4 along axis -1"),
        ("CircularPad2d", [0, 0, 5, 0], "should be at most 4 along axis -2"),
        ("ReplicationPad3d", [0] * 6, "Expected 4-5 dimension input, but got self"),
    ],
)
def test_what_is_refused(name: str, padding: list[int], words: str) -> None:
    x = TensorSpec((3, 4, 5), "float32")
    with pytest.raises(AclnnError, match="161002") as refused:
        Device(A2).estimate(f"aclnn{name}", self=x, padding=padding)
    assert words in str(refused.value)


def test_more_than_there_is_cant_be_cut_off() -> None:
    x = TensorSpec((3, 4), "float32")
    for pad, words in (([-3, -2], "cuts off more than self"), ([1] * 6, "at most 2 axes")):
        with pytest.raises(AclnnError, match="161002") as refused:
            Device(A2).estimate("aclnnConstantPadNd", self=x, pad=pad, value=0.0)
        assert words in str(refused.value)
