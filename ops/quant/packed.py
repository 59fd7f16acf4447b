"""Quantisation that data steer, and scales packed for the cube's output stage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.library.packed_scales import packed_scales
from npusim.schedules.streamed import Streamed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


def _by_group(x: Array, scale: Array, ends: Array, offset: Array | None = None) -> Any:
    rows = np.searchsorted(ends.reshape(-1), np.arange(x.shape[0]), side="right")
    group = np.minimum(rows, scale.shape[0] - 1)
    found = x.astype(np.float32) * scale.astype(np.float32)[group]
    shift = np.float32(0) if offset is None else offset.astype(np.float32).reshape(-1)[0]
    return np.clip(np.rint(found + shift), -128, 127)


trans_quant_param = Streamed(
    "TransQuantParamV2", packed_scales, ("vmuls",) * 2, {"round_mode": 0}
).from_task
group_quant = Streamed("GroupQuant", _by_group, ("vconv", "vmul", "vadd", "vconv")).from_task
