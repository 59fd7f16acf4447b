"""Scales and offsets of whole numbers, packed as the cube's output stage reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

_OFFSET_BITS, _OFFSET_AT, _MARK_AT = 9, 37, 46
_KEPT_BITS = 0xFFFFE000  # the upper 19 of a float32
_HALF = 0x1000


def packed_scales(scales: Array, offsets: Array | None = None, *, round_mode: int = 0) -> Array:
    """Scales cut (or rounded: ``round_mode`` 1) to 19 bits and offsets of 9 bits, as 64-bit words.

    Source: hicann/ops-nn quant/trans_quant_param (page).
    """
    bits = scales.reshape(-1).astype(np.float32).view(np.uint32).astype(np.uint64)
    if round_mode:
        bits = bits + np.uint64(_HALF)
    words: Array = (bits & np.uint64(_KEPT_BITS)) | np.uint64(1 << _MARK_AT)
    if offsets is not None and offsets.size:
        most = 1 << (_OFFSET_BITS - 1)
        whole = np.clip(np.rint(offsets.reshape(-1)), -most, most - 1).astype(np.int64)
        places = (whole & (2 * most - 1)).astype(np.uint64) << np.uint64(_OFFSET_AT)
        words = words | places
    return words
