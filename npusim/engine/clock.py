"""Doing something later without a process of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import simpy


def after(env: simpy.Environment, delay: float, action: Callable[[], None]) -> None:
    """Call ``action`` once ``delay`` cycles have passed."""
    timeout = env.timeout(delay)
    if timeout.callbacks is not None:  # None only once the event has been processed
        timeout.callbacks.append(lambda _event: action())
