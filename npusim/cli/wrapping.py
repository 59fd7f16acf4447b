"""Help in a language whose letters are two columns wide and which has no spaces between words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any
from unicodedata import east_asian_width

from npusim.values.language import say

if TYPE_CHECKING:
    Formatter = Any  # typer brings its own copy of click, or takes the real one
else:
    from typer import core

    Formatter = getattr(core, "_click", getattr(core, "click", None)).HelpFormatter

# Words, spaces, and single wide letters with what mustn't begin a line after them.
_WIDE = "\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef"
_ENDS = "\uff0c\u3002\uff1b\uff1a\u3001\uff01\uff1f\uff09\u201d\u300b"
_PIECE = re.compile(rf"[{_WIDE}][{_ENDS}]*|[^\s{_WIDE}{_ENDS}]+[{_ENDS}]*|\s+")
_FIRST = 30  # columns of what stands before a meaning, at most
_BESIDE = 2
_NARROWEST = 10


def width(text: str) -> int:
    """Columns of a terminal."""
    return sum(1 + (east_asian_width(letter) in "WF") for letter in text)


def wrapped(text: str, columns: int) -> Iterator[str]:
    """The lines of a paragraph."""
    line = ""
    for piece in _PIECE.findall(text.strip()):
        if line and width(line + piece.rstrip()) > columns:
            yield line.rstrip()
            line = ""
        line += piece if line or piece.strip() else ""
    if line.strip():
        yield line.rstrip()


class WideFormatter(Formatter):  # type: ignore[misc]
    """Writes help as typer does, by columns in place of letters."""

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
        """The line that shows how a verb is called."""
        super().write_usage(prog, args, say("Usage: ") if prefix is None else prefix)

    def write_text(self, text: str) -> None:
        """Paragraphs; one that begins with a backspace keeps its lines."""
        indent = " " * self.current_indent
        parts = []
        for paragraph in text.split("\n\n"):
            first, *rest = paragraph.split("\n")
            if first.strip() == "\b":
                lines: Iterable[str] = rest
            else:
                joined = re.sub(r"(?<=[^\x00-\x7f])\n(?=[^\x00-\x7f])", "", paragraph)
                lines = wrapped(joined.replace("\n", " "), self.width - len(indent))
            parts.append("\n".join(indent + line for line in lines))
        self.write("\n\n".join(parts) + "\n")

    def write_dl(
        self, rows: Sequence[tuple[str, str]], col_max: int = _FIRST, col_spacing: int = _BESIDE
    ) -> None:
        """Names and their meanings beside each other."""
        rows = list(rows)
        first = min(max(width(name) for name, _meaning in rows), col_max) + col_spacing
        indent = " " * self.current_indent
        for name, meaning in rows:
            columns = max(self.width - first - len(indent), _NARROWEST)
            lines = list(wrapped(meaning, columns))
            beside = width(name) <= first - col_spacing
            if beside and lines:
                self.write(f"{indent}{name}{' ' * (first - width(name))}{lines.pop(0)}\n")
            else:
                self.write(f"{indent}{name}\n")
            for line in lines:
                self.write(f"{indent}{' ' * first}{line}\n")
