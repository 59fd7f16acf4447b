"""Assumptions: what a plan's answer rests on, in sentences for its readers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from npusim.capacity.deciding import DECIDED_AT
from npusim.capacity.estimate import CONFIDENCE
from npusim.capacity.fleet import WARM_UP_SHARE

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
            said += _of_a_model(model, f"{model.name} on {answer.board.name}")
    return tuple(dict.fromkeys(said))


def _of_the_plan(plan: Plan, demand: Demand) -> Iterator[str]:
    simulation = plan.simulation
    yield f"Arrivals: {demand.arrivals.describe()}."
    yield _DISPATCH_WORDS[plan.fleet.dispatch]
    yield "Every card holds all models."
    yield (
        f"Simulation: {simulation.runs} runs, of {simulation.requests:,} requests or more at first "
        f"and up to {max(simulation.requests, simulation.max_requests):,} until the "
        f"{DECIDED_AT:.0%} intervals of quantile and busy share are on one side of limit and "
        "target."
    )
    yield f"The first {WARM_UP_SHARE:.0%} of each run isn't counted."
    yield f"Intervals shown are those of {CONFIDENCE:.0%} over the runs."
    wanted, most = demand.arrivals.requests(demand.peak_per_s, 1), simulation.max_requests
    if wanted > most:
        yield (
            f"A run ends after {most:,} requests where these arrivals ask for {wanted:,}: what is "
            "slower than that isn't seen."
        )
    if simulation.service_cv:
        yield f"Batch times vary with a coefficient of variation of {simulation.service_cv:g}."
    if plan.fleet.mtbf_h is None:
        yield "How often cards fail wasn't given; one failing card is simulated."


def _of_a_product(answer: ProductResult) -> Iterator[str]:
    board = answer.board
    if board.note:
        yield f"{board.name}: {board.note}"
    if answer.budget_spent:
        yield f"{board.name}: the plan's budget was spent, what-ifs and curves rest on short runs."


def _of_a_model(model: ModelOnProduct, where: str) -> Iterator[str]:
    if model.curve.basis:
        yield f"{where}: latencies {model.curve.basis}."
    if not model.stated:
        yield (
            f"{where}: batches of up to {model.max_batch} items, the fastest that run within half "
            "of the limit."
        )
    if model.curve.raised:
        sizes = ", ".join(map(str, model.curve.raised))
        yield f"{where}: latency at batch {sizes} raised to that of the batch before it."
