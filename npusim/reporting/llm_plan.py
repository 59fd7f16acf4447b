"""The plan of a language model: options side by side, the cheapest first, and what-ifs."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any, Final

import npusim
from npusim.reporting.document import Block, Code, Page, Section, Table, Verdict, bullets
from npusim.reporting.llm_figures import load_figure, memory_figure, pareto_figure
from npusim.reporting.renderers.jsonout import fields
from npusim.reporting.spelling import count, latency, percent, significant
from npusim.serving.results import DEFINITIONS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from npusim.serving.options import Option
    from npusim.serving.plan import LlmSampling
    from npusim.serving.planning import LlmPlanResult

_COLUMNS: Final = (
    "product", "dtype", "layout", "sequences", "requests/s", "tokens/s of a card", "TTFT p90",
    "TPOT p90", "cache", "replicas", "cards", "power", "price",
)  # fmt: skip
_NOT_SEARCHED: Final = (
    "not searched anywhere: context parallelism, and sequence parallelism beside FlashComm's",
    "not searched anywhere: redundant experts, layouts of other than powers of two, mixed products",
)
_DRAWN: Final = 5  # products whose latency is drawn: more curves can't be told apart


def llm_plan_page(found: LlmPlanResult, command: str = "") -> Page:
    """What a plan found; `command` is what makes the page again."""
    met = [each for each in found.options if each.meets]
    failed, left_out = (
        [
            f"{each.candidate.product} {each.candidate.dtype} {each.candidate.where}: "
            f"{each.problem}"
            for each in found.options
            if not each.meets and each.simulated == simulated
        ]
        for simulated in (True, False)
    )
    sections = [
        Section("Options", list(_options(found, met))),
        Section("Memory", [figure] if (figure := memory_figure(found)) else []),
        Section("What if", list(_what_ifs(found))),
        *bullets("Not possible", failed),
        *bullets("Left out of the search", [*left_out, *_NOT_SEARCHED]),
        *bullets("Definitions", [f"{name}: {text}" for name, text in DEFINITIONS.items()]),
    ]
    if found.chosen is not None:
        said = serve_command(found, found.chosen)
        sections.append(Section("Serve it", [Code(said)], detail=True))
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
    unable: dict[str, list[Option]] = {}
    for each in found.options:
        if each.candidate.product not in able:
            unable.setdefault(each.candidate.product, []).append(each)
    for product, options in unable.items():
        open_ones = [each for each in options if not each.simulated]
        if open_ones:
            said = f"{product}: none of those that were simulated meets the objective; "
            yield Verdict(said + f"{len(open_ones)} layouts weren't.", "open")
        else:
            yield Verdict(f"{product} can't: {options[0].problem}.", "bad")


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
    if (answers := candidate.decode) is not None:
        return (
            f"Prompts are read by {chosen.replicas} x {candidate.layout}, answers come from "
            f"{chosen.answering} x {answers}, up to {candidate.max_sequences} sequences in a step: "
            f"p90 of TTFT {_ms(served.ttft_ms.p90)} and of TPOT {_ms(served.tpot_ms.p90)}."
        )
    kind = f" as {candidate.dtype}" if candidate.dtype else ""
    return (
        f"{replicas} of {candidate.layout}{kind}, up to {candidate.max_sequences} sequences in a "
        f"step; each answers up to {significant(chosen.rate_per_s)} requests/s in time, then with "
        f"p90 of TTFT {_ms(served.ttft_ms.p90)} and of TPOT {_ms(served.tpot_ms.p90)}."
    )


def serve_command(found: LlmPlanResult, option: Option) -> str:
    """The command that serves the plan's requests by an option, as it was simulated."""
    workload, limits, candidate = found.plan.llm, found.plan.objective, option.candidate
    served = option.served
    words = ["npusim llm serve", shlex.quote(workload.config), f"-s {candidate.soc}"]
    layout = candidate.layout
    sizes = {"tp": layout.tp, "pp": layout.pp, "dp": layout.dp, "ep": layout.experts}
    words += [f"--{name} {size}" for name, size in sizes.items() if size > 1]
    if (answers := candidate.decode) is not None:
        working = option.replicas - found.plan.fleet.spare_replicas
        behind = option.answering - found.plan.fleet.spare_replicas
        words += [f"--decode tp={answers.tp},pp={answers.pp},dp={answers.dp},ep={answers.experts}"]
        words += [f"--replicas {working} --decode-replicas {behind}"]
    words += [f"--dtype {candidate.dtype}"] if candidate.dtype else []
    words += [f"--graph {candidate.graph}"] if candidate.graph else []
    words += [f"--rate {option.rate_per_s!r} --input {workload.input_tokens}"]
    words += [f"--output {workload.output_tokens} --max-sequences {candidate.max_sequences}"]
    words += [f"--max-tokens {found.plan.fleet.max_tokens}"]
    words += [f"--spread {workload.spread:g}"] if workload.spread else []
    words += [f"--prefix-share {workload.prefix_share:g}"] if workload.prefix_share else []
    words += (
        [f"--draft {candidate.draft} --accepted {workload.accepted:g}"] if candidate.draft else []
    )
    words += _sampling_words(workload.sampling)
    words += [f"--requests {served.requests}"] if served is not None else []
    words += [f"--seed {found.plan.simulation.seed}"] if found.plan.simulation.seed else []
    return " ".join([*words, f"--ttft-ms {limits.ttft_ms:g} --tpot-ms {limits.tpot_ms:g}"])


def _sampling_words(sampling: LlmSampling) -> list[str]:
    """Options of a sampler that isn't the usual one."""
    usual = type(sampling)()
    words = ["--greedy"] if sampling.greedy else []
    words += [f"--top-k {sampling.top_k}"] if sampling.top_k != usual.top_k else []
    words += [f"--top-p {sampling.top_p:g}"] if sampling.top_p != usual.top_p else []
    return [*words, *(["--penalties"] if sampling.penalties else [])]


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
        "serve": None if chosen is None else serve_command(found, chosen),
        "options": [_option(each) for each in found.options],
        "what_ifs": {each.question: each.cards for each in found.what_ifs},
    }


def _option(each: Option) -> dict[str, Any]:
    said = {
        **fields(each.candidate, "product soc dtype max_sequences"),
        "tp": each.candidate.layout.tp,
        "layout": str(each.candidate.layout),
        "decode_layout": None if each.candidate.decode is None else str(each.candidate.decode),
        "draft": each.candidate.draft,
        **fields(each, "rate_per_s replicas answering simulated cards meets problem power_w price"),
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
        candidate.where,
        str(candidate.max_sequences),
        f"{each.rate_per_s:.2f}",
        f"{each.per_card(served):.0f}",
        _ms(served.ttft_ms.p90),
        _ms(served.tpot_ms.p90),
        f"{served.most_kv_tokens / served.kv_tokens:.0%}",
        str(each.replicas) + (f" + {each.answering}" if each.answering else ""),
        str(each.cards),
        "" if each.power_w is None else f"{count(each.power_w)} W",
        "" if each.price is None else count(each.price),
    )


def _cards(number: int) -> str:
    return f"{number} card{'' if number == 1 else 's'}"


def _ms(value: float) -> str:
    return latency(value * 1e3)
