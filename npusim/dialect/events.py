"""Events between two pipes: the flags a kernel sets and waits for by hand, where no queue does it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.engine.program import Pipe

if TYPE_CHECKING:
    from npusim.dialect.core import Core


class Event:
    """A flag that ``setter`` sets and ``waiter`` waits for (SetFlag, WaitFlag); ``set_before`` counts it as set once.

    Each wait takes one set. The setting pipe goes on at once, the waiting one when all it was given before is done.
    """

    def __init__(
        self, core: Core, setter: Pipe, waiter: Pipe, *, set_before: bool = False
    ) -> None:
        self._core = core
        self._setter, self._waiter = setter, waiter
        self._flag = core.recorder.new_flag(int(set_before)) if core.recording else -1

    def set(self) -> None:
        """``setter`` sets the flag when it has finished what it was given so far."""
        if self._core.recording:
            self._core.recorder.set_flag(self._setter, self._flag)

    def wait(self) -> None:
        """``waiter`` waits for the flag before its next instruction."""
        if self._core.recording:
            self._core.recorder.wait_flag(self._waiter, self._flag)
