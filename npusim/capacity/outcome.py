"""What one fleet simulation found: latencies, waits, and how busy the fleet was over time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


class Course(NamedTuple):
    """A quantity over time: the edges of the intervals in seconds, and its mean in each of them."""

    edges_s: Floats
    values: Floats


@dataclass(frozen=True, eq=False)
class FleetRun:
    """One run: a row for each request in order of arrival, and the devices' busy intervals.

    Times are microseconds.  Latencies and waits leave out the warm-up (the rows before
    `counted_from`); `busy_begin_us` and `busy_end_us` are sorted each for itself, which is all that
    counting the busy devices needs.
    """

    devices: int
    models: tuple[str, ...]
    counted_from: int
    arrival_us: Floats
    begin_us: Floats
    end_us: Floats
    model: NDArray[np.int16]
    busy_begin_us: Floats
    busy_end_us: Floats
    interrupted: int

    def latencies_us(self, model: str | None = None) -> Floats:
        """Time from arrival to the end of the batch, of all counted requests or one model's."""
        return self._counted(self.end_us - self.arrival_us, model)

    def waits_us(self, model: str | None = None) -> Floats:
        """Time from arrival to the begin of the batch, of all counted requests or one model's."""
        return self._counted(self.begin_us - self.arrival_us, model)

    def quantile_us(self, quantile: float, model: str | None = None) -> float:
        """The latency that this share of the requests doesn't exceed; one that really occurred."""
        latencies_us = self.latencies_us(model)
        if not len(latencies_us):
            return float("nan")
        return float(np.quantile(latencies_us, quantile, method="higher"))

    def utilisation(self) -> float:
        """The busy share of the devices' time, between warm-up and the last arrival."""
        return float(self.utilisation_over_time(1).values[0])

    def mean_batch(self) -> float:
        """Requests in a batch on average, over the whole run."""
        return len(self.arrival_us) / max(1, len(self.busy_begin_us) - self.interrupted)

    def utilisation_over_time(self, intervals: int = 60) -> Course:
        """The busy share of the devices in equal intervals between warm-up and the last arrival."""
        edges_us = self._edges_us(intervals)
        busy_us = np.diff(_below(self.busy_begin_us, edges_us) - _below(self.busy_end_us, edges_us))
        return _course(edges_us, busy_us / self.devices)

    def queue_over_time(self, intervals: int = 60) -> Course:
        """The mean number of waiting requests, in the same intervals."""
        edges_us = self._edges_us(intervals)
        begins_us = np.sort(self.begin_us)
        return _course(
            edges_us, np.diff(_below(self.arrival_us, edges_us) - _below(begins_us, edges_us))
        )

    def longest_queue(self) -> int:
        """The most requests that waited at one time."""
        begun = np.searchsorted(np.sort(self.begin_us), self.arrival_us, side="right")
        return int((np.arange(1, len(self.arrival_us) + 1) - begun).max())

    def _counted(self, values_us: Floats, model: str | None) -> Floats:
        counted = values_us[self.counted_from :]
        if model is None:
            return counted
        mine = self.model[self.counted_from :] == self.models.index(model)
        return np.asarray(counted[mine])

    def _edges_us(self, intervals: int) -> Floats:
        first_us, last_us = float(self.arrival_us[self.counted_from]), float(self.arrival_us[-1])
        return np.linspace(first_us, last_us, intervals + 1)


def _below(sorted_us: Floats, at_us: Floats) -> Floats:
    """The integral over time, up to `at_us`, of the number of events that have happened."""
    total = np.concatenate(((0.0,), np.cumsum(sorted_us)))
    count = np.searchsorted(sorted_us, at_us, side="right")
    return np.asarray(at_us * count - total[count])


def _course(edges_us: Floats, integral_us: Floats) -> Course:
    widths_us = np.diff(edges_us)
    means = np.divide(integral_us, widths_us, out=np.zeros_like(widths_us), where=widths_us > 0)
    return Course(edges_us / 1e6, means)
