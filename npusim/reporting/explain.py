"""Why a task takes so long: pipes, the critical path, and what would make it faster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.reporting.document import Bullets, Page, Section, Table
from npusim.reporting.spelling import latency, percent
from npusim.runtime.explain import explain
from npusim.runtime.what_if import suggestions
from npusim.values.language import say
from npusim.values.sites import source_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from npusim.runtime.explain import Explanation, Share
    from npusim.runtime.results import Result

_LINES = 8
NOTHING_HELPS = "Nothing that was tried makes it faster."


def explained(result: Result, advice: Sequence[str] = ()) -> Page:
    """A page with each task of a result, and what made it faster where it was tried."""
    found = []
    timeline = result.timeline
    for task, run in zip(timeline.tasks, timeline.runs, strict=True):
        told = explain(run, timeline.profile)
        pipes = pipes_table(task.name, told)
        path = Table(
            ("critical path", "line", "code", "time", "share"),
            [
                (
                    share.what,
                    share.site,
                    source_line(share.site),
                    latency(share.us),
                    percent(share.us / told.core_us),
                )
                for share in told.path[:_LINES]
            ],
            ("time", "share"),
            "",
            ("code",),
        )
        lines = [str(each) for each in suggestions(run, timeline.profile)]
        played = Bullets([*advice, *lines] or [NOTHING_HELPS])
        found.append(Section(task.name, (pipes, path)))
        found.append(Section(say("What would make it faster, each played"), (played,)))
    return Page(
        say("Why {op} takes {duration_us}").format(
            op=result.op, duration_us=latency(result.duration_us)
        ),
        result.soc,
        (),
        (),
        found,
    )


def suggested(result: Result) -> list[str]:
    """What would make the longest task of a result faster, each played, the best one first."""
    pairs = zip(result.tasks, result.timeline.runs, strict=True)
    if (longest := max(pairs, key=lambda pair: pair[0].duration_us, default=None)) is None:
        return []
    return [str(each) for each in suggestions(longest[1], result.timeline.profile)]


def pipes_table(name: str, told: Explanation) -> Table:
    """What each pipe of the slowest core of the task `name` worked on, and what it waited for."""
    rows = [
        (
            pipe.pipe,
            latency(pipe.busy_us),
            percent(pipe.busy_us / told.seen_us) if told.seen_us else "",
            _first(pipe.worked),
            latency(pipe.idle_us),
            _first(pipe.waited),
        )
        for pipe in told.pipes
    ]
    is_whole = told.seen_us >= told.core_us
    part = (
        ""
        if is_whole
        else say("; shares are of its first {seen_us}").format(seen_us=latency(told.seen_us))
    )
    return Table(
        ("pipe", "busy", "of the core's time", "mostly", "waited", "mostly for"),
        rows,
        ("busy", "of the core's time", "waited"),
        say(
            "{name}: the slowest core alone, {core_us} behind a launch of {launch_us}{part}"
        ).format(
            name=name, core_us=latency(told.core_us), launch_us=latency(told.launch_us), part=part
        ),
        ("mostly", "mostly for"),
    )


def _first(shares: Sequence[Share]) -> str:
    if not shares:
        return ""
    share = shares[0]
    return f"{share.what} ({share.site})" if share.site else share.what
