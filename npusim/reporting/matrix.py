"""The catalogue as a file: the matrix of operators and products, and the one-page summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from npusim.hardware.families import plural
from npusim.reporting.catalogue import cell, entry_json, matrix_table
from npusim.reporting.csvfile import csv_text
from npusim.reporting.document import Bullets, Figure, Page, Section, Table, Text, Verdict
from npusim.reporting.renderers import jsonout
from npusim.reporting.renderers.html import to_html, to_markdown
from npusim.reporting.spelling import count
from npusim.values.drawing import SERIES, axes_of, draw, name_rows
from npusim.values.language import say

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

    from npusim.catalogue.facts import Source
    from npusim.catalogue.queries import Disagreement, FamilySummary, MatrixRow

_CELLS = ("yes, BF16", "no", "unknown")
SUMMARY_COMMAND = "npusim ops summary -o reports/catalogue.md"


def as_csv(rows: Sequence[MatrixRow]) -> str:
    """One line per API and family, with every column."""
    names = ("operator", "family", "by_page", "by_operator_information", "verdict")
    entries = (each for row in rows for each in row.entries)
    return csv_text(
        (*names, "dtypes", "doubted_dtypes"),
        (
            (
                *(each.api, each.family),
                *map(str, (each.by_page, each.by_operator, each.answer)),
                *(" ".join(each.dtypes), " ".join(each.doubted)),
            )
            for each in entries
        ),
    )


def as_json(rows: Sequence[MatrixRow]) -> str:
    """A list with one object per API and family."""
    return jsonout.dumps([entry_json(each) for row in rows for each in row.entries]) + "\n"


def as_markdown(rows: Sequence[MatrixRow]) -> str:
    """A table with a line per API and a column per family."""
    return to_markdown(matrix_page(rows))


def as_html(rows: Sequence[MatrixRow]) -> str:
    """The same as a page to search and to sort, with the dtypes in the tooltips."""
    return to_html(matrix_page(rows))


def matrix_page(rows: Sequence[MatrixRow]) -> Page:
    """How many interfaces each product offers, and every one of them."""
    found: dict[str, Counter[str]] = {}
    for entry in (entry for row in rows for entry in row.entries):
        found.setdefault(entry.family, Counter())[cell(entry)] += 1
    offered = {family: each["yes"] + each["yes, BF16"] for family, each in found.items()}
    numbers = ("yes", *_CELLS)
    counts = [
        (family, plural(family), str(offered[family]), *(str(each[word]) for word in _CELLS))
        for family, each in found.items()
    ]
    by_product = Table(("family", "product", *numbers), counts, numbers, wide=("product",))
    hint = Text(say("Type words to search, press a head to sort, point at a cell for dtypes."))
    every = matrix_table(rows, say("By product: yes, no or unknown"), sortable=True)
    most = max(found, key=lambda family: offered[family])
    told = say("{rows} aclnn interfaces; most of them on {family}: {offered}, {bf16} with BF16.")
    verdict = told.format(
        rows=count(len(rows)),
        family=say(plural(most)),
        offered=count(offered[most]),
        bf16=count(found[most]["yes, BF16"]),
    )
    sections = [
        Section("By product", [_offers_figure(found), by_product]),
        Section("Every interface", [hint, every]),
    ]
    return Page(
        "aclnn interfaces by product", verdicts=[Verdict(verdict, "good")], sections=sections
    )


def _offers_figure(found: Mapping[str, Counter[str]]) -> Figure:
    """How many interfaces are offered on each product, with BF16 and without."""

    def paint(drawing: Drawing) -> None:
        axes = axes_of(drawing, say("aclnn interfaces"))
        ends = [0] * len(found)
        words = ("yes, BF16", "yes", "unknown", "no")
        for word, colour in zip(words, (SERIES[2], SERIES[0], SERIES[4], SERIES[7]), strict=True):
            widths = [each[word] for each in found.values()]
            axes.barh(range(len(found)), widths, left=ends, color=colour, height=0.6, label=word)
            ends = [end + width for end, width in zip(ends, widths, strict=True)]
        name_rows(axes, [plural(family) for family in found])
        drawing.legend(loc="outside lower center", ncols=4)

    drawn = draw("offers", paint, height_inches=1.5 + 0.3 * len(found), width_inches=9.0)
    caption = say("What the pages of interfaces and the operators of CANN say.")
    return Figure(drawn, "Interfaces by product", caption, wide=True)


FORMATS: dict[str, Callable[[Sequence[MatrixRow]], str]] = {
    "csv": as_csv,
    "json": as_json,
    "markdown": as_markdown,
    "html": as_html,
}


def summary_page(
    rows: Sequence[FamilySummary],
    sources: Sequence[Source],
    disagreements: Sequence[Disagreement],
) -> str:
    """Operators and BF16 by product on one page of Markdown."""
    counts = []
    for row in rows:
        numbers = (
            row.apis_by_page,
            row.bf16_by_page,
            row.bf16_checked,
            row.apis_beyond_pages,
            row.operators,
            row.operators_bf16,
        )
        told = ("-" if number is None else str(number) for number in numbers)
        counts.append((f"{plural(row.family)} ({row.family})", *told))
    differing = []
    for each in disagreements:
        family = "all of its page" if each.family == "*" else each.family
        said = (each.about, each.contract, each.catalogue, each.reason)
        differing.append((each.operator, family, *said))
    columns = ("operator", "product", "about", "contract", "catalogue", "why")
    made = Text(f"Made by `{SUMMARY_COMMAND}`; `--check` compares this file with the catalogue.")
    sections = [
        Section("", [made, Table(_COUNTED, counts, _COUNTED[1:]), Bullets(_EXPLANATION)]),
        Section("Where the simulated operators differ", [Table(columns, differing)]),
        Section("Sources", [Bullets([_source(source) for source in sources])]),
    ]
    return to_markdown(Page("What runs where", sections=sections))


_COUNTED = (
    "product",
    "APIs on its pages",
    "of these with BF16 by page",
    "with BF16 after checking",
    "APIs beyond its pages",
    "AI Core operators (8.1)",
    "of these with BF16",
)
_EXPLANATION = (
    "*by page*: the current operator pages (August 2026) list the product, and BFLOAT16 for it.",
    (
        "*after checking*: BFLOAT16 is dropped where host code keeps it off the product, or where "
        "no kernel of CANN 8.1 takes it and host code doesn't accept it everywhere. This column "
        "predicts what happens; a bare BFLOAT16 on a page of an older product often doesn't."
    ),
    (
        "*beyond its pages*: the page leaves the product out, but the API and its kernels are in "
        "CANN 8.1, or the reference page of CANN 8.0 has it. Undocumented, and likely to run."
    ),
    (
        "*AI Core operators*: the operator information of CANN 8.1.RC1; it has none for Ascend "
        "950. Operators that choose their dtypes when they are compiled are counted without "
        "BFLOAT16."
    ),
)


def _source(source: Source) -> str:
    commit = f" at {source.commit[:8]}" if source.commit else ""
    date = f" ({source.date})" if source.date else ""
    return f"{source.repository}, {source.ref}{commit}{date}: {source.what}"
