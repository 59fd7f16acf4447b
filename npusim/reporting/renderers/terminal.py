"""Reports on a terminal, as rich renderables; colours stand for tones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich import box
from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text as Line

from npusim.reporting.document import Block, Bullets, Code, Facts, Page, Table, Text, Tone, Toned
from npusim.values.spelling import visible

_STYLES: dict[Tone, str] = {
    "good": "green",
    "bad": "red",
    "open": "yellow",
    "changed": "magenta",
    "soft": "dim",
}
_NARROWEST = 12  # characters of a column that may wrap
_INDENT = (0, 0, 0, 2)


def renderable(part: Page | Block | str) -> RenderableType:
    """A page, a block or a line for a terminal. Figures are for other media."""
    if isinstance(part, Page):
        return Group(*_page(part))
    if isinstance(part, Table):
        return _table(part)
    if isinstance(part, Facts):
        return _facts(part.pairs)
    if isinstance(part, Bullets):
        return Group(*(Padding(_line(f"- {item}"), _INDENT) for item in part.items))
    if isinstance(part, Code | Text):
        return _line(part.text)
    return _line(part) if isinstance(part, str) else Group()


def _page(page: Page) -> Iterator[RenderableType]:
    title = f"{page.title}: {page.subtitle}" if page.subtitle else page.title
    yield _line(title, "bold")
    for verdict in page.verdicts:
        yield Padding(_line(verdict.text), _INDENT)
        if verdict.why:
            yield Padding(_line(verdict.why), _INDENT)
    if page.facts:
        yield Padding(_facts(page.facts), _INDENT)
    for section in page.sections:
        shown = [block for block in section.blocks if block.kind != "figure"]
        if section.detail or not shown:
            continue
        yield ""
        if section.title:
            yield _line(section.title, "bold")
        for number, block in enumerate(shown):
            if number and block.kind == "table":
                yield ""
            yield renderable(block)
    if page.footer:
        yield from ("", _line(page.footer, "dim"))


def _line(text: str, style: str = "") -> Line:
    return Line(visible(text), style=_STYLES[text.tone] if isinstance(text, Toned) else style)


def _facts(pairs: Iterable[tuple[str, str]]) -> Grid:
    table = Grid.grid(padding=(0, 2))
    table.add_column(no_wrap=True, style="dim")
    table.add_column(overflow="fold")
    for name, value in pairs:
        table.add_row(_line(name), _line(value))
    return table


def _table(table: Table) -> Grid:
    """Columns of names and numbers are never cut.

    A terminal that is too narrow for them wraps the lines; that is ugly, and a cut number is wrong.
    """
    grid = Grid(
        title=_line(table.caption, "bold") if table.caption else None,
        title_justify="left",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        collapse_padding=True,
    )
    for place, name in enumerate(table.columns):
        wraps = name in table.wide
        grid.add_column(
            _line(name),
            justify="right" if name in table.numbers else "left",
            no_wrap=not wraps,
            min_width=_NARROWEST if wraps else _widest(name, table.rows, place),
            overflow="fold",
        )
    for row in table.rows:
        grid.add_row(*map(_line, row))
    return grid


def _widest(name: str, rows: Sequence[Sequence[str]], place: int) -> int:
    lines = [line for row in rows for line in visible(row[place]).splitlines()]
    return max(map(cell_len, [name, *lines]))
