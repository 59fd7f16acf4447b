"""Events between two pipes: flags that a kernel sets and waits for by hand, beside its queues."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from npusim.ascendc.issuer import Issuer
    from npusim.engine.program import Pipe


class Event:
    """A flag that ``setter`` sets and ``waiter`` waits for (SetFlag, WaitFlag).

    Each wait takes one set; ``set_before`` counts as one. The setting pipe goes on at once, the
    waiting one when what the setting pipe was given before is done.
    """

    def __init__(
        self, core: Issuer, setter: Pipe, waiter: Pipe, *, set_before: bool = False
    ) -> None:
        self._core = core
        self._setter, self._waiter = setter, waiter
        self._flag = (
            core.recorder.new_flag(int(set_before), f"an event set by {setter}")
            if core.recording
            else -1
        )

    def set(self) -> None:
        """``setter`` sets the flag when it has finished what it was given so far."""
        if self._core.recording:
            self._core.recorder.set_flag(self._setter, self._flag)

    def wait(self) -> None:
        """``waiter`` waits for the flag before its next instruction."""
        if self._core.recording:
            self._core.recorder.wait_flag(self._waiter, self._flag)
