"""`npusim judge`: is the speed of the kernels in a profiler's file normal?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from npusim.cli import output
from npusim.cli.options import SOC_FLAGS, AsJson, DeviceId, Force, ProfileFile, StepId


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
    as_json: AsJson = False,
    force: Force = False,
) -> None:
    """Is my speed normal? Kernels of a profile that took longer than usual, and why.

    Each kernel is held against the 95 % interval of its estimate and against its equals in the
    file. Exit code 0 whatever is found.

    Example: npusim judge kernel_details.csv -s 910b3
    """
    from npusim.cli.chips import doubts, measured_on
    from npusim.model.findings import findings
    from npusim.model.judging import judge as judged
    from npusim.model.reasons import Reasons
    from npusim.reporting import comparison as pages
    from npusim.reporting.files import claim_all, write_text

    claim_all(csv_file, beside=(file,), force=force)
    chip = measured_on(soc, file, step, device_id)

    def show(done: int, total: int) -> None:
        output.progress(f"{done} of {total} kernels")

    compared = judged(file, chip.profile, step=step, device_id=device_id, progress=show)
    reasons = Reasons(compared)
    explained = [(each, reasons.of(each)) for each in compared.unusual]
    odd = findings(compared)
    output.progress("")
    doubts(compared.step, chip.profile)
    if csv_file is not None:
        write_text(csv_file, pages.comparison_csv(compared, explained), force=force)
    if as_json:
        output.emit_json(pages.comparison_json(compared, explained, odd))
    else:
        output.emit(pages.comparison_page(compared, explained, odd, top))
