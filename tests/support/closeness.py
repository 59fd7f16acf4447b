"""Comparing arrays the way the golden files say: element by element, strange numbers exactly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

Array = np.ndarray[Any, Any]


def assert_close(got: Array, want: Array, *, rtol: float, atol: float, what: str = "") -> None:
    """|got - want| <= atol + rtol * |want|; shapes, dtypes and numbers that aren't finite equal."""
    assert got.dtype == want.dtype, f"{what}: {got.dtype}, not {want.dtype}"
    assert got.shape == want.shape, f"{what}: shape {got.shape}, not {want.shape}"
    result, reference = got.astype(np.float64), want.astype(np.float64)
    strange = ~np.isfinite(reference)
    same = (result == reference) | (np.isnan(result) & np.isnan(reference))
    assert same[strange].all(), f"{what}: numbers that should not be finite differ"
    assert np.isfinite(result[~strange]).all(), f"{what}: numbers that should be finite aren't"
    error = np.abs(result[~strange] - reference[~strange])
    allowed = atol + rtol * np.abs(reference[~strange])
    wrong = np.flatnonzero(error > allowed)
    if wrong.size:
        worst = wrong[np.argmax(error[wrong] - allowed[wrong])]
        pair = f"{result[~strange][worst]!r}, not {reference[~strange][worst]!r}"
        raise AssertionError(f"{what}: {wrong.size} of {error.size} differ, the worst is {pair}")


def assert_outputs_close(
    got: Mapping[str, Array] | None, want: Mapping[str, Array], *, rtol: float, atol: float
) -> None:
    """Exactly the wanted outputs, each of them close."""
    assert got is not None, "a run without outputs"
    assert list(got) == list(want)
    for name, array in want.items():
        assert_close(got[name], array, rtol=rtol, atol=atol, what=name)


def rounded(reference: Array, like: Array) -> Array:
    """A float64 reference in the dtype of an output; what is too large becomes infinite."""
    with np.errstate(over="ignore"):
        return reference.astype(like.dtype)
