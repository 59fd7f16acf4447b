"""Capacity plans on the terminal, as JSON and as Markdown: the verdict first, then the table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from npusim.hardware.reading import built_in_sources
from npusim.report.spelling import percent, significant, size
from npusim.report.steps import milliseconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rich.console import RenderableType

    from npusim.capacity import (
        Estimate,
        ModelOnProduct,
        Operation,
        PlanResult,
        ProductResult,
        Scenario,
    )
    from npusim.model.results import StepResult

ModelResults = dict[tuple[str, str], dict[int, "StepResult"]]
"""Timed steps by (model name, SoC), then by batch."""

_COLUMNS = (
    "product",
    "cards",
    "servers",
    "latency at peak",
    "utilisation",
    "headroom",
    "carried by one card",
    "memory",
    "power",
    "limited by",
)
_NUMBERS = _COLUMNS[1:-1]


def verdict_lines(result: PlanResult) -> Iterator[str]:
    """The answer in the first lines: the products that do it with the fewest cards, and the rest.

    A plan doesn't compare prices that nobody gave, so it doesn't say which product is best.
    """
    yield question(result)
    meeting = result.meeting
    if not meeting:
        yield "No product of the plan meets the objective."
    for each in meeting:
        yield _answer(result, each)
    for each in result.products:
        if not each.meets:
            yield f"{each.board.name}: {each.verdict.value}. {_sentence(each.reason)}"


def question(result: PlanResult) -> str:
    """What was asked, in one line."""
    wanted = result.plan.objective
    return (
        f"{significant(result.peak_per_s)} requests/s at the peak, {percent_name(wanted.quantile)} "
        f"within {wanted.limit_ms:g} ms, {wanted.availability}"
    )


def percent_name(quantile: float) -> str:
    """``p99``, ``p99.9``."""
    return f"p{round(quantile * 100, 6):g}"


def plan_page(result: PlanResult) -> RenderableType:
    """The whole answer for a terminal."""
    from rich.console import Group
    from rich.padding import Padding
    from rich.text import Text

    first, *others = verdict_lines(result)
    parts: list[RenderableType] = [Text(f"{result.plan.title}: {first}", style="bold")]
    parts += [Padding(Text(line), (0, 2)) for line in others]
    parts += ["", _grid("products", _COLUMNS, _NUMBERS, map(_product_cells, result.products))]
    parts += ["", _grid("models", _MODEL_COLUMNS, _MODEL_NUMBERS, _model_rows(result))]
    parts += ["", _grid("what if", _SCENARIO_COLUMNS, ("cards needed",), _scenario_rows(result))]
    parts += ["", Text("assumed", style="bold")]
    parts += [Padding(Text(f"- {line}"), (0, 0, 0, 2)) for line in result.assumptions]
    return Group(*parts)


def plan_markdown(result: PlanResult, steps: ModelResults, command: str) -> str:
    """The whole answer as a page of Markdown; `command` is what made it."""
    first, *others = verdict_lines(result)
    lines = [f"# {result.plan.title}", "", f"**{first}**", "", *(f"* {line}" for line in others)]
    lines += ["", *_pipes(_COLUMNS, map(_product_cells, result.products))]
    lines += ["", "## Models", "", *_pipes(_MODEL_COLUMNS, _model_rows(result))]
    lines += ["", "## What if", "", *_pipes(_SCENARIO_COLUMNS, _scenario_rows(result))]
    lines += ["", "## Cards over load", "", *_load_table(result)]
    if steps:
        lines += [
            "",
            "## Where the time goes",
            "",
            *_pipes(_CLASS_COLUMNS, _classes(result, steps)),
        ]
    lines += ["", "## Assumptions", "", *(f"* {line}" for line in result.assumptions)]
    lines += ["", "## Sources", ""]
    lines += [f"* {line}" for line in source_lines(result)]
    lines += ["", f"Made by `{command}`.", ""]
    return "\n".join(lines)


def plan_json(result: PlanResult, steps: ModelResults) -> dict[str, Any]:
    """Everything that was found out, without the single requests of the simulations."""
    return {
        "title": result.plan.title,
        "verdict": list(verdict_lines(result)),
        "mean_requests_per_s": result.mean_per_s,
        "peak_requests_per_s": result.peak_per_s,
        "arrivals": result.arrivals,
        "plan": result.plan.model_dump(mode="json"),
        "products": [_product_json(each, steps) for each in result.products],
        "assumptions": list(result.assumptions),
    }


def source_lines(result: PlanResult) -> list[str]:
    """Where the facts about each product come from."""
    known = built_in_sources()
    return list(
        dict.fromkeys(
            f"{each.board.name}: {known.get(each.board.source, each.board.source)}"
            for each in result.products
        )
    )


_CLASS_COLUMNS = ("model", "product", "operator class", "share", "a full batch", "calibrated")


def _classes(result: PlanResult, steps: ModelResults) -> Iterator[list[str]]:
    """The operator classes of each model's largest timed batch."""
    for each in result.products:
        for model in each.models:
            timed = steps.get((model.name, each.board.soc), {})
            if not timed:
                continue
            for kind in timed[max(timed)].classes:
                yield [
                    model.name,
                    each.board.name,
                    kind.kind,
                    percent(kind.share),
                    milliseconds(kind.duration_us, kind.band_us),
                    percent(kind.calibrated_share),
                ]


def _answer(result: PlanResult, each: ProductResult) -> str:
    assert each.count is not None  # noqa: S101 - it meets the objective
    count = each.count
    cards = f"{count.installed} card{'s' if count.installed > 1 else ''}"
    spare = f" ({count.working} and {count.spare} spare)" if count.spare else ""
    at_peak = ""
    if each.at_peak is not None:
        name = percent_name(result.plan.objective.quantile)
        at_peak = f"; {name} at the peak {_interval(each.at_peak.latency_us)}"
    limit = f"limited by {count.limited_by}"
    return f"{each.board.name}: {cards}{spare}{at_peak}; {limit}{slow_end(each)}."


def slow_end(each: ProductResult) -> str:
    """What a verdict adds where the slow end of the latencies asks for more; empty where not."""
    slow = next((one for one in each.scenarios if "slow" in one.name), None)
    if slow is None or each.count is None:
        return ""
    if slow.cards is None:
        return f"; at the slow end of the estimate it fails: {slow.reason}"
    if slow.cards > each.count.installed:
        return f"; {slow.cards} if latencies are at the slow end of their band"
    return ""


def _product_cells(each: ProductResult) -> list[str]:
    if each.count is None:
        rate = "" if each.card_rate_per_s is None else _rate(each.card_rate_per_s)
        blank = [""] * 4
        return [each.board.name, "-", *blank, rate, _memory(each), "", each.verdict.value]
    count, peak = each.count, each.at_peak
    return [
        each.board.name,
        f"{count.installed} ({count.working}+{count.spare})",
        "" if count.servers is None else str(count.servers),
        "" if peak is None else _interval(peak.latency_us),
        "" if peak is None else percent(peak.utilisation.mean),
        "" if each.headroom is None else percent(each.headroom),
        "" if each.card_rate_per_s is None else _rate(each.card_rate_per_s),
        _memory(each),
        _power(each),
        f"{count.limited_by}; {count.closed_form} by throughput alone",
    ]


_MODEL_COLUMNS = (
    "model",
    "product",
    "share",
    "batch",
    "one item",
    "full batch (80 % band)",
    "items/s of a device",
)
_MODEL_NUMBERS = _MODEL_COLUMNS[2:]


def _model_rows(result: PlanResult) -> Iterator[list[str]]:
    for each in result.products:
        whole = sum(model.share for model in each.models)
        for model in each.models:
            point = model.curve.at(model.max_batch)
            yield [
                model.name,
                each.board.name,
                percent(model.share / whole),
                f"{model.max_batch}{'' if model.stated else ' (chosen)'}",
                milliseconds(model.curve.latency_us(1)),
                milliseconds(point.latency_us, (point.lo_us, point.hi_us)),
                significant(model.curve.throughput_per_s(model.max_batch)),
            ]


_SCENARIO_COLUMNS = ("product", "what if", "cards needed", "planned cards then")


def _scenario_rows(result: PlanResult) -> Iterator[list[str]]:
    for each in result.products:
        for scenario in each.scenarios:
            yield [
                each.board.name,
                scenario.name,
                "-" if scenario.cards is None else str(scenario.cards),
                _planned(scenario),
            ]
        if each.failing is not None:
            yield [each.board.name, "a card fails for a third of the time", "", _met(each.failing)]


def _planned(scenario: Scenario) -> str:
    if scenario.planned is not None:
        return _met(scenario.planned)
    return scenario.reason or "can't keep up"


def _met(operation: Operation) -> str:
    words = "within the limit" if operation.meets else "over the limit"
    return f"{_interval(operation.latency_us)}, {words}"


def _load_table(result: PlanResult) -> list[str]:
    counted = [each for each in result.products if each.cards_by_load]
    if not counted:
        return ["No product meets the objective."]
    loads = [rate for rate, _ in counted[0].cards_by_load]
    columns = ["requests/s", *(each.board.name for each in counted)]
    rows = []
    for index, rate in enumerate(loads):
        cards = [each.cards_by_load[index][1] for each in counted]
        rows.append([significant(rate), *("-" if each is None else str(each) for each in cards)])
    return _pipes(columns, rows)


def _grid(title: str, columns: Sequence[str], numbers: Sequence[str], rows: Any) -> RenderableType:
    from npusim.report.tables import Grid

    table = Grid(title, columns, numbers, wide=columns[-1])
    for row in rows:
        table.row(*row)
    return table


def _pipes(columns: Sequence[str], rows: Any) -> list[str]:
    lines = [_pipe(columns), _pipe(["---"] * len(columns))]
    return [*lines, *(_pipe(row) for row in rows)]


def _pipe(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


def _interval(value: Estimate) -> str:
    """A latency with its confidence interval, where several seeds gave one."""
    if value.lo == value.hi:
        return milliseconds(value.mean)
    return milliseconds(value.mean, (value.lo, value.hi))


def _rate(per_s: float) -> str:
    return f"{significant(per_s)}/s"


def _memory(each: ProductResult) -> str:
    if each.memory is None:
        return "not known"
    return f"{size(each.memory.needed_bytes)} of {size(each.memory.capacity_bytes)}"


def _power(each: ProductResult) -> str:
    return "not known" if each.power_w is None else f"{significant(each.power_w)} W"


def _sentence(text: str) -> str:
    first = text.split(" ", 1)[0]
    # A name keeps its spelling: aclnnAdd, bfloat16.
    begun = text if first != first.lower() or not first.isalpha() else text[:1].upper() + text[1:]
    return begun if begun.endswith(".") else f"{begun}."


def _product_json(each: ProductResult, steps: ModelResults) -> dict[str, Any]:
    count = each.count
    return {
        "product": each.board.name,
        "soc": each.board.soc,
        "devices_per_card": each.board.devices_per_card,
        "meets": each.meets,
        "verdict": each.verdict.value,
        "reason": each.reason,
        "remedy": each.remedy,
        "cards": None
        if count is None
        else {
            "installed": count.installed,
            "working": count.working,
            "spare": count.spare,
            "by_throughput_alone": count.closed_form,
            "servers": count.servers,
            "limited_by": count.limited_by,
            "carried_requests_per_s": count.carried_per_s,
        },
        "card_requests_per_s": each.card_rate_per_s,
        "headroom": each.headroom,
        "at_peak": _operation_json(each.at_peak),
        "at_mean": _operation_json(each.at_mean),
        "spare_cards_down": _operation_json(each.degraded),
        "a_card_fails": _operation_json(each.failing),
        "share_of_time_short_of_cards": each.short_share,
        "memory": None
        if each.memory is None
        else {
            "needed_bytes": each.memory.needed_bytes,
            "capacity_bytes": each.memory.capacity_bytes,
        },
        "power_w": each.power_w,
        "cost": None if each.cost is None else vars(each.cost),
        "what_if": [
            {
                "name": one.name,
                "requests_per_s": one.rate_per_s,
                "cards": one.cards,
                "planned": _operation_json(one.planned),
                "reason": one.reason,
            }
            for one in each.scenarios
        ],
        "cards_by_load": [
            {"requests_per_s": rate, "cards": cards} for rate, cards in each.cards_by_load
        ],
        "models": [_model_json(model, steps, each.board.soc) for model in each.models],
    }


def _operation_json(operation: Operation | None) -> dict[str, Any] | None:
    if operation is None:
        return None
    return {
        "cards": operation.cards,
        "requests_per_s": operation.rate_per_s,
        "meets": operation.meets,
        "latency_us": list(operation.latency_us),
        "quantiles_us": [
            {"quantile": quantile, "latency_us": list(value)}
            for quantile, value in operation.quantiles_us
        ],
        "by_model_us": {name: list(value) for name, value in operation.by_model_us},
        "utilisation": list(operation.utilisation),
        "mean_batch": operation.mean_batch,
        "longest_queue": operation.longest_queue,
    }


def _model_json(model: ModelOnProduct, steps: ModelResults, soc: str) -> dict[str, Any]:
    timed: Mapping[int, StepResult] = steps.get((model.name, soc), {})
    return {
        "name": model.name,
        "share": model.share,
        "items_per_request": model.items_per_request,
        "max_batch": model.max_batch,
        "max_batch_stated": model.stated,
        "max_wait_us": model.max_wait_us,
        "basis": model.curve.basis,
        "curve": [point._asdict() for point in model.curve.points],
        "evidence": [
            {
                "batch": batch,
                "calibrated_share": result.calibrated_share,
                "simulated_share": result.simulated_share,
                "classes": {each.kind: each.duration_us for each in result.classes},
            }
            for batch, result in timed.items()
        ],
    }
