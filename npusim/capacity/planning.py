"""Planning: from a plan and the latencies of its models to a card count for every product."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from npusim.capacity.assumptions import assumptions
from npusim.capacity.boards import find_board
from npusim.capacity.demand import Demand
from npusim.capacity.operating import at_cards, operate
from npusim.capacity.queueing import short_of_cards
from npusim.capacity.results import CardCount, Cost, PlanResult, ProductResult, Scenario, Verdict
from npusim.capacity.serving import conflict, memory_fit, served_models, streams_of
from npusim.capacity.sizing import FEW, Effort, Objective, Sizer
from npusim.capacity.units import S_PER_H, US_PER_MS
from npusim.values.errors import ArgumentError, RejectedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from npusim.capacity.boards import Board
    from npusim.capacity.fleet import Stream
    from npusim.capacity.plan import Plan, ProductPlan
    from npusim.capacity.results import ModelOnProduct
    from npusim.capacity.service import End, LatencySource
    from npusim.capacity.serving import Conflict
    from npusim.capacity.sizing import Needed

LOADS: Final = (0.5, 0.75, 1.0, 1.5, 2.0)
"""Shares of the peak for which the cards are counted, for the curve of cards over load."""

GROWTH: Final = 2.0

LOOKS: Final = 2
"""What-ifs, and numbers of cards out of question, get longer runs once; other loads don't."""


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
    demand = Demand.of(plan.workload, folder or Path(), say)
    sizers: dict[tuple[object, ...], Sizer] = {}
    answers = [
        _Product(plan, demand, product, board, say, sizers).answer(latencies)
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
        assumptions=assumptions(plan, demand, answers),
    )


class _Product:
    """One product's part of a plan."""

    def __init__(
        self,
        plan: Plan,
        demand: Demand,
        product: ProductPlan,
        board: Board,
        say: Callable[[str], None],
        sizers: dict[tuple[object, ...], Sizer],
    ) -> None:
        self._plan = plan
        self._sizers = sizers
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
        needed = sizer.needed(self._demand.peak_per_s)
        if needed is None:
            peak_per_s = self._demand.peak_per_s
            reason = f"{plan.simulation.max_cards} cards don't carry {peak_per_s:g} requests/s"
            return ProductResult(
                board,
                Verdict.TOO_MANY_CARDS,
                reason,
                "Raise simulation.max_cards or loosen the objective.",
                models, card_rate_per_s=sizer.card_rate_per_s, memory=memory,
            )  # fmt: skip
        return self._counted(models, sizer, needed)

    def _counted(
        self, models: tuple[ModelOnProduct, ...], sizer: Sizer, needed: Needed
    ) -> ProductResult:
        board, peak_per_s = self._board, self._demand.peak_per_s
        count = self._count(sizer, needed)
        cards, working = count.installed, count.working
        self._say(f"{board.name}: {cards} cards; checking failures, growth and slow devices")
        at_peak = operate(sizer, cards, peak_per_s)
        mean_per_s = self._demand.mean_per_s
        failing = operate(sizer, cards, peak_per_s, card_fails=True) if cards > 1 else None
        return ProductResult(
            board,
            Verdict.MEETS,
            models=models,
            card_rate_per_s=sizer.card_rate_per_s,
            count=count,
            headroom=count.carried_per_s / peak_per_s - 1,
            at_peak=at_peak,
            at_mean=(
                at_peak if mean_per_s == peak_per_s else operate(sizer, cards, mean_per_s, runs=FEW)
            ),
            degraded=operate(sizer, working, peak_per_s) if count.spare else None,
            failing=failing,
            short_share=self._short_share(cards, working),
            memory=memory_fit(models, board),
            power_w=None if board.power_w_per_card is None else cards * board.power_w_per_card,
            cost=self._cost(cards),
            scenarios=self._scenarios(models, sizer, cards),
            cards_by_load=self._cards_by_load(sizer, working),
            by_cards=tuple(
                at_cards(sizer, number, peak_per_s, LOOKS)
                for number in range(max(1, needed.perhaps - 1), working + 2)
            ),
        )

    def _count(self, sizer: Sizer, needed: Needed) -> CardCount:
        spare, per_server = self._plan.objective.spare_cards, self._board.cards_per_server
        working, peak_per_s = needed.cards, self._demand.peak_per_s
        open_ = [sizer.decide(number, peak_per_s) for number in range(needed.perhaps, working)]
        return CardCount(
            closed_form=sizer.closed_form_cards(peak_per_s),
            working=working,
            spare=spare,
            servers=None if per_server is None else -(-(working + spare) // per_server),
            carried_per_s=max(peak_per_s, sizer.carried_rate_per_s(working)),
            perhaps=needed.perhaps,
            to_decide=max(
                (each.requests_to_decide(self._objective.limit_us) for each in open_), default=0.0
            ),
        )

    def _cards_by_load(self, sizer: Sizer, working: int) -> tuple[tuple[float, int | None], ...]:
        """Installed cards at other loads, by few runs; never fewer for more load."""
        found: list[tuple[float, int | None]] = []
        fewest = 0
        for share in LOADS:
            rate_per_s = share * self._demand.peak_per_s
            cards = working if share == 1 else sizer.cards(rate_per_s, looks=1)
            fewest = max(fewest, cards or 0)
            found.append((rate_per_s, self._installed(cards and fewest)))
        return tuple(found)

    def _scenarios(
        self, models: tuple[ModelOnProduct, ...], sizer: Sizer, cards: int
    ) -> tuple[Scenario, ...]:
        peak_per_s = self._demand.peak_per_s
        slow = self._sizer(models, "hi")
        beyond = conflict(models, self._board, self._objective.limit_us, "hi")
        return (
            self._scenario("load grows twofold", sizer, cards, GROWTH * peak_per_s),
            self._scenario("latencies at the slow end", slow, cards, peak_per_s, beyond),
        )

    def _scenario(
        self, name: str, sizer: Sizer, cards: int, rate_per_s: float, beyond: Conflict | None = None
    ) -> Scenario:
        """The count for this sizer, and how the planned cards do at this load."""
        needed = None if beyond else self._installed(sizer.cards(rate_per_s, looks=LOOKS))
        reason = ""
        if beyond:
            reason = beyond.message
        elif needed is None:
            reason = f"more than {sizer.effort.max_cards} cards"
        keeps_up = rate_per_s < cards * sizer.card_rate_per_s
        planned = operate(sizer, cards, rate_per_s, runs=FEW) if keeps_up else None
        return Scenario(name, rate_per_s, needed, planned, reason)

    def _installed(self, working: int | None) -> int | None:
        return None if working is None else working + self._plan.objective.spare_cards

    def _sizer(self, models: tuple[ModelOnProduct, ...], end: End = "estimate") -> Sizer:
        """A sizer, one for all products on which the models take as long."""
        streams = streams_of(models, end)
        key = (streams, self._board.devices_per_card)
        if key not in self._sizers:
            self._sizers[key] = self._new_sizer(streams)
        return self._sizers[key]

    def _new_sizer(self, streams: tuple[Stream, ...]) -> Sizer:
        fleet, simulation = self._plan.fleet, self._plan.simulation
        seeds = range(simulation.seed, simulation.seed + simulation.runs)
        return Sizer(
            streams,
            self._demand.arrivals,
            self._objective,
            devices_per_card=self._board.devices_per_card,
            dispatch=fleet.dispatch,
            service_cv=simulation.service_cv,
            effort=Effort(
                tuple(seeds),
                simulation.requests,
                max_cards=simulation.max_cards,
                max_requests=max(simulation.requests, simulation.max_requests),
            ),
            progress=lambda cards, rate: self._say(
                f"{self._board.name}: {cards} cards at {rate:.4g} requests/s"
            ),
        )

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


def _silent(_: str) -> None:
    """No progress wanted."""
