"""Sizing: the fewest cards that meet a latency objective, found by bisection over simulations.

Two guarantees hold by construction, whatever the simulations say: the count never falls when the
load rises, and never rises when the limit is loosened.

* Every question has the form *does f(x) reach a threshold*, where f belongs to x alone: the latency
  of m cards at one level of load doesn't depend on the limit, nor does the rate that m cards carry
  depend on the load we plan for.  The same seeds, so the same requests, answer for each x.
* The order in which x are asked is a fixed search tree.  Two thresholds take the same path until
  one says yes and the other no, and from there on the looser one stays on the smaller side.

A plain bisection over *do m cards meet the limit at this load* has neither: simulated latency isn't
quite monotone (a little more load can fill batches sooner), and one odd value would turn the
search.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from npusim.capacity.estimate import Estimate
from npusim.capacity.fleet import Fleet, device_rate_per_s, simulate
from npusim.capacity.queueing import cards_for_rate
from npusim.values.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable

    from npusim.capacity.arrivals import Arrivals
    from npusim.capacity.dispatch import Dispatch
    from npusim.capacity.fleet import Outage, Stream
    from npusim.capacity.outcome import FleetRun

REQUESTS_BEYOND_QUANTILE = 100
"""A run is long enough for this many requests above the quantile that it estimates."""

BATCHES_PER_DEVICE = 20
"""A run is long enough to fill every device's batch this often."""


@dataclass(frozen=True)
class Objective:
    """What the fleet has to keep: a latency quantile, and a reserve of throughput.

    The target utilisation is the share of full-batch throughput that the load may take.  With
    `each_model` every model's own quantile has to keep the limit, otherwise that of all requests.
    """

    quantile: float
    limit_us: float
    target_utilisation: float
    each_model: bool = False

    def __post_init__(self) -> None:
        """Refuse what can't be an objective."""
        if not 0 < self.quantile < 1:
            raise ArgumentError(
                f"the quantile is {self.quantile:g}; it lies between 0 and 1", "p99 is 0.99."
            )
        if not self.limit_us > 0:
            raise ArgumentError(f"the limit is {self.limit_us:g} us; it must be positive")
        if not 0 < self.target_utilisation < 1:
            raise ArgumentError(
                f"the target utilisation is {self.target_utilisation:g}; it lies between 0 and 1"
            )

    def latency_us(self, run: FleetRun) -> float:
        """The latency of a run that the limit is held against."""
        if not self.each_model:
            return run.quantile_us(self.quantile)
        own = [run.quantile_us(self.quantile, model) for model in run.models]
        return max(value for value in own if not math.isnan(value))


@dataclass(frozen=True)
class Effort:
    """How much is simulated: seeds, requests in a run, steps of load, cards in a fleet."""

    seeds: tuple[int, ...] = (1, 2, 3, 4, 5)
    requests: int = 10_000
    load_levels: int = 32
    max_cards: int = 4096
    max_requests: int = 200_000

    def __post_init__(self) -> None:
        """Refuse to simulate nothing."""
        if (
            not self.seeds
            or min(self.requests, self.load_levels, self.max_cards, self.max_requests) < 1
        ):
            raise ArgumentError(f"an effort of nothing: {self}")


class Sizer:
    """One workload on one kind of card: how many it needs, and what a number of them carries.

    Latencies are cached, so asking for many loads costs little more than asking for one.
    `progress` is called with cards and requests/s before each of them is simulated.
    """

    def __init__(
        self,
        streams: tuple[Stream, ...],
        arrivals: Arrivals,
        objective: Objective,
        *,
        devices_per_card: int = 1,
        dispatch: Dispatch = "shared",
        service_cv: float = 0.0,
        effort: Effort | None = None,
        progress: Callable[[int, float], None] | None = None,
    ) -> None:
        self.streams = streams
        self.arrivals = arrivals
        self.objective = objective
        self.effort = effort or Effort()
        self._devices_per_card = devices_per_card
        self._dispatch = dispatch
        self._service_cv = service_cv
        self._progress = progress
        self._latencies: dict[tuple[int, float], Estimate] = {}
        self.card_rate_per_s = devices_per_card * device_rate_per_s(streams)
        """Requests per second of a card that is never idle and runs full batches."""

    def closed_form_cards(self, rate_per_s: float) -> int:
        """The count by throughput alone, from card rate and target utilisation."""
        return cards_for_rate(rate_per_s, self.card_rate_per_s, self.objective.target_utilisation)

    def cards(self, rate_per_s: float) -> int | None:
        """The fewest cards that carry the rate, or None where `Effort.max_cards` don't."""
        most = self.effort.max_cards
        below, enough = 0, 1
        while not self.carries(enough, rate_per_s):
            if enough == most:
                return None
            below, enough = enough, min(2 * enough, most)
        while enough - below > 1:
            middle = (below + enough) // 2
            if self.carries(middle, rate_per_s):
                enough = middle
            else:
                below = middle
        return enough

    def carries(self, cards: int, rate_per_s: float) -> bool:
        """Whether these cards carry the rate; simulates only as far as the answer needs."""
        # A quotient that is whole but for its last bits mustn't cost a level.
        level = max(1, math.ceil(rate_per_s / self._step_per_s(cards) * (1 - 1e-12)))
        return level <= self.effort.load_levels and self._carried_level(cards, level) >= level

    def carried_rate_per_s(self, cards: int) -> float:
        """The largest rate that these cards carry, in steps of one load level."""
        return self._carried_level(cards) * self._step_per_s(cards)

    def latency_us(self, cards: int, rate_per_s: float) -> Estimate:
        """The latency that the objective limits, over all seeds."""
        key = (cards, rate_per_s)
        if key not in self._latencies:
            if self._progress is not None:
                self._progress(cards, rate_per_s)
            runs = (self.run(cards, rate_per_s, seed) for seed in self.effort.seeds)
            self._latencies[key] = Estimate.of([self.objective.latency_us(run) for run in runs])
        return self._latencies[key]

    def run(
        self, cards: int, rate_per_s: float, seed: int, outages: tuple[Outage, ...] = ()
    ) -> FleetRun:
        """One simulation of these cards at this rate."""
        fleet = Fleet(cards, self._devices_per_card, self._dispatch, outages=outages)
        return simulate(
            fleet,
            self.streams,
            self.arrivals,
            rate_per_s,
            requests=self.requests(cards, rate_per_s),
            seed=seed,
            service_cv=self._service_cv,
        )

    def requests(self, cards: int, rate_per_s: float) -> int:
        """How many requests a run of these cards at this rate plays."""
        beyond = math.ceil(REQUESTS_BEYOND_QUANTILE / (1 - self.objective.quantile))
        devices = cards * self._devices_per_card
        filled = BATCHES_PER_DEVICE * devices * max(stream.max_batch for stream in self.streams)
        wanted = min(max(self.effort.requests, beyond, filled), self.effort.max_requests)
        return min(self.arrivals.requests(rate_per_s, wanted), self.effort.max_requests)

    def _carried_level(self, cards: int, asked: int | None = None) -> int:
        """The highest load level within the limit; only its side of `asked` counts, if given."""
        carried, failed = 0, self.effort.load_levels + 1
        level = (
            self.effort.load_levels
        )  # most fleets that are large enough carry the target: ask that first
        while failed - carried > 1 and (asked is None or carried < asked < failed):
            latency_us = self.latency_us(cards, level * self._step_per_s(cards)).hi
            if latency_us <= self.objective.limit_us:
                carried = level
            else:
                failed = level
            level = (carried + failed) // 2
        return carried

    def _step_per_s(self, cards: int) -> float:
        return (
            cards
            * self.card_rate_per_s
            * self.objective.target_utilisation
            / self.effort.load_levels
        )
