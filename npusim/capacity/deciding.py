"""Deciding: what some runs of a fleet say of its objective, yes, no, or not yet."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from npusim.capacity.estimate import Estimate
from npusim.values.errors import ArgumentError
from npusim.values.language import say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from npusim.capacity.outcome import FleetRun

DECIDED_AT: Final = 0.99
"""The confidence of a decision, which looks more than once: more than what is shown."""

LONGER: Final = 2
"""Runs that don't decide are repeated this many times as long, or as much longer as it takes."""

MUCH_LONGER: Final = 4
"""But no more than this at once: how much it takes is as uncertain as the runs are."""

FAR: Final = 1.5
"""A quantile that is this many times below or above the limit needs no second look."""

CLEAR: Final = 1.1
"""A busy share that is this many times below or above the target needs no second look."""

Seen = tuple[float, float]
"""What one run says: the latency that the objective limits in us, and the devices' busy share."""


@dataclass(frozen=True)
class Objective:
    """What the fleet has to keep: a latency quantile, and a reserve of throughput.

    The target utilisation is the share of the time that the devices may be busy, with the batches
    that the queue forms.  With `each_model` every model's own quantile has to keep the limit,
    otherwise that of all requests.
    """

    quantile: float
    limit_us: float
    target_utilisation: float
    each_model: bool = False

    def __post_init__(self) -> None:
        """Refuse what can't be an objective."""
        if not 0 < self.quantile < 1:
            raise ArgumentError(
                say("the quantile is {quantile:g}; it lies between 0 and 1").format(
                    quantile=self.quantile
                ),
                "p99 is 0.99.",
            )
        if not self.limit_us > 0:
            raise ArgumentError(
                say("the limit is {limit_us:g} us; it must be positive").format(
                    limit_us=self.limit_us
                )
            )
        if not 0 < self.target_utilisation < 1:
            raise ArgumentError(
                say(
                    "the target utilisation is {target_utilisation:g}; it lies between 0 and 1"
                ).format(target_utilisation=self.target_utilisation)
            )

    def latency_us(self, run: FleetRun) -> float:
        """The latency of a run that the limit is held against."""
        if not self.each_model:
            return run.quantile_us(self.quantile)
        own = [run.quantile_us(self.quantile, model) for model in run.models]
        return max(value for value in own if not math.isnan(value))


class Decision(NamedTuple):
    """Whether cards keep the limit at a load: yes, no, or None where the runs leave it open.

    `latency_us` is the quantile with its interval, infinite where the fleet can't keep up, and
    `surely_us` the wider one of `DECIDED_AT`, as `busy` is of the devices' busy share; `in_time`
    and `has_room` are what each says of its bound. `requests` were played in each of `runs` runs,
    after `looks` looks.
    """

    cards: int
    rate_per_s: float
    holds: bool | None
    latency_us: Estimate
    surely_us: Estimate
    requests: int
    runs: int
    looks: int = 0
    busy: Estimate = Estimate(1.0, 1.0, 1.0)
    in_time: bool | None = False
    has_room: bool | None = False

    def requests_to_decide(self, objective: Objective) -> float:
        """About how many requests in all would decide: the width falls with their square root."""
        widths = max(
            1.0,
            0.0 if self.in_time is not None else _widths(self.surely_us, objective.limit_us),
            0.0 if self.has_room is not None else _widths(self.busy, objective.target_utilisation),
        )
        return self.requests * self.runs * widths**2

    def wants(self, looks: int) -> bool:
        """Whether so many looks could tell more: a first glance decides nothing near the limit."""
        return self.looks < looks and (self.holds is None or not self.looks)

    def longer(self, objective: Objective) -> float:
        """How many times as long the next runs should be."""
        if self.holds is not None:
            return LONGER
        wanted = self.requests_to_decide(objective) / (self.requests * self.runs)
        return min(MUCH_LONGER, max(LONGER, wanted))


def judged(
    objective: Objective,
    cards: int,
    rate_per_s: float,
    seen: Sequence[Seen],
    requests: int,
    looks: int,
) -> Decision:
    """What the runs say: no where one bound is surely missed, yes where both are surely kept."""
    latencies_us, busy = zip(*seen, strict=True)
    surely_us, surely_busy = (Estimate.of(each, DECIDED_AT) for each in (latencies_us, busy))
    in_time = _side(surely_us, objective.limit_us)
    has_room = _side(surely_busy, objective.target_utilisation)
    holds = None if None in (in_time, has_room) else True
    return Decision(
        cards, rate_per_s, False if False in (in_time, has_room) else holds,
        Estimate.of(latencies_us), surely_us, requests, len(seen), looks,
        surely_busy, in_time, has_room,
    )  # fmt: skip


def are_plain(seen: Sequence[Seen], objective: Objective) -> bool:
    """Whether all are far within limit and target, or far beyond one of them."""
    latencies_us, busy = zip(*seen, strict=True)
    limit_us, target = objective.limit_us, objective.target_utilisation
    beyond: bool = min(latencies_us) > FAR * limit_us or min(busy) > CLEAR * target
    return beyond or (max(latencies_us) < limit_us / FAR and max(busy) < target / CLEAR)


def _widths(surely: Estimate, bound: float) -> float:
    """How many times narrower the interval has to be to lie on one side of the bound."""
    gap = abs(math.log(bound / surely.mean))
    return math.log(surely.hi / surely.mean) / gap if gap else math.inf


def _side(value: Estimate, bound: float) -> bool | None:
    """On which side of the bound the whole interval is, None where it reaches across."""
    bound *= 1 + 1e-9  # a time that adds up to the limit keeps it, whatever its last bits are
    if value.hi <= bound:
        return True
    return None if value.lo <= bound else False
