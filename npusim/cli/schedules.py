"""`npusim validate --against-project`: our schedules beside those of built projects."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from npusim.cli import output
from npusim.cli.chips import one_chip
from npusim.values.language import say

if TYPE_CHECKING:
    from npusim.cli.pages import Files


class Question(NamedTuple):
    """Which operators (all, or names with commas), where, how many calls of each, by what seed."""

    operators: str
    chips: tuple[str, ...]
    shapes: int
    seed: int
    worst: int


def beside_projects(
    question: Question, files: Files, csv_file: Path | None, again: str, *, as_json: bool
) -> None:
    """Draw calls, ask both sides, and tell where they differ."""
    from npusim.capi.projects.definitions import beside_own
    from npusim.reporting import schedules as report
    from npusim.reporting.files import write_text
    from npusim.runtime.device import Device
    from npusim.validation.schedules import compare

    files.claim(csv_file)
    named = [each.strip() for each in question.operators.split(",") if each.strip()]
    pairs = beside_own(() if named == ["all"] else named)
    profile = one_chip(question.chips, say("schedules are compared on one chip")).profile
    device, rows = Device(profile), []
    for pair in pairs:
        found = compare(pair, device, question.shapes, question.seed)
        for done, row in enumerate(found, start=1):
            rows.append(row)
            if done % 10 == 0 or done == question.shapes:
                told = say("{op}: {done} of {count} calls")
                output.progress(told.format(op=pair.other, done=done, count=question.shapes))
    output.progress("")
    if csv_file is not None:
        write_text(csv_file, report.schedules_csv(rows), force=files.force)
    page = report.schedules_page(rows, question.worst, again)
    files.write(page)
    if as_json:
        output.emit_json(report.schedules_json(rows))
    else:
        output.emit(page)
