"""Elementwise operators by their formulas: every one against a float64 reference in NumPy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import erf, erfc, inf, nan, pi
from typing import Any

import numpy as np
import pytest

from support.tasks import BFLOAT16, CHIPS, like, run

Array = np.ndarray[Any, Any]
Range = tuple[float, float]

REAL, SMALL, POSITIVE, UNIT = (-6.0, 6.0), (-1.4, 1.4), (0.1, 9.0), (-0.999, 0.999)


@dataclass(frozen=True)
class Row:
    """An operator: its reference, the range of each operand, attributes, how near it has to be."""

    op_type: str
    reference: Callable[..., Any]
    ranges: tuple[Range, ...] = (REAL,)
    attributes: Mapping[str, Any] = field(default_factory=dict)
    near: float = 2e-6
    result: Any = None


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def slope(function: Callable[[Any], Any]) -> Callable[..., Any]:
    """The derivative by central differences, times the gradient."""
    return lambda grad, x: grad * (function(x + 1e-5) - function(x - 1e-5)) / 2e-5


def inverse(function: Callable[[Any], Any], y: Any) -> Any:
    """Where an increasing function has these values, by halving."""
    low, high = np.full_like(y, -9), np.full_like(y, 9)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (
            np.where(function(middle) < y, middle, low),
            np.where(function(middle) < y, high, middle),
        )
    return low


ERF, ERFC = np.vectorize(erf, otypes=[float]), np.vectorize(erfc, otypes=[float])
TWO, BOTH_SMALL = (REAL, REAL), ((-3.0, 3.0), (-3.0, 3.0))

ROWS = [
    Row("Tan", np.tan, (SMALL,), near=4e-6),
    Row("Asin", np.arcsin, (UNIT,), near=1e-4),
    Row("Acos", np.arccos, (UNIT,), near=1e-4),
    Row("Atan", np.arctan, near=1e-5),
    Row("Atan2", np.arctan2, TWO, near=1e-5),
    Row("Sinh", np.sinh),
    Row("Cosh", np.cosh),
    Row("Asinh", np.arcsinh),
    Row("Acosh", np.arccosh, ((1.1, 9.0),)),
    Row("Atanh", np.arctanh, (UNIT,), near=2e-5),
    Row("Erf", ERF),
    Row("Erfc", ERFC),
    Row("Erfinv", lambda y: inverse(ERF, y), ((-0.99, 0.99),), near=2e-5),
    Row("Expm1", np.expm1),
    Row("LogAddExp", np.logaddexp, TWO),
    Row("LogAddExp", np.logaddexp2, TWO, {"base": 2.0}),
    Row("Xlogy", lambda x, y: x * np.log(y), (REAL, POSITIVE)),
    Row("Xlog1py", lambda x, y: x * np.log1p(y), (REAL, POSITIVE)),
    Row("Log", np.log2, (POSITIVE,), {"base": 2.0}),
    Row(
        "Log",
        lambda x: np.log10(2 * x + 1),
        (POSITIVE,),
        {"base": 10.0, "scale": 2.0, "shift": 1.0},
    ),
    Row("Trunc", np.trunc),
    Row("Round", lambda x: np.round(x, 2), (REAL,), {"decimals": 2}),
    Row("FloorDiv", np.floor_divide, (REAL, POSITIVE)),
    Row("TruncateDiv", lambda a, b: np.trunc(a / b), (REAL, POSITIVE)),
    Row("FloorMod", np.remainder, (REAL, POSITIVE), near=4e-6),
    Row("Mod", np.fmod, (REAL, POSITIVE), near=4e-6),
    Row("Addcdiv", lambda x, a, b, v: x + v * a / b, (REAL, REAL, POSITIVE, REAL), near=1e-5),
    Row("Addcmul", lambda x, a, b, v: x + v * a * b, (REAL, REAL, REAL, REAL), near=1e-5),
    Row("Axpy", lambda x, y: x + 1.2 * y, TWO, {"alpha": 1.2}),
    Row("AxpyV2", lambda x, y, a: x + a * y, (REAL, REAL, REAL), near=1e-5),
    Row("ClipByValueV2", np.clip, (REAL, (-2.0, 0.0), (0.0, 2.0))),
    Row("Lerp", lambda a, b, w: a + w * (b - a), (REAL, REAL, UNIT), near=1e-5),
    Row(
        "IsClose",
        lambda a, b: np.isclose(a, b, 0.5, 0.1),
        TWO,
        {"rtol": 0.5, "atol": 0.1},
        result=bool,
    ),
    Row(
        "Elu",
        lambda x: 2 * np.where(x > 0, x, 0.5 * np.expm1(3 * x)),
        (REAL,),
        {"alpha": 0.5, "scale": 2.0, "input_scale": 3.0},
    ),
    Row(
        "CeluV2",
        lambda x: np.maximum(x, 0) + np.minimum(0, 0.7 * np.expm1(x / 0.7)),
        (REAL,),
        {"alpha": 0.7},
    ),
    Row(
        "CeluV2",
        lambda x: np.maximum(x, 0) + np.minimum(0, -2 * np.expm1(x / -2)),
        (REAL,),
        {"alpha": -2.0},
    ),
    Row(
        "SoftplusV2",
        lambda x: np.where(2 * x > 3, x, np.log1p(np.exp(2 * x)) / 2),
        (REAL,),
        {"beta": 2.0, "threshold": 3.0},
    ),
    Row("HardShrink", lambda x: np.where(abs(x) > 0.5, x, 0), (REAL,), {"lambd": 0.5}),
    Row("SoftShrink", lambda x: np.sign(x) * np.maximum(abs(x) - 0.7, 0), (REAL,), {"lambd": 0.7}),
    Row(
        "Shrink",
        lambda x: np.where(x > 0.7, x - 0.2, np.where(x < -0.7, x + 0.2, 0)),
        (REAL,),
        {"lambd": 0.7, "bias": 0.2},
    ),
    Row("Threshold", lambda x: np.where(x > 0.5, x, 7), (REAL,), {"threshold": 0.5, "value": 7.0}),
    Row("LogSigmoid", lambda x: np.log(sigmoid(x))),
    Row("Heaviside", np.heaviside, TWO),
    Row("SquaredRelu", lambda x: np.maximum(x, 0) ** 2),
    Row(
        "EluGradV2",
        lambda g, y: g * np.where(y > 0, 2, y + 1.4),
        TWO,
        {"alpha": 0.7, "scale": 2.0, "is_result": True},
    ),
    Row(
        "EluGradV2",
        lambda g, x: g * np.where(x > 0, 2, 4.2 * np.exp(3 * x)),
        TWO,
        {"alpha": 0.7, "scale": 2.0, "input_scale": 3.0, "is_result": False},
    ),
    Row("FastGeluGrad", slope(lambda x: x * sigmoid(1.702 * x)), TWO),
    Row("GeluGradV2", slope(lambda x: x * (1 + ERF(x / 2**0.5)) / 2), TWO),
    Row(
        "GeluGradV2",
        slope(lambda x: x * (1 + np.tanh((2 / pi) ** 0.5 * (x + 0.044715 * x**3))) / 2),
        TWO,
        {"approximate": "tanh"},
        near=2e-5,
    ),
    Row("HardShrinkGrad", lambda g, x: np.where(abs(x) > 0.5, g, 0), TWO, {"lambd": 0.5}),
    Row("SoftShrinkGrad", lambda g, x: np.where(abs(x) > 0.7, g, 0), TWO, {"lambd": 0.7}),
    Row("HardSigmoidGrad", lambda g, x: np.where(abs(x) < 3, g / 6, 0), TWO),
    Row(
        "HardSwishGrad",
        lambda g, x: np.where(x <= -3, 0, np.where(x < 3, g * (x / 3 + 0.5), g)),
        TWO,
    ),
    Row(
        "HardtanhGrad",
        lambda x, g: np.where((x > -1) & (x < 2), g, 0),
        TWO,
        {"min_val": -1.0, "max_val": 2.0},
    ),
    Row("LeakyReluGrad", lambda g, x: np.where(x > 0, g, 0.2 * g), TWO, {"negative_slope": 0.2}),
    Row("LogSigmoidGrad", lambda g, x: g * sigmoid(-x), TWO),
    Row("MishGrad", slope(lambda x: x * np.tanh(np.log1p(np.exp(x)))), TWO, near=5e-6),
    Row(
        "SeluGrad",
        lambda g, y: g * np.where(y > 0, 1.0507009873554805, y + 1.7580993408473766),
        TWO,
    ),
    Row(
        "SoftplusV2Grad",
        lambda g, x: g * np.where(2 * x > 3, 1, sigmoid(2 * x)),
        TWO,
        {"beta": 2.0, "threshold": 3.0},
    ),
    Row("ThresholdGradV2D", lambda g, x: np.where(x > 0.5, g, 0), TWO, {"threshold": 0.5}),
]

A2 = "Ascend910B3"
SHAPES = ((), (1,), (7,), (3, 40, 77), (2, 1, 3, 1, 2, 1, 2, 5))
IDS = [f"{row.op_type}-{number}" for number, row in enumerate(ROWS)]


def operands(row: Row, shape: tuple[int, ...], kind: Any) -> list[Array]:
    generator = np.random.default_rng(len(shape))
    return [generator.uniform(*limits, shape).astype(kind) for limits in row.ranges]


@pytest.mark.parametrize("row", ROWS, ids=IDS)
@pytest.mark.parametrize("chip", CHIPS)
def test_formula(row: Row, chip: str) -> None:
    for shape in SHAPES:
        given = operands(row, shape, np.float32)
        want = np.asarray(row.reference(*(each.astype(np.float64) for each in given)))
        (got,) = run(
            chip, row.op_type, given, [like(want, row.result or np.float32)], **row.attributes
        )
        np.testing.assert_allclose(got, want, rtol=row.near, atol=row.near)


@pytest.mark.parametrize("row", ROWS, ids=IDS)
@pytest.mark.parametrize(
    ("chip", "kind", "near"), [("Ascend910A", np.float16, 2e-3), ("Ascend910B3", BFLOAT16, 2e-2)]
)
def test_half_types_round_once(row: Row, chip: str, kind: Any, near: float) -> None:
    given = operands(row, (5, 33), kind)
    want = np.asarray(row.reference(*(each.astype(np.float64) for each in given)))
    (got,) = run(chip, row.op_type, given, [like(want, row.result or kind)], **row.attributes)
    np.testing.assert_allclose(got.astype(np.float64), want, rtol=near, atol=near)


WHOLE: dict[str, Callable[..., Any]] = {
    "FloorDiv": np.floor_divide,
    "FloorMod": np.remainder,
    "Mod": np.fmod,
    "BitwiseAnd": np.bitwise_and,
    "BitwiseOr": np.bitwise_or,
    "BitwiseXor": np.bitwise_xor,
    "LeftShift": np.left_shift,
    "RightShift": np.right_shift,
}


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int16, np.int32, np.int64])
@pytest.mark.parametrize("op", WHOLE)
@pytest.mark.parametrize("chip", CHIPS)
def test_whole_numbers(chip: str, op: str, kind: Any) -> None:
    if op in {"FloorDiv", "FloorMod", "Mod"} and kind in {np.int16, np.int64}:
        pytest.skip("no AI core divides them")
    a = (
        np.random.default_rng(1)
        .integers(0 if kind is np.uint8 else -100, 100, (9, 37))
        .astype(kind)
    )
    b = np.random.default_rng(2).integers(1, 7, (9, 37)).astype(kind)
    for x, y in ((a, b), (a, b[:1]), (a, b[:, :1]), (a, b[0, 0].reshape(()))):
        want = WHOLE[op](x, y)
        (got,) = run(chip, op, [x, y], [like(want)])
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("chip", CHIPS)
def test_every_bit_is_turned_over(chip: str) -> None:
    for kind in (np.int8, np.uint8, np.int16, np.int32, np.int64):
        x = np.arange(77).astype(kind)
        (got,) = run(chip, "Invert", [x], [like(x)])
        np.testing.assert_array_equal(got, ~x)
    truth = np.arange(77) % 3 == 0
    (got,) = run(chip, "Invert", [truth], [like(truth)])
    np.testing.assert_array_equal(got, ~truth)


ODD = np.array([0.0, -0.0, 1.5, -2.0, inf, -inf, nan, 6e4] * 9, np.float32)
PREDICATES: dict[str, Callable[[Array], Array]] = {
    "IsFinite": np.isfinite,
    "IsInf": np.isinf,
    "IsNan": np.isnan,
    "IsNegInf": np.isneginf,
    "IsPosInf": np.isposinf,
}


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("op", PREDICATES)
def test_predicates(chip: str, op: str) -> None:
    """Chips of the first generation have numbers without infinities."""
    finite = np.arange(40, dtype=np.int32), np.linspace(-9, 9, 40, dtype=np.float32)
    for x in (ODD, ODD.astype(np.float16), *finite) if chip == A2 else finite:
        (got,) = run(chip, op, [x], [like(x, bool)])
        np.testing.assert_array_equal(got, PREDICATES[op](x))


def test_no_number_is_replaced() -> None:
    (got,) = run(A2, "NanToNum", [ODD], [like(ODD)], nan=1.0, posinf=2.0, neginf=-3.0)
    np.testing.assert_array_equal(got, np.nan_to_num(ODD, nan=1.0, posinf=2.0, neginf=-3.0))


@pytest.mark.parametrize("equal_nan", [False, True])
def test_infinities_are_close_to_themselves(equal_nan: bool) -> None:
    other = np.roll(ODD, 1)
    for y in (ODD, other):
        (got,) = run(A2, "IsClose", [ODD, y], [like(ODD, bool)], equal_nan=equal_nan)
        np.testing.assert_array_equal(got, np.isclose(ODD, y, equal_nan=equal_nan))


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("kind", [np.float32, np.float16, np.int32, np.int8, bool])
def test_masked_fill(chip: str, kind: Any) -> None:
    x = np.random.default_rng(3).integers(0, 2, (5, 40)).astype(kind)
    mask, value = np.arange(40) % 3 == 0, np.array([1], kind)
    (got,) = run(chip, "MaskedFill", [x, mask, value], [like(x)])
    np.testing.assert_array_equal(got, np.where(mask, value, x))
