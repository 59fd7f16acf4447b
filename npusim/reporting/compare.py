"""Comparing the tensors of a run with reference values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from npusim.values.language import say

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Comparison:
    """How far one tensor is from its reference.

    `max_error` is the largest absolute error of a finite element, `share` the largest part of the
    tolerance that an element uses (above 1 fails), `problem` what makes a comparison impossible.
    """

    name: str
    passed: bool
    max_error: float
    share: float
    problem: str = ""


def compare(
    name: str, got: Array | None, want: Array, *, rtol: float, atol: float, saturates: bool = False
) -> Comparison:
    """Pass when |got - want| <= atol + rtol * |want| for every element, in float64.

    Elements that aren't finite must be the same: nan for nan, an infinity for the same infinity.
    Of a chip that ``saturates`` the largest number of the dtype is expected in place of infinity,
    and 0 in place of NaN.
    """
    import numpy as np

    if got is None:
        return Comparison(name, False, float("nan"), float("inf"), "missing from the result")
    if got.shape != want.shape:
        return Comparison(
            name,
            False,
            float("nan"),
            float("inf"),
            say("shape {shape}, not {expected}").format(shape=got.shape, expected=want.shape),
        )
    if want.size == 0:
        return Comparison(name, True, 0.0, 0.0)
    if saturates:
        want = np.nan_to_num(want)
    result, reference = got.astype(np.float64), want.astype(np.float64)
    finite = np.isfinite(reference)
    same = (result == reference) | (np.isnan(result) & np.isnan(reference))
    strange = int(np.count_nonzero(~same & (~finite | ~np.isfinite(result))))
    if strange:
        problem = say("{strange} elements differ in being finite").format(strange=strange)
        return Comparison(name, False, float("nan"), float("inf"), problem)
    error = np.abs(result[finite] - reference[finite])
    allowed = atol + rtol * np.abs(reference[finite])
    share = np.divide(error, allowed, out=np.where(error > 0, np.inf, 0.0), where=allowed > 0)
    worst = float(share.max(initial=0.0))
    return Comparison(name, worst <= 1.0, float(error.max(initial=0.0)), worst)
