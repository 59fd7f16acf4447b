"""When Python looks for garbage."""

from __future__ import annotations

import atexit
import gc

_COLLECT_AFTER = 300_000
WORKERS_COLLECT_AFTER = 3_000_000
"""Estimates leave no garbage, and what a worker keeps of them is less than so many objects."""


def collect_rarely(after: int = _COLLECT_AFTER) -> None:
    """Look for garbage after many new objects instead of, as Python does by default, 700.

    Imports, profiles and programs are many objects that stay; to go through them again and again
    takes a tenth of the time of a short command, and of a sweep's worker. What is there when the
    process ends goes with it: to search that for garbage takes another tenth.
    """
    gc.set_threshold(after)
    atexit.unregister(gc.freeze)
    atexit.register(gc.freeze)


class CollectLater:
    """Inside, Python doesn't look for garbage: for work that makes many objects and leaves none.

    In a process that keeps much, to look at all of it takes longer than many an estimate. Leaving
    makes no object, which Python would take as a reason to look at once, when the result isn't
    even handed over.
    """

    __slots__ = ("_before",)

    def __enter__(self) -> None:
        self._before = gc.isenabled()
        gc.disable()

    def __exit__(self, *_: object) -> None:
        if self._before:
            gc.enable()
