"""A report as data: what it says first, and its sections, whatever file it becomes.

HTML and Markdown are two renderings of one :class:`Page`, so that they can't say different things.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Tone = Literal["good", "bad", "open"]


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str
    kind: Literal["text"] = "text"


@dataclass(frozen=True)
class Bullets:
    """A list of sentences."""

    items: Sequence[str]
    kind: Literal["bullets"] = "bullets"


@dataclass(frozen=True)
class Code:
    """Something to copy."""

    text: str
    kind: Literal["code"] = "code"


@dataclass(frozen=True)
class Table:
    """Rows below column heads; `numbers` names the columns of numbers, which stand to the right.

    `chosen` is the row to look at first, if there is one.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers: Sequence[str] = ()
    caption: str = ""
    chosen: int | None = None
    kind: Literal["table"] = "table"


@dataclass(frozen=True)
class Figure:
    """An SVG, the words for those who can't see it, and what to see in it."""

    svg: str
    label: str
    caption: str
    wide: bool = False
    kind: Literal["figure"] = "figure"


Block = Text | Bullets | Code | Table | Figure


@dataclass(frozen=True)
class Section:
    """A heading and what stands below it."""

    title: str
    blocks: Sequence[Block]

    @property
    def anchor(self) -> str:
        """The section's id in a page."""
        return "-".join(self.title.lower().replace(",", "").split())


@dataclass(frozen=True)
class Verdict:
    """The answer in one line, and whether it is a good one."""

    text: str
    tone: Tone = "open"


@dataclass(frozen=True)
class Page:
    """A whole report: title, verdicts, a few facts in words and numbers, sections, where from."""

    title: str
    subtitle: str
    verdicts: Sequence[Verdict]
    facts: Sequence[tuple[str, str]]
    sections: Sequence[Section]
    footer: str
