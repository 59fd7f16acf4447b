"""Plain functions as the code of a core: they wait for other cores in the middle of a call.

A kernel's :meth:`process` yields what it waits for; a plain function can't, from calls deep inside.
So it runs on a thread of its own, of which only one runs at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from threading import Semaphore, Thread
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from npusim.ascendc.cluster import CoreWait
    from npusim.engine.program import Barrier


class _AbandonedError(BaseException):
    """Nobody goes on with the function: another core has failed."""


class Strand:
    """A function that runs up to its next :meth:`wait`, and from there on when it is asked to."""

    def __init__(self, function: Callable[[], object]) -> None:
        self._function = function
        self._go, self._back = Semaphore(0), Semaphore(0)
        self._step: Barrier | CoreWait | None = None
        self._error: BaseException | None = None
        self._abandoned = False

    def steps(self) -> Iterator[Barrier | CoreWait]:
        """What the function waits for, until it has ended; its error is raised here."""
        thread = Thread(target=self._run, daemon=True)
        thread.start()
        try:
            while True:
                self._step = None
                self._go.release()
                self._back.acquire()
                if self._error is not None:
                    raise self._error
                step = self._handed_over()
                if step is None:
                    return
                yield step
        finally:
            self._abandoned = True
            self._go.release()

    def _handed_over(self) -> Barrier | CoreWait | None:
        return self._step

    def wait(self, step: Barrier | CoreWait) -> None:
        """Called by the function: hand ``step`` over, and go on when it has come."""
        self._step = step
        self._back.release()
        self._go.acquire()
        if self._abandoned:
            raise _AbandonedError

    def _run(self) -> None:
        self._go.acquire()
        try:
            self._function()
        except _AbandonedError:
            return
        except BaseException as error:  # noqa: BLE001 - handed over to whoever runs the core
            self._error = error
        self._back.release()
