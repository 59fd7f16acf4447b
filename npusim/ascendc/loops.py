"""Loops whose iterations are alike, and the indices that run over them.

A kernel body is written for one tile. In a loop from :meth:`Core.loop` it is *executed* for many
tiles at once: the loop index stands for a range, and every tensor carries one leading *stack* axis
per surrounding loop. The instruction stream is recorded for one iteration and counted. Kernel code
sees only the logical shape of a tile.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil, gcd
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class LoopIndex:
    """``offset + scale * i`` for the iterations ``first <= i < last`` of a loop at ``depth``.

    ``count`` is the number of iterations of the whole loop, of which ``first:last`` are worked on
    now.
    """

    depth: int
    first: int
    last: int
    count: int
    scale: int = 1
    offset: int = 0

    def __mul__(self, factor: int) -> LoopIndex:
        return LoopIndex(
            self.depth, self.first, self.last, self.count, self.scale * factor, self.offset * factor
        )

    __rmul__ = __mul__

    def __add__(self, term: int) -> LoopIndex:
        return LoopIndex(
            self.depth, self.first, self.last, self.count, self.scale, self.offset + term
        )

    __radd__ = __add__

    def __floordiv__(self, divisor: int) -> IndexArray:
        cycle = (ceil(self.count / divisor), 1) if self._is_plain else (0, 0)
        return IndexArray(self.depth, self.values() // divisor, (self.key, "//", divisor), cycle)

    def __mod__(self, divisor: int) -> IndexArray:
        cycle = (min(self.count, divisor), divisor) if self._is_plain else (0, 0)
        return IndexArray(self.depth, self.values() % divisor, (self.key, "%", divisor), cycle)

    @property
    def _is_plain(self) -> bool:
        """True for the number of the iteration itself."""
        return self.scale == 1 and self.offset == 0

    @property
    def key(self) -> tuple[object, ...]:
        """What identifies the places that the index visits."""
        return (self.depth, self.count, self.scale, self.offset)

    def values(self) -> NDArray[np.int64]:
        """The index values of the iterations worked on now."""
        return self.offset + self.scale * np.arange(self.first, self.last, dtype=np.int64)

    def as_slice(self) -> slice:
        """The index as a slice of an axis."""
        step = self.scale
        if step <= 0:
            raise KernelError("", "an index used for slicing has to increase")
        return slice(
            self.offset + self.first * step, self.offset + (self.last - 1) * step + 1, step
        )


@dataclass(frozen=True, slots=True)
class IndexArray:
    """Index values that aren't evenly spaced, one per iteration of the loop at ``depth``.

    ``cycle`` tells how many different ones there are, and after how many iterations one of them
    comes again; (0, 0) where nobody knows. All of them are multiples of ``unit``.
    """

    depth: int
    values: NDArray[np.int64]
    key: tuple[object, ...]
    cycle: tuple[int, int] = (0, 0)
    unit: int = 1

    def __mul__(self, factor: int) -> IndexArray:
        return replace(
            self,
            values=self.values * factor,
            key=(self.key, "*", factor),
            unit=self.unit * abs(factor),
        )

    def __floordiv__(self, divisor: int) -> IndexArray:
        return IndexArray(self.depth, self.values // divisor, (self.key, "//", divisor))

    def __mod__(self, divisor: int) -> IndexArray:
        return IndexArray(self.depth, self.values % divisor, (self.key, "%", divisor))

    __rmul__ = __mul__

    def __add__(self, term: int) -> IndexArray:
        return replace(
            self,
            values=self.values + term,
            key=(self.key, "+", term),
            unit=gcd(self.unit, term),
        )

    __radd__ = __add__


Index = int | LoopIndex | IndexArray
ArrayT = TypeVar("ArrayT", bound=np.ndarray)


def looked_up(index: Index, table: NDArray[np.int64]) -> Index:
    """``table[index]`` as an index, for the iterations worked on now."""
    if isinstance(index, int):
        return int(table[index])
    found = index // 1 if isinstance(index, LoopIndex) else index
    return IndexArray(found.depth, table[found.values], (found.key, table.tobytes()))


def dealt(index: Index, table: NDArray[np.int64]) -> Index:
    """``table[index]`` for the number of an iteration, with how often a number comes again.

    That is after as many iterations as between two that are the same, in the mean.
    """
    if (table == table[0]).all():
        return int(table[0])
    found = looked_up(index, table)
    if not isinstance(found, IndexArray):
        return found
    order = np.argsort(table, kind="stable")
    again = np.diff(order)[np.diff(table[order]) == 0]
    period = max(1, round(again.mean())) if len(again) else 1
    cycle, unit = (len(table) - len(again), period), int(np.gcd.reduce(table))
    return replace(found, cycle=cycle, unit=unit)


def mapped(
    index: Index,
    function: Callable[[NDArray[np.int64]], NDArray[np.int64]],
    unit: int,
    *key: object,
) -> Index:
    """What ``function`` makes of an index now, multiples of ``unit``.

    ``key`` identifies the function, which has different numbers for different ones.
    """
    if isinstance(index, int):
        return int(function(np.array(index, np.int64)))
    found = index // 1 if isinstance(index, LoopIndex) else index
    return IndexArray(found.depth, function(found.values), (found.key, *key), found.cycle, unit)


def values_of(index: Index) -> NDArray[np.int64]:
    """The numbers that an index stands for now."""
    if isinstance(index, int):
        return np.array([index], np.int64)
    return index.values() if isinstance(index, LoopIndex) else index.values


def deepen(array: ArrayT, depth: int, wanted: int) -> ArrayT:
    """``array`` with ``depth`` stack axes, given ``wanted`` of them (new ones have length 1)."""
    if depth == wanted:
        return array
    return array.reshape(array.shape[:depth] + (1,) * (wanted - depth) + array.shape[depth:])  # type: ignore[return-value]
