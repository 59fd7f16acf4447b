"""The figures of a judged profile: its classes and their estimates, and the device over time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from npusim.model.waits import Cause
from npusim.reporting.document import Figure, Table
from npusim.reporting.spelling import significant
from npusim.values.drawing import INK, MARK, SERIES, SOFT, axes_of, draw, name_rows
from npusim.values.language import say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure as Drawing

    from npusim.model.judging import ClassSpeed, Comparison
    from npusim.model.waits import Waits

_SHOWN: Final = 12  # classes
_ROWS: Final = 8  # of a timeline
_SLICES: Final = 4000  # bars that a screen can tell apart


def classes_figure(classes: Sequence[ClassSpeed]) -> Figure | None:
    """Measured over estimated time of each class beside what is usual for it; None without any."""
    shown = classes[:_SHOWN]
    if not shown:
        return None

    def paint(drawing: Drawing) -> None:
        axes = axes_of(drawing, say("measured over estimated time, and its 80 % band"))
        places = range(len(shown))
        low, high = zip(*(each.usual_ratio for each in shown), strict=True)
        spans = [(end - start) for start, end in zip(low, high, strict=True)]
        axes.barh(places, spans, left=low, color=SOFT, alpha=0.35, height=0.6)
        ratios = [each.measured_us / each.estimated_us for each in shown]
        axes.plot(ratios, list(places), "o", color=SERIES[0])
        axes.axvline(1.0, color=INK, lw=0.8)
        axes.set_xscale("log")
        ends = [*low, *high, *ratios, 0.5, 2.0]
        axes.set_xlim(min(ends) / 1.1, max(ends) * 1.1)
        ticks = [each for each in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50)
                 if min(ends) <= each <= max(ends)]  # fmt: skip
        axes.set_xticks(ticks, [f"{each:g}" for each in ticks])
        axes.minorticks_off()
        name_rows(axes, [each.kind for each in shown])

    drawn = draw("speeds", paint, height_inches=1.0 + 0.28 * len(shown))
    rows = [
        (each.kind, significant(each.measured_us / each.estimated_us),
         *map(significant, each.usual_ratio))
        for each in shown
    ]  # fmt: skip
    columns = ("class", "measured/estimated", "from", "to")
    caption = say("Dots are the classes in this file; the bars behind them are what is usual.")
    table = Table(columns, rows, columns[1:])
    return Figure(drawn, say("Measured over estimated time by class"), caption, table=table)


def timeline_figure(comparison: Comparison, found: Waits) -> Figure | None:
    """When kernels of each class ran and what the device waited for; None without start times."""
    spans: dict[str, list[tuple[float, float]]] = {each.kind: [] for each in comparison.classes}
    starts = [each.kernel.start_us for each in comparison.launches]
    first_us = min((start for start in starts if start is not None), default=None)
    if first_us is None:
        return None
    for launch, start_us in zip(comparison.launches, starts, strict=True):
        if start_us is not None and launch.measured_us:
            mine = spans.setdefault(launch.timed.kind, [])
            mine.append((start_us - first_us, launch.measured_us))
    ranked = sorted(spans.items(), key=lambda pair: -sum(us for _, us in pair[1]))[:_ROWS]
    waited = [
        (start_us - first_us - gap.us, gap.us, gap.cause)
        for gap in found.gaps
        if (start_us := gap.before.kernel.start_us) is not None
    ]
    causes = [each for each in Cause if any(why is each for *_, why in waited)]
    names = [kind for kind, _ in ranked] + [
        say("waits: {each}").format(each=each.value.replace("_", " ")) for each in causes
    ]

    def paint(drawing: Drawing) -> None:
        axes = axes_of(drawing, say("ms since the first kernel"))
        for row, (_, mine) in enumerate(ranked):
            axes.broken_barh(_drawn(mine), (row - 0.35, 0.7), color=SERIES[row % len(SERIES)])
        for row, cause in enumerate(causes, len(ranked)):
            mine = [(start_us, us) for start_us, us, why in waited if why is cause]
            axes.broken_barh(_drawn(mine), (row - 0.35, 0.7), color=MARK)
        name_rows(axes, names)

    drawn = draw("device", paint, height_inches=0.9 + 0.28 * len(names), width_inches=9.0)
    caption = say(
        "Every bar is a kernel of the file; below them, where the main stream stands still."
    )
    return Figure(drawn, "The device over time", caption, wide=True)


def _drawn(spans: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """The longest spans, as many as can be told apart, in milliseconds."""
    longest = sorted(spans, key=lambda span: -span[1])[:_SLICES]
    return [(start_us / 1e3, us / 1e3) for start_us, us in sorted(longest)]
