"""A profile's kernels next to their estimates, on the terminal, as JSON and as CSV."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import npusim
from npusim.model.not_simulated import NOT_PRICED
from npusim.model.repeats import repeats
from npusim.model.waits import Cause, waits_of
from npusim.reporting.changes import changes_json, changes_section
from npusim.reporting.comparison_figures import classes_figure, timeline_figure
from npusim.reporting.csvfile import csv_text
from npusim.reporting.document import Code, Page, Section, Table, Verdict, bullets
from npusim.reporting.profiled import doubt, profiled_json
from npusim.reporting.renderers.jsonout import fields
from npusim.reporting.spelling import count, latency, percent, significant
from npusim.values.language import say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from npusim.model.changes import Changes
    from npusim.model.findings import Finding
    from npusim.model.judging import ClassSpeed, Comparison, Launch
    from npusim.model.reasons import Reason
    from npusim.model.waits import Wait, Waits

COLUMNS = (
    "line", "name", "op", "class", "tensors", "measured_us", "expected_us", "low_us", "high_us",
    "unusual", "reason",
)  # fmt: skip

_LONGEST = 10  # waits that JSON lists

Explained = list[tuple["Launch", "Reason"]]
"""The unusual kernels with the reason of each, the largest loss first."""


def comparison_page(
    comparison: Comparison,
    explained: Explained,
    findings: Sequence[Finding],
    top: int,
    changed: Changes | None = None,
    command: str = "",
) -> Page:
    """Verdict, what changed, what is odd, the slowest kernels with their reasons, the classes."""
    waited = waits_of(comparison)
    figures = (classes_figure(comparison.classes), timeline_figure(comparison, waited))
    sections = [
        *([changes_section(changed, top)] if changed else []),
        *bullets("what to look at", [each.text for each in findings[:top]]),
        Section("", [*_kernels(explained, top), *_classes(comparison.classes)]),
        *_repeats(comparison, top),
        *bullets(
            say("classes away from their estimates"), list(map(_class_line, _odd(comparison)))
        ),
        *_waits_table(waited, top),
        Section("pictures", [each for each in figures if each is not None], detail=True),
        *bullets("taken for granted", _assumed(comparison)),
        *bullets("about the file", _about_the_file(comparison)),
        *([Section("do it again", [Code(command)], detail=True)] if command else []),
    ]
    return Page(
        headline(comparison),
        sections=[each for each in sections if each.blocks],
    )


def judged_page(page: Page, comparison: Comparison) -> Page:
    """The same page for a file of its own: a short title, and the headline as its verdict."""
    title = say("{step} on {profile}: is it as fast as it should be?").format(
        step=comparison.step.name, profile=comparison.profile.name
    )
    verdict = Verdict(headline(comparison), "changed" if comparison.unusual else "good")
    footer = say("Made by npusim {version}. Estimates lie beside what was measured.").format(
        version=npusim.__version__
    )
    return replace(page, title=title, verdicts=[verdict], footer=footer)


def _assumed(comparison: Comparison) -> list[str]:
    """What was taken for what the rows don't say, and rows that have no price for that."""
    found: dict[str, int] = {}
    for each in comparison.launches:
        item, note = each.timed.item, each.timed.timing.note
        line = item.operation.assumption
        if note.endswith(NOT_PRICED):
            line = f"{item.op}: {note}"
        if line:
            found[line] = found.get(line, 0) + 1
    return [
        say("{line} ({number} kernels)").format(line=line, number=count(number))
        for line, number in found.items()
    ]


def _waits_table(found: Waits, top: int) -> list[Section]:
    """The longest waits; a terminal has the sums among what to look at."""
    if not found.gaps:
        return []
    rows = [
        (
            str(gap.before.kernel.line),
            latency(gap.us),
            gap.cause.value.replace("_", " "),
            "" if (running := gap.running(gap.cause)) is None else running.kernel.name,
        )
        for gap in found.gaps[:top]
    ]
    more = (
        say(", {rows} of {gaps}").format(rows=len(rows), gaps=count(len(found.gaps)))
        if len(found.gaps) > top
        else ""
    )
    columns = ("before line", "wait", "for", "what runs meanwhile")
    table = Table(
        columns, rows, columns[:2], say("longest waits{more}").format(more=more), columns[3:]
    )
    return [Section("waits of the device", [table], detail=True)]


def _is_level_0(comparison: Comparison) -> bool:
    return comparison.step.profiled is not None and comparison.step.profiled.level_0


def _repeats(comparison: Comparison, top: int) -> list[Section]:
    if not _is_level_0(comparison):
        return []
    every = repeats(comparison)
    rows = [
        (
            each.op,
            count(len(each.launches)),
            latency(each.total_us),
            latency(each.median_us),
            latency(each.longest.measured_us or 0.0),
            str(each.longest.kernel.line),
        )
        for each in every[:top]
    ]
    columns = ("kernel", "launches", "together", "in the middle", "longest", "line")
    more = (
        say(", {rows} of {every}").format(rows=len(rows), every=count(len(every)))
        if len(every) > len(rows)
        else ""
    )
    return [
        Section(
            "",
            [
                Table(
                    columns,
                    rows,
                    columns[1:],
                    say("by name, without shapes{more}").format(more=more),
                )
            ],
        )
    ]


def _about_the_file(comparison: Comparison) -> list[str]:
    doubted = doubt(comparison.step, comparison.profile)
    return [*([doubted] if doubted else []), *comparison.step.notes]


def headline(comparison: Comparison) -> str:
    """How many kernels took longer than usual, and what that costs, in one sentence."""
    unusual, compared = comparison.unusual, comparison.compared
    whole_us = sum(each.measured_us or 0.0 for each in comparison.launches)
    name = say("{step} on {profile}").format(
        step=comparison.step.name, profile=comparison.profile.name
    )
    if _is_level_0(comparison):
        launches = count(len(comparison.launches))
        return say(
            "{name}: collected at level 0, {launches} kernels with times and without shapes"
        ).format(name=name, launches=launches)
    wrong = len(comparison.overestimated)
    aside = (
        say("; {wrong} more aren't judged: npusim is too slow for them").format(wrong=count(wrong))
        if wrong
        else ""
    )
    if not compared:
        return say(
            "{name}: nothing to compare, no kernel has both a time and an estimate{aside}"
        ).format(name=name, aside=aside)
    if not unusual:
        said = say("{name}: normal, none of {compared} kernels took longer than usual").format(
            name=name, compared=count(compared)
        )
        return f"{said}{aside}"
    lost_us = sum(each.lost_us for each in unusual)
    share = percent(lost_us / whole_us) if whole_us else ""
    return say(
        "{name}: {unusual} of {compared} kernels took longer than "
        "usual, {lost_us} in all ({share} of {whole_us}){aside}"
    ).format(
        name=name,
        unusual=count(len(unusual)),
        compared=count(compared),
        lost_us=latency(lost_us),
        share=share,
        whole_us=latency(whole_us),
        aside=aside,
    )


def comparison_json(
    comparison: Comparison,
    explained: Explained,
    findings: Sequence[Finding],
    changed: Changes | None = None,
) -> dict[str, Any]:
    """Everything, times in microseconds and lines as in the file."""
    return {
        "name": comparison.step.name,
        "soc": comparison.profile.name,
        "profile": profiled_json(comparison.step, comparison.profile),
        "kernels": len(comparison.launches),
        "compared": comparison.compared,
        "unusual": [
            {**_launch_json(launch), "reason": reason.kind.value, "why": reason.text}
            for launch, reason in explained
        ],
        "findings": [
            {
                "kind": each.kind.value,
                "text": each.text,
                "us": each.us,
                "saved_us": each.saved_us,
                "lines": [launch.kernel.line for launch in each.launches],
            }
            for each in findings
        ],
        "not_judged": [each.kernel.line for each in comparison.overestimated],
        "assumptions": _assumed(comparison),
        "waits": _waits_json(comparison),
        "repeats": [
            {
                "op": each.op,
                "launches": len(each.launches),
                **fields(each, "total_us median_us longest_line=longest.kernel.line"),
            }
            for each in (repeats(comparison) if _is_level_0(comparison) else ())
        ],
        "classes": [
            {
                **fields(each, "kind count measured_us estimated_us"),
                "ratio": each.measured_us / each.estimated_us,
                **fields(each, "median_ratio=ratio usual_ratio is_unusual"),
            }
            for each in comparison.classes
        ],
        "changes": changes_json(changed),
    }


def _waits_json(comparison: Comparison) -> dict[str, Any]:
    found = waits_of(comparison)
    return {
        "whole_us": found.whole_us,
        **{f"{cause.value}_us": found.us(cause) for cause in Cause},
        "longest": [
            {
                "us": gap.us,
                "line": gap.before.kernel.line,
                "cause": gap.cause.value,
                **{f"{cause.value}_us": gap.parts_us[cause] for cause in Cause},
                "running": _running_json(gap),
            }
            for gap in found.gaps[:_LONGEST]
        ],
    }


def _running_json(gap: Wait) -> dict[str, Any] | None:
    running = gap.running(gap.cause)
    if running is None:
        return None
    return {"line": running.kernel.line, "name": running.kernel.name, "us": running.measured_us}


def comparison_csv(comparison: Comparison, explained: Explained) -> str:
    """Every kernel of the file, a row each."""
    reasons = {launch.kernel.line: reason.kind.value for launch, reason in explained}
    rows = [
        (
            each.kernel.line, each.kernel.name, each.timed.item.op, each.timed.kind,
            each.timed.item.operation.tensors, each.measured_us, each.expected_us,
            *(each.usual_us or (None, None)), each.is_unusual, reasons.get(each.kernel.line, ""),
        )
        for each in comparison.launches
    ]  # fmt: skip
    return csv_text(COLUMNS, rows)


def _launch_json(launch: Launch) -> dict[str, Any]:
    return {
        "line": launch.kernel.line,
        "name": launch.kernel.name,
        "op": launch.timed.item.op,
        "tensors": launch.timed.item.operation.tensors,
        "measured_us": launch.measured_us,
        "expected_us": launch.expected_us,
        "usual_us": launch.usual_us,
        "equals_us": launch.equals_us,
        "lost_us": launch.lost_us,
    }


def _kernels(explained: Explained, top: int) -> list[Table]:
    """The slowest kernels; nothing where all are as usual."""
    rows = [
        (
            str(launch.kernel.line),
            launch.kernel.name,
            latency(launch.measured_us or 0.0),
            _usual(launch),
            launch.timed.item.operation.tensors,
            reason.text,
        )
        for launch, reason in explained[:top]
    ]
    if not rows:
        return []
    more = (
        say(", {rows} of {explained}").format(rows=len(rows), explained=count(len(explained)))
        if len(explained) > top
        else ""
    )
    columns = ("line", "kernel", "time", "usually", "tensors", "likely reason")
    numbers, wide = ("line", "time", "usually"), ("tensors", "likely reason")
    return [Table(columns, rows, numbers, say("longer than usual{more}").format(more=more), wide)]


def _usual(launch: Launch) -> str:
    if launch.is_apart and launch.equals_us is not None:
        return latency(launch.equals_us)
    low_us, high_us = launch.usual_us or (0.0, 0.0)
    return f"{latency(low_us)}..{latency(high_us)}"


def _classes(classes: Sequence[ClassSpeed]) -> list[Table]:
    if not classes:
        return []
    rows = [
        (
            each.kind,
            count(each.count),
            latency(each.measured_us),
            latency(each.estimated_us),
            significant(each.measured_us / each.estimated_us),
        )
        for each in classes
    ]
    columns = ("class", "kernels", "measured", "estimated", "measured/estimated")
    return [Table(columns, rows, columns[1:], "by operator class")]


def _odd(comparison: Comparison) -> list[ClassSpeed]:
    return [each for each in comparison.classes if each.is_unusual]


def _class_line(each: ClassSpeed) -> str:
    low, high = each.usual_ratio
    return say(
        "{kind}: {ratio} times the estimate in the middle, usually "
        "{low} to {high}: this card, this release of CANN, or our model"
    ).format(
        kind=each.kind, ratio=significant(each.ratio), low=significant(low), high=significant(high)
    )
