"""The plan of a language model: options side by side, the cheapest first, and what-ifs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from npusim.reporting.document import Page, Section, Table, Verdict, bullets
from npusim.reporting.renderers.jsonout import fields
from npusim.serving.results import DEFINITIONS

if TYPE_CHECKING:
    from npusim.serving.planning import LlmPlanResult, Option

_COLUMNS = (
    "product", "dtype", "layout", "sequences", "requests/s", "tokens/s per chip", "TTFT p90",
    "TPOT p90", "cache", "replicas", "cards",
)  # fmt: skip


def llm_plan_page(found: LlmPlanResult) -> Page:
    """What a plan found."""
    workload, limits, chosen = found.plan.llm, found.plan.objective, found.chosen
    verdict = Verdict("no option meets the objectives", "bad")
    if chosen is not None:
        verdict = Verdict(
            f"{chosen.cards} cards of {chosen.candidate.product}: {chosen.replicas} replicas with "
            f"{chosen.candidate.layout} {chosen.candidate.dtype}",
            "good",
        )
    met = [each for each in found.options if each.meets]
    table = Table(_COLUMNS, list(map(_row, met)), _COLUMNS[4:], wide=("product",), chosen=0)
    failed = [
        f"{each.candidate.product} {each.candidate.dtype} {each.candidate.layout}: {each.problem}"
        for each in found.options
        if not each.meets
    ]
    what_ifs = [
        (each.question, "no number of cards" if each.cards is None else str(each.cards))
        for each in found.what_ifs
    ]
    return Page(
        found.plan.title,
        f"{found.model.name}: {workload.requests_per_s:g} requests/s of {workload.input_tokens} "
        f"and {workload.output_tokens} tokens; {limits.quantile:.0%} of them with TTFT within "
        f"{limits.ttft_ms:g} ms and TPOT within {limits.tpot_ms:g} ms",
        verdicts=[verdict],
        sections=[
            Section("options", [table] if met else []),
            Section("what if", [Table(("", "cards"), what_ifs, ("cards",))] if what_ifs else []),
            *bullets("not possible", failed),
            *bullets("definitions", [f"{name}: {text}" for name, text in DEFINITIONS.items()]),
        ],
    )


def llm_plan_json(found: LlmPlanResult) -> dict[str, Any]:
    """The same as data."""
    chosen = found.chosen
    return {
        "title": found.plan.title,
        "model": found.model.name,
        "cards": None if chosen is None else chosen.cards,
        "product": None if chosen is None else chosen.candidate.product,
        "options": [_option(each) for each in found.options],
        "what_ifs": {each.question: each.cards for each in found.what_ifs},
    }


def _option(each: Option) -> dict[str, Any]:
    said = {
        **fields(each.candidate, "product soc dtype max_sequences"),
        "tp": each.candidate.layout.tp,
        **fields(each, "rate_per_s replicas cards meets problem"),
    }
    if each.served is not None:
        said |= fields(each.served, "output_tok_s preemptions kv_tokens most_kv_tokens")
        said["ttft_ms"], said["tpot_ms"] = each.served.ttft_ms.p90, each.served.tpot_ms.p90
    return said


def _row(each: Option) -> tuple[str, ...]:
    served, candidate = each.served, each.candidate
    if served is None:
        return ("",) * len(_COLUMNS)
    return (
        candidate.product,
        candidate.dtype or "config's",
        str(candidate.layout),
        str(candidate.max_sequences),
        f"{each.rate_per_s:.2f}",
        f"{served.output_tok_s / candidate.layout.cards:.0f}",
        f"{served.ttft_ms.p90:.0f}",
        f"{served.tpot_ms.p90:.1f}",
        f"{served.most_kv_tokens / served.kv_tokens:.0%}",
        str(each.replicas),
        str(each.cards),
    )
