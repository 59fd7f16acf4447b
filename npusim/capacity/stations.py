"""The moving parts of a fleet simulation: lanes of waiting requests, stations that batch them.

A *lane* is the queue of one model at one station; a *station* forms batches for its devices: all
devices of the fleet when they share one queue, one device otherwise.  Nothing here draws a random
number.

Times travel as event values beside SimPy's clock: `now + delay` may miss a wanted instant by one
bit, and a batch that is ready at t must find its requests arrived at t.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from itertools import count
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Clock:
    """What happens when; of one time, in the order in which it was set."""

    __slots__ = ("_events", "_numbers")

    def __init__(self) -> None:
        self._events: list[tuple[float, int, Callable[[float, Any], None], Any]] = []
        self._numbers = count()

    def at(self, time_us: float, action: Callable[[float, Any], None], about: object) -> None:
        """Do it then: call the action with the time and what it is about."""
        heappush(self._events, (time_us, next(self._numbers), action, about))

    def next_us(self) -> float:
        """When the next thing happens."""
        return self._events[0][0] if self._events else inf

    def step(self) -> None:
        """Let it happen."""
        time_us, _, action, about = heappop(self._events)
        action(time_us, about)


class Batch(NamedTuple):
    """The requests `head` to `head + size` of the lane in which they queued, on a device."""

    lane: Lane
    head: int
    size: int
    service_us: float
    begin_us: float
    end_us: float
    device: Device


class Served(NamedTuple):
    """A lane's record: request numbers batch by batch, and size, begin and end of each batch."""

    ids: NDArray[np.intp]
    sizes: NDArray[np.intp]
    begins_us: NDArray[np.float64]
    ends_us: NDArray[np.float64]


class Lane:
    """The requests of one model at one station, in queueing order, and what became of them.

    `times_us` reaches into the future where all arrivals are known beforehand (shared dispatch).
    `service_us[n]` is the time for n requests, so its length says how many fit into a batch.
    """

    __slots__ = (
        "begins_us", "ends_us", "factors", "head", "heads", "ids", "model", "retry", "service_us",
        "sizes", "times_us", "wait_us",
    )  # fmt: skip

    def __init__(
        self,
        model: int,
        service_us: Sequence[float],
        wait_us: float,
        factors: Sequence[float] | None,
    ) -> None:
        self.model = model
        self.service_us = service_us
        self.wait_us = wait_us
        self.factors = factors
        self.times_us: list[float] = []
        self.ids: list[int] = []
        self.head = 0
        self.retry: deque[Batch] = deque()
        self.heads: list[int] = []
        self.sizes: list[int] = []
        self.begins_us: list[float] = []
        self.ends_us: list[float] = []

    def ready_us(self) -> float:
        """When the next batch may start: full, or with a request that has waited long enough."""
        if self.retry:
            return -inf
        times_us, head = self.times_us, self.head
        if head >= len(times_us):
            return inf
        patience_us = times_us[head] + self.wait_us
        last = head + len(self.service_us) - 2
        if last < len(times_us) and times_us[last] < patience_us:
            return times_us[last]
        return patience_us

    def take(self, now_us: float) -> tuple[int, int, float]:
        """The next requests as head, size and time of their batch: all that have come and fit."""
        head = self.head
        most = min(head + len(self.service_us) - 1, len(self.times_us))
        self.head = tail = bisect_right(self.times_us, now_us, head, most)
        service_us = self.service_us[tail - head]
        if self.factors is not None:
            service_us *= self.factors[self.ids[head]]
        return head, tail - head, service_us

    def record(self, head: int, size: int, begin_us: float, end_us: float) -> None:
        """Note a batch of this lane's requests."""
        self.heads.append(head)
        self.sizes.append(size)
        self.begins_us.append(begin_us)
        self.ends_us.append(end_us)

    def harvest(self) -> Served:
        """What became of the requests, as arrays.

        The lists are given up: a run is full of reference cycles, in which they would fill the
        memory until the garbage collector comes by.
        """
        sizes = np.asarray(self.sizes, np.intp)
        first = np.repeat(np.asarray(self.heads, np.intp) - np.cumsum(sizes) + sizes, sizes)
        ids = np.asarray(self.ids, np.intp)[first + np.arange(len(first))]
        served = Served(ids, sizes, np.asarray(self.begins_us), np.asarray(self.ends_us))
        self.times_us, self.ids, self.factors = [], [], None
        self.heads, self.sizes, self.begins_us, self.ends_us = [], [], [], []
        return served


class Device:
    """One device: the card it sits on, the station it works for, and the batch it runs."""

    __slots__ = ("batch", "card", "station")

    def __init__(self, card: int, station: Station) -> None:
        self.card = card
        self.station = station
        self.batch: Batch | None = None


class Station:
    """Lanes and the devices that serve them; `finished` is called back at each batch's end."""

    __slots__ = ("_clock", "_finished", "_others", "_wake_us", "idle", "lanes", "number")

    def __init__(
        self,
        clock: Clock,
        number: int,
        lanes: list[Lane],
        finished: Callable[[float, Batch], None],
    ) -> None:
        self._clock = clock
        self._finished = finished
        self._wake_us = inf
        self.number = number
        self.lanes = lanes
        self._others = lanes[1:]
        self.idle: deque[Device] = deque()

    def kick(self, now_us: float) -> None:
        """Start what is ready on idle devices, longest ready first; come back for the next."""
        while self.idle:
            lane = self.lanes[0]
            ready_us = lane.ready_us()
            for other in self._others:
                other_us = other.ready_us()
                if other_us < ready_us:
                    lane, ready_us = other, other_us
            if ready_us > now_us:
                if ready_us < self._wake_us:
                    self._wake_us = ready_us
                    self._clock.at(ready_us, self._woken, None)
                return
            if lane.retry:  # an interrupted batch runs again as it was
                origin, head, size, service_us, *_ = lane.retry.popleft()
            else:
                origin = lane
                head, size, service_us = lane.take(now_us)
            device = self.idle.popleft()
            end_us = now_us + service_us
            device.batch = Batch(origin, head, size, service_us, now_us, end_us, device)
            self._clock.at(end_us, self._finished, device.batch)

    def _woken(self, now_us: float, _: None) -> None:
        if now_us == self._wake_us:  # else an earlier wake has replaced this one
            self._wake_us = inf
            self.kick(now_us)
