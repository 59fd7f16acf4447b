"""Doing something later without a process of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import simpy


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
