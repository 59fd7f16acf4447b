"""A report as data: what it says first, and its sections, whatever medium shows it.

The terminal, HTML and Markdown are renderings of one :class:`Page`, so that they can't say
different things; `renderers` has one module for each medium.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal, Self

from npusim.hardware.naming import caution_of

if TYPE_CHECKING:
    from npusim.values.drawing import Drawing

Tone = Literal["good", "bad", "open", "changed", "soft"]


class Toned(str):
    """A cell or a line with a tone, shown as a colour, and what a page says on pointing at it."""

    __slots__ = ("hint", "tone")

    tone: Tone
    hint: str

    def __new__(cls, text: str, tone: Tone, hint: str = "") -> Self:
        """`text`, and how good or bad it is."""
        made = super().__new__(cls, text)
        made.tone, made.hint = tone, hint
        return made


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
class Facts:
    """Names and values below each other."""

    pairs: Sequence[tuple[str, str]]
    kind: Literal["facts"] = "facts"


@dataclass(frozen=True)
class Code:
    """Something to copy."""

    text: str
    kind: Literal["code"] = "code"


@dataclass(frozen=True)
class Table:
    """Rows below column heads; `numbers` names the columns of numbers, which stand to the right.

    `wide` names the columns of words, which a narrow medium may wrap; `chosen` is the row to look
    at first, if there is one. A `sortable` table is for looking things up: a page can search and
    sort it.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers: Sequence[str] = ()
    caption: str = ""
    wide: Sequence[str] = ()
    chosen: int | None = None
    sortable: bool = False
    kind: Literal["table"] = "table"


@dataclass(frozen=True)
class Figure:
    """An SVG, the words for those who can't see it, and what to see in it.

    It is drawn for media that show it, with its label as the title, so that it can stand alone;
    `table` has the same in numbers for the others.
    """

    drawing: Drawing
    label: str
    caption: str
    wide: bool = False
    table: Table | None = None
    kind: Literal["figure"] = "figure"

    @cached_property
    def svg(self) -> str:
        """The drawing in a page."""
        return self.drawing.embedded(self.label)


Block = Text | Bullets | Facts | Code | Table | Figure


@dataclass(frozen=True)
class Section:
    """A heading (or none) and what stands below it; a terminal leaves out a `detail`."""

    title: str
    blocks: Sequence[Block]
    detail: bool = False

    @property
    def anchor(self) -> str:
        """The section's id in a page."""
        return "-".join(self.title.lower().replace(",", "").split())


@dataclass(frozen=True)
class Verdict:
    """The answer in one line, whether it is a good one, and what it rests on in some more."""

    text: str
    tone: Tone = "open"
    why: str = ""

    @property
    def words(self) -> str:
        """Both, for media without boxes."""
        return f"{self.text} {self.why}".strip()


@dataclass(frozen=True)
class Page:
    """A whole report: title, verdicts, a few facts in words and numbers, sections, where from."""

    title: str
    subtitle: str = ""
    verdicts: Sequence[Verdict] = ()
    facts: Sequence[tuple[str, str]] = ()
    sections: Sequence[Section] = ()
    footer: str = ""

    @property
    def has_sortable(self) -> bool:
        """Whether a table of it is for looking things up."""
        every = (block for section in self.sections for block in section.blocks)
        return any(isinstance(block, Table) and block.sortable for block in every)


def cautions(socs: Iterable[str]) -> Iterator[Verdict]:
    """What to say beside an answer where the name of a chip may stand for another one."""
    for soc in dict.fromkeys(socs):
        if text := caution_of(soc):
            yield Verdict(text, "open")


def bullets(title: str, lines: Sequence[str]) -> list[Section]:
    """A section of sentences, if there are any."""
    return [Section(title, [Bullets(lines)])] if lines else []
