"""Quantisation that data steer, and scales packed for the cube's output stage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.schedules.streamed import Streamed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

_OFFSET_BITS, _OFFSET_AT, _MARK_AT = 9, 37, 46
_KEPT_BITS = 0xFFFFE000  # the upper 19 of a float32
_HALF = 0x1000


def packed(scales: Array, offsets: Array | None = None, *, round_mode: int = 0) -> Array:
    """Scales cut (or rounded: ``round_mode`` 1) to 19 bits and offsets of 9 bits, as 64-bit words.

    Source: hicann/ops-nn quant/trans_quant_param (page).
    """
    bits = scales.reshape(-1).astype(np.float32).view(np.uint32).astype(np.uint64)
    if round_mode:
        bits = bits + np.uint64(_HALF)
    words = (bits & np.uint64(_KEPT_BITS)) | np.uint64(1 << _MARK_AT)
    if offsets is not None and offsets.size:
        most = 1 << (_OFFSET_BITS - 1)
        whole = np.clip(np.rint(offsets.reshape(-1)), -most, most - 1).astype(np.int64)
        places = (whole & (2 * most - 1)).astype(np.uint64) << np.uint64(_OFFSET_AT)
        words = words | places
    return words


def _by_group(x: Array, scale: Array, ends: Array, offset: Array | None = None) -> Array:
    rows = np.searchsorted(ends.reshape(-1), np.arange(x.shape[0]), side="right")
    group = np.minimum(rows, scale.shape[0] - 1)
    found = x.astype(np.float32) * scale.astype(np.float32)[group]
    shift = np.float32(0) if offset is None else offset.astype(np.float32).reshape(-1)[0]
    return np.clip(np.rint(found + shift), -128, 127)


trans_quant_param = Streamed(
    "TransQuantParamV2", packed, ("vmuls",) * 2, {"round_mode": 0}
).from_task
group_quant = Streamed("GroupQuant", _by_group, ("vconv", "vmul", "vadd", "vconv")).from_task
