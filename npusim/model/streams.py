"""Several streams of one device, each with the step's tasks in their order, a step in flight each.

A task takes as many cores as it has blocks, and the memory as far as it kept it busy alone: tasks
of other streams start while cores are left, and slow each other down where they want more than the
memory gives. What a task costs before it starts goes on while others run.

Source: hicann/ge stream_allocator.md (tasks of one stream run in order), one queue of blocks for
all streams.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from npusim.values.errors import ArgumentError
from npusim.values.language import say

if TYPE_CHECKING:
    from npusim.hardware import Profile
    from npusim.model.results import StepResult, TimedItem

MOST_STREAMS: Final = 64
_STEPS: Final = 4
"""Steps of each stream that are played; the first one fills the device."""

_EDGE: Final = 1e-9


@dataclass(frozen=True, slots=True)
class _Work:
    """One task: microseconds before it starts and while it runs, shares of cores and of memory."""

    before_us: float
    runs_us: float
    cores: float
    memory: float


def in_flight(result: StepResult, profile: Profile, streams: int) -> StepResult:
    """The same step with one in flight on each of several streams: its latency is longer.

    Raises ArgumentError for a number of streams that isn't 1 to 64.
    """
    if not 1 <= streams <= MOST_STREAMS:
        raise ArgumentError(
            say("{streams} streams; give 1 to {most_streams}").format(
                streams=streams, most_streams=MOST_STREAMS
            )
        )
    if streams == 1 or not result.device_us:
        return result
    works = tuple(_works(result.items, profile))
    longer = max(1.0, _played_us(works, streams) / _played_us(works, 1))
    more_us = result.device_us * (longer - 1)
    low_us, high_us = result.band_us
    return replace(
        result,
        streams=streams,
        duration_us=result.duration_us + more_us,
        band_us=(
            low_us + more_us * low_us / result.duration_us,
            high_us + more_us * high_us / result.duration_us,
        ),
    )


def _works(items: Iterable[TimedItem], profile: Profile) -> Iterable[_Work]:
    most = max(profile.cores.ai_cores, 1)
    for each in items:
        for _ in range(each.item.count):
            if not each.timing.tasks:
                yield _Work(0.0, each.timing.duration_us, 1.0, 1.0)
            for task in each.timing.tasks:
                runs_us = max(task.duration_us - task.launch_us, 0.0)
                moved_us = task.hbm_bytes / (profile.hbm_sustained_gbps * 1e3)
                share = min(1.0, moved_us / runs_us) if runs_us else 0.0
                yield _Work(task.launch_us, runs_us, min(1.0, task.block_dim / most), share)


def _played_us(works: Sequence[_Work], streams: int) -> float:
    """The time of a step of one stream while the others go on, in microseconds."""
    now_us, done = 0.0, [0] * streams
    ready = [(works[0].before_us, stream) for stream in range(streams)]
    waiting: deque[int] = deque()
    running: dict[int, float] = {}
    ends_us: list[float] = []
    total = _STEPS * len(works)
    while ready or waiting or running:
        free = 1.0 - sum(works[done[stream] % len(works)].cores for stream in running)
        while waiting and works[done[waiting[0]] % len(works)].cores <= free + _EDGE:
            stream = waiting.popleft()
            work = works[done[stream] % len(works)]
            running[stream] = work.runs_us
            free -= work.cores
        slower = max(1.0, sum(works[done[stream] % len(works)].memory for stream in running))
        step_us = min(
            [left_us * slower for left_us in running.values()]
            + [at_us - now_us for at_us, _ in ready]
        )
        now_us += step_us
        for stream in tuple(running):
            running[stream] -= step_us / slower
            if running[stream] <= _EDGE:
                del running[stream]
                done[stream] += 1
                if done[stream] < total:
                    ready.append((now_us + works[done[stream] % len(works)].before_us, stream))
                else:
                    ends_us.append(now_us)
        waiting.extend(stream for at_us, stream in sorted(ready) if at_us <= now_us + _EDGE)
        ready = [(at_us, stream) for at_us, stream in ready if at_us > now_us + _EDGE]
    return sum(ends_us) / len(ends_us) / _STEPS
