"""Requests of one model that are served in batches: the queues' recursions, without a clock.

What a fleet on which nothing fails does to them follows from one batch to the next.  Only
`least_loaded` has to know what the other devices do at each arrival.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from heapq import heappop, heappush, heapreplace
from math import inf
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from npusim.capacity.dispatch import Loads
from npusim.capacity.stations import Served

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from npusim.capacity.dispatch import Dispatch


class Batching(NamedTuple):
    """How long n requests take (`service_us[n]`), times each first one's factor, and the wait."""

    service_us: Sequence[float]
    wait_us: float
    factors: Sequence[float] | None


def serve(
    dispatch: Dispatch,
    devices: int,
    times_us: NDArray[np.float64],
    batching: Batching,
    draws: Sequence[float],
) -> list[Served]:
    """What becomes of requests that arrive then; `draws` as for `begins_us` of `unbatched`."""
    if dispatch == "shared":
        return [_queue(devices, times_us, np.arange(len(times_us)), batching, at_once=False)]
    if dispatch == "least_loaded" and devices > 1:
        return _LeastLoaded(devices, batching).play(times_us.tolist())
    numbers = np.arange(len(times_us))
    places = (np.array(draws) * devices).astype(np.intp) if draws else numbers % devices
    return [
        _queue(1, times_us, np.flatnonzero(places == place), batching, at_once=True)
        for place in range(devices)
    ]


def _queue(
    devices: int,
    all_us: NDArray[np.float64],
    ids: NDArray[np.intp],
    batching: Batching,
    *,
    at_once: bool,
) -> Served:
    """One queue; `at_once`: of several at one time, the first starts an idle device."""
    services_us, wait_us, _ = batching
    factors = None if batching.factors is None else np.array(batching.factors)[ids].tolist()
    times_us = all_us[ids].tolist()
    most, count, head = len(services_us) - 1, len(times_us), 0
    free_us = [-inf] * devices
    sizes, begins_us, ends_us = [], [], []
    while head < count:
        begin_us = times_us[head] + wait_us
        last = min(head + most, count) - 1
        if last == head + most - 1 and times_us[last] < begin_us:
            begin_us = times_us[last]
        elif at_once and begin_us > free_us[0]:
            last = bisect_left(times_us, begin_us, head, last)
        begin_us = max(begin_us, free_us[0])
        tail = bisect_right(times_us, begin_us, head, last + 1)
        service_us = services_us[tail - head]
        if factors is not None:
            service_us *= factors[head]
        heapreplace(free_us, begin_us + service_us)
        sizes.append(tail - head)
        begins_us.append(begin_us)
        ends_us.append(begin_us + service_us)
        head = tail
    return Served(ids, np.array(sizes, np.intp), np.array(begins_us), np.array(ends_us))


class _LeastLoaded:
    """Devices with a queue each; a request goes to the one with the fewest."""

    def __init__(self, devices: int, batching: Batching) -> None:
        self._batching = batching
        self._loads = Loads(devices)
        self._events: list[tuple[float, int]] = [(inf, 0)]
        self._queues: list[list[float]] = [[] for _ in range(devices)]
        self._ids: list[list[int]] = [[] for _ in range(devices)]
        self._heads = [0] * devices
        self._running = [0] * devices
        self._wakes_us = [inf] * devices
        self._batches: list[list[tuple[int, float, float]]] = [[] for _ in range(devices)]

    def play(self, times_us: Sequence[float]) -> list[Served]:
        """Serve them all; who comes at the end of a batch still finds it there."""
        events, running, loads = self._events, self._running, self._loads
        for number, time_us in enumerate(times_us):
            while events[0][0] < time_us:
                self._step()
            place = loads.least()
            loads.add(place, 1)
            self._queues[place].append(time_us)
            self._ids[place].append(number)
            if not running[place]:
                self._start(place, time_us)
        while events[0][0] < inf:
            self._step()
        return [
            Served(np.array(ids, np.intp), sizes.astype(np.intp), begins_us, ends_us)
            for ids, batches in zip(self._ids, self._batches, strict=True)
            for sizes, begins_us, ends_us in [np.array(batches).reshape(-1, 3).T]
        ]

    def _step(self) -> None:
        now_us, place = heappop(self._events)
        if size := self._running[place]:
            if self._batches[place][-1][2] > now_us:  # it woke, and had begun already
                return
            self._running[place] = 0
            self._loads.add(place, -size)
        self._start(place, now_us)

    def _start(self, place: int, now_us: float) -> None:
        """Begin a batch on an idle device, or come back when there is one."""
        services_us, wait_us, factors = self._batching
        queue, head = self._queues[place], self._heads[place]
        size = min(len(services_us) - 1, len(queue) - head)
        if not size:
            return
        if size < len(services_us) - 1 and (ready_us := queue[head] + wait_us) > now_us:
            if ready_us != self._wakes_us[place]:
                self._wakes_us[place] = ready_us
                heappush(self._events, (ready_us, place))
            return
        service_us = services_us[size]
        if factors is not None:
            service_us *= factors[self._ids[place][head]]
        end_us = now_us + service_us
        self._heads[place] = head + size
        self._running[place] = size
        self._batches[place].append((size, now_us, end_us))
        heappush(self._events, (end_us, place))
