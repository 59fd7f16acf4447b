"""Calls of aclnn interfaces with a float64 reference each: one row for an interface.

A row says how its tensors are filled and what else it is called with; the reference takes the same
arguments, tensors in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Fill = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray[Any, Any]]


def real(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Around zero."""
    return rng.uniform(-3, 3, shape)


def positive(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Above zero."""
    return rng.uniform(0.1, 4, shape)


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
)
