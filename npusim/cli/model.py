"""`npusim model`: how long does a step of this model take, and what is it made of."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from npusim.cli import compiling, output, profiling
from npusim.cli.chips import Chip, chips, doubts
from npusim.cli.options import AsJson, DeviceId, Force, MeasuredOn, Socs, StepId, Top
from npusim.values.language import say
from npusim.values.status import Verdict, best_of

if TYPE_CHECKING:
    from npusim.model.curve import Curve
    from npusim.model.reading import ModelFile as Read
    from npusim.model.results import StepResult

ModelFile = Annotated[
    Path,
    typer.Argument(
        metavar="FILE",
        help="An ONNX file, a .pt2 file of torch.export, a YAML list of calls, an op_summary_*.csv "
        "of msprof, a kernel_details.csv of torch_npu, or the folder of either.",
    ),
]
Dispatch = Annotated[
    float | None,
    typer.Option(
        "--dispatch-us",
        metavar="US",
        help="What the host needs to launch one operator; 0 for a graph. Default: the model's own, "
        "or 0.",
    ),
]
Within = Annotated[
    str | None,
    typer.Option(
        "--within", metavar="TIME", help="The latency limit of the best batch, e.g. 50ms or 800us."
    ),
]
L2 = Annotated[
    str,
    typer.Option(
        "--l2",
        help="What operators find in L2: order (what those before them left), busy (nothing; for "
        "files without order), in_graph, cold or warm.",
    ),
]
Explain = Annotated[bool, typer.Option("--explain", help="Say which nodes became which task.")]
CsvFile = Annotated[
    Path | None, typer.Option("--csv", metavar="FILE", help="Write every operator.")
]


def model(
    file: ModelFile,
    soc: Socs = None,
    batch: compiling.Batches = None,
    within: Within = None,
    streams: compiling.Streams = 1,
    measured_on: MeasuredOn = None,
    dispatch_us: Dispatch = None,
    l2: L2 = "order",
    shape: compiling.Shape = None,
    precision: compiling.Precision = None,
    fuse: compiling.Fuse = True,
    without: compiling.Without = None,
    aipp: compiling.Aipp = False,
    fast: compiling.Fast = None,
    mode: compiling.Mode = None,
    custom: compiling.Custom = None,
    explain: Explain = False,
    step: StepId = "",
    device_id: DeviceId = "",
    top: Top = 10,
    csv_file: CsvFile = None,
    path: profiling.SummaryFolder = None,
    form: profiling.SummaryFormat = None,
    timestamp: profiling.Timestamp = None,
    as_json: AsJson = False,
    force: Force = False,
) -> None:
    """How long does a step of a model take? Latency, operator classes, limits, dtypes, memory.

    Several batches give the curve of rates and the best batch. Exit code 1 when every chip that was
    asked refuses an operator as it is, be it that it runs in FLOAT16 and the times are those, or
    when no batch keeps the latency limit; 3 where one would run it if npusim knew an operator.

    Example: npusim model resnet50.onnx -s 310p3 --batch 1,4,8
    """
    from npusim.model.curve import curves
    from npusim.model.reading import read_model
    from npusim.reporting.files import claim_all

    claim_all(csv_file, beside=(file,), force=force)
    batches, within_us = compiling.batches_of(batch), compiling.microseconds(within)
    asked = chips(soc)
    profiling.prepare_summary(form, path, timestamp, asked, force=force)
    how = compiling.compilation(shape, precision, fuse, without, mode, custom, aipp, fast)
    results = timed(
        read_model(file, step=step, device_id=device_id, how=how), asked, batches,
        l2=l2, streams=streams, measured_on=measured_on, dispatch_us=dispatch_us,
    )  # fmt: skip
    _doubt(results, asked, measured_on)
    if csv_file is not None:
        _write_csv(results, csv_file, force=force)
    if path is not None:
        profiling.write_summary(results[0], asked[0], path, timestamp, force=force)
    found = curves(results, within_us)
    if len(batches) > 1 or within_us is not None:
        _show_curves(found, results, as_json=as_json)
    else:
        _show(results, top, explain=explain, as_json=as_json)
    good = [curve.best for curve in found] if within_us is not None else results
    output.end_with(best_of(Verdict.NO if each is None else each.verdict for each in good))


def timed(
    file: Read,
    asked: Sequence[Chip],
    batches: Sequence[int | None],
    *,
    l2: str = "order",
    streams: int = 1,
    measured_on: str | None = None,
    dispatch_us: float | None = None,
) -> list[StepResult]:
    """The steps of a model on every chip at every batch, with progress."""
    from npusim.engine import Memo
    from npusim.model.retiming import retime
    from npusim.model.streams import in_flight
    from npusim.values.errors import ArgumentError

    if dispatch_us is not None and not 0 <= dispatch_us < float("inf"):
        raise ArgumentError(f"--dispatch-us is {dispatch_us:g}; it must be 0 or more")
    origin = chips([measured_on])[0].profile if measured_on else None
    found = []
    for chip in asked:
        memo = Memo()
        for batch in batches:
            what = (
                chip.name
                if len(batches) == 1
                else say("{chip}, batch {batch}").format(chip=chip.name, batch=batch)
            )
            result = retime(
                file.at(batch, chip.profile),
                chip.profile,
                l2=l2,
                measured_on=origin,
                host_dispatch_us=dispatch_us,
                progress=partial(_say, what),
                memo=memo,
            )
            found.append(in_flight(result, chip.profile, streams))
    output.progress("")
    return found


def _doubt(results: Sequence[StepResult], asked: Sequence[Chip], origin: str | None) -> None:
    """Say what speaks against a profile being of the chip that its times are compared with."""
    if origin is None and len(asked) > 1:
        return  # they are compared with each other
    profile = chips([origin])[0].profile if origin else asked[0].profile
    doubts(results[0].step, profile, "--measured-on")


def _say(what: str, done: int, total: int) -> None:
    output.progress(
        say("{what}: {done} of {total} operators").format(what=what, done=done, total=total)
    )


def _write_csv(results: list[StepResult], file: Path, *, force: bool) -> None:
    from npusim.reporting.files import write_text
    from npusim.reporting.model import steps_csv

    write_text(file, steps_csv(results), force=force)


def _show_curves(found: Sequence[Curve], results: Sequence[StepResult], *, as_json: bool) -> None:
    from npusim.reporting.curve import curve_json, curve_page
    from npusim.reporting.model import step_json

    if as_json:
        answers = [step_json(each) for each in results]
        output.emit_json({"answers": answers, "best": curve_json(found)})
    else:
        output.emit(curve_page(found))


def _show(results: list[StepResult], top: int, *, explain: bool, as_json: bool) -> None:
    from npusim.reporting import model as steps

    if as_json:
        output.emit_json({"answers": [steps.step_json(result) for result in results]})
    elif len(results) == 1:
        output.emit(steps.step_page(results[0], top))
    else:
        output.emit(*steps.steps_pages(results, top))
    if explain and not as_json:
        output.emit(*map(steps.tasks_page, results))
