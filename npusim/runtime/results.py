"""What a call returns: time with its band, tasks, timeline, and the numbers where there are any."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from npusim.values.display import frame, latency, notebook_html
from npusim.values.takes import takes

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes

    from npusim.runtime.timeline import TaskResult, Timeline


@dataclass(frozen=True, eq=False)
class Result:
    """A simulated call. ``outputs`` is None for an estimate.

    ``band_us`` is the 80 % band of ``duration_us``.
    """

    op: str
    soc: str
    outputs: dict[str, np.ndarray[Any, Any]] | None
    cycles: int
    duration_us: float
    band_us: tuple[float, float]
    band_basis: str
    bound: str
    pipes: Mapping[str, float]
    workspace_size: int
    tasks: tuple[TaskResult, ...]
    timeline: Timeline
    assumptions: tuple[str, ...]
    jumped_ratio: float

    def __repr__(self) -> str:
        time = latency(self.duration_us, self.band_us)
        made = "estimate" if self.outputs is None else ", ".join(self.outputs)
        return f"<Result {self.op} on {self.soc}: {time}, {self.bound}; {made}>"

    @takes()
    def to_frame(self) -> Any:
        """The tasks in their order, a row each, times in us, as a pandas DataFrame.

        Raises UsageError where pandas isn't installed.
        """
        return frame(
            {
                "task": task.name,
                "block_dim": task.block_dim,
                "start_us": task.start_us,
                "duration_us": task.duration_us,
                "low_us": task.band_us[0],
                "high_us": task.band_us[1],
                "cycles": task.cycles,
                "bytes_read": task.bytes_read,
                "bytes_written": task.bytes_written,
                "hbm_bytes": task.hbm_bytes,
                "bound": task.bound,
                **{f"busy_{pipe}": ratio for pipe, ratio in task.pipes.items()},
            }
            for task in self.tasks
        )

    @takes()
    def plot_timeline(self, ax: Axes | None = None) -> Axes:
        """What the pipes of up to three cores do over the call, busy share over us; needs no `ax`.

        Raises UsageError for a call that does nothing, or so much that it would be a flat band.
        """
        from npusim.runtime.figures import timeline

        return timeline(self.timeline, self.op, self.duration_us, ax=ax)

    @takes()
    def plot_roofline(self, ax: Axes | None = None) -> Axes:
        """The longest task below the chip's roofs, as shares of them, both axes logarithmic.

        Raises UsageError for a call that computes nothing.
        """
        from npusim.runtime.figures import roofline

        return roofline(self.timeline, self.op, ax=ax)

    def _repr_html_(self) -> str:
        rows = (
            (t.name, t.block_dim, latency(t.start_us), latency(t.duration_us), t.bound)
            for t in self.tasks
        )
        return notebook_html(repr(self)[1:-1], ("task", "cores", "start", "time", "bound"), rows)
