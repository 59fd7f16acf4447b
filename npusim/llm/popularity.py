"""How evenly tokens go to experts: by Zipf's law, or as they were counted.

Ranks have experts in the order of their numbers. The rank whose experts get most tokens sets the
pace of a layer: the others wait for it where results are combined.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Final

from npusim.values.errors import ArgumentError, FileError
from npusim.values.language import say

if TYPE_CHECKING:
    from pathlib import Path

_MOST_SKEW: Final = 4.0


@dataclass(frozen=True)
class Busiest:
    """The rank with most to do: tokens, as times the mean, and experts that get any of a step."""

    times: float
    hit: float


@dataclass(frozen=True)
class Popularity:
    """The expert that is the r-th in popularity gets 1/r^`skew` as much as the first.

    Which one that is was drawn once, the same for all models. `counts` are tokens of each expert
    by number instead.
    """

    skew: float = 0.0
    counts: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.skew <= _MOST_SKEW:
            raise ArgumentError(f"--expert-skew {self.skew:g}", f"Say 0 to {_MOST_SKEW:g}.")

    def busiest(self, experts: int, active: int, ranks: int, tokens: int) -> Busiest:
        """The busiest of `ranks`, when each of `tokens` goes to `active` of the experts.

        Raises ArgumentError for counts of another number of experts.
        """
        chances, local = self._chances(experts, active), max(1, experts // ranks)
        blocks = [chances[first : first + local] for first in range(0, experts, local)]
        most = max(blocks, key=sum)
        hit = sum(1 - (1 - chance) ** tokens for chance in most)
        return Busiest(sum(most) * len(blocks) / active, hit)

    def _chances(self, experts: int, active: int) -> list[float]:
        """The chance of each expert to be among those of a token: in proportion, 1 at most."""
        shares = list(self.counts)
        if not shares:
            shares = [rank**-self.skew for rank in range(1, experts + 1)]
            random.Random(0).shuffle(shares)  # noqa: S311
        if len(shares) != experts:
            raise ArgumentError(
                say("counts of {count} experts for a model that has {experts}").format(
                    count=len(shares), experts=experts
                ),
                say("Give a count for each expert."),
            )
        low, high = 0.0, 1.0 / min(each for each in shares if each)
        for _ in range(100):  # the factor with which all chances add up to the experts of a token
            middle = (low + high) / 2
            enough = sum(min(1.0, middle * each) for each in shares) >= active
            low, high = (low, middle) if enough else (middle, high)
        return [min(1.0, high * each) for each in shares]


def read_counts(path: Path) -> Popularity:
    """Counts of a file: numbers between blanks, commas or brackets; FileError for anything else."""
    from npusim.reading.tables import lines_of

    with lines_of(path) as lines:
        words = " ".join(lines).translate(str.maketrans(",;[]", "    ")).split()
    try:
        counts = tuple(map(float, words))
    except ValueError:
        counts = ()
    if len(counts) < 2 or not all(0 <= each < inf for each in counts) or not any(counts):
        raise FileError(path, say("holds no counts of experts, one number each"))
    return Popularity(counts=counts)
