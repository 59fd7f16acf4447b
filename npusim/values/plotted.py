"""The numbers of a figure as they are drawn, as CSV: lines, bars, areas and maps of any figure."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from matplotlib.patches import StepPatch


ROW: Final = 0.8
"""What bars take of the height of a row that has a name."""


class _Share(float):
    """How high something is in its row, and not which row that is."""


_Row = tuple[str, str, object, object, object, object]


def numbers_csv(figure: Figure) -> str:
    """A row for each point (series, across, up), bar or area (from, to) of every panel.

    Heads are the labels of the first panel's axes, with their units. Where places on an axis have
    names, such as products, the name stands for the place. What only guides the eye, such as
    limits across a whole panel, is left out.
    """
    panels = [axes for axes in figure.axes if axes.get_label() != "<colorbar>"]
    rows = [(axes.get_title() or axes.get_ylabel(), *row) for axes in panels for row in _rows(axes)]
    first = panels[0] if panels else None
    across, up = (
        (label or plain).replace("\n", " ")
        for label, plain in (
            (first.get_xlabel() if first else "", "across"),
            (first.get_ylabel() if first else "", "up"),
        )
    )
    columns = ("panel", "series", across, f"{across} to", up, f"{up} to")
    kept = [at for at in range(6) if at in (2, 4) or any(row[at] not in ("", None) for row in rows)]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for row in (columns, *rows):
        writer.writerow([_cell(row[at]) for at in kept])
    return text.getvalue()


def _rows(axes: Axes) -> Iterator[tuple[str, object, object, object, object]]:
    names = [_names(axis) for axis in (axes.xaxis, axes.yaxis)]
    for series, points in _shapes(axes):
        for left, right, low, high in points:
            across, up = _place(names[0], left, right), _place(names[1], low, high)
            yield (series, *across, *up)


def _place(names: dict[float, str], start: float, end: float) -> tuple[object, object]:
    """Where something begins and ends; one name where there is one, one number for a point."""
    middle = round((start + end) / 2)
    if not isinstance(start, _Share) and middle in names and abs(end - start) < 1:
        return names[middle], ""
    return start, "" if start == end else end


def _names(axis: Axis) -> dict[float, str]:
    """The names of an axis' places, if they were given and aren't numbers."""
    from matplotlib.ticker import FixedLocator

    if not isinstance(axis.get_major_locator(), FixedLocator):
        return {}
    labels = [tick.get_text() for tick in axis.get_ticklabels()]
    if all(label.replace(".", "").isdigit() for label in labels):
        return {}
    return dict(zip(map(float, axis.get_ticklocs()), labels, strict=False))


def _shapes(axes: Axes) -> Iterator[tuple[str, Sequence[tuple[float, float, float, float]]]]:
    """Each line, bar, area and map with the corners of its parts: left, right, low, high."""
    from matplotlib.collections import LineCollection, PolyCollection, QuadMesh
    from matplotlib.container import BarContainer, ErrorbarContainer
    from matplotlib.patches import Rectangle, StepPatch

    bars = [each for each in axes.containers if isinstance(each, BarContainer)]
    in_bars = {id(bar): each for each in bars for bar in each}
    ranges = [each for each in axes.containers if isinstance(each, ErrorbarContainer)]
    caps = {id(cap) for each in ranges for cap in each.lines[1]}
    for line in axes.lines:
        if line.get_transform() == axes.transData and id(line) not in caps:
            points = zip(*map(np.ravel, line.get_data()), strict=True)
            yield _label(line), [(x, x, y, y) for x, y in points]
    for patch in axes.patches:
        if isinstance(patch, Rectangle):
            box = patch.get_bbox()
            corners = (*_ends((box.x0, box.x1)), *_ends((box.y0, box.y1)))
            yield _label(in_bars.get(id(patch), patch)), [corners]
        elif isinstance(patch, StepPatch):
            yield _stairs(axes, patch)
    for area in axes.collections:
        if isinstance(area, QuadMesh):
            cells: Any = np.ma.masked_invalid(np.ma.asarray(area.get_array(), float))
            for (y, x), value in np.ndenumerate(cells):
                yield str(_cell(value)), [(x + 0.5, x + 0.5, y + 0.5, y + 0.5)]
        elif isinstance(area, LineCollection):
            yield (
                "range",
                [(*_ends(part[:, 0]), *_ends(part[:, 1])) for part in area.get_segments()],
            )
        elif isinstance(area, PolyCollection):
            yield (
                _label(area),
                [each for path in area.get_paths() for each in _spans(path.vertices)],
            )


def _stairs(axes: Axes, patch: StepPatch) -> tuple[str, list[tuple[float, float, float, float]]]:
    """Steps; in a row that has a name the share of it, under that name."""
    heights, edges, baseline = patch.get_data()
    name = _label(patch)
    rows = _names(axes.yaxis)
    if rows and baseline is not None:
        base = float(np.ravel(baseline)[0])
        name = str(_place(rows, base - ROW, base)[0]) if round(base) in rows else name
        heights = np.abs(np.asarray(heights) - base) / ROW
    steps = zip(map(float, edges[:-1]), map(float, edges[1:]), map(_Share, heights), strict=True)
    return str(name), [(start, end, up, up) for start, end, up in steps]


def _spans(vertices: Any) -> list[tuple[float, float, float, float]]:
    """A rectangle as it is; of any other area how low and high it reaches at each place."""
    places = np.unique(vertices[:, 0])
    ends = [
        (vertices[vertices[:, 0] == x, 1].min(), vertices[vertices[:, 0] == x, 1].max())
        for x in places
    ]
    if len(places) == 2 and ends[0] == ends[1]:
        return [(*map(float, places), *map(float, ends[0]))]  # type: ignore[list-item]
    return [
        (float(x), float(x), float(low), float(high))
        for x, (low, high) in zip(places, ends, strict=True)
    ]


def _ends(places: Any) -> tuple[float, float]:
    return float(min(places)), float(max(places))


def _label(artist: Any) -> str:
    label = str(artist.get_label())
    return "" if label.startswith("_") else label


def _cell(value: object) -> object:
    return f"{float(value):.6g}" if isinstance(value, float | np.floating | np.integer) else value
