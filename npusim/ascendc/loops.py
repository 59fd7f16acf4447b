"""Loops whose iterations are alike, and the indices that run over them.

A kernel body is written for one tile. In a loop from :meth:`Core.loop` it is *executed* for many
tiles at once: the loop index stands for a range, and every tensor carries one leading *stack* axis
per surrounding loop. The instruction stream is recorded for one iteration and counted. Kernel code
sees only the logical shape of a tile.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from math import ceil, gcd
from typing import TYPE_CHECKING, NoReturn, TypeVar

import numpy as np

from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from numpy.typing import NDArray


SEQUENTIAL = (
    "Loop with sequential=True where iterations differ: its index is a plain number. Addresses may "
    "be computed from any index: x.span(i * n, n)."
)


class _ManyNumbers:
    """What stands for the numbers of many iterations, and therefore answers as none of them."""

    __slots__ = ()

    def _no_number(self, *_: object) -> NoReturn:
        raise KernelError(
            "",
            "a loop's index is asked for its number, but its iterations are computed at once and "
            "it stands for all of them",
            SEQUENTIAL,
        )

    __bool__ = __int__ = __index__ = __float__ = __len__ = __str__ = __format__ = _no_number
    __lt__ = __le__ = __gt__ = __ge__ = __abs__ = __round__ = __trunc__ = _no_number
    __eq__ = __ne__ = __hash__ = _no_number
    __pow__ = __truediv__ = __divmod__ = __and__ = __or__ = __xor__ = __lshift__ = _no_number
    __rpow__ = __rtruediv__ = __rdivmod__ = __rand__ = __ror__ = __rxor__ = _no_number
    __rshift__ = __rlshift__ = __rrshift__ = __rfloordiv__ = __rmod__ = __invert__ = _no_number


def _whole(number: object) -> int:
    """A number that an index may be multiplied with, or added to."""
    if type(number) is int:
        return number
    if isinstance(number, int | np.integer):
        return int(number)
    wrong = type(number).__name__
    if isinstance(number, _ManyNumbers):
        raise KernelError(
            "",
            "two loops' indices in one sum or product",
            "Give both as places: x.window(((i, n), (j, 1)), (length,), (1,)), or loop with "
            "sequential=True, whose index is a plain number.",
        )
    raise KernelError("", f"a loop's index and a {wrong} in one sum or product", SEQUENTIAL)


@dataclass(slots=True, eq=False)  # not frozen: that takes three times as long to make
class LoopIndex(_ManyNumbers):
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
        factor = _whole(factor)
        return LoopIndex(
            self.depth, self.first, self.last, self.count, self.scale * factor, self.offset * factor
        )

    __rmul__ = __mul__

    def __add__(self, term: int) -> LoopIndex:
        offset = self.offset + _whole(term)
        return LoopIndex(self.depth, self.first, self.last, self.count, self.scale, offset)

    __radd__ = __add__

    def __neg__(self) -> LoopIndex:
        return self * -1

    def __sub__(self, term: int) -> LoopIndex:
        return self + -_whole(term)

    def __rsub__(self, term: int) -> LoopIndex:
        return self * -1 + term

    def __floordiv__(self, divisor: int) -> IndexArray:
        divisor = _whole(divisor)
        cycle = (ceil(self.count / divisor), 1) if self._is_plain else (0, 0)
        return IndexArray(self.depth, self.values() // divisor, (self.key, "//", divisor), cycle)

    def __mod__(self, divisor: int) -> IndexArray:
        divisor = _whole(divisor)
        cycle = (min(self.count, divisor), divisor) if self._is_plain else (0, 0)
        return IndexArray(self.depth, self.values() % divisor, (self.key, "%", divisor), cycle)

    @property
    def range(self) -> tuple[int, int, int]:
        """The iterations worked on now, and how many there are."""
        return self.first, self.last, self.count

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


@dataclass(slots=True, eq=False)
class IndexArray(_ManyNumbers):
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
        factor = _whole(factor)
        key, unit = (self.key, "*", factor), self.unit * abs(factor)
        return IndexArray(self.depth, self.values * factor, key, self.cycle, unit)

    def __floordiv__(self, divisor: int) -> IndexArray:
        divisor = _whole(divisor)
        return IndexArray(self.depth, self.values // divisor, (self.key, "//", divisor))

    def __mod__(self, divisor: int) -> IndexArray:
        divisor = _whole(divisor)
        return IndexArray(self.depth, self.values % divisor, (self.key, "%", divisor))

    __rmul__ = __mul__

    def __add__(self, term: int) -> IndexArray:
        term = _whole(term)
        key, unit = (self.key, "+", term), gcd(self.unit, term)
        return IndexArray(self.depth, self.values + term, key, self.cycle, unit)

    __radd__ = __add__

    def __neg__(self) -> IndexArray:
        return self * -1

    def __sub__(self, term: int) -> IndexArray:
        return self + -_whole(term)

    def __rsub__(self, term: int) -> IndexArray:
        return self * -1 + term


Index = int | LoopIndex | IndexArray
ArrayT = TypeVar("ArrayT", bound=np.ndarray)


def looked_up(index: Index, table: NDArray[np.int64]) -> Index:
    """``table[index]`` as an index, for the iterations worked on now."""
    if isinstance(index, int):
        return int(table[index])
    found = index // 1 if isinstance(index, LoopIndex) else index
    return IndexArray(found.depth, table[found.values], (found.key, table.tobytes()))


class Dealt:
    """Numbers that the iterations of a loop are dealt, one each."""

    __slots__ = ("_cycle", "_only", "_table", "_unit")

    def __init__(self, table: NDArray[np.int64]) -> None:
        numbers = table.tolist()
        last = {number: place for place, number in enumerate(numbers)}
        self._table, self._cycle, self._unit = table, (0, 0), 0
        self._only = numbers[0] if len(last) == 1 else None
        if self._only is not None:
            return
        self._unit = gcd(*last)
        if again := len(numbers) - len(last):
            first = {number: place for place, number in reversed([*enumerate(numbers)])}
            between = (sum(last.values()) - sum(first.values())) / again
            self._cycle = len(last), max(1, round(between))

    def at(self, index: Index) -> Index:
        """The number of an iteration, with how often a number comes again.

        That is after as many iterations as between two that are the same, in the mean.
        """
        if self._only is not None:
            return int(self._only)
        found = looked_up(index, self._table)
        if not isinstance(found, IndexArray):
            return found
        return IndexArray(found.depth, found.values, found.key, self._cycle, self._unit)

    def alike(self, line_bytes: int, *steps: int) -> Hashable:
        """Equal where instructions are that see how places lie in lines, ``steps`` bytes apart."""
        if self._only is not None:
            return tuple([self._only * step % line_bytes for step in steps])
        return self._cycle, *[gcd(line_bytes, self._unit * step) for step in steps]


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


def first_of(index: Index) -> int:
    """The number that an index stands for in the first of the iterations worked on now."""
    if isinstance(index, int):
        return index
    if isinstance(index, LoopIndex):
        return index.offset + index.scale * index.first
    return int(index.values[0])


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
