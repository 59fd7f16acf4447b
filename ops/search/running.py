"""Running products."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.schedules.on_ai_cpu import OnAiCpu

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


def _cumprod(x: Array, axis: int, exclusive: bool, reverse: bool) -> Array:
    """Products of all up to each element, or of all before it; from the end where asked."""
    if not x.ndim:
        return np.ones_like(x) if exclusive else x
    ordered = np.flip(x, axis) if reverse else x
    found = np.cumprod(ordered, axis, dtype=x.dtype)
    if exclusive:
        found = np.roll(found, 1, axis)
        np.moveaxis(found, axis, 0)[0] = 1
    return np.flip(found, axis) if reverse else found


cumprod = OnAiCpu(
    "Cumprod", _cumprod, attributes={"axis": 0, "exclusive": False, "reverse": False}
).from_task
