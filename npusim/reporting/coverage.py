"""How much of the aclnn interface runs here: one page for the terminal and for Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from npusim.hardware.families import plural
from npusim.operators.coverage import Covered, Depth, counted
from npusim.reporting.document import Bullets, Page, Section, Table, Text
from npusim.reporting.renderers.html import to_markdown

PROGRAMS = "reports/data/aclnn_programs.csv"
COMMAND = f"npusim ops coverage --programs {PROGRAMS} -o reports/aclnn.md"
_SHOWN = "Ascend910B3"  # whose programs have a line each
_RUN = "run"  # the outcome of a row that counts


def coverage_tables(rows: Sequence[Covered]) -> tuple[Table, Table]:
    """By product family, and by the folder that the pages stand in."""
    families = {f"{plural(name)} ({name})": row for name, row in counted(rows, "family").items()}
    folders = counted(_once(rows), "folder")
    return _table("product", families), _table("folder of the page", folders)


def coverage_page(rows: Sequence[Covered], programs: Sequence[Mapping[str, str]] = ()) -> str:
    """The tables, and every interface that doesn't run or not in all modes, in Markdown.

    ``programs`` are what became of example programs, as benchmarks/programs.py keeps it: those that
    don't run have a line each.
    """
    lacking = [f"{row.api}: {row.why}" for row in _once(rows) if row.depth is Depth.CHECKED]
    partly = sorted({f"{row.api}: only {row.only}" for row in rows if row.only})
    by_family, by_folder = coverage_tables(rows)
    intro = (
        f"Made by `{COMMAND}`. An interface counts for a product whose page lists it; what is "
        "checked only is judged by its page, and its C function returns 561003 and says why."
    )
    sections = [
        Section("", [Text(intro), by_family]),
        Section("By folder", [by_folder]),
        Section("What runs in one mode of several", [Bullets(partly)]),
        Section("What doesn't run", [Bullets(lacking)]),
        *_program_sections(programs),
    ]
    return to_markdown(Page("The aclnn interfaces that run", sections=sections))


def _program_sections(programs: Sequence[Mapping[str, str]]) -> Iterator[Section]:
    """How many example programs run on each chip, and why the others of one chip don't."""
    counts = [row for row in programs if row["outcome"] == _RUN]
    if not counts:
        return
    intro = (
        "The programs that the vendor publishes for the interfaces (`test_aclnn_*.cpp` under the "
        "examples of ops-nn, ops-math and ops-cv), unmodified, to their end and without a refused "
        "call. Made by `benchmarks/programs.py --csv`; a count is of the day that it was taken."
    )
    table = Table(
        ("chip", "programs that run", "taken"),
        [(row["product"], row["reason"], row["taken"]) for row in counts],
        ("programs that run",),
    )
    yield Section("Example programs", [Text(intro), table])
    lost = [row for row in programs if row["product"] == _SHOWN and row["outcome"] != _RUN]
    lines = sorted({f"{row['interface']} ({row['program']}): {row['reason']}" for row in lost})
    yield Section(f"Example programs that don't run on {_SHOWN}", [Bullets(lines)])


def coverage_json(rows: Sequence[Covered]) -> list[dict[str, Any]]:
    """One object for each interface and family."""
    return [
        {
            "api": row.api,
            "family": row.family,
            "folder": row.folder,
            "runs": row.depth.value,
            "why": row.why,
            "only": row.only,
        }
        for row in rows
    ]


def _once(rows: Sequence[Covered]) -> list[Covered]:
    """Each interface for the first family that has it."""
    return list({row.api: row for row in reversed(rows)}.values())[::-1]


def _table(name: str, counts: Mapping[str, Counter[Depth]]) -> Table:
    columns = (name, "interfaces", *(depth.value for depth in Depth))
    rows = [
        (each, str(count.total()), *(str(count[depth]) for depth in Depth))
        for each, count in counts.items()
    ]
    total: Counter[Depth] = sum(counts.values(), Counter())
    if name != "product":
        rows.append(("all", str(total.total()), *(str(total[depth]) for depth in Depth)))
    return Table(columns, rows, columns[1:])
