"""Planning: from a plan and the latencies of its models to a card count for every product."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from npusim.capacity.assumptions import assumptions
from npusim.capacity.boards import find_board
from npusim.capacity.budget import Budget
from npusim.capacity.deciding import Objective
from npusim.capacity.demand import Demand
from npusim.capacity.operating import at_cards, operate
from npusim.capacity.queueing import short_of_cards
from npusim.capacity.results import (
    SLOW_END,
    CardCount,
    Cost,
    PlanResult,
    ProductResult,
    Scenario,
    Verdict,
)
from npusim.capacity.serving import conflict, memory_fit, served_models, streams_of
from npusim.capacity.sizing import FEW, BudgetSpentError, Effort, Sizer
from npusim.capacity.units import S_PER_H, US_PER_MS
from npusim.values.errors import ArgumentError, RejectedError
from npusim.values.language import say

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

COUNTING: Final = 0.7
"""The part of a product's budget that its count may take; the rest is for what-ifs and curves."""

MOST_SHOWN: Final = 8
"""About as many numbers of cards are shown with their latencies."""

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
    lacks) is that product's answer.  The products share the plan's budget; what it leaves open is
    undecided.  Raises `UsageError` for a wrong plan, also where no product could ever meet the
    limit.
    """
    say = progress or _silent
    boards = [board_of(product.product).amended(product) for product in plan.fleet.products]
    demand = Demand.of(plan.workload, folder or Path(), say)
    sizers: dict[tuple[object, ...], Sizer] = {}
    asked = [
        _Product(plan, demand, product, board, say, sizers)
        for product, board in zip(plan.fleet.products, boards, strict=True)
    ]
    ready = [own.timed(latencies) for own in asked]
    budget, left = Budget(plan.simulation.budget_s), sum(each.meets for each in ready)
    answers = []
    for own, found in zip(asked, ready, strict=True):
        answers.append(own.sized(found, budget, 1 / left) if found.meets else found)
        left -= found.meets
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
        self._objective = _objective_of(plan)

    def timed(self, latencies: LatencySource | None) -> ProductResult:
        """The models as this product serves them; what keeps them from meeting any objective."""
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
            reason = say(
                "the models need {needed_bytes:,} bytes, a device has {capacity_bytes:,}"
            ).format(needed_bytes=memory.needed_bytes, capacity_bytes=memory.capacity_bytes)
            return ProductResult(
                board, Verdict.NO_MEMORY, reason, "Lower max_batch.", models, memory=memory
            )
        return ProductResult(board, Verdict.MEETS, models=models, memory=memory)

    def sized(self, timed: ProductResult, budget: Budget, part: float) -> ProductResult:
        """The cards that the timed models need, found within this part of the budget."""
        plan, models, peak_per_s = self._plan, timed.models, self._demand.peak_per_s
        sizer = self._sizer(models, budget)
        budget.share(part * COUNTING)
        try:
            needed = sizer.needed(peak_per_s)
        except BudgetSpentError:
            needed, verdict = None, Verdict.OPEN
            reason = say("{budget} with {least} cards or more to be tried").format(
                budget=_budget(plan), least=_least(sizer, peak_per_s)
            )
            remedy = say("Give it more time (--budget), or fewer products.")
        else:
            verdict = Verdict.TOO_MANY_CARDS
            reason = say("{max_cards} cards don't carry {peak_per_s:g} requests/s").format(
                max_cards=plan.simulation.max_cards, peak_per_s=peak_per_s
            )
            remedy = say("Raise simulation.max_cards or loosen the objective.")
        if needed is None:
            return replace(
                timed, verdict=verdict, reason=reason, remedy=remedy,
                card_rate_per_s=sizer.card_rate_per_s, budget_spent=verdict is Verdict.OPEN,
            )  # fmt: skip
        count = self._count(sizer, needed)
        budget.share(part * (1 - COUNTING))
        return self._counted(timed, sizer, needed, count)

    def _counted(
        self, timed: ProductResult, sizer: Sizer, needed: Needed, count: CardCount
    ) -> ProductResult:
        board, product, peak_per_s = self._board, self._product, self._demand.peak_per_s
        cards, working = count.installed, count.working
        self._say(f"{board.name}: {cards} cards; checking failures, growth and slow devices")
        at_peak = operate(sizer, cards, peak_per_s)
        mean_per_s = self._demand.mean_per_s
        failing = operate(sizer, cards, peak_per_s, card_fails=True) if cards > 1 else None
        found = replace(
            timed,
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
            power_w=None if board.power_w_per_card is None else cards * board.power_w_per_card,
            price_per_card=product.price_per_card,
            price_per_card_hour=product.price_per_card_hour,
            cost=self._cost(cards),
            scenarios=self._scenarios(timed.models, sizer, cards),
            cards_by_load=self._cards_by_load(sizer, working),
            by_cards=at_cards(sizer, _shown(needed.perhaps, working), peak_per_s, LOOKS),
        )
        return replace(found, budget_spent=sizer.budget_spent)

    def _count(self, sizer: Sizer, needed: Needed) -> CardCount:
        spare, per_server = self._plan.objective.spare_cards, self._board.cards_per_server
        working, peak_per_s = needed.cards, self._demand.peak_per_s
        open_ = [each for each in sizer.known(peak_per_s) if each.holds is None]
        return CardCount(
            closed_form=sizer.closed_form_cards(peak_per_s),
            working=working,
            spare=spare,
            servers=None if per_server is None else -(-(working + spare) // per_server),
            carried_per_s=sizer.carried_rate_per_s(working, peak_per_s),
            perhaps=needed.perhaps,
            to_decide=max(
                (
                    each.requests_to_decide(self._objective)
                    for each in open_
                    if needed.perhaps <= each.cards < working
                ),
                default=0.0,
            ),
            budget_spent=sizer.budget_spent,
            limited_by=sizer.limited_by(working, peak_per_s),
        )

    def _cards_by_load(self, sizer: Sizer, working: int) -> tuple[tuple[float, int | None], ...]:
        """Installed cards at other loads, by few runs; never fewer for more load."""
        found: list[tuple[float, int | None]] = []
        fewest = 0
        for share in LOADS:
            rate_per_s = share * self._demand.peak_per_s
            near = round(working * share)
            try:
                cards = working if share == 1 else sizer.cards(rate_per_s, looks=1, near=near)
            except BudgetSpentError:
                continue
            fewest = max(fewest, cards or 0)
            found.append((rate_per_s, self._installed(cards and fewest)))
        return tuple(found)

    def _scenarios(
        self, models: tuple[ModelOnProduct, ...], sizer: Sizer, cards: int
    ) -> tuple[Scenario, ...]:
        peak_per_s = self._demand.peak_per_s
        slow = self._sizer(models, sizer.budget, "hi")
        beyond = conflict(models, self._board, self._objective.limit_us, "hi")
        return (
            self._scenario("load grows twofold", sizer, cards, GROWTH * peak_per_s),
            self._scenario(SLOW_END, slow, cards, peak_per_s, beyond),
        )

    def _scenario(
        self, name: str, sizer: Sizer, cards: int, rate_per_s: float, beyond: Conflict | None = None
    ) -> Scenario:
        """The count for this sizer, and how the planned cards do at this load."""
        near = round(cards * rate_per_s / self._demand.peak_per_s)
        needed, reason = None, ""
        try:
            if not beyond:
                needed = self._installed(sizer.cards(rate_per_s, looks=LOOKS, near=near))
        except BudgetSpentError:
            reason = _budget(self._plan)
        if beyond:
            reason = beyond.message
        elif needed is None and not reason:
            reason = say("more than {max_cards} cards").format(max_cards=sizer.effort.max_cards)
        keeps_up = rate_per_s < cards * sizer.card_rate_per_s
        planned = operate(sizer, cards, rate_per_s, runs=FEW) if keeps_up else None
        is_open = reason == _budget(self._plan)
        return Scenario(name, rate_per_s, needed, planned, reason, is_open)

    def _installed(self, working: int | None) -> int | None:
        return None if working is None else working + self._plan.objective.spare_cards

    def _sizer(
        self, models: tuple[ModelOnProduct, ...], budget: Budget | None, end: End = "estimate"
    ) -> Sizer:
        """A sizer, one for all products on which the models take as long."""
        streams = streams_of(models, end)
        key = (streams, self._board.devices_per_card)
        if key not in self._sizers:
            self._sizers[key] = self._new_sizer(streams, budget)
        return self._sizers[key]

    def _new_sizer(self, streams: tuple[Stream, ...], budget: Budget | None) -> Sizer:
        return _sizer_of(
            self._plan, self._demand, self._board, streams, self._objective, budget,
            lambda cards, rate: self._say(
                f"{self._board.name}: {cards} cards at {rate:.4g} requests/s"
            ),
        )  # fmt: skip

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


def sizer_of(plan: Plan, answer: ProductResult, folder: Path | None = None) -> Sizer:
    """What an answer was counted with, for longer runs and other seeds than the plan's."""
    demand = Demand.of(plan.workload, folder or Path(), _silent)
    streams = streams_of(answer.models, "estimate")
    return _sizer_of(plan, demand, answer.board, streams, _objective_of(plan))


def _objective_of(plan: Plan) -> Objective:
    wanted = plan.objective
    return Objective(
        wanted.quantile,
        wanted.limit_ms * US_PER_MS,
        wanted.target_utilisation,
        each_model=wanted.scope == "each_model",
    )


def _sizer_of(
    plan: Plan,
    demand: Demand,
    board: Board,
    streams: tuple[Stream, ...],
    objective: Objective,
    budget: Budget | None = None,
    progress: Callable[[int, float], None] | None = None,
) -> Sizer:
    simulation = plan.simulation
    return Sizer(
        streams,
        demand.arrivals,
        objective,
        devices_per_card=board.devices_per_card,
        dispatch=plan.fleet.dispatch,
        service_cv=simulation.service_cv,
        effort=Effort(
            tuple(range(simulation.seed, simulation.seed + simulation.runs)),
            simulation.requests,
            max_cards=simulation.max_cards,
            max_requests=max(simulation.requests, simulation.max_requests),
        ),
        progress=progress,
        budget=budget,
    )


def _budget(plan: Plan) -> str:
    return f"the budget of {plan.simulation.budget_s:g} s was spent"


def _least(sizer: Sizer, rate_per_s: float) -> int:
    """The fewest cards that nothing has ruled out."""
    ruled_out = [each.cards for each in sizer.known(rate_per_s) if each.holds is False]
    return max([sizer.closed_form_cards(rate_per_s), *(cards + 1 for cards in ruled_out)])


def _shown(perhaps: int, working: int) -> list[int]:
    """The numbers of cards to show: from one that is too few to one more than enough."""
    least, most = max(1, perhaps - 1), working + 1
    step = -(-(most - least) // MOST_SHOWN)
    return sorted({least, most, working, *range(perhaps, most, step)})


def _silent(_: str) -> None:
    """No progress wanted."""
