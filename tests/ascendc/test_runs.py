"""Copies run by run put every number where NumPy would."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

from npusim.ascendc.runs import assign, packed

DTYPES = (np.float32, np.float16, ml_dtypes.bfloat16, np.int64)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("lanes", [1, 2, 8, 16, 31, 200])
def test_turned_blocks(dtype: type, lanes: int) -> None:
    x = np.arange(3 * 5 * 4 * lanes).reshape(3, 5, 4, lanes).astype(dtype)
    turned = x.transpose(2, 0, 1, 3)
    assert (packed(turned) == turned.copy()).all()
    there = np.zeros((4, 6, 5, 2 * lanes), dtype)
    assign(there[:, ::2, :, lanes:], turned)
    assert (there[:, ::2, :, lanes:] == turned).all()
    assert not there[:, 1::2].any()
    assert not there[..., :lanes].any()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("steps", [(1, 1), (2, 1), (1, 2), (2, 3)])
def test_windows_that_overlap(dtype: type, steps: tuple[int, int]) -> None:
    x = np.arange(2 * 9 * 8 * 16).reshape(2, 9, 8, 16).astype(dtype)
    seen = sliding_window_view(x, (3, 2), axis=(1, 2))[:, :: steps[0], :: steps[1]]
    seen = seen.transpose(1, 2, 0, 4, 5, 3)
    assert (packed(seen) == seen.copy()).all()


def test_repeated_numbers_other_dtypes_and_the_same_memory() -> None:
    target = np.zeros((3, 4, 8), np.float32)
    assign(target, np.arange(8, dtype=np.float64))
    assert (target == np.arange(8)).all()
    target[:] = np.arange(96).reshape(3, 4, 8)
    wanted = target[:, ::-1].copy()
    assign(target, target[:, ::-1])
    assert (target == wanted).all()
