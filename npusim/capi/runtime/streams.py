"""Streams and events in simulated time.

Tasks wait in their stream until somebody synchronises; then they run in order, and the stream's
clock advances by their simulated duration. A fault surfaces at the synchronise and not before.
Streams don't compete for cores: each advances as if it had the device to itself, its L2 included,
which is also what the Python API says of each call. What a program does on the host takes no
simulated time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from npusim.values.errors import DeviceFault
from npusim.values.status import AclError

if TYPE_CHECKING:
    from npusim.runtime.stream import Stream as Calls

CONTINUE_ON_FAILURE, STOP_ON_FAILURE = 0, 1


@dataclass(eq=False)
class Clock:
    """The host's clock: the latest simulated moment that the program has waited for."""

    now_us: float = 0.0


@dataclass(eq=False)
class Mark:
    """A moment on a stream that an event was recorded at; its time is known once it has passed."""

    stream: Stream
    time_us: float | None = None


@dataclass(eq=False)
class Event:
    """An event; `mark` is where it was recorded last."""

    mark: Mark | None = None


@dataclass(eq=False)
class _Task:
    """Something that waits in a stream: `run` gets its start and gives its length, both in us."""

    run: Callable[[float], float]
    issued_us: float


@dataclass(eq=False)
class Stream:
    """A queue of tasks with its own clock."""

    name: str
    device: int
    host: Clock
    was_created: bool = False  # by the program, which then has to destroy it
    failure_mode: int = CONTINUE_ON_FAILURE
    clock_us: float = 0.0
    simulated: Calls | None = None  # runs its calls and keeps what they leave in L2
    _tasks: deque[_Task | Mark] = field(default_factory=deque)
    _fault: DeviceFault | None = None
    _is_running: bool = False

    @property
    def is_idle(self) -> bool:
        """True when nothing waits."""
        return not self._tasks

    def submit(self, run: Callable[[float], float]) -> None:
        """Queue a task: `run` is called with its start and returns its duration, both in us."""
        self._tasks.append(_Task(run, self.host.now_us))

    def record(self, event: Event) -> None:
        """Queue the recording of an event."""
        event.mark = Mark(self)
        self.submit(lambda _: 0.0)  # the moment is not before the program asked for it
        self._tasks.append(event.mark)

    def wait_for(self, event: Event) -> None:
        """Queue waiting for an event, as it was last recorded or else as it will be."""
        mark = event.mark
        self.submit(lambda start_us: max(0.0, _time_of(mark or event.mark, self) - start_us))

    def synchronize(self) -> None:
        """Run what waits. Raises the first DeviceFault since the last synchronise."""
        self.run_until(None)
        self.host.now_us = max(self.host.now_us, self.clock_us)
        fault, self._fault = self._fault, None
        if fault is not None:
            raise fault

    def run_until(self, mark: Mark | None) -> None:
        """Run what waits up to a mark, or everything; a fault is kept for the synchronise."""
        self._is_running = True
        try:
            while self._tasks and (mark is None or mark.time_us is None):
                task = self._tasks.popleft()
                if isinstance(task, Mark):
                    task.time_us = self.clock_us
                else:
                    self._run(task)
        finally:
            self._is_running = False

    def drop(self) -> None:
        """Forget what waits."""
        self._tasks.clear()

    @property
    def is_running(self) -> bool:
        """True while its tasks run, so nobody may wait for them."""
        return self._is_running

    def _run(self, task: _Task) -> None:
        if self._fault is not None and self.failure_mode == STOP_ON_FAILURE:
            return
        start_us = max(self.clock_us, task.issued_us)
        try:
            self.clock_us = start_us + task.run(start_us)
        except DeviceFault as fault:
            self.clock_us = start_us
            self._fault = self._fault or fault


def elapsed_ms(start: Event, end: Event) -> float:
    """Simulated milliseconds between two events that have passed.

    Raises DeviceFault 107006 for one that wasn't recorded or hasn't passed, 107007 where the end
    comes before the start.
    """
    times = []
    for word, event in (("start", start), ("end", end)):
        if event.mark is None or event.mark.time_us is None:
            why = "was never recorded" if event.mark is None else "hasn't passed yet"
            raise DeviceFault(
                AclError.ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID,
                f"the {word} event {why}",
                "Record it on a stream and synchronise that stream first.",
            )
        times.append(event.mark.time_us)
    if times[1] < times[0]:
        raise DeviceFault(
            AclError.ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL,
            f"the end event is {times[0] - times[1]:.3f} us before the start event",
            "Exchange the two.",
        )
    return (times[1] - times[0]) / 1e3


def _time_of(mark: Mark | None, waiting: Stream) -> float:
    if mark is None or (mark.time_us is None and mark.stream.is_running):
        whom = "nobody records" if mark is None else "is recorded only after this wait"
        raise DeviceFault(
            AclError.ACL_ERROR_RT_WAIT_TIMEOUT,
            f"stream {waiting.name} waits for an event that {whom}",
            "Record the event before the wait.",
        )
    if mark.time_us is None:
        mark.stream.run_until(mark)
    if mark.time_us is None:  # its stream was destroyed with the recording still waiting
        raise DeviceFault(
            AclError.ACL_ERROR_RT_WAIT_TIMEOUT,
            f"stream {waiting.name} waits for an event whose stream was destroyed",
            "Synchronise a stream before destroying it.",
        )
    return mark.time_us
