"""Copies of arrays whose numbers lie side by side in short runs, a run at a time.

NumPy copies along the last axis, which takes it longer to begin than to copy the few numbers of a
slice of channels; a run that is one element of another dtype it copies along the next axis.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

if TYPE_CHECKING:
    from numpy.typing import NDArray

_SHORT_BYTES = 256  # longer runs take NumPy no longer than one element


def packed(values: NDArray[Any]) -> NDArray[Any]:
    """A copy whose numbers lie in the order of its axes."""
    found = np.empty(values.shape, values.dtype)
    assign(found, values)
    return found


def assign(target: NDArray[Any], values: NDArray[Any]) -> None:
    """``target[...] = values``."""
    runs = None if target.shape != values.shape or target.dtype != values.dtype else target.ndim
    run_bytes = target.itemsize
    while runs and target.strides[runs - 1] == values.strides[runs - 1] == run_bytes:
        run_bytes *= target.shape[runs - 1]
        runs -= 1
    if not runs or not target.itemsize < run_bytes <= _SHORT_BYTES:
        target[...] = values
        return
    _of_runs(target, runs, run_bytes)[...] = _of_runs(values, runs, run_bytes)


def _of_runs(values: NDArray[Any], axes: int, run_bytes: int) -> NDArray[Any]:
    """The same memory with the axes behind so many as single elements."""
    shape = (*values.shape[:axes], run_bytes // values.itemsize)
    strides = (*values.strides[:axes], values.itemsize)
    found: NDArray[Any] = as_strided(values, shape, strides).view(f"V{run_bytes}")[..., 0]
    return found
