"""Who does the work: this process, local processes, or the workers of a Dask cluster.

Each is a `Crew` around a `concurrent.futures.Executor`, so the sweep itself can't tell them apart.
"""

from __future__ import annotations

import multiprocessing
import signal
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import Connection
from typing import Any, Protocol

from npusim.values.garbage import WORKERS_COLLECT_AFTER, collect_rarely
from npusim.values.host import cores
from npusim.values.signals import hidden_from_children

# What the workers of this machine have imported before they are forked.
_PRELOADED = ["npusim.sweeping.working"]


class Crew(Protocol):
    """An executor, how many workers it has, and what it raises when one of them dies."""

    executor: Executor
    lost: tuple[type[BaseException], ...]

    @property
    def workers(self) -> int:
        """How many points can be worked on at the same time."""
        ...

    def renew(self) -> None:
        """Make the executor work again after it has lost a worker."""
        ...

    def close(self, *, at_once: bool) -> None:
        """Let the workers go; `at_once` without waiting for what they are doing."""
        ...


class _Here(Executor):
    """Runs everything at once in this process."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as problem:  # noqa: BLE001 - the future hands it on
            future.set_exception(problem)
        return future


class SoloCrew:
    """This process alone: no start-up, and a debugger sees everything."""

    lost: tuple[type[BaseException], ...] = ()
    workers = 1

    def __init__(self) -> None:
        self.executor: Executor = _Here()

    def renew(self) -> None:
        """Nothing to renew."""

    def close(self, *, at_once: bool) -> None:
        """Nothing to close."""


class LocalCrew:
    """Processes on this machine, which end with this process however it ends.

    They are forked from a fresh server where the system has one, never from this process, whose
    threads and locks a fork would copy in an unknown state.
    """

    lost: tuple[type[BaseException], ...] = (BrokenProcessPool,)

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self.executor, self._leash = self._start()

    @property
    def workers(self) -> int:
        """How many processes there are."""
        return self._workers

    def _start(self) -> tuple[Executor, Connection]:
        methods = multiprocessing.get_all_start_methods()
        context = multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")
        if "forkserver" in methods:
            context.set_forkserver_preload(_PRELOADED)
            resource_tracker.ensure_running()  # which lets Ctrl-C through again
            with hidden_from_children():
                forkserver.ensure_running()
        far, near = context.Pipe(duplex=False)
        pool = ProcessPoolExecutor(
            self._workers, mp_context=context, initializer=_begin, initargs=(far,)
        )
        return pool, near

    def renew(self) -> None:
        """Start new processes after one has died."""
        self.close(at_once=True)
        self.executor, self._leash = self._start()

    def close(self, *, at_once: bool) -> None:
        """Let the processes go."""
        if at_once:
            self._leash.close()
        self.executor.shutdown(wait=True, cancel_futures=at_once)
        self._leash.close()


def _begin(leash: Connection) -> None:
    """Prepare a worker process: Ctrl-C is for the one that asks, and without it we end too."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    collect_rarely(WORKERS_COLLECT_AFTER)
    threading.Thread(target=_watch, args=(leash,), daemon=True).start()


def _watch(leash: Connection) -> None:
    """End this process when the other end of the pipe is closed, be it by a SIGKILL over there."""
    with suppress(EOFError, OSError):
        leash.recv()
    from npusim.sweeping.working import end_process  # who asks has no need of it

    end_process()


def local_crew(workers: int, points: int) -> Crew:
    """The crew for so many points on this machine; 0 workers mean one for each core."""
    wanted = min(workers or cores(), max(points, 1))
    return SoloCrew() if wanted == 1 else LocalCrew(wanted)
