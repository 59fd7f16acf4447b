"""The catalogue as a file: the matrix of operators and products, and the one-page summary."""

from __future__ import annotations

import csv
import html
import io
from typing import TYPE_CHECKING

from npusim.catalogue.verdicts import Answer
from npusim.hardware.families import plural
from npusim.report import jsonout
from npusim.report.catalogue import cell, entry_json

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from npusim.catalogue.facts import Source
    from npusim.catalogue.queries import Disagreement, Entry, FamilySummary, MatrixRow

SUMMARY_COMMAND = "npusim ops summary -o reports/catalogue.md"
_COLOURS = {Answer.SUPPORTED: "#d8f0d8", Answer.REJECTED: "#f6dcdc", Answer.UNKNOWN: "#f7f0cf"}


def as_csv(rows: Sequence[MatrixRow]) -> str:
    """One line per API and family, with every column."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    names = ("operator", "family", "by_page", "by_operator_information", "verdict")
    writer.writerow((*names, "dtypes", "doubted_dtypes"))
    for row in rows:
        for each in row.entries:
            said = (each.by_page, each.by_operator, each.answer)
            lists = (" ".join(each.dtypes), " ".join(each.doubted))
            writer.writerow((each.api, each.family, *map(str, said), *lists))
    return stream.getvalue()


def as_json(rows: Sequence[MatrixRow]) -> str:
    """A list with one object per API and family."""
    return jsonout.dumps([entry_json(each) for row in rows for each in row.entries]) + "\n"


def as_markdown(rows: Sequence[MatrixRow]) -> str:
    """A table with a line per API and a column per family."""
    families = _families(rows)
    lines = [_line(("operator", *families)), _line(["---"] * (len(families) + 1))]
    lines += [_line((row.api, *(cell(each) for each in row.entries))) for row in rows]
    return "\n".join(lines) + "\n"


def as_html(rows: Sequence[MatrixRow]) -> str:
    """A page of its own; the dtypes are in the tooltips, and a box narrows the list down."""
    heads = "".join(f"<th>{html.escape(plural(name))}</th>" for name in _families(rows))
    body = "\n".join(_html_row(row) for row in rows)
    return _PAGE.format(count=len(rows), heads=heads, body=body)


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
    lines = [
        "# What runs where",
        "",
        f"Made by `{SUMMARY_COMMAND}`; `--check` compares this file with the catalogue.",
        "",
        _line(_COUNTED),
        _line(["---", *["---:"] * (len(_COUNTED) - 1)]),
    ]
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
        lines.append(_line((f"{plural(row.family)} ({row.family})", *told)))
    lines += ["", *_EXPLANATION, "", "## Where the simulated operators differ", ""]
    columns = ("operator", "product", "about", "contract", "catalogue", "why")
    lines += [_line(columns), _line(["---"] * len(columns))]
    for each in disagreements:
        family = "all of its page" if each.family == "*" else each.family
        said = (each.about, each.contract, each.catalogue, each.reason)
        lines.append(_line((each.operator, family, *said)))
    lines += ["", "## Sources", ""]
    lines += [f"- {_source(source)}" for source in sources]
    return "\n".join(lines) + "\n"


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
    "- *by page*: the current operator pages (August 2026) list the product, and BFLOAT16 for it.",
    "- *after checking*: BFLOAT16 is dropped where host code keeps it off the product, or where",
    "  no kernel of CANN 8.1 takes it and host code doesn't accept it everywhere. This column",
    "  predicts what happens; a bare BFLOAT16 on a page of an older product often doesn't.",
    "- *beyond its pages*: the page leaves the product out, but the API and its kernels are in",
    "  CANN 8.1, or the reference page of CANN 8.0 has it. Undocumented, and likely to run.",
    "- *AI Core operators*: the operator information of CANN 8.1.RC1; it has none for Ascend 950.",
    "  Operators that choose their dtypes when they are compiled are counted without BFLOAT16.",
)


def _source(source: Source) -> str:
    commit = f" at {source.commit[:8]}" if source.commit else ""
    date = f" ({source.date})" if source.date else ""
    return f"{source.repository}, {source.ref}{commit}{date}: {source.what}"


def _families(rows: Sequence[MatrixRow]) -> list[str]:
    return [each.family for each in rows[0].entries] if rows else []


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _html_row(row: MatrixRow) -> str:
    cells = "".join(_html_cell(each) for each in row.entries)
    return f"<tr><th>{html.escape(row.api)}</th>{cells}</tr>"


def _html_cell(each: Entry) -> str:
    doubted = f" (doubted: {' '.join(each.doubted)})" if each.doubted else ""
    hint = html.escape(f"{' '.join(each.dtypes)}{doubted}", quote=True)
    return f'<td style="background:{_COLOURS[each.answer]}" title="{hint}">{cell(each)}</td>'


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>aclnn operators by product</title>
<style>
body {{ font: 14px/1.4 system-ui, sans-serif; margin: 2em; }}
table {{ border-collapse: collapse; }}
th, td {{ padding: 2px 8px; border: 1px solid #ddd; text-align: left; }}
thead th {{ position: sticky; top: 0; background: #fff; }}
</style></head><body>
<h1>aclnn operators by product</h1>
<p>{count} operators. Hover over a cell for its dtypes.
<input placeholder="part of a name"
oninput="for (const row of document.querySelectorAll('tbody tr'))
row.hidden = !row.innerText.toLowerCase().includes(this.value.toLowerCase())"></p>
<table><thead><tr><th>operator</th>{heads}</tr></thead><tbody>
{body}
</tbody></table></body></html>
"""
