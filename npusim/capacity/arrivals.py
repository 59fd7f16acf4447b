"""Arrival patterns: when the requests of a workload reach the fleet, at any stated mean rate.

Every pattern keeps the stated mean exactly in every run (the drawn gaps are rescaled to it), so two
seeds differ in the order of events and not in the load they offer.  Patterns draw the same numbers
at every rate: the same seed at twice the rate is the same story told twice as fast.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from npusim.capacity.units import US_PER_S
from npusim.values.errors import ArgumentError
from npusim.values.language import say

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.capacity.traces import Trace

MIN_BURSTS = 20
"""A run of a bursty pattern covers at least this many bursts, or its quantiles mean little."""


class Arrivals(Protocol):
    """What the fleet simulation asks of an arrival pattern."""

    def requests(self, rate_per_s: float, at_least: int) -> int:
        """How many requests a run at this rate needs to show the pattern, `at_least` or more."""
        ...

    def times_us(
        self, rate_per_s: float, count: int, rng: np.random.Generator
    ) -> NDArray[np.float64]:
        """The first `count` arrival times in microseconds, ascending, at this mean rate."""
        ...

    def describe(self) -> str:
        """The pattern in words, for the assumptions of a report."""
        ...


class _GapArrivals(ABC):
    """Arrivals whose gaps don't depend on each other."""

    def requests(self, rate_per_s: float, at_least: int) -> int:
        """Any number will do."""
        _check_rate(rate_per_s)
        return at_least

    def times_us(
        self, rate_per_s: float, count: int, rng: np.random.Generator
    ) -> NDArray[np.float64]:
        """Cumulated gaps."""
        _check_rate(rate_per_s)
        return np.cumsum(_shares(self._gaps(count, rng), count / rate_per_s * US_PER_S))

    @abstractmethod
    def _gaps(self, count: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """So many gaps, of any mean length."""


@dataclass(frozen=True)
class PoissonArrivals(_GapArrivals):
    """Independent arrivals: exponential gaps."""

    def describe(self) -> str:
        """One word."""
        return "Poisson"

    def _gaps(self, count: int, rng: np.random.Generator) -> NDArray[np.float64]:
        return rng.standard_exponential(count)


@dataclass(frozen=True)
class ConstantArrivals(_GapArrivals):
    """A metronome: equal gaps, no randomness."""

    def describe(self) -> str:
        """Two words."""
        return "constant gaps"

    def _gaps(self, count: int, rng: np.random.Generator) -> NDArray[np.float64]:  # noqa: ARG002
        return np.ones(count)


@dataclass(frozen=True)
class GammaArrivals(_GapArrivals):
    """Independent gaps with a stated burstiness: the coefficient of variation of the gaps.

    1 is Poisson, more is burstier, less is steadier.
    """

    gap_cv: float

    def __post_init__(self) -> None:
        """Refuse a coefficient of variation that isn't positive."""
        if not self.gap_cv > 0 or not np.isfinite(self.gap_cv):
            raise ArgumentError(
                say(
                    "gap_cv is {gap_cv:g}; the coefficient of variation of the gaps is positive"
                ).format(gap_cv=self.gap_cv),
                say("1 is Poisson; for equal gaps use constant arrivals."),
            )

    def describe(self) -> str:
        """The distribution and its parameter."""
        return f"gamma-distributed gaps, coefficient of variation {self.gap_cv:g}"

    def _gaps(self, count: int, rng: np.random.Generator) -> NDArray[np.float64]:
        return rng.standard_gamma(self.gap_cv**-2, count)


@dataclass(frozen=True)
class BurstyArrivals:
    """A Poisson stream whose rate switches between bursts and calm (a Markov-modulated one).

    In a burst the rate is `burst_ratio` times the mean; bursts last `burst_s` seconds on average
    and fill `burst_share` of the time.  Lengths of bursts and of the calm between them are
    exponential.
    """

    burst_ratio: float
    burst_share: float
    burst_s: float

    def __post_init__(self) -> None:
        """Refuse bursts that carry more than all requests, or none."""
        if not self.burst_ratio > 1:
            raise ArgumentError(
                say(
                    "burst_ratio is {burst_ratio:g}; a burst is faster than the mean, so above 1"
                ).format(burst_ratio=self.burst_ratio)
            )
        if not 0 < self.burst_share < 1:
            raise ArgumentError(
                say("burst_share is {burst_share:g}; a share of time is between 0 and 1").format(
                    burst_share=self.burst_share
                )
            )
        if not self.burst_s > 0:
            raise ArgumentError(
                say("burst_s is {burst_s:g}; bursts last more than 0 seconds").format(
                    burst_s=self.burst_s
                )
            )
        if self.burst_ratio * self.burst_share > 1:
            raise ArgumentError(
                say(
                    "bursts of {burst_ratio:g} times the mean rate in {burst_share:g} of the "
                    "time carry {carried:.0%} of the requests"
                ).format(
                    burst_ratio=self.burst_ratio,
                    burst_share=self.burst_share,
                    carried=self.burst_ratio * self.burst_share,
                ),
                say("Take burst_share at most {value:.3g}, or a lower burst_ratio.").format(
                    value=1 / self.burst_ratio
                ),
            )

    def requests(self, rate_per_s: float, at_least: int) -> int:
        """Enough for `MIN_BURSTS` bursts and the calm around them."""
        _check_rate(rate_per_s)
        return max(
            at_least, int(np.ceil(MIN_BURSTS * self.burst_s / self.burst_share * rate_per_s))
        )

    def times_us(
        self, rate_per_s: float, count: int, rng: np.random.Generator
    ) -> NDArray[np.float64]:
        """Poisson times in units of accumulated intensity, mapped back to the clock."""
        _check_rate(rate_per_s)
        horizon_us = count / rate_per_s * US_PER_S
        bursts = max(1, round(horizon_us * self.burst_share / (self.burst_s * US_PER_S)))
        burst_us = _shares(rng.standard_exponential(bursts), horizon_us * self.burst_share)
        calm_us = _shares(rng.standard_exponential(bursts), horizon_us * (1 - self.burst_share))
        calm_ratio = (1 - self.burst_ratio * self.burst_share) / (1 - self.burst_share)
        lengths_us = np.column_stack((calm_us, burst_us)).ravel()
        ratios = np.tile((calm_ratio, self.burst_ratio), bursts)
        clock_us = np.concatenate(((0.0,), np.cumsum(lengths_us)))
        expected = np.concatenate(((0.0,), np.cumsum(lengths_us * ratios)))
        unit = np.cumsum(_shares(rng.standard_exponential(count), expected[-1]))
        return np.interp(unit, expected, clock_us)

    def describe(self) -> str:
        """The three parameters."""
        return (
            f"Poisson with bursts of {self.burst_ratio:g} times the mean rate, {self.burst_s:g} s "
            f"each on average, {self.burst_share:.0%} of the time"
        )


@dataclass(frozen=True, eq=False)
class TraceArrivals:
    """Recorded arrivals, replayed faster or slower so that they have the wanted mean rate.

    `offsets_s` are seconds, ascending.  Stamps that were recorded in steps of `resolution_s`
    seconds are spread over their step at random: a log in whole seconds doesn't mean that everybody
    came at once.
    """

    offsets_s: NDArray[np.float64]
    resolution_s: float = 0.0
    name: str = "trace"

    def __post_init__(self) -> None:
        """Refuse a trace that has no rate: one arrival, or all at the same instant."""
        if len(self.offsets_s) < 2 or not self._span_s() > 0:
            raise ArgumentError(
                say(
                    "{name} has {count} request(s) within {value:g} s: no rate can be read from it"
                ).format(name=self.name, count=len(self.offsets_s), value=self._span_s()),
                say("A trace needs at least two requests at different times."),
            )

    @classmethod
    def busiest(cls, trace: Trace, window_requests: int) -> TraceArrivals:
        """The `window_requests` consecutive requests of a trace that came in the shortest time."""
        times_s = trace.arrival_s
        size = min(max(2, window_requests), len(times_s))
        start = 0
        if size < len(times_s):
            start = int(np.argmin(times_s[size - 1 :] - times_s[: len(times_s) - size + 1]))
        window = times_s[start : start + size]
        return cls(window - window[0], trace.resolution_s, trace.name)

    @property
    def rate_per_s(self) -> float:
        """The mean rate as recorded."""
        return len(self.offsets_s) / self._span_s()

    def requests(self, rate_per_s: float, at_least: int) -> int:  # noqa: ARG002 - the trace decides
        """The whole trace, once."""
        _check_rate(rate_per_s)
        return len(self.offsets_s)

    def times_us(
        self, rate_per_s: float, count: int, rng: np.random.Generator
    ) -> NDArray[np.float64]:
        """The recorded times, stretched; a run longer than the trace plays it again."""
        _check_rate(rate_per_s)
        size = len(self.offsets_s)
        rounds = -(-count // size)
        span_s = self._span_s()
        offsets_s = np.concatenate([self.offsets_s + number * span_s for number in range(rounds)])[
            :count
        ]
        if self.resolution_s:
            offsets_s = np.sort(offsets_s + rng.uniform(0, self.resolution_s, count))
        return offsets_s * (size / span_s / rate_per_s * US_PER_S)

    def describe(self) -> str:
        """The file, how much of it, and what was done to coarse stamps."""
        spread = f", spread over their {self.resolution_s:g} s steps" if self.resolution_s else ""
        return f"{len(self.offsets_s)} requests of {self.name}{spread}"

    def _span_s(self) -> float:
        if len(self.offsets_s) < 2:
            return 0.0
        covered_s = float(self.offsets_s[-1] - self.offsets_s[0])
        # n arrivals have n - 1 gaps between them; the period is one mean gap longer.
        return covered_s * len(self.offsets_s) / (len(self.offsets_s) - 1)


def _check_rate(rate_per_s: float) -> None:
    if not rate_per_s > 0 or not np.isfinite(rate_per_s):
        raise ArgumentError(
            say("the rate is {rate_per_s:g} requests/s; it must be positive").format(
                rate_per_s=rate_per_s
            )
        )


def _shares(weights: NDArray[np.float64], total: float) -> NDArray[np.float64]:
    return weights * (total / float(weights.sum()))
