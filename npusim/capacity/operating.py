"""Operating: how a fleet of a given size does at a given load, over all seeds of a sizer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from npusim.capacity.estimate import Estimate
from npusim.capacity.fleet import Outage
from npusim.capacity.results import AtCards, Operation
from npusim.capacity.sizing import FEW

if TYPE_CHECKING:
    from collections.abc import Sequence

    from npusim.capacity.deciding import Objective
    from npusim.capacity.outcome import FleetRun
    from npusim.capacity.sizing import Sizer

QUANTILES: Final = (0.5, 0.9, 0.95, 0.99)


def operate(
    sizer: Sizer, cards: int, rate_per_s: float, *, card_fails: bool = False, runs: int = 99
) -> Operation:
    """Simulate these cards at this load; `card_fails` takes one down for the middle third.

    With all seeds of the sizer, or its first `runs`; with few where its budget is spent.
    """
    key = (cards, rate_per_s, card_fails, runs)
    if key not in sizer.operations:
        seeds = sizer.effort.seeds[: min(runs, FEW) if sizer.budget_spent else runs]
        played = [_run(sizer, cards, rate_per_s, seed, card_fails=card_fails) for seed in seeds]
        sizer.operations[key] = _seen(sizer.objective, cards, rate_per_s, played)
    return sizer.operations[key]


def _seen(objective: Objective, cards: int, rate_per_s: float, runs: list[FleetRun]) -> Operation:
    latency_us = Estimate.of([objective.latency_us(run) for run in runs])
    utilisation = Estimate.of([run.utilisation() for run in runs])
    quantiles = sorted({*QUANTILES, objective.quantile})
    models = runs[0].models
    return Operation(
        cards=cards,
        rate_per_s=rate_per_s,
        latency_us=latency_us,
        quantiles_us=tuple(
            (q, Estimate.of([run.quantile_us(q) for run in runs])) for q in quantiles
        ),
        by_model_us=tuple(
            (name, Estimate.of([run.quantile_us(objective.quantile, name) for run in runs]))
            for name in models
        ),
        utilisation=utilisation,
        mean_batch=Estimate.of([run.mean_batch() for run in runs]).mean,
        longest_queue=max(run.longest_queue() for run in runs),
        meets=latency_us.hi <= objective.limit_us,
        run=runs[0],
    )


def at_cards(
    sizer: Sizer, numbers: Sequence[int], rate_per_s: float, looks: int
) -> tuple[AtCards, ...]:
    """The quantiles of so many cards at this load, as far as they were decided or `looks` decide.

    Once the budget is spent only what has been asked before.
    """
    found = []
    for cards in numbers:
        if sizer.budget_spent and cards not in {each.cards for each in sizer.known(rate_per_s)}:
            continue
        decision = sizer.decide(cards, rate_per_s, looks=looks)
        found.append(
            AtCards(
                cards,
                decision.latency_us if decision.runs else None,
                decision.holds,
                decision.busy.mean,
                decision.requests * decision.runs,
            )
        )
    return tuple(found)


def _run(sizer: Sizer, cards: int, rate_per_s: float, seed: int, *, card_fails: bool) -> FleetRun:
    if not card_fails:
        return sizer.run(cards, rate_per_s, seed, length=sizer.length(cards, rate_per_s))
    third_s = sizer.requests(cards, rate_per_s) / rate_per_s / 3
    return sizer.run(cards, rate_per_s, seed, (Outage(0, third_s, third_s),))
