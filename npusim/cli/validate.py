"""`npusim validate`: measured kernels replayed, and how far off the simulator is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from npusim.cli import output
from npusim.cli.options import L2, AsJson, Force, Workers
from npusim.values.language import say

if TYPE_CHECKING:
    from npusim.validation.asking import Validation
    from npusim.validation.replay import Prediction

Table = Annotated[
    Path, typer.Argument(metavar="FILE", help="A table of measured kernels, .csv or .csv.gz.")
]
Chip = Annotated[list[str] | None, typer.Option("--chip", help="Only rows of this chip.")]
Builtin = Annotated[
    bool,
    typer.Option("--builtin", help="Only builtin kernels that a profiler timed (trust A and A-)."),
]
Without = Annotated[
    Path | None,
    typer.Option(
        "--without", metavar="TABLE", help="Leave out rows that ask what a row of TABLE asks."
    ),
]
Csv = Annotated[Path | None, typer.Option("--csv", metavar="FILE", help="Write every row.")]
Plot = Annotated[Path | None, typer.Option("--plot", metavar="FILE", help="Draw a figure (SVG).")]
Worst = Annotated[int, typer.Option("--worst", help="How many of the worst rows to list.")]


def validate(
    table: Table,
    l2: L2 = "in_graph",
    chip: Chip = None,
    builtin: Builtin = False,
    without: Without = None,
    csv_file: Csv = None,
    plot: Plot = None,
    worst: Worst = 10,
    workers: Workers = 0,
    as_json: AsJson = False,
    force: Force = False,
) -> None:
    """Replay measured kernel times and print the error by chip, family and workload.

    Rows that can't be modelled are counted and listed with the reason. Exit code 0 when the table
    could be read, whatever the errors are.

    Example: npusim validate reports/data/measured_ops.csv.gz
    """
    from npusim.reporting import validation as report
    from npusim.reporting.files import claim_all, write_text
    from npusim.validation.asking import validate as asked

    _refuse_profile(table)
    beside = (table, *([without] if without else []))
    claim_all(csv_file, plot, beside=beside, force=force)

    def show(done: int, rows: int) -> None:
        if done % 50 == 0 or done == rows:
            output.progress(say("{done} of {rows} rows").format(done=done, rows=rows))

    found = asked(
        table, chips=chip or (), builtin=builtin, without=without, l2=l2, workers=workers,
        progress=show,
    )  # fmt: skip
    output.progress("")
    if csv_file is not None:
        write_text(csv_file, report.rows_csv(found.predictions), force=force)
    if plot is not None:
        write_text(plot, report.figure_svg(found.predictions), force=force)
    if as_json:
        output.emit_json(found.as_dict())
    else:
        _show(found, worst)


def _refuse_profile(table: Path) -> None:
    """Refuse a profiler's folder, which `judge` takes."""
    from npusim.model.profile_files import is_profile
    from npusim.reading.files import kind_of
    from npusim.values.errors import FileError

    if kind_of(table) == "folder" and is_profile(table):
        remedy = f"npusim judge {table} -s CHIP compares its kernels."
        raise FileError(table, say("is a profiler's folder, not a table of measurements"), remedy)


def _show(found: Validation, worst: int) -> None:
    from npusim.reporting import validation as report

    steps = found.by_workload
    output.emit(
        report.accuracy_table("all rows", {"overall": found.overall}),
        *(
            [report.accuracy_table("what came later", {"later": found.later})]
            if found.later
            else []
        ),
        report.accuracy_table("by chip", found.by_chip),
        report.accuracy_table("by family", found.by_family),
        *([report.step_table(steps)] if steps else []),
        *_lines(
            "worst rows", [_line(each) for each in report.worst_rows(found.predictions, worst)]
        ),
        *_lines(
            "not modelled", [f"{count:5d}  {why}" for why, count in found.not_modelled.items()]
        ),
    )


def _line(each: Prediction) -> str:
    from npusim.values.display import latency

    row = each.row
    return say(
        "line {line}  {chip}  {op}  measured {duration_us}, simulated {value} ({bound})"
    ).format(
        line=row.line,
        chip=row.chip,
        op=row.op,
        duration_us=latency(row.duration_us),
        value=latency(each.simulated_us or 0.0),
        bound=each.bound,
    )


def _lines(title: str, lines: list[str]) -> list[str]:
    return ["\n".join([title, *lines])] if lines else []
