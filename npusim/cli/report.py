"""`npusim report`: one operator, on one or more products, as a page to look at."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from npusim.cli import calls, compiling, output
from npusim.cli.chips import chips
from npusim.cli.options import L2, Assignments, Exact, Force, Operator, Socs

if TYPE_CHECKING:
    from npusim.model.graph_model import Compilation

ReportFile = Annotated[
    Path,
    typer.Option("-o", "--output", metavar="FILE", help="The report, .html or .md."),
]


def report(
    op: Operator,
    path: ReportFile,
    assignments: Assignments = None,
    soc: Socs = None,
    l2: L2 = "cold",
    exact: Exact = False,
    batch: compiling.Batch = None,
    shape: compiling.Shape = None,
    precision: compiling.Precision = None,
    fuse: compiling.Fuse = True,
    without: compiling.Without = None,
    mode: compiling.Mode = None,
    custom: compiling.Custom = None,
    force: Force = False,
) -> None:
    """Write a page about a call or a model: products, timeline, roofline, where the time goes.

    A model is a file as `npusim model` takes it.
    """
    if Path(op).suffix.lower() in compiling.MODELS:
        compiling.no_arguments(Path(op), assignments)
        how = compiling.compilation(shape, precision, fuse, without, mode, custom)
        _model_page(Path(op), path, soc, batch, how, force=force)
        return
    from npusim.reporting.asking import form_of, write_page
    from npusim.reporting.call.page import operator_page
    from npusim.reporting.files import claim

    form = form_of(path)
    claim(path, force=force)
    question = calls.read_call(op, assignments)
    asked = chips(soc, exact=exact, l2=l2)
    answers = calls.ask_all(
        asked, lambda device: device.estimate(question.name, **question.arguments)
    )
    page = operator_page(
        question.name,
        question.contract.summary if question.contract else "",
        {name: _in_words(value) for name, value in question.arguments.items()},
        answers,
        _command(op, assignments or [], soc or [], l2, path, exact=exact),
    )
    write_page(page, path, form, force=force)
    output.note(f"written: {path}")
    calls.finish(answers)


def _model_page(
    file: Path,
    path: Path,
    soc: Sequence[str] | None,
    batch: int | None,
    how: Compilation | None,
    *,
    force: bool,
) -> None:
    from npusim.cli.model import timed
    from npusim.model.reading import read_model
    from npusim.reporting.asking import form_of, write_page
    from npusim.reporting.files import claim_all
    from npusim.reporting.network import network_page

    form = form_of(path)
    claim_all(path, beside=(file,), force=force)
    asked = chips(soc)
    results = timed(read_model(file, how=how), asked, [batch])
    words = ["npusim", "report", file.name, *(word for name in soc or () for word in ("-s", name))]
    words += [] if batch is None else ["--batch", str(batch)]
    command = shlex.join([*words, "-o", path.name])
    page = network_page(results, [chip.profile for chip in asked], command)
    write_page(page, path, form, force=force)
    output.note(f"written: {path}")
    if not any(result.runs_unchanged for result in results):
        raise typer.Exit(1)


def _in_words(value: Any) -> str:
    described = calls.describe(value)
    if isinstance(described, dict):
        shape = ", ".join(map(str, described["shape"]))
        return f"{described['dtype']} [{shape}] {described['format'] or ''}".strip()
    if isinstance(described, bool):
        return str(described).lower()
    if isinstance(described, list | tuple):
        return ", ".join(_in_words(each) for each in described)
    return "null" if described is None else str(described)


def _command(
    op: str, assignments: Sequence[str], socs: Sequence[str], l2: str, path: Path, *, exact: bool
) -> str:
    """The command line in its plainest form; the file's name without its folder."""
    words = ["npusim", "report", op]
    for soc in socs:
        words += ["-s", soc]
    words += assignments
    words += ["--l2", l2] if l2 != "cold" else []
    words += ["--exact"] if exact else []
    return shlex.join([*words, "-o", path.name])
