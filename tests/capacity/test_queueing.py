"""Closed forms of queueing theory, against values that can be worked out another way."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npusim.capacity.queueing import cards_for_rate, short_of_cards
from npusim.values.errors import ArgumentError
from support import queueing

LOADS = st.floats(0.01, 0.99)


def erlang_b_by_definition(servers: int, load: float) -> float:
    terms = [load**n / math.factorial(n) for n in range(servers + 1)]
    return terms[-1] / sum(terms)


@given(st.integers(1, 40), st.floats(0.01, 60))
def test_the_recursion_is_the_sum_of_the_definition(servers: int, load: float) -> None:
    assert queueing.erlang_b(servers, load) == pytest.approx(erlang_b_by_definition(servers, load))


@pytest.mark.parametrize(
    ("servers", "load", "waiting"),
    [(1, 0.5, 0.5), (2, 1.0, 1 / 3), (3, 2.0, 4 / 9), (5, 5.0, 1.0), (2, 7.0, 1.0)],
)
def test_erlang_c_has_its_textbook_values(servers: int, load: float, waiting: float) -> None:
    assert queueing.erlang_c(servers, load) == pytest.approx(waiting)


@given(LOADS)
def test_one_server_has_simple_formulas(load: float) -> None:
    wait_s = queueing.mmc_wait_s(1, load, 1.0)
    assert wait_s == pytest.approx(load / (1 - load))
    assert queueing.md1_wait_s(load, 1.0) == pytest.approx(wait_s / 2)
    assert queueing.mdc_wait_s(1, load, 1.0) == pytest.approx(wait_s / 2)
    assert queueing.gigc_wait_s(1, load, 1.0, gap_cv=1, service_cv=1) == pytest.approx(wait_s)
    assert queueing.gigc_wait_s(1, load, 1.0, gap_cv=1, service_cv=0) == pytest.approx(wait_s / 2)


@given(st.integers(1, 50), LOADS, st.floats(0.5, 0.999))
def test_the_wait_quantile_leaves_its_share_above(servers: int, load: float, share: float) -> None:
    rate = load * servers
    wait_s = queueing.mmc_wait_quantile_s(servers, rate, 1.0, share)
    above = queueing.erlang_c(servers, rate) * math.exp(-(servers - rate) * wait_s)
    assert above <= (1 - share) * (1 + 1e-9)
    assert wait_s == 0 or above == pytest.approx(1 - share)


def test_queues_that_arent_stable_wait_for_ever() -> None:
    for load in (1.0, 1.5):
        assert queueing.mmc_wait_s(2, 2 * load, 1.0) == math.inf
        assert queueing.mmc_wait_quantile_s(2, 2 * load, 1.0, 0.9) == math.inf
        assert queueing.md1_wait_s(load, 1.0) == math.inf
        assert queueing.mdc_wait_s(2, 2 * load, 1.0) == math.inf


def exact_mdc_wait(servers: int, rate: float, states: int = 250) -> float:
    """Mean wait in M/D/c with service time 1, by Crommelin's argument (1932).

    Whoever is served now is gone one service time later, so the numbers in the system at t and
    t + 1 form a Markov chain: what exceeds the servers stays, and a Poisson number has come.
    """
    poisson = np.exp(
        -rate + np.arange(states) * math.log(rate) - [math.lgamma(n + 1) for n in range(states)]
    )
    chance = np.full(states, 1 / states)
    for _ in range(20_000):
        left = np.concatenate(([chance[: servers + 1].sum()], chance[servers + 1 :]))
        following = np.convolve(left, poisson)[:states]
        if np.abs(following - chance).max() < 1e-12:
            break
        chance = following
    queued = np.maximum(np.arange(states) - servers, 0)
    return float(queued @ chance) / rate


@pytest.mark.parametrize("servers", [1, 2, 4, 10])
@pytest.mark.parametrize("utilisation", [0.5, 0.7, 0.9])
def test_the_approximation_for_constant_service_is_close(servers: int, utilisation: float) -> None:
    rate = servers * utilisation
    exact = exact_mdc_wait(servers, rate)
    assert queueing.mdc_wait_s(servers, rate, 1.0) == pytest.approx(exact, rel=0.03)


@pytest.mark.parametrize(
    ("rate", "card", "target", "cards"),
    [
        (100, 10, 1.0, 10),
        (100.1, 10, 1.0, 11),
        (300, 116.363636, 0.7, 4),
        (0.7 * 3 * 0.1, 0.1, 0.7, 3),  # whole but for the last bit
        (0, 5, 0.5, 1),
    ],
)
def test_cards_for_a_rate_are_rounded_up(
    rate: float, card: float, target: float, cards: int
) -> None:
    assert cards_for_rate(rate, card, target) == cards


@given(LOADS, st.floats(0.5, 0.999), st.floats(0, 10))
def test_cards_for_a_wait_are_the_fewest(load: float, quantile: float, wait_s: float) -> None:
    rate = 20 * load
    cards = queueing.cards_for_wait(rate, 1.0, quantile, wait_s)
    assert queueing.mmc_wait_quantile_s(cards, rate, 1.0, quantile) <= wait_s
    if cards > 1:
        assert queueing.mmc_wait_quantile_s(cards - 1, rate, 1.0, quantile) > wait_s


@pytest.mark.parametrize(
    ("cards", "needed", "share"),
    [(1, 1, 0.1), (2, 1, 0.01), (2, 2, 0.19), (3, 2, 3 * 0.01 * 0.9 + 0.001)],
)
def test_cards_are_short_as_often_as_too_many_fail(cards: int, needed: int, share: float) -> None:
    assert short_of_cards(cards, needed, 9.0, 1.0) == pytest.approx(share)


@pytest.mark.parametrize(
    ("ask", "complaint"),
    [
        (lambda: queueing.erlang_b(0, 1.0), "0 servers"),
        (lambda: queueing.erlang_c(2, -1.0), "can't be negative"),
        (lambda: queueing.md1_wait_s(-1, 1), "can't be negative"),
        (lambda: cards_for_rate(-5, 10), "positive"),
        (lambda: cards_for_rate(5, 0), "positive"),
        (lambda: cards_for_rate(5, 10, 1.5), "between 0 and 1"),
        (lambda: queueing.cards_for_wait(5, 1, 0.9, -1), "can't be negative"),
    ],
)
def test_questions_that_cant_be_are_refused(ask: object, complaint: str) -> None:
    with pytest.raises(ArgumentError, match=complaint):
        ask()  # type: ignore[operator]
