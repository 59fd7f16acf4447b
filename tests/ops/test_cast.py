"""Cast between all dtypes of the measured tables, directly or by way of others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npusim.ascendc.conversions import conversion_path
from npusim.hardware import load_profile
from npusim.values.dtypes import BOOL, FLOAT, FLOAT16, INT64, UINT8
from npusim.values.errors import KernelError
from support.tasks import BFLOAT16, CHIPS, cycles, kernels, like, run

EVERYWHERE = [
    (np.float32, np.float16),
    (np.float16, np.float32),
    (np.int32, np.float32),
    (np.int32, np.float16),
    (np.float32, np.int32),
    (np.float16, np.int32),
    (np.uint8, np.float16),
    (np.int8, np.float32),
    (bool, np.float32),
    (bool, np.float16),
    (bool, np.int32),
    (np.float32, np.float32),
    (np.int32, np.int64),
    (np.int64, np.int32),
    (np.int64, np.float16),
    (bool, np.int64),
]
ATLAS_A2 = [
    (np.float32, BFLOAT16),
    (BFLOAT16, np.float32),
    (BFLOAT16, np.float16),
]
PAIRS = [
    *((chip, *pair) for chip in CHIPS for pair in EVERYWHERE),
    *(("Ascend910B3", *pair) for pair in ATLAS_A2),
]


def values(kind: Any, *shape: int) -> np.ndarray[Any, Any]:
    x = np.random.default_rng(0).standard_normal(shape) * 20
    if kind is bool:
        return x > 0
    return (np.abs(x) if np.dtype(kind).kind == "u" else x).astype(kind)


@pytest.mark.parametrize(("chip", "source", "target"), PAIRS)
def test_numbers(chip: str, source: Any, target: Any) -> None:
    for shape in ((), (7,), (33, 70), (40_000,)):
        x = values(source, *shape)
        want = x.astype(np.float32).astype(target) if source is BFLOAT16 else x.astype(target)
        (got,) = run(chip, "Cast", [x], [like(want)])
        np.testing.assert_array_equal(got, want)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 70_000), st.sampled_from(EVERYWHERE), st.sampled_from(CHIPS))
def test_time_doesnt_depend_on_numbers(count: int, pair: tuple[Any, Any], chip: str) -> None:
    x, out = values(pair[0], count), values(pair[1], count)
    assert cycles(chip, "Cast", [x], [out]) == cycles(chip, "Cast", [x], [out], numerics=True)


def test_truth_values_go_through_float16() -> None:
    for chip in CHIPS:
        profile = load_profile(chip)
        assert conversion_path(profile, BOOL, FLOAT) == (FLOAT16, FLOAT)
        assert conversion_path(profile, UINT8, FLOAT16) == (FLOAT16,)
        assert conversion_path(profile, BOOL, UINT8) == ()


def test_what_a_chip_cant_convert_is_refused() -> None:
    with pytest.raises(KernelError, match="float64->float32"):
        run("Ascend910A", "Cast", [values(np.float64, 4)], [values(np.float32, 4)])
    assert INT64 in conversion_path(load_profile("Ascend910B3"), FLOAT, INT64)


def test_both_widths_are_moved() -> None:
    (kernel,), _ = kernels("Ascend910B3", "Cast", [values(np.float32, 999)], [values(np.int8, 999)])
    assert sum(each.nbytes for each in kernel.reads) == 4 * 999
    assert sum(each.nbytes for each in kernel.writes) == 999


@pytest.mark.parametrize("chip", ["Ascend910A", "Ascend310P3", "Ascend910B3"])
def test_numbers_of_64_bits_become_floats_whatever_they_are(chip: str) -> None:
    """Chips without 64 bits leave it to the AI CPUs (ops-math, math/cast/op_api)."""
    x = np.array([2**33 + 1, -(2**62), 2**31, 0, -1, 2**24 + 1])
    (got,) = run(chip, "Cast", [x], [np.zeros(x.shape, np.float32)])
    np.testing.assert_array_equal(got, x.astype(np.float32))
    (back,) = run(chip, "Cast", [got], [np.zeros_like(x)])
    np.testing.assert_array_equal(back, got.astype(np.int64))
