"""`npusim model`: how long does a step of this model take, and what is it made of."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from npusim.cli import output, profiling
from npusim.cli.chips import Chip, chips
from npusim.cli.options import AsJson, Force, MeasuredOn, Socs

if TYPE_CHECKING:
    from npusim.model.graph_model import Compilation
    from npusim.model.results import StepResult

_MOST_DIGITS = 19

ModelFile = Annotated[
    Path,
    typer.Argument(
        metavar="FILE",
        help="An ONNX file, a YAML list of calls, an op_summary_*.csv of msprof or a "
        "kernel_details.csv of torch_npu.",
    ),
]
Batch = Annotated[
    int | None,
    typer.Option("--batch", help="The batch {B} of a YAML model."),
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


def model(
    file: ModelFile,
    soc: Socs = None,
    batch: Batch = None,
    measured_on: MeasuredOn = None,
    dispatch_us: Dispatch = None,
    l2: Annotated[
        str,
        typer.Option(
            "--l2",
            help="What operators find in L2: order (what those before them left), busy (nothing; "
            "for files without order), in_graph, cold or warm.",
        ),
    ] = "order",
    shape: Annotated[
        list[str] | None,
        typer.Option("--shape", metavar="INPUT=N,...", help="The shape of an input of a network."),
    ] = None,
    precision: Annotated[
        str | None,
        typer.Option("--precision", help="ATC's precision mode: force_fp16 (default) or origin."),
    ] = None,
    fuse: Annotated[
        bool, typer.Option("--fuse/--no-fuse", help="Let the graph compiler fuse operators.")
    ] = True,
    without: Annotated[
        list[str] | None,
        typer.Option("--without", metavar="PASS", help="Compile without a pass."),
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Say which nodes became which task.")
    ] = False,
    step: Annotated[
        str, typer.Option("--step", help="The Step Id of a profile with several steps.")
    ] = "",
    top: Annotated[int, typer.Option("--top", min=1, help="Operators to list.")] = 10,
    csv_file: Annotated[
        Path | None,
        typer.Option("--csv", metavar="FILE", help="Write every operator."),
    ] = None,
    path: profiling.SummaryFolder = None,
    form: profiling.SummaryFormat = None,
    timestamp: profiling.Timestamp = None,
    as_json: AsJson = False,
    force: Force = False,
) -> None:
    """How long does a step of a model take? Latency, operator classes, limits, dtypes, memory.

    Exit code 1 when every chip that was asked refuses an operator as it is, be it that it runs
    in FLOAT16 and the times are those.
    """
    from npusim.model.reading import read_model
    from npusim.model.retiming import retime
    from npusim.reporting.files import claim_all, write_text
    from npusim.values.errors import ArgumentError

    claim_all(csv_file, beside=(file,), force=force)
    if dispatch_us is not None and not 0 <= dispatch_us < float("inf"):
        raise ArgumentError(f"--dispatch-us is {dispatch_us:g}; it must be 0 or more")
    asked = chips(soc)
    profiling.prepare_summary(form, path, timestamp, asked, force=force)
    origin = chips([measured_on])[0].profile if measured_on else None
    unfolded = read_model(file, step=step, how=_compilation(shape, precision, fuse, without))

    def timed(chip: Chip) -> StepResult:
        return retime(
            unfolded.at(batch, chip.profile),
            chip.profile,
            l2=l2,
            measured_on=origin,
            host_dispatch_us=dispatch_us,
            progress=lambda done, total: output.progress(
                f"{chip.name}: {done} of {total} operators"
            ),
        )

    results = [timed(chip) for chip in asked]
    output.progress("")
    if csv_file is not None:
        from npusim.reporting.model import steps_csv

        write_text(csv_file, steps_csv(results), force=force)
    if path is not None:
        profiling.write_summary(results[0], asked[0], path, timestamp, force=force)
    _show(results, top, explain=explain, as_json=as_json)
    if not any(result.runs_unchanged for result in results):
        raise typer.Exit(1)


def _compilation(
    shapes: list[str] | None, precision: str | None, fuse: bool, without: list[str] | None
) -> Compilation | None:
    """What is said about compiling a network; None where nothing is."""
    if not shapes and precision is None and fuse and not without:
        return None
    from npusim.graph.target import PRECISIONS
    from npusim.model.graph_model import Compilation

    sizes = dict(map(_shape, shapes or ()))
    return Compilation(sizes, precision or PRECISIONS[0], fuse, tuple(without or ()))


def _shape(text: str) -> tuple[str, tuple[int, ...]]:
    from npusim.values.errors import ArgumentError

    name, _, sizes = text.rpartition("=")
    words = [word.strip() for word in sizes.strip("[]").split(",")]
    if not name or not all(word.isdecimal() and len(word) < _MOST_DIGITS for word in words):
        raise ArgumentError(
            f"--shape {text} says no input and its sizes", "Write e.g. --shape input=1,3,224,224."
        )
    return name, tuple(map(int, words))


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
