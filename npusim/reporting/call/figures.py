"""The figures of an operator's report: products, roofline, pipes, and what the cores do when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from npusim.engine.timeline import pipe_order
from npusim.engine.verdict import BOUND_RATIO
from npusim.reporting.document import Figure
from npusim.reporting.spelling import MILLISECONDS_FROM_US, latency, significant
from npusim.runtime.figures import (
    STEPS_SHOWN,
    RoofPoint,
    paint_roofline,
    paint_timeline,
    timeline_lanes,
)
from npusim.values.drawing import INK, MARK, SERIES, axes_of, draw, name_rows
from npusim.values.language import say

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.figure import Figure as Drawing
    from numpy.typing import NDArray

    from npusim.runtime.results import Result
    from npusim.runtime.timeline import TaskResult

    Floats = NDArray[np.float64]
    Lanes = dict[tuple[str, str], list[tuple[float, float]]]


class Timed(Protocol):
    """A result of one chip, with its latency and band in microseconds."""

    @property
    def soc(self) -> str:
        """The chip's name."""

    @property
    def duration_us(self) -> float:
        """The estimate."""

    @property
    def band_us(self) -> tuple[float, float]:
        """Its 80 % band."""


def products_figure(results: Sequence[Timed], colours: Mapping[str, str] | None = None) -> Figure:
    """The latency of every product with its band, the fastest first; `colours` by their chips."""
    ranked = sorted(results, key=lambda res: (res.duration_us, res.soc))

    def paint(drawing: Drawing) -> None:
        longest_us = max((res.duration_us for res in ranked), default=0.0)
        scale, unit = (1e3, "ms") if longest_us >= MILLISECONDS_FROM_US else (1.0, "us")
        axes = axes_of(drawing, say("latency in {unit}, with its 80 % band").format(unit=unit))
        places = range(len(ranked))
        times = [res.duration_us / scale for res in ranked]
        below = [max(0.0, res.duration_us - res.band_us[0]) / scale for res in ranked]
        above = [max(0.0, res.band_us[1] - res.duration_us) / scale for res in ranked]
        painted = [(colours or {}).get(res.soc, SERIES[0]) for res in ranked]
        axes.barh(places, times, color=painted, height=0.6)
        axes.errorbar(times, places, xerr=[below, above], fmt="none", ecolor=INK, capsize=3, lw=1)
        name_rows(axes, [res.soc for res in ranked])
        axes.set_xlim(left=0)

    height = 1.0 + 0.28 * len(ranked)
    caption = say("Bars are the estimates; the lines span what is true in 80 % of cases.")
    return Figure(draw("products", paint, height_inches=height), "Latency by product", caption)


def roofline_figure(points: Sequence[RoofPoint], focus: str, colours: Mapping[str, str]) -> Figure:
    """The longest task on every chip, below its roofs; that of `focus` is named."""

    def paint(drawing: Drawing) -> None:
        looked_at = [point for point in points if point.name == focus] or points[:1]
        paint_roofline(drawing.add_subplot(), points, looked_at, colours)

    caption = say(
        "Each point is the longest task on one chip: filled by its bytes from HBM, hollow by all "
        "that pass L2. Roofs are peaks of units, and what long streams get from memory; thin ones "
        "are of other chips. Up is arithmetic done in the time of the task, its launch included."
    )
    return Figure(draw("roofline", paint, height_inches=4.0), "Roofline", caption)


def pipes_figure(res: Result) -> Figure:
    """How busy every pipe is in each of the longest tasks."""
    shown = sorted(res.tasks, key=lambda task: -task.duration_us)[:4]
    pipes = sorted({pipe for task in shown for pipe in task.pipes}, key=pipe_order)
    names = _told_apart(shown)

    def paint(drawing: Drawing) -> None:
        axes = axes_of(drawing, say("busy share of the cores' time"))
        thick = 0.8 / max(1, len(shown))
        for number, task in enumerate(shown):
            places = [row + (number - (len(shown) - 1) / 2) * thick for row in range(len(pipes))]
            shares = [task.pipes.get(pipe, 0.0) for pipe in pipes]
            axes.barh(places, shares, height=thick * 0.9, color=SERIES[number], label=names[number])
        axes.axvline(BOUND_RATIO, color=MARK, lw=1, ls="--")
        name_rows(axes, pipes)
        axes.set_xlim(0, 1)
        if len(shown) > 1:
            drawing.legend(loc="outside lower center", ncols=2)

    height = 1.4 + 0.2 * len(pipes) * max(1.5, len(shown))
    caption = say("Averaged over the cores that use the pipe; the dashed line is 80 %.")
    return Figure(
        draw("pipes", paint, height_inches=height),
        say("Pipes on {soc}").format(soc=res.soc),
        caption,
    )


def _told_apart(tasks: Sequence[TaskResult]) -> list[str]:
    names = [task.name for task in tasks]
    return [
        say("{name} at {start_us}").format(name=name, start_us=latency(task.start_us))
        if names.count(name) > 1
        else name
        for name, task in zip(names, tasks, strict=True)
    ]


def timeline_figure(res: Result) -> Figure | None:
    """What the pipes of a few cores do over the whole call.

    None where nothing runs, and where even one core does so much that it would take long to unfold
    and be seen as a flat band.
    """
    lanes = timeline_lanes(res.timeline)
    if not lanes:
        return None
    cores = list(dict.fromkeys(core for core, _ in lanes))
    part_us = res.duration_us / STEPS_SHOWN

    def paint(drawing: Drawing) -> None:
        paint_timeline(drawing.add_subplot(), res.timeline, lanes, res.duration_us)

    caption = say(
        "{cores} of {all_cores} cores; lines mark where a task is "
        "launched. The height is the busy share of every {part_us} us; "
        "`npusim trace` writes every instruction for a viewer."
    ).format(
        cores=", ".join(cores), all_cores=len(res.timeline.cores), part_us=significant(part_us, 2)
    )
    drawn = draw("timeline", paint, height_inches=0.9 + 0.2 * len(lanes), width_inches=9.0)
    return Figure(drawn, say("Timeline on {soc}").format(soc=res.soc), caption, wide=True)
