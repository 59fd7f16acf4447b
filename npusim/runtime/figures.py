"""A result drawn on matplotlib's axes: what its pipes do when, and its place below the roofs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from npusim.engine.timeline import pipe_order
from npusim.engine.verdict import BOUND_RATIO
from npusim.values.display import MILLISECONDS_FROM_US
from npusim.values.drawing import GRID, MARK, SERIES, SOFT, plain_colours
from npusim.values.errors import UsageError
from npusim.values.language import say

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from npusim.runtime.timeline import Timeline
    from npusim.runtime.work import TaskWork

    Floats = NDArray[np.float64]
    Lanes = dict[tuple[str, str], list[tuple[float, float]]]

_PIPE_COLOURS = dict(
    zip(("MTE2", "VECTOR", "MTE3", "CUBE", "MTE1", "FIXP", "SCALAR"), SERIES, strict=False)
)
_CORES_SHOWN = 3
SLICES_DRAWN = 200_000  # instructions that a timeline is drawn from: two seconds
STEPS_SHOWN = 400  # parts of a timeline: what a screen can show
_NO_LOAD = 1e-3  # a level of memory that is used less has nothing to say about a task


def timeline(ran: Timeline, op: str, duration_us: float, *, ax: Axes | None = None) -> Axes:
    """The busy share of every pipe of up to three cores over the call, as in reports.

    Raises UsageError where nothing runs, or too much to be seen.
    """
    lanes = timeline_lanes(ran)
    if not lanes:
        raise UsageError(
            f"{op} has no timeline to draw: nothing runs, or so much that it is a flat band",
            "npusim.trace(result, 'trace.json', window_us=(0, 100)) writes a part for a viewer.",
        )
    axes = ax or _new_axes(9.0, 0.9 + 0.25 * len(lanes))
    paint_timeline(axes, ran, lanes, duration_us)
    plain_colours(axes)
    return axes


def roofline(ran: Timeline, op: str, *, ax: Axes | None = None) -> Axes:
    """The longest task below the roofs of its chip, as in reports; UsageError if it does little."""
    point = roof_point(ran)
    if point is None:
        raise UsageError(f"{op} computes or moves next to nothing, so it has no place below a roof")
    axes = ax or _new_axes(6.4, 3.6)
    paint_roofline(axes, [point], point.soc)
    plain_colours(axes)
    return axes


def _new_axes(width: float, height: float) -> Axes:
    """Axes of pyplot, so that notebooks and `plt.show()` find them."""
    from matplotlib import pyplot as plt

    _, axes = plt.subplots(figsize=(width, height), layout="constrained")
    return axes


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


def roof_point(ran: Timeline) -> RoofPoint | None:
    """The longest task of a call; None where it does next to nothing."""
    work = longest_work(ran)
    if work is None or work.compute_share <= 0:
        return None
    # Of the whole task, launch included, as the verdict counts: figure and headline say the same.
    whole = work.core_cycles + work.launch_cycles
    compute = work.compute_share * work.core_cycles / whole
    point = RoofPoint(ran.profile.name, ran.profile.family, compute, work.hbm_share, work.l2_share)
    return point if point.levels else None


def longest_work(ran: Timeline) -> TaskWork | None:
    """What the cores did in the longest task."""
    pairs = zip(ran.tasks, ran.work(), strict=True)
    best = max(pairs, key=lambda pair: pair[0].duration_us, default=None)
    return best[1] if best else None


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
    for point in points:  # the first of that name, where there are several: one place, one label
        if point.soc == focus:
            place = (point.compute / point.levels[0], point.compute)
            axes.annotate(  # type: ignore[attr-defined]
                focus, place, xytext=(0, 8), textcoords="offset points", ha="center", fontsize=8.5
            )
            return


def timeline_lanes(ran: Timeline) -> Lanes:
    """When each pipe of a few cores is busy, in us, by core and pipe in the order of a viewer.

    Empty where nothing runs, and where even one core does more than is worth unfolding.
    """
    cores = _few(ran.cores)
    while cores and ran.count(cores) > SLICES_DRAWN:
        cores = cores[:-1]
    found: Lanes = {}
    for item in ran.slices(set(cores)) if cores else ():
        lane = found.setdefault((item.core, item.pipe), [])
        lane.append((item.start_us, item.start_us + item.duration_us))
    order = sorted(found, key=lambda lane: (cores.index(lane[0]), pipe_order(lane[1])))
    return {lane: found[lane] for lane in order}


def paint_timeline(axes: Axes, ran: Timeline, lanes: Lanes, duration_us: float) -> None:
    """A row for each pipe, as high as it is busy, over the whole call."""
    order = list(lanes)
    # Long calls are read in milliseconds, as everywhere.
    scale, unit = (1e3, "ms") if duration_us >= MILLISECONDS_FROM_US else (1.0, "us")
    edges_us = np.linspace(0.0, duration_us, STEPS_SHOWN + 1)
    for row, lane in enumerate(order):
        colour = _PIPE_COLOURS.get(lane[1], SERIES[7])
        tops = row + 0.4 - 0.8 * _busy_shares(lanes[lane], edges_us)
        axes.stairs(tops, edges_us / scale, baseline=row + 0.4, fill=True, color=colour, lw=0)
    for task in ran.tasks:
        axes.axvline(task.start_us / scale, color=MARK, lw=0.8)
    for row in range(1, len(order)):
        if order[row][0] != order[row - 1][0]:
            axes.axhline(row - 0.5, color=GRID, lw=1)
    axes.set_yticks(range(len(order)), _lane_names(order))
    axes.set_ylim(len(order) - 0.4, -0.6)
    axes.grid(visible=False, axis="y")
    axes.set_xlim(0, duration_us / scale)
    axes.set_xlabel(say("{unit} since the call began").format(unit=unit))


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
