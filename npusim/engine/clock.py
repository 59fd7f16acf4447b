"""SimPy's clock, and doing something later without a process of its own."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop
from typing import Any

import simpy


class Clock(simpy.Environment):
    """SimPy's environment for events that call back and never fail; the time is a plain number."""

    now: float = 0.0

    def run_out(self) -> None:
        """Go on until nothing is to come."""
        queue = self._queue
        while queue:
            self._now, _, _, event = heappop(queue)
            self.now = self._now
            callbacks, event.callbacks = event.callbacks, None  # type: ignore[assignment]
            for callback in callbacks:
                callback(event)


class Alarm(simpy.Event):
    """An event that comes by itself after ``delay`` cycles and calls ``action`` with itself.

    It is a timeout that is quicker to make; ``about`` is what the action wants to know.
    """

    def __init__(
        self,
        env: simpy.Environment,
        delay: float,
        action: Callable[[Any], None],
        about: Any = None,
    ) -> None:
        self.env = env
        self.callbacks = [action]
        self._ok, self._value = True, None
        self.about = about
        env.schedule(self, delay=delay)
