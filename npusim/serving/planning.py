"""The cheapest fleet that answers a language model's requests in time.

Every product, precision and layout is a candidate, for cards that read prompts and answer, and for
cards that do either. What the best of them answer within the objectives is found by simulating it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import ceil, inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from npusim.llm import is_id, read_model
from npusim.serving.engine import serve_in_stages
from npusim.serving.plan import LlmSampling
from npusim.serving.results import Course, course_of
from npusim.serving.search import Search
from npusim.serving.sizing import Sizer
from npusim.values.display import Tabular

if TYPE_CHECKING:
    from npusim.llm import LanguageModel
    from npusim.llm.memory import LlmMemory
    from npusim.serving.costs import StepCosts
    from npusim.serving.options import Option
    from npusim.serving.plan import LlmPlan

_GREEDY: Final = LlmSampling(greedy=True)
Progress = Callable[[str], None]


@dataclass(frozen=True)
class WhatIf:
    """Cards of the chosen option where something is otherwise; None where none suffice."""

    question: str
    cards: int | None


@dataclass(frozen=True)
class LlmPlanResult(Tabular):
    """All options, fewest cards first, then fewest watts, then the price; what-ifs of the first.

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
        """The option with the fewest cards; None where none meets the objectives."""
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
    described = plan.llm.architecture
    config: Path | str = folder / plan.llm.config
    if is_id(plan.llm.config) and not (folder / config).exists():
        config = plan.llm.config
    model = read_model(config, folder / described if described else None)
    sizer = Sizer(plan, model)
    search = Search(plan, model, sizer, progress or (lambda _: None))
    found = LlmPlanResult(plan, model, tuple(sorted(search.options(), key=_burden)), ())
    if (chosen := found.chosen) is None:
        return found
    answers = chosen.candidate.decode or chosen.candidate.layout
    ready = sizer.deployed(chosen.candidate, answers)
    course = None
    if chosen.candidate.decode is None:
        requests = sizer.requests(chosen.rate_per_s)
        course = course_of(requests, serve_in_stages(requests, [ready.stage(1)]))
    what_ifs = tuple(_what_ifs(plan, sizer, chosen))
    return replace(found, what_ifs=what_ifs, memory=ready.memory, course=course)


def _burden(each: Option) -> tuple[bool, int, float, float, float]:
    watts, price = (inf if value is None else value for value in (each.power_w, each.price))
    return not each.meets, each.cards, watts, price, -each.rate_per_s


def _what_ifs(plan: LlmPlan, sizer: Sizer, chosen: Option) -> Iterator[WhatIf]:
    """Cards of the chosen option where one thing is otherwise: what a plan is asked next."""
    candidate, llm, limits = chosen.candidate, plan.llm, plan.objective

    def again(part: str, **changed: Any) -> int | None:
        like = getattr(plan, part).model_copy(update=changed)
        other = sizer.otherwise(plan.model_copy(update={part: like}))
        return other.sized(candidate, apart=(chosen.replicas, chosen.answering)).cards or None

    rate = 2 * llm.requests_per_s
    if candidate.decode is None:
        doubled = candidate.cards(ceil(rate / chosen.rate_per_s))
        yield WhatIf("twice the requests", doubled)
    else:
        yield WhatIf("twice the requests", again("llm", requests_per_s=rate))
    yield WhatIf("one replica may fail", candidate.cards(chosen.replicas + 1, chosen.answering + 1))
    yield WhatIf("the slow end of the band", _slow(plan, sizer, chosen))
    yield WhatIf("prompts twice as long", again("llm", input_tokens=2 * llm.input_tokens))
    yield WhatIf("half as long to the first token", again("objective", ttft_ms=limits.ttft_ms / 2))
    yield WhatIf("10 ms more for a token", again("objective", tpot_ms=limits.tpot_ms + 10))
    yield WhatIf("the largest logit (greedy)", again("llm", sampling=_GREEDY))


def _slow(plan: LlmPlan, sizer: Sizer, chosen: Option) -> int | None:
    """Cards where every step takes as long as the upper end of its band."""
    candidate, slow = chosen.candidate, Sizer(plan, sizer.model)
    for layout in filter(None, (candidate.layout, candidate.decode)):
        ready = sizer.deployed(candidate, layout)
        slow.keep(candidate, replace(ready, costs=_slower(ready.costs, ready.costs.band[1])))
    return slow.sized(candidate, apart=(chosen.replicas, chosen.answering)).cards or None


def _slower(costs: StepCosts, factor: float) -> StepCosts:
    """Every step takes so many times as long."""
    return replace(
        costs,
        decode=[each * factor for each in costs.decode],
        context=[each * factor for each in costs.context],
        prompt=[each * factor for each in costs.prompt],
        behind=[each * factor for each in costs.behind],
    )
