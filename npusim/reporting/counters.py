"""Counters of a trace: what memory carries and how many cores a pipe keeps busy, over time.

The bytes of a copy are spread evenly over its slice. What of a task's bytes L2 didn't serve is
known for the task as a whole, so that its share is that of each of its copies.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import numpy as np

from npusim.engine.timeline import pipe_order

if TYPE_CHECKING:
    from npusim.runtime.results import Result
    from npusim.runtime.timeline import Slice

    Floats = np.ndarray[tuple[int, ...], np.dtype[np.float64]]

_PARTS: Final = 250  # of the time that is shown
_READING: Final = ("MTE2",)
_WRITING: Final = ("MTE3", "FIXP")

Counter = tuple[str, float, dict[str, float]]
"""A name, a time in microseconds, and the values of its series from then on."""


class Counters:
    """Adds up the slices of a trace between two times."""

    def __init__(self, res: Result, first_us: float, last_us: float) -> None:
        self._first_us = first_us
        self._part_us = max(last_us - first_us, 1e-9) / _PARTS
        self._moved = {each: np.zeros(_PARTS) for each in ("read", "written", "HBM")}
        self._busy_us: dict[str, Floats] = {}
        moved: dict[str, tuple[float, float]] = {}
        for task in res.tasks:
            hbm, whole = moved.get(task.name, (0.0, 0.0))
            whole += task.bytes_read + task.bytes_written
            moved[task.name] = (hbm + task.hbm_bytes, whole)
        self._hbm_share = {name: hbm / whole for name, (hbm, whole) in moved.items() if whole}

    def add(self, item: Slice) -> None:
        """Count one instruction."""
        begin = (item.start_us - self._first_us) / self._part_us
        end = begin + item.duration_us / self._part_us
        first, last = max(0, int(begin)), min(_PARTS - 1, int(end))
        if last < first or end <= 0:
            return
        places = np.arange(first, last + 1)
        within = np.clip(np.minimum(end, places + 1) - np.maximum(begin, places), 0.0, None)
        busy = self._busy_us.setdefault(item.pipe, np.zeros(_PARTS))
        busy[first : last + 1] += within * self._part_us
        if item.bytes and item.pipe in (*_READING, *_WRITING):
            nbytes = item.bytes * within / (end - begin)
            way = "read" if item.pipe in _READING else "written"
            self._moved[way][first : last + 1] += nbytes
            share = self._hbm_share.get(item.task, 0.0)
            self._moved["HBM"][first : last + 1] += nbytes * share

    def events(self) -> Iterator[Counter]:
        """The counters where they change, and nought at the end."""
        rates = {name: nbytes / self._part_us / 1e3 for name, nbytes in self._moved.items()}
        hbm = rates.pop("HBM")
        yield from self._track("L2, GB/s", rates)
        yield from self._track("HBM, GB/s", {"HBM": hbm})
        pipes = sorted(self._busy_us, key=pipe_order)
        cores = {pipe: self._busy_us[pipe] / self._part_us for pipe in pipes}
        yield from self._track("cores at work", cores)

    def _track(self, name: str, series: dict[str, Floats]) -> Iterator[Counter]:
        before: dict[str, float] = {}
        for place in range(_PARTS + 1):
            now = {
                each: round(float(values[place]), 3) if place < _PARTS else 0.0
                for each, values in series.items()
            }
            if now != before:
                yield name, self._first_us + place * self._part_us, now
            before = now
