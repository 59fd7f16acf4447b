"""`npusim calibrate`: a chip of one's own, fitted to a profiler's file."""

from __future__ import annotations

from typing import Annotated

import typer

from npusim.cli import output
from npusim.cli.options import SOC_FLAGS, AsJson, DeviceId, Output, ProfileFile, StepId
from npusim.values.language import say


def calibrate(
    file: ProfileFile,
    soc: Annotated[
        list[str] | None,
        typer.Option(*SOC_FLAGS, metavar="CHIP", help="The built-in chip that the card is one of."),
    ] = None,
    path: Output = None,
    step: StepId = "",
    device_id: DeviceId = "",
    as_json: AsJson = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Overwrite the output file if it exists; fit even a chip that the file isn't of.",
        ),
    ] = False,
) -> None:
    """Fit a chip to your own profile: rates of HBM and L2, and what a launch takes.

    Every fourth kernel is kept aside. Where the fit doesn't make those better, nothing is written
    and the exit code is 1. -o writes a chip that -s takes.

    Example: npusim calibrate kernel_details.csv -s 910b3 -o my_chip.yaml
    """
    from npusim.cli.chips import doubts, measured_on
    from npusim.model.calibrating import calibrate as fitted
    from npusim.reporting import calibration as pages
    from npusim.reporting.files import claim_all, write_text

    claim_all(path, beside=(file,), force=force)
    chip = measured_on(soc, file, step, device_id)
    found = fitted(
        file, chip.profile, step=step, device_id=device_id, any_chip=force,
        progress=output.progress,
    )  # fmt: skip
    output.progress("")
    doubts(found.step, chip.profile)
    if path is not None and found.holds:
        write_text(path, pages.chip_yaml(found, path.stem), force=force)
        output.note(say("written: {path}; give it to -s").format(path=path))
    if as_json:
        output.emit_json(pages.calibration_json(found))
    else:
        output.emit(pages.calibration_page(found))
    if not found.holds:
        raise typer.Exit(1)
