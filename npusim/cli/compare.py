"""`npusim compare`: two results that were kept, side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from npusim.cli import output
from npusim.cli.options import AsJson, Figures, Force, Html
from npusim.cli.pages import Files, retold

if TYPE_CHECKING:
    from npusim.reporting.side_by_side import Result

Old = Annotated[
    Path,
    typer.Argument(
        metavar="OLD",
        help="What estimate, model, llm step, llm serve or plan printed with --json, or the .jsonl "
        "file of a sweep.",
    ),
]
New = Annotated[Path, typer.Argument(metavar="NEW", help="Another of the same verb.")]


def compare(
    context: typer.Context,
    old: Old,
    new: New,
    html: Html = None,
    figures: Figures = None,
    as_json: AsJson = False,
    force: Force = False,
) -> None:
    """What changed between two results that were kept? Numbers side by side, and why.

    `npusim judge --against` compares two profiles, `npusim report --against` asks anew. Exit code
    0 whatever changed.

    Example: npusim compare old.json new.json --html changes.html
    """
    from npusim.reporting.side_by_side import compared, compared_page, comparison_json

    files = Files(html, figures, force)
    files.claim(beside=dict.fromkeys((old, new)))
    found = compared(_read(old), _read(new))
    page = compared_page(found, retold(context, "compare"))
    files.write(page)
    if as_json:
        output.emit_json(comparison_json(found))
    else:
        output.emit(page)


def _read(path: Path) -> Result:
    """A file of results, whichever verb wrote it."""
    from npusim.reading.files import read_text
    from npusim.reading.markup import json_value
    from npusim.reporting.side_by_side import read_result

    if path.suffix.lower() == ".jsonl":
        from npusim.sweeping.results import read_rows

        return read_result(list(read_rows(path)), path)
    return read_result(json_value(read_text(path), path), path)
