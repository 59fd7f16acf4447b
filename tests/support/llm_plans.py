"""A plan of a language model as it might have been found, in no time."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from npusim.llm import Layout
from npusim.llm.memory import LlmMemory
from npusim.serving.options import Candidate, Option
from npusim.serving.plan import LlmPlan
from npusim.serving.planning import LlmPlanResult, WhatIf
from npusim.serving.results import Course, Quantiles, Served

if TYPE_CHECKING:
    from npusim.llm import LanguageModel

_PLAN = {
    "title": "A small chat",
    "llm": {
        "config": "config.json",
        "input_tokens": 500,
        "output_tokens": 100,
        "requests_per_s": 60,
    },
    "objective": {"ttft_ms": 500, "tpot_ms": 30},
    "fleet": {
        "products": [
            {"product": "Atlas 800T A2", "price_per_card": 9000},
            "Atlas 300I Duo",
            "Atlas 300I Pro",
        ],
        "currency": "EUR",
    },
}


def found_llm_plan() -> LlmPlanResult:
    """Two products in time, one of them with two layouts, and one that can't."""
    options = (
        _option("Atlas 800T A2 training server", 1, 3, rate=27.0, slow=1.0, price=9000.0),
        _option("Atlas 800T A2 training server", 2, 6, rate=25.0, slow=1.1, price=9000.0),
        _option("Atlas 300I Duo inference card (96 GB)", 2, 24, rate=5.0, slow=1.7, power_w=150.0),
        Option(_candidate("Atlas 300I Pro inference card", 1), problem="no room for a cache"),
    )
    memory = LlmMemory(2**31, 0, 2**29, 2**30, 64 * 2**30, 58 * 2**30, 114688.0, 500_000)
    times = tuple(number / 4 for number in range(9))
    course = Course(times, tuple(9e4 * min(time, 1.5) for time in times))
    what_ifs = (WhatIf("twice the requests", 5), WhatIf("prompts twice as long", None))
    model = cast("LanguageModel", SimpleNamespace(name="Qwen3-0.6B"))
    return LlmPlanResult(LlmPlan.model_validate(_PLAN), model, options, what_ifs, memory, course)


def _candidate(
    product: str, tp: int, power_w: float | None = None, price: float | None = None
) -> Candidate:
    chips = 2 if "Duo" in product else 1
    return Candidate(product, "Ascend", "w8a8", Layout(tp), 64, chips, power_w, price)


def _option(
    product: str,
    tp: int,
    cards: int,
    *,
    rate: float,
    slow: float,
    power_w: float | None = None,
    price: float | None = None,
) -> Option:
    shares = (0.01, 0.5, 0.75, 1.0, 1.2)
    tried = tuple((share * rate, _served(share * rate, slow * (1 + share))) for share in shares)
    candidate = _candidate(product, tp, power_w, price)
    replicas = cards * candidate.chips_per_card // tp
    return Option(
        candidate, rate, replicas, cards, tried[3][1], tried=tried, confirmed=True, perhaps=cards,
        fewer=tried[4][1], slow_cards=cards + 1,
    )  # fmt: skip


def _served(rate: float, slow: float) -> Served:
    ttft, tpot = (Quantiles(*[slow * each] * 4) for each in (30.0, 9.0))
    return Served(
        300, 300 / rate, 100 * rate, rate, ttft, tpot, ttft, rate, 9.0, 0, 99, 0.9, 500_000, 20_000
    )
