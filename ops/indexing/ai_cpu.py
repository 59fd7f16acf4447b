"""What the AI CPUs add by index, in NumPy: dtypes that no AI core adds to memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


def _scatter_add(var: Array, indices: Array, updates: Array) -> Any:
    found = var.copy()
    np.add.at(found, indices, updates.reshape(*indices.shape, *var.shape[1:]))
    return found


def _index_add(
    var: Array, indices: Array, updates: Array, alpha: Array | None = None, axis: int = 0
) -> Any:
    found = np.moveaxis(var.copy(), axis, 0)
    scale = 1 if alpha is None else alpha.reshape(-1)[0]
    np.add.at(found, indices, np.moveaxis(updates, axis, 0) * scale)
    return np.moveaxis(found, 0, axis)


AI_CPU = {"InplaceIndexAdd": _index_add, "ScatterAdd": _scatter_add}
