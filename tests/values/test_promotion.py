"""Promotion: aclnn's own table, where it differs from NumPy and where it doesn't."""

from __future__ import annotations

import numpy as np
import pytest

from npusim.values.dtypes import DTYPES, DType, dtype
from npusim.values.errors import ArgumentError
from npusim.values.promotion import PROMOTIONS, castable, promote


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ("float16", "bfloat16", "float32"),
        ("float16", "float32", "float32"),
        ("bfloat16", "float32", "float32"),
        ("float32", "float64", "float64"),
        ("int8", "uint8", "int16"),
        ("int64", "float16", "float16"),
        ("int32", "bfloat16", "bfloat16"),
        ("bool", "uint8", "uint8"),
        ("complex32", "float16", "complex32"),
        ("complex32", "float32", "complex64"),
        ("complex32", "bfloat16", "complex32"),
        ("complex64", "float64", "complex128"),
    ],
)
def test_two_dtypes_meet(left: str, right: str, expected: str) -> None:
    assert promote(left, right) is dtype(expected)
    assert promote(right, left) is dtype(expected)


@pytest.mark.parametrize("wide", ["uint16", "uint32", "uint64"])
def test_wide_unsigned_integers_combine_with_themselves_only(wide: str) -> None:
    partners = [each for each in DTYPES if promote(wide, each) is not None]
    assert partners == [dtype(wide)]


def test_the_table_is_symmetric_and_closed() -> None:
    for (left, right), common in PROMOTIONS.items():
        assert PROMOTIONS[right, left] is common
        assert (common, common) in PROMOTIONS
    # 13 dtypes combine with one another, 3 only with themselves.
    assert len(PROMOTIONS) == 13 * 13 + 3


def test_a_result_never_loses_category() -> None:
    order = ["bool", "uint", "int", "float", "complex"]
    for (left, right), common in PROMOTIONS.items():
        highest = max(order.index(left.category), order.index(right.category))
        assert order.index(common.category) >= highest


def test_integers_follow_numpy() -> None:
    signed = ["bool", "int8", "uint8", "int16", "int32", "int64"]
    for left in signed:
        for right in signed:
            assert promote(left, right) is dtype(np.promote_types(left, right))


def test_any_number_of_dtypes_combine() -> None:
    assert promote("float16") is dtype("float16")
    assert promote("float16", "float16", "bfloat16", "int8") is dtype("float32")
    assert promote("float16", "uint16", "float32") is None
    with pytest.raises(ArgumentError):
        promote()


@pytest.mark.parametrize(
    "each", [each for each in DTYPES if each.category == "other" or each.bits < 8]
)
def test_a_dtype_outside_the_table_still_combines_with_itself(each: DType) -> None:
    assert promote(each, each) is each
    assert promote(each, "float32") is None


@pytest.mark.parametrize(
    ("src", "dst", "allowed"),
    [
        ("float32", "float16", True),
        ("float32", "bfloat16", True),
        ("int64", "float16", True),
        ("int64", "int8", True),
        ("float32", "complex64", True),
        ("bool", "int8", True),
        ("bool", "float16", True),
        ("bool", "bool", True),
        ("float32", "int32", False),
        ("float16", "uint8", False),
        ("complex64", "float32", False),
        ("int32", "bool", False),
        ("float32", "bool", False),
    ],
)
def test_which_output_may_hold_a_result(src: str, dst: str, allowed: bool) -> None:
    assert castable(src, dst) is allowed
