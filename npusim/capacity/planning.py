"""Planning: from a plan and the latencies of its models to a card count for every product."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from npusim.capacity.arrivals import TraceArrivals
from npusim.capacity.boards import find_board
from npusim.capacity.estimate import CONFIDENCE
from npusim.capacity.fleet import WARM_UP_SHARE
from npusim.capacity.operating import operate
from npusim.capacity.plan import TracePlan
from npusim.capacity.queueing import short_of_cards
from npusim.capacity.results import CardCount, Cost, PlanResult, ProductResult, Scenario, Verdict
from npusim.capacity.serving import conflict, memory_fit, served_models, streams_of
from npusim.capacity.sizing import Effort, Objective, Sizer
from npusim.capacity.traces import read_trace
from npusim.capacity.units import S_PER_H, US_PER_MS
from npusim.values.errors import ArgumentError, RejectedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from npusim.capacity.arrivals import Arrivals
    from npusim.capacity.boards import Board
    from npusim.capacity.dispatch import Dispatch
    from npusim.capacity.plan import Plan, ProductPlan
    from npusim.capacity.results import ModelOnProduct
    from npusim.capacity.service import End, LatencySource

LOADS: Final = (0.5, 0.75, 1.0, 1.5, 2.0)
"""Shares of the peak for which the cards are counted, for the curve of cards over load."""

GROWTH: Final = 2.0


_DISPATCH_WORDS: Final[dict[Dispatch, str]] = {
    "shared": "Dispatch: one queue for all devices.",
    "least_loaded": "Dispatch: to the device with the fewest requests; devices batch their own.",
    "round_robin": "Dispatch: requests go to the devices in turn, which batch their own.",
    "random": "Dispatch: each request goes to a random device; devices batch their own.",
}


@dataclass(frozen=True)
class _Demand:
    """The load: its pattern, its mean and the mean of its busiest period, in requests/s."""

    arrivals: Arrivals
    mean_per_s: float
    peak_per_s: float


def evaluate(
    plan: Plan,
    latencies: LatencySource | None = None,
    *,
    folder: Path | None = None,
    board_of: Callable[[str], Board] = find_board,
    progress: Callable[[str], None] | None = None,
) -> PlanResult:
    """Count the cards for every product of the plan; a trace is looked for in `folder`.

    Models with a `reference` are timed by `latencies`; a rejection there (a dtype that the chip
    lacks) is that product's answer.  Raises `UsageError` for a wrong plan, also where no product
    could ever meet the limit.
    """
    say = progress or _silent
    boards = [board_of(product.product).amended(product) for product in plan.fleet.products]
    demand = _demand(plan, folder or Path(), say)
    answers = [
        _Product(plan, demand, product, board, say).answer(latencies)
        for product, board in zip(plan.fleet.products, boards, strict=True)
    ]
    if all(answer.verdict is Verdict.TOO_SLOW for answer in answers):
        raise ArgumentError("\n".join(answer.reason for answer in answers), answers[0].remedy)
    return PlanResult(
        plan=plan,
        mean_per_s=demand.mean_per_s,
        peak_per_s=demand.peak_per_s,
        arrivals=demand.arrivals.describe(),
        products=tuple(answers),
        assumptions=_assumptions(plan, demand, answers),
    )


class _Product:
    """One product's part of a plan."""

    def __init__(
        self,
        plan: Plan,
        demand: _Demand,
        product: ProductPlan,
        board: Board,
        say: Callable[[str], None],
    ) -> None:
        self._plan = plan
        self._demand = demand
        self._product = product
        self._board = board
        self._say = say
        wanted = plan.objective
        self._objective = Objective(
            wanted.quantile,
            wanted.limit_ms * US_PER_MS,
            wanted.target_utilisation,
            each_model=wanted.scope == "each_model",
        )

    def answer(self, latencies: LatencySource | None) -> ProductResult:
        """The product's result."""
        plan, board = self._plan, self._board
        self._say(f"{board.name}: timing the models")
        try:
            models = served_models(
                plan.workload, self._product, board, latencies, self._objective.limit_us
            )
        except RejectedError as rejection:
            return ProductResult(board, Verdict.CANT_RUN, rejection.message, rejection.remedy)
        memory = memory_fit(models, board)
        trouble = conflict(models, board, self._objective.limit_us)
        if trouble is not None:
            return ProductResult(
                board, Verdict.TOO_SLOW, trouble.message, trouble.remedy, models, memory=memory
            )
        if memory is not None and not memory.fits:
            reason = (
                f"the models need {memory.needed_bytes:,} bytes, a device has "
                f"{memory.capacity_bytes:,}"
            )
            return ProductResult(
                board, Verdict.NO_MEMORY, reason, "Lower max_batch.", models, memory=memory
            )
        sizer = self._sizer(models)
        working = sizer.cards(self._demand.peak_per_s)
        if working is None:
            peak_per_s = self._demand.peak_per_s
            reason = f"{plan.simulation.max_cards} cards don't carry {peak_per_s:g} requests/s"
            return ProductResult(
                board,
                Verdict.TOO_MANY_CARDS,
                reason,
                "Raise simulation.max_cards or loosen the objective.",
                models, card_rate_per_s=sizer.card_rate_per_s, memory=memory,
            )  # fmt: skip
        return self._counted(models, sizer, working)

    def _counted(
        self, models: tuple[ModelOnProduct, ...], sizer: Sizer, working: int
    ) -> ProductResult:
        demand, board, spare = self._demand, self._board, self._plan.objective.spare_cards
        carried_per_s = sizer.carried_rate_per_s(working)
        count = CardCount(
            sizer.closed_form_cards(demand.peak_per_s),
            working,
            spare,
            self._servers(working + spare),
            carried_per_s,
        )
        cards = count.installed
        self._say(f"{board.name}: {cards} cards; checking failures, growth and slow devices")
        power_w = None if board.power_w_per_card is None else cards * board.power_w_per_card
        return ProductResult(
            board,
            Verdict.MEETS,
            models=models,
            card_rate_per_s=sizer.card_rate_per_s,
            count=count,
            headroom=carried_per_s / demand.peak_per_s - 1,
            at_peak=operate(sizer, cards, demand.peak_per_s),
            at_mean=operate(sizer, cards, demand.mean_per_s),
            degraded=operate(sizer, working, demand.peak_per_s) if spare else None,
            failing=operate(sizer, cards, demand.peak_per_s, card_fails=True)
            if cards > 1
            else None,
            short_share=self._short_share(cards, working),
            memory=memory_fit(models, board),
            power_w=power_w,
            cost=self._cost(cards),
            scenarios=(
                self._scenario(
                    "load grows twofold",
                    sizer,
                    models,
                    cards,
                    GROWTH * demand.peak_per_s,
                    "estimate",
                ),
                self._scenario(
                    "latencies at the slow end of their band",
                    self._sizer(models, "hi"),
                    models,
                    cards,
                    demand.peak_per_s,
                    "hi",
                ),
            ),
            cards_by_load=tuple(self._by_load(sizer, share * demand.peak_per_s) for share in LOADS),
        )

    def _scenario(
        self,
        name: str,
        sizer: Sizer,
        models: tuple[ModelOnProduct, ...],
        cards: int,
        rate_per_s: float,
        end: End,
    ) -> Scenario:
        """The count for this sizer, and the planned fleet at this load."""
        trouble = conflict(models, self._board, self._objective.limit_us, end)
        working = None if trouble else sizer.cards(rate_per_s)
        if trouble:
            reason = trouble.message
        elif working is None:
            reason = f"more than {sizer.effort.max_cards} cards"
        else:
            reason = ""
        return Scenario(
            name,
            rate_per_s,
            None if working is None else working + self._plan.objective.spare_cards,
            operate(sizer, cards, rate_per_s)
            if rate_per_s < cards * sizer.card_rate_per_s
            else None,
            reason,
        )

    def _sizer(self, models: tuple[ModelOnProduct, ...], end: End = "estimate") -> Sizer:
        fleet, simulation = self._plan.fleet, self._plan.simulation
        seeds = range(simulation.seed, simulation.seed + simulation.runs)
        return Sizer(
            streams_of(models, end),
            self._demand.arrivals,
            self._objective,
            devices_per_card=self._board.devices_per_card,
            dispatch=fleet.dispatch,
            service_cv=simulation.service_cv,
            effort=Effort(tuple(seeds), simulation.requests, max_cards=simulation.max_cards),
            progress=lambda cards, rate: self._say(
                f"{self._board.name}: {cards} cards at {rate:.4g} requests/s"
            ),
        )

    def _by_load(self, sizer: Sizer, rate_per_s: float) -> tuple[float, int | None]:
        working = sizer.cards(rate_per_s)
        return rate_per_s, None if working is None else working + self._plan.objective.spare_cards

    def _servers(self, cards: int) -> int | None:
        per_server = self._board.cards_per_server
        return None if per_server is None else -(-cards // per_server)

    def _short_share(self, cards: int, working: int) -> float | None:
        fleet = self._plan.fleet
        if fleet.mtbf_h is None or fleet.mttr_h is None:
            return None
        return short_of_cards(cards, working, fleet.mtbf_h, fleet.mttr_h)

    def _cost(self, cards: int) -> Cost | None:
        product, currency = self._product, self._plan.fleet.currency
        if currency is None or (
            product.price_per_card is None and product.price_per_card_hour is None
        ):
            return None
        purchase = None if product.price_per_card is None else cards * product.price_per_card
        if product.price_per_card_hour is None:
            return Cost(currency, purchase, None, None)
        per_hour = cards * product.price_per_card_hour
        requests_per_hour = self._demand.mean_per_s * S_PER_H
        return Cost(currency, purchase, per_hour, per_hour / requests_per_hour * 1e6)


def _demand(plan: Plan, folder: Path, say: Callable[[str], None]) -> _Demand:
    workload = plan.workload
    mean, peak = workload.mean_requests_per_s, workload.peak_requests_per_s
    if not isinstance(workload.arrivals, TracePlan):
        known = [rate for rate in (mean, peak) if rate is not None]
        return _Demand(workload.arrivals.pattern(), known[0], known[-1])
    file = folder / workload.arrivals.file
    trace = read_trace(
        file,
        drop_failed=workload.arrivals.drop_failed,
        progress=lambda rows, share: say(f"{file.name}: {rows:,} requests, {share:.0%}"),
    )
    busiest = TraceArrivals.busiest(trace, workload.arrivals.window_requests)
    recorded = TraceArrivals(trace.arrival_s, name=trace.name).rate_per_s
    scale = (
        mean / recorded
        if mean is not None
        else peak / busiest.rate_per_s
        if peak is not None
        else 1.0
    )
    return _Demand(busiest, recorded * scale, busiest.rate_per_s * scale)


def _assumptions(plan: Plan, demand: _Demand, answers: list[ProductResult]) -> tuple[str, ...]:
    simulation, fleet = plan.simulation, plan.fleet
    said = [
        f"Arrivals: {demand.arrivals.describe()}.",
        _DISPATCH_WORDS[fleet.dispatch],
        "Every card holds all models.",
        f"Simulation: {simulation.runs} runs of {simulation.requests:,} or more requests each.",
        f"The first {WARM_UP_SHARE:.0%} of each run isn't counted.",
        f"Held against the limit: the upper end of the {CONFIDENCE:.0%} interval over the runs.",
    ]
    if simulation.service_cv:
        said.append(
            f"Batch times vary with a coefficient of variation of {simulation.service_cv:g}."
        )
    if fleet.mtbf_h is None:
        said.append("How often cards fail wasn't given; one failing card is simulated.")
    for answer in answers:
        board = answer.board
        if answer.at_peak is not None and not answer.at_peak.meets:
            # The count stands on a load level at or above the peak, see `npusim.capacity.sizing`.
            said.append(
                f"{board.name}: a close call; a load level above the peak is within the limit, "
                "while at the peak itself the interval reaches beyond it."
            )
        said += [f"{board.name}: {board.note}"] if board.note else []
        for model in answer.models:
            where = f"{model.name} on {board.name}"
            if model.curve.basis:
                said.append(f"{where}: latencies {model.curve.basis}.")
            if not model.stated:
                said.append(
                    f"{where}: batches of up to {model.max_batch} items, the fastest that run "
                    "within half of the limit."
                )
            if model.curve.raised:
                sizes = ", ".join(map(str, model.curve.raised))
                said.append(
                    f"{where}: latency at batch {sizes} raised to that of the batch before it."
                )
    return tuple(dict.fromkeys(said))


def _silent(_: str) -> None:
    """No progress wanted."""
