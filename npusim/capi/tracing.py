"""All calls of a program in one trace, each where it was on its stream."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, cast

from npusim.runtime.timeline import Slice, TaskResult, Timeline
from npusim.values.errors import RejectedError

if TYPE_CHECKING:
    from npusim.reporting.trace import TraceSummary
    from npusim.runtime.results import Result

_TASKS_LANE = "tasks"


@dataclass(frozen=True, eq=False)
class TimedCall:
    """A call that ran on `stream` from `start_us`; `advice` is what made it faster when tried."""

    stream: str
    start_us: float
    result: Result
    advice: tuple[str, ...] = ()


def write_program_trace(
    calls: Sequence[TimedCall], path: Path, *, force: bool = False
) -> TraceSummary:
    """Writes the calls to one trace. Raises RejectedError where there is none.

    Streams run at the same time, so each has its own lanes: the first one those of the cores, the
    others the same with the stream's name before.
    """
    from npusim.reporting.trace import write_trace

    if not calls:
        raise RejectedError("the program ran no operator, so there is nothing to trace")
    streams = list(dict.fromkeys(call.stream for call in calls))
    main = [call for call in calls if call.stream == streams[0]]
    program = replace(
        main[0].result,
        tasks=tuple(
            replace(task, start_us=task.start_us + call.start_us)
            for call in main
            for task in call.result.tasks
        ),
        timeline=cast("Timeline", _ProgramTimeline(calls, streams[0])),
    )
    return write_trace(program, path, force=force)


class _ProgramTimeline:
    """The timelines of several calls as one."""

    def __init__(self, calls: Sequence[TimedCall], main: str) -> None:
        self._calls = calls
        self._main = main

    @property
    def cores(self) -> tuple[str, ...]:
        names = (
            self._lane(call, core) for call in self._calls for core in call.result.timeline.cores
        )
        return tuple(dict.fromkeys(names))

    def slices(
        self, cores: Collection[str] | None = None, until_us: float = inf
    ) -> Iterator[Slice]:
        for call in self._calls:
            if call.stream != self._main:
                yield from (self._task_slice(call, task) for task in call.result.tasks)
            for each in call.result.timeline.slices(None, until_us - call.start_us):
                lane = self._lane(call, each.core)
                if cores is None or lane in cores:
                    yield _moved_slice(each, lane, call.start_us)

    def _lane(self, call: TimedCall, core: str) -> str:
        return core if call.stream == self._main else f"{call.stream} {core}"

    def _task_slice(self, call: TimedCall, task: TaskResult) -> Slice:
        start_us = call.start_us + task.start_us
        return Slice(
            task.name, call.stream, _TASKS_LANE, task.name, start_us, task.duration_us, 0, "", ""
        )


def _moved_slice(each: Slice, lane: str, by_us: float) -> Slice:
    waited_for = tuple(
        replace(other, start_us=other.start_us + by_us, end_us=other.end_us + by_us)
        for other in each.waited_for
    )
    return replace(each, core=lane, start_us=each.start_us + by_us, waited_for=waited_for)
