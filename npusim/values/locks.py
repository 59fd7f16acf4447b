"""Locks that a forked process finds free, and that the handler of a signal may take again."""

from __future__ import annotations

import os
from threading import RLock
from weakref import WeakSet

_all: WeakSet[RLock] = WeakSet()


def lock() -> RLock:
    """A lock that its holder may take again: a handler of a signal that asks npusim, too."""
    made = RLock()
    _all.add(made)
    return made


def _free() -> None:
    for each in tuple(_all):
        each._at_fork_reinit()  # type: ignore[attr-defined] # noqa: SLF001 - as `logging` does


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_free)
