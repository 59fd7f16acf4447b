"""Ctrl-C and the processes that help: it is for the one that asks, and never for them."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from queue import SimpleQueue
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Future

T = TypeVar("T")
_ON_PARENTS_END: Final = 1  # PR_SET_PDEATHSIG of Linux


def end_with_parent() -> None:
    """In a child: Linux ends it when the thread that started it ends, SIGKILL too."""
    import ctypes

    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_ON_PARENTS_END, signal.Signals["SIGKILL"])


@contextmanager
def hidden_from_children() -> Iterator[None]:
    """Processes started within never see Ctrl-C; here it comes when the block has ended.

    So none is left half started, unknown to whoever would end it.
    """
    before = signal.getsignal(signal.SIGINT)
    if not callable(before) or threading.current_thread() is not threading.main_thread():
        yield
        return
    come: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: come.append(number))
    masks = hasattr(signal, "pthread_sigmask")  # which processes inherit; Windows has none
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}) if masks else set()
    try:
        yield
    finally:
        if masks:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGINT, before)
        if come:
            signal.raise_signal(signal.SIGINT)


def in_order(futures: Sequence[Future[T]]) -> Iterator[T]:
    """The results of ``futures``, which Ctrl-C never leaves locked.

    One that is asked while it isn't done may be: whoever has its result then waits for ever.
    """
    arrived: SimpleQueue[Future[T]] = SimpleQueue()
    for future in futures:
        with hidden_from_children():
            future.add_done_callback(arrived.put)
    there: set[Future[T]] = set()
    for future in futures:
        while future not in there:
            there.add(arrived.get())
        yield future.result()
