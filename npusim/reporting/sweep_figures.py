"""The figures of a sweep: lines over one variable, or maps over two, by operator and product."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from npusim.reporting.document import Figure as Picture
from npusim.values.drawing import (
    SERIES,
    colours_of,
    draw,
    in_plain_decades,
    plain_colours,
    saved,
)
from npusim.values.language import say

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    Row = Mapping[str, Any]

MOST_LINES: Final = 12
"""More lines in a panel, or rows of panels, than anybody can tell apart."""

FEW_LINES: Final = 3
"""So many lines that each can have its band."""


def figures_of(
    rows: Sequence[Row], axes: Sequence[str], over: tuple[str, str]
) -> Iterator[Picture]:
    """A figure for each operator, its products in one panel where a line is enough for each."""
    if not axes:
        return
    for number, op in enumerate(dict.fromkeys(row["op"] for row in rows)):
        members = [row for row in rows if row["op"] == op]
        choice = choose(members, axes, *over)
        socs = list(dict.fromkeys(row["soc"] for row in members))
        if not choice.y and len(_grouped(members, choice.rest)) == 1:
            drawn = draw(f"sweep{number}", partial(_products_over, members, choice, socs),
                         height_inches=3.2 + 0.2 * len(socs), width_inches=9.0)  # fmt: skip
            caption = say("The shade is the 80 % band of the estimate.")
        else:
            inches = _inches(list(_fair_share(list(_bands(members, axes, *over)))), socs)
            drawn = draw(f"sweep{number}", partial(_painted, members, axes, over),
                         height_inches=inches[1], width_inches=max(9.0, inches[0]))  # fmt: skip
            caption = say("A column of panels for each product.")
        label = say("{op}: latency over {axes}").format(
            op=op, axes=", ".join(filter(None, (choice.x, choice.y)))
        )
        yield Picture(drawn, label, caption, wide=True)


def _products_over(
    rows: Sequence[Row], choice: Choice, socs: Sequence[str], drawing: Figure
) -> None:
    """A line for each product over one variable."""
    panel = drawing.add_subplot()
    values = _values(rows, choice.x)
    numeric = all(map(_is_number, values))
    colours, heights = colours_of(socs), []
    for soc in socs:
        group = [row for row in rows if row["soc"] == soc and row["status"] == "ok"]
        at = {id(row): _of(row, choice.x) if numeric else values.index(_of(row, choice.x))
              for row in group}  # fmt: skip
        group.sort(key=lambda row: at[id(row)])
        places = [at[id(row)] for row in group]
        times = [row["duration_us"] for row in group]
        panel.plot(places, times, "o-", ms=4, color=colours[soc], label=soc)
        if group:
            low, high = zip(*(row["band_us"] for row in group), strict=True)
            panel.fill_between(places, low, high, color=colours[soc], alpha=0.15, lw=0)
            heights += [*low, *high]
    panel.set(xlabel=choice.x, ylabel=say("latency in us"))
    if heights:
        _scale(panel, values if numeric else None, heights)
    if not numeric:
        panel.set_xticks(range(len(values)), [cell(value) for value in values])
    drawing.legend(loc="outside lower center", ncols=3)


@dataclass(frozen=True)
class Choice:
    """What a figure of one operator shows along which variable; `y` is empty for lines."""

    x: str
    y: str
    rest: tuple[str, ...]


# One row of panels: operator, what is drawn of it, over what, and the rows that go into it.
_Band = tuple[str, str, Choice, "list[Row]"]


def choose(rows: Sequence[Row], axes: Sequence[str], x: str = "", y: str = "") -> Choice:
    """The variables to draw over: two numbers with every combination give a heat map, one a line.

    Those with the most values are taken. `x` alone asks for lines over that variable, `x` and `y`
    for a heat map; `rest` are the others that still make a difference.
    """
    values = {name: _values(rows, name) for name in axes}
    varying = [name for name in axes if len(values[name]) > 1]
    given = [name for name in (x, y) if values.get(name)]
    if not given:
        numbers = [name for name in varying if all(map(_is_number, values[name]))]
        numbers.sort(key=lambda name: -len(values[name]))
        full = (
            sorted(pair, key=axes.index)
            for pair in itertools.combinations(numbers, 2)
            if _combinations(rows, pair) == len(values[pair[0]]) * len(values[pair[1]])
        )
        given = next(full, numbers[:1] or varying[:1])
    rest: list[str] = []
    for name in varying:  # height and width that move together are one choice, not two
        told = [*given, *rest]
        if name not in told and _combinations(rows, [*told, name]) > _combinations(rows, told):
            rest.append(name)
    return Choice(given[0] if given else "", given[1] if len(given) > 1 else "", tuple(rest))


def _combinations(rows: Sequence[Row], names: Sequence[str]) -> int:
    return len({json.dumps([_of(row, name) for name in names]) for row in rows})


def figure_bytes(
    rows: Sequence[Row], axes: Sequence[str], kind: str, *, x: str = "", y: str = ""
) -> bytes:
    """The figure as an ``svg`` or ``png`` file, the same bytes for the same rows."""
    drawing = figure(rows, axes, x=x, y=y)
    drawing.draw_without_rendering()
    plain_colours(drawing)
    return saved(drawing, kind, dpi=120)


def figure(
    rows: Sequence[Row],
    axes: Sequence[str],
    *,
    x: str = "",
    y: str = "",
    new: Callable[..., Figure] | None = None,
) -> Figure:
    """Latency over one variable (lines) or two (heat map): a column of panels for each product.

    A row of panels belongs to an operator, and in heat maps to one choice of the other variables.
    Of more than `MOST_LINES` rows the first of each operator are drawn. `new` makes the figure, a
    plain one if not given.
    """
    from matplotlib.figure import Figure

    socs = list(dict.fromkeys(row["soc"] for row in rows))
    bands = _fair_share(list(_bands(rows, axes, x, y)))
    drawing = (new or Figure)(figsize=_inches(bands, socs), layout="constrained", dpi=100)
    _painted(rows, axes, (x, y), drawing)
    return drawing


def _inches(bands: Sequence[_Band], socs: Sequence[str]) -> tuple[float, float]:
    return 1.5 + 3.6 * len(socs), 0.8 + 3.0 * len(bands)


def _painted(
    rows: Sequence[Row], axes: Sequence[str], over: tuple[str, str], drawing: Figure
) -> None:
    """The rows of panels in an empty figure."""
    socs = list(dict.fromkeys(row["soc"] for row in rows))
    every = list(_bands(rows, axes, *over))
    bands = _fair_share(every)
    grid = drawing.subplots(len(bands), len(socs), squeeze=False)
    for panels, (op, label, choice, members) in zip(grid, bands, strict=True):
        for panel, soc in zip(panels, socs, strict=True):
            panel.set_title(f"{op}\n{soc} {label}".rstrip(), fontsize=8)
        by_soc = [[row for row in members if row["soc"] == soc] for soc in socs]
        if choice.y:
            _heat_maps(drawing, panels, by_soc, choice)
        else:
            _lines(panels, by_soc, choice)
    if len(every) > len(bands):
        drawing.supxlabel(
            say("the first {bands} of {every} rows of panels").format(
                bands=len(bands), every=len(every)
            ),
            fontsize=8,
        )


def _fair_share(bands: Sequence[_Band]) -> list[_Band]:
    """So many of the rows of panels as fit, the same number of each operator."""
    ops = [op for op, *_ in bands]
    if len(bands) <= MOST_LINES:
        return list(bands)
    share = max(1, MOST_LINES // len(set(ops)))
    before = (ops[:index].count(op) for index, op in enumerate(ops))
    return [band for band, earlier in zip(bands, before, strict=True) if earlier < share]


def _bands(rows: Sequence[Row], axes: Sequence[str], x: str, y: str) -> Iterable[_Band]:
    """All rows of panels, in the order of the rows."""
    for op in dict.fromkeys(row["op"] for row in rows):
        members = [row for row in rows if row["op"] == op]
        choice = choose(members, axes, x, y)
        if not choice.y:
            yield op, "", choice, members
            continue
        for label, group in _grouped(members, choice.rest).items():
            yield op, label, choice, group


def _lines(panels: Sequence[Axes], by_soc: Sequence[Sequence[Row]], choice: Choice) -> None:
    """One line for each choice of the other variables, with its band while there are few."""
    members = [row for rows in by_soc for row in rows]
    values = _values(members, choice.x) or [choice.x]  # nothing varies: one place for all
    numeric = all(map(_is_number, values))
    groups = _grouped(members, choice.rest)
    labels = list(groups)[:MOST_LINES]
    few = len(groups) <= FEW_LINES
    shown = [row for label in labels for row in groups[label] if row["status"] == "ok"]
    heights = [us for row in shown for us in (row["duration_us"], *(row["band_us"] if few else ()))]
    for panel, rows in zip(panels, by_soc, strict=True):
        panel.set_xlabel(choice.x)
        drawn = [row for row in rows if row["status"] == "ok"]
        if not drawn:
            _say_why_empty(panel, rows)
            continue
        for number, label in enumerate(labels):
            group = _grouped(drawn, choice.rest).get(label, [])
            at = [
                _of(row, choice.x) if numeric else values.index(_of(row, choice.x)) for row in group
            ]
            order = sorted(range(len(at)), key=at.__getitem__)
            colour = SERIES[number % len(SERIES)]
            style = ".-" if number < len(SERIES) else ".--"
            places = [at[index] for index in order]
            times = [group[index]["duration_us"] for index in order]
            panel.plot(places, times, style, ms=4, lw=1, color=colour, label=label)
            if few and group:
                low, high = zip(*(group[index]["band_us"] for index in order), strict=True)
                panel.fill_between(places, low, high, alpha=0.12, linewidth=0, color=colour)
        if heights:
            _scale(panel, values if numeric else None, heights)
        if not numeric:
            panel.set_xticks(range(len(values)), [cell(value) for value in values])
    panels[0].set_ylabel("latency in us")
    _legend(panels, len(groups))


def _scale(panel: Axes, across: Sequence[Any] | None, heights: Sequence[float]) -> None:
    """The same range for all products; logarithmic where the numbers span much."""
    if across is not None and _wide(across, 16):
        panel.set_xscale("log")
        panel.set_xlim(min(across) / 1.1, max(across) * 1.1)
        in_plain_decades(panel.xaxis)
    low, high = min(heights), max(heights)
    if _wide(heights, 10):
        panel.set_yscale("log")
        panel.set_ylim(low / 1.2, high * 1.2)
        in_plain_decades(panel.yaxis)
    else:
        panel.set_ylim(0, high * 1.1)
    panel.grid(visible=True, lw=0.3)


def _legend(panels: Sequence[Axes], lines: int) -> None:
    """One legend for a row of panels, to their right."""
    drawn = [panel for panel in panels if panel.lines]
    if lines < 2 or not drawn:
        return
    title = (
        say("the first {most_lines} of {lines}").format(most_lines=MOST_LINES, lines=lines)
        if lines > MOST_LINES
        else None
    )
    panels[-1].legend(
        handles=drawn[0].lines,
        fontsize=7,
        title=title,
        title_fontsize=7,
        loc="center left",
        bbox_to_anchor=(1, 0.5),
    )


def _heat_maps(
    drawing: Figure, panels: Sequence[Axes], by_soc: Sequence[Sequence[Row]], choice: Choice
) -> None:
    from matplotlib.colors import LogNorm, Normalize

    members = [row for rows in by_soc for row in rows]
    across, upward = _sorted(_values(members, choice.x)), _sorted(_values(members, choice.y))
    times = [row["duration_us"] for row in members if row["status"] == "ok"]
    low, high = (min(times), max(times)) if times else (1.0, 1.0)
    norm = LogNorm(low, high) if _wide(times, 10) else Normalize(low, high)
    mesh = None
    for panel, rows in zip(panels, by_soc, strict=True):
        cells = [[math.nan] * len(across) for _ in upward]
        for row in rows:
            if row["status"] == "ok":
                place = upward.index(_of(row, choice.y)), across.index(_of(row, choice.x))
                cells[place[0]][place[1]] = row["duration_us"]
        panel.set_facecolor("0.9")  # what has no time stays grey
        drawn = panel.pcolormesh(cells, norm=norm)
        mesh = drawn if mesh is None else mesh
        _ticks(panel.set_xticks, across)
        _ticks(panel.set_yticks, upward)
        panel.set(xlabel=choice.x, ylabel=choice.y)
        _say_why_empty(panel, rows)
    if mesh is not None and times:
        drawing.colorbar(mesh, ax=list(panels), label="latency in us")


def _ticks(place: Any, values: Sequence[Any]) -> None:
    step = -(-len(values) // 10)
    shown = range(0, len(values), step)
    place([index + 0.5 for index in shown], [cell(values[index]) for index in shown], fontsize=7)


def _say_why_empty(panel: Axes, rows: Sequence[Row]) -> None:
    """Why a panel has nothing to show, in its middle."""
    if any(row["status"] == "ok" for row in rows):
        return
    panel.set(xticks=[], yticks=[])
    told = (
        say("rejected: {row}").format(row=row["code"]) if row["code"] else row["status"]
        for row in rows
    )
    why = ", ".join(dict.fromkeys(told)) or "not asked"
    panel.text(0.5, 0.5, why, ha="center", va="center", transform=panel.transAxes, fontsize=8)


def _grouped(rows: Sequence[Row], names: Sequence[str]) -> dict[str, list[Row]]:
    """The rows by the values of these variables, spelled ``dtype=fp16 N=8``."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        label = " ".join(f"{name}={cell(_of(row, name))}" for name in names)
        groups.setdefault(label, []).append(row)
    return groups


def _values(rows: Sequence[Row], name: str) -> list[Any]:
    """The distinct values of a variable, in the order in which they come up."""
    found = {json.dumps(_of(row, name)): _of(row, name) for row in rows if name in row["axes"]}
    return list(found.values())


def _of(row: Row, name: str) -> Any:
    return row["axes"].get(name, name)


def _sorted(values: list[Any]) -> list[Any]:
    return sorted(values) if all(map(_is_number, values)) else values


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _wide(values: Sequence[Any], ratio: float) -> bool:
    """Whether positive numbers span so much that a logarithmic axis shows more."""
    return bool(values) and min(values) > 0 and max(values) >= ratio * min(values)


def cell(value: Any) -> str:
    """A value of a variable as it is written."""
    return value if isinstance(value, str) else json.dumps(value)
