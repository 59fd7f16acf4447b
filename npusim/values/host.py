"""Cores and memory of the machine that we run on."""

from __future__ import annotations

import math
import os
import re
from pathlib import Path

from npusim.values.errors import HostMemoryError

_PLENTY = 64 << 20  # bytes that need no look at how much there is


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1  # macOS, Windows


def require_bytes(need: int, what: str) -> None:
    """HostMemoryError where `what` takes more memory than this process can have."""
    if need > _PLENTY and (have := available_bytes()) is not None and need > have:
        raise HostMemoryError(what, need, have)


def too_large(what: str, error: MemoryError) -> HostMemoryError:
    """The error for an allocation that failed; NumPy says how much it was for."""
    shape, kind = getattr(error, "shape", None), getattr(error, "dtype", None)
    need = 0 if shape is None or kind is None else math.prod(shape) * kind.itemsize
    return HostMemoryError(what, need, available_bytes())


def available_bytes() -> int | None:
    """What this process can still allocate; None where the system doesn't tell."""
    free = _number("/proc/meminfo", r"MemAvailable:\s*(\d+)")
    limit = _number("/proc/self/limits", r"Max address space\s+(\d+)")
    used = _number("/proc/self/status", r"VmSize:\s*(\d+)")
    bounds = [] if free is None else [free << 10]
    if limit is not None and used is not None:
        bounds.append(max(0, limit - (used << 10)))
    return min(bounds, default=None)


def _number(file: str, pattern: str) -> int | None:
    try:
        found = re.search(pattern, Path(file).read_text(encoding="ascii"))
    except (OSError, ValueError):  # not Linux
        return None
    return int(found[1]) if found else None
