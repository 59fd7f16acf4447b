"""Figures of results on matplotlib's axes: `Result.plot_timeline()`, `.plot_roofline()`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.reporting.call.figures import (
    paint_roofline,
    paint_timeline,
    roof_point,
    timeline_lanes,
)
from npusim.reporting.drawing import plain_colours
from npusim.values.errors import UsageError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from npusim.runtime.results import Result


def timeline(res: Result, *, ax: Axes | None = None) -> Axes:
    """The busy share of every pipe of up to three cores over the call, as in reports.

    Raises UsageError where nothing runs, or too much to be seen.
    """
    lanes = timeline_lanes(res)
    if not lanes:
        raise UsageError(
            f"{res.op} has no timeline to draw: nothing runs, or so much that it is a flat band",
            "npusim.trace(result, 'trace.json', window_us=(0, 100)) writes a part for a viewer.",
        )
    axes = ax or _new_axes(9.0, 0.9 + 0.25 * len(lanes))
    paint_timeline(axes, res, lanes)
    plain_colours(axes)
    return axes


def roofline(res: Result, *, ax: Axes | None = None) -> Axes:
    """The longest task below the roofs of its chip, as in reports; UsageError if it does little."""
    point = roof_point(res)
    if point is None:
        raise UsageError(
            f"{res.op} computes or moves next to nothing, so it has no place below a roof"
        )
    axes = ax or _new_axes(6.4, 3.6)
    paint_roofline(axes, [point], res.soc)
    plain_colours(axes)
    return axes


def _new_axes(width: float, height: float) -> Axes:
    """Axes of pyplot, so that notebooks and `plt.show()` find them."""
    from matplotlib import pyplot as plt

    _, axes = plt.subplots(figsize=(width, height), layout="constrained")
    return axes
