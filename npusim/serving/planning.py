"""The cheapest fleet that answers a language model's requests in time.

Every product, precision, layout and limit of a step is a candidate. How many requests a second one
replica answers within the objectives is searched by simulating it; replicas then take turns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from math import ceil, inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from npusim.capacity.boards import Board, find_board
from npusim.hardware import load_profile
from npusim.llm import Layout, is_id, read_model
from npusim.serving.confirming import Confirmed, Confirming
from npusim.serving.deployment import Deployment, deploy
from npusim.serving.engine import serve_in_stages
from npusim.serving.policy import Policy
from npusim.serving.requests import Requests, even_lengths
from npusim.serving.results import Course, Served, course_of
from npusim.values.display import Tabular
from npusim.values.errors import ArgumentError

if TYPE_CHECKING:
    from npusim.hardware import Profile
    from npusim.llm import LanguageModel
    from npusim.llm.memory import LlmMemory
    from npusim.serving.costs import StepCosts
    from npusim.serving.plan import LlmPlan

_HALVINGS: Final = 6
_DRAWN_REQUESTS: Final = 2_000  # of a run in a figure of a confirmed option
Progress = Callable[[str], None]
Tried = tuple[tuple[float, Served], ...]


@dataclass(frozen=True)
class Candidate:
    """One way to serve: a product, a precision, a layout and the most sequences of a step."""

    product: str
    soc: str
    dtype: str
    layout: Layout
    max_sequences: int
    chips_per_card: int
    power_w_per_card: float | None = None
    price_per_card: float | None = None
    is_for_training: bool = False
    caution: str = ""


@dataclass(frozen=True)
class Option:
    """A candidate that was tried.

    `rate_per_s` is what a replica answers in time, 0 where it never does; `served` is a replica at
    that rate, `replicas` and `cards` what the workload takes. `problem` says why it isn't possible.
    `tried` are the rates of one replica that were simulated, slowest first, with what they gave.
    Counts of short runs are too low rather than too high; those that matter are `confirmed` by long
    ones: then `served` is a replica at its share of the load and `fewer` one where there is one
    replica less, `perhaps` are the fewest cards that aren't ruled out, and `slow_cards` those that
    the slow end of the band takes (None: no number).
    """

    candidate: Candidate
    rate_per_s: float = 0.0
    replicas: int = 0
    cards: int = 0
    served: Served | None = None
    problem: str = ""
    tried: tuple[tuple[float, Served], ...] = ()
    confirmed: bool = False
    perhaps: int = 0
    fewer: Served | None = None
    slow_cards: int | None = None

    @property
    def surely(self) -> float:
        """The cards that do at the slow end of the band too, as far as is known."""
        if not self.confirmed:
            return self.cards
        return inf if self.slow_cards is None else max(self.cards, self.slow_cards)

    @property
    def meets(self) -> bool:
        """Whether some number of cards meets the objectives."""
        return self.cards > 0

    @property
    def power_w(self) -> float | None:
        """Watts of the cards; None where nobody says what a card takes."""
        each = self.candidate.power_w_per_card
        return None if each is None else self.cards * each

    @property
    def price(self) -> float | None:
        """What the cards cost in the currency of the plan; None where it has no price."""
        each = self.candidate.price_per_card
        return None if each is None else self.cards * each

    def per_card(self, served: Served) -> float:
        """Tokens a second of a card, when a replica does what was `served`."""
        cards = self.candidate.layout.cards / self.candidate.chips_per_card
        return served.output_tok_s / cards


@dataclass(frozen=True)
class WhatIf:
    """Cards of the chosen option where something is otherwise; None where none suffice."""

    question: str
    cards: int | None


@dataclass(frozen=True)
class LlmPlanResult(Tabular):
    """All options, the one to look at first at the front; what-ifs of that one.

    By what the cards cost where every option has a price, then by cards, both of as many as do at
    the slow end of the band; then those sold for training last, and by watts where every option has
    them. As many are confirmed by long runs as it takes for the first to be.

    `memory` is that of one of its ranks, `course` what the cache of a replica holds over time.
    """

    plan: LlmPlan
    model: LanguageModel
    options: tuple[Option, ...]
    what_ifs: tuple[WhatIf, ...]
    memory: LlmMemory | None = None
    course: Course | None = None

    @property
    def chosen(self) -> Option | None:
        """The option to look at first; None where none meets the objectives."""
        first = self.options[0] if self.options else None
        return first if first is not None and first.meets else None

    def __repr__(self) -> str:
        if self.chosen is None:
            return f"<LlmPlanResult {self.plan.title}: no option meets the objective>"
        best, cards = self.chosen.candidate, self.chosen.cards
        return f"<LlmPlanResult {self.plan.title}: {best.product} {cards} ({best.layout})>"

    def _rows(self) -> list[dict[str, Any]]:
        return [
            {
                "product": each.candidate.product,
                "dtype": each.candidate.dtype,
                "layout": str(each.candidate.layout),
                "max_sequences": each.candidate.max_sequences,
                "requests_per_s": each.rate_per_s,
                "cards": each.cards or None,
                "problem": each.problem,
            }
            for each in self.options
        ]


def plan_llm(plan: LlmPlan, folder: Path, progress: Progress | None = None) -> LlmPlanResult:
    """Search the fleets of a plan; paths in it are relative to `folder`."""
    model = _model_of(plan, folder)
    planner = _Planner(plan, model, progress)
    options = planner.settled(map(planner.tried, _candidates(plan)))
    found = LlmPlanResult(plan, model, options, ())
    if found.chosen is None:
        return found
    memory, course = planner.course(found.chosen)
    what_ifs = tuple(planner.what_ifs(found.chosen))
    return replace(found, what_ifs=what_ifs, memory=memory, course=course)


def _model_of(plan: LlmPlan, folder: Path) -> LanguageModel:
    described = plan.llm.architecture
    config: Path | str = folder / plan.llm.config
    if is_id(plan.llm.config) and not (folder / config).exists():
        config = plan.llm.config
    return read_model(config, folder / described if described else None)


def in_time_share(
    plan: LlmPlan, folder: Path, candidate: Candidate, replicas: int, requests: int, seed: int
) -> float:
    """The share of requests in time where so many replicas share the load, by one run."""
    return _Planner(plan, _model_of(plan, folder), None).share(candidate, replicas, requests, seed)


def _ranked(options: Iterable[Option]) -> list[Option]:
    """The options, the one to look at first at the front; see LlmPlanResult."""
    every = list(options)
    met = [each.candidate for each in every if each.meets]
    is_priced = all(each.price_per_card is not None for each in met)
    is_measured = all(each.power_w_per_card is not None for each in met)

    def burden(each: Option) -> tuple[float, ...]:
        candidate = each.candidate
        price = (candidate.price_per_card or 0.0) if is_priced else 0.0
        watts = (each.power_w or 0.0) if is_measured else 0.0
        costs = [price and cards * price for cards in (each.surely, each.cards)]
        last = candidate.is_for_training
        return not each.meets, *costs, each.surely, last, each.cards, watts, -each.rate_per_s

    return sorted(every, key=burden)


def _candidates(plan: LlmPlan) -> Iterator[Candidate]:
    for product in plan.fleet.products:
        board = find_board(product.product).amended(product)
        for dtype in plan.llm.dtypes:
            for tp in plan.fleet.tensor_parallel:
                if tp <= _server(board):
                    for most in plan.fleet.max_sequences:
                        yield Candidate(
                            board.name, board.soc, dtype, Layout(tp), most,
                            board.devices_per_card, board.power_w_per_card,
                            product.price_per_card, board.is_for_training, board.caution,
                        )  # fmt: skip


def _server(board: Board) -> int:
    return (board.cards_per_server or 1) * board.devices_per_card


class _Planner:
    def __init__(self, plan: LlmPlan, model: LanguageModel, progress: Progress | None) -> None:
        self._plan = plan
        self._model = model
        self._progress = progress or (lambda _: None)

    def tried(self, candidate: Candidate) -> Option:
        """The candidate with the cards that the workload takes."""
        self._progress(f"{candidate.product} {candidate.layout} {candidate.dtype}")
        try:
            ready = self._deployed(candidate)
        except ArgumentError as error:
            return Option(candidate, problem=error.message)
        return self._sized(candidate, ready)

    def settled(self, options: Iterable[Option]) -> tuple[Option, ...]:
        """The options in their order, confirmed until the first one is."""
        found = _ranked(options)
        while found and found[0].meets and not found[0].confirmed:
            found = _ranked([self.confirmed(found[0]), *found[1:]])
        return tuple(found)

    def confirmed(self, option: Option) -> Option:
        """The option with a count that long runs confirm, or with why there is none."""
        candidate, spare = option.candidate, self._plan.fleet.spare_replicas
        self._progress(f"{candidate.product} {candidate.layout} {candidate.dtype}: confirming")
        found = self.needed(option)
        if found is None:
            said = "no number of replicas keeps the objective in long runs"
            return Option(candidate, problem=said, tried=option.tried)
        ready = self._deployed(candidate)
        slow = replace(ready, costs=_slower(ready.costs, ready.costs.band[1]))
        slowly = self._confirming(slow).replicas(found.replicas)
        rate = self._plan.llm.requests_per_s / found.replicas
        tried = tuple((each, self._at(ready, each, _DRAWN_REQUESTS)) for each, _ in option.tried)
        return replace(
            option, rate_per_s=rate, replicas=found.replicas + spare,
            cards=self._cards(candidate, found.replicas + spare),
            served=self._at(ready, rate, self._plan.simulation.max_requests), confirmed=True,
            perhaps=self._cards(candidate, found.perhaps + spare), tried=tried,
            fewer=self._fewer(ready, found.replicas),
            slow_cards=slowly and self._cards(candidate, slowly.replicas + spare),
        )  # fmt: skip

    def _fewer(self, ready: Deployment, replicas: int) -> Served | None:
        if replicas == 1:
            return None
        rate = self._plan.llm.requests_per_s / (replicas - 1)
        return self._at(ready, rate, self._plan.simulation.max_requests)

    def share(self, candidate: Candidate, replicas: int, requests: int, seed: int) -> float:
        """The share of requests in time of a replica at its share of the load, by one run."""
        rate = self._plan.llm.requests_per_s / replicas
        served = self._at(self._deployed(candidate), rate, requests, seed)
        return served.goodput_req_s / served.req_s

    def needed(self, option: Option) -> Confirmed | None:
        """The replicas of an option without spare ones, by long runs."""
        near = option.replicas - self._plan.fleet.spare_replicas
        return self._confirming(self._deployed(option.candidate)).replicas(near)

    def _confirming(self, ready: Deployment, times: float = 1.0) -> Confirming:
        simulation = self._plan.simulation

        def share(rate: float, requests: int, seed: int) -> float:
            served = self._at(ready, rate, requests, seed)
            return served.goodput_req_s / served.req_s

        return Confirming(
            share, times * self._plan.llm.requests_per_s, self._plan.objective.quantile,
            simulation.requests, simulation.max_requests, simulation.seed,
        )  # fmt: skip

    def what_ifs(self, chosen: Option) -> Iterator[WhatIf]:
        """The questions that a plan is asked next."""
        workload, candidate = self._plan.llm, chosen.candidate
        spare = self._plan.fleet.spare_replicas
        near = chosen.replicas - spare
        doubled = self._confirming(self._deployed(candidate), 2.0).replicas(2 * near)
        twice = doubled and self._cards(candidate, doubled.replicas + spare)
        yield WhatIf("twice the requests", twice)
        yield WhatIf("one replica may fail", self._cards(candidate, chosen.replicas + 1))
        yield WhatIf("the slow end of the band", chosen.slow_cards)
        longer = self._plan.model_copy(update={
            "llm": workload.model_copy(update={"input_tokens": 2 * workload.input_tokens})
        })  # fmt: skip
        other = _Planner(longer, self._model, self._progress)
        again = other.tried(candidate)
        longest = other.needed(again) if again.meets else None
        cards = longest and self._cards(candidate, longest.replicas + spare)
        yield WhatIf("prompts twice as long", cards)

    def course(self, chosen: Option) -> tuple[LlmMemory, Course]:
        """Memory of a rank of the option, and its cache over time at the rate that it answers."""
        ready, requests = self._deployed(chosen.candidate), self._requests(chosen.rate_per_s)
        outcome = serve_in_stages(requests, [ready.stage(1)])
        return ready.memory, course_of(requests, outcome)

    def _deployed(self, candidate: Candidate) -> Deployment:
        workload = self._plan.llm
        policy = Policy(
            max_sequences=candidate.max_sequences,
            max_tokens=self._plan.fleet.max_tokens,
            prefix_share=workload.prefix_share,
        )
        longest = ceil((workload.input_tokens + workload.output_tokens) * (1 + workload.spread)) + 2
        chip: Profile = load_profile(candidate.soc)
        ready = deploy(
            self._model, chip, candidate.layout, policy, longest=longest,
            prompt=workload.input_tokens, dtype=candidate.dtype or None, coarse=True,
        )  # fmt: skip
        if ready.policy.kv_tokens < longest:
            raise ArgumentError(f"room for {ready.policy.kv_tokens} tokens in the cache")
        return ready

    def _sized(self, candidate: Candidate, ready: Deployment) -> Option:
        rate, served, tried = self._fastest(ready)
        if served is None:
            said = "not even one request at a time is in time"
            return Option(candidate, problem=said, tried=tried)
        replicas = (
            max(1, ceil(self._plan.llm.requests_per_s / rate)) + self._plan.fleet.spare_replicas
        )
        cards = self._cards(candidate, replicas)
        return Option(candidate, rate, replicas, cards, served, tried=tried)

    def _cards(self, candidate: Candidate, replicas: int) -> int:
        return ceil(replicas * candidate.layout.cards / candidate.chips_per_card)

    def _fastest(self, ready: Deployment) -> tuple[float, Served | None, Tried]:
        """The largest rate that is answered in time, between almost none and all that it can."""
        most = ready.serve(self._requests(None)).req_s
        low, high = most / 100, most
        tried = {low: self._at(ready, low)}
        if not self._in_time(tried[low]):
            return 0.0, None, tuple(tried.items())
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            tried[middle] = self._at(ready, middle)
            low, high = (middle, high) if self._in_time(tried[middle]) else (low, middle)
        return low, tried[low], tuple(sorted(tried.items()))

    def _at(self, ready: Deployment, rate: float, number: int = 0, seed: int = -1) -> Served:
        """A replica at a rate, with so many requests and that seed instead of the plan's."""
        limits, requests = self._plan.objective, self._requests(rate, number, seed)
        return ready.serve(requests, ttft_ms=limits.ttft_ms, tpot_ms=limits.tpot_ms)

    def _in_time(self, served: Served) -> bool:
        return served.goodput_req_s / served.req_s >= self._plan.objective.quantile

    def _requests(self, rate: float | None, number: int = 0, seed: int = -1) -> Requests:
        workload, simulation = self._plan.llm, self._plan.simulation
        return even_lengths(
            number or simulation.requests, workload.input_tokens, workload.output_tokens,
            rate_per_s=rate, spread=workload.spread, seed=simulation.seed if seed < 0 else seed,
        )  # fmt: skip


def _slower(costs: StepCosts, factor: float) -> StepCosts:
    """Every step takes so many times as long."""
    return replace(
        costs,
        decode=[each * factor for each in costs.decode],
        context=[each * factor for each in costs.context],
        prompt=[each * factor for each in costs.prompt],
        behind=[each * factor for each in costs.behind],
    )
