"""`npusim validate`: measured kernels replayed, and how far off the simulator is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from npusim.cli import output
from npusim.cli.options import L2, AsJson, Force
from npusim.values.host import cores

if TYPE_CHECKING:
    from npusim.validation.replay import Prediction
    from npusim.validation.table import MeasuredRow

Table = Annotated[
    Path, typer.Argument(metavar="FILE", help="A table of measured kernels, .csv or .csv.gz.")
]
Chip = Annotated[list[str] | None, typer.Option("--chip", help="Only rows of this chip.")]
Builtin = Annotated[
    bool,
    typer.Option("--builtin", help="Only builtin kernels that a profiler timed (trust A and A-)."),
]
Csv = Annotated[Path | None, typer.Option("--csv", metavar="FILE", help="Write every row.")]
Plot = Annotated[Path | None, typer.Option("--plot", metavar="FILE", help="Draw a figure (SVG).")]
Worst = Annotated[int, typer.Option("--worst", help="How many of the worst rows to list.")]
Workers = Annotated[int, typer.Option("--workers", min=0, help="Processes; 0: one per core.")]


def validate(
    table: Table,
    l2: L2 = "in_graph",
    chip: Chip = None,
    builtin: Builtin = False,
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
    """
    from npusim.reporting import validation as report
    from npusim.reporting.files import claim_all, write_text
    from npusim.runtime.cache_start import MODES
    from npusim.validation.replay import replay
    from npusim.validation.statistics import accuracy, by_workload, grouped
    from npusim.validation.table import read_rows
    from npusim.values.errors import UnknownNameError

    if l2 not in MODES:
        raise UnknownNameError("state of L2", l2, MODES)
    claim_all(csv_file, plot, beside=(table,), force=force)
    rows = [row for row in read_rows(table) if _wanted(row, chip, builtin)]
    processes = workers or cores()

    def show(done: int) -> None:
        if done % 50 == 0 or done == len(rows):
            output.progress(f"{done} of {len(rows)} rows")

    predictions = list(replay(rows, l2=l2, workers=processes, progress=show))
    output.progress("")
    overall = accuracy(predictions)
    by_chip = grouped(predictions, lambda each: each.row.chip)
    by_family = grouped(predictions, lambda each: each.row.family or "?")
    steps = by_workload(predictions)
    if csv_file is not None:
        write_text(csv_file, report.rows_csv(predictions), force=force)
    if plot is not None:
        write_text(plot, report.figure_svg(predictions), force=force)
    if as_json:
        output.emit_json(
            {
                "overall": overall.as_dict(),
                "by_chip": {name: each.as_dict() for name, each in by_chip.items()},
                "by_family": {name: each.as_dict() for name, each in by_family.items()},
                "by_workload": {name: each.as_dict() for name, each in steps.items()},
                "not_modelled": _reasons(predictions),
            }
        )
        return
    output.emit(
        report.accuracy_table("all rows", {"overall": overall}),
        report.accuracy_table("by chip", by_chip),
        report.accuracy_table("by family", by_family),
        *([report.step_table(steps)] if steps else []),
        *_lines("worst rows", [_line(each) for each in report.worst_rows(predictions, worst)]),
        *_lines(
            "not modelled", [f"{count:5d}  {why}" for why, count in _reasons(predictions).items()]
        ),
    )


def _wanted(row: MeasuredRow, chips: list[str] | None, builtin: bool) -> bool:
    if chips and not any(name.lower() in row.chip.lower() for name in chips):
        return False
    return not builtin or (row.impl.startswith("builtin") and row.trust in ("A", "A-"))


def _reasons(predictions: list[Prediction]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for each in predictions:
        if each.reason:
            counts[each.reason] = counts.get(each.reason, 0) + 1
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _line(each: Prediction) -> str:
    row = each.row
    return (
        f"line {row.line}  {row.chip}  {row.op}  measured {row.duration_us:.4g} us, "
        f"simulated {each.simulated_us:.4g} us ({each.bound})"
    )


def _lines(title: str, lines: list[str]) -> list[str]:
    return ["\n".join([title, *lines])] if lines else []
