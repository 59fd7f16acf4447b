"""The results of a sweep as a page, as a table and as CSV.

A row is a mapping with the keys of a line in the file of results; `axes` are the names of the swept
variables.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import npusim
from npusim.reporting.csvfile import csv_text
from npusim.reporting.document import Code, Page, Section, Table, Verdict
from npusim.reporting.spelling import latency
from npusim.reporting.sweep_figures import cell, figures_of
from npusim.values.language import say

if TYPE_CHECKING:
    Row = Mapping[str, Any]

COLUMNS: Final = (
    "index",
    "op",
    "soc",
    "status",
    "code",
    "duration_us",
    "band_low_us",
    "band_high_us",
    "cycles",
    "bound",
    "block_dim",
    "tasks",
    "bytes_read",
    "bytes_written",
    "hbm_bytes",
    "jumped_ratio",
    "error",
    "arguments",
    "key",
)
_AXES_AFTER: Final = COLUMNS.index("soc") + 1
_PIPES_AFTER: Final = COLUMNS.index("bound") + 1


def rows_csv(rows: Iterable[Row], axes: Sequence[str]) -> str:
    """Every row, with a column for each variable (``axis_N``) and each pipe (``busy_MTE2``)."""
    flat = flat_rows(rows, axes)
    names = list(flat[0]) if flat else _columns([], axes)
    return csv_text(
        names,
        (
            [cell(each[name]) if name.startswith("axis_") else each[name] for name in names]
            for each in flat
        ),
    )


def flat_rows(rows: Iterable[Row], axes: Sequence[str]) -> list[dict[str, Any]]:
    """Every row with one value under each column, empty where it has none."""
    listed = list(rows)
    pipes = list(dict.fromkeys(pipe for row in listed for pipe in row.get("pipes", {})))
    names = _columns(pipes, axes)
    return [{name: cells.get(name, "") for name in names} for cells in map(_cells, listed)]


def _columns(pipes: Sequence[str], axes: Sequence[str]) -> list[str]:
    names = [*COLUMNS[:_AXES_AFTER], *(f"axis_{name}" for name in axes)]
    names += [*COLUMNS[_AXES_AFTER:_PIPES_AFTER], *(f"busy_{pipe}" for pipe in pipes)]
    return [*names, *COLUMNS[_PIPES_AFTER:]]


def _cells(row: Row) -> Row:
    low, high = row.get("band_us", ("", ""))
    return {
        **row,
        **{f"axis_{name}": value for name, value in row["axes"].items()},
        **{f"busy_{pipe}": ratio for pipe, ratio in row.get("pipes", {}).items()},
        "band_low_us": low,
        "band_high_us": high,
        "tasks": " ".join(task["name"] for task in row.get("tasks", ())),
        "arguments": json.dumps(row["arguments"]),
    }


def summary_table(rows: Iterable[Row]) -> Table:
    """One line for each operator and chip: how many points, how they went, the range of times."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["op"], row["soc"]), []).append(row)
    told = []
    for (op, soc), members in groups.items():
        times = [row["duration_us"] for row in members if row["status"] == "ok"]
        spread = [latency(pick(times)) for pick in (min, median, max)] if times else [""] * 3
        counts = [str(count) for count in statuses(members).values()]
        told.append((op, soc, str(len(members)), *counts, *spread))
    numbers = ("points", "ok", "rejected", "unknown", "error", "fastest", "median", "slowest")
    return Table(("operator", "SoC", *numbers), told, numbers)


def sweep_page(
    rows: Sequence[Row], axes: Sequence[str], over: tuple[str, str], spec: str, command: str = ""
) -> Page:
    """What the points take: the fastest and the slowest, the figure, and every one of them.

    `over` are the variables to draw over, empty for those with the most values.
    """
    points = [_point_row(row, axes) for row in rows]
    columns = (*(("operator", "SoC")), *axes, "status", "latency (80 % band)", "bound by")
    every = Table(columns, points, ("latency (80 % band)",), sortable=True)
    sections = [
        Section("Pictures", list(figures_of(rows, axes, over)), detail=True),
        Section("By operator and product", [summary_table(rows)]),
        Section("Every point", [every], detail=True),
        Section("Do it again", [Code(command)] if command else [], detail=True),
    ]
    return Page(
        say("{spec}: how long does each take?").format(spec=spec),
        say("over {axes}").format(axes=", ".join(axes)) if axes else "",
        verdicts=list(_verdicts(rows)),
        sections=[each for each in sections if each.blocks],
        footer=say("Made by npusim {version}. Times are estimates with their 80 % bands.").format(
            version=npusim.__version__
        ),
    )


def _verdicts(rows: Sequence[Row]) -> Iterator[Verdict]:
    """The range of times of each operator, and what has none."""
    counts = statuses(rows)
    for op in dict.fromkeys(row["op"] for row in rows):
        timed = [row for row in rows if row["op"] == op and row["status"] == "ok"]
        if timed:
            ends = [pick(timed, key=lambda row: row["duration_us"]) for pick in (min, max)]
            fast, slow = ((latency(row["duration_us"]), _where(row)) for row in ends)
            told = say("{op}: {fast} at least ({where_fast}), {slow} at most ({where_slow}).")
            yield Verdict(
                told.format(
                    op=op, fast=fast[0], where_fast=fast[1], slow=slow[0], where_slow=slow[1]
                ),
                "good",
            )
    if missing := len(rows) - counts["ok"]:
        told = say("{missing} of {rows} points have no time: {why}.")
        words = (f"{many} {say(word)}" for word, many in counts.items() if many and word != "ok")
        yield Verdict(
            told.format(missing=missing, rows=len(rows), why=", ".join(words)),
            "bad" if counts["ok"] == 0 else "changed",
        )


def _where(row: Row) -> str:
    return " ".join([row["soc"], *(f"{name}={cell(each)}" for name, each in row["axes"].items())])


def _point_row(row: Row, axes: Sequence[str]) -> tuple[str, ...]:
    values = (cell(row["axes"][name]) if name in row["axes"] else "" for name in axes)
    time = latency(row["duration_us"], row["band_us"]) if row["status"] == "ok" else ""
    code = row.get("code")
    status = row["status"] if row["status"] == "ok" or not code else f"{row['status']} ({code})"
    return (row["op"], row["soc"], *values, status, time, row.get("bound") or "")


def statuses(rows: Iterable[Row]) -> dict[str, int]:
    """How many rows are ok, rejected by the product, not modelled, and without an answer."""
    counts = {"ok": 0, "rejected": 0, "unknown": 0, "error": 0}
    for row in rows:
        counts[row["status"]] += 1
    return counts
