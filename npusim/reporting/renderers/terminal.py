"""Reports on a terminal, as rich renderables; colours stand for tones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text as Line

from npusim.reporting.document import Block, Bullets, Code, Facts, Page, Table, Text, Tone, Toned
from npusim.values.language import shown
from npusim.values.spelling import visible

_STYLES: dict[Tone, str] = {
    "good": "green",
    "bad": "red",
    "open": "yellow",
    "changed": "magenta",
    "soft": "dim",
}
_NARROWEST = 12  # characters of a column that may wrap
_BESIDE = 2  # characters between columns
_INDENT = (0, 0, 0, 2)


def renderable(part: Page | Block | str) -> RenderableType:
    """A page, a block or a line for a terminal. Figures are for other media."""
    if isinstance(part, Page):
        return Group(*_page(part))
    if isinstance(part, Table):
        return _Grid(part)
    if isinstance(part, Facts):
        return _facts(part.pairs)
    if isinstance(part, Bullets):
        return Group(*(Padding(_line(f"- {shown(item)}"), _INDENT) for item in part.items))
    if isinstance(part, Code | Text):
        return _line(part.text)
    return _line(part) if isinstance(part, str) else Group()


def _page(page: Page) -> Iterator[RenderableType]:
    title = shown(page.title)
    if page.subtitle:
        title = f"{title}: {shown(page.subtitle)}"
    yield _line(title, "bold")
    for verdict in page.verdicts:
        yield Padding(_line(verdict.text), _INDENT)
        if verdict.why:
            yield Padding(_line(verdict.why), _INDENT)
    if page.facts:
        yield Padding(_facts(page.facts), _INDENT)
    for section in page.sections:
        blocks = [block for block in section.blocks if block.kind != "figure"]
        if section.detail or not blocks:
            continue
        yield ""
        if section.title:
            yield _line(section.title, "bold")
        for number, block in enumerate(blocks):
            if number and block.kind == "table":
                yield ""
            yield renderable(block)
    if page.footer:
        yield from ("", _line(page.footer, "dim"))


def _line(text: str, style: str = "") -> Line:
    return Line(
        visible(shown(text)), style=_STYLES[text.tone] if isinstance(text, Toned) else style
    )


def _facts(pairs: Iterable[tuple[str, str]]) -> Grid:
    table = Grid.grid(padding=(0, 2))
    table.add_column(no_wrap=True, style="dim")
    table.add_column(overflow="fold")
    for name, value in pairs:
        table.add_row(_line(name), _line(value))
    return table


class _Grid:
    """A table in a terminal, where columns of names and numbers are never cut.

    What is too wide comes in parts below each other, each of which begins with a row's names.
    """

    def __init__(self, table: Table) -> None:
        self._table = table
        self._widths = [self._width(place) for place in range(len(table.columns))]

    def _width(self, place: int) -> int:
        name = self._table.columns[place]
        if name in self._table.wide:
            return _NARROWEST
        return _widest(name, self._table.rows, place)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        """As wide as all columns beside each other."""
        return Measurement.get(console, options, _grid(self._table, range(len(self._widths))))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The parts."""
        del console
        for number, places in enumerate(self._parts(options.max_width)):
            if number:
                yield ""
            yield _grid(self._table, places, is_first=not number)

    def _parts(self, width: int) -> Iterator[list[int]]:
        names = self._names(width)
        part = list(names)
        for place in range(len(names), len(self._widths)):
            taken = sum(self._widths[each] + _BESIDE for each in part)
            if taken + self._widths[place] > width and len(part) > len(names):
                yield part
                part = list(names)
            part.append(place)
        yield part

    def _names(self, width: int) -> list[int]:
        """The columns that say what a row is: the first, and words beside it in half the width."""
        found, taken = [0], self._widths[0]
        for place, name in enumerate(self._table.columns[1:], 1):
            taken += _BESIDE + self._widths[place]
            if name in self._table.numbers or 2 * taken > width:
                break
            found.append(place)
        return found


def _grid(table: Table, places: Iterable[int], *, is_first: bool = True) -> Grid:
    grid = Grid(
        title=_line(table.caption, "bold") if table.caption and is_first else None,
        title_justify="left",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        collapse_padding=True,
    )
    these = list(places)
    for place in these:
        name = table.columns[place]
        wraps = name in table.wide
        grid.add_column(
            _line(name),
            justify="right" if name in table.numbers else "left",
            no_wrap=not wraps,
            min_width=_NARROWEST if wraps else _widest(name, table.rows, place),
            overflow="fold",
        )
    for row in table.rows:
        grid.add_row(*(_line(row[place]) for place in these))
    return grid


def _widest(name: str, rows: Sequence[Sequence[str]], place: int) -> int:
    lines = [line for row in rows for line in visible(shown(row[place])).splitlines()]
    return max(map(cell_len, [shown(name), *lines]))
