"""Upsampling by every rule, and gradients, against weights worked out pixel by pixel."""

from __future__ import annotations

from math import floor
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from npusim import Device, TensorSpec
from npusim.values.errors import AclnnError
from support.tasks import CHIPS

Array = np.ndarray[Any, Any]

A2 = "Ascend910B3"


def cubic(x: float, a: float) -> float:
    x = abs(x)
    if x <= 1:
        return (a + 2) * x**3 - (a + 3) * x**2 + 1
    return a * x**3 - 5 * a * x**2 + 8 * a * x - 4 * a if x < 2 else 0.0


def triangle(x: float) -> float:
    return max(0.0, 1 - abs(x))


def matrix(rule: str, inside: int, out: int, align: bool) -> Array:
    """What each pixel of a result takes of each pixel, one after the other."""
    found = np.zeros((out, inside))
    step = inside / out
    if align:
        step = (inside - 1) / (out - 1) if out > 1 else 0.0
    for i in range(out):
        centre = i * step if align else (i + 0.5) * step - 0.5
        if rule == "nearest":
            found[i, min(floor(i * inside / out + 1e-9), inside - 1)] += 1
        elif rule == "exact":
            found[i, min(floor((i + 0.5) * inside / out + 1e-9), inside - 1)] += 1
        elif rule == "linear":
            place = max(centre, 0.0)
            low = min(floor(place), inside - 1)
            found[i, low] += 1 - (place - low)
            found[i, min(low + 1, inside - 1)] += place - low
        elif rule == "cubic":
            low = floor(centre)
            for tap in range(low - 1, low + 3):
                found[i, min(max(tap, 0), inside - 1)] += cubic(centre - tap, -0.75)
        else:
            wide, reach = max(step, 1.0), 1.0 if rule == "linear_aa" else 2.0
            middle = step * (i + 0.5)
            first = max(int(middle - reach * wide + 0.5), 0)
            behind = min(int(middle + reach * wide + 0.5), inside)
            for tap in range(first, behind):
                far = (tap - middle + 0.5) / wide
                found[i, tap] += triangle(far) if rule == "linear_aa" else cubic(far, -0.5)
            found[i] /= found[i].sum()
    return found


def applied(x: Array, matrices: list[Array]) -> Array:
    found = x.astype(np.float64)
    for axis, each in enumerate(matrices):
        found = np.moveaxis(np.tensordot(each, found, (1, 2 + axis)), 0, 2 + axis)
    return found


# Name behind aclnnUpsample, its rule, spatial axes, whether corners may be aligned, and its input.
FORWARD = [
    ("Nearest1d", "nearest", 1, False, "self"),
    ("Nearest2dV2", "nearest", 2, False, "self"),
    ("Nearest3d", "nearest", 3, False, "self"),
    ("NearestExact1d", "exact", 1, False, "self"),
    ("NearestExact2d", "exact", 2, False, "self"),
    ("NearestExact3d", "exact", 3, False, "self"),
    ("Linear1d", "linear", 1, True, "self"),
    ("Trilinear3d", "linear", 3, True, "self"),
    ("Bicubic2d", "cubic", 2, True, "self"),
    ("Bilinear2dAA", "linear_aa", 2, True, "input"),
    ("Bicubic2dAA", "cubic_aa", 2, True, "x"),
]
BACKWARD = [
    ("Nearest1dBackward", "nearest", 1, False, "gradOut"),
    ("Nearest2dBackward", "nearest", 2, False, "gradOut"),
    ("Nearest3dBackward", "nearest", 3, False, "gradOut"),
    ("NearestExact2dBackward", "exact", 2, False, "gradOutput"),
    ("NearestExact3dBackward", "exact", 3, False, "gradOut"),
    ("Linear1dBackward", "linear", 1, True, "gradOut"),
    ("Bilinear2dBackward", "linear", 2, True, "gradOut"),
    ("Trilinear3dBackward", "linear", 3, True, "gradOut"),
    ("Bicubic2dBackward", "cubic", 2, True, "gradOut"),
    ("Bilinear2dAABackward", "linear_aa", 2, True, "gradOutput"),
    ("Bicubic2dAAGrad", "cubic_aa", 2, True, "gradOutput"),
]


def sizes(axes: int) -> st.SearchStrategy[tuple[list[int], list[int]]]:
    some = st.lists(st.integers(1, 11 if axes < 3 else 5), min_size=axes, max_size=axes)
    return st.tuples(some, some)


@pytest.mark.parametrize("case", [*FORWARD, *BACKWARD], ids=lambda case: case[0])
@settings(max_examples=6, deadline=None)
@given(st.data(), st.sampled_from(CHIPS), st.booleans())
def test_sizes_change(
    case: tuple[str, str, int, bool, str], data: st.DataObject, chip: str, align: bool
) -> None:
    name, rule, axes, aligns, given_ = case
    inside, out = data.draw(sizes(axes))
    planes = data.draw(st.sampled_from([(1, 1), (2, 3), (1, 17)]))
    back, device = case in BACKWARD, Device(chip)
    shape = (*planes, *(out if back else inside))
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    said: dict[str, Any] = {given_: x, "outputSize": out}
    said |= {"inputSize": [*planes, *inside]} if back else {}
    said |= {"alignCorners": align} if aligns else {}
    assume(device.check(f"aclnnUpsample{name}", **said).code == 0)
    taken = [matrix(rule, *each, align and aligns) for each in zip(inside, out, strict=True)]
    wanted = applied(x, [each.T for each in taken] if back else taken)
    (found,) = device.run(f"aclnnUpsample{name}", **said).outputs.values()
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_a_scale_that_is_told_decides_the_step() -> None:
    """As in torch: 1 over the scale instead of the ratio of the sizes."""
    x = np.random.default_rng(0).standard_normal((1, 2, 7)).astype(np.float32)
    found = (
        Device(A2)
        .run("aclnnUpsampleLinear1d", self=x, outputSize=[10], alignCorners=False, scales=1.5)
        .outputs["out"]
    )
    places = np.maximum((np.arange(10) + 0.5) / 1.5 - 0.5, 0)
    low = np.minimum(np.floor(places).astype(int), 6)
    share = places - low
    wanted = x[..., low] * (1 - share) + x[..., np.minimum(low + 1, 6)] * share
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"outputSize": [4]}, "outputSize should have 2 entries"),
        ({"outputSize": [0, 4]}, "outputSize should be at least 1"),
        ({"inputSize": [2, 3, 4]}, "inputSize should be 4 positive numbers"),
        ({"gradOut": TensorSpec((2, 3, 4, 5), "float32")}, "gradOut should be [2, 3, 8, 8]"),
    ],
)
def test_what_is_refused(changed: dict[str, Any], words: str) -> None:
    said = {"gradOut": TensorSpec((2, 3, 8, 8), "float32"), "outputSize": [8, 8]}
    said |= {"inputSize": [2, 3, 4, 4], "alignCorners": False}
    with pytest.raises(AclnnError, match="161002") as refused:
        Device(A2).estimate("aclnnUpsampleBicubic2dBackward", **said | changed)
    assert words in str(refused.value)


def test_a_large_image_takes_longer_than_memory() -> None:
    x = TensorSpec((16, 64, 128, 128), "float32")
    said = {"outputSize": [256, 256], "alignCorners": False}
    found = Device(A2).estimate("aclnnUpsampleBicubic2d", self=x, **said)
    assert found.duration_us > 5 * x.nbytes / 1.8e6  # bytes per us of HBM
