"""Dispatch: which station gets a request, and what becomes of the work of a card that fails."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, get_args

if TYPE_CHECKING:
    from npusim.capacity.stations import Batch, Station

Dispatch = Literal["shared", "least_loaded", "round_robin", "random"]
"""``shared`` is one queue for all devices; the others send each request to one device's queue."""

DISPATCH: tuple[Dispatch, ...] = get_args(Dispatch)

_CLOSED = 1 << 40
"""Added to the load of a closed station, so that one comparison finds the least loaded open one."""


class Loads:
    """The requests at each station, and which one has the fewest: the first of several.

    The stations of each load are the bits of a number, so what a request costs hardly grows with
    the number of stations.
    """

    def __init__(self, stations: int) -> None:
        self._loads = [0] * stations
        self._bits = [1 << number for number in range(stations)]
        self._at = {0: (1 << stations) - 1}
        self._least = 0

    def add(self, number: int, requests: int) -> None:
        """More of them at a station, or fewer."""
        loads, at = self._loads, self._at
        bit, old = self._bits[number], loads[number]
        loads[number] = new = old + requests
        at[old] = left = at[old] ^ bit
        if not left:
            del at[old]
        at[new] = at.get(new, 0) | bit
        if new < self._least:
            self._least = new
        elif not left and old == self._least:
            self._least = min(at)

    def least(self) -> int:
        """The station that has the fewest."""
        stations = self._at[self._least]
        return (stations & -stations).bit_length() - 1

    def add_to_least(self) -> int:
        """One more at the station that has the fewest, and which that is."""
        at, old = self._at, self._least
        stations = at[old]
        bit = stations & -stations
        number = bit.bit_length() - 1
        self._loads[number] = new = old + 1
        at[new] = at.get(new, 0) | bit
        if left := stations ^ bit:
            at[old] = left
        else:
            del at[old]
            self._least = new
        return number


class Router:
    """Sends requests to stations by policy, around those that are closed.

    Ties go to the station with the lowest number.  `draws` holds one number in [0, 1) for each
    request, for the policy that needs chance.
    """

    def __init__(
        self, policy: Dispatch, stations: Sequence[Station], draws: Sequence[float]
    ) -> None:
        self._policy = policy
        self._stations = stations
        self._draws = draws
        self._loads = Loads(len(stations))
        self._open = list(range(len(stations)))
        self._turn = -1

    def join(self, request: int, model: int, now_us: float) -> None:
        """Queue a request at the station that the policy picks."""
        number = self._pick(request)
        self._loads.add(number, 1)
        station = self._stations[number]
        lane = station.lanes[model]
        lane.times_us.append(now_us)
        lane.ids.append(request)
        if station.idle:
            station.kick(now_us)

    def leave(self, station: Station, requests: int) -> None:
        """Note that requests have left a station, done or sent elsewhere."""
        self._loads.add(station.number, -requests)

    def close(self, station: Station) -> None:
        """Send nothing more to this station, as long as another one is open."""
        self._loads.add(station.number, _CLOSED)
        self._open.remove(station.number)

    def open(self, station: Station) -> None:
        """Send requests to this station again."""
        self._loads.add(station.number, -_CLOSED)
        self._open.append(station.number)
        self._open.sort()

    def evacuate(self, station: Station, now_us: float) -> None:
        """Send elsewhere what is left at a closed station: interrupted batches, then the queue."""
        if not self._open:
            return
        for lane in station.lanes:
            while lane.retry:
                self._resume(lane.retry.popleft(), station, now_us)
            waiting = lane.ids[lane.head :]
            del lane.ids[lane.head :], lane.times_us[lane.head :]
            self.leave(station, len(waiting))
            for request in waiting:
                self.join(request, lane.model, now_us)

    def _resume(self, batch: Batch, old: Station, now_us: float) -> None:
        new = self._stations[self._pick(batch.lane.ids[batch.head])]
        self.leave(old, batch.size)
        self._loads.add(new.number, batch.size)
        new.lanes[batch.lane.model].retry.append(batch)
        new.kick(now_us)

    def _pick(self, request: int) -> int:
        if self._policy == "least_loaded":
            return self._loads.least()
        choices = self._open or range(len(self._stations))
        if self._policy == "random":
            return choices[int(self._draws[request] * len(choices))]
        self._turn = next((number for number in choices if number > self._turn), choices[0])
        return self._turn
