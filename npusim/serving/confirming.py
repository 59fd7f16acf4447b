"""Confirming: the fewest replicas that keep the objective in runs that are long enough to tell.

A short run begins with an empty server and ends before a queue has grown, so it flatters: a rate
that 300 requests survive may drown 3,000. What a search found by short runs is asked again here,
with several seeds, at the rate that each replica really gets: a no is final, a yes is believed of
longer runs only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from npusim.capacity.deciding import DECIDED_AT
from npusim.capacity.estimate import Estimate
from npusim.capacity.sizing import first

SEEDS: Final = 4
"""Runs of each length."""

FIRST_REQUESTS: Final = 1_000
"""Requests of the first runs at least."""

LONGER: Final = 4
"""How many times as long the next runs are."""

MOST_REPLICAS: Final = 100_000

Shares = Callable[[float, int, int], float]
"""The share of requests in time, of one replica at a rate in requests/s, so many requests, seed."""


class Confirmed(NamedTuple):
    """The fewest replicas that surely keep the objective, and the fewest that aren't ruled out."""

    replicas: int
    perhaps: int


class Confirming:
    """One deployment under one load: does each of so many replicas keep the objective?"""

    def __init__(
        self,
        shares: Shares,
        rate_per_s: float,
        quantile: float,
        requests: int,
        most: int,
        seed: int,
    ) -> None:
        self._shares = shares
        self._rate_per_s = rate_per_s
        self._quantile = quantile
        self._first = min(max(FIRST_REQUESTS, requests), most)
        self._most = most
        self._seed = seed
        self._known: dict[int, bool | None] = {}

    def replicas(self, near: int) -> Confirmed | None:
        """The fewest, looked for around `near`; None where no number helps."""
        if self.holds(near) is not True and self.holds(MOST_REPLICAS) is not True:
            return None  # told by two questions instead of by all on the way up
        enough = first(lambda each: self.holds(each) is True, 1, MOST_REPLICAS, near)
        if enough is None:
            return None
        perhaps = first(lambda each: self.holds(each) is not False, 1, enough, enough)
        return Confirmed(enough, enough if perhaps is None else perhaps)

    def holds(self, replicas: int) -> bool | None:
        """Whether so many keep the objective; None where the longest runs leave it open."""
        if replicas not in self._known:
            self._known[replicas] = self._asked(self._rate_per_s / replicas)
        return self._known[replicas]

    def _asked(self, rate_per_s: float) -> bool | None:
        requests = self._first
        while True:
            shares = [
                self._shares(rate_per_s, requests, self._seed + number) for number in range(SEEDS)
            ]
            found = self._side(shares)
            is_long = requests > self._first or requests >= self._most
            if found is False or (found and is_long) or requests >= self._most:
                return found
            requests = min(self._most, LONGER * requests)

    def _side(self, shares: list[float]) -> bool | None:
        surely = Estimate.of(shares, DECIDED_AT)
        if surely.lo >= self._quantile:
            return True
        return None if surely.hi >= self._quantile else False
