"""Spare replicas: how many more have to be there so that enough of them work.

A card works for a share of the time that follows from its mean time between failures and the time
of a repair; a replica works while all of its cards do, independently of the others.
"""

from __future__ import annotations

from bisect import bisect_left
from math import exp, lgamma, log
from typing import TYPE_CHECKING, Final

from npusim.values.errors import ArgumentError
from npusim.values.language import say

if TYPE_CHECKING:
    from npusim.serving.options import Candidate
    from npusim.serving.plan import LlmPlan

_MOST: Final = 4096


def spares_of(
    plan: LlmPlan, candidate: Candidate, needed: int, answering: int = 0
) -> tuple[int, int]:
    """Spare replicas beside those `needed`, and beside those that only answer.

    Where cards of two kinds have to work, each does for the root of the share that is asked.
    Raises ArgumentError where no number is enough.
    """
    fleet, least = plan.fleet, plan.fleet.spare_replicas
    layouts = [(candidate.layout, needed)]
    if candidate.decode is not None:
        layouts.append((candidate.decode, answering))
    counts = [least] * len(layouts)
    if fleet.card_mtbf_h is not None:
        up = fleet.card_mtbf_h / (fleet.card_mtbf_h + fleet.repair_h)
        share = plan.objective.availability ** (1 / len(layouts))
        for number, (layout, count) in enumerate(layouts):
            works = up ** -(-layout.cards // candidate.chips_per_card)
            counts[number] = max(least, fewest_spares(count, works, share))
    return counts[0], counts[-1] if candidate.decode is not None else 0


def fewest_spares(needed: int, works: float, share: float) -> int:
    """The fewest spares with which `needed` work for a share of the time, when each does `works`.

    Raises ArgumentError where no number up to thousands is enough.
    """
    if works >= 1:
        return 0

    def enough(spare: int) -> bool:
        return sum(_exactly(down, needed + spare, works) for down in range(spare + 1)) >= share

    fewest = bisect_left(range(_MOST), True, key=enough)  # one more never makes it worse
    if fewest < _MOST:
        return fewest
    raise ArgumentError(
        say("no spare replicas make {needed} of them work for {share:g} of the time").format(
            needed=needed, share=share
        ),
        say("Cards fail too often for a layout of so many of them, or repairs take too long."),
    )


def _exactly(down: int, installed: int, works: float) -> float:
    """The chance that so many of those installed are down."""
    up = installed - down
    choices = lgamma(installed + 1) - lgamma(down + 1) - lgamma(up + 1)
    return exp(choices + down * log(1 - works) + up * log(works))
