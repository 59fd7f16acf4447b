"""`npusim trace`: what every pipe of every core does when, as a file for a trace viewer."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from npusim.cli import calls, compiling, output
from npusim.cli.chips import one_chip
from npusim.cli.options import AsJson, Assignments, Force, Operator, Socs
from npusim.values.errors import ArgumentError
from npusim.values.language import say
from npusim.values.spelling import ALL

if TYPE_CHECKING:
    from npusim.reporting.trace import Window
    from npusim.runtime.results import Result

TraceFile = Annotated[
    Path, typer.Option("-o", "--output", metavar="FILE", help="The JSON file to write.")
]
CoreIds = Annotated[
    str,
    typer.Option(
        "-n",
        "--cores",
        "--core-id",
        metavar="CORES",
        help="Which cores: all, 5, 0-2 or 0-2,12-14.",
    ),
]
WindowUs = Annotated[
    str | None,
    typer.Option(
        "--window",
        metavar="US-US",
        help="From which to which microsecond, e.g. 100-250.",
        show_default=False,
    ),
]
Everything = Annotated[bool, typer.Option("--all", help="Write it however large it gets.")]

LARGE_BYTES = 200_000_000
"""What nobody gets without having asked for it."""


def trace(
    op: Operator,
    assignments: Assignments = None,
    soc: Socs = None,
    path: TraceFile = Path("trace.json"),
    core_id: CoreIds = "all",
    window: WindowUs = None,
    batch: compiling.Batch = None,
    streams: compiling.Streams = 1,
    everything: Everything = False,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write the timeline of a call or of a model for a trace viewer.

    A model is a file as `npusim model` takes it: a row for each stream, tasks in their modules.

    Example: npusim trace Gelu -s 910b3 x=fp16[1024,1024] -o trace.json
    """
    if Path(op).suffix.lower() in compiling.MODELS:
        _model_trace(Path(op), assignments, soc, path, batch, streams, force, as_json)
        return
    from npusim.reporting.files import claim
    from npusim.reporting.trace import write_trace

    chip = one_chip(soc, say("a trace shows one chip"))
    cores, window_us = read_cores(core_id, chip.profile.cores.most), read_window(window)
    question = calls.read_call(op, assignments)
    claim(path, force=force)
    res = chip.device().estimate(question.name, **question.arguments)
    if not everything:
        _refuse_if_large(res, cores, window_us)
    try:
        written = write_trace(
            res,
            path,
            cores=cores,
            window_us=window_us,
            force=force,
            progress=lambda looked_at: output.progress(
                say("{path}: {looked_at:,} instructions").format(path=path, looked_at=looked_at)
            ),
        )
    finally:
        output.progress("")
    if as_json:
        output.emit_json(vars(written))
        return
    output.emit(
        say("{path}: {slices} slices on {cores} cores of {soc}").format(
            path=written.path, slices=written.slices, cores=written.cores, soc=res.soc
        )
    )
    output.note(say("open it with MindStudio Insight, https://ui.perfetto.dev or chrome://tracing"))


def _model_trace(
    file: Path,
    assignments: list[str] | None,
    soc: list[str] | None,
    path: Path,
    batch: int | None,
    streams: int,
    force: bool,
    as_json: bool,
) -> None:
    from npusim.cli.model import timed
    from npusim.model.reading import read_model
    from npusim.reporting.files import claim_all
    from npusim.reporting.network_trace import write_step_trace

    compiling.no_arguments(file, assignments)
    chip = one_chip(soc, say("a trace shows one chip"))
    claim_all(path, beside=(file,), force=force)
    (result,) = timed(read_model(file), [chip], [batch], streams=streams)
    written, slices = write_step_trace(result, path, force=force)
    if as_json:
        end_us, number = result.duration_us, result.streams
        answer = {"path": str(written), "slices": slices, "streams": number, "end_us": end_us}
        output.emit_json(answer)
        return
    output.emit(
        say("{written}: {slices} slices of {streams} streams on {soc}").format(
            written=written, slices=slices, streams=result.streams, soc=result.soc
        )
    )
    output.note(say("open it with MindStudio Insight, https://ui.perfetto.dev or chrome://tracing"))


def _refuse_if_large(res: Result, cores: tuple[int, ...] | None, window_us: Window | None) -> None:
    from npusim.reporting.spelling import significant
    from npusim.reporting.trace import estimated_bytes

    nbytes = estimated_bytes(res, cores, window_us)
    if nbytes > LARGE_BYTES:
        part_us = significant(0.5 * LARGE_BYTES / nbytes * res.duration_us, 2).replace(",", "")
        raise ArgumentError(
            say(
                "the trace would be about {nbytes} MB, more than viewers open ({large_bytes} MB)"
            ).format(nbytes=significant(nbytes / 1e6), large_bytes=LARGE_BYTES // 10**6),
            say(
                "Write a part of it, --cores 0 or --window 0-{part_us}, or "
                "--all if you want it all."
            ).format(part_us=part_us),
        )


def read_window(text: str | None) -> Window | None:
    """The microseconds between which `100-250` lies; None means all."""
    if text is None:
        return None
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*-\s*(\d+(?:\.\d+)?)\s*", text)
    if found is None or float(found[1]) >= float(found[2]):
        raise ArgumentError(
            f"--window {text!r} is no span of microseconds",
            say("Write the first and the last: 100-250."),
        )
    return float(found[1]), float(found[2])


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
                f"--core-id {text!r} is not a list of cores", say("Write all, 5, 0-2 or 0-2,12-14.")
            )
        if max(map(len, found.groups(""))) > 9 or int(found[2] or found[1]) >= most:
            raise ArgumentError(
                f"--core-id {text}: the chip has {most} cores, counted from 0",
                say("Write all or 0-2."),
            )
        first = int(found[1])
        numbers.extend(range(first, int(found[2] or first) + 1))
    return tuple(dict.fromkeys(numbers))
