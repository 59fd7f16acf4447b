"""Sizing: the fewest cards that meet an objective, decided or said to be undecided.

Whether m cards keep the limit and the target utilisation is asked of several independent runs. As
long as the interval of their quantile, or of their busy share, reaches across its bound, or is near
it and hasn't been confirmed, all runs are made longer: that narrows the interval, and takes away
what the empty fleet at the start and the exact mean of a short run flatter. What the longest runs
leave open stays open, and the answer says so.

The same seeds, so the same requests, answer for every number of cards. A few short runs say near
which number to ask. Once a budget is spent nothing more is simulated to decide.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from npusim.capacity.deciding import Decision, are_plain, judged
from npusim.capacity.estimate import Estimate
from npusim.capacity.fleet import Fleet, device_rate_per_s, simulate
from npusim.capacity.queueing import cards_for_rate
from npusim.values.errors import ArgumentError
from npusim.values.language import say

if TYPE_CHECKING:
    from collections.abc import Callable

    from npusim.capacity.arrivals import Arrivals
    from npusim.capacity.budget import Budget
    from npusim.capacity.deciding import Objective, Seen
    from npusim.capacity.dispatch import Dispatch
    from npusim.capacity.fleet import Outage, Stream
    from npusim.capacity.outcome import FleetRun
    from npusim.capacity.results import Limit, Operation

REQUESTS_BEYOND_QUANTILE = 100
"""A run is long enough for this many requests above the quantile that it estimates."""

BATCHES_PER_DEVICE = 20
"""A run is long enough to fill every device's batch this often."""

RELAXATIONS: Final = 30
"""A run is this many times as long as a queue remembers, (1 - load) ** -2 requests."""

BRIEF_REQUESTS: Final = 10_000
"""Runs for what is asked by few looks begin with this many, however many the plan asks for."""

KEPT_REQUESTS: Final = 200_000
"""Runs of so many requests in all are remembered: a decision's are asked for their details next."""

FEW: Final = 3
"""Runs that suffice where all of them are far from the limit."""

MANY_LOOKS: Final = 1_000
"""More looks than there are lengths of runs."""


@dataclass(frozen=True)
class Effort:
    """How much is simulated: seeds, requests in a run at first and at most, cards in a fleet."""

    seeds: tuple[int, ...] = (1, 2, 3, 4, 5, 6, 7, 8)
    requests: int = 10_000
    load_levels: int = 32
    max_cards: int = 4096
    max_requests: int = 160_000

    def __post_init__(self) -> None:
        """Refuse to simulate nothing."""
        if (
            not self.seeds
            or min(self.requests, self.load_levels, self.max_cards, self.max_requests) < 1
        ):
            raise ArgumentError(say("an effort of nothing: {value}").format(value=self))


class BudgetSpentError(Exception):
    """The budget was spent before the question had an answer."""


class Needed(NamedTuple):
    """The fewest cards that surely carry a load, and the fewest that aren't ruled out."""

    cards: int
    perhaps: int


class Sizer:
    """One workload on one kind of card: how many it needs, and what a number of them carries.

    Decisions are remembered, so asking for many loads costs little more than asking for one.
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
        budget: Budget | None = None,
    ) -> None:
        self.budget = budget
        self.streams = streams
        self.arrivals = arrivals
        self.objective = objective
        self.effort = effort or Effort()
        self._devices_per_card = devices_per_card
        self._dispatch = dispatch
        self._service_cv = service_cv
        self._progress = progress
        self._decisions: dict[tuple[int, float], Decision] = {}
        self._runs: dict[tuple[Fleet, float, int, int], FleetRun] = {}
        self.operations: dict[tuple[int, float, bool, int], Operation] = {}
        self.card_rate_per_s = devices_per_card * device_rate_per_s(streams)
        """Requests per second of a card that is never idle and runs full batches."""

    def closed_form_cards(self, rate_per_s: float) -> int:
        """The count by throughput alone: target utilisation with batches that are all full."""
        return cards_for_rate(rate_per_s, self.card_rate_per_s, self.objective.target_utilisation)

    def cards(
        self, rate_per_s: float, *, looks: int | None = None, near: int | None = None
    ) -> int | None:
        """The fewest cards that surely carry the rate, None where `Effort.max_cards` don't."""
        needed = self.needed(rate_per_s, looks=looks, near=near)
        return None if needed is None else needed.cards

    def needed(
        self, rate_per_s: float, *, looks: int | None = None, near: int | None = None
    ) -> Needed | None:
        """The fewest cards, and the fewest that aren't ruled out; `looks` as for `decide`.

        Throughput at the target utilisation rules out all below the closed form. The search begins
        at `near`. Raises BudgetSpentError where the budget ends before any number is known to do.
        """
        most, fewest = self.effort.max_cards, self.closed_form_cards(rate_per_s)
        if fewest > most:
            return None
        if near is None and looks != 1:
            near = first(lambda cards: self._seems_in_time(cards, rate_per_s), fewest, most, fewest)
        enough = first(
            lambda cards: self._holds(cards, rate_per_s, looks) is True,
            fewest, most, fewest if near is None else near,
        )  # fmt: skip
        if enough is None:
            if self.budget_spent:
                raise BudgetSpentError
            return None
        perhaps = first(
            lambda cards: self._holds(cards, rate_per_s, looks) is not False,
            fewest, enough, enough,
        )  # fmt: skip
        return Needed(enough, enough if perhaps is None else perhaps)

    def _seems_in_time(self, cards: int, rate_per_s: float) -> bool:
        """Whether a few short runs keep limit and target on average."""
        if self.budget_spent:
            return self._holds(cards, rate_per_s, 0) is True
        found, wanted = self.decide(cards, rate_per_s, looks=0), self.objective
        has_room = found.busy.mean <= wanted.target_utilisation
        return has_room and found.latency_us.mean <= wanted.limit_us

    def _holds(self, cards: int, rate_per_s: float, looks: int | None) -> bool | None:
        """As `decide` says, or once the budget is spent what it said of fewer and of more cards."""
        if not self.budget_spent:
            return self.decide(cards, rate_per_s, looks=looks).holds
        known = self.known(rate_per_s)
        if any(each.holds and each.cards <= cards for each in known):
            return True
        is_ruled_out = any(each.holds is False and each.cards >= cards for each in known)
        return False if is_ruled_out else None

    def known(self, rate_per_s: float) -> list[Decision]:
        """What has been decided or left open at this load; a glance isn't either."""
        found = self._decisions.values()
        return [each for each in found if each.rate_per_s == rate_per_s and each.looks]

    def decide(self, cards: int, rate_per_s: float, *, looks: int | None = None) -> Decision:
        """Whether these cards keep the limit; runs get longer at most `looks` - 1 times.

        With 0 looks a few short runs are all that is asked.
        """
        key = (cards, rate_per_s)
        known = self._decisions.get(key)
        wanted = MANY_LOOKS if looks is None else looks
        if known is None or (known.wants(wanted) and not self.budget_spent):
            self._decisions[key] = known = self._decide(cards, rate_per_s, wanted)
        return known

    @property
    def budget_spent(self) -> bool:
        """Whether the budget is spent."""
        return self.budget is not None and self.budget.is_spent

    def _decide(self, cards: int, rate_per_s: float, looks: int) -> Decision:
        if rate_per_s >= cards * self.card_rate_per_s:
            never = Estimate(math.inf, math.inf, math.inf)
            return Decision(cards, rate_per_s, False, never, never, 0, 0, looks)
        length = self.requests(cards, rate_per_s, briefly=looks != MANY_LOOKS)
        before, look = None, 0
        while True:
            if self._progress is not None:
                self._progress(cards, rate_per_s)
            seen = self._seen(cards, rate_per_s, length, FEW if not looks else None)
            look += 1
            found = judged(self.objective, cards, rate_per_s, seen, length, min(look, looks))
            holds, runs = found.holds, found.runs
            longer = self._within(math.ceil(length * found.longer(self.objective)), rate_per_s)
            plain = are_plain([(found.latency_us.mean, found.busy.mean)], self.objective)
            sure = holds is not None and (holds is before or plain)
            if sure or (longer <= length and runs == len(self.effort.seeds)):
                return found._replace(looks=MANY_LOOKS)
            if look >= looks or longer <= length or self.budget_spent:
                return found
            length, before = longer, holds

    def _seen(self, cards: int, rate_per_s: float, length: int, runs: int | None) -> list[Seen]:
        """Latency and busy share of each run; a few where they are far from limit and target."""
        found: list[Seen] = []
        for seed in self.effort.seeds[:runs]:
            run = self.run(cards, rate_per_s, seed, length=length)
            found.append((self.objective.latency_us(run), self._busy(run, cards, rate_per_s)))
            if len(found) == FEW and are_plain(found, self.objective):
                break
        return found

    def _busy(self, run: FleetRun, cards: int, rate_per_s: float) -> float:
        """The devices' busy share; without batches it is offered load over capacity."""
        if all(stream.max_batch == 1 for stream in self.streams):
            return rate_per_s / (cards * self.card_rate_per_s)
        return run.utilisation()

    def limited_by(self, cards: int, rate_per_s: float) -> Limit:
        """What asks for the last of these cards: the bound that one card fewer misses most surely.

        It is ``throughput`` where batches that are all full would be too busy.
        """
        if cards <= self.closed_form_cards(rate_per_s):
            return "throughput"
        fewer = [each for each in self.known(rate_per_s) if each.cards == cards - 1]
        if fewer and not fewer[0].has_room and fewer[0].in_time is not False:
            return "utilisation"
        return "latency"

    def carried_rate_per_s(self, cards: int, least_per_s: float = 0.0) -> float:
        """The largest rate from the least on that these cards carry, by short runs.

        In steps of one load level, of as many as lie between it and full batches at the target.
        """
        most_per_s = cards * self.card_rate_per_s * self.objective.target_utilisation
        step_per_s = max(0.0, most_per_s - least_per_s) / self.effort.load_levels
        carried, failed = 0, self.effort.load_levels + 1
        level = self.effort.load_levels  # most fleets carry the target: ask that first
        while failed - carried > 1:
            if self._holds(cards, least_per_s + level * step_per_s, 1):
                carried = level
            else:
                failed = level
            level = (carried + failed) // 2
        return least_per_s + carried * step_per_s

    def latency_us(self, cards: int, rate_per_s: float) -> Estimate:
        """The latency that the objective limits, over all seeds."""
        return self.decide(cards, rate_per_s).latency_us

    def run(
        self,
        cards: int,
        rate_per_s: float,
        seed: int,
        outages: tuple[Outage, ...] = (),
        length: int | None = None,
    ) -> FleetRun:
        """One simulation of these cards at this rate, of `length` requests if that is given."""
        fleet = Fleet(cards, self._devices_per_card, self._dispatch, outages=outages)
        length = length or self.requests(cards, rate_per_s)
        key = (fleet, rate_per_s, seed, length)
        if key not in self._runs:
            played = simulate(
                fleet,
                self.streams,
                self.arrivals,
                rate_per_s,
                requests=length,
                seed=seed,
                service_cv=self._service_cv,
            )
            if length > KEPT_REQUESTS:
                return played
            self._runs[key] = played
            while sum(len(each.arrival_us) for each in self._runs.values()) > KEPT_REQUESTS:
                del self._runs[next(iter(self._runs))]
        return self._runs[key]

    def length(self, cards: int, rate_per_s: float) -> int:
        """How many requests a run played that decided, or plays at first."""
        known = self._decisions.get((cards, rate_per_s))
        return (known and known.requests) or self.requests(cards, rate_per_s)

    def requests(self, cards: int, rate_per_s: float, *, briefly: bool = False) -> int:
        """How many requests a run of these cards at this rate plays at first."""
        asked = min(self.effort.requests, BRIEF_REQUESTS) if briefly else self.effort.requests
        beyond = math.ceil(REQUESTS_BEYOND_QUANTILE / (1 - self.objective.quantile))
        devices = cards * self._devices_per_card
        filled = BATCHES_PER_DEVICE * devices * max(stream.max_batch for stream in self.streams)
        idle = max(1e-3, 1 - rate_per_s / (cards * self.card_rate_per_s))
        remembered = math.ceil(RELAXATIONS / idle**2)
        return self._within(max(asked, beyond, filled, remembered), rate_per_s)

    def _within(self, wanted: int, rate_per_s: float) -> int:
        """As many requests as the arrivals make of it, but no more than may be played."""
        most = self.effort.max_requests
        return min(self.arrivals.requests(rate_per_s, min(wanted, most)), most)


def first(test: Callable[[int], bool], low: int, high: int, near: int) -> int | None:
    """The smallest number from `low` to `high` that passes, None where `high` doesn't.

    What passes at a number passes at all larger ones. The steps away from `near` double.
    """
    near = min(max(near, low), high)
    below, enough, step = low - 1, high + 1, 1
    asked = near
    while enough - below > 1:
        if test(asked):
            enough = asked
        else:
            below = asked
        if below < low:
            asked, step = max(low, enough - step), 2 * step
        elif enough > high:
            asked, step = min(high, below + step), 2 * step
        else:
            asked = (below + enough) // 2
    return enough if enough <= high else None
