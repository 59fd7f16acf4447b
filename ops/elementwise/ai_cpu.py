"""What the AI CPUs compute element by element, in NumPy, for dtypes that no AI core takes."""

from __future__ import annotations

from collections.abc import Callable
from math import erf, erfc, log
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


def _log(x: Array, base: float = -1.0, scale: float = 1.0, shift: float = 0.0) -> Any:
    return np.log(x * scale + shift) / (log(base) if base > 0.0 else 1.0)


def _power(x: Array, base: float = -1.0, scale: float = 1.0, shift: float = 0.0) -> Any:
    return np.exp((x * scale + shift) * (log(base) if base > 0.0 else 1.0))


def _log_of_sum(a: Array, b: Array, base: float = -1.0) -> Any:
    unit = log(base) if base > 0.0 else 1.0
    return np.logaddexp(a * unit, b * unit) / unit


def _times_log(x: Array, y: Array) -> Any:
    return np.where(x == 0, x * 0, x * np.log(y))


def _round(x: Array, decimals: int = 0) -> Any:
    return np.round(x, decimals)


def _quotient(a: Array, b: Array) -> Any:
    """The quotient in the dtype of both, that of whole numbers without its fraction."""
    if np.result_type(a, b).kind in "iub":
        return np.abs(a) // np.abs(b) * np.sign(a) * np.sign(b)
    return a / b


def _truncated(a: Array, b: Array) -> Any:
    found = _quotient(a, b)
    return np.trunc(found) if found.dtype.kind == "f" else found


def _to_power(x: Array, y: Array) -> Any:
    """x to the power of y; of whole numbers what is before the point."""
    if np.result_type(x, y).kind not in "iu":
        return np.power(x, y)
    found = np.power(x, np.maximum(y, 0))
    ones = np.where(x == 1, 1, np.where(x == -1, 1 - 2 * (y % 2), 0))
    return np.where(y < 0, ones, found)


AI_CPU: dict[str, Callable[..., Any]] = {
    "Abs": np.abs,
    "Acos": np.arccos,
    "Acosh": np.arccosh,
    "Add": np.add,
    "Addcdiv": lambda x, a, b, value: x + value * _quotient(a, b),
    "Addcmul": lambda x, a, b, value: x + value * a * b,
    "Adds": lambda x, value=0.0: x + value,
    "Asin": np.arcsin,
    "Asinh": np.arcsinh,
    "Atan": np.arctan,
    "Atan2": np.arctan2,
    "Atanh": np.arctanh,
    "Axpy": lambda x, y, alpha=1.0: x + alpha * y,
    "AxpyV2": lambda x, y, alpha: x + alpha * y,
    "BitwiseAnd": np.bitwise_and,
    "BitwiseOr": np.bitwise_or,
    "BitwiseXor": np.bitwise_xor,
    "Ceil": np.ceil,
    "ClipByValueV2": lambda x, low=None, high=None: np.clip(x, low, high),
    "Cos": np.cos,
    "Cosh": np.cosh,
    "Div": np.true_divide,
    "Equal": np.equal,
    "Erf": np.vectorize(erf, otypes=[float]),
    "Erfc": np.vectorize(erfc, otypes=[float]),
    "Exp": _power,
    "Expm1": np.expm1,
    "Floor": np.floor,
    "FloorDiv": np.floor_divide,
    "FloorMod": np.remainder,
    "Greater": np.greater,
    "GreaterEqual": np.greater_equal,
    "Invert": np.invert,
    "IsClose": np.isclose,
    "IsFinite": np.isfinite,
    "IsInf": np.isinf,
    "IsNan": np.isnan,
    "IsNegInf": np.isneginf,
    "IsPosInf": np.isposinf,
    "Lerp": lambda start, end, weight: start + weight * (end - start),
    "Less": np.less,
    "LessEqual": np.less_equal,
    "Log": _log,
    "Log1p": np.log1p,
    "LogAddExp": _log_of_sum,
    "LogicalAnd": np.logical_and,
    "LogicalNot": np.logical_not,
    "LogicalOr": np.logical_or,
    "MaskedFill": lambda x, mask, value: np.where(mask, value, x),
    "Maximum": np.maximum,
    "Minimum": np.minimum,
    "Mod": np.fmod,
    "Mul": np.multiply,
    "Muls": lambda x, value=1.0: x * value,
    "Neg": np.negative,
    "NotEqual": np.not_equal,
    "Pow": _to_power,
    "RealDiv": np.true_divide,
    "Reciprocal": lambda x: 1 / x,
    "Round": _round,
    "Rsqrt": lambda x: 1 / np.sqrt(x),
    "Select": np.where,
    "SelectV2": np.where,
    "Sign": np.sign,
    "Sin": np.sin,
    "Sinh": np.sinh,
    "Sqrt": np.sqrt,
    "Square": np.square,
    "Sub": np.subtract,
    "Tan": np.tan,
    "Trunc": np.trunc,
    "TruncateDiv": _truncated,
    "Xlogy": _times_log,
}
