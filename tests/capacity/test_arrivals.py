"""Arrival patterns: they keep the stated mean, and each has the burstiness that it says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npusim.capacity.arrivals import (
    Arrivals,
    BurstyArrivals,
    ConstantArrivals,
    GammaArrivals,
    PoissonArrivals,
    TraceArrivals,
)
from npusim.capacity.traces import Trace
from npusim.values.errors import ArgumentError

COUNT = 20_000
PATTERNS: dict[str, Arrivals] = {
    "poisson": PoissonArrivals(),
    "constant": ConstantArrivals(),
    "steady": GammaArrivals(0.5),
    "gamma": GammaArrivals(3.0),
    "bursty": BurstyArrivals(burst_ratio=4, burst_share=0.1, burst_s=0.5),
    "trace": TraceArrivals(np.array([0.0, 1.0, 1.5, 4.0, 4.0, 9.0])),
}


def times_of(pattern: Arrivals, rate_per_s: float = 1000, seed: int = 1) -> np.ndarray:
    return pattern.times_us(rate_per_s, COUNT, np.random.default_rng(seed))


@pytest.mark.parametrize("pattern", PATTERNS.values(), ids=PATTERNS)
@pytest.mark.parametrize("rate_per_s", [0.01, 1.0, 777.0, 1e5])
def test_every_pattern_keeps_the_stated_mean_rate(pattern: Arrivals, rate_per_s: float) -> None:
    times_us = times_of(pattern, rate_per_s)
    assert len(times_us) == COUNT
    assert (np.diff(times_us) >= 0).all()
    assert times_us[0] >= 0
    assert times_us[-1] == pytest.approx(COUNT / rate_per_s * 1e6, rel=1e-3)


@pytest.mark.parametrize("pattern", PATTERNS.values(), ids=PATTERNS)
def test_the_seed_decides_everything(pattern: Arrivals) -> None:
    assert np.array_equal(times_of(pattern, seed=7), times_of(pattern, seed=7))


@pytest.mark.parametrize(
    ("name", "gap_cv"), [("poisson", 1.0), ("constant", 0.0), ("steady", 0.5), ("gamma", 3.0)]
)
def test_gaps_vary_as_much_as_stated(name: str, gap_cv: float) -> None:
    gaps = np.diff(times_of(PATTERNS[name]))
    assert gaps.std() / gaps.mean() == pytest.approx(gap_cv, rel=0.05, abs=1e-6)


def test_twice_the_rate_is_the_same_story_told_twice_as_fast() -> None:
    for name in ("poisson", "constant", "gamma", "trace"):
        assert times_of(PATTERNS[name], 2000) * 2 == pytest.approx(times_of(PATTERNS[name], 1000))


def test_bursts_come_at_their_rate_and_fill_their_share_of_the_time() -> None:
    pattern = BurstyArrivals(burst_ratio=4, burst_share=0.1, burst_s=2.0)
    count = pattern.requests(1000, at_least=1)
    assert count >= 20 * 2.0 / 0.1 * 1000
    times_s = pattern.times_us(1000, count, np.random.default_rng(3)) / 1e6
    in_slice, _ = np.histogram(times_s, bins=np.arange(0, times_s[-1], 0.1))
    # 400 in a slice of a burst, about 67 in a calm one: nothing in between but the edges.
    busy = in_slice > 230
    assert busy.mean() == pytest.approx(0.1, abs=0.02)
    assert in_slice[busy].mean() == pytest.approx(400, rel=0.1)
    assert in_slice[~busy].mean() == pytest.approx(1000 * 0.6 / 0.9 / 10, rel=0.1)


def test_a_run_at_any_rate_covers_twenty_bursts() -> None:
    pattern = BurstyArrivals(burst_ratio=2, burst_share=0.2, burst_s=10)
    assert pattern.requests(100, at_least=5) == 20 * 10 / 0.2 * 100
    assert pattern.requests(0.001, at_least=5) == 5


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: BurstyArrivals(0.5, 0.1, 1), "faster than the mean"),
        (lambda: BurstyArrivals(3, 0.0, 1), "between 0 and 1"),
        (lambda: BurstyArrivals(3, 0.1, 0), "more than 0 seconds"),
        (lambda: BurstyArrivals(3, 0.5, 1), "carry 150%"),
        (lambda: GammaArrivals(0), "coefficient of variation"),
        (lambda: TraceArrivals(np.array([1.0])), "no rate"),
        (lambda: TraceArrivals(np.array([1.0, 1.0])), "no rate"),
        (lambda: times_of(PoissonArrivals(), 0), "must be positive"),
        (lambda: times_of(PATTERNS["bursty"], -1), "must be positive"),
        (lambda: PATTERNS["trace"].requests(float("nan"), 1), "must be positive"),
    ],
)
def test_patterns_that_cant_be_are_refused(make: object, complaint: str) -> None:
    with pytest.raises(ArgumentError, match=complaint):
        make()  # type: ignore[operator]


def trace_of(times_s: np.ndarray, resolution_s: float = 0.0) -> Trace:
    tokens = np.ones(len(times_s), np.int32)
    return Trace("t.csv", "Azure LLM", times_s, tokens, tokens, 0, resolution_s)


def test_the_busiest_stretch_of_a_trace_is_the_one_replayed() -> None:
    calm, rush = np.arange(0, 100.0), 100 + np.arange(0, 5.0, 0.1)
    trace = trace_of(np.concatenate((calm, rush, rush[-1] + 1 + calm)))
    pattern = TraceArrivals.busiest(trace, 50)
    assert pattern.rate_per_s == pytest.approx(10)
    assert pattern.requests(123.0, at_least=7) == 50
    assert TraceArrivals.busiest(trace, 10_000).requests(1.0, 1) == len(trace)


@given(st.integers(1, 400))
def test_a_trace_repeats_when_a_run_is_longer(count: int) -> None:
    pattern = TraceArrivals(np.array([5.0, 6.0, 8.0]))
    times_us = pattern.times_us(1.0, count, np.random.default_rng(0))
    assert len(times_us) == count
    assert (np.diff(times_us) > 0).all()


def test_stamps_in_whole_seconds_are_spread_over_their_second() -> None:
    whole = np.repeat(np.arange(50.0), 20)
    pattern = TraceArrivals(whole, resolution_s=1.0)
    times_us = pattern.times_us(pattern.rate_per_s, len(whole), np.random.default_rng(1))
    assert (np.diff(times_us) > 0).all()
    assert np.abs(times_us / 1e6 - whole).max() <= 1.0
