"""The cheapest fleet that answers a language model's requests in time.

Every product, precision, layout and limit of a step is a candidate. How many requests a second one
replica answers within the objectives is searched by simulating it; replicas then take turns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from npusim.llm import is_id, read_model
from npusim.serving.confirming import Confirmed, Confirming
from npusim.serving.engine import serve_in_stages
from npusim.serving.options import Option
from npusim.serving.results import Course, course_of
from npusim.serving.search import Search
from npusim.serving.sizing import Sizer
from npusim.serving.spares import spares_of
from npusim.values.display import Tabular
from npusim.values.language import say

if TYPE_CHECKING:
    from npusim.llm import LanguageModel
    from npusim.llm.memory import LlmMemory
    from npusim.serving.deployment import Deployment
    from npusim.serving.options import Candidate
    from npusim.serving.plan import LlmPlan
    from npusim.serving.results import Served

_DRAWN_REQUESTS: Final = 2_000  # of a run in a figure of a confirmed option
_SEEDS: Final = 3  # runs that confirm a fleet of two kinds of cards
Progress = Callable[[str], None]


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
        return f"<LlmPlanResult {self.plan.title}: {best.product} {cards} ({best.where})>"

    def _rows(self) -> list[dict[str, Any]]:
        return [
            {
                "product": each.candidate.product,
                "dtype": each.candidate.dtype,
                "layout": each.candidate.where,
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
    planner = Planner(_placed(plan, folder), model, progress)
    options = planner.settled(planner.options())
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


def _placed(plan: LlmPlan, folder: Path) -> LlmPlan:
    """The plan with its file of experts where it lies."""
    if plan.llm.expert_counts is None:
        return plan
    placed = plan.llm.model_copy(update={"expert_counts": str(folder / plan.llm.expert_counts)})
    return plan.model_copy(update={"llm": placed})


def in_time_share(
    plan: LlmPlan,
    folder: Path,
    candidate: Candidate,
    counts: tuple[int, int],
    requests: int,
    seed: int,
) -> float:
    """The share of requests in time, by one run: replicas, and those that only answer if any do."""
    sizer = Sizer(_placed(plan, folder), _model_of(plan, folder))
    rate, (replicas, _) = plan.llm.requests_per_s, counts
    if candidate.decode is not None:
        asked = sizer.requests(rate, number=requests, seed=seed)
        return sizer.fleet(candidate, counts, asked).in_time
    ready = sizer.deployed(candidate, candidate.layout)
    return sizer.at(ready, rate / replicas, number=requests, seed=seed).in_time


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


class Planner:
    """Finds the options of one plan, and confirms them."""

    def __init__(
        self,
        plan: LlmPlan,
        model: LanguageModel,
        progress: Progress | None,
        sizer: Sizer | None = None,
    ) -> None:
        self._plan = plan
        self._model = model
        self._progress = progress or (lambda _: None)
        self._sizer = sizer or Sizer(plan, model)

    def options(self) -> Iterator[Option]:
        """What a search finds of every product."""
        return Search(self._plan, self._model, self._sizer, self._progress).options()

    def settled(self, options: Iterable[Option]) -> tuple[Option, ...]:
        """The options in their order, confirmed until the first one is."""
        found = _ranked(options)
        while found and found[0].meets and not found[0].confirmed:
            found = _ranked([self.confirmed(found[0]), *found[1:]])
        return tuple(found)

    def confirmed(self, option: Option) -> Option:
        """The option with a count that long runs confirm, or with why there is none."""
        candidate = option.candidate
        self._progress(f"{candidate.product} {candidate.where} {candidate.dtype}: confirming")
        if candidate.decode is not None:
            return self._confirmed_apart(option)
        found = self.needed(option)
        if found is None:
            said = say("no number of replicas keeps the objective in long runs")
            return Option(candidate, problem=said, tried=option.tried)
        ready = self._deployed(candidate)
        slow = replace(ready, costs=ready.costs.slower())
        slowly = self._confirming(slow).replicas(found.replicas)
        rate = self._plan.llm.requests_per_s / found.replicas
        tried = tuple((each, self._at(ready, each, _DRAWN_REQUESTS)) for each, _ in option.tried)
        spare = spares_of(self._plan, candidate, found.replicas)
        return replace(
            option, rate_per_s=rate, replicas=found.replicas + spare[0], spare=spare,
            cards=self._installed(candidate, found.replicas),
            served=self._at(ready, rate, self._plan.simulation.max_requests), confirmed=True,
            perhaps=self._installed(candidate, found.perhaps), tried=tried,
            fewer=self._fewer(ready, found.replicas),
            slow_cards=slowly and self._installed(candidate, slowly.replicas),
        )  # fmt: skip

    def _installed(self, candidate: Candidate, needed: int) -> int:
        """Cards of so many replicas of one kind, and of the spare ones beside them."""
        return candidate.cards(needed + spares_of(self._plan, candidate, needed)[0])

    def _confirmed_apart(self, option: Option) -> Option:
        """A fleet of two kinds of cards that does with several seeds; its slow end by one."""
        start = option.needed
        found = self._sizer.sized(option.candidate, apart=start, seeds=_SEEDS)
        if not found.meets:
            return found
        slow = self._slowly(found.candidate).sized(found.candidate, apart=start)
        return replace(found, confirmed=True, perhaps=found.cards, slow_cards=slow.cards or None)

    def _slowly(self, candidate: Candidate) -> Sizer:
        """A sizer for which every step of a candidate takes as long as the end of its band."""
        slow = Sizer(self._plan, self._model)
        for layout in filter(None, (candidate.layout, candidate.decode)):
            ready = self._sizer.deployed(candidate, layout)
            slow.keep(candidate, replace(ready, costs=ready.costs.slower()))
        return slow

    def _fewer(self, ready: Deployment, replicas: int) -> Served | None:
        if replicas == 1:
            return None
        rate = self._plan.llm.requests_per_s / (replicas - 1)
        return self._at(ready, rate, self._plan.simulation.max_requests)

    def needed(self, option: Option) -> Confirmed | None:
        """The replicas of an option without spare ones, by long runs."""
        near = option.needed[0]
        return self._confirming(self._deployed(option.candidate)).replicas(near)

    def _confirming(self, ready: Deployment, times: float = 1.0) -> Confirming:
        simulation = self._plan.simulation

        def share(rate: float, requests: int, seed: int) -> float:
            return self._at(ready, rate, requests, seed).in_time

        return Confirming(
            share, times * self._plan.llm.requests_per_s, self._plan.objective.quantile,
            simulation.requests, simulation.max_requests, simulation.seed,
        )  # fmt: skip

    def what_ifs(self, chosen: Option) -> Iterator[WhatIf]:
        """The questions that a plan is asked next: the chosen option where one thing is else."""
        llm, limits, candidate = self._plan.llm, self._plan.objective, chosen.candidate
        twice = 2 * llm.requests_per_s
        yield WhatIf("twice the requests", self._again(chosen, "llm", requests_per_s=twice))
        more = candidate.cards(chosen.replicas + 1, chosen.answering + 1)
        yield WhatIf("one replica may fail", more)
        yield WhatIf("the slow end of the band", chosen.slow_cards)
        longer = 2 * llm.input_tokens
        yield WhatIf("prompts twice as long", self._again(chosen, "llm", input_tokens=longer))
        sooner, later = limits.ttft_ms / 2, limits.tpot_ms + 10
        yield WhatIf(
            "half as long to the first token", self._again(chosen, "objective", ttft_ms=sooner)
        )
        yield WhatIf("10 ms more for a token", self._again(chosen, "objective", tpot_ms=later))

    def _again(self, chosen: Option, part: str, **changed: Any) -> int | None:
        """Cards where a part of the plan is otherwise, by runs as long as those that confirm."""
        plan = self._plan.model_copy(
            update={part: getattr(self._plan, part).model_copy(update=changed)}
        )
        sizer, candidate = self._sizer.otherwise(plan), chosen.candidate
        if candidate.decode is not None:
            return sizer.sized(candidate, apart=self._scaled(chosen.needed, plan)).cards or None
        other = Planner(plan, self._model, self._progress, sizer)
        again = sizer.sized(candidate)
        found = other.needed(again) if again.meets else None
        return found and other._installed(candidate, found.replicas)

    def _scaled(self, counts: tuple[int, int], plan: LlmPlan) -> tuple[int, int]:
        """Where to begin for another plan: in proportion to the tokens of each kind."""
        old, new = self._plan.llm, plan.llm
        more = new.requests_per_s / old.requests_per_s
        reads = ceil(counts[0] * more * new.input_tokens / old.input_tokens)
        return reads, ceil(counts[1] * more * new.output_tokens / old.output_tokens)

    def course(self, chosen: Option) -> tuple[LlmMemory, Course | None]:
        """Memory of a rank that answers, and the cache of a replica over time."""
        candidate = chosen.candidate
        if candidate.decode is not None:
            return self._sizer.deployed(candidate, candidate.decode).memory, None
        ready = self._deployed(candidate)
        requests = self._sizer.requests(chosen.rate_per_s)
        outcome = serve_in_stages(requests, [ready.stage(ready.layout.dp)])
        return ready.memory, course_of(requests, outcome)

    def _deployed(self, candidate: Candidate) -> Deployment:
        return self._sizer.deployed(candidate, candidate.layout)

    def _at(self, ready: Deployment, rate: float, number: int = 0, seed: int = -1) -> Served:
        """A replica at a rate, with so many requests and that seed instead of the plan's."""
        return self._sizer.at(ready, rate, number=number, seed=seed)
