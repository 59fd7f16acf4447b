"""Flags while a kernel is played: who has set what, who waits, and what is on its way between cores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import simpy


class Flags:
    """The flags of one core, or of all cores of one cluster.

    ``delays`` are the cycles that a flag takes to arrive, for those that go from core to core.
    """

    def __init__(
        self, env: simpy.Environment, initial: Sequence[int], delays: Mapping[int, float]
    ) -> None:
        self.counts = list(initial)
        self._env = env
        self._delays = delays
        self._waiters: dict[int, simpy.Event] = {}
        self._coming: list[tuple[int, float]] = []  # flag, when it arrives

    @property
    def coming(self) -> list[tuple[int, float]]:
        """Flags that are on their way, with the cycles until they arrive."""
        return [(flag, arrival - self._env.now) for flag, arrival in self._coming]

    def take(self, flag: int) -> simpy.Event | None:
        """Take a flag that is set; of one that isn't, the event that says when it is the caller's."""
        if self.counts[flag]:
            self.counts[flag] -= 1
            return None
        event = self._waiters[flag] = self._env.event()
        return event

    def set(self, flag: int) -> None:
        """Set a flag, for the pipe that waits for it or the next that will."""
        delay = self._delays.get(flag)
        if not delay:
            self._arrive(flag)
            return
        coming = (flag, self._env.now + delay)
        self._coming.append(coming)
        arrival = self._env.timeout(delay)
        assert arrival.callbacks is not None
        arrival.callbacks.append(lambda _event: self._land(coming))

    def _land(self, coming: tuple[int, float]) -> None:
        self._coming.remove(coming)
        self._arrive(coming[0])

    def _arrive(self, flag: int) -> None:
        waiter = self._waiters.pop(flag, None)
        if waiter is not None:
            waiter.succeed()
        else:
            self.counts[flag] += 1
