"""When Python looks for garbage."""

from __future__ import annotations

import atexit
import gc

_COLLECT_AFTER = 300_000


def collect_rarely() -> None:
    """Look for garbage after many new objects instead of, as Python does by default, 700.

    Imports, profiles and programs are many objects that stay; to go through them again and again
    takes a tenth of the time of a short command, and of a sweep's worker. What is there when the
    process ends goes with it: to search that for garbage takes another tenth.
    """
    gc.set_threshold(_COLLECT_AFTER)
    atexit.unregister(gc.freeze)
    atexit.register(gc.freeze)
