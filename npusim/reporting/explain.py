"""Why a task takes so long: pipes, the critical path, and what would make it faster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.reporting.document import Bullets, Page, Section, Table
from npusim.reporting.spelling import latency
from npusim.runtime.explain import explain
from npusim.runtime.what_if import suggestions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from npusim.runtime.explain import Share
    from npusim.runtime.results import Result

_LINES = 8


def explained(result: Result) -> Page:
    """A page with each task of a result."""
    found = []
    timeline = result.timeline
    for task, run in zip(timeline.tasks, timeline.runs, strict=True):
        told = explain(run, timeline.profile)
        pipes = Table(
            ("pipe", "worked", "of the core's time", "mostly", "waited", "mostly for"),
            [
                (
                    pipe.pipe,
                    latency(pipe.worked_us),
                    f"{pipe.worked_us / told.core_us:.0%}" if told.core_us else "",
                    _first(pipe.worked),
                    latency(pipe.idle_us),
                    _first(pipe.waited),
                )
                for pipe in told.pipes
            ],
            ("worked", "of the core's time", "waited"),
            f"{task.name}: the slowest core, {latency(told.core_us)} behind a launch of "
            f"{latency(told.launch_us)}",
            ("mostly", "mostly for"),
        )
        path = Table(
            ("critical path", "line", "time", "share"),
            [
                (share.what, share.site, latency(share.us), f"{share.us / told.core_us:.0%}")
                for share in told.path[:_LINES]
            ],
            ("time", "share"),
        )
        lines = [str(each) for each in suggestions(run, timeline.profile)]
        advice = Bullets(lines or ["Nothing that was tried makes it faster."])
        found.append(Section(task.name, (pipes, path)))
        found.append(Section("What would make it faster, each played", (advice,)))
    return Page(f"Why {result.op} takes {latency(result.duration_us)}", result.soc, (), (), found)


def _first(shares: Sequence[Share]) -> str:
    if not shares:
        return ""
    share = shares[0]
    return f"{share.what} ({share.site})" if share.site else share.what
