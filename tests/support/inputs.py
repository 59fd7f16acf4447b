"""Numbers from a seed, and the same numbers in memory that isn't contiguous."""

from __future__ import annotations

from typing import Any

import numpy as np

from npusim.values.dtypes import dtype

Array = np.ndarray[Any, Any]


def generator(seed: int) -> np.random.Generator:
    """Numbers that are the same in every run."""
    return np.random.default_rng(seed)


def numpy_kind(name: str) -> np.dtype[Any]:
    """The NumPy dtype of one of our dtypes."""
    kind = dtype(name).numpy
    assert kind is not None
    return kind


def strided(array: Array, step: int = 2) -> Array:
    """The same numbers in memory that skips elements of the last axis."""
    wide = np.full((*array.shape[:-1], array.shape[-1] * step), np.nan, array.dtype)
    wide[..., ::step] = array
    return wide[..., ::step]


def transposed(array: Array) -> Array:
    """The same numbers with the last two axes the other way round in memory."""
    return np.swapaxes(np.ascontiguousarray(np.swapaxes(array, -1, -2)), -1, -2)
