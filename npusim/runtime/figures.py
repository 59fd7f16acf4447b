"""A result drawn on matplotlib's axes: what its pipes do when, and its place below the roofs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from npusim.engine.timeline import pipe_order
from npusim.values.display import MILLISECONDS_FROM_US, significant
from npusim.values.drawing import (
    GRID,
    INK,
    MARK,
    SERIES,
    colours_of,
    in_plain_decades,
    plain_colours,
)
from npusim.values.dtypes import dtype
from npusim.values.errors import UsageError
from npusim.values.language import say
from npusim.values.plotted import ROW

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from npusim.hardware.profile import Profile
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
_NAMED = 5  # points of a roofline
_LINE_APART = 1.6  # times as high, so that the names of two ceilings don't touch


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
    paint_roofline(axes, [point], [point], colours_of([point.family]))
    plain_colours(axes)
    return axes


def _new_axes(width: float, height: float) -> Axes:
    """Axes of pyplot, so that notebooks and `plt.show()` find them."""
    from matplotlib import pyplot as plt

    _, axes = plt.subplots(figsize=(width, height), layout="constrained")
    return axes


@dataclass(frozen=True)
class RoofPoint:
    """Work below the roofs of a chip: its rate in 10^12 operations a second, and its bytes.

    ``work_per_byte`` are operations on each byte by the memory that moves it; a memory without a
    load isn't there. ``ceilings`` are the peaks of the units at work, by their names.
    """

    name: str
    family: str
    profile: Profile
    tops: float
    work_per_byte: Mapping[str, float]
    ceilings: Mapping[str, float]


def work_per_byte(operations: float, hbm_bytes: float, l2_bytes: float) -> dict[str, float]:
    """Operations on each byte, by the memories of :func:`memory_gbps`."""
    moved = {"HBM": hbm_bytes, "L2": l2_bytes}
    return {level: operations / nbytes for level, nbytes in moved.items() if nbytes > 0}


def memory_gbps(profile: Profile) -> dict[str, float]:
    """What long streams get from each memory."""
    return {"HBM": profile.hbm_sustained_gbps, "L2": profile.l2_sustained_gbps}


def unit_peaks(profile: Profile, unit: str, dtypes: Iterable[str]) -> dict[str, float]:
    """Peaks in 10^12 operations a second of a unit, ``cube`` or ``vector``, by its name."""
    peaks = {}
    for name in dtypes:
        if unit == "vector":
            peaks[f"vector {name}"] = profile.vector_peak_tops(dtype(name).itemsize)
        elif name in profile.cube.dtypes:
            peaks[f"cube {name}"] = profile.cube_peak_tops(name)
    return peaks


def roof_point(ran: Timeline) -> RoofPoint | None:
    """The longest task of a call, launch included; None where it does no arithmetic."""
    work, profile = longest_work(ran), ran.profile
    if work is None:
        return None
    done = {"cube": work.cube_operations, "vector": work.vector_operations}
    unit = max(done, key=lambda each: _share_of_peak(profile, each, done[each]))
    operations = sum(done[unit].values())
    whole_us = (work.core_cycles + work.launch_cycles) / work.clock_mhz
    shares = {"HBM": work.hbm_share, "L2": work.l2_share}
    intensities = {
        level: each
        for level, each in work_per_byte(operations, work.hbm_bytes, work.bus_bytes).items()
        if shares[level] > _NO_LOAD
    }
    if not operations or not intensities:
        return None
    peaks = unit_peaks(profile, unit, done[unit])
    return RoofPoint(
        profile.name, profile.family, profile, operations / whole_us / 1e6, intensities, peaks
    )


def _share_of_peak(profile: Profile, unit: str, done: Mapping[str, int]) -> float:
    """Time that a unit takes at least for all of it, in microseconds."""
    peaks = unit_peaks(profile, unit, done)
    return sum(done[name.partition(" ")[2]] / peak / 1e6 for name, peak in peaks.items())


def longest_work(ran: Timeline) -> TaskWork | None:
    """What the cores did in the longest task."""
    pairs = zip(ran.tasks, ran.work(), strict=True)
    best = max(pairs, key=lambda pair: pair[0].duration_us, default=None)
    return best[1] if best else None


def paint_roofline(
    axes: Axes,
    points: Sequence[RoofPoint],
    focus: Sequence[RoofPoint],
    colours: Mapping[str, str],
) -> None:
    """Points below the roofs of their chips; those of `focus`, which share one, are named.

    `colours` are those of families of chips, or of classes of operators.
    Across are operations on each byte, up 10^12 operations a second. Other chips than that of
    `focus` have thin roofs in the colour of their family.
    """
    profile = focus[0].profile
    ceilings = {name: peak for each in focus for name, peak in each.ceilings.items()}
    gbps, top = memory_gbps(profile), max(ceilings.values())
    across = [each for point in points for each in point.work_per_byte.values()]
    across += [1e3 * peak / rate for peak in ceilings.values() for rate in gbps.values()]
    ends = min(across) / 4, max(across) * 8
    _paint_other_roofs(axes, points, profile, ends, colours)
    _paint_ceilings(axes, ceilings, max(gbps.values()), ends[1])
    for level, rate in gbps.items():
        told = say("{level}: {rate} GB/s").format(level=level, rate=significant(rate))
        style = "-" if level == "HBM" else ":"
        places = [ends[0], 1e3 * top / rate]
        axes.plot(places, [each * rate / 1e3 for each in places], style, color=INK, lw=1.2,
                  label=told)  # fmt: skip
    for family in dict.fromkeys(point.family for point in points):
        colour = colours[family]
        for level, face in (("HBM", colour), ("L2", "none")):
            mine = [
                (point.work_per_byte[level], point.tops)
                for point in points
                if point.family == family and level in point.work_per_byte
            ]
            if mine:
                axes.plot(*zip(*mine, strict=True), "o", color=colour, markerfacecolor=face, ms=6)
        axes.plot([], [], "o", color=colour, label=family)
    bottom = min(point.tops for point in points) / 4
    axes.set(xscale="log", yscale="log", xlim=ends, ylim=(bottom, top * 3))
    axes.set(xlabel=say("operations on each byte"), ylabel=_unit(ceilings))
    in_plain_decades(axes.xaxis)
    in_plain_decades(axes.yaxis)
    _name_points(axes, focus)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=3)


def _unit(ceilings: Iterable[str]) -> str:
    return "TOPS" if all("int" in name for name in ceilings) else "TFLOP/s"


def _paint_ceilings(axes: Axes, ceilings: Mapping[str, float], gbps: float, right: float) -> None:
    """The peaks of units, each with its name where no higher one is too near."""
    for name, peak in ceilings.items():
        axes.plot([1e3 * peak / gbps, right], [peak, peak], color=INK, lw=1.2)
        higher = (other for key, other in ceilings.items() if key != name and other >= peak)
        if all(other > _LINE_APART * peak for other in higher):
            told = f"{name}: {significant(peak)} {_unit([name])}"
            axes.annotate(told, (right, peak), xytext=(4, 0), textcoords="offset points",
                          va="center", fontsize=8)  # fmt: skip


def _paint_other_roofs(
    axes: Axes,
    points: Sequence[RoofPoint],
    profile: Profile,
    ends: tuple[float, float],
    colours: Mapping[str, str],
) -> None:
    """The roofs from HBM of other chips than `profile`."""
    for point in points:
        if point.profile.name == profile.name:
            continue
        rate, peak = point.profile.hbm_sustained_gbps, max(point.ceilings.values())
        places = [ends[0], 1e3 * peak / rate, ends[1]]
        heights = [min(peak, place * rate / 1e3) for place in places]
        axes.plot(places, heights, color=colours[point.family], lw=0.7, alpha=0.6)


def _name_points(axes: Axes, focus: Sequence[RoofPoint]) -> None:
    """The names of the first points that lie so far apart that each can be read, once each."""
    limits = [np.log(axes.get_xlim()), np.log(axes.get_ylim())]
    taken: list[NDArray[np.float64]] = []
    named: set[str] = set()
    for point in focus:
        place = (next(iter(point.work_per_byte.values())), point.tops)
        at = np.array([
            (np.log(each) - low) / (high - low)
            for each, (low, high) in zip(place, limits, strict=True)
        ])  # fmt: skip
        near = any(abs(at - other)[0] < 0.3 and abs(at - other)[1] < 0.09 for other in taken)
        if point.name in named or near or len(named) == _NAMED:
            continue
        taken.append(at)
        named.add(point.name)
        beside = "left" if at[0] < 0.2 else "right" if at[0] > 0.8 else "center"
        is_high = _LINE_APART * point.tops > max(point.ceilings.values())
        axes.annotate(point.name, place, xytext=(0, -15 if is_high else 7),
                      textcoords="offset points", ha=beside, fontsize=8.5)  # fmt: skip


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
        tops = row + ROW / 2 - ROW * _busy_shares(lanes[lane], edges_us)
        axes.stairs(tops, edges_us / scale, baseline=row + ROW / 2, fill=True, color=colour, lw=0)
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
