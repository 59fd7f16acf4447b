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


def mapped(file: Path) -> tuple[int, int]:
    """The addresses from and to which a file lies in this process; zeros where it doesn't."""
    lines = _text("/proc/self/maps").splitlines()
    spans = [line.split()[0].split("-") for line in lines if line.endswith(f" {file}")]
    return (int(spans[0][0], 16), int(spans[-1][1], 16)) if spans else (0, 0)


def _number(file: str, pattern: str) -> int | None:
    found = re.search(pattern, _text(file))
    return int(found[1]) if found else None


def _text(file: str) -> str:
    """A file of the system's; empty where there is none."""
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, ValueError):  # not Linux
        return ""
