"""The fleet simulation: against formulas, in hand-made stories, and what always holds."""

from __future__ import annotations

import heapq
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npusim.capacity.arrivals import GammaArrivals, PoissonArrivals
from npusim.capacity.dispatch import DISPATCH, Loads
from npusim.capacity.fleet import (
    Failures,
    Fleet,
    Outage,
    Stream,
    device_rate_per_s,
    simulate,
)
from npusim.values.errors import ArgumentError
from support import queueing

if TYPE_CHECKING:
    from npusim.capacity.outcome import FleetRun

MS = 1000.0
SINGLE = (Stream("m", (0.0, MS)),)
BATCHED = (
    Stream("a", (0.0, *(400 + 100.0 * n for n in range(1, 9))), share=3, max_wait_us=700),
    Stream("b", (0.0, *(900 + 300.0 * n for n in range(1, 5))), share=1, max_wait_us=2000),
)


@dataclass(frozen=True)
class Given:
    """Arrivals at stated milliseconds."""

    times_ms: tuple[float, ...]

    def requests(self, _rate_per_s: float, _at_least: int) -> int:
        return len(self.times_ms)

    def times_us(self, _rate_per_s: float, count: int, _rng: np.random.Generator) -> np.ndarray:
        return np.array(self.times_ms[:count]) * MS

    def describe(self) -> str:
        return "given"


def story(
    times_ms: tuple[float, ...], stream: Stream = SINGLE[0], fleet: Fleet | None = None
) -> FleetRun:
    arrivals = Given(times_ms)
    return simulate(fleet or Fleet(1), (stream,), arrivals, 1.0, requests=len(times_ms), seed=1)


# The formulas


# Long queues change slowly, so that their mean takes more requests.
REQUESTS = {0.3: 50_000, 0.7: 50_000, 0.9: 120_000}


@pytest.mark.parametrize("utilisation", REQUESTS)
@pytest.mark.parametrize(
    ("cards", "service_cv"), [(1, 1.0), (3, 1.0), (1, 0.0)], ids=["M/M/1", "M/M/3", "M/D/1"]
)
def test_mean_waits_are_those_of_queueing_theory(
    cards: int, service_cv: float, utilisation: float
) -> None:
    rate_per_s = utilisation * cards * 1000
    requests = REQUESTS[utilisation]
    waits_s = [
        simulate(
            Fleet(cards), SINGLE, PoissonArrivals(), rate_per_s,
            requests=requests, seed=seed, service_cv=service_cv,
        ).waits_us().mean() / 1e6
        for seed in (1, 2, 3, 4)
    ]  # fmt: skip
    if service_cv:
        exact_s = queueing.mmc_wait_s(cards, rate_per_s, 1e-3)
    else:
        exact_s = queueing.md1_wait_s(rate_per_s, 1e-3)
    assert np.mean(waits_s) == pytest.approx(exact_s, rel=0.03)


@pytest.mark.parametrize("cards", [1, 3, 10])
@pytest.mark.parametrize("utilisation", [0.5, 0.95])
def test_a_shared_queue_follows_its_recursion_request_by_request(
    cards: int, utilisation: float
) -> None:
    """Kiefer and Wolfowitz: the next request starts on the server that is free first."""
    run = simulate(
        Fleet(cards), SINGLE, PoissonArrivals(), utilisation * cards * 1000,
        requests=5000, seed=4, service_cv=1.0,
    )  # fmt: skip
    free_us = [0.0] * cards
    for arrival_us, begin_us, end_us in zip(run.arrival_us, run.begin_us, run.end_us, strict=True):
        assert begin_us == max(arrival_us, heapq.heappop(free_us))
        heapq.heappush(free_us, end_us)


def test_in_turn_every_card_is_a_queue_of_its_own() -> None:
    run = simulate(
        Fleet(3, dispatch="round_robin"), SINGLE, GammaArrivals(2), 2500, requests=3000, seed=2
    )
    for card in range(3):
        free_us = 0.0
        for arrival_us, begin_us in zip(
            run.arrival_us[card::3], run.begin_us[card::3], strict=True
        ):
            assert begin_us == max(arrival_us, free_us)
            free_us = begin_us + MS


# Stories


PAIR = Stream("m", (0.0, 10 * MS, 12 * MS), max_wait_us=5 * MS)


@pytest.mark.parametrize(
    ("times_ms", "begins_ms", "ends_ms"),
    [
        ((0,), (5,), (15,)),  # alone: waits for company, in vain
        ((0, 3), (3, 3), (15, 15)),  # company comes: the batch is full and starts
        ((0, 3, 4), (3, 3, 15), (15, 15, 25)),  # the third waits for the card, not 5 ms more
        ((0, 3, 14), (3, 3, 19), (15, 15, 29)),  # the third waits its own 5 ms out
        ((0, 6), (5, 15), (15, 25)),  # the second came a moment too late
        ((0, 0, 0, 0), (0, 0, 12, 12), (12, 12, 24, 24)),
    ],
)
def test_a_batch_starts_when_it_is_full_or_has_waited(
    times_ms: tuple[float, ...], begins_ms: tuple[float, ...], ends_ms: tuple[float, ...]
) -> None:
    for dispatch in DISPATCH:
        run = story(times_ms, PAIR, Fleet(1, dispatch=dispatch))
        assert (run.begin_us / MS).tolist() == pytest.approx(begins_ms)
        assert (run.end_us / MS).tolist() == pytest.approx(ends_ms)


@pytest.mark.parametrize("dispatch", ["shared", "least_loaded", "round_robin"])
def test_equal_requests_spread_evenly(dispatch: str) -> None:
    run = story((0,) * 6, fleet=Fleet(2, dispatch=dispatch))  # type: ignore[arg-type]
    assert (run.begin_us / MS).tolist() == [0, 0, 1, 1, 2, 2]


def test_the_more_dispatch_knows_the_shorter_the_wait() -> None:
    waits_us = [
        simulate(
            Fleet(6, dispatch=dispatch), SINGLE, PoissonArrivals(), 4800,
            requests=20_000, seed=1, service_cv=1.0,
        ).waits_us().mean()
        for dispatch in ("shared", "least_loaded", "round_robin", "random")
    ]  # fmt: skip
    assert waits_us == sorted(waits_us)
    assert waits_us[-1] > 5 * waits_us[0]


def test_devices_of_one_card_share_its_fate() -> None:
    fleet = Fleet(1, devices_per_card=2, outages=(Outage(0, 0.0005, 0.01),))
    run = story((0, 0, 0), fleet=fleet)
    # Both batches are lost at 0.5 ms, and all starts again at 10.5 ms.
    assert (run.begin_us / MS).tolist() == pytest.approx([10.5, 10.5, 11.5])
    assert run.interrupted == 2


@pytest.mark.parametrize("dispatch", DISPATCH)
def test_a_card_that_fails_hands_its_work_to_the_others(dispatch: str) -> None:
    fleet = Fleet(2, dispatch=dispatch, outages=(Outage(0, 0.0025, 100.0),))  # type: ignore[arg-type]
    run = story(tuple(0.01 * n for n in range(12)), fleet=fleet)
    # Twelve milliseconds of work: five are done by 2.5 ms at most, the rest by one card alone.
    assert 12 * MS / 2 < run.end_us.max() <= 12.2 * MS
    assert (run.end_us - run.begin_us).tolist() == pytest.approx([MS] * 12)


@pytest.mark.parametrize("dispatch", ["least_loaded", "round_robin", "random"])
def test_with_every_card_down_requests_wait_for_a_repair(dispatch: str) -> None:
    outages = (Outage(0, 0.0005, 0.01), Outage(1, 0.0005, 0.02))
    fleet = Fleet(2, dispatch=dispatch, outages=outages)  # type: ignore[arg-type]
    run = story((0, 0.1, 0.2, 2), fleet=fleet)
    assert (run.begin_us >= 10.5 * MS).all()
    assert run.end_us.max() <= 25 * MS


def test_a_repaired_card_serves_again() -> None:
    fleet = Fleet(1, outages=(Outage(0, 0.0, 0.004), Outage(0, 0.0065, 0.004)))
    run = story((0.5, 1, 5.5), fleet=fleet)
    assert (run.begin_us / MS).tolist() == pytest.approx([4, 5, 10.5])
    assert run.interrupted == 1


def test_random_failures_strike_as_often_as_stated() -> None:
    failures = Failures(mtbf_s=90, mttr_s=10)
    outages = failures.outages(50, 10_000, np.random.default_rng(1))
    down_s = sum(min(o.duration_s, 10_000 - o.start_s) for o in outages)
    assert down_s / (50 * 10_000) == pytest.approx(0.1, rel=0.05)
    fewer = failures.outages(20, 10_000, np.random.default_rng(1))
    assert fewer == outages[: len(fewer)], "a card more leaves the others' fate alone"


# What always holds


def check(run: FleetRun, fleet: Fleet, streams: tuple[Stream, ...]) -> None:
    assert np.isfinite(run.end_us).all()
    assert (run.begin_us >= run.arrival_us).all()
    for number, stream in enumerate(streams):
        mine = run.model == number
        allowed_us = run.end_us[mine] - run.begin_us[mine]
        nearest = np.abs(allowed_us[:, None] - np.array(stream.service_us[1:])).min(axis=1)
        assert (nearest < 1e-6 * allowed_us).all()
    # Starts and ends of all batches, interrupted ones too, never show more at work than there are.
    events = [(at, 1) for at in run.busy_begin_us] + [(at, -1) for at in run.busy_end_us]
    at_work = np.cumsum([step for _, step in sorted(events)])
    assert at_work.max(initial=0) <= fleet.devices
    assert at_work[-1] == 0


@settings(max_examples=60, deadline=None)
@given(
    cards=st.integers(1, 5),
    devices=st.integers(1, 2),
    dispatch=st.sampled_from(DISPATCH),
    load=st.floats(0.1, 1.5),
    failing=st.booleans(),
    seed=st.integers(0, 2**32),
)
def test_every_request_is_served_once_and_no_device_does_two_things(
    cards: int, devices: int, dispatch: str, load: float, failing: bool, seed: int
) -> None:
    rate_per_s = load * cards * devices * device_rate_per_s(BATCHED)
    failures = Failures(mtbf_s=200 / rate_per_s, mttr_s=50 / rate_per_s) if failing else None
    fleet = Fleet(cards, devices, dispatch, failures)  # type: ignore[arg-type]
    run = simulate(fleet, BATCHED, GammaArrivals(1.5), rate_per_s, requests=400, seed=seed)
    check(run, fleet, BATCHED)
    assert run.mean_batch() <= 8
    assert failing or run.interrupted == 0


@settings(max_examples=200, deadline=None)
@given(
    cards=st.integers(1, 6),
    dispatch=st.sampled_from(DISPATCH),
    most=st.integers(2, 9),
    waits_us=st.lists(st.sampled_from((0.0, 3.0, 200.0, 5000.0)), min_size=1, max_size=3),
    load=st.floats(0.05, 1.2),
    service_cv=st.sampled_from((0.0, 0.7)),
    together=st.booleans(),
    seed=st.integers(0, 2**32),
)
def test_batches_without_a_clock_are_those_with_one(
    cards: int, dispatch: str, most: int, waits_us: list[float], load: float, service_cv: float,
    together: bool, seed: int,
) -> None:  # fmt: skip
    services_us = (0.0, *(100 + 30.0 * n for n in range(1, most + 1)))
    streams = tuple(
        Stream(f"m{number}", services_us[: len(services_us) - number % 2], 1.0 + number, wait_us)
        for number, wait_us in enumerate(waits_us)
    )
    rate_per_s = load * cards * device_rate_per_s(streams)
    times_ms = np.cumsum(np.random.default_rng(seed).exponential(1e3 / rate_per_s, 300))
    if together:  # several at the same instant
        times_ms = times_ms.round(1)
    runs = [
        simulate(
            Fleet(cards, 1, dispatch, outages=outages),  # type: ignore[arg-type]
            streams, Given(tuple(times_ms)), rate_per_s,
            requests=300, seed=seed, service_cv=service_cv,
        )
        for outages in ((), (Outage(0, 1e9, 1.0),))
    ]  # fmt: skip
    for name in ("begin_us", "end_us", "busy_begin_us", "busy_end_us"):
        np.testing.assert_array_equal(*(getattr(run, name) for run in runs), name)


@given(st.integers(1, 80), st.lists(st.tuples(st.integers(0, 79), st.integers(0, 5)), max_size=60))
def test_the_station_with_the_fewest_is_found(stations: int, steps: list[tuple[int, int]]) -> None:
    loads, plain = Loads(stations), [0] * stations
    for number, requests in steps:
        place = number % stations
        wanted = requests - plain[place] if requests < 2 else requests  # fewer, or more
        loads.add(place, wanted)
        plain[place] += wanted
        loads.add(least := loads.least(), 1)
        assert least == plain.index(min(plain))
        plain[least] += 1


def test_the_checks_above_can_fail() -> None:
    run = simulate(Fleet(3), SINGLE, PoissonArrivals(), 2500, requests=500, seed=1)
    check(run, Fleet(3), SINGLE)
    with pytest.raises(AssertionError):
        check(run, Fleet(1), SINGLE)
    with pytest.raises(AssertionError):
        check(run, Fleet(3), (Stream("m", (0.0, 2 * MS)),))


def test_little_s_law_holds_for_the_queue() -> None:
    run = simulate(Fleet(2), SINGLE, PoissonArrivals(), 1800, requests=50_000, seed=3)
    course = run.queue_over_time(1)
    assert course.values[0] == pytest.approx(1800 * run.waits_us().mean() / 1e6, rel=0.02)
    many = run.queue_over_time(50)
    assert len(many.edges_s) == 51
    assert many.values.mean() == pytest.approx(course.values[0])
    assert run.longest_queue() >= many.values.max()


def test_utilisation_is_load_over_capacity_when_batches_are_single() -> None:
    run = simulate(Fleet(5), SINGLE, PoissonArrivals(), 3500, requests=50_000, seed=3)
    assert run.utilisation() == pytest.approx(0.7, rel=0.01)
    course = run.utilisation_over_time(40)
    assert course.values.mean() == pytest.approx(run.utilisation())
    assert course.values.min() >= 0
    assert course.values.max() <= 1 + 1e-9


def test_a_quantile_is_a_latency_that_occurred() -> None:
    run = story(tuple(range(10)))
    assert run.counted_from == 1
    assert run.quantile_us(0.5) in run.latencies_us()
    assert run.latencies_us("m").tolist() == run.latencies_us().tolist()
    assert run.quantile_us(1.0) == run.latencies_us().max()


def test_a_model_without_counted_requests_has_no_quantile() -> None:
    streams = (Stream("often", (0.0, MS), share=1e9), Stream("never", (0.0, MS), share=1e-9))
    run = simulate(Fleet(1), streams, PoissonArrivals(), 100, requests=100, seed=1)
    assert np.isnan(run.quantile_us(0.9, "never"))
    assert len(run.latencies_us("often")) == 90


def test_the_capacity_of_a_mix_is_the_time_that_its_requests_take() -> None:
    # Full batches: 8 in 1.2 ms and 4 in 2.1 ms, three requests of the first for one of the second.
    assert device_rate_per_s(BATCHED) == pytest.approx(4 / (3 * 0.15e-3 + 0.525e-3))


# The seed


DIGEST = """
import hashlib
from npusim.capacity.arrivals import GammaArrivals
from npusim.capacity.dispatch import DISPATCH, Loads
from npusim.capacity.fleet import Failures, Fleet, Stream, simulate
streams = (Stream("a", (0.0, 500.0, 600.0), 3.0, 300.0), Stream("b", (0.0, 900.0)))
digest = hashlib.sha256()
for dispatch in DISPATCH:
    fleet = Fleet(4, 2, dispatch, Failures(0.2, 0.05))
    pattern = GammaArrivals(1.5)
    run = simulate(fleet, streams, pattern, 9000.0, requests=5000, seed=11, service_cv=0.3)
    digest.update(run.end_us.tobytes())
    assert run.interrupted
print(digest.hexdigest())
"""


def test_the_same_seed_gives_the_same_run_in_any_process() -> None:
    digests = {
        subprocess.run(
            [sys.executable, "-c", DIGEST], capture_output=True, text=True, check=True,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
        ).stdout
        for hash_seed in ("0", "1")
    }  # fmt: skip
    assert len(digests) == 1
    other = [simulate(Fleet(1), SINGLE, PoissonArrivals(), 1, requests=9, seed=s) for s in (1, 2)]
    assert not np.array_equal(other[0].arrival_us, other[1].arrival_us)


def test_every_fleet_sees_the_same_requests() -> None:
    runs = [
        simulate(
            Fleet(cards, dispatch=dispatch), BATCHED, PoissonArrivals(), 5000, requests=500, seed=3
        )
        for cards in (1, 4)
        for dispatch in DISPATCH
    ]
    for run in runs[1:]:
        assert np.array_equal(run.arrival_us, runs[0].arrival_us)
        assert np.array_equal(run.model, runs[0].model)


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: Fleet(0), "fleet of 0 cards"),
        (lambda: Fleet(1, 0), "0 devices"),
        (lambda: Fleet(1, dispatch="rr"), "dispatch 'rr'"),  # type: ignore[arg-type]
        (lambda: Fleet(2, outages=(Outage(2, 0, 1),)), "outage of card 2"),
        (lambda: story(()), "nothing to simulate"),
    ],
)
def test_fleets_that_cant_be_are_refused(make: object, complaint: str) -> None:
    with pytest.raises(ArgumentError, match=complaint):
        make()  # type: ignore[operator]
