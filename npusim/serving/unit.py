"""Groups that step together, of which only those are looked at where something happens.

A group that only decodes goes on alike until one of its sequences is done or its blocks run out:
how long a step of it takes is a line over steps, and what it did is made up for when it is looked
at next.
"""

from __future__ import annotations

from math import ceil, inf, sqrt
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from npusim.serving.group import Group


class Unit:
    """The groups, and when the steps that they are in are over."""

    def __init__(self, groups: Sequence[Group]) -> None:
        self.groups = groups
        self.until_ms = inf
        self._step = 0
        self._busy_ms = 0.0
        self._time_ms = 0.0
        # When each group was looked at last, in steps and in time spent in them.
        self._seen = [0] * len(groups)
        self._seen_ms = [0.0] * len(groups)
        self._awake: set[int] = set()
        # Of each group: milliseconds of a step at step 0 and more at each, and its next event.
        self._lines = [(0.0, 0.0)] * len(groups)
        self._events: list[float] = [inf] * len(groups)
        self._reading: list[int] = []
        self._runs = [False] * len(groups)

    def send(self, request: int, number: int) -> None:
        """A request comes to a group."""
        self.groups[number].send(request)
        self._awake.add(number)

    def begin(self, now_ms: float, event_ms: float) -> None:
        """A step, or as many that only decode as are over when something may come from outside."""
        step, lacking = self._step, list[int]()
        self._reading = []
        for number in sorted(self._awake):
            group = self.groups[number]
            if self._seen[number] < step:
                self._catch_up(number, now_ms)
            group.plan()
            self._look(number)
            if group.chunks:
                self._reading.append(number)
            elif group.lacks_blocks:
                lacking.append(number)
        self._awake = set(lacking)
        if not any(self._runs):
            return
        time_ms, more_ms = self._slowest(step)
        steps = 1
        if not self._reading:
            left = min(self._events) - step
            if event_ms < inf and not all(group.is_full for group in self.groups):
                left = min(left, _steps_in(event_ms - now_ms, time_ms, more_ms))
            steps = max(1, int(left))
            time_ms = steps * time_ms + more_ms * steps * (steps - 1) / 2
        self._step += steps
        self._time_ms, self.until_ms = time_ms, now_ms + time_ms

    def _slowest(self, step: int) -> tuple[float, float]:
        """How long the step takes that all wait for, and how much longer each after it."""
        if len(self._lines) == 1:
            first_ms, more_ms = self._lines[0]
            return first_ms + more_ms * step, more_ms
        return max((first_ms + more_ms * step, more_ms) for first_ms, more_ms in self._lines)

    def end(self) -> list[int]:
        """The steps are over: the requests that leave."""
        self._busy_ms += self._time_ms
        step, now_ms = self._step, self.until_ms
        self.until_ms = inf
        for number, event in enumerate(self._events):
            if event <= step:
                self._awake.add(number)
        self._awake.update(self._reading)
        left = list[int]()
        for number in sorted(self._awake):
            left += self._catch_up(number, now_ms)
        return left

    def _catch_up(self, number: int, now_ms: float) -> list[int]:
        """A group takes the steps since it was looked at: the requests that leave."""
        group, steps = self.groups[number], self._step - self._seen[number]
        time_ms = self._busy_ms - self._seen_ms[number]
        self._seen[number], self._seen_ms[number] = self._step, self._busy_ms
        if not steps or not group.running:
            return []
        group.took(steps, time_ms, now_ms)
        return group.left

    def _look(self, number: int) -> None:
        """What a group does from here on."""
        group, step = self.groups[number], self._step
        self._runs[number] = group.running
        if not group.running:
            self._lines[number], self._events[number] = (0.0, 0.0), inf
            return
        first_ms, more_ms, steps = group.outlook()
        self._lines[number], self._events[number] = (
            (first_ms - more_ms * step, more_ms),
            step + steps,
        )


def _steps_in(wait_ms: float, first_ms: float, more_ms: float) -> int:
    """Steps until `wait_ms` are over, when each takes `more_ms` longer than the one before."""
    if more_ms <= 0:
        return max(1, ceil(wait_ms / first_ms))
    half = first_ms - more_ms / 2
    return max(1, ceil((sqrt(half * half + 2 * more_ms * wait_ms) - half) / more_ms))
