"""A page as one HTML file that needs nothing else, or as Markdown: two templates."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from npusim.values.language import say, shown, spoken
from npusim.values.spelling import visible

if TYPE_CHECKING:
    import jinja2

    from npusim.reporting.document import Page


_TAG = re.compile(r"<(?=[A-Za-z/!?])")
# What makes a link of [text](address), [text][name] or [name]: address, unless it is escaped: what
# a macro gives is looked at once more.
_LINK = re.compile(r"(?<!\\)((?:\\\\)*)\](?=[(:\[])")


def to_html(page: Page) -> str:
    """The page as HTML: styles and figures inside, no script, nothing fetched from anywhere."""
    return _environment(_shown).get_template("page.html.j2").render(page=page)


def to_markdown(page: Page) -> str:
    """The page as Markdown, without HTML or links; of a figure only what is to be seen in it."""
    text = _environment(_plain).get_template("page.md.j2").render(page=page)
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


class _Code(str):
    """Lines between fences, where nothing is HTML."""

    __slots__ = ()


def _shown(value: object) -> object:
    """Text in the language that is spoken, and with its control characters written out.

    Names come from files of anybody.
    """
    if not isinstance(value, str):
        return value
    if isinstance(value, _Code) or hasattr(value, "__html__"):
        return type(value)(visible(value))
    return visible(shown(value))


def _plain(value: object) -> object:
    value = _shown(value)
    is_text = isinstance(value, str) and not isinstance(value, _Code)
    return _LINK.sub(r"\1\\]", _TAG.sub("&lt;", str(value))) if is_text else value


def _fenced(text: str) -> _Code:
    """The text between fences that are longer than any in it."""
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return _Code(f"{fence}sh\n{text}\n{fence}")


@lru_cache(maxsize=2)
def _environment(finalize: Callable[[object], object]) -> jinja2.Environment:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=jinja2.select_autoescape(["html.j2"], default=False),
        undefined=jinja2.StrictUndefined,
        finalize=finalize,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.globals |= {"say": say, "spoken": spoken}
    environment.filters |= {"cell": _cell, "fenced": _fenced}
    return environment


def _cell(text: str) -> str:
    """A cell of a Markdown table: one line, and no bar of its own."""
    return " ".join(shown(text).split()).replace("|", "\\|")
