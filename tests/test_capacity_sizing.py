"""Sizing: the fewest cards, monotone in load and limit whatever the simulation says."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npusim.capacity.arrivals import GammaArrivals, PoissonArrivals, TraceArrivals
from npusim.capacity.dispatch import DISPATCH, Dispatch
from npusim.capacity.estimate import Estimate
from npusim.capacity.fleet import Outage, Stream
from npusim.capacity.sizing import Effort, Objective, Sizer
from npusim.values.errors import ArgumentError
from support import queueing

QUICK = Effort(seeds=(1, 2), requests=300, load_levels=8, max_cards=32, max_requests=400)
BATCHED = (
    Stream("a", (0.0, *(400 + 100.0 * n for n in range(1, 9))), share=3, max_wait_us=700),
    Stream("b", (0.0, *(900 + 300.0 * n for n in range(1, 5))), share=1, max_wait_us=1500),
)


@cache
def sizer(limit_us: float, dispatch: Dispatch = "shared", *, slow: float = 1.0) -> Sizer:
    streams = tuple(
        Stream(s.name, tuple(slow * t for t in s.service_us), s.share, s.max_wait_us)
        for s in BATCHED
    )
    objective = Objective(0.9, limit_us, 0.8)
    return Sizer(streams, GammaArrivals(2), objective, dispatch=dispatch, effort=QUICK)


# Few limits, so that what one example simulated serves the next; any rate.
LIMITS_US = st.sampled_from([2_100.0, 2_700.0, 2_701.0, 3_500.0, 5_000.0, 20_000.0])
RATES_PER_S = st.floats(1, 60_000)
BEYOND = 10**9


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(DISPATCH), LIMITS_US, RATES_PER_S, RATES_PER_S)
def test_more_load_never_takes_fewer_cards(
    dispatch: Dispatch, limit_us: float, one: float, other: float
) -> None:
    one, other = sorted((one, other))
    asked = sizer(limit_us, dispatch)
    assert (asked.cards(one) or BEYOND) <= (asked.cards(other) or BEYOND)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(DISPATCH), LIMITS_US, LIMITS_US, RATES_PER_S)
def test_a_looser_limit_never_takes_more_cards(
    dispatch: Dispatch, one: float, other: float, rate_per_s: float
) -> None:
    tight, loose = sorted((one, other))
    wanted = sizer(tight, dispatch).cards(rate_per_s) or BEYOND
    assert (sizer(loose, dispatch).cards(rate_per_s) or BEYOND) <= wanted


class Noisy(Sizer):
    """A sizer whose simulations say anything at all, but the same when asked again."""

    def __init__(self, seed: int, limit_us: float) -> None:
        objective = Objective(0.9, limit_us, 0.8)
        super().__init__((Stream("m", (0.0, 1000.0)),), PoissonArrivals(), objective, effort=QUICK)
        self.seed = seed

    def latency_us(self, cards: int, rate_per_s: float) -> Estimate:
        level = round(rate_per_s / self.card_rate_per_s / cards * 100)
        value = np.random.default_rng((self.seed, cards, level)).uniform(1000, 5000)
        return Estimate(value, value, value)


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 50), *[st.floats(1000, 5000)] * 2, *[st.floats(1, 60_000)] * 2)
def test_both_hold_for_any_latencies_whatever(
    seed: int, limit: float, limit_too: float, rate: float, rate_too: float
) -> None:
    tight, loose = sorted((limit, limit_too))
    low, high = sorted((rate, rate_too))
    most = Noisy(seed, tight).cards(high) or BEYOND
    assert (Noisy(seed, tight).cards(low) or BEYOND) <= most
    assert (Noisy(seed, loose).cards(high) or BEYOND) <= most


def test_a_plain_bisection_would_not_hold() -> None:
    """Shows that the noise above is noise enough to tell: the obvious search breaks on it."""

    def plain(rate_per_s: float, limit_us: float) -> int:
        below, enough = 0, 32
        while enough - below > 1:
            middle = (below + enough) // 2
            late = Noisy(1, limit_us).latency_us(middle, rate_per_s).hi > limit_us
            below, enough = (middle, enough) if late else (below, middle)
        return enough

    counts = [plain(rate_per_s, 3000) for rate_per_s in range(1000, 60_000, 1000)]
    assert counts != sorted(counts)


@pytest.mark.parametrize("rate_per_s", [500, 3_000])
@pytest.mark.parametrize("limit_us", [5_000, 7_000, 12_000])
def test_the_count_is_erlang_s_where_there_is_a_formula(rate_per_s: float, limit_us: float) -> None:
    """Exponential service of 1 ms: the quantile of wait plus service lies between two known ones.

    It exceeds that of the wait alone, and falls short of the sum of both quantiles.
    """
    objective = Objective(0.95, limit_us, 0.999)
    asked = Sizer(
        (Stream("m", (0.0, 1000.0)),), PoissonArrivals(), objective, service_cv=1.0,
        effort=Effort(seeds=(1, 2, 3), requests=6_000),
    )  # fmt: skip
    cards = asked.cards(rate_per_s)
    assert cards is not None
    fewest = queueing.cards_for_wait(rate_per_s, 1e-3, 0.95, limit_us / 1e6)
    service_s = 1e-3 * np.log(20)
    most = queueing.cards_for_wait(rate_per_s, 1e-3, 0.95, limit_us / 1e6 - service_s)
    assert fewest <= cards <= most + 1
    assert asked.closed_form_cards(rate_per_s) <= cards


def test_a_loose_limit_leaves_the_closed_form() -> None:
    asked = sizer(1e6)
    for rate_per_s in (10, 1000, 5_000, 50_000):
        assert asked.cards(rate_per_s) == asked.closed_form_cards(rate_per_s)


def test_the_cards_carry_what_they_are_said_to_carry() -> None:
    asked = sizer(3_500, "least_loaded")
    for rate_per_s in (500, 9_000, 30_000):
        cards = asked.cards(rate_per_s)
        assert cards is not None
        assert asked.carries(cards, rate_per_s)
        carried = asked.carried_rate_per_s(cards)
        assert carried >= rate_per_s * (1 - 1e-9)
        assert asked.latency_us(cards, carried).hi <= 3_500
        assert asked.carries(cards, carried)
        assert not asked.carries(cards, carried * 1.2)


def test_slower_devices_take_more_cards() -> None:
    counts = [sizer(9_000, slow=slow).cards(30_000) for slow in (1.0, 1.3, 2.0)]
    assert None not in counts
    assert counts[0] < counts[1] < counts[2]  # type: ignore[operator]


def test_two_devices_on_a_card_halve_the_cards() -> None:
    objective = Objective(0.9, 1e5, 0.8)
    pair, single = (
        Sizer(BATCHED, PoissonArrivals(), objective, devices_per_card=devices, effort=QUICK)
        for devices in (2, 1)
    )
    assert pair.card_rate_per_s == 2 * single.card_rate_per_s
    assert pair.cards(30_000) == -(-(single.cards(30_000) or 0) // 2)


def test_where_no_count_helps_the_answer_is_none() -> None:
    assert sizer(900).cards(10) is None  # a batch of one takes longer
    assert sizer(1e6).cards(1e9) is None  # more than max_cards


def test_same_seeds_same_answer_and_caching_changes_nothing() -> None:
    objective = Objective(0.9, 3_000, 0.8)
    rates = (200.0, 9_000.0, 2_000.0)

    def ask(order: tuple[float, ...]) -> dict[float, int | None]:
        asked = Sizer(BATCHED, GammaArrivals(2), objective, dispatch="random", effort=QUICK)
        return {rate: asked.cards(rate) for rate in order}

    assert ask(rates) == ask(rates[::-1])


def test_progress_tells_each_simulation_once() -> None:
    seen: list[tuple[int, float]] = []
    asked = Sizer(
        BATCHED, PoissonArrivals(), Objective(0.9, 3_000, 0.8), effort=QUICK,
        progress=lambda cards, rate: seen.append((cards, rate)),
    )  # fmt: skip
    asked.cards(20_000)
    asked.cards(20_000)
    assert seen
    assert len(set(seen)) == len(seen)


def test_every_model_can_be_held_to_the_limit() -> None:
    every, each = (
        Sizer(BATCHED, PoissonArrivals(), Objective(0.9, 1, 0.8, each_model=each), effort=QUICK)
        for each in (False, True)
    )
    assert each.latency_us(4, 5_000).mean > every.latency_us(4, 5_000).mean


def test_runs_are_as_long_as_quantile_devices_and_arrivals_ask() -> None:
    def requests(quantile: float, cards: int, **effort: Any) -> int:
        objective = Objective(quantile, 1e4, 0.8)
        return Sizer(BATCHED, PoissonArrivals(), objective, effort=Effort(**effort)).requests(
            cards, 10
        )

    assert requests(0.5, 1, requests=500) == 500
    assert requests(0.99, 1, requests=500) == 10_000
    assert requests(0.5, 100, requests=500) == 20 * 8 * 100
    assert requests(0.9999, 1, requests=500, max_requests=5_000) == 5_000
    trace = TraceArrivals(np.arange(777.0))
    assert Sizer(BATCHED, trace, Objective(0.9, 1e4, 0.8)).requests(9, 1.0) == 777


def test_a_failing_card_can_be_played() -> None:
    run = sizer(9_000).run(3, 5_000, seed=1, outages=(Outage(0, 0.01, 0.02),))
    assert run.interrupted == 1


@pytest.mark.parametrize(
    ("values", "half"),
    [((5.0,), 0.0), ((4.0, 6.0), 12.706), ((1.0, 2.0, 3.0), 4.303 / np.sqrt(3))],
)
def test_an_estimate_has_student_s_interval(values: tuple[float, ...], half: float) -> None:
    estimate = Estimate.of(values)
    assert estimate.mean == pytest.approx(np.mean(values))
    factor = np.exp(half / np.mean(values))
    assert estimate.hi / estimate.mean == pytest.approx(factor)
    assert estimate.mean / estimate.lo == pytest.approx(factor)


@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=6))
def test_no_interval_of_a_latency_reaches_below_zero(values: list[float]) -> None:
    estimate = Estimate.of(values)
    assert 0 <= estimate.lo <= estimate.mean <= estimate.hi < np.inf


def test_a_small_spread_has_the_usual_interval() -> None:
    estimate = Estimate.of((99.0, 100.0, 101.0))
    half = 4.303 / np.sqrt(3)
    assert (estimate.lo, estimate.hi) == pytest.approx((100 - half, 100 + half), abs=0.05)


@pytest.mark.parametrize(("spread", "least", "most"), [(0.5, 0.94, 0.96), (3, 0.94, 0.98)])
def test_the_interval_covers_the_truth_as_often_as_it_says(
    spread: float, least: float, most: float
) -> None:
    """More often where runs differ much: a wide interval errs on the safe side."""
    rng = np.random.default_rng(1)
    estimates = [Estimate.of(rng.normal(10, spread, 5).tolist()) for _ in range(4000)]
    covered = np.mean([estimate.lo <= 10 <= estimate.hi for estimate in estimates])
    assert least <= covered <= most


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: Objective(1.0, 1, 0.5), "quantile is 1"),
        (lambda: Objective(0.9, 0, 0.5), "limit is 0"),
        (lambda: Objective(0.9, 1, 1.0), "target utilisation is 1"),
        (lambda: Effort(seeds=()), "effort of nothing"),
        (lambda: Effort(requests=0), "effort of nothing"),
    ],
)
def test_what_cant_be_asked_is_refused(make: object, complaint: str) -> None:
    with pytest.raises(ArgumentError, match=complaint):
        make()  # type: ignore[operator]
