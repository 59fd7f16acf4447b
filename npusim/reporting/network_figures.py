"""The figures of a network's page: its layers over time, their roofline, memory while it runs."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Final

from npusim.reporting.document import Figure
from npusim.runtime.figures import RoofPoint, paint_roofline
from npusim.values.drawing import SERIES, axes_of, draw, name_rows
from npusim.values.language import say

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

    from npusim.model.results import StepResult, TimedItem

_COMPUTING: Final = ("CUBE", "VECTOR")
_CLASSES_SHOWN: Final = 8
_BYTES_PER_US: Final = 1e3  # of 1 GB/s
_MIB: Final = 1 << 20


def layers_figure(result: StepResult) -> Figure:
    """When tasks of each class run, one after the other as the stream has them."""
    kinds = [each.kind for each in result.classes[:_CLASSES_SHOWN]]
    starts = _starts_us(result)

    def paint(drawing: Drawing) -> None:
        axes = axes_of(drawing, "us of device time")
        for row, kind in enumerate(kinds):
            mine = [
                (start, each.total_us)
                for start, each in zip(starts, result.items, strict=True)
                if each.kind == kind
            ]
            axes.broken_barh(mine, (row - 0.35, 0.7), color=SERIES[row % len(SERIES)])
        name_rows(axes, kinds)
        axes.set_xlim(0, result.device_us or 1)

    drawn = draw("layers", paint, height_inches=0.9 + 0.28 * len(kinds), width_inches=9.0)
    caption = say("Every bar is a task; `npusim trace` writes them with the names of their layers.")
    return Figure(
        drawn, say("Layers over time on {soc}").format(soc=result.soc), caption, wide=True
    )


def layers_roofline(result: StepResult) -> Figure | None:
    """The longest tasks of the step below the roof; None where none is simulated and large."""
    profile = result.profile
    ranked = sorted(result.operators, key=lambda each: -each.total_us)
    points = [
        point
        for each in ranked[:40]
        for task in each.timing.tasks[:1]
        if (compute := max(task.pipes.get(pipe, 0.0) for pipe in _COMPUTING)) > 0
        for hbm in (_share(task.hbm_bytes, task.duration_us, profile.hbm_sustained_gbps),)
        for l2 in (
            _share(
                task.bytes_read + task.bytes_written, task.duration_us, profile.l2_sustained_gbps
            ),
        )
        if (point := RoofPoint(each.op, each.kind, compute, hbm, l2)).levels
    ]
    if not points:
        return None

    def paint(drawing: Drawing) -> None:
        paint_roofline(drawing.add_subplot(), points, points[0].soc)

    caption = say(
        "Each point is one of the operators that take longest, by its "
        "class: filled by its bytes from HBM, hollow by all that pass "
        "L2. Up is how busy its cube or vector units are."
    )
    return Figure(draw("layer-roofline", paint, height_inches=3.6), "Roofline of layers", caption)


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


def _share(nbytes: float, time_us: float, gbps: float) -> float:
    return nbytes / (time_us * gbps * _BYTES_PER_US) if time_us else 0.0


def longest(result: StepResult, most: int) -> list[TimedItem]:
    """The tasks of a step that take longest."""
    return sorted(result.items, key=lambda each: -each.total_us)[:most]
