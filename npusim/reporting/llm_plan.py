"""The plan of a language model: options side by side, the cheapest first, and what-ifs."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any, Final

import npusim
from npusim.reporting.document import Block, Code, Page, Section, Table, Tone, Verdict, bullets
from npusim.reporting.llm_figures import load_figure, memory_figure, pareto_figure
from npusim.reporting.renderers.jsonout import fields
from npusim.reporting.spelling import burden, count, latency, percent, significant
from npusim.serving.plan import UNTITLED
from npusim.serving.results import DEFINITIONS, nearest_name
from npusim.values.language import ngettext, say

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from npusim.serving.options import Option
    from npusim.serving.plan import LlmSampling
    from npusim.serving.planning import LlmPlanResult
    from npusim.serving.results import Served

_COLUMNS: Final = (
    "product", "dtype", "layout", "sequences", "requests/s", "tokens/s of a card", "TTFT", "TPOT",
    "cache", "replicas", "cards", "if slow", "power", "price",
)  # fmt: skip
_NOT_SEARCHED: Final = (
    "not searched anywhere: prompts' context parallelism, sequence parallelism beside FlashComm's",
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
        *bullets(say("Left out of the search"), [*left_out, *_NOT_SEARCHED]),
        *bullets("Definitions", [f"{name}: {text}" for name, text in DEFINITIONS.items()]),
    ]
    if found.chosen is not None:
        said = serve_command(found, found.chosen)
        sections.append(Section("Serve it", [Code(said)]))
    if command:
        sections.append(Section("Do it again", [Code(command)], detail=True))
    return Page(
        found.model.name if found.plan.title == UNTITLED else found.plan.title,
        _question(found),
        verdicts=list(_verdicts(found)),
        sections=[each for each in sections if each.blocks],
        footer=(
            say(
                "Made by npusim {version}, seed {seed}. Times are estimates; "
                "prices and power are shown only where they were given."
            ).format(version=npusim.__version__, seed=found.plan.simulation.seed)
        ),
    )


def _question(found: LlmPlanResult) -> str:
    workload, limits = found.plan.llm, found.plan.objective
    question = say(
        "{requests_per_s:g} requests/s with prompts of "
        "{input_tokens} and answers of {output_tokens} tokens; TTFT "
        "within {ttft_ms:g} ms and TPOT within {tpot_ms:g} ms"
    ).format(
        requests_per_s=workload.requests_per_s,
        input_tokens=workload.input_tokens,
        output_tokens=workload.output_tokens,
        ttft_ms=limits.ttft_ms,
        tpot_ms=limits.tpot_ms,
    )
    return question if found.plan.title == UNTITLED else f"{found.model.name}: {question}"


def _verdicts(found: LlmPlanResult) -> Iterator[Verdict]:
    """The answer in a sentence for those who decide and what it rests on, and who can't."""
    chosen = found.chosen
    if chosen is None:
        yield Verdict(say("No product of the plan meets the objective."), "bad")
    else:
        tone: Tone = "good" if chosen.perhaps == chosen.cards else "open"
        yield Verdict(in_short(found, chosen), tone, _why(found, chosen))
    for caution in dict.fromkeys(each.candidate.caution for each in found.options):
        if caution:
            yield Verdict(caution, "open")
    if chosen is None:
        unable: dict[str, list[Option]] = {}
        for each in found.options:
            unable.setdefault(each.candidate.product, []).append(each)
        for product, options in unable.items():
            open_ones = sum(not each.simulated for each in options)
            if open_ones:
                said = say(
                    "{product}: none that was simulated meets the objective; {open_ones} weren't."
                ).format(product=say(product), open_ones=open_ones)
                yield Verdict(said, "open")
            else:
                yield Verdict(
                    say("{product} can't: {problem}.").format(
                        product=say(product), problem=options[0].problem
                    ),
                    "bad",
                )


def in_short(found: LlmPlanResult, chosen: Option) -> str:
    """What the chosen option takes to answer which requests how fast."""
    workload, limits = found.plan.llm, found.plan.objective
    needs = say("needs {cards}").format(cards=_cards(chosen.cards))
    if chosen.perhaps < chosen.cards:
        needs = say("is undecided between {perhaps} and {cards}").format(
            perhaps=chosen.perhaps, cards=_cards(chosen.cards)
        )
    return say(
        "{product} {needs}{burden} to answer {requests_per_s:g} "
        "requests/s, {quantile} of them with their first token within "
        "{ttft_ms:g} ms and {tpot_ms:g} ms for each further one."
    ).format(
        product=say(chosen.candidate.product),
        needs=needs,
        burden=burden(chosen.power_w, chosen.price, found.plan.fleet.currency),
        requests_per_s=workload.requests_per_s,
        quantile=percent(limits.quantile),
        ttft_ms=limits.ttft_ms,
        tpot_ms=limits.tpot_ms,
    )


def _why(found: LlmPlanResult, chosen: Option) -> str:
    """How the cards are laid out, what one replica fewer or the slow end does, and the others."""
    served, candidate, limits = chosen.served, chosen.candidate, found.plan.objective
    if served is None:
        return ""
    name = nearest_name(limits.quantile)
    replicas = ngettext("{count} replica", "{count} replicas", chosen.replicas)
    replicas = replicas.format(count=chosen.replicas)
    kind = say(" as {dtype}").format(dtype=candidate.dtype) if candidate.dtype else ""
    if (answers := candidate.decode) is not None:
        replicas = say("{answering} x {answers} behind {replicas}").format(
            answering=chosen.answering, answers=answers, replicas=chosen.replicas
        )
    laid_out = say(
        "{replicas} of {layout}{kind}, up to {max_sequences} sequences "
        "in a step; {value} {rate_per_s} requests/s, of which "
        "{in_time} are in time, with {name} of TTFT {ms} and of TPOT "
        "{tpot_ms}."
    ).format(
        replicas=replicas,
        layout=candidate.layout,
        kind=kind,
        max_sequences=candidate.max_sequences,
        value="together they get" if answers else "each gets",
        rate_per_s=significant(chosen.rate_per_s),
        in_time=_in_time(served),
        name=name,
        ms=_ms(served.ttft_ms.nearest(limits.quantile)),
        tpot_ms=_ms(served.tpot_ms.nearest(limits.quantile)),
    )
    said = [laid_out]
    if sum(chosen.spare):
        said.append(say("Of the replicas {spare} are spare.").format(spare=sum(chosen.spare)))
    if chosen.fewer is not None:
        said.append(
            say("One replica fewer would have {in_time} in time.").format(
                in_time=_in_time(chosen.fewer)
            )
        )
    if chosen.slow_cards is None:
        said.append(say("At the slow end of the estimate no number of cards does."))
    elif chosen.slow_cards > chosen.cards:
        said.append(
            say("It is {cards} at the slow end of the estimate.").format(
                cards=_cards(chosen.slow_cards)
            )
        )
    others = {each.candidate.product for each in found.options if each.meets}
    if len(others) > 1:
        priced = all(each.price is not None for each in found.options if each.meets)
        said.append(
            say("It costs least of {others} products at the prices given.").format(
                others=len(others)
            )
            if priced
            else say(
                "Counted at the slow end, none of {others} products needs "
                "fewer cards; a card of one isn't a card of another: --prices "
                "FILE ranks them by cost."
            ).format(others=len(others))
        )
    return " ".join(said)


def _in_time(served: Served) -> str:
    return percent(served.in_time)


def serve_command(found: LlmPlanResult, option: Option) -> str:
    """The command that serves the plan's requests by an option, as it was simulated."""
    workload, limits, candidate = found.plan.llm, found.plan.objective, option.candidate
    served = option.served
    words = ["npusim llm serve", shlex.quote(workload.config), f"-s {candidate.soc}"]
    layout = candidate.layout
    words += [f"--{name} {size}" for name, size in layout.sizes.items() if size > 1]
    words += ["--sp"] if layout.sp else []
    if (answers := candidate.decode) is not None:
        working, behind = option.needed
        sizes = answers.sizes.items()
        behind_it = ",".join(f"{name}={size}" for name, size in sizes if name != "dcp" or size > 1)
        words += [f"--decode {behind_it},sp=1" if answers.sp else f"--decode {behind_it}"]
        words += [f"--replicas {working} --decode-replicas {behind}"]
    words += [f"--dtype {candidate.dtype}"] if candidate.dtype else []
    words += [f"--graph {candidate.graph}"] if candidate.graph else []
    routed = found.plan.fleet.router != "round_robin"
    times = option.needed[0] if routed and answers is None else 1
    words += [f"--replicas {times}"] if times > 1 else []
    words += [f"--router {found.plan.fleet.router}"] if routed else []
    words += [f"--rate {times * option.rate_per_s!r} --input {workload.input_tokens}"]
    words += [f"--output {workload.output_tokens} --max-sequences {candidate.max_sequences}"]
    words += [f"--max-tokens {found.plan.fleet.max_tokens}"]
    words += [f"--spread {workload.spread:g}"] if workload.spread else []
    words += [f"--prefix-share {workload.prefix_share:g}"] if workload.prefix_share else []
    words += (
        [f"--draft {candidate.draft} --accepted {workload.accepted:g}"] if candidate.draft else []
    )
    words += _sampling_words(workload.sampling)
    words += [f"--expert-skew {workload.expert_skew:g}"] if workload.expert_skew else []
    counts = workload.expert_counts
    words += [f"--expert-counts {shlex.quote(counts)}"] if counts is not None else []
    words += [f"--requests {times * served.requests}"] if served is not None else []
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
        rows = [_row(each, found.plan.objective.quantile) for each in met]
        known = [number for number, name in enumerate(_COLUMNS) if any(row[number] for row in rows)]
        columns = [_COLUMNS[number] for number in known]
        cells = [[row[number] for number in known] for row in rows]
        name = nearest_name(found.plan.objective.quantile)
        caption = say(
            "TTFT and TPOT are {name} of a replica at its requests/s; if "
            "slow: cards at the slow end of the estimate. Where that is "
            "empty, short runs say how many at least"
        ).format(name=name)
        yield Table(columns, cells, _COLUMNS[4:], caption, ("product",), 0)
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
        "verdict": [each.words for each in _verdicts(found)],
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
        **fields(each.candidate, "draft graph"),
        **fields(each, "answering simulated"),
        **fields(
            each,
            "rate_per_s replicas cards meets problem power_w price confirmed perhaps slow_cards",
        ),
    }
    if each.served is not None:
        said |= fields(each.served, "output_tok_s preemptions kv_tokens most_kv_tokens")
        said["ttft_ms"], said["tpot_ms"] = each.served.ttft_ms.p90, each.served.tpot_ms.p90
    return said


def _row(each: Option, quantile: float) -> tuple[str, ...]:
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
        _ms(served.ttft_ms.nearest(quantile)),
        _ms(served.tpot_ms.nearest(quantile)),
        percent(served.most_kv_tokens / served.kv_tokens),
        str(each.replicas) + (f" + {each.answering}" if each.answering else ""),
        str(each.cards),
        "" if not each.confirmed else "none" if each.slow_cards is None else str(each.slow_cards),
        "" if each.power_w is None else f"{count(each.power_w)} W",
        "" if each.price is None else count(each.price),
    )


def _cards(number: int) -> str:
    return ngettext("{count} card", "{count} cards", number).format(count=number)


def _ms(value: float) -> str:
    return latency(value * 1e3)
