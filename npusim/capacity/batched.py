"""Requests that are served in batches by a fleet on which nothing fails, without its clock.

One queue of one model follows from one batch to the next, and so do the queues of several models
that all devices share. Where devices have queues of their own, only what happens at each of them
is kept in order.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from heapq import heappop, heappush, heapreplace
from math import inf
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from npusim.capacity.dispatch import Loads
from npusim.capacity.stations import Lane, Served

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from npusim.capacity.dispatch import Dispatch


class Batching(NamedTuple):
    """How a model is served: `service_us[n]` for n requests, and how long the first one waits."""

    service_us: Sequence[float]
    wait_us: float


class Requests(NamedTuple):
    """When requests arrive, for which model, and the factor of the batch that each one leads."""

    times_us: NDArray[np.float64]
    models: NDArray[np.intp]
    factors: NDArray[np.float64] | None


def serve(
    dispatch: Dispatch,
    devices: int,
    requests: Requests,
    batchings: Sequence[Batching],
    draws: Sequence[float],
) -> list[Served]:
    """What becomes of the requests; `draws` as for `begins_us` of `unbatched`."""
    count = len(requests.times_us)
    if dispatch == "shared":
        if len(batchings) == 1:
            return [_queue(devices, np.arange(count), requests, batchings[0], at_once=False)]
        return _shared(devices, requests, batchings)
    if dispatch == "least_loaded" and devices > 1:
        return _Queues(devices, requests, batchings).play(None)
    places = (np.array(draws) * devices).astype(np.intp) if draws else np.arange(count) % devices
    if len(batchings) > 1:
        return _Queues(devices, requests, batchings).play(places.tolist())
    return [
        _queue(1, np.flatnonzero(places == place), requests, batchings[0], at_once=True)
        for place in range(devices)
    ]


def _queue(
    devices: int,
    ids: NDArray[np.intp],
    requests: Requests,
    batching: Batching,
    *,
    at_once: bool,
) -> Served:
    """One queue; `at_once`: of several at one time, the first starts an idle device."""
    services_us, wait_us = batching
    factors = None if requests.factors is None else requests.factors[ids].tolist()
    times_us = requests.times_us[ids].tolist()
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


def _shared(devices: int, requests: Requests, batchings: Sequence[Batching]) -> list[Served]:
    """A queue for each model; the device that is free first serves the one that is ready first."""
    (lanes,) = _lanes(1, requests, batchings)
    for lane in lanes:
        ids = np.flatnonzero(requests.models == lane.model)
        lane.ids, lane.times_us = ids.tolist(), requests.times_us[ids].tolist()
    free_us = [-inf] * devices
    ready_us = [lane.ready_us() for lane in lanes]
    while (first_us := min(ready_us)) < inf:
        begin_us = max(first_us, free_us[0])
        number = ready_us.index(first_us)
        lane = lanes[number]
        head, size, service_us = lane.take(begin_us)
        heapreplace(free_us, begin_us + service_us)
        lane.record(head, size, begin_us, begin_us + service_us)
        ready_us[number] = lane.ready_us()
    return [lane.harvest() for lane in lanes]


def _lanes(stations: int, requests: Requests, batchings: Sequence[Batching]) -> list[list[Lane]]:
    """Empty lanes, one for each model at every station."""
    factors = None if requests.factors is None else requests.factors.tolist()
    return [
        [Lane(model, *batching, factors) for model, batching in enumerate(batchings)]
        for _ in range(stations)
    ]


class _Queues:
    """Devices with queues of their own, one for each model."""

    def __init__(self, devices: int, requests: Requests, batchings: Sequence[Batching]) -> None:
        self._requests = requests
        self._lanes = _lanes(devices, requests, batchings)
        self._loads = Loads(devices)
        self._events: list[tuple[float, int]] = [(inf, 0)]
        self._running = [0] * devices
        self._wakes_us = [inf] * devices
        self._ends_us = [-inf] * devices

    def play(self, places: Sequence[int] | None) -> list[Served]:
        """Serve them all, at these devices, or each at the one that has the fewest requests.

        Who comes at the end of a batch still finds it there.
        """
        events, running, loads, lanes = self._events, self._running, self._loads, self._lanes
        models = self._requests.models.tolist()
        for number, time_us in enumerate(self._requests.times_us.tolist()):
            while events[0][0] < time_us:
                self._step()
            if places is None:
                place = loads.add_to_least()
            else:
                place = places[number]
                loads.add(place, 1)
            lane = lanes[place][models[number]]
            lane.times_us.append(time_us)
            lane.ids.append(number)
            if not running[place]:
                self._start(place, time_us)
        while events[0][0] < inf:
            self._step()
        return [lane.harvest() for there in lanes for lane in there]

    def _step(self) -> None:
        now_us, place = heappop(self._events)
        if size := self._running[place]:
            if self._ends_us[place] > now_us:  # it woke, and had begun already
                return
            self._running[place] = 0
            self._loads.add(place, -size)
        self._start(place, now_us)

    def _start(self, place: int, now_us: float) -> None:
        """Begin the batch that is ready first on an idle device, or come back when one is."""
        lanes = self._lanes[place]
        lane = lanes[0]
        ready_us = lane.ready_us()
        for other in lanes[1:] if len(lanes) > 1 else ():
            other_us = other.ready_us()
            if other_us < ready_us:
                lane, ready_us = other, other_us
        if ready_us > now_us:
            if ready_us < inf and ready_us != self._wakes_us[place]:
                self._wakes_us[place] = ready_us
                heappush(self._events, (ready_us, place))
            return
        head, size, service_us = lane.take(now_us)
        end_us = now_us + service_us
        lane.record(head, size, now_us, end_us)
        self._running[place] = size
        self._ends_us[place] = end_us
        heappush(self._events, (end_us, place))
