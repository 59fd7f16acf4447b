"""A page as one HTML file that needs nothing else, or as Markdown: two templates."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import jinja2

    from npusim.report.document import Page


def to_html(page: Page) -> str:
    """The page as HTML: styles and figures inside, no script, nothing fetched from anywhere."""
    return _environment().get_template("page.html.j2").render(page=page)


def to_markdown(page: Page) -> str:
    """The page as Markdown; of a figure only what is to be seen in it."""
    text = _environment().get_template("page.md.j2").render(page=page)
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


@lru_cache(maxsize=1)
def _environment() -> jinja2.Environment:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=jinja2.select_autoescape(["html.j2"], default=False),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["cell"] = _cell
    return environment


def _cell(text: str) -> str:
    """A cell of a Markdown table: one line, and no bar of its own."""
    return " ".join(text.split()).replace("|", "\\|")
