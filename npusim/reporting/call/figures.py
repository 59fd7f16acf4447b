"""The figures of an operator's report: products, roofline, pipes, and what the cores do when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from npusim.engine.verdict import BOUND_RATIO
from npusim.reporting.document import Figure
from npusim.reporting.drawing import GRID, INK, MARK, SERIES, SOFT, axes_of, draw, name_rows
from npusim.reporting.spelling import MILLISECONDS_FROM_US, latency, significant
from npusim.reporting.trace import LANE_ORDER, OTHER_LANE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing
    from numpy.typing import NDArray

    from npusim.runtime.results import Result, TaskResult
    from npusim.runtime.work import TaskWork

    Floats = NDArray[np.float64]
    Lanes = dict[tuple[str, str], list[tuple[float, float]]]

_PIPE_COLOURS = dict(
    zip(("MTE2", "VECTOR", "MTE3", "CUBE", "MTE1", "FIXP", "SCALAR"), SERIES, strict=False)
)
_CORES_SHOWN = 3
SLICES_DRAWN = 200_000  # instructions that a timeline is drawn from: two seconds
_STEPS_SHOWN = 400  # parts of a timeline: what a screen can show
_NO_LOAD = 1e-3  # a level of memory that is used less has nothing to say about a task


def pipe_order(pipe: str) -> tuple[int, str]:
    """Where a pipe stands among others: as in a trace viewer."""
    return LANE_ORDER.get(pipe, OTHER_LANE), pipe


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


def products_figure(results: Sequence[Timed]) -> Figure:
    """The latency of every product with its band, the fastest first."""
    ranked = sorted(results, key=lambda res: (res.duration_us, res.soc))

    def paint(drawing: Drawing) -> None:
        longest_us = max((res.duration_us for res in ranked), default=0.0)
        scale, unit = (1e3, "ms") if longest_us >= MILLISECONDS_FROM_US else (1.0, "us")
        axes = axes_of(drawing, f"latency in {unit}, with its 80 % band")
        places = range(len(ranked))
        times = [res.duration_us / scale for res in ranked]
        below = [max(0.0, res.duration_us - res.band_us[0]) / scale for res in ranked]
        above = [max(0.0, res.band_us[1] - res.duration_us) / scale for res in ranked]
        axes.barh(places, times, color=SERIES[0], height=0.6)
        axes.errorbar(times, places, xerr=[below, above], fmt="none", ecolor=INK, capsize=3, lw=1)
        name_rows(axes, [res.soc for res in ranked])
        axes.set_xlim(left=0)

    height = 1.0 + 0.28 * len(ranked)
    caption = "Bars are the estimates; the lines span what is true in 80 % of cases."
    return Figure(draw("products", paint, height_inches=height), "Latency by product", caption)


@dataclass(frozen=True)
class RoofPoint:
    """A task on a chip, as shares of its roofs."""

    soc: str
    family: str
    compute: float
    hbm: float
    l2: float

    @property
    def levels(self) -> list[float]:
        """Memories that the task puts a load on; without one there is no place to draw it at."""
        return [level for level in (self.hbm, self.l2) if level > _NO_LOAD]


def roof_point(res: Result) -> RoofPoint | None:
    """The longest task of a result; None where it does next to nothing."""
    work = longest_work(res)
    if work is None or work.compute_share <= 0:
        return None
    family = res.timeline.profile.family
    # Of the whole task, launch included, as the verdict counts: figure and headline say the same.
    whole = work.core_cycles + work.launch_cycles
    compute = work.compute_share * work.core_cycles / whole
    point = RoofPoint(res.soc, family, compute, work.hbm_share, work.l2_share)
    return point if point.levels else None


def longest_work(res: Result) -> TaskWork | None:
    """What the cores did in the longest task."""
    pairs = zip(res.tasks, res.timeline.work(), strict=True)
    best = max(pairs, key=lambda pair: pair[0].duration_us, default=None)
    return best[1] if best else None


def roofline_figure(points: Sequence[RoofPoint], focus: str) -> Figure:
    """All products on one roofline, each relative to its own roofs.

    Across is the work per byte relative to the ridge, where compute and memory would be busy alike;
    up is the share of the compute roof.
    """

    def paint(drawing: Drawing) -> None:
        paint_roofline(drawing.add_subplot(), points, focus)

    caption = (
        "The solid line is what the chip could do, the dashed one 80 % of it, from where the "
        "profiler speaks of compute or memory bound. Filled points count the bytes from HBM, "
        "hollow ones all that pass L2; each point is the longest task on one chip."
    )
    return Figure(draw("roofline", paint, height_inches=3.6), "Roofline", caption)


def paint_roofline(axes: Axes, points: Sequence[RoofPoint], focus: str) -> None:
    """The roof, the points below it, the name of the chip looked at, and what colours mean."""
    axes.set(xlabel="work per byte, relative to the ridge", ylabel="share of the compute roof")
    across = [point.compute / level for point in points for level in point.levels]
    low = min([0.05, *across]) / 2
    high = max([20.0, *across]) * 2
    bottom = min([0.02, *(point.compute for point in points)]) / 2
    roof = [low, 1.0, high]
    for share, style in ((1.0, "-"), (BOUND_RATIO, "--")):
        heights = [share * min(1.0, place) for place in roof]
        axes.plot(roof, heights, style, color=SOFT, lw=1.2 if share == 1 else 0.8)
    for number, family in enumerate(dict.fromkeys(point.family for point in points)):
        mine = [point for point in points if point.family == family]
        colour = SERIES[number % len(SERIES)]
        _scatter(
            axes,
            [(p.compute / p.hbm, p.compute) for p in mine if p.hbm > _NO_LOAD],
            colour,
            True,
        )
        _scatter(
            axes,
            [(p.compute / p.l2, p.compute) for p in mine if p.l2 > _NO_LOAD],
            colour,
            False,
        )
        axes.plot([], [], "o", color=colour, label=family)
    axes.plot([], [], "o", color=SOFT, label="HBM")
    axes.plot([], [], "o", color=SOFT, markerfacecolor="none", label="L2")
    _name_focus(axes, points, focus)
    axes.set(xscale="log", yscale="log", xlim=(low, high), ylim=(bottom, 1.6))
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0.0)


def _scatter(axes: object, places: list[tuple[float, float]], colour: str, filled: bool) -> None:
    if places:
        across, up = zip(*places, strict=True)
        face = colour if filled else "none"
        axes.plot(across, up, "o", color=colour, markerfacecolor=face, ms=6)  # type: ignore[attr-defined]


def _name_focus(axes: object, points: Sequence[RoofPoint], focus: str) -> None:
    for point in points:
        if point.soc == focus:
            place = (point.compute / point.levels[0], point.compute)
            axes.annotate(  # type: ignore[attr-defined]
                focus, place, xytext=(0, 8), textcoords="offset points", ha="center", fontsize=8.5
            )


def pipes_figure(res: Result) -> Figure:
    """How busy every pipe is in each of the longest tasks."""
    shown = sorted(res.tasks, key=lambda task: -task.duration_us)[:4]
    pipes = sorted({pipe for task in shown for pipe in task.pipes}, key=pipe_order)
    names = _told_apart(shown)

    def paint(drawing: Drawing) -> None:
        axes = axes_of(drawing, "busy share of the cores' time")
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
    caption = "Averaged over the cores that use the pipe; the dashed line is 80 %."
    return Figure(draw("pipes", paint, height_inches=height), f"Pipes on {res.soc}", caption)


def _told_apart(tasks: Sequence[TaskResult]) -> list[str]:
    names = [task.name for task in tasks]
    return [
        f"{name} at {latency(task.start_us)}" if names.count(name) > 1 else name
        for name, task in zip(names, tasks, strict=True)
    ]


def timeline_figure(res: Result) -> Figure | None:
    """What the pipes of a few cores do over the whole call.

    None where nothing runs, and where even one core does so much that it would take long to unfold
    and be seen as a flat band.
    """
    lanes = timeline_lanes(res)
    if not lanes:
        return None
    cores = list(dict.fromkeys(core for core, _ in lanes))
    part_us = res.duration_us / _STEPS_SHOWN

    def paint(drawing: Drawing) -> None:
        paint_timeline(drawing.add_subplot(), res, lanes)

    caption = (
        f"{', '.join(cores)} of {len(res.timeline.cores)} cores; lines mark where a task is "
        f"launched. The height is the busy share of every {significant(part_us, 2)} us; "
        "`npusim trace` writes every instruction for a viewer."
    )
    drawn = draw("timeline", paint, height_inches=0.9 + 0.2 * len(lanes), width_inches=9.0)
    return Figure(drawn, f"Timeline on {res.soc}", caption, wide=True)


def timeline_lanes(res: Result) -> Lanes:
    """When each pipe of a few cores is busy, in us, by core and pipe in the order of a viewer.

    Empty where nothing runs, and where even one core does more than is worth unfolding.
    """
    cores = _few(res.timeline.cores)
    while cores and res.timeline.count(cores) > SLICES_DRAWN:
        cores = cores[:-1]
    found: Lanes = {}
    for item in res.timeline.slices(set(cores)) if cores else ():
        lane = found.setdefault((item.core, item.pipe), [])
        lane.append((item.start_us, item.start_us + item.duration_us))
    order = sorted(found, key=lambda lane: (cores.index(lane[0]), pipe_order(lane[1])))
    return {lane: found[lane] for lane in order}


def paint_timeline(axes: Axes, res: Result, lanes: Lanes) -> None:
    """A row for each pipe, as high as it is busy, over the whole call."""
    order = list(lanes)
    # Long calls are read in milliseconds, as everywhere.
    scale, unit = (1e3, "ms") if res.duration_us >= MILLISECONDS_FROM_US else (1.0, "us")
    edges_us = np.linspace(0.0, res.duration_us, _STEPS_SHOWN + 1)
    for row, lane in enumerate(order):
        colour = _PIPE_COLOURS.get(lane[1], SERIES[7])
        tops = row + 0.4 - 0.8 * _busy_shares(lanes[lane], edges_us)
        axes.stairs(tops, edges_us / scale, baseline=row + 0.4, fill=True, color=colour, lw=0)
    for task in res.tasks:
        axes.axvline(task.start_us / scale, color=MARK, lw=0.8)
    for row in range(1, len(order)):
        if order[row][0] != order[row - 1][0]:
            axes.axhline(row - 0.5, color=GRID, lw=1)
    axes.set_yticks(range(len(order)), _lane_names(order))
    axes.set_ylim(len(order) - 0.4, -0.6)
    axes.grid(visible=False, axis="y")
    axes.set_xlim(0, res.duration_us / scale)
    axes.set_xlabel(f"{unit} since the call began")


def _few(cores: Sequence[str]) -> list[str]:
    """The first, one in the middle and the last: the last ones often get what remains."""
    if len(cores) <= _CORES_SHOWN:
        return list(cores)
    return [cores[0], cores[len(cores) // 2], cores[-1]]


def _lane_names(lanes: Sequence[tuple[str, str]]) -> list[str]:
    """A core's name stands beside its first pipe only."""
    names, last = [], ""
    for core, pipe in lanes:
        names.append(f"{core}  {pipe}" if core != last else pipe)
        last = core
    return names


def _busy_shares(spans: list[tuple[float, float]], edges: Floats) -> Floats:
    """The share of each interval between the edges that the spans cover."""
    starts, ends = np.array(spans).T
    busy = np.diff(_passed(np.sort(starts), edges) - _passed(np.sort(ends), edges))
    return np.asarray(np.clip(busy / np.diff(edges), 0.0, 1.0))


def _passed(instants: Floats, edges: Floats) -> Floats:
    """At each edge, the time since each of the instants before it, in all."""
    count = np.searchsorted(instants, edges, side="right")
    total = np.concatenate(((0.0,), np.cumsum(instants)))
    return np.asarray(edges * count - total[count])
