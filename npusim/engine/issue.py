"""When instructions that wait inside their pipe were issued.

The scalar unit runs ahead of the pipes by what their queues hold. A Fixpipe with a unit flag begins
when it is issued and waits for the fractals of its block there, so the profiler counts it as busy
while the last loads of the block into L0 are still waiting in the queue of MTE1. Source:
asc-devkit, matmul sample: unit flags raise the time of fixpipe from 46 to 273 us.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from npusim.engine.program import Pipe

if TYPE_CHECKING:
    from npusim.engine.streams import TimedStep


class IssueQueue:
    """The queue of a core's MTE1, by what has left it: instructions, and a flag for each."""

    def __init__(self, entries: int) -> None:
        self._entries = entries
        self._left: deque[tuple[float, int]] = deque(maxlen=4 * entries)

    def begun(self, pipe: Pipe, step: TimedStep, started: float) -> float:
        """When a step began that was free to work from ``started`` on: at its issue, or then."""
        if pipe is Pipe.MTE1:
            self._left.append((started, 2 * len(step.parts)))
        elif step.unit_flag:
            waiting = self._entries
            for left, entries in reversed(self._left):
                if left <= started:
                    waiting -= entries
                    if waiting <= 0:
                        return left
            if self._left:  # so many haven't been in the queue yet
                return min(started, self._left[0][0])
        return started
