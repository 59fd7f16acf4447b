"""Sizing: the fewest cards, decided by runs that are long enough, or said to be open."""

from __future__ import annotations

import math
import runpy
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npusim.capacity import sizing
from npusim.capacity.arrivals import GammaArrivals, PoissonArrivals, TraceArrivals
from npusim.capacity.budget import Budget
from npusim.capacity.deciding import Decision, Objective
from npusim.capacity.dispatch import DISPATCH, Dispatch
from npusim.capacity.estimate import Estimate
from npusim.capacity.fleet import Outage, Stream
from npusim.capacity.operating import operate
from npusim.capacity.sizing import (
    BRIEF_REQUESTS,
    FEW,
    BudgetSpentError,
    Effort,
    Sizer,
    first,
)
from npusim.values.errors import ArgumentError
from support import queueing
from support.paths import ROOT

QUICK = Effort(seeds=(1, 2, 3), requests=600, load_levels=8, max_cards=32, max_requests=1200)
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


# Within each of them a request may wait as long as it may, and then run in a full batch.
LIMITS_US = (3_700.0, 5_000.0, 20_000.0)
RATES = (1.0, 500.0, 3_000.0, 10_000.0, 30_000.0, 60_000.0)
BEYOND = 10**9


@pytest.mark.parametrize("dispatch", DISPATCH)
def test_more_load_never_takes_fewer_cards(dispatch: Dispatch) -> None:
    for limit_us in LIMITS_US:
        counts = [sizer(limit_us, dispatch).cards(rate) or BEYOND for rate in RATES]
        assert counts == sorted(counts)


@pytest.mark.parametrize("dispatch", DISPATCH)
@pytest.mark.parametrize("rate_per_s", [300.0, 9_000.0, 40_000.0])
def test_a_looser_limit_never_takes_more_cards(dispatch: Dispatch, rate_per_s: float) -> None:
    counts = [sizer(limit_us, dispatch).cards(rate_per_s) or BEYOND for limit_us in LIMITS_US]
    assert counts == sorted(counts, reverse=True)


class Noisy(Sizer):
    """A sizer whose runs say anything around a truth, by seed and length."""

    def __init__(self, truths_us: dict[int, float], spread: float, limit_us: float) -> None:
        objective = Objective(0.9, limit_us, 0.8)
        effort = Effort(requests=300, max_requests=4_800, max_cards=32)
        super().__init__((Stream("m", (0.0, 1000.0)),), PoissonArrivals(), objective, effort=effort)
        self.truths_us = truths_us
        self.spread = spread

    def run(  # type: ignore[override]
        self, cards: int, rate_per_s: float, seed: int, outages: object = (), length: int = 0
    ) -> Any:
        del rate_per_s, outages
        noise = np.random.default_rng((cards, seed, length)).normal(0, self.spread / length**0.5)
        return SimpleNamespace(
            models=("m",),
            quantile_us=lambda _: self.truths_us.get(cards, 1100.0) * np.exp(noise),
        )


def test_noise_is_decided_by_longer_runs_or_said_to_be_open() -> None:
    """Three cards are within the limit by 15, 3.5 and 0.02 %, then beyond it."""
    by_margin = {}
    for truth_us in (1700.0, 1930.0, 1999.6, 2200.0):
        asked = Noisy({2: 9000.0, 3: truth_us}, 1.0, 2000.0)
        by_margin[truth_us] = (asked.needed(1_000), asked.decide(3, 1_000))
    wide, close, open_, beyond = by_margin.values()
    assert (wide[0], close[0]) == ((3, 3), (3, 3))
    assert wide[1].requests <= close[1].requests < 4_800
    assert open_[0] == (4, 3)
    assert open_[1].holds is None
    assert open_[1].requests == 4_800
    assert open_[1].requests_to_decide(Objective(0.9, 2000.0, 0.7)) > 2 * 8 * 4_800
    assert beyond[0] == (4, 4)
    assert beyond[1].holds is False


def test_runs_get_as_much_longer_as_it_takes_but_not_more_than_fourfold() -> None:
    def longer(holds: bool | None, mean: float, factor: float) -> float:
        estimate = Estimate(mean, mean / factor, mean * factor)
        decision = Decision(
            3, 1e3, holds, estimate, estimate, 1_000, 8, in_time=holds, has_room=True
        )
        return decision.longer(Objective(0.9, 2_000.0, 0.7))

    reach = math.log(2_000 / 1_900)  # of the mean below the limit
    assert longer(True, 1_900, 1.0) == 2
    assert longer(None, 1_900, math.exp(1.1 * reach)) == 2
    assert longer(None, 1_900, math.exp(1.7 * reach)) == pytest.approx(1.7**2)
    assert longer(None, 1_900, math.exp(3 * reach)) == 4
    assert longer(None, 2_000, 1.1) == 4


def test_the_runs_of_a_decision_are_not_played_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Sizer(BATCHED, PoissonArrivals(), Objective(0.9, 3_000, 0.8), effort=QUICK)
    decision = asked.decide(3, 8_000)
    monkeypatch.setattr(sizing, "simulate", lambda *_, **__: pytest.fail("played again"))
    played = operate(asked, 3, 8_000, runs=decision.runs)
    assert played.latency_us == decision.latency_us


def test_far_from_the_limit_few_runs_decide() -> None:
    asked = Noisy({2: 9000.0}, 1.0, 2000.0)
    far = asked.decide(2, 1_000)
    assert (far.holds, far.requests, far.runs) == (False, asked.requests(2, 1_000), FEW)
    assert asked.decide(1, 1_000).runs == 0, "no run tells more of a fleet that can't keep up"


@pytest.mark.parametrize("service_cv", [0.0, 1.0])
@pytest.mark.parametrize(
    ("rate_per_s", "limit_us"), [(700, 6_500), (3_000, 3_600), (12_000, 3_800)]
)
def test_the_count_is_exact_where_there_is_a_closed_form(
    rate_per_s: float, limit_us: float, service_cv: float
) -> None:
    """M/M/c and M/D/c with 1 ms: the quantile of wait and service together."""
    if not service_cv:
        limit_us = 1_000 + (limit_us - 3_000) / 2
    asked = Sizer(
        (Stream("m", (0.0, 1000.0)),), PoissonArrivals(), Objective(0.95, limit_us, 0.999),
        service_cv=service_cv,
    )  # fmt: skip
    exact = queueing.mmc_latency_quantile_s if service_cv else queueing.mdc_latency_quantile_s
    fewest = next(
        cards
        for cards in range(math.floor(rate_per_s / 1e3) + 1, 64)
        if exact(cards, rate_per_s, 1e-3, 0.95) <= limit_us / 1e6
    )
    assert asked.needed(rate_per_s) == (fewest, fewest)


_SLOW = [pytest.param(number, marks=pytest.mark.slow) for number in (7, 15)]


@pytest.mark.parametrize("number", [1, 2, 6, *_SLOW, 18, 19])
def test_a_plan_decides_as_a_long_run_does(number: int) -> None:
    """A few of those that `benchmarks/plans.py` compares with runs of a million requests."""
    plans = runpy.run_path(str(ROOT / "benchmarks" / "plans.py"))
    asked, rate_per_s = plans["workload"](number)
    needed = asked.needed(rate_per_s)
    assert needed.cards - needed.perhaps <= (number == 7)  # whose 25 cards are busy for the target
    fewest = plans["by_a_long_run"](asked, rate_per_s, needed.cards, 100_000)
    assert needed.perhaps <= fewest <= needed.cards


def test_a_loose_limit_leaves_the_closed_form() -> None:
    alone = Stream("a", (0.0, 500.0))
    asked = Sizer((alone,), PoissonArrivals(), Objective(0.9, 1e6, 0.8), effort=QUICK)
    for rate_per_s in (10, 1_600, 5_000, 48_000):
        assert asked.cards(rate_per_s) == asked.closed_form_cards(rate_per_s)


def test_where_the_queue_forms_small_batches_more_cards_keep_the_target() -> None:
    asked, rate_per_s = sizer(1e6), 50_000
    cards = asked.cards(rate_per_s)
    assert cards is not None
    assert cards > asked.closed_form_cards(rate_per_s)
    assert asked.limited_by(cards, rate_per_s) == "utilisation"
    within, beyond = (asked.decide(number, rate_per_s) for number in (cards, cards - 1))
    assert within.busy.hi <= 0.8 < beyond.busy.hi


def test_the_cards_carry_what_they_are_said_to_carry() -> None:
    asked = sizer(3_500, "least_loaded")
    for rate_per_s in (500, 9_000, 30_000):
        cards = asked.cards(rate_per_s)
        assert cards is not None
        assert asked.decide(cards, rate_per_s).holds
        carried = asked.carried_rate_per_s(cards)
        assert carried >= rate_per_s * (1 - 2 / QUICK.load_levels)
        assert asked.latency_us(cards, carried).hi <= 3_500
        assert not asked.decide(cards, carried * 2).holds


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
    told = len(seen)
    asked.cards(20_000)
    assert told == len(seen) > 0


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


def test_what_ifs_are_asked_briefly_however_long_the_runs_of_a_plan_are() -> None:
    effort = Effort(seeds=(1, 2, 3), requests=50_000)
    asked = Sizer(BATCHED, PoissonArrivals(), Objective(0.9, 30_000, 0.8), effort=effort)
    assert asked.decide(3, 7_000, looks=1).requests == BRIEF_REQUESTS
    assert asked.decide(3, 6_000).requests == 50_000


def test_a_failing_card_can_be_played() -> None:
    run = sizer(9_000).run(3, 5_000, seed=1, outages=(Outage(0, 0.01, 0.02),))
    assert run.interrupted == 1


@pytest.mark.parametrize(
    ("values", "half"),
    [
        ((5.0,), 0.0),
        ((4.0, 6.0), 12.7062),
        ((1.0, 2.0, 3.0), 4.30265 / np.sqrt(3)),
        ((1.0, 2.0, 3.0, 2.0), 3.1824 * 0.81650 / 2),
    ],
)
def test_an_estimate_has_student_s_interval(values: tuple[float, ...], half: float) -> None:
    estimate = Estimate.of(values)
    assert estimate.mean == pytest.approx(np.mean(values))
    factor = np.exp(half / np.mean(values))
    assert estimate.hi / estimate.mean == pytest.approx(factor, rel=2e-3)
    assert estimate.mean / estimate.lo == pytest.approx(factor, rel=2e-3)


@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=6))
def test_no_interval_of_a_latency_reaches_below_zero(values: list[float]) -> None:
    estimate = Estimate.of(values)
    assert 0 <= estimate.lo <= estimate.mean <= estimate.hi < np.inf


def test_an_estimate_of_what_has_no_end_is_without_end() -> None:
    assert Estimate.of((math.inf, math.inf, 3.0)) == (math.inf,) * 3


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


@given(st.integers(1, 60), st.integers(0, 60), st.integers(0, 70), st.integers(-5, 80))
def test_the_first_number_that_passes_is_found(low: int, more: int, found: int, near: int) -> None:
    asked: list[int] = []

    def passes(number: int) -> bool:
        asked.append(number)
        return number >= found

    high = low + more
    wanted = max(low, found) if found <= high else None
    assert first(passes, low, high, near) == wanted
    assert len(set(asked)) == len(asked) <= 2 * (more + 2).bit_length()


def test_what_is_left_open_is_not_simulated_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(limit_us: float) -> Sizer:
        objective = Objective(0.95, limit_us, 0.9)
        return Sizer(BATCHED, PoissonArrivals(), objective, service_cv=1.0, effort=QUICK)

    close = asked(5_000)
    while (before := close.decide(3, 9_000.0)).holds is not None:
        close = asked(before.latency_us.mean)
    monkeypatch.setattr(sizing, "simulate", None)
    assert close.decide(3, 9_000.0) is before


def test_a_spent_budget_answers_from_what_is_known() -> None:
    budget = Budget(1e9)
    asked = Sizer(
        BATCHED, PoissonArrivals(), Objective(0.9, 3_500, 0.8), effort=QUICK, budget=budget
    )
    needed = asked.needed(20_000)
    assert needed
    budget.share(0.0)
    assert asked.budget_spent
    assert asked.needed(20_000) == needed
    with pytest.raises(BudgetSpentError):
        asked.needed(30_000)
