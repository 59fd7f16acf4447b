"""The plan of a language model: options side by side, the cheapest first, and what-ifs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import npusim
from npusim.reporting.document import Block, Code, Page, Section, Table, Verdict, bullets
from npusim.reporting.llm_figures import load_figure, memory_figure, pareto_figure
from npusim.reporting.renderers.jsonout import fields
from npusim.reporting.spelling import count, latency, percent, significant
from npusim.serving.results import DEFINITIONS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from npusim.serving.planning import LlmPlanResult, Option

_COLUMNS: Final = (
    "product", "dtype", "layout", "sequences", "requests/s", "tokens/s of a card", "TTFT p90",
    "TPOT p90", "cache", "replicas", "cards", "power", "price",
)  # fmt: skip
_DRAWN: Final = 5  # products whose latency is drawn: more curves can't be told apart


def llm_plan_page(found: LlmPlanResult, command: str = "") -> Page:
    """What a plan found; `command` is what makes the page again."""
    met = [each for each in found.options if each.meets]
    failed = [
        f"{each.candidate.product} {each.candidate.dtype} {each.candidate.layout}: {each.problem}"
        for each in found.options
        if not each.meets
    ]
    sections = [
        Section("Options", list(_options(found, met))),
        Section("Memory", [figure] if (figure := memory_figure(found)) else []),
        Section("What if", list(_what_ifs(found))),
        *bullets("Not possible", failed),
        *bullets("Definitions", [f"{name}: {text}" for name, text in DEFINITIONS.items()]),
    ]
    if command:
        sections.append(Section("Do it again", [Code(command)], detail=True))
    return Page(
        found.plan.title,
        _question(found),
        verdicts=list(_verdicts(found)),
        sections=[each for each in sections if each.blocks],
        footer=(
            f"Made by npusim {npusim.__version__}, seed {found.plan.simulation.seed}. Times are "
            "estimates; prices and power are shown only where they were given."
        ),
    )


def _question(found: LlmPlanResult) -> str:
    workload, limits = found.plan.llm, found.plan.objective
    return (
        f"{found.model.name}: {workload.requests_per_s:g} requests/s with prompts of "
        f"{workload.input_tokens} and answers of {workload.output_tokens} tokens; TTFT within "
        f"{limits.ttft_ms:g} ms and TPOT within {limits.tpot_ms:g} ms"
    )


def _verdicts(found: LlmPlanResult) -> Iterator[Verdict]:
    """The cheapest in a sentence for those who decide, how it is laid out, and who can't."""
    chosen = found.chosen
    if chosen is None:
        yield Verdict("No product of the plan meets the objective.", "bad")
    else:
        yield Verdict(in_short(found, chosen), "good")
        yield Verdict(_in_detail(chosen), "open")
    able = {each.candidate.product for each in found.options if each.meets}
    unable: dict[str, str] = {}
    for each in found.options:
        if each.candidate.product not in able:
            unable.setdefault(each.candidate.product, each.problem)
    for product, problem in unable.items():
        yield Verdict(f"{product} can't: {problem}.", "bad")


def in_short(found: LlmPlanResult, chosen: Option) -> str:
    """What the chosen option takes to answer which requests how fast, and how it compares."""
    workload, limits = found.plan.llm, found.plan.objective
    takes = [] if chosen.power_w is None else [f"{count(chosen.power_w)} W"]
    takes += [] if chosen.price is None else [f"{count(chosen.price)} {found.plan.fleet.currency}"]
    burden = f" ({', '.join(takes)})" if takes else ""
    several = len({each.candidate.product for each in found.options if each.meets}) > 1
    fewest = "; no other product that was asked needs fewer" if several else ""
    return (
        f"{chosen.candidate.product} needs {_cards(chosen.cards)}{burden} to answer "
        f"{workload.requests_per_s:g} requests/s, {percent(limits.quantile)} of them with their "
        f"first token within {limits.ttft_ms:g} ms and {limits.tpot_ms:g} ms for each further "
        f"one{fewest}."
    )


def _in_detail(chosen: Option) -> str:
    served, candidate = chosen.served, chosen.candidate
    if served is None:
        return ""
    replicas = f"{chosen.replicas} replica{'' if chosen.replicas == 1 else 's'}"
    kind = f" as {candidate.dtype}" if candidate.dtype else ""
    return (
        f"{replicas} of {candidate.layout}{kind}, up to {candidate.max_sequences} sequences in a "
        f"step; each answers up to {significant(chosen.rate_per_s)} requests/s in time, then with "
        f"p90 of TTFT {_ms(served.ttft_ms.p90)} and of TPOT {_ms(served.tpot_ms.p90)}."
    )


def _options(found: LlmPlanResult, met: Sequence[Option]) -> Iterator[Block]:
    if met:
        rows = [_row(each) for each in met]
        known = [number for number, name in enumerate(_COLUMNS) if any(row[number] for row in rows)]
        columns = [_COLUMNS[number] for number in known]
        cells = [[row[number] for number in known] for row in rows]
        yield Table(columns, cells, _COLUMNS[4:], wide=("product",), chosen=0)
        best: dict[str, Option] = {}
        for each in met:
            best.setdefault(each.candidate.product, each)
        yield load_figure(found, list(best.values())[:_DRAWN])
    if any(each.tried for each in found.options):
        yield pareto_figure(found)


def _what_ifs(found: LlmPlanResult) -> Iterator[Block]:
    rows = [
        (each.question, "no number of cards" if each.cards is None else str(each.cards))
        for each in found.what_ifs
    ]
    if rows:
        yield Table(("what if", "cards"), rows, ("cards",))


def llm_plan_json(found: LlmPlanResult) -> dict[str, Any]:
    """The same as data."""
    chosen = found.chosen
    return {
        "title": found.plan.title,
        "verdict": [each.text for each in _verdicts(found)],
        "model": found.model.name,
        "cards": None if chosen is None else chosen.cards,
        "product": None if chosen is None else chosen.candidate.product,
        "currency": found.plan.fleet.currency,
        "options": [_option(each) for each in found.options],
        "what_ifs": {each.question: each.cards for each in found.what_ifs},
    }


def _option(each: Option) -> dict[str, Any]:
    said = {
        **fields(each.candidate, "product soc dtype max_sequences"),
        "tp": each.candidate.layout.tp,
        **fields(each, "rate_per_s replicas cards meets problem power_w price"),
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
        candidate.dtype,
        str(candidate.layout),
        str(candidate.max_sequences),
        f"{each.rate_per_s:.2f}",
        f"{each.per_card(served):.0f}",
        _ms(served.ttft_ms.p90),
        _ms(served.tpot_ms.p90),
        f"{served.most_kv_tokens / served.kv_tokens:.0%}",
        str(each.replicas),
        str(each.cards),
        "" if each.power_w is None else f"{count(each.power_w)} W",
        "" if each.price is None else count(each.price),
    )


def _cards(number: int) -> str:
    return f"{number} card{'' if number == 1 else 's'}"


def _ms(value: float) -> str:
    return latency(value * 1e3)
