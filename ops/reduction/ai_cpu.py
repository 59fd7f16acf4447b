"""What the AI CPUs reduce, in NumPy: dtypes that no vector unit folds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_FOLDS: dict[str, Callable[..., Any]] = {
    "ReduceSum": np.sum, "ReduceMean": np.mean, "ReduceMax": np.max, "ReduceMin": np.min,
    "ReduceProd": np.prod, "ReduceAll": np.all, "ReduceAny": np.any,
}  # fmt: skip


def _over(fold: Callable[..., Any]) -> Callable[..., Any]:
    def compute(
        x: NDArray[Any], axes: int | Sequence[int] | None = None, keep_dims: bool = False
    ) -> Any:
        named = (axes,) if isinstance(axes, int) else tuple(axes or range(x.ndim))
        kind = x.dtype if fold in (np.sum, np.prod) else None  # not widened
        return fold(x, axis=named, keepdims=keep_dims, **({"dtype": kind} if kind else {}))

    return compute


AI_CPU = {f"{name}{form}": _over(fold) for name, fold in _FOLDS.items() for form in ("", "D")}
