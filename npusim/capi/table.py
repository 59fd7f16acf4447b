"""The table that `npusim exec` prints below a program's own output."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from npusim.capi.running import Run
    from npusim.reporting.document import Table


def run_table(run: Run) -> Table:
    """One row for each call; calls that don't differ share one, with their number."""
    from npusim.reporting.call.tables import BAND_COLUMN
    from npusim.reporting.document import Table
    from npusim.reporting.spelling import count, latency

    columns = ("operator", "calls", "shapes", "dtypes", BAND_COLUMN, "cycles", "bound by")
    numbers = ("calls", BAND_COLUMN, "cycles")
    rows = []
    groups: dict[tuple[str, str, str, int], list[dict[str, Any]]] = {}
    for call in run.calls:
        kinds = dict.fromkeys(str(each["dtype"]) for each in call["tensors"].values())
        key = (call["op"], _shapes(call["tensors"]), ", ".join(kinds), call["cycles"])
        groups.setdefault(key, []).append(call)
    for (op, shapes, dtypes, cycles), calls in groups.items():
        low_us, high_us = calls[0]["band_us"]
        time = latency(calls[0]["duration_us"], (low_us, high_us))
        bound = str(calls[0]["bound"])
        rows.append((op, str(len(calls)), shapes, dtypes, time, count(cycles), bound))
    return Table(columns, rows, numbers, f"on {run.soc}", ("shapes",))


def _shapes(tensors: dict[str, dict[str, Any]]) -> str:
    """Inputs, an arrow, outputs."""
    return " -> ".join(
        _counted([str(t["shape"]).replace(" ", "") for t in tensors.values() if t["io"] == io])
        for io in ("in", "out")
    )


def _counted(words: list[str]) -> str:
    """Words, with a number before those that follow each other."""
    groups = [(word, len(list(same))) for word, same in groupby(words)]
    return " ".join(word if count == 1 else f"{count}x{word}" for word, count in groups)
