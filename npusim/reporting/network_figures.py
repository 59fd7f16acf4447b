"""The figures of a network's page: its layers over time, their roofline, memory while it runs."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Final

from npusim.operators.tasks import TaskSpec
from npusim.reporting.document import Figure
from npusim.runtime.figures import RoofPoint, paint_roofline, unit_peaks, work_per_byte
from npusim.validation.work import work_of
from npusim.values.drawing import SERIES, axes_of, colours_of, draw, name_rows
from npusim.values.language import say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure as Drawing

    from npusim.hardware.profile import Profile
    from npusim.model.results import StepResult, TimedItem

_CLASSES_SHOWN: Final = 8
_ROOFLINED: Final = 40  # operators
_MIB: Final = 1 << 20


def layers_figure(result: StepResult) -> Figure:
    """When tasks of each class run, one after the other as the stream has them."""
    kinds = [each.kind for each in result.classes[:_CLASSES_SHOWN]]
    starts, colours = _starts_us(result), colours_of(kinds)

    def paint(drawing: Drawing) -> None:
        axes = axes_of(drawing, "us of device time")
        for row, kind in enumerate(kinds):
            mine = [
                (start, each.total_us)
                for start, each in zip(starts, result.items, strict=True)
                if each.kind == kind
            ]
            axes.broken_barh(mine, (row - 0.35, 0.7), color=colours[kind])
        name_rows(axes, kinds)
        axes.set_xlim(0, result.device_us or 1)

    drawn = draw("layers", paint, height_inches=0.9 + 0.28 * len(kinds), width_inches=9.0)
    caption = say("Every bar is a task; `npusim trace` writes them with the names of their layers.")
    return Figure(
        drawn, say("Layers over time on {soc}").format(soc=result.soc), caption, wide=True
    )


def layers_roofline(result: StepResult) -> Figure | None:
    """The operators that take longest below the roofs; None where none is simulated and counts."""
    ranked = sorted(_once(result.items), key=lambda each: -each.total_us)[:_ROOFLINED]
    points = [point for each in ranked if (point := _roof_point(each, result.profile))]
    if not points:
        return None
    colours = colours_of(each.kind for each in result.classes)

    def paint(drawing: Drawing) -> None:
        paint_roofline(drawing.add_subplot(), points, points, colours)

    caption = say(
        "Each point is one of the operators that take longest: filled by its bytes from HBM, "
        "hollow by all that pass L2. Up is the arithmetic that it can't do without, in its time."
    )
    return Figure(draw("layer-roofline", paint, height_inches=4.2), "Roofline of layers", caption)


def _once(items: Sequence[TimedItem]) -> list[TimedItem]:
    """Each operator with its tensors once."""
    return list({each.item.operation.signature: each for each in items}.values())


def _roof_point(each: TimedItem, profile: Profile) -> RoofPoint | None:
    """An operator by the work of its family; None where that or its bytes aren't known."""
    operation, tasks = each.item.operation, each.timing.tasks
    if operation.work is None or not tasks or not each.timing.duration_us:
        return None
    task = operation.work
    if not isinstance(task, TaskSpec):
        task = TaskSpec(each.item.op, operation.inputs, operation.outputs)
    work = work_of(task)[1]
    unit, done = ("cube", work.cube) if work.cube else ("vector", work.lanes)
    kinds = [spec.dtype.name.lower() for spec in task.inputs if spec is not None][:1]
    peaks = unit_peaks(profile, unit, kinds) or unit_peaks(profile, unit, ["float16"])
    moved = sum(one.bytes_read + one.bytes_written for one in tasks)
    levels = work_per_byte(done, sum(one.hbm_bytes for one in tasks), moved)
    if not done or not levels:
        return None
    tops = done / each.timing.duration_us / 1e6
    return RoofPoint(each.item.op, each.kind, profile, tops, levels, peaks)


def memory_figure(result: StepResult) -> Figure | None:
    """Activations that are alive while each task runs; None where the file doesn't tell them."""
    alive = result.step.alive_bytes
    if not alive:
        return None
    starts = _starts_us(result)
    weights = (result.memory.weights_bytes or 0) / _MIB

    def paint(drawing: Drawing) -> None:
        axes = axes_of(drawing, "us of device time", "MiB")
        heights = [weights + nbytes / _MIB for nbytes in alive]
        axes.fill_between(starts, heights, weights, step="post", color=SERIES[0], alpha=0.6)
        axes.fill_between(starts, [weights] * len(starts), 0.0, step="post", color=SERIES[1])
        axes.plot([], [], color=SERIES[0], label="activations")
        axes.plot([], [], color=SERIES[1], label="weights")
        axes.set_xlim(0, result.device_us or 1)
        axes.set_ylim(bottom=0)
        axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0.0)

    caption = say("A tensor lives from the task that makes it to the last one that reads it.")
    return Figure(draw("memory", paint, height_inches=2.4), "Memory over time", caption)


def _starts_us(result: StepResult) -> list[float]:
    ends = accumulate((each.total_us for each in result.items), initial=0.0)
    return list(ends)[:-1]


def longest(result: StepResult, most: int) -> list[TimedItem]:
    """The tasks of a step that take longest."""
    return sorted(result.items, key=lambda each: -each.total_us)[:most]
