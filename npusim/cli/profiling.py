"""`--format msprof`: a call written as the folder that Ascend's operator profiler leaves behind."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from npusim.cli import output
from npusim.values.errors import ArgumentError
from npusim.values.language import say

if TYPE_CHECKING:
    from npusim.cli.chips import Chip
    from npusim.model.results import StepResult
    from npusim.runtime.results import Result


class Format(StrEnum):
    """What -o writes."""

    NPZ = "npz"
    MSPROF = "msprof"


ProfileFolder = Annotated[
    Path | None,
    typer.Option(
        "-o",
        "--output",
        metavar="DIR",
        help="With --format msprof: the folder in which OPPROF_... is made.",
    ),
]
OutputFormat = Annotated[
    Format | None,
    typer.Option(
        "--format",
        help="msprof: the folder of CSVs and a trace that msprof op writes, for MindStudio "
        "Insight. npz: the outputs of a run.",
    ),
]
Timestamp = Annotated[
    str | None,
    typer.Option(
        "--timestamp",
        metavar="YYYYMMDDHHMMSS",
        help="The time in the names of --format msprof instead of now.",
    ),
]


SummaryFolder = Annotated[
    Path | None,
    typer.Option(
        "-o",
        "--output",
        metavar="DIR",
        help="With --format msprof: the folder for op_summary_... and op_statistic_...",
    ),
]
SummaryFormat = Annotated[
    Format | None,
    typer.Option(
        "--format",
        metavar="msprof",
        help="msprof: the operator summary and statistic that msprof exports, as CSV.",
    ),
]


def prepare(path: Path | None, timestamp: str | None, asked: Sequence[Chip]) -> None:
    """Refuse, before the long work, what can't be written: no folder, several chips."""
    from npusim.reporting.msprof import checked_timestamp

    if path is None:
        raise ArgumentError("--format msprof writes a folder", say("Say where with -o DIR."))
    if len(asked) != 1:
        raise ArgumentError(say("a profile is of one chip"), say("Name exactly one with -s."))
    checked_timestamp(timestamp)


def prepare_summary(
    form: Format | None,
    path: Path | None,
    timestamp: str | None,
    asked: Sequence[Chip],
    *,
    force: bool,
) -> None:
    """The same for a model's operator summary; nothing was asked for without format and folder."""
    from npusim.reporting.msprof import claim_op_summary

    if form is Format.NPZ or (form is None and (path is not None or timestamp is not None)):
        raise ArgumentError(say("a model step is written as --format msprof -o DIR"))
    if form is not None:
        prepare(path, timestamp, asked)
    if path is not None:
        claim_op_summary(path, timestamp=timestamp, force=force)


def write_summary(
    step: StepResult, chip: Chip, path: Path, timestamp: str | None, *, force: bool
) -> None:
    """Write both files of a model step and say where they are."""
    from npusim.reporting.msprof import write_op_summary
    from npusim.reporting.msprof.step import step_tasks

    tasks = step_tasks(step, chip.profile)
    for file in write_op_summary(tasks, path, chip.profile, timestamp=timestamp, force=force):
        output.note(say("written: {file}").format(file=file))


def write(res: Result, path: Path, timestamp: str | None, *, force: bool) -> None:
    """Write the folder and say where it is."""
    from npusim.reporting.msprof import write_folder

    written = write_folder(res, path, timestamp=timestamp, force=force)
    output.note(
        say(
            "{path}: {files} files; open its simulator folder with "
            "MindStudio Insight, or simulator/trace.json with "
            "https://ui.perfetto.dev"
        ).format(path=written.path, files=written.files)
    )
    if written.traced_cores < written.cores:
        output.note(
            say(
                "the trace has {traced_cores} of {cores} cores, as much as a "
                "viewer takes; `npusim trace -n` writes others"
            ).format(traced_cores=written.traced_cores, cores=written.cores)
        )
