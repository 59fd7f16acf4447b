"""Linear maps along an axis as tables: every element is a weighted sum of a few others.

Windows that are summed up, pixels between others, padding by what is inside, windows laid side by
side: they differ in their tables alone, and a gradient has the transposed table.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from npusim.ascendc.loops import Index, values_of

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class AxisMap:
    """``places`` [element, tap] of an axis of ``size`` elements, and what they weigh.

    What weighs nothing isn't there. AI cores weigh in float32, AI CPUs in the dtype of ``weights``.
    """

    size: int
    places: NDArray[np.int64]
    weights: NDArray[np.floating[Any]]

    @classmethod
    def same(cls, size: int) -> AxisMap:
        """Every element as it is."""
        return cls.taking(size, np.arange(size))

    @classmethod
    def taking(cls, size: int, places: NDArray[np.int64]) -> AxisMap:
        """One element each; negative places are zeros."""
        column = places.reshape(-1, 1)
        return cls(size, np.maximum(column, 0), (column >= 0).astype(np.float32))

    @property
    def out(self) -> int:
        """Elements that come out."""
        return len(self.places)

    @cached_property
    def is_same(self) -> bool:
        """Whether nothing changes."""
        same = self.out == self.size and bool(self._exists.sum() == self.out)
        return same and self.moves and bool((self._first == np.arange(self.out)).all())

    @cached_property
    def moves(self) -> bool:
        """Whether elements are taken as they are, at most one for each."""
        alone = self._exists.sum(axis=1).max(initial=0) <= 1
        return bool(alone and np.isin(self._narrow, (0.0, 1.0)).all())

    @cached_property
    def adds(self) -> bool:
        """Whether the elements of a sum weigh the same."""
        low = np.where(self._exists, self._narrow, np.inf).min(axis=1, initial=np.inf)
        high = np.where(self._exists, self._narrow, -np.inf).max(axis=1, initial=-np.inf)
        return bool((low >= high).all())

    @cached_property
    def taps(self) -> float:
        """Elements of a sum, on average."""
        return float(self._exists.sum()) / max(1, self.out)

    def transposed(self) -> AxisMap:
        """What leads gradients back."""
        to, tap = np.nonzero(self._exists)
        of, weight = self.places[to, tap], self.weights[to, tap]
        order = np.argsort(of, kind="stable")
        of, to, weight = of[order], to[order], weight[order]
        counts = np.bincount(of, minlength=self.size)
        nth = np.arange(len(of)) - np.repeat(np.cumsum(counts) - counts, counts)
        places = np.zeros((self.size, max(1, int(counts.max(initial=0)))), np.int64)
        weights = np.zeros(places.shape, self.weights.dtype)
        places[of, nth], weights[of, nth] = to, weight
        return AxisMap(self.out, places, weights)

    def scaled(self, factor: float) -> AxisMap:
        """Every sum times a number."""
        return AxisMap(self.size, self.places, self.weights * factor)

    def span(self, count: int) -> int:
        """Elements that any ``count`` sums in a row need."""
        low, high = self._ends(count)
        return int((high - low).max(initial=0)) + 1

    def begins(self, count: int) -> NDArray[np.int64]:
        """The first element to load for ``count`` sums that begin at each."""
        found: NDArray[np.int64] = np.clip(self._ends(count)[0], 0, self.size - self.span(count))
        return found

    def apply(
        self, values: NDArray[Any], axis: int, first: Index, count: int, begin: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        """``count`` sums from ``first`` on of [turn, ...] elements that begin at ``begin``."""
        turns = len(values)
        wanted = np.broadcast_to(values_of(first), turns)[:, None] + np.arange(count)
        found = np.moveaxis(values, axis, 1)
        turn = np.arange(turns)[:, None]
        total = np.zeros((turns, count, *found.shape[2:]), np.float32)
        spread = (..., *(None,) * (found.ndim - 2))
        for tap in range(self.places.shape[1]):
            weight = self._narrow[wanted, tap]
            if weight.any():
                places = np.clip(self.places[wanted, tap] - begin[:, None], 0, found.shape[1] - 1)
                exists = np.asarray(weight != 0)[spread]  # what doesn't exist may be no number
                total += np.where(exists, found[turn, places], 0) * weight[spread]
        return np.moveaxis(total, 1, axis)

    def whole(self, values: NDArray[Any], axis: int) -> NDArray[np.float64]:
        """All sums along an axis, in float64."""
        found = np.moveaxis(values.astype(np.float64), axis, -1)
        total = np.zeros((*found.shape[:-1], self.out))
        for places, weight in zip(self.places.T, self.weights.T, strict=True):
            total += np.where(weight != 0, found[..., places], 0) * weight
        return np.moveaxis(total, -1, axis)

    def take(
        self, values: NDArray[Any], axis: int, first: Index, count: int, begin: NDArray[np.int64]
    ) -> NDArray[Any]:
        """The same for elements that are taken as they are, in their dtype."""
        turns = len(values)
        wanted = np.broadcast_to(values_of(first), turns)[:, None] + np.arange(count)
        found = np.moveaxis(values, axis, 1)
        places = np.clip(self._first[wanted] - begin[:, None], 0, found.shape[1] - 1)
        exists = np.asarray(self._exists.any(axis=1))[wanted][(..., *(None,) * (found.ndim - 2))]
        taken = np.where(exists, found[np.arange(turns)[:, None], places], values.dtype.type(0))
        return np.moveaxis(taken, 1, axis)

    @cached_property
    def _exists(self) -> NDArray[np.bool_]:
        return np.asarray(self._narrow != 0, np.bool_)

    @cached_property
    def _narrow(self) -> NDArray[np.float32]:
        return self.weights.astype(np.float32)

    @cached_property
    def _first(self) -> NDArray[np.int64]:
        """The place of the first tap; where there is none, that of a sum before."""
        tap = self._exists.argmax(axis=1)
        own = self.places[np.arange(self.out), tap]
        known = np.where(self._exists.any(axis=1), np.arange(self.out), 0)
        found: NDArray[np.int64] = own[np.maximum.accumulate(known)]
        return found

    def _ends(self, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The least and the greatest place of ``count`` sums in a row, by the first of them."""
        if (known := self._known_ends.get(count)) is not None:  # every tile of a kernel asks
            return known
        found = []
        for ends, better in zip(self._least_and_most, (np.minimum, np.maximum), strict=True):
            padded = np.concatenate([ends, np.full(count - 1, ends[-1])])
            windows = np.lib.stride_tricks.sliding_window_view(padded, count)
            found.append(better.reduce(windows, axis=1))
        return self._known_ends.setdefault(count, (found[0], found[1]))

    @cached_property
    def _known_ends(self) -> dict[int, tuple[NDArray[np.int64], NDArray[np.int64]]]:
        return {}

    @cached_property
    def _least_and_most(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        low = np.where(self._exists, self.places, self._first[:, None]).min(axis=1)
        high = np.where(self._exists, self.places, self._first[:, None]).max(axis=1)
        return low, high
