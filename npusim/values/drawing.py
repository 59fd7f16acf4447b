"""Figures as SVG that takes part in a page: its colours, its size, ids of its own, fixed bytes.

Matplotlib draws with placeholder colours; they become the style sheet's variables, so that a figure
follows the theme of the page it is in.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape, unescape
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final, cast

from npusim.values.language import say, shown, speak, spoken

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

INK: Final = "#010101"
SOFT: Final = "#020202"
GRID: Final = "#030303"
MARK: Final = "#040404"
PAGE: Final = "#050505"
SERIES: Final = tuple(f"#0a0a{number:02x}" for number in range(8))
"""Colours to tell things apart by; anything else belongs to neither theme."""

_VARIABLES: Final = {
    INK: "var(--ink)",
    SOFT: "var(--soft)",
    GRID: "var(--grid)",
    MARK: "var(--mark)",
    PAGE: "var(--page)",
    **{colour: f"var(--s{number})" for number, colour in enumerate(SERIES)},
}
_STYLE: Final = {
    "axes.edgecolor": SOFT,
    "axes.facecolor": "none",
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.labelcolor": INK,
    "axes.labelsize": 9,
    "axes.prop_cycle": f"cycler('color', {SERIES})",
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 10,
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "legend.fontsize": 8.5,
    "legend.frameon": False,
    "legend.labelcolor": INK,
    "lines.linewidth": 1.6,
    "svg.fonttype": "none",  # text stays text: small, selectable, in the page's colour
    "text.color": INK,
    "xtick.color": SOFT,
    "xtick.labelcolor": INK,
    "xtick.labelsize": 8.5,
    "ytick.color": SOFT,
    "ytick.labelcolor": INK,
    "ytick.labelsize": 8.5,
}
_MANY_DECADES: Final = 1e2
_WIDTH_INCHES: Final = 5.2  # on a phone it is drawn at two thirds, and still legible

_CHINESE_FONTS: Final = (
    "Noto Sans CJK SC", "Source Han Sans SC", "WenQuanYi Zen Hei", "WenQuanYi Micro Hei",
    "Microsoft YaHei", "PingFang SC", "Hiragino Sans GB", "SimHei",
)  # fmt: skip
_DATE: Final = "SOURCE_DATE_EPOCH"  # of a build
_ID = re.compile(r'(\bid="|url\(#|href="#)([^")]+)')
_FINE = re.compile(r"(\.\d\d)\d+")
_TEXT = re.compile(r"(?<=[^/])>([^<>]*\w[^<>]*)<(?=/text>)")
_COLOUR = re.compile(r"#0[0-9a-f]{5}\b")


@dataclass(frozen=True)
class Drawing:
    """What `paint` does to an empty figure of so many inches, for a page or as a file.

    `name` is put before every id in it, so it must be the figure's own in its page.  Same drawing,
    same bytes.
    """

    name: str
    paint: Callable[[Figure], None]
    inches: tuple[float, float]

    def embedded(self, title: str) -> str:
        """As SVG that takes part in a page."""
        from matplotlib.backends.backend_svg import FigureCanvasSVG

        with _style():
            figure = self._painted(title)
            FigureCanvasSVG(figure)
            figure.patch.set_alpha(0)
            return _embedded(saved(figure, "svg", transparent=True).decode(), self.name)

    def file(self, title: str, kind: str) -> bytes:
        """As an ``svg`` or ``png`` file in colours of its own, or its numbers as ``csv``."""
        with _style(), _legible(kind):
            figure = self._painted(say(title))
            figure.draw_without_rendering()  # makes the ticks, which have colours too
            if kind == "csv":
                from npusim.values.plotted import numbers_csv

                return numbers_csv(figure).encode()
            plain_colours(figure)
            drawn = saved(figure, kind, dpi=150)
            return _spoken(drawn.decode()).encode() if kind == "svg" else drawn

    def _painted(self, title: str) -> Figure:
        from matplotlib.figure import Figure

        figure = Figure(figsize=self.inches, layout="constrained")
        figure.suptitle(title, x=0.01, ha="left", fontsize=10, fontweight="bold")
        self.paint(figure)
        return figure


def draw(
    name: str,
    paint: Callable[[Figure], None],
    *,
    height_inches: float = 3.0,
    width_inches: float = _WIDTH_INCHES,
) -> Drawing:
    """A drawing of the width that figures have in a page."""
    return Drawing(name, paint, (width_inches, height_inches))


def saved(figure: Figure, kind: str, **settings: Any) -> bytes:
    """A figure as a file of that kind, the same bytes for the same figure: without a date."""
    import matplotlib as mpl

    stream = BytesIO()
    metadata = {"Date": None} if kind == "svg" else {"Software": None}
    date = os.environ.pop(_DATE, None)  # which Matplotlib would read, whatever it is
    try:
        with mpl.rc_context({"svg.hashsalt": "npusim"}):
            figure.savefig(stream, format=kind, metadata=metadata, **settings)
    finally:
        if date is not None:
            os.environ[_DATE] = date
    return stream.getvalue()


@contextmanager
def _style() -> Iterator[None]:
    """Our style on top of matplotlib's own defaults, whatever the user's matplotlibrc says."""
    import matplotlib as mpl

    with mpl.rc_context(), warnings.catch_warnings():
        mpl.rcdefaults()
        settings = cast("Any", mpl.rcParams)  # the names of its keys change with its version
        settings.update(_STYLE)
        if spoken() != "en":  # a browser has letters that Matplotlib lacks
            warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)
        yield


def colours_of(names: Iterable[str]) -> dict[str, str]:
    """A colour for each name, in their order, to be the same in all figures of a page."""
    named = enumerate(dict.fromkeys(names))
    return {name: SERIES[number % len(SERIES)] for number, name in named}


@contextmanager
def _legible(kind: str) -> Iterator[None]:
    """Pixels in the language that is spoken if a font here has its letters, else in English."""
    language = spoken()
    if kind != "png" or language == "en":
        yield
        return
    import matplotlib as mpl
    from matplotlib.font_manager import fontManager

    there = {font.name for font in fontManager.ttflist}
    if found := [name for name in _CHINESE_FONTS if name in there]:
        mpl.rcParams["font.sans-serif"] = ["DejaVu Sans", *found]
        yield
        return
    speak("en")
    try:
        yield
    finally:
        speak(language)


def axes_of(figure: Figure, across: str = "", up: str = "") -> Axes:
    """The only axes of a figure, with their labels."""
    axes = figure.add_subplot()
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    return axes


def in_plain_decades(axis: Axis) -> None:
    """A logarithmic axis with numbers as people write them: 20, 50, 100; over many decades 10."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = axis.get_view_interval()
    subs = (1.0, 2.0, 5.0) if low > 0 and high < _MANY_DECADES * low else (1.0,)
    axis.set_major_locator(LogLocator(subs=subs))
    axis.set_major_formatter(FuncFormatter(lambda value, _: _plainly(value)))
    axis.set_minor_formatter(NullFormatter())


def _plainly(value: float) -> str:
    return f"{value / 1e3:.12g}k" if value >= 1e4 else f"{value:,.12g}"


def name_rows(axes: Axes, names: Sequence[str]) -> None:
    """Names at the rows of horizontal bars, from top to bottom."""
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")


def _embedded(svg: str, name: str) -> str:
    """What belongs into a page: no prolog, no metadata, no sizes in points, no addresses."""
    svg = svg[svg.index("<svg") :]
    # Its style element would reach every drawing of the page; what it says is a default here.
    svg = re.sub(r"<(metadata|style)\b.*?</\1>\s*", "", svg, flags=re.DOTALL)
    head, _, rest = svg.partition(">")
    box = re.search(r'viewBox="[^"]+"', head)
    svg = f"<svg {box[0] if box else ''}>{rest}"
    svg = svg.replace("xlink:href", "href")
    svg = _ID.sub(lambda found: f"{found[1]}{name}-{found[2]}", svg)
    svg = _spoken(svg)
    svg = _FINE.sub(r"\1", svg)  # a hundredth of a point is finer than any screen
    svg = _COLOUR.sub(lambda found: _VARIABLES.get(found[0], found[0]), svg)
    return "\n".join(line.rstrip() for line in svg.splitlines() if line.strip())


def _spoken(svg: str) -> str:
    """The labels of a drawing in the language that is spoken."""
    if spoken() == "en":
        return svg
    return _TEXT.sub(lambda found: f">{escape(shown(unescape(found[1])))}<", svg)


_ON_WHITE: Final = (
    "#0969da", "#bc4c00", "#1a7f37", "#8250df", "#9a6700", "#bf3989", "#3192aa", "#6e7781",
)  # fmt: skip
_PLAIN: Final = {
    INK: "#1a1a1a",
    SOFT: "#6b6b6b",
    GRID: "#dddddd",
    MARK: "#b00020",
    PAGE: "#ffffff",
    **dict(zip(SERIES, _ON_WHITE, strict=True)),
}
_PAINTED: Final = ("color", "facecolor", "edgecolor", "markerfacecolor", "markeredgecolor")


def plain_colours(axes: Axes | Figure) -> None:
    """Real colours for placeholders in axes, or a whole figure, that stand in no page of ours."""
    import numpy as np
    from matplotlib.colors import is_color_like, to_hex

    for artist in axes.findobj():
        for kind in _PAINTED:
            read, write = (getattr(artist, f"{verb}_{kind}", None) for verb in ("get", "set"))
            if read is None or write is None:
                continue
            value = read()
            if hasattr(value, "tolist"):  # the colours of many parts, which are one here
                value = tuple(np.atleast_2d(value)[0].tolist()) if len(value) else "none"
            if is_color_like(value) and value != "none":
                found = _PLAIN.get(to_hex(cast("Any", value)))
                if found is not None:
                    write(found)
