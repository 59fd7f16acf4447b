"""Requests that are served one by one: the queues' recursions, without a clock.

Nothing waits for company and nothing fails, so a request begins when it has come and its device is
free (Lindley; Kiefer and Wolfowitz for a shared queue).
"""

from __future__ import annotations

from heapq import heappop, heappush, heapreplace
from math import inf
from typing import TYPE_CHECKING

from npusim.capacity.dispatch import Loads

if TYPE_CHECKING:
    from collections.abc import Sequence

    from npusim.capacity.dispatch import Dispatch


def begins_us(
    dispatch: Dispatch,
    devices: int,
    times_us: Sequence[float],
    services_us: Sequence[float],
    draws: Sequence[float],
) -> list[float]:
    """When each request begins; `draws` are numbers in [0, 1) for the policy that needs chance."""
    if dispatch == "shared":
        return _shared(devices, times_us, services_us)
    if dispatch == "least_loaded" and devices > 1:
        return _least_loaded(devices, times_us, services_us)
    places = ([int(draw * devices) for draw in draws] if draws
              else [number % devices for number in range(len(times_us))])  # fmt: skip
    return _each_its_own(devices, times_us, services_us, places)


def _shared(devices: int, times_us: Sequence[float], services_us: Sequence[float]) -> list[float]:
    free_us = [0.0] * devices
    found = []
    for time_us, service_us in zip(times_us, services_us, strict=True):
        begin_us = max(free_us[0], time_us)
        heapreplace(free_us, begin_us + service_us)
        found.append(begin_us)
    return found


def _each_its_own(
    devices: int, times_us: Sequence[float], services_us: Sequence[float], places: Sequence[int]
) -> list[float]:
    free_us = [0.0] * devices
    found = []
    for time_us, service_us, place in zip(times_us, services_us, places, strict=True):
        begin_us = max(free_us[place], time_us)
        free_us[place] = begin_us + service_us
        found.append(begin_us)
    return found


def _least_loaded(
    devices: int, times_us: Sequence[float], services_us: Sequence[float]
) -> list[float]:
    """To the device with the fewest requests, the first of several."""
    free_us, loads = [0.0] * devices, Loads(devices)
    ends = [(inf, 0)]
    found = []
    for time_us, service_us in zip(times_us, services_us, strict=True):
        while ends[0][0] <= time_us:
            loads.add(heappop(ends)[1], -1)
        place = loads.add_to_least()
        begin_us = max(free_us[place], time_us)
        free_us[place] = end_us = begin_us + service_us
        heappush(ends, (end_us, place))
        found.append(begin_us)
    return found
