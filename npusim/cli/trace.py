"""`npusim trace`: what every pipe of every core does when, as a file for a trace viewer."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from npusim.cli import calls, output
from npusim.cli.chips import one_chip
from npusim.cli.options import AsJson, Assignments, Force, Operator, Socs
from npusim.values.errors import ArgumentError
from npusim.values.spelling import ALL

TraceFile = Annotated[
    Path, typer.Option("-o", "--output", metavar="FILE", help="The JSON file to write.")
]
CoreIds = Annotated[
    str,
    typer.Option("-n", "--core-id", metavar="CORES", help="Which cores: all, 5, 0-2 or 0-2,12-14."),
]


def trace(
    op: Operator,
    assignments: Assignments = None,
    soc: Socs = None,
    path: TraceFile = Path("trace.json"),
    core_id: CoreIds = "all",
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write the timeline of a call for a trace viewer."""
    from npusim.report.files import claim
    from npusim.report.trace import write_trace

    chip = one_chip(soc, "a trace shows one chip")
    cores = read_cores(core_id, chip.profile.cores.most)
    question = calls.read_call(op, assignments)
    claim(path, force=force)
    res = chip.device().estimate(question.name, **question.arguments)
    written = write_trace(res, path, cores=cores, force=force)
    if as_json:
        output.emit_json(vars(written))
        return
    output.emit(f"{written.path}: {written.slices} slices on {written.cores} cores of {res.soc}")
    output.note("open it with MindStudio Insight, https://ui.perfetto.dev or chrome://tracing")


def read_cores(text: str, most: int) -> tuple[int, ...] | None:
    """The core numbers that `all`, `5`, `0-2` or `0-2,12-14` stand for; None means all.

    ArgumentError for text that isn't of this form, and for a number that is none of `most` cores.
    """
    if text.strip().lower() == ALL:
        return None
    numbers: list[int] = []
    for part in text.split(","):
        found = re.fullmatch(r"\s*(\d+)(?:\s*-\s*(\d+))?\s*", part)
        if found is None:
            raise ArgumentError(
                f"--core-id {text!r} is not a list of cores", "Write all, 5, 0-2 or 0-2,12-14."
            )
        if max(map(len, found.groups(""))) > 9 or int(found[2] or found[1]) >= most:
            raise ArgumentError(
                f"--core-id {text}: the chip has {most} cores, counted from 0", "Write all or 0-2."
            )
        first = int(found[1])
        numbers.extend(range(first, int(found[2] or first) + 1))
    return tuple(dict.fromkeys(numbers))
