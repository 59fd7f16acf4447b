"""Model steps on the terminal, as JSON and as CSV; nothing here computes a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from npusim.reporting.csvfile import csv_text
from npusim.reporting.document import Page, Section, Table, bullets
from npusim.reporting.profiled import profiled_json
from npusim.reporting.renderers.jsonout import fields
from npusim.reporting.spelling import count, latency, not_simulated, percent, significant, size
from npusim.values.language import say

if TYPE_CHECKING:
    from npusim.model.results import (
        ClassTime,
        DtypeVerdict,
        Memory,
        OperatorTime,
        StepResult,
        Timing,
    )

COLUMNS = (
    "soc",
    "op",
    "class",
    "tensors",
    "count",
    "total_us",
    "each_us",
    "low_us",
    "high_us",
    "measured_us",
    "bound",
    "how",
    "evidence",
    "note",
)

_BAND = "latency (80 % band)"


def step_page(result: StepResult, top: int) -> Page:
    """One step on one chip: verdict, classes, operators, what limits them, what isn't known."""
    operators = operator_table(result.operators[:top], len(result.operators))
    sections = [
        Section("", [class_table("time by operator class", result.classes), operators]),
        *bullets("dtypes", list(dtype_lines(result))),
        *bullets("not simulated", list(not_simulated_lines(result))),
        *bullets("assumed", list(assumption_lines(result))),
    ]
    return Page(headline(result), facts=list(step_facts(result)), sections=sections)


def steps_pages(results: Sequence[StepResult], top: int) -> list[Page]:
    """The same step on several chips side by side, and then all that is known of each."""
    numbers = (_BAND, "calibrated", "simulated", "memory")
    rows = [
        (
            each.soc,
            runs_word(each),
            latency(each.duration_us, each.band_us),
            percent(each.calibrated_share),
            percent(each.simulated_share),
            each.bounds[0][0] if each.bounds else "",
            memory_word(each.memory),
        )
        for each in results
    ]
    columns = ("SoC", "runs", _BAND, "calibrated", "simulated", "limited by", "memory")
    socs = [each.soc for each in results]
    by_class = []
    known = [{item.kind: item for item in each.classes} for each in results]
    for kind in dict.fromkeys(item.kind for each in results for item in each.classes):
        found = [each.get(kind) for each in known]
        number = next(each.count for each in found if each is not None)
        cells = ["" if each is None else latency(each.duration_us) for each in found]
        by_class.append((kind, count(number), *cells))
    blocks = [
        Table(columns, rows, numbers),
        Table(("class", "count", *socs), by_class, ("count", *socs), "time by operator class"),
    ]
    first = Page(step_title(results[0]), sections=[Section("", blocks)])
    return [first, *(step_page(each, top) for each in results)]


def tasks_page(result: StepResult) -> Page:
    """Every task in its order, with the nodes of the network that it does the work of."""
    rows = [
        (
            each.item.op,
            latency(each.total_us),
            each.item.operation.tensors,
            ", ".join(each.item.layers),
        )
        for each in result.items
    ]
    columns = ("task", "time", "tensors", "nodes")
    table = Table(columns, rows, ("time",), "tasks in their order", ("tensors", "nodes"))
    passes = bullets("passes", list(result.step.notes))
    return Page(
        say("{step_title}, compiled for {soc}").format(
            step_title=step_title(result), soc=result.soc
        ),
        sections=[*passes, Section("", [table])],
    )


def headline(result: StepResult) -> str:
    """The verdict in one line."""
    time = latency(result.duration_us, result.band_us)
    if result.refused:
        operators = sum(each.count for each in result.refused)
        return say("{step_title} can't run on {soc}: {operators} operators are refused").format(
            step_title=step_title(result), soc=result.soc, operators=operators
        )
    if not result.memory.fits:
        return say("{step_title} can't run on {soc}: it needs {memory_word}").format(
            step_title=step_title(result), soc=result.soc, memory_word=memory_word(result.memory)
        )
    missing = (
        say("; {not_counted} operators aren't counted").format(not_counted=result.not_counted)
        if result.not_counted
        else ""
    )
    share = not_simulated(result.not_simulated_share)
    return say("{step_title} on {soc}: {time}, {runs_word}{missing}; {share}").format(
        step_title=step_title(result),
        soc=result.soc,
        time=time,
        runs_word=say(runs_word(result)),
        missing=missing,
        share=share,
    )


def runs_word(result: StepResult) -> str:
    """``runs``, ``runs in FP16`` or ``refused``."""
    if not result.runs:
        return "refused" if result.refused else "doesn't fit"
    return "runs in FP16" if result.needs_fp16 else "runs"


def dtype_lines(result: StepResult) -> Iterator[str]:
    """What the product refuses, what has to become FLOAT16, and what nobody knows."""
    for each in result.verdicts:
        named = say("{op} with {value} ({count}x)").format(
            op=each.op, value=", ".join(each.dtypes) or "no dtypes", count=each.count
        )
        if each.outcome.name == "REJECTED":
            yield say("refused: {named}: {why}").format(named=named, why=each.why)
        elif each.outcome.name == "AFTER_FP16":
            yield say("has to become FLOAT16: {named}: {why}").format(named=named, why=each.why)
    unknown = [each.op for each in result.verdicts if each.outcome.name == "UNKNOWN"]
    if unknown:
        yield say("the catalogue can't say: {fromkeys}").format(
            fromkeys=", ".join(dict.fromkeys(unknown))
        )


def not_simulated_lines(result: StepResult) -> Iterator[str]:
    """The operators that aren't simulated, by where their time comes from, with their share."""
    found: dict[tuple[str, str], list[OperatorTime]] = {}
    for each in result.operators:
        if each.timing.how.name != "SIMULATED":
            found.setdefault((each.timing.how.value, each.timing.note), []).append(each)
    ranked = sorted(found.items(), key=lambda pair: -sum(each.total_us for each in pair[1]))
    for (how, note), members in ranked:
        time_us = sum(each.total_us for each in members)
        share = time_us / result.device_us if result.device_us else 0.0
        launches = sum(each.count for each in members)
        yield say("{share} of the time, {launches} launches: {note} ({how})").format(
            share=percent(share), launches=launches, note=note, how=how
        )


def assumption_lines(result: StepResult) -> Iterator[str]:
    """What the times rest on besides the profile."""
    yield _L2_WORDS[result.l2]
    yield say("band: {band_basis}").format(band_basis=result.band_basis)
    if result.step.call_us:
        yield say("the call of the model costs {call_us:g} us beside its tasks").format(
            call_us=result.step.call_us
        )
    if result.host_dispatch_us:
        yield say("the host launches an operator every {host_dispatch_us:g} us").format(
            host_dispatch_us=result.host_dispatch_us
        )
    else:
        yield (
            say(
                "no host dispatch: the step runs as a graph or from a queue "
                "that never runs dry; with {profile_dispatch_us:g} us for each "
                "operator it takes {eager_us}"
            ).format(
                profile_dispatch_us=result.profile_dispatch_us, eager_us=latency(result.eager_us)
            )
        )
    yield from result.assumptions
    if result.step.kind != "graph":
        yield from result.step.notes


_L2_WORDS = {
    "order": "L2: an operator finds what is left of its inputs by those before it, in file order",
    "busy": "L2: inputs come from memory, and what is written drives out something else",
    "in_graph": "L2: an operator finds the share of its inputs that is usual inside a graph",
    "cold": "L2: empty whenever an operator starts",
    "warm": "L2: an operator's inputs are in it when it starts, as far as they fit",
}


def step_json(result: StepResult) -> dict[str, Any]:
    """Everything about a step on one chip, operators merged where they are the same."""
    return {
        "headline": headline(result),
        **fields(
            result, "verdict model=step.name batch=step.batch soc product_line runs l2 streams"
        ),
        "measured_on": result.measured_on or None,
        "profile": profiled_json(result.step, result.profile),
        **fields(result, "duration_us band_us band_basis items_per_s device_us host_dispatch_us"),
        "eager": {"host_dispatch_us": result.profile_dispatch_us, "duration_us": result.eager_us},
        **fields(
            result,
            "measured_us error simulated_error calibrated_share simulated_share "
            "not_simulated_share not_counted launches=step.launches",
        ),
        "classes": [_class_json(each) for each in result.classes],
        "bounds": [{"bound": bound, "share": share} for bound, share in result.bounds],
        "operators": [
            {
                **fields(each, "op class=kind tensors count total_us measured_us"),
                **_timing_json(each.timing),
            }
            for each in result.operators
        ],
        "dtypes": [_verdict_json(each) for each in result.verdicts],
        "memory": fields(
            result.memory,
            "weights_bytes activation_bytes working_bytes total_bytes capacity_bytes basis",
        ),
        "passes": list(result.step.notes) if result.step.kind == "graph" else [],
        "tasks": [
            {"op": each.item.op, "duration_us": each.timing.duration_us, "nodes": each.item.layers}
            for each in result.items
            if each.item.layers
        ],
        "assumptions": list(assumption_lines(result)),
    }


def steps_csv(results: Iterable[StepResult]) -> str:
    """A line for each distinct operator on each chip."""
    return csv_text(
        COLUMNS,
        (
            (
                result.soc,
                each.op,
                each.kind,
                each.tensors,
                each.count,
                f"{each.total_us:.6g}",
                *(f"{number:.6g}" for number in (each.timing.duration_us, *each.timing.band_us)),
                "" if each.measured_us is None else f"{each.measured_us:.6g}",
                each.timing.bound,
                each.timing.how.value,
                each.timing.evidence.value,
                each.timing.note,
            )
            for result in results
            for each in result.operators
        ),
    )


def step_title(result: StepResult) -> str:
    """The model and its batch."""
    batch = result.step.batch
    return (
        result.step.name
        if batch is None
        else say("{step}, batch {batch}").format(step=result.step.name, batch=batch)
    )


def step_facts(result: StepResult) -> Iterator[tuple[str, str]]:
    """What is known of a step in a line each."""
    yield "step", latency(result.duration_us, result.band_us)
    if result.items_per_s is not None:
        yield (
            "rate",
            say("{items_per_s} items/s").format(items_per_s=significant(result.items_per_s)),
        )
    if result.streams > 1:
        yield "streams", say("{streams}, a step in flight on each").format(streams=result.streams)
    if result.host_dispatch_us:
        yield "device time", latency(result.device_us)
    if result.measured_us is not None:
        where = (
            say(" on {measured_on}").format(measured_on=result.measured_on)
            if result.measured_on
            else ""
        )
        text = f"{latency(result.measured_us)}{where}"
        if result.error is not None:
            text += say("; error {error:+.1%}").format(error=result.error)
        if result.simulated_error is not None:
            text += say(", of the simulated operators {simulated_error:+.1%}").format(
                simulated_error=result.simulated_error
            )
        yield "measured", text
    yield (
        "operators",
        say("{launches}, {operators} distinct").format(
            launches=count(result.step.launches), operators=len(result.operators)
        ),
    )
    yield (
        "calibrated",
        say("{calibrated_share} of the time").format(
            calibrated_share=percent(result.calibrated_share)
        ),
    )
    yield (
        "simulated",
        say("{simulated_share} of the time").format(
            simulated_share=percent(result.simulated_share)
        ),
    )
    limits = ", ".join(f"{percent(share)} {say(bound)}" for bound, share in result.bounds[:4])
    yield "limited by", limits
    memory = result.memory
    yield "memory", f"{memory_word(memory)}; {memory.basis}"


def memory_word(memory: Memory) -> str:
    """What a step needs of what the device has."""
    if memory.total_bytes is None:
        return say("at least {working_bytes}").format(working_bytes=size(memory.working_bytes))
    fits = "" if memory.total_bytes <= memory.capacity_bytes else say(", more than the device has")
    return say("{total_bytes} of {capacity_bytes}{fits}").format(
        total_bytes=size(memory.total_bytes), capacity_bytes=size(memory.capacity_bytes), fits=fits
    )


def class_table(title: str, classes: Sequence[ClassTime]) -> Table:
    """Classes of operators with their times, as the result ranks them."""
    measured = any(each.measured_us is not None for each in classes)
    columns = ["class", "count", "share", _BAND, "calibrated"]
    if measured:
        columns += ["measured", "measured/estimated"]
    rows = [
        (
            each.kind,
            count(each.count),
            percent(each.share),
            latency(each.duration_us, each.band_us),
            percent(each.calibrated_share),
            *(_measured_cells(each) if measured else ()),
            ", ".join(how.value for how in each.how),
        )
        for each in classes
    ]
    return Table([*columns, "how"], rows, columns[1:], title)


def _measured_cells(each: ClassTime) -> list[str]:
    if not each.measured_us or not each.duration_us:
        return ["", ""]
    return [latency(each.measured_us), significant(each.measured_us / each.duration_us)]


def operator_table(operators: Sequence[OperatorTime], total: int) -> Table:
    """Some operators of `total`, each with its tensors."""
    numbers = ("count", "time", "each (80 % band)")
    rows = [
        (
            each.op,
            count(each.count),
            latency(each.total_us),
            latency(each.timing.duration_us, each.timing.band_us),
            each.timing.bound if each.timing.how.name == "SIMULATED" else each.timing.how.value,
            each.tensors,
        )
        for each in operators
    ]
    title = say("top operators ({operators} of {total})").format(
        operators=len(operators), total=total
    )
    return Table(("operator", *numbers, "bound by", "tensors"), rows, numbers, title, ("tensors",))


def _class_json(each: ClassTime) -> dict[str, Any]:
    return {
        **fields(each, "class=kind count duration_us band_us measured_us share calibrated_share"),
        "how": [how.value for how in each.how],
    }


def _timing_json(timing: Timing) -> dict[str, Any]:
    return {
        **fields(timing, "duration_us band_us bound how=how.value evidence=evidence.value"),
        "tasks": [task.name for task in timing.tasks],
        "note": timing.note,
    }


def _verdict_json(each: DtypeVerdict) -> dict[str, Any]:
    return {
        **fields(each, "op dtypes count"),
        "outcome": str(each.outcome),
        **fields(each, "why code"),
    }
