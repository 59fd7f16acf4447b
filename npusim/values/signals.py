"""Ctrl-C and the processes that help: it is for the one that asks, and never for them."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


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
