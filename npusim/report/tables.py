"""The tables of the command line, as rich renderables; nothing here computes a result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich import box
from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from npusim.report.spelling import count, error_size, latency, percent, significant, size
from npusim.report.trace import LANE_ORDER, OTHER_LANE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import numpy as np

    from npusim.report.answers import Answer
    from npusim.report.compare import Comparison
    from npusim.runtime.results import Result, TaskResult

    Array = np.ndarray[Any, Any]

BAND_COLUMN = "latency (80 % band)"

_VERDICT_STYLES = {"pass": "green", "FAIL": "bold red", "rejected": "red"}


class Grid(Table):
    """A table whose columns of names and numbers are never cut; one column may wrap.

    A terminal that is too narrow for it wraps the lines; that is ugly, and a cut number is wrong.
    """

    def __init__(
        self, title: str, columns: Sequence[str], right: Iterable[str] = (), *, wide: str = ""
    ) -> None:
        """`right` names the columns of numbers, `wide` the one that may wrap."""
        super().__init__(
            title=title or None,
            title_justify="left",
            title_style="bold",
            box=box.SIMPLE_HEAD,
            show_edge=False,
            pad_edge=False,
            collapse_padding=True,
        )
        numbers = set(right)
        for name in columns:
            self.add_column(
                name,
                justify="right" if name in numbers else "left",
                no_wrap=name != wide,
                min_width=len(name) if name != wide else 12,
                overflow="fold",
            )

    def row(self, *cells: str | Text) -> None:
        """Add a row, widening the columns that don't wrap."""
        texts = [Text(cell) if isinstance(cell, str) else cell for cell in cells]
        self.add_row(*texts)
        for column, text in zip(self.columns, texts, strict=True):
            if column.no_wrap:
                widest = max((cell_len(line) for line in text.plain.splitlines()), default=0)
                column.min_width = max(column.min_width or 0, widest)


def facts(pairs: Iterable[tuple[str, str]]) -> Table:
    """Names and values below each other, without lines."""
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True, style="dim")
    table.add_column(overflow="fold")
    for name, value in pairs:
        table.add_row(name, Text(value))
    return table


def check_table(operator: str, answers: Sequence[Answer]) -> Grid:
    """Who runs it, and why the others don't."""
    table = Grid(operator, ("product", "SoC", "runs", "reason"), wide="reason")
    for answer in answers:
        table.row(answer.product_line, answer.soc, _verdict(answer), _why_not(answer))
    return table


def comparison_table(operator: str, answers: Sequence[Answer]) -> RenderableType:
    """The products side by side, and below the table why some of them don't run it."""
    columns = ("SoC", "runs", BAND_COLUMN, "cycles", "tasks", "bound by")
    table = Grid(operator, columns, (BAND_COLUMN, "cycles", "tasks"), wide="bound by")
    for answer in answers:
        cells = [""] * 4
        if (res := answer.result) is not None:
            time = latency(res.duration_us, res.band_us)
            cells = [time, count(res.cycles), str(len(res.tasks)), res.bound]
        table.row(answer.soc, _verdict(answer), *cells)
    return Group(table, *refusals(answers))


def refusals(answers: Sequence[Answer]) -> list[Text]:
    """Why some don't run it: one line for each reason, with all chips that have it."""
    chips: dict[str, list[str]] = {}
    for answer in answers:
        if not answer.ok:
            chips.setdefault(f"{answer.reason} {answer.remedy}".strip(), []).append(answer.soc)
    return [Text(f"{', '.join(names)}: {reason}") for reason, names in chips.items()]


def result_page(res: Result) -> RenderableType:
    """One call on one product: the time and its band, the tasks, what was assumed."""
    head = facts(
        (
            ("latency", latency(res.duration_us, res.band_us)),
            ("band", f"80 %, {res.band_basis}"),
            ("cycles", count(res.cycles)),
            ("bound by", res.bound),
            ("workspace", size(res.workspace_size)),
        )
    )
    parts: list[RenderableType] = [Text(f"{res.op} on {res.soc}", style="bold")]
    parts.append(Padding(head, (0, 2)))
    if res.tasks:
        parts += ["", task_table(res.tasks)]
    if res.assumptions:
        parts += ["", Text("assumed", style="bold")]
        parts += [Padding(Text(f"- {line}"), (0, 0, 0, 2)) for line in res.assumptions]
    return Group(*parts)


def task_table(tasks: Sequence[TaskResult]) -> Table:
    """The device tasks in order, with the share of time that each pipe is busy."""
    pipes = _used_pipes(tasks)
    numbers = ("start us", "us", "cycles", "cores", "read", "written")
    columns = ("task", "cores", "start us", "us", "cycles", "read", "written", *pipes, "bound by")
    table = Grid("", columns, (*numbers, *pipes))
    for task in tasks:
        busy = [percent(task.pipes[pipe]) if pipe in task.pipes else "" for pipe in pipes]
        table.row(
            task.name,
            str(task.block_dim),
            significant(task.start_us),
            significant(task.duration_us),
            count(task.cycles),
            size(task.bytes_read),
            size(task.bytes_written),
            *busy,
            task.bound,
        )
    return table


def outputs_table(outputs: Mapping[str, Array]) -> Table:
    """The tensors of a run: name, dtype, shape and the extent of the values."""
    extents = ("min", "max", "mean")
    table = Grid("", ("output", "dtype", "shape", *extents), extents)
    for name, data in outputs.items():
        values = data.astype(float)
        extent = (values.min(), values.max(), values.mean()) if data.size else ()
        numbers = [significant(float(value), 4) for value in extent] or [""] * 3
        table.row(name, str(data.dtype), str(list(data.shape)), *numbers)
    return table


def accuracy_table(title: str, comparisons: Mapping[str, Sequence[Comparison]]) -> Table:
    """For each chip the largest error of every output, and how much of the tolerance that uses."""
    names = list(dict.fromkeys(item.name for group in comparisons.values() for item in group))
    numbers = (*names, "of tolerance")
    table = Grid(title, ("SoC", *numbers, "verdict"), numbers)
    for soc, group in comparisons.items():
        errors = {item.name: error_size(item.max_error) for item in group}
        worst = max((item.share for item in group), default=0.0)
        verdict = Text("pass" if all(item.passed for item in group) else "FAIL")
        verdict.stylize(_VERDICT_STYLES[verdict.plain])
        table.row(soc, *(errors.get(name, "") for name in names), percent(worst), verdict)
    return table


def cases_table(title: str, rows: Iterable[Mapping[str, str]]) -> Table:
    """Cases of a file: what was expected, how far off the result is, and whether that passes."""
    columns = ("case", "SoC", BAND_COLUMN, "output", "max error", "of tolerance", "verdict", "note")
    table = Grid(title, columns, (BAND_COLUMN, "max error", "of tolerance"), wide="note")
    for row in rows:
        cells = {name: Text(row[name]) for name in columns}
        cells["verdict"].stylize(_VERDICT_STYLES.get(row["verdict"], ""))
        table.row(*cells.values())
    return table


def _verdict(answer: Answer) -> Text:
    return Text("yes", style="green") if answer.ok else Text("no", style="red")


def _why_not(answer: Answer) -> Text:
    text = Text(answer.reason)
    if answer.reason and answer.remedy:
        text.append(f" {answer.remedy}", style="dim")
    return text


def _used_pipes(tasks: Sequence[TaskResult]) -> list[str]:
    """The pipes that at least one task uses, in the order of the lanes of a trace."""
    used = {pipe for task in tasks for pipe, ratio in task.pipes.items() if ratio > 0}
    return sorted(used, key=lambda pipe: (LANE_ORDER.get(pipe, OTHER_LANE), pipe))
