"""`npusim sweep`: one question for many shapes, dtypes, attributes and products."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from npusim.cli import INTERRUPTED, output
from npusim.cli.options import AsJson, Exact, Figures, Force, Html, Output, Socs, Workers
from npusim.cli.pages import Files, figure_kind, retold
from npusim.values.errors import ArgumentError, UnknownNameError
from npusim.values.language import say

if TYPE_CHECKING:
    from npusim.sweeping.executors import Crew
    from npusim.sweeping.points import Point, Sweep
    from npusim.sweeping.results import ResultFile
    from npusim.sweeping.working import Answered

Spec = Annotated[
    Path,
    typer.Argument(
        metavar="SPEC.yaml",
        help="What to sweep: calls, variables, products. NPUSIM_RUNS=FILE in the environment keeps "
        "the times of kernels in a file for all workers and later runs.",
    ),
]
Resume = Annotated[
    bool, typer.Option("--resume", help="Continue the file of results; what it has is skipped.")
]
Scheduler = Annotated[
    str | None,
    typer.Option(
        "--scheduler",
        metavar="ADDRESS",
        help="Work on this Dask cluster, e.g. tcp://host:8786 (needs npusim[cluster]). It must be "
        "trusted: who answers there can run code here, and the other way round.",
    ),
]
State = Annotated[
    str | None,
    typer.Option(
        "--l2", help="What L2 holds at the start: cold, warm or in_graph; else what the file says."
    ),
]
Csv = Annotated[
    Path | None,
    typer.Option("--csv", metavar="FILE", help="Write all rows as CSV."),
]
Plot = Annotated[
    Path | None,
    typer.Option(
        "--plot", metavar="FILE", help="Draw the latency, as .svg or .png: one panel per product."
    ),
]
X = Annotated[str, typer.Option("--x", metavar="AXIS", help="Draw lines over this axis.")]
Y = Annotated[
    str,
    typer.Option("--y", metavar="AXIS", help="With --x: a heat map of both axes."),
]


def sweep(
    context: typer.Context,
    spec: Spec,
    path: Output = None,
    resume: Resume = False,
    force: Force = False,
    soc: Socs = None,
    workers: Workers = 0,
    scheduler: Scheduler = None,
    l2: State = None,
    exact: Exact = False,
    csv_file: Csv = None,
    plot: Plot = None,
    x: X = "",
    y: Y = "",
    html: Html = None,
    figures: Figures = None,
    as_json: AsJson = False,
) -> None:
    """Many shapes, dtypes, attributes and products: how long does each take?

    Results go line by line into SPEC.jsonl, or the file of -o, as they are ready: a sweep that was
    stopped or killed continues with --resume. A point that fails is a line with its error. Exit
    code 0 when at least one point has a time; 130 after Ctrl-C.

    Example: npusim sweep examples/sweep.yaml --csv points.csv --html points.html
    """
    from npusim.reporting.sweep import sweep_page
    from npusim.sweeping.asking import answered_rows
    from npusim.sweeping.points import expand
    from npusim.sweeping.results import ResultFile
    from npusim.sweeping.spec import read_spec

    if resume and force:
        raise ArgumentError("--resume and --force contradict each other", say("Give one of them."))
    target = path or Path(spec.stem + ".jsonl")
    wanted = expand(read_spec(spec), str(spec), products=soc or (), l2=l2, exact=exact)
    files = Files(html, figures, force or resume)
    _refuse_figure(plot, wanted, x, y, drawn=bool(html or figures))
    for note in wanted.notes:
        output.note(note)
    files.claim(csv_file, plot, beside=(spec, target))
    start = time.perf_counter()
    with ResultFile(target, resume=resume, force=force) as results:
        todo = [point for point in wanted.points if point.key not in results.keys]
        _play(wanted, todo, results, scheduler, workers)
        results.put_in_order(point.key for point in wanted.points)
    seconds = time.perf_counter() - start
    rows = answered_rows(wanted, target)
    _write(rows, wanted, csv_file, plot, (x, y))
    if html or figures:
        again = retold(context, "sweep")
        files.write(sweep_page(rows, wanted.axes, (x, y), spec.name, again))
    _tell(_Told(spec, target, rows, len(todo), seconds), as_json=as_json)


def _play(
    wanted: Sweep, todo: list[Point], results: ResultFile, scheduler: str | None, workers: int
) -> None:
    """Answer the points that are left; Ctrl-C leaves a file that can be continued."""
    from npusim.sweeping.running import run

    if not todo:
        return
    crew = _crew(scheduler, workers, len(todo))
    at_once = True
    try:
        with _progress(len(wanted.points), len(wanted.points) - len(todo)) as advance:

            def take(answered: Answered) -> None:
                results.append(answered.line)
                results.keys.add(answered.key)
                advance(answered.status)

            run(todo, wanted.chips, crew, take)
        at_once = False
    except KeyboardInterrupt:
        done = len(wanted.keys & results.keys)
        output.note(
            say(
                "stopped; {done:,} of {points:,} points are in {path}, continue with --resume"
            ).format(done=done, points=len(wanted.points), path=results.path)
        )
        raise typer.Exit(INTERRUPTED) from None
    finally:
        crew.close(at_once=at_once)


def _crew(scheduler: str | None, workers: int, points: int) -> Crew:
    if scheduler is not None:
        from npusim.sweeping.cluster import ClusterCrew

        return ClusterCrew(scheduler)
    from npusim.sweeping.executors import local_crew

    return local_crew(workers, points)


@contextmanager
def _progress(total: int, done: int) -> Iterator[Callable[[str], None]]:
    """A bar with rate and time left on standard error, on a terminal only."""
    import sys

    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeRemainingColumn as TimeLeft

    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]} points/s"),
        TextColumn("{task.fields[failed]}"),
        TimeLeft(),
    )
    start, answered, failed = time.monotonic(), 0, 0
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total, completed=done, rate="-", failed="")

        def advance(status: str) -> None:
            nonlocal answered, failed
            answered += 1
            failed += status == "error"
            rate = answered / max(time.monotonic() - start, 1e-3)
            told = say("{failed} failed").format(failed=failed) if failed else ""
            bar.update(task, advance=1, rate=f"{rate:.0f}", failed=told)

        yield advance


def _refuse_figure(plot: Path | None, wanted: Sweep, x: str, y: str, *, drawn: bool) -> None:
    """Say now what would be wrong with the figure, and not after the work."""
    for option, name in (("--x", x), ("--y", y)):
        if name and name not in wanted.axes:
            raise UnknownNameError(say("axis ({option})").format(option=option), name, wanted.axes)
    if y and (not x or x == y):
        raise ArgumentError("--y needs another axis as --x", say("Name two axes."))
    if plot is None:
        if x and not drawn:
            raise ArgumentError("--x without --plot", say("Add --plot FILE.svg."))
        return
    figure_kind("--plot", plot)
    if not wanted.axes:
        raise ArgumentError("--plot: no variable is swept", say("Give one several values: `axes`."))


def _write(
    rows: list[dict[str, Any]],
    wanted: Sweep,
    csv_file: Path | None,
    plot: Path | None,
    over: tuple[str, str],
) -> None:
    from npusim.reporting.files import atomic_write, write_text
    from npusim.reporting.sweep import rows_csv
    from npusim.reporting.sweep_figures import figure_bytes

    if csv_file is not None:
        write_text(csv_file, rows_csv(rows, wanted.axes), force=True)
    if plot is not None:
        drawn = figure_bytes(rows, wanted.axes, figure_kind("--plot", plot), x=over[0], y=over[1])
        with atomic_write(plot, force=True) as stream:
            stream.write(drawn)


@dataclass(frozen=True)
class _Told:
    """What there is to say at the end."""

    spec: Path
    file: Path
    rows: list[dict[str, Any]]
    answered: int
    seconds: float


def _tell(told: _Told, *, as_json: bool) -> None:
    """The summary; exit 0 if a point has a time, else 3 if one isn't known, 2 if all are wrong."""
    from npusim.reporting import sweep as sweeps
    from npusim.reporting.spelling import significant

    counts = sweeps.statuses(told.rows)
    rate = told.answered / told.seconds if told.answered else 0.0
    if as_json:
        output.emit_json(
            {
                "spec": str(told.spec),
                "file": str(told.file),
                "points": len(told.rows),
                "answered_now": told.answered,
                **counts,
                "seconds": told.seconds,
                "points_per_s": rate,
            }
        )
    else:
        speed = say(" in {seconds} s, {rate} points/s").format(
            seconds=significant(told.seconds), rate=significant(rate)
        )
        output.emit(
            sweeps.summary_table(told.rows),
            say("{answered:,} points simulated{speed}; all {rows:,} are in {file}").format(
                answered=told.answered,
                speed=speed if told.answered else "",
                rows=len(told.rows),
                file=told.file,
            ),
        )
    if not counts["ok"]:
        wrong = all(row.get("wrong_usage") for row in told.rows)
        raise typer.Exit(2 if wrong and told.rows else 3 if counts["unknown"] else 1)
