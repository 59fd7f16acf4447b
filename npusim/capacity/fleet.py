"""The fleet simulation: arrivals, queues, batches, and cards that may fail.

What is random is drawn before the clock starts, in separate streams for arrivals, mix, service,
dispatch and failures.  So one seed means the same requests for every fleet that is compared (common
random numbers).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from npusim.capacity.batched import Batching, Requests, serve
from npusim.capacity.dispatch import DISPATCH, Dispatch, Router
from npusim.capacity.outcome import FleetRun
from npusim.capacity.stations import Clock, Device, Lane, Station
from npusim.capacity.unbatched import begins_us
from npusim.capacity.units import US_PER_S
from npusim.values.errors import ArgumentError, brief
from npusim.values.language import say

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.capacity.arrivals import Arrivals
    from npusim.capacity.stations import Batch, Served

WARM_UP_SHARE = 0.1
"""The first requests meet a fleet that is emptier than it will be; this share isn't counted."""


@dataclass(frozen=True)
class Stream:
    """One model's requests: their share of all requests, and how they are batched and served.

    `service_us[n]` is the time for a batch of n requests (`service_us[0]` is unused), so its length
    sets the largest batch; a batch that isn't full starts when its oldest request has waited
    `max_wait_us`.
    """

    name: str
    service_us: tuple[float, ...]
    share: float = 1.0
    max_wait_us: float = 0.0

    @property
    def max_batch(self) -> int:
        """Requests in the largest batch."""
        return len(self.service_us) - 1

    @property
    def device_rate_per_s(self) -> float:
        """Requests per second of a device that runs full batches back to back."""
        return self.max_batch / self.service_us[-1] * US_PER_S


@dataclass(frozen=True)
class Outage:
    """One card down from `start_s` for `duration_s` seconds; its running batch runs again."""

    card: int
    start_s: float
    duration_s: float


@dataclass(frozen=True)
class Failures:
    """Cards that fail at random: a card's mean time between failures and to repair, exponential."""

    mtbf_s: float
    mttr_s: float

    def outages(self, cards: int, horizon_s: float, rng: np.random.Generator) -> tuple[Outage, ...]:
        """The outages of all cards that begin within the horizon."""
        found = []
        for card, stream in enumerate(
            rng.spawn(cards)
        ):  # a card more leaves the others' fate alone
            now_s = stream.exponential(self.mtbf_s)
            while now_s < horizon_s:
                down_s = stream.exponential(self.mttr_s)
                found.append(Outage(card, now_s, down_s))
                now_s += down_s + stream.exponential(self.mtbf_s)
        return tuple(found)


@dataclass(frozen=True)
class Fleet:
    """The cards, what sits on them, how requests reach them and which of them fail."""

    cards: int
    devices_per_card: int = 1
    dispatch: Dispatch = "shared"
    failures: Failures | None = None
    outages: tuple[Outage, ...] = ()

    def __post_init__(self) -> None:
        """Refuse fleets without cards, unknown policies and outages of cards that aren't there."""
        if self.cards < 1 or self.devices_per_card < 1:
            raise ArgumentError(
                say("a fleet of {cards} cards with {devices_per_card} devices each").format(
                    cards=self.cards, devices_per_card=self.devices_per_card
                )
            )
        if self.dispatch not in DISPATCH:
            raise ArgumentError(
                f"dispatch {brief(self.dispatch)}",
                say("Choose one of {dispatch}.").format(dispatch=", ".join(DISPATCH)),
            )
        for outage in self.outages:
            if not 0 <= outage.card < self.cards:
                raise ArgumentError(
                    say("an outage of card {card} in a fleet of {cards} cards (from 0)").format(
                        card=outage.card, cards=self.cards
                    )
                )

    @property
    def devices(self) -> int:
        """All devices of all cards."""
        return self.cards * self.devices_per_card


def device_rate_per_s(streams: tuple[Stream, ...]) -> float:
    """Requests per second of one device that is never idle and runs full batches of this mix."""
    total = sum(stream.share for stream in streams)
    return total / sum(stream.share / stream.device_rate_per_s for stream in streams)


def simulate(
    fleet: Fleet,
    streams: tuple[Stream, ...],
    arrivals: Arrivals,
    rate_per_s: float,
    *,
    requests: int,
    seed: int,
    service_cv: float = 0.0,
) -> FleetRun:
    """Play `requests` requests through the fleet and return what became of them.

    `service_cv` is the coefficient of variation of a batch's time around the stream's
    (gamma-distributed; 0 is exactly the stream's time, 1 exponential).  Everything random follows
    from `seed`.
    """
    if not streams or requests < 1:
        raise ArgumentError(
            say("{requests} requests of {count} models: there is nothing to simulate").format(
                requests=requests, count=len(streams)
            )
        )
    arrival, mix, service, dispatch, failure = np.random.default_rng(seed).spawn(5)
    coming = Requests(
        arrivals.times_us(rate_per_s, requests, arrival),
        _mix(streams, requests, mix),
        _factors(service_cv, requests, service),
    )
    draws = dispatch.random(requests).tolist() if fleet.dispatch == "random" else []
    outages = fleet.outages
    if fleet.failures is not None:
        outages += fleet.failures.outages(fleet.cards, coming.times_us[-1] / US_PER_S, failure)
    served = _served(fleet, streams, coming, draws, outages)
    return FleetRun(
        devices=fleet.devices,
        models=tuple(stream.name for stream in streams),
        counted_from=int(requests * WARM_UP_SHARE),
        arrival_us=coming.times_us,
        model=coming.models.astype(np.int16),
        begin_us=served.begin_us,
        end_us=served.end_us,
        busy_begin_us=np.sort(served.busy_begin_us),
        busy_end_us=np.sort(served.busy_end_us),
        interrupted=served.interrupted,
    )


def _served(
    fleet: Fleet,
    streams: tuple[Stream, ...],
    coming: Requests,
    draws: list[float],
    outages: tuple[Outage, ...],
) -> _Times:
    """The requests played in the shortest way that batches and outages leave."""
    requests = len(coming.times_us)
    if outages:
        floor = _Floor(fleet, streams, coming)
        floor.schedule(outages)
        floor.play(draws)
        return _collect((lane.harvest() for lane in floor.lanes), requests, floor.aborted)
    if all(stream.max_batch == 1 for stream in streams):
        return _one_by_one(fleet, streams, coming, draws)
    batchings = [Batching(stream.service_us, stream.max_wait_us) for stream in streams]
    return _collect(serve(fleet.dispatch, fleet.devices, coming, batchings, draws), requests)


class _Times(NamedTuple):
    """When the service of each request began and ended, and when devices were busy, unsorted."""

    begin_us: NDArray[np.float64]
    end_us: NDArray[np.float64]
    busy_begin_us: NDArray[np.float64]
    busy_end_us: NDArray[np.float64]
    interrupted: int


class _Floor:
    """All stations and devices of one run, and the processes that move them."""

    def __init__(self, fleet: Fleet, streams: tuple[Stream, ...], coming: Requests) -> None:
        self.clock = Clock()
        self.aborted: list[tuple[float, float]] = []
        self.lanes: list[Lane] = []
        self.router: Router | None = None
        self._coming = coming
        self._remaining = len(coming.times_us)
        self._dispatch = fleet.dispatch
        factor_list = None if coming.factors is None else coming.factors.tolist()
        stations = 1 if fleet.dispatch == "shared" else fleet.devices
        self.stations = []
        for number in range(stations):
            lanes = [
                Lane(model, stream.service_us, stream.max_wait_us, factor_list)
                for model, stream in enumerate(streams)
            ]
            self.lanes += lanes
            self.stations.append(Station(self.clock, number, lanes, self._finished))
        self.devices = []
        for number in range(fleet.devices):
            device = Device(number // fleet.devices_per_card, self.stations[number % stations])
            device.station.idle.append(device)
            self.devices.append(device)

    def schedule(self, outages: tuple[Outage, ...]) -> None:
        """Let cards fail and be repaired; a card that is down can't fail again."""
        ordered = sorted(outages, key=lambda outage: (outage.card, outage.start_s))
        for card, its_outages in groupby(ordered, key=lambda outage: outage.card):
            devices = [device for device in self.devices if device.card == card]
            up_us = 0.0
            for outage in its_outages:
                start_us = max(up_us, outage.start_s * US_PER_S)
                up_us = start_us + outage.duration_s * US_PER_S
                self.clock.at(start_us, self._fail, devices)
                self.clock.at(up_us, self._repair, devices)

    def play(self, draws: list[float]) -> None:
        """Run until the last request is served."""
        times_us, models = self._coming.times_us, self._coming.models
        arrivals: Iterator[tuple[int, int, float]] = iter(())
        router: Router | None = None
        if self._dispatch == "shared":
            self._queue_all()
        else:
            self.router = router = Router(self._dispatch, self.stations, draws)
            arrivals = zip(range(len(times_us)), models.tolist(), times_us.tolist(), strict=True)
        arrival = next(arrivals, None)
        clock = self.clock
        while self._remaining:
            if arrival is not None and router and arrival[2] <= clock.next_us():
                router.join(*arrival)
                arrival = next(arrivals, None)
            else:
                clock.step()

    def _queue_all(self) -> None:
        """Shared dispatch: the lanes hold all arrivals from the start, with their times."""
        (station,) = self.stations
        for lane in station.lanes:
            ids = np.flatnonzero(self._coming.models == lane.model)
            lane.ids = ids.tolist()
            lane.times_us = self._coming.times_us[ids].tolist()
        station.kick(0.0)

    def _finished(self, now_us: float, batch: Batch) -> None:
        device = batch.device
        if device.batch is not batch:  # the card failed under it
            return
        device.batch = None
        batch.lane.record(batch.head, batch.size, batch.begin_us, batch.end_us)
        self._remaining -= batch.size
        station = device.station
        if self.router is not None:
            self.router.leave(station, batch.size)
        station.idle.append(device)
        station.kick(now_us)

    def _fail(self, now_us: float, devices: list[Device]) -> None:
        for device in devices:
            batch, device.batch = device.batch, None
            if batch is None:
                device.station.idle.remove(device)
            else:
                self.aborted.append((batch.begin_us, now_us))
                device.station.lanes[batch.lane.model].retry.append(batch)
            if self.router is not None:
                self.router.close(device.station)
        for device in devices:
            if self.router is not None:
                self.router.evacuate(device.station, now_us)
            device.station.kick(now_us)

    def _repair(self, now_us: float, devices: list[Device]) -> None:
        for device in devices:
            if self.router is not None:
                self.router.open(device.station)
            device.station.idle.append(device)
            device.station.kick(now_us)


def _mix(streams: tuple[Stream, ...], requests: int, rng: np.random.Generator) -> NDArray[np.intp]:
    if len(streams) == 1:
        return np.zeros(requests, np.intp)
    upper = np.cumsum(np.array([stream.share for stream in streams]))
    draws = rng.random(requests) * float(upper[-1])
    return np.searchsorted(upper[:-1], draws, side="right")


def _factors(
    service_cv: float, requests: int, rng: np.random.Generator
) -> NDArray[np.float64] | None:
    if not service_cv:
        return None
    factors = rng.standard_gamma(service_cv**-2, requests)
    return factors * (requests / float(factors.sum()))


def _one_by_one(
    fleet: Fleet, streams: tuple[Stream, ...], coming: Requests, draws: list[float]
) -> _Times:
    services_us = np.array([stream.service_us[1] for stream in streams])[coming.models]
    if coming.factors is not None:
        services_us *= coming.factors
    times = coming.times_us.tolist(), services_us.tolist()
    begin_us = np.array(begins_us(fleet.dispatch, fleet.devices, *times, draws))
    end_us = begin_us + services_us
    return _Times(begin_us, end_us, begin_us, end_us, 0)


def _collect(
    lanes: Iterable[Served], requests: int, aborted: Sequence[tuple[float, float]] = ()
) -> _Times:
    begin_us, end_us = np.empty(requests), np.empty(requests)
    aborted_us = np.array(aborted).reshape(-1, 2)
    busy_us = [(aborted_us[:, 0], aborted_us[:, 1])]
    for served in lanes:
        begin_us[served.ids] = np.repeat(served.begins_us, served.sizes)
        end_us[served.ids] = np.repeat(served.ends_us, served.sizes)
        busy_us.append((served.begins_us, served.ends_us))
    busy_begin_us, busy_end_us = map(np.concatenate, zip(*busy_us, strict=True))
    return _Times(begin_us, end_us, busy_begin_us, busy_end_us, len(aborted))
