"""What changed between two profiles: operators that became slower or faster, came or went."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from statistics import median
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from npusim.model.kernel_csv import Kernel
    from npusim.model.step import Item, Step

_FELT: Final = 0.05
"""Of a kernel's time: two runs of the same program differ by less in the middle of its kernels."""


class Way(Enum):
    """What became of kernels; the value is what JSON calls it."""

    SLOWER = "slower"
    FASTER = "faster"
    NEW = "new"
    GONE = "gone"
    OFTEN = "more_often"
    SELDOM = "less_often"
    SAME = "same"


@dataclass(frozen=True)
class Side:
    """Kernels of one profile that are alike: how many, all their time, the one in the middle."""

    count: int = 0
    total_us: float = 0.0
    middle_us: float = 0.0


@dataclass(frozen=True)
class Change:
    """Kernels that are alike in two profiles; `tensors` is empty for all of an operator type."""

    op: str
    tensors: str
    before: Side
    after: Side

    @property
    def us(self) -> float:
        """Microseconds that the step takes longer by them, negative where it takes less."""
        return self.after.total_us - self.before.total_us

    @property
    def way(self) -> Way:
        """What became of them: how many there are, then what one takes in the middle.

        Of an operator type whose number stays, whose kernels differ, it is what all of them take.
        """
        before, after = self.before, self.after
        if not before.count:
            return Way.NEW
        if not after.count:
            return Way.GONE
        if before.count != after.count:
            return Way.OFTEN if after.count > before.count else Way.SELDOM
        then_us, now_us = (
            each.middle_us if self.tensors else each.total_us for each in (before, after)
        )
        if abs(now_us - then_us) <= _FELT * then_us:
            return Way.SAME
        return Way.SLOWER if now_us > then_us else Way.FASTER


@dataclass(frozen=True)
class Changes:
    """Two steps: their kernels' times, what changed by operator type and by type with tensors.

    Most microseconds first, whichever way.
    """

    before: Step
    after: Step
    before_us: float
    after_us: float
    operators: tuple[Change, ...]
    kernels: tuple[Change, ...]


Profile = tuple["Step", Sequence["Kernel"]]
"""A step, and the rows of the file that its items come from."""


def changes(before: Profile, after: Profile) -> Changes:
    """What changed from one profile to another.

    Kernels are alike that have one operator type and the same tensors; where a profile has no
    tensors, as at level 0, types alone.
    """
    plain = any(
        not any(each.operation.tensors for each in step.items) for step, _ in (before, after)
    )

    def with_tensors(item: Item) -> tuple[str, str]:
        return item.op, "" if plain else item.operation.tensors

    return Changes(
        before[0],
        after[0],
        _total_us(before[1]),
        _total_us(after[1]),
        _compared(before, after, lambda item: (item.op, "")),
        _compared(before, after, with_tensors),
    )


def _total_us(kernels: Iterable[Kernel]) -> float:
    return sum(each.duration_us or 0.0 for each in kernels)


def _compared(
    before: Profile, after: Profile, key: Callable[[Item], tuple[str, str]]
) -> tuple[Change, ...]:
    sides = [_grouped(step.items, kernels, key) for step, kernels in (before, after)]
    found = (
        Change(*name, *(each.get(name, _Group()).side for each in sides))
        for name in dict.fromkeys((*sides[0], *sides[1]))
    )
    return tuple(sorted(found, key=lambda each: (-abs(each.us), each.op, each.tensors)))


@dataclass
class _Group:
    times_us: list[float] = field(default_factory=list)

    @property
    def side(self) -> Side:
        times_us = self.times_us
        return Side(len(times_us), sum(times_us), median(times_us)) if times_us else Side()


def _grouped(
    items: Iterable[Item], kernels: Iterable[Kernel], key: Callable[[Item], tuple[str, str]]
) -> dict[tuple[str, str], _Group]:
    found: dict[tuple[str, str], _Group] = {}
    for item, kernel in zip(items, kernels, strict=True):
        if kernel.duration_us is not None:
            found.setdefault(key(item), _Group()).times_us.append(kernel.duration_us)
    return found
