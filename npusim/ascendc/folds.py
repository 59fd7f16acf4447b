"""Operations that make one number of many: sums, products, largest and smallest elements."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.values.dtypes import DType


@dataclass(frozen=True, slots=True)
class Fold:
    """An associative operation: its instruction on pairs of elements, and the one within a repeat.

    ``neutral`` changes nothing that it is combined with.
    """

    name: str
    pairwise: str
    final: str
    function: np.ufunc
    neutral: float

    def neutral_in(self, dtype: DType) -> float:
        """What is neutral among the numbers of a dtype: integers have no infinity."""
        if dtype.is_float or abs(self.neutral) != inf:
            return self.neutral
        limits = np.iinfo(str(dtype.numpy))
        return int(limits.min if self.neutral < 0 else limits.max)

    def of_64_bits(self) -> Fold:
        """The same by what compilers make of pairs of 64 bits, which have no lane of their own."""
        return replace(self, pairwise=f"{self.pairwise}64", final="")


def in_every_turn(values: NDArray[Any], turns: tuple[int, ...]) -> NDArray[Any]:
    """What is folded, for all iterations that are executed at once: it may be older than they."""
    depth = len(turns)
    if values.shape[:depth] == turns:
        return values
    return np.broadcast_to(values, turns + values.shape[depth:])


SUM = Fold("sum", "vadd", "vcadd", np.add, 0.0)
PRODUCT = Fold("product", "vmul", "", np.multiply, 1.0)
LARGEST = Fold("largest", "vmax", "vcmax", np.maximum, -inf)
SMALLEST = Fold("smallest", "vmin", "vcmin", np.minimum, inf)
