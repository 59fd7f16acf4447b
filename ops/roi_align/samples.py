"""Where the samples of a box lie: neighbours along an axis, and what each of them weighs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Samples:
    """Samples along one axis of boxes, [..., sample]: two neighbours and their weights."""

    low: NDArray[np.int64]
    high: NDArray[np.int64]
    near: NDArray[np.float32]
    far: NDArray[np.float32]

    @classmethod
    def of(
        cls, first: NDArray[Any], last: NDArray[Any], bins: int, each: int, extent: int
    ) -> Samples:
        """``each`` samples in every bin, from corners on a map of ``extent`` pixels.

        Samples more than a pixel outside weigh nothing.
        """
        step = (last - first) / np.float32(bins * each)
        count = np.arange(bins * each, dtype=np.float32) + np.float32(0.5)
        place = (first[..., None] + count * step[..., None]).astype(np.float32)
        inside = (place >= -1) & (place <= extent)
        place = np.clip(place, 0, extent - 1)
        low = np.floor(place).astype(np.int64)
        far = (place - low) * inside
        return cls(low, np.minimum(low + 1, extent - 1), inside - far, far)
