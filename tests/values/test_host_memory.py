"""Host memory of local tensors: zeros that take no memory until they are touched."""

from __future__ import annotations

import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from npusim.ascendc import host_memory


@pytest.mark.parametrize("size", [0, 1, 2**20 - 1, 2**20 + 3])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32, ml_dtypes.bfloat16])
def test_zeros_are_zero_and_can_be_written(size: int, dtype: type) -> None:
    found = host_memory.zeros(size, np.dtype(dtype))
    assert found.shape == (size,)
    assert found.dtype == dtype
    assert not found.any()
    found[...] = 1
    assert (found == 1).all()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere NumPy is asked")
def test_large_zeros_take_no_memory_where_large_memory_was_given_back() -> None:
    size = 1 << 24
    for _ in range(3):  # C keeps what is given back, and would clear it by hand
        np.ones(size, np.uint8)
    before = _resident_bytes()
    kept = [host_memory.zeros(size, np.dtype(np.uint8)) for _ in range(4)]
    assert _resident_bytes() - before < size / 4
    assert len(kept) == 4


def test_more_than_there_is_raises_what_numpy_raises() -> None:
    with pytest.raises(MemoryError):
        host_memory.zeros(1 << 60, np.dtype(np.uint8))


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096
