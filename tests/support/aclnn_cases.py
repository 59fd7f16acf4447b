"""Calls of aclnn interfaces with a float64 reference each: one row for an interface.

A row says how its tensors are filled and what else it is called with; the reference takes the same
arguments, tensors in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import erf
from typing import Any

import numpy as np

Fill = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray[Any, Any]]


def real(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Around zero."""
    return rng.uniform(-3, 3, shape)


def positive(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Above zero."""
    return rng.uniform(0.1, 4, shape)


def above_one(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Above one."""
    return rng.uniform(1.1, 4, shape)


def small(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Between minus one and one."""
    return rng.uniform(-0.9, 0.9, shape)


def coarse(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Few different numbers, so that comparisons meet equal ones."""
    return rng.integers(-2, 3, shape).astype(np.float64)


@dataclass(frozen=True)
class Case:
    """``tensors`` by parameter, ``numbers`` as they are, and the reference of both."""

    name: str
    tensors: dict[str, Fill]
    reference: Callable[..., Any]
    numbers: dict[str, Any] = field(default_factory=dict)
    dtypes: tuple[str, ...] = ("float32", "float16", "float64")


_TWO = {"self": real, "other": real}
_IN_PLACE = {"selfRef": real, "other": real}
_ALIKE = {"self": coarse, "other": coarse}

_THREE = {"self": real, "tensor1": real, "tensor2": positive}
_DIVIDED = {"self": real, "other": positive}
_HALVES = ("float32", "float16")
_FUNCTIONS = ("float32", "float16", "float64")
_QUOTIENTS = (
    lambda self, other, _: self / other,
    lambda self, other, _: np.trunc(self / other),
    lambda self, other, _: np.floor(self / other),
)
_UNARY = {
    "Cosh": np.cosh,
    "Sinh": np.sinh,
    "Exp": np.exp,
}
_OF_INPUT = {"Asinh": np.arcsinh, "Cos": np.cos}


def _blend(start: Any, end: Any, weight: Any) -> Any:
    return start + weight * (end - start)


def _swish_slope(x: Any, beta: float) -> Any:
    share = 1 / (1 + np.exp(-beta * x))
    return share + beta * x * share * (1 - share)


CASES = (
    Case("aclnnAdd", _TWO, lambda self, other, alpha: self + alpha * other, {"alpha": 1.2}),
    Case("aclnnAdd", _TWO, lambda self, other, alpha: self + alpha * other, {"alpha": 1}),
    Case("aclnnSub", _TWO, lambda self, other, alpha: self - alpha * other, {"alpha": 0.5}),
    Case(
        "aclnnInplaceAdd",
        _IN_PLACE,
        lambda selfRef, other, alpha: selfRef + alpha * other,  # noqa: N803
        {"alpha": 3},
    ),
    Case(
        "aclnnAdds",
        {"self": real},
        lambda self, other, alpha: self + alpha * other,
        {"other": 2.5, "alpha": 2},
    ),
    Case("aclnnMul", _TWO, lambda self, other: self * other),
    Case("aclnnMuls", {"self": real}, lambda self, other: self * other, {"other": -1.5}),
    Case("aclnnMaximum", _TWO, np.maximum),
    Case("aclnnEqTensor", _ALIKE, np.equal),
    Case("aclnnLtTensor", _ALIKE, np.less),
    Case("aclnnGtScalar", {"self": coarse}, lambda self, other: self > other, {"other": 1}),
    Case("aclnnNeScalar", {"self": coarse}, lambda self, other: self != other, {"other": -1.0}),
    Case(
        "aclnnInplaceLeScalar",
        {"selfRef": coarse},
        lambda selfRef, other: selfRef <= other,  # noqa: N803
        {"other": 0},
    ),
    *(
        Case(f"aclnn{name}", {"self": real}, function, dtypes=_FUNCTIONS)
        for name, function in _UNARY.items()
    ),
    *(
        Case(f"aclnn{name}", {"input": real}, function, dtypes=_FUNCTIONS)
        for name, function in _OF_INPUT.items()
    ),
    Case("aclnnAcosh", {"self": above_one}, np.arccosh, dtypes=_FUNCTIONS),
    Case("aclnnAtanh", {"input": small}, np.arctanh, dtypes=_FUNCTIONS),
    Case("aclnnLog2", {"self": positive}, np.log2, dtypes=_FUNCTIONS),
    Case("aclnnLog10", {"self": positive}, np.log10, dtypes=_HALVES),
    Case("aclnnFrac", {"input": real}, lambda x: x - np.trunc(x), dtypes=_HALVES),
    Case("aclnnExpm1", {"self": real}, np.expm1, dtypes=_HALVES),
    Case("aclnnTrunc", {"self": real}, np.trunc, dtypes=_HALVES),
    Case("aclnnErf", {"self": real}, np.vectorize(erf, otypes=[float]), dtypes=_FUNCTIONS),
    Case("aclnnRsub", _TWO, lambda self, other, alpha: other - alpha * self, {"alpha": 2}),
    Case(
        "aclnnRsubs",
        {"self": real},
        lambda self, other, alpha: other - alpha * self,
        {"other": 1.5, "alpha": 2},
    ),
    *(
        Case("aclnnDivMod", _DIVIDED, function, {"mode": mode}, dtypes=("float32",))
        for mode, function in enumerate(_QUOTIENTS)
    ),
    Case(
        "aclnnDivMods",
        {"self": real},
        lambda self, other, _: np.floor(self / other),
        {"other": 0.75, "mode": 2},
        dtypes=("float32",),
    ),
    Case("aclnnDivs", {"self": real}, lambda self, other: self / other, {"other": 0.75}),
    Case("aclnnFloorDivides", {"self": real}, np.floor_divide, {"other": 0.75}, ("float32",)),
    Case("aclnnRemainderTensorScalar", {"self": real}, np.remainder, {"other": 2}, ("float32",)),
    Case(
        "aclnnRemainderScalarTensor",
        {"other": positive},
        lambda other, self: np.remainder(self, other),
        {"self": 5},
        ("float32",),
    ),
    Case("aclnnFmodScalar", {"self": real}, np.fmod, {"other": 2}, ("float32",)),
    Case("aclnnExp2", {"self": real}, np.exp2, dtypes=_FUNCTIONS),
    Case("aclnnPowTensorScalar", {"self": real}, np.power, {"exponent": 2}),
    Case("aclnnPowTensorScalar", {"self": positive}, np.power, {"exponent": 1.5}, _FUNCTIONS),
    Case(
        "aclnnPowScalarTensor",
        {"exponent": real},
        lambda exponent, self: self**exponent,
        {"self": 2.5},
        _FUNCTIONS,
    ),
    Case("aclnnAddcmul", _THREE, lambda self, a, b, value: self + value * a * b, {"value": 1.5}),
    Case("aclnnAddcdiv", _THREE, lambda self, a, b, value: self + value * a / b, {"value": 2}),
    Case("aclnnClamp", {"self": real}, np.clip, {"clipValueMin": -1.5, "clipValueMax": 1}),
    Case("aclnnClampMin", {"self": real}, np.maximum, {"clipValueMin": -0.5}),
    Case("aclnnClampMax", {"self": real}, np.minimum, {"clipValueMax": 0.5}),
    Case("aclnnClampMinTensor", {"self": real, "clipValueMin": real}, np.maximum),
    Case("aclnnClampMaxTensor", {"self": real, "max": real}, np.minimum),
    Case("aclnnHardtanh", {"self": real}, np.clip, {"clipValueMin": -1, "clipValueMax": 2}),
    Case("aclnnLerp", {"self": real, "end": real, "weight": small}, _blend, dtypes=_HALVES),
    Case("aclnnLerps", {"self": real, "end": real}, _blend, {"weight": 0.3}, _HALVES),
    Case("aclnnLogAddExp2", _TWO, np.logaddexp2, dtypes=_HALVES),
    Case("aclnnLogicalXor", _ALIKE, np.logical_xor),
    Case("aclnnSignbit", {"self": real}, np.signbit),
    Case("aclnnSinc", {"self": real}, np.sinc, dtypes=("float32",)),
    Case("aclnnInplaceZero", {"selfRef": real}, np.zeros_like),
    Case("aclnnInplaceOne", {"selfRef": real}, np.ones_like),
    Case(
        "aclnnInplaceFillScalar",
        {"selfRef": real},
        lambda selfRef, value: np.full(selfRef.shape, value),  # noqa: N803
        {"value": 2.5},
    ),
    Case(
        "aclnnAddRelu",
        _TWO,
        lambda a, b, alpha: np.maximum(a + alpha * b, 0),
        {"alpha": 2},
        _HALVES,
    ),
    Case(
        "aclnnSwishBackward",
        {"gradOutput": real, "self": real},
        lambda grad, x, betaOptional: grad * _swish_slope(x, betaOptional),  # noqa: N803
        {"betaOptional": 1.5},
        ("float32",),
    ),
    Case("aclnnRoundDecimals", {"self": real}, np.round, {"decimals": 1}, ("float32",)),
)
