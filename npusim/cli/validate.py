"""`npusim validate`: measured kernels replayed, and how far off the simulator is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from npusim.cli import output
from npusim.cli.options import L2, AsJson, Figures, Force, Html, Workers
from npusim.cli.pages import Files, figure_kind, retold
from npusim.values.errors import UsageError
from npusim.values.language import say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from npusim.validation.replay import Prediction

Table = Annotated[
    Path | None,
    typer.Argument(metavar="[FILE]", help="A table of measured kernels, .csv or .csv.gz."),
]
Against = Annotated[
    str,
    typer.Option(
        "--against-project",
        metavar="A,B",
        help="Instead of a table: our schedules beside those of built projects' operators (all, or "
        "names), on random calls.",
    ),
]
Shapes = Annotated[
    int, typer.Option("--shapes", min=1, help="Against projects: random calls of each operator.")
]
Seed = Annotated[int, typer.Option("--seed", help="Against projects: other calls.")]
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
Plot = Annotated[
    Path | None, typer.Option("--plot", metavar="FILE", help="Draw a figure, .svg or .png.")
]
Worst = Annotated[int, typer.Option("--worst", help="How many of the worst rows to list.")]


def validate(
    context: typer.Context,
    table: Table = None,
    against: Against = "",
    shapes: Shapes = 200,
    seed: Seed = 0,
    l2: L2 = "in_graph",
    chip: Chip = None,
    builtin: Builtin = False,
    without: Without = None,
    csv_file: Csv = None,
    plot: Plot = None,
    worst: Worst = 10,
    workers: Workers = 0,
    html: Html = None,
    figures: Figures = None,
    as_json: AsJson = False,
    force: Force = False,
) -> None:
    """Replay measured kernel times and print the error by chip, family and workload.

    Rows that can't be modelled are counted and listed with the reason. Exit code 0 when the table
    could be read, whatever the errors are.

    Example: npusim validate reports/data/measured_ops.csv.gz --html page.html

    --against-project draws calls that npusim's rules take, and prints where blocks, tiles or time
    are other than with the projects that NPUSIM_OPS names.

    Example: npusim validate --against-project all --chip 910b3 --shapes 50
    """
    if against:
        from npusim.cli.schedules import Question, beside_projects

        asked_for = Question(against, tuple(chip or ()), shapes, seed, worst)
        files, again = Files(html, figures, force), retold(context, "validate")
        beside_projects(asked_for, files, csv_file, again, as_json=as_json)
        return
    if table is None:
        problem = say("which table? no file is given")
        raise UsageError(problem, "npusim validate reports/data/measured_ops.csv.gz")
    from npusim.reporting.validation import validation_page
    from npusim.validation.asking import validate as asked

    _refuse_profile(table)
    files, written = Files(html, figures, force), _Rows(csv_file, plot)
    files.claim(*written, beside=(table, *([without] if without else [])))
    kind = figure_kind("--plot", plot) if plot else ""
    found = asked(
        table, chips=chip or (), builtin=builtin, without=without, l2=l2, workers=workers,
        progress=_show,
    )  # fmt: skip
    output.progress("")
    written.write(found.predictions, kind, force=force)
    page = validation_page(found, worst, table.name, retold(context, "validate"))
    files.write(page)
    if as_json:
        output.emit_json(found.as_dict())
    else:
        output.emit(page)


class _Rows(NamedTuple):
    """Where every row goes, if anywhere: a table, a figure."""

    csv_file: Path | None
    plot: Path | None

    def write(self, predictions: Sequence[Prediction], kind: str, *, force: bool) -> None:
        """Both files, the figure in a `kind` of its own."""
        from npusim.reporting import validation as report
        from npusim.reporting.files import atomic_write, write_text

        if self.csv_file is not None:
            write_text(self.csv_file, report.rows_csv(predictions), force=force)
        if self.plot is not None:
            with atomic_write(self.plot, force=force) as stream:
                stream.write(report.figure_file(predictions, kind))


def _show(done: int, rows: int) -> None:
    if done % 50 == 0 or done == rows:
        output.progress(say("{done} of {rows} rows").format(done=done, rows=rows))


def _refuse_profile(table: Path) -> None:
    """Refuse a profiler's folder, which `judge` takes."""
    from npusim.model.profile_files import is_profile
    from npusim.reading.files import kind_of
    from npusim.values.errors import FileError

    if kind_of(table) == "folder" and is_profile(table):
        remedy = f"npusim judge {table} -s CHIP compares its kernels."
        raise FileError(table, say("is a profiler's folder, not a table of measurements"), remedy)
