"""SimPy's clock, and doing something later without a process of its own."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from typing import Any

import simpy
from simpy.events import NORMAL as _NORMAL


class Clock(simpy.Environment):
    """SimPy's environment for events that call back and never fail; the time is a plain number."""

    now: float = 0.0

    def __init__(self) -> None:
        # SimPy would bind its kinds of events, which aren't used here, in a circle of references.
        self._now, self._queue, self._eid, self._active_proc = 0.0, [], count(), None

    def go_to(self, time: float) -> None:
        """Move on to ``time``, before which nothing is to come."""
        self._now = self.now = time

    def run_out(self) -> None:
        """Go on until nothing is to come."""
        queue = self._queue
        while queue:
            now, _, _, event = heappop(queue)
            self._now = self.now = now
            callbacks, event.callbacks = event.callbacks, None  # type: ignore[assignment]
            for callback in callbacks:
                callback(event)


class Alarm(simpy.Event):
    """An event that comes by itself after ``delay`` cycles and calls ``action`` with itself.

    It is a timeout that is quicker to make; ``about`` is what the action wants to know.
    """

    __slots__ = ("about",)

    _ok, _value = True, None  # what came by itself hasn't failed

    def __init__(
        self,
        env: simpy.Environment,
        delay: float,
        action: Callable[[Any], None],
        about: Any = None,
    ) -> None:
        self.callbacks = [action]
        self.about = about
        # as `env.schedule` does
        heappush(env._queue, (env._now + delay, _NORMAL, next(env._eid), self))  # noqa: SLF001
