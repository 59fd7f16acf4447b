"""Host memory for local tensors, most of which a chain of steps never touches."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LARGE_BYTES = 1 << 20


def zeros(size: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Zeros that cost nothing until somebody touches them.

    `np.zeros` asks C for them, which clears large memory by hand where it was used before: for the
    tiles of a chain, as much work as the chain itself. New pages of the system are zero already,
    and large ones, as NumPy asks for, come 512 at a time.
    """
    nbytes = size * dtype.itemsize
    if sys.platform == "linux" and nbytes >= _LARGE_BYTES:
        import mmap

        try:
            pages = mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE)
        except OSError:  # let NumPy say that there is no memory
            return np.zeros(size, dtype)
        with suppress(OSError):  # a system without large pages
            pages.madvise(mmap.MADV_HUGEPAGE)
        return np.frombuffer(pages, dtype)
    return np.zeros(size, dtype)
