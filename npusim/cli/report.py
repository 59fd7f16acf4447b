"""`npusim report`: one operator, on one or more products, as a page to look at."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from npusim.cli import calls, compiling, output
from npusim.cli.chips import chips, doubts
from npusim.cli.options import (
    L2,
    Assignments,
    DeviceId,
    Exact,
    Figures,
    Force,
    MeasuredOn,
    Operator,
    Socs,
)
from npusim.cli.pages import Files, write_figures
from npusim.values.errors import UsageError
from npusim.values.language import say

if TYPE_CHECKING:
    from npusim.model.graph_model import Compilation
    from npusim.reporting.against import Estimates
    from npusim.reporting.document import Page

ReportFile = Annotated[
    Path,
    typer.Option("-o", "--output", metavar="FILE", help="The report, .html or .md."),
]

Against = Annotated[
    Path | None,
    typer.Option(
        "--against",
        metavar="OLD.json",
        help="What `npusim estimate` or `model` printed with --json before: what changed, and why.",
    ),
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
    aipp: compiling.Aipp = False,
    fast: compiling.Fast = None,
    mode: compiling.Mode = None,
    custom: compiling.Custom = None,
    measured_on: MeasuredOn = None,
    device_id: DeviceId = "",
    old: Against = None,
    figures: Figures = None,
    force: Force = False,
) -> None:
    """Write a page about a call or a model: products, timeline, roofline, where the time goes.

    A model is a file as `npusim model` takes it. With --against it begins with what changed.

    Example: npusim report Gelu -s all x=fp16[1024,1024] -o gelu.html
    """
    if compiling.is_model(Path(op)):
        compiling.no_arguments(Path(op), assignments)
        how = compiling.compilation(shape, precision, fuse, without, mode, custom, aipp, fast)
        _model_page(
            Path(op), path, soc, batch, how, measured_on, old, device_id=device_id,
            figures=figures, force=force,
        )  # fmt: skip
        return
    if measured_on is not None:
        raise UsageError("--measured-on is for the file of a profile, not for a call")
    from npusim.reporting.call.page import operator_page

    before = _claim(path, old, figures=figures, of_model=False, force=force)
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
        _command(op, assignments or [], soc or [], l2, path, old, exact=exact),
    )
    _write(page, path, before, lambda: question.described(answers), figures, force=force)
    calls.finish(answers)


def _model_page(
    file: Path,
    path: Path,
    soc: Sequence[str] | None,
    batch: int | None,
    how: Compilation | None,
    measured_on: str | None,
    old: Path | None,
    *,
    device_id: str,
    figures: Path | None,
    force: bool,
) -> None:
    from npusim.cli.model import timed
    from npusim.model.reading import read_model
    from npusim.reporting.model import step_json
    from npusim.reporting.network import network_page

    before = _claim(path, old, file, figures=figures, of_model=True, force=force)
    asked = chips(soc)
    results = timed(
        read_model(file, device_id=device_id, how=how), asked, [batch], measured_on=measured_on
    )
    if len(asked) == 1:
        doubts(results[0].step, asked[0].profile)
    words = ["npusim", "report", file.name, *(word for name in soc or () for word in ("-s", name))]
    words += [] if batch is None else ["--batch", str(batch)]
    words += [] if measured_on is None else ["--measured-on", measured_on]
    words += ["--device-id", device_id] if device_id else []
    command = shlex.join([*words, *_against_words(old), "-o", path.name])
    page = network_page(results, command)
    _write(
        page, path, before, lambda: {"answers": [step_json(each) for each in results]}, figures,
        force=force,
    )  # fmt: skip
    if not any(result.runs_unchanged for result in results):
        raise typer.Exit(1)


def _claim(
    path: Path,
    old: Path | None,
    *read: Path,
    figures: Path | None,
    of_model: bool,
    force: bool,
) -> Estimates | None:
    """Refuse a page that can't be written; what it is compared with, before the long work."""
    from npusim.reporting.against import read_estimates
    from npusim.reporting.asking import form_of

    form_of(path)
    Files(path, figures, force).claim(beside=(*read, old))
    return None if old is None else read_estimates(old, of_model=of_model)


def _write(
    page: Page,
    path: Path,
    before: Estimates | None,
    told: Callable[[], dict[str, Any]],
    figures: Path | None,
    *,
    force: bool,
) -> None:
    """A page as a file, with what changed; `told` is what --json prints of its answers."""
    from npusim.reporting.against import against
    from npusim.reporting.asking import write_page

    changed = page if before is None else against(page, before, told())
    write_page(changed, path, force=force)
    output.note(say("written: {path}").format(path=path))
    write_figures(changed, figures, force=force)


def _against_words(old: Path | None) -> list[str]:
    return [] if old is None else ["--against", old.name]


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
    op: str,
    assignments: Sequence[str],
    socs: Sequence[str],
    l2: str,
    path: Path,
    old: Path | None,
    *,
    exact: bool,
) -> str:
    """The command line in its plainest form; files' names without their folders."""
    words = ["npusim", "report", op]
    for soc in socs:
        words += ["-s", soc]
    words += assignments
    words += ["--l2", l2] if l2 != "cold" else []
    words += ["--exact"] if exact else []
    return shlex.join([*words, *_against_words(old), "-o", path.name])
