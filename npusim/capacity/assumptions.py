"""Assumptions: what a plan's answer rests on, in sentences for its readers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from npusim.capacity.deciding import DECIDED_AT
from npusim.capacity.estimate import CONFIDENCE
from npusim.capacity.fleet import WARM_UP_SHARE
from npusim.values.language import say

if TYPE_CHECKING:
    from npusim.capacity.demand import Demand
    from npusim.capacity.dispatch import Dispatch
    from npusim.capacity.plan import Plan
    from npusim.capacity.results import ModelOnProduct, ProductResult

_DISPATCH_WORDS: Final[dict[Dispatch, str]] = {
    "shared": "Dispatch: one queue for all devices.",
    "least_loaded": "Dispatch: to the device with the fewest requests; devices batch their own.",
    "round_robin": "Dispatch: requests go to the devices in turn, which batch their own.",
    "random": "Dispatch: each request goes to a random device; devices batch their own.",
}


def assumptions(plan: Plan, demand: Demand, answers: list[ProductResult]) -> tuple[str, ...]:
    """Every assumption once: of the workload and the simulation, then product by product."""
    said = [*_of_the_plan(plan, demand)]
    for answer in answers:
        said += _of_a_product(answer)
        for model in answer.models:
            said += _of_a_model(
                model, say("{model} on {board}").format(model=model.name, board=answer.board.name)
            )
    return tuple(dict.fromkeys(said))


def _of_the_plan(plan: Plan, demand: Demand) -> Iterator[str]:
    simulation = plan.simulation
    yield say("Arrivals: {describe}.").format(describe=demand.arrivals.describe())
    yield _DISPATCH_WORDS[plan.fleet.dispatch]
    yield say("Every card holds all models.")
    yield (
        say(
            "Simulation: {runs} runs, of {requests:,} requests or more at "
            "first and up to {most_requests:,} until the {decided_at:.0%} "
            "intervals of quantile and busy share are on one side of limit "
            "and target."
        ).format(
            runs=simulation.runs,
            requests=simulation.requests,
            most_requests=max(simulation.requests, simulation.max_requests),
            decided_at=DECIDED_AT,
        )
    )
    yield say("The first {warm_up_share:.0%} of each run isn't counted.").format(
        warm_up_share=WARM_UP_SHARE
    )
    yield say("Intervals shown are those of {confidence:.0%} over the runs.").format(
        confidence=CONFIDENCE
    )
    wanted, most = demand.arrivals.requests(demand.peak_per_s, 1), simulation.max_requests
    if wanted > most:
        yield (
            say(
                "A run ends after {most:,} requests where these arrivals ask "
                "for {wanted:,}: what is slower than that isn't seen."
            ).format(most=most, wanted=wanted)
        )
    if simulation.service_cv:
        yield say("Batch times vary with a coefficient of variation of {service_cv:g}.").format(
            service_cv=simulation.service_cv
        )
    if plan.fleet.mtbf_h is None:
        yield say("How often cards fail wasn't given; one failing card is simulated.")


def _of_a_product(answer: ProductResult) -> Iterator[str]:
    board = answer.board
    if board.note:
        yield f"{board.name}: {board.note}"
    if answer.budget_spent:
        yield say(
            "{board}: the plan's budget was spent, what-ifs and curves rest on short runs."
        ).format(board=board.name)


def _of_a_model(model: ModelOnProduct, where: str) -> Iterator[str]:
    if model.curve.basis:
        yield say("{where}: latencies {basis}.").format(where=where, basis=model.curve.basis)
    if not model.stated:
        yield (
            say(
                "{where}: batches of up to {max_batch} items, the fastest that "
                "run within half of the limit."
            ).format(where=where, max_batch=model.max_batch)
        )
    if model.curve.raised:
        sizes = ", ".join(map(str, model.curve.raised))
        yield say(
            "{where}: latency at batch {sizes} raised to that of the batch before it."
        ).format(where=where, sizes=sizes)
