"""Numbers at the edges: each difference from float64 is one that docs/numerics.md lists.

NPUSIM_EDGES=20 makes as many calls of each interface and kind of numbers.
"""

from __future__ import annotations

import os
from functools import cache

import numpy as np
import pytest

from npusim import Device
from support.edges import KINDS, WHOLE, differences, listed, places

CHIPS = {"A2": "Ascend910B3", "910": "Ascend910A", "310P": "Ascend310P3"}
MANY = int(os.environ.get("NPUSIM_EDGES", "1"))
NAN, INF = np.nan, np.inf


@cache
def device(chip: str) -> Device:
    return Device(chip)


@pytest.mark.slow
@pytest.mark.parametrize("family", CHIPS)
def test_numbers_at_the_edges_differ_as_the_page_says(family: str) -> None:
    pytest.importorskip("torch")
    every = 4 if os.environ.get("CI") else 1  # which has other things to do as well
    found = differences(family, device(CHIPS[family]), range(MANY), every)
    unknown = [f"{api} {kind}: {what}" for api, kind, what in found if (api, kind) not in listed()]
    assert not unknown, "\n".join(unknown)


@pytest.mark.parametrize(
    ("api", "given", "wanted"),
    [
        ("PowTensorTensor", {"self": [-8, -1, 1, -2, INF], "exponent": [1 / 3, INF, NAN, 3, -2]},
         [NAN, 1, 1, -8, 0]),
        ("Exp2", {"self": [-3e38, 3e38, NAN]}, [0, INF, NAN]),
        ("RemainderTensorTensor", {"self": [3, -3, INF, 3, -3], "other": [INF, INF, 2, -2, 2]},
         [3, INF, NAN, -1, 1]),
        ("Acosh", {"self": [-2, 0.5, 1, 3e38]}, [NAN, NAN, 0, 89.29]),
        ("HardshrinkBackward", {"gradOutput": [2, INF, 2], "self": [NAN, 0, 3], "lambd": 0.5},
         [2, NAN, 2]),
        ("SoftshrinkBackward", {"gradOutput": [2, INF, 2], "self": [NAN, 0, 3], "lambda": 0.5},
         [2, 0, 2]),
        ("HardswishBackward", {"gradOutput": [2, INF, 2], "self": [NAN, -4, 4]}, [NAN, NAN, 2]),
        ("HardswishBackward", {"gradOutput": [2, 2], "self": [-3, 3]}, [-1, 3]),
        ("HardswishBackwardV2", {"gradOutput": [2, 2], "self": [-3, 3]}, [0, 2]),
    ],
)  # fmt: skip
def test_kernels_of_a2_mend_odd_numbers(
    api: str, given: dict[str, object], wanted: list[float]
) -> None:
    arguments = {
        name: np.array(each, np.float32) if isinstance(each, list) else each
        for name, each in given.items()
    }
    outputs = device("Ascend910B3").run(f"aclnn{api}", **arguments).outputs or {}
    np.testing.assert_allclose(next(iter(outputs.values())), np.float32(wanted), rtol=1e-4)


def test_ai_cpus_convert_as_arm_does_and_take_whole_powers() -> None:
    x = np.array([3e38, -INF, NAN, -5.7], np.float32)
    ends = np.iinfo(np.int64)
    found = device("Ascend910A").run("aclnnCast", self=x, dtype="int64").outputs or {}
    assert found["out"].tolist() == [ends.max, ends.min, 0, -5]
    base, power = np.array([2, -1, 1, 3], np.int64), np.array([-1, -3, -2, 2], np.int64)
    found = (
        device("Ascend910A").run("aclnnPowTensorTensor", self=base, exponent=power).outputs or {}
    )
    assert found["out"].tolist() == [0, -1, 1, 9]


def test_what_the_page_lists_is_compared() -> None:
    for api, kind in listed():
        assert api in places(), api
        assert kind in (*KINDS, WHOLE), kind
