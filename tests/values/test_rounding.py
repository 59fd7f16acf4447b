"""Conversions between dtypes: every rounding mode against exact arithmetic."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, floor, trunc
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npusim.ascendc import Core, RoundMode, TPosition, TQue
from npusim.ascendc.rounding import convert, to_whole
from npusim.values.dtypes import BFLOAT16, FLOAT, FLOAT16, INT32, DType
from support.kernels import content, gm, instructions, run

Array = np.ndarray[Any, Any]
GENERATOR = np.random.default_rng(3)

ROUND = {
    RoundMode.CAST_NONE: round,  # of a Fraction: to nearest, ties to even
    RoundMode.CAST_RINT: round,
    RoundMode.CAST_FLOOR: floor,
    RoundMode.CAST_CEIL: ceil,
    RoundMode.CAST_TRUNC: trunc,
    RoundMode.CAST_ROUND: lambda value: trunc(
        value + (Fraction(1, 2) if value > 0 else Fraction(-1, 2))
    ),
}
FRACTION_BITS = {"BFLOAT16": 7, "FLOAT16": 10}
SMALLEST = {"BFLOAT16": -133, "FLOAT16": -24}  # powers of two that subnormals are multiples of


def correctly_rounded(value: float, kind: DType, mode: RoundMode) -> float:
    """By exact arithmetic: the number as a multiple of the spacing around it, rounded, and back."""
    exact = Fraction(value)
    if exact == 0:
        return value
    exponent = int(np.frexp(value)[1]) - 1
    spacing = Fraction(2) ** max(exponent - FRACTION_BITS[kind.name], SMALLEST[kind.name])
    return float(ROUND[mode](exact / spacing) * spacing)


def converted(values: Array, kind: DType, mode: RoundMode) -> Array:
    assert kind.numpy is not None
    result = np.empty(values.shape, kind.numpy)
    with np.errstate(all="ignore"):
        convert(values, result, kind, mode)
    return result


TIES = np.float32(
    [1.0, 1 + 2.0**-8, 1 + 3 * 2.0**-8, 1 + 2.0**-11, 1 + 3 * 2.0**-11, 3.0e-6, 5.0e-8, 2.0**-25]
)
NEAR_TIES = np.nextafter(TIES, np.float32([0, 9] * 4))


@pytest.mark.parametrize("kind", [BFLOAT16, FLOAT16], ids=str)
@pytest.mark.parametrize("mode", RoundMode)
def test_ties_round_as_the_mode_says(kind: DType, mode: RoundMode) -> None:
    values = np.concatenate([TIES, -TIES, NEAR_TIES, -NEAR_TIES])
    want = [correctly_rounded(float(value), kind, mode) for value in values]
    assert converted(values, kind, mode).astype(np.float64).tolist() == want


def test_a_tie_by_hand() -> None:
    """1 + 2**-8 lies between the bfloat16 numbers 1 and 1 + 2**-7."""
    tie, up = np.float32([1 + 2.0**-8, -1 - 2.0**-8]), 1 + 2.0**-7
    for mode, want in (
        (RoundMode.CAST_RINT, [1, -1]),
        (RoundMode.CAST_ROUND, [up, -up]),
        (RoundMode.CAST_TRUNC, [1, -1]),
        (RoundMode.CAST_FLOOR, [1, -up]),
        (RoundMode.CAST_CEIL, [up, -1]),
    ):
        assert converted(tie, BFLOAT16, mode).astype(np.float32).tolist() == want


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.floats(-6e4, 6e4, width=32), min_size=1, max_size=20),
    st.sampled_from([BFLOAT16, FLOAT16]),
    st.sampled_from(list(RoundMode)),
)
def test_numbers_round_as_the_mode_says(values: list[float], kind: DType, mode: RoundMode) -> None:
    want = [correctly_rounded(value, kind, mode) for value in values]
    got = converted(np.float32(values), kind, mode).astype(np.float64)
    assert got.tolist() == want


@pytest.mark.parametrize("kind", [BFLOAT16, FLOAT16], ids=str)
@pytest.mark.parametrize("mode", RoundMode)
def test_numbers_that_are_none_stay_so(kind: DType, mode: RoundMode) -> None:
    quiet, loud = np.array([0x7FC00000, 0xFFFFFFFF], np.uint32).view(np.float32)
    values = np.float32([np.inf, -np.inf, quiet, loud, 0.0, -0.0])
    got = converted(values, kind, mode).astype(np.float32)
    np.testing.assert_array_equal(got[:2], values[:2])
    assert np.isnan(got[2:4]).all()
    assert np.signbit(got[4:]).tolist() == [False, True]


def test_what_is_too_large_becomes_infinite() -> None:
    assert np.isinf(converted(np.float32([1e12, -70000]), FLOAT16, RoundMode.CAST_RINT)).all()
    assert np.isinf(
        converted(np.float32([3.4e38]), BFLOAT16, RoundMode.CAST_RINT).astype(np.float32)
    ).all()


def test_bfloat16_rounds_like_ml_dtypes_and_widens_exactly() -> None:
    values = GENERATOR.standard_normal(4000).astype(np.float32) * np.float32(1e3)
    rounded = converted(values, BFLOAT16, RoundMode.CAST_RINT)
    np.testing.assert_array_equal(
        rounded.view(np.uint16), values.astype(ml_dtypes.bfloat16).view(np.uint16)
    )
    np.testing.assert_array_equal(
        converted(rounded, FLOAT, RoundMode.CAST_NONE), rounded.astype(np.float32)
    )


WHOLE = np.float32([0.5, 1.5, 2.5, -0.5, -2.5, 0.49999997, 8388609.0, -3.7, 3.2])


@pytest.mark.parametrize("mode", RoundMode)
def test_whole_numbers(mode: RoundMode) -> None:
    want = [ROUND[mode](Fraction(float(value))) for value in WHOLE]
    assert to_whole(WHOLE, mode).tolist() == want
    got = converted(WHOLE, INT32, mode)
    assert got.tolist() == want


def test_casting_in_a_kernel_rounds_once() -> None:
    x = gm(TIES.copy())
    y = gm(np.zeros(TIES.size, ml_dtypes.bfloat16), "y")

    def body(core: Core) -> None:
        into, out = TQue(TPosition.VECIN, 1, "in"), TQue(TPosition.VECOUT, 1, "out")
        core.pipe.init_buffer(into, 1, 64)
        core.pipe.init_buffer(out, 1, 64)
        loaded = into.copy_in(x[:])
        result = core.cast(out.alloc_tensor(BFLOAT16, 8), loaded, RoundMode.CAST_ROUND)
        into.free_tensor(loaded)
        out.copy_out(y[:], result)

    groups = run(body, x, y)
    want = converted(TIES, BFLOAT16, RoundMode.CAST_ROUND)
    np.testing.assert_array_equal(content(y).view(np.uint16), want.view(np.uint16))
    (cast,) = [i for i, _ in instructions(groups) if i.name == "vconv"]
    assert cast.detail == "float32->bfloat16 CAST_ROUND"


@pytest.mark.parametrize("mode", RoundMode)
@pytest.mark.parametrize("kind", ["uint8", "int8", "int16", "int32"])
def test_every_half_becomes_the_integer_that_the_mode_says(kind: str, mode: RoundMode) -> None:
    halves = np.arange(1 << 16).astype(np.uint16).view(np.float16)
    limits = np.iinfo(kind)
    found = np.empty(halves.size, kind)
    with np.errstate(invalid="ignore"):  # signalling NaNs
        convert(halves, found, INT32, mode)
        whole = to_whole(halves, mode).astype(np.float64)
    wanted = np.clip(np.nan_to_num(whole, posinf=np.inf, neginf=-np.inf), limits.min, limits.max)
    np.testing.assert_array_equal(found, wanted.astype(kind))
