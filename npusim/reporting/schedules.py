"""Our schedules beside those of projects: a page, rows as CSV, and plain numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import npusim
from npusim.reporting.call.typical import spelled
from npusim.reporting.csvfile import csv_text
from npusim.reporting.document import Code, Page, Section, Table, Verdict
from npusim.reporting.spelling import count, latency, percent, significant
from npusim.validation.schedules import agreement
from npusim.values.language import say

if TYPE_CHECKING:
    from npusim.validation.schedules import Compared

_ALIKE = 0.95  # the share of an operator's calls above which its blocks are as the project's
_COLUMNS = (
    "op", "soc", "call", "blocks", "project_blocks", "tiles", "project_tiles", "duration_us",
    "project_duration_us", "ratio", "reason",
)  # fmt: skip


def schedules_csv(rows: Sequence[Compared]) -> str:
    """Every call: blocks, tiles copied in, microseconds, of npusim and of the project."""
    return csv_text(_COLUMNS, map(_cells, rows))


def _cells(each: Compared) -> tuple[object, ...]:
    own, other = each.own, each.other
    theirs = (other.blocks, other.tiles, other.duration_us) if other else ("", "", "")
    pairs = zip((own.blocks, own.tiles, own.duration_us), theirs, strict=True)
    numbers = [number for pair in pairs for number in pair]
    ratio = "" if each.ratio is None else f"{each.ratio:.4g}"
    return (each.op, each.soc, _call(each.arguments), *numbers, ratio, each.reason)


def schedules_json(rows: Sequence[Compared]) -> dict[str, Any]:
    """Shares of alike calls by operator, and the calls, as plain numbers."""
    found = {name: agreement(each) for name, each in _by_operator(rows).items()}
    return {
        "operators": {name: each and each._asdict() for name, each in found.items()},
        "calls": [dict(zip(_COLUMNS, _cells(each), strict=True)) for each in rows],
    }


def schedules_page(rows: Sequence[Compared], worst: int, command: str = "") -> Page:
    """How many calls of each operator are alike, and those where something differs."""
    found = _by_operator(rows)
    apart = [each for each in rows if each.other and not each.is_alike]
    apart.sort(key=lambda each: (each.same_blocks, each.same_tiles))
    shown = [row for of in _by_operator(apart).values() for row in of[:worst]]
    sections = [
        Section("operators", [_operators(found)]),
        Section("where they differ", [_differences(shown)] if shown else []),
        Section("do it again", [Code(command)] if command else [], detail=True),
    ]
    return Page(
        say("Schedules beside those of projects"),
        verdicts=[_verdict(found)],
        sections=[each for each in sections if each.blocks],
        footer=say(
            "Made by npusim {version}. Tiles are copies from global memory by all cores."
        ).format(version=npusim.__version__),
    )


def _verdict(found: Mapping[str, Sequence[Compared]]) -> Verdict:
    each = [told for rows in found.values() if (told := agreement(rows))]
    alike = sum(told.blocks >= _ALIKE for told in each)
    words = say("{alike} of {count} operators have the project's number of blocks").format(
        alike=count(alike), count=count(len(each))
    )
    return Verdict(f"{words}.", "good" if each and alike == len(each) else "open")


def _operators(found: Mapping[str, Sequence[Compared]]) -> Table:
    numbers = ("calls", "refused", "same blocks", "same tiles", "time within 10 %", "ours/theirs")
    rows: list[Sequence[str]] = []
    for name, calls in found.items():
        told = agreement(calls)
        if told is None:
            rows.append((name, count(len(calls)), count(len(calls)), "", "", "", ""))
            continue
        shares = map(percent, (told.blocks, told.tiles, told.times))
        counts = (count(told.calls), count(told.refused))
        rows.append((name, *counts, *shares, significant(told.median_ratio)))
    return Table(("operator", *numbers), rows, numbers)


def _differences(rows: Sequence[Compared]) -> Table:
    numbers = ("blocks", "theirs", "tiles", "their tiles", "time", "their time")
    cells = []
    for each in rows:
        own, other = each.own, each.other
        if other is None:
            continue
        counts = map(count, (own.blocks, other.blocks, own.tiles, other.tiles))
        times = map(latency, (own.duration_us, other.duration_us))
        cells.append((each.op, *counts, *times, _call(each.arguments)))
    return Table(("operator", *numbers, "call"), cells, numbers, wide=("call",))


def _call(arguments: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={text}" for name, text in spelled(arguments).items())


def _by_operator(rows: Iterable[Compared]) -> dict[str, list[Compared]]:
    found: dict[str, list[Compared]] = {}
    for each in rows:
        found.setdefault(each.op, []).append(each)
    return found
