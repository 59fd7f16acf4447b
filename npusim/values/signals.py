"""Ctrl-C and the processes that help: it is for the one that asks, and never for them."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def hidden_from_children() -> Iterator[None]:
    """Processes started within never see Ctrl-C; here it comes when the block has ended."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
