"""Numbers and instruction streams from one pass through a kernel's code.

Runs find them one after the other, so that their times can't depend on numbers; whether a kernel
does the same with them as without is for these runs to tell.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch


@contextmanager
def in_one_pass() -> Iterator[None]:
    """Inside, what is computed is what is written down."""
    with patch("npusim.runtime.task.is_separable", lambda _: False):
        yield
