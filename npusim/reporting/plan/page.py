"""The report of a capacity plan: how many cards of which product, how safely, and why."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import npusim
from npusim.capacity.units import US_PER_MS
from npusim.hardware.reading import built_in_sources
from npusim.reporting.document import Block, Bullets, Code, Page, Section, Table, bullets
from npusim.reporting.plan.figures import (
    by_cards_figure,
    cards_figure,
    classes_figure,
    curves_figure,
    latency_figure,
    utilisation_figure,
)
from npusim.reporting.plan.verdicts import (
    interval,
    quantile_name,
    question,
    rate,
    verdicts,
    why_not,
)
from npusim.reporting.spelling import count, percent, significant, size
from npusim.values.language import say

if TYPE_CHECKING:
    from npusim.capacity import Estimate, Operation, PlanResult, ProductResult
    from npusim.reporting.plan.data import ModelResults


_SLOW: Final = "if slow"
"""The column of the cards that latencies at the slow end would take."""


def plan_page(result: PlanResult, models: ModelResults | None = None, command: str = "") -> Page:
    """The report of an evaluated plan.

    `models` are the timed steps behind the latencies, where they were simulated; `command` is what
    makes the report again.
    """
    models = models or {}
    sections = [Section("The plan", list(_plan(result)))]
    if result.meeting:
        lacking = [why_not(each) for each in result.products if not each.meets]
        sections += bullets("Not possible", lacking)
    sections.append(Section("How the fleet does", list(_operation(result)), detail=True))
    if any(each.models for each in result.products):
        sections.append(Section("The models", list(_models(result, models))))
    if result.meeting:
        sections.append(Section("What if", [_scenarios(result)]))
    sections.append(Section("Assumptions", [Bullets(_assumptions(result, models))]))
    sections.append(Section("Evidence", list(_evidence(result, models)), detail=True))
    if command:
        sections.append(Section("Do it again", [Code(command)], detail=True))
    return Page(
        title=result.plan.title,
        subtitle=question(result),
        verdicts=list(verdicts(result)),
        facts=list(_facts(result)),
        sections=sections,
        footer=(
            say(
                "Made by npusim {version}, seed {seed}. Latencies of batches "
                "are estimates; prices and power are shown only where they "
                "were given."
            ).format(version=npusim.__version__, seed=result.plan.simulation.seed)
        ),
    )


def _facts(result: PlanResult) -> Iterator[tuple[str, str]]:
    objective = result.plan.objective
    yield (
        "Objective",
        say("{quantile_name} within {limit_ms:g} ms").format(
            quantile_name=quantile_name(objective.quantile), limit_ms=objective.limit_ms
        ),
    )
    yield "Availability", objective.availability
    yield "Target utilisation", percent(objective.target_utilisation)
    yield "Peak", say("{peak_per_s} requests/s").format(peak_per_s=rate(result.peak_per_s))
    yield "Mean", say("{mean_per_s} requests/s").format(mean_per_s=rate(result.mean_per_s))
    yield "Arrivals", result.arrivals


def _plan(result: PlanResult) -> Iterator[Block]:
    quantile = say("{quantile_name} at peak").format(
        quantile_name=quantile_name(result.plan.objective.quantile)
    )
    numbers = ["cards", _SLOW, "servers", quantile, "busy", "headroom"]
    columns = ["product", *numbers, "limited by"]
    rows = []
    for each in result.ranked:
        cells = dict.fromkeys(columns, "")
        cells["product"] = each.board.name
        cells["limited by"] = each.verdict.value if not each.meets else ""
        if each.count is not None and each.at_peak is not None:
            cards = each.count
            cells["cards"] = (
                f"{cards.working} + {cards.spare}" if cards.spare else f"{cards.working}"
            )
            if not cards.is_decided:
                cells["cards"] = say("{perhaps} to {cells}").format(
                    perhaps=cards.perhaps, cells=cells["cards"]
                )
            cells["servers"] = "" if cards.servers is None else count(cards.servers)
            cells[_SLOW] = _at_slow_end(each)
            cells[quantile] = interval(each.at_peak.latency_us)
            cells["busy"] = percent((each.degraded or each.at_peak).utilisation.mean)
            cells["headroom"] = percent(each.headroom or 0.0)
            cells["limited by"] = cards.limited_by
        rows.append([cells[name] for name in columns])
    caption = say(
        "if slow: cards with latencies at the slow end of their band; "
        "busy: at the peak, working cards alone; headroom: what they "
        "carry beyond the peak"
    )
    yield Table(columns, rows, numbers, caption, ("product",), 0 if result.meeting else None)
    if extra := _extra(result):
        names = [each.board.name for each in result.ranked]
        rows = [[name, *(values[name] for values in extra.values())] for name in names]
        yield Table(["product", *extra], rows, list(extra), say("What the planned cards take"))
    for figure in (by_cards_figure(result), latency_figure(result), cards_figure(result)):
        if figure is not None:
            yield figure


def _at_slow_end(each: ProductResult) -> str:
    """The cards that latencies at the slow end of their band would take."""
    slow = each.slow_end
    if slow is None or slow.is_open:
        return "not asked"
    return "none" if slow.cards is None else count(max(slow.cards, int(each.surely)))


def _extra(result: PlanResult) -> dict[str, dict[str, str]]:
    """Columns that only some plans have: memory, power and money, by product."""
    columns: dict[str, dict[str, str]] = {}

    def put(column: str, each: ProductResult, text: str) -> None:
        columns.setdefault(column, {}.fromkeys([p.board.name for p in result.products], ""))
        columns[column][each.board.name] = text

    for each in result.products:
        if each.memory is not None:
            need, room = each.memory.needed_bytes, each.memory.capacity_bytes
            put(
                "memory of a device",
                each,
                say("{need} of {room}").format(need=size(need), room=size(room)),
            )
        if each.power_w is not None:
            put("power", each, f"{count(each.power_w)} W")
        if (cost := each.cost) is not None:
            for column, amount in (
                ("purchase", cost.purchase),
                ("per hour", cost.per_hour),
                ("per million requests", cost.per_million_requests),
            ):
                if amount is not None:
                    put(f"{column}, {cost.currency}", each, significant(amount, 4))
    return columns


def _operation(result: PlanResult) -> Iterator[Block]:
    rows = []
    for each in result.products:
        situations = (
            (say("at the peak, all cards"), each.at_peak),
            (say("at the mean, all cards"), each.at_mean),
            (say("at the peak, spare cards down"), each.degraded),
            (say("at the peak, a card fails for a third of the time"), each.failing),
        )
        rows += [
            (each.board.name, name, *_operation_row(operation))
            for name, operation in situations
            if operation is not None
        ]
    quantiles = [
        say("{quantile_name} ms").format(quantile_name=quantile_name(q))
        for q, _ in _first_operation(result)
    ]
    numbers = ("cards", *quantiles, "utilisation", "requests in a batch", "longest queue")
    if rows:
        columns = ("product", "when", *numbers, "in time")
        yield Table(columns, rows, numbers)
    if (figure := utilisation_figure(result)) is not None:
        yield figure


def _first_operation(result: PlanResult) -> tuple[tuple[float, Estimate], ...]:
    for each in result.products:
        if each.at_peak is not None:
            return each.at_peak.quantiles_us
    return ()


def _operation_row(operation: Operation) -> tuple[str, ...]:
    return (
        count(operation.cards),
        *(significant(value.mean / US_PER_MS) for _, value in operation.quantiles_us),
        percent(operation.utilisation.mean),
        significant(operation.mean_batch, 2),
        count(operation.longest_queue),
        "yes" if operation.meets else "no",
    )


def _models(result: PlanResult, models: ModelResults) -> Iterator[Block]:
    rows = []
    for each in result.products:
        for model in each.models:
            point = model.curve.at(model.max_batch)
            band = (
                f"({significant(point.lo_us / US_PER_MS)}..{significant(point.hi_us / US_PER_MS)})"
            )
            rows.append(
                (
                    model.name,
                    each.board.name,
                    str(model.items_per_request),
                    str(model.max_batch),
                    f"{significant(point.latency_us / US_PER_MS)} {band}",
                    f"{significant(model.max_wait_us / US_PER_MS)}",
                    significant(each.card_rate_per_s, 3) if each.card_rate_per_s else "",
                )
            )
    numbers = (
        "items",
        "batch",
        say("ms for a batch (band)"),
        "may wait ms",
        "requests/s of a card",
    )
    yield Table(("model", "product", *numbers), rows, numbers)
    if (curves := curves_figure(result)) is not None:
        yield curves
    if (classes := classes_figure(_steps(result, models))) is not None:
        yield classes


def _steps(result: PlanResult, models: ModelResults) -> dict[str, dict[str, float]]:
    """Time by class of the largest timed batch of every model on every chip of the plan."""
    return {
        f"{name} x{max(batches)}, {soc}": {
            part.kind: part.duration_us for part in batches[max(batches)].classes
        }
        for (name, soc), batches in _planned(result, models).items()
    }


def _scenarios(result: PlanResult) -> Table:
    quantile = say("{quantile_name} of the planned fleet").format(
        quantile_name=quantile_name(result.plan.objective.quantile)
    )
    rows = []
    for each in result.meeting:
        for scenario in each.scenarios:
            planned = scenario.planned
            rows.append(
                (
                    scenario.name,
                    each.board.name,
                    count(each.count.installed) if each.count else "",
                    scenario.reason if scenario.cards is None else count(scenario.cards),
                    interval(planned.latency_us) if planned else "can't keep up",
                    "yes" if planned and planned.meets else "no",
                )
            )
    columns = ("what if", "product", "planned cards", "cards it would take", quantile, "in time")
    return Table(columns, rows, ("planned cards", "cards it would take", quantile))


def _assumptions(result: PlanResult, models: ModelResults) -> list[str]:
    said = list(result.assumptions)
    for (name, soc), batches in _planned(result, models).items():
        for step in batches.values():
            said += [
                say("{name} on {soc}: {sentence}").format(name=name, soc=soc, sentence=sentence)
                for sentence in step.assumptions
                if not any(sentence in each for each in said)
            ]
    return list(dict.fromkeys(said))


def _planned(result: PlanResult, models: ModelResults) -> ModelResults:
    """Without the steps that a product was found not to run."""
    planned = {(model.name, each.board.soc) for each in result.products for model in each.models}
    return {key: batches for key, batches in models.items() if key in planned and batches}


def _evidence(result: PlanResult, models: ModelResults) -> Iterator[Block]:
    rows = []
    for (name, soc), batches in _planned(result, models).items():
        step = batches[max(batches)]
        rows.append(
            (
                f"{name} x{max(batches)}",
                soc,
                percent(step.simulated_share),
                percent(step.calibrated_share),
                step.band_basis,
            )
        )
    if rows:
        yield Table(
            ("step", "SoC", "simulated", "of measured classes", say("where the band comes from")),
            rows,
            ("simulated", "of measured classes"),
            say(
                "Share of the time that was simulated, and that comes from "
                "classes of operators that were measured on the chip or its "
                "sisters"
            ),
        )
    known = built_in_sources()
    bases = [
        (
            each.board.name,
            each.board.soc,
            str(known.get(each.board.source, each.board.source)),
            each.board.note,
        )
        for each in result.products
    ]
    yield Table(("product", "SoC", "source", "note"), bases, caption="Products")
