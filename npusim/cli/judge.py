"""`npusim judge`: is the speed of the kernels in a profiler's file normal?"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from npusim.cli import output
from npusim.cli.options import (
    SOC_FLAGS,
    AsJson,
    DeviceId,
    Figures,
    Force,
    Html,
    ProfileFile,
    StepId,
)
from npusim.cli.pages import Files
from npusim.values.language import say

if TYPE_CHECKING:
    from npusim.model.changes import Changes
    from npusim.model.judging import Comparison


def judge(
    file: ProfileFile,
    soc: Annotated[
        list[str] | None, typer.Option(*SOC_FLAGS, metavar="CHIP", help="What it was measured on.")
    ] = None,
    step: StepId = "",
    device_id: DeviceId = "",
    top: Annotated[int, typer.Option("--top", min=1, help="Kernels and findings to list.")] = 10,
    csv_file: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="Write every kernel.")
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option("--against", metavar="FILE", help="An earlier profile: what changed since."),
    ] = None,
    html: Html = None,
    figures: Figures = None,
    as_json: AsJson = False,
    force: Force = False,
) -> None:
    """Is my speed normal? Kernels of a profile that took longer than usual, and why.

    Each kernel is held against the 95 % interval of its estimate and against its equals in the
    file. With --against, operators that became slower or faster, came or went since. Exit code 0
    whatever is found.

    Example: npusim judge kernel_details.csv -s 910b3
    """
    from npusim.cli.chips import doubts, measured_on
    from npusim.model.findings import findings
    from npusim.model.judging import judge as judged
    from npusim.model.reasons import Reasons
    from npusim.reporting import comparison as pages
    from npusim.reporting.files import write_text

    others = [] if against is None or against == file else [against]
    files = Files(html, figures, force)
    files.claim(csv_file, beside=(file, *others))
    chip = measured_on(soc, file, step, device_id)

    def show(done: int, total: int) -> None:
        output.progress(say("{done} of {total} kernels").format(done=done, total=total))

    compared = judged(file, chip.profile, step=step, device_id=device_id, progress=show)
    reasons = Reasons(compared)
    explained = [(each, reasons.of(each)) for each in compared.unusual]
    odd = findings(compared)
    output.progress("")
    doubts(compared.step, chip.profile)
    changed = None if against is None else _changed(compared, against)
    if csv_file is not None:
        write_text(csv_file, pages.comparison_csv(compared, explained), force=force)
    command = _words(file, chip.name, {"--step": step, "--device-id": device_id}, against)
    words = shlex.join([*command, *files.words()])
    page = pages.comparison_page(compared, explained, odd, top, changed, words)
    files.write(pages.judged_page(page, compared))
    if as_json:
        output.emit_json(pages.comparison_json(compared, explained, odd, changed))
    else:
        output.emit(page)


def _changed(compared: Comparison, against: Path) -> Changes:
    """What changed since another profile."""
    from npusim.model.changes import changes
    from npusim.model.profile_table import read_launches

    kernels = tuple(each.kernel for each in compared.launches)
    return changes(read_launches(against), (compared.step, kernels))


def _words(file: Path, soc: str, given: dict[str, str], against: Path | None) -> list[str]:
    """The command line; files' names without their folders."""
    words = ["npusim", "judge", file.name, "-s", soc]
    words += [word for flag, value in given.items() if value for word in (flag, value)]
    return words if against is None else [*words, "--against", against.name]
