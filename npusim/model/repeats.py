"""What can be said of kernels without shapes: how often each runs, and how long it takes."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from npusim.model.step import COMMUNICATION

if TYPE_CHECKING:
    from npusim.model.judging import Comparison, Launch


@dataclass(frozen=True)
class Repeats:
    """The launches of one operator type, or of one name where the type isn't known."""

    op: str
    launches: tuple[Launch, ...]

    @property
    def times_us(self) -> list[float]:
        """What they took."""
        return [each.measured_us for each in self.launches if each.measured_us is not None]

    @property
    def total_us(self) -> float:
        """What they took together."""
        return sum(self.times_us)

    @property
    def median_us(self) -> float:
        """What the one in the middle took."""
        return median(self.times_us or [0.0])

    @property
    def longest(self) -> Launch:
        """The one that took the most time."""
        return max(self.launches, key=lambda each: each.measured_us or 0.0)


def repeats(comparison: Comparison) -> tuple[Repeats, ...]:
    """The kernels by what they are called, the most time first; collectives left out."""
    found: dict[str, list[Launch]] = {}
    for each in comparison.launches:
        if each.timed.item.engine != COMMUNICATION:
            found.setdefault(each.kernel.op, []).append(each)
    every = (Repeats(op, tuple(launches)) for op, launches in found.items())
    return tuple(sorted(every, key=lambda each: (-each.total_us, each.op)))
