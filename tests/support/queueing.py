"""Closed forms of queueing theory, for holding the fleet simulation against them.

Rates are per second, times are seconds; load is what the servers are offered (rate times service
time), utilisation is load per server. A queue that isn't stable has an infinite wait.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from npusim.values.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray


def erlang_b(servers: int, load: float) -> float:
    """The share of arrivals that M/M/c/c turns away (Erlang 1917), by the recursion in c."""
    _check(servers, load)
    blocked = 1.0
    for count in range(1, servers + 1):
        blocked = load * blocked / (count + load * blocked)
    return blocked


def erlang_c(servers: int, load: float) -> float:
    """The share of arrivals that have to wait in M/M/c; 1 when the queue isn't stable."""
    if load >= servers:
        _check(servers, load)
        return 1.0
    blocked = erlang_b(servers, load)
    return servers * blocked / (servers - load * (1 - blocked))


def mmc_wait_s(servers: int, rate_per_s: float, service_s: float) -> float:
    """Mean wait before service in M/M/c, in seconds."""
    load = rate_per_s * service_s
    if load >= servers:
        return math.inf
    return erlang_c(servers, load) * service_s / (servers - load)


def mmc_wait_quantile_s(
    servers: int, rate_per_s: float, service_s: float, quantile: float
) -> float:
    """The wait that a share `quantile` of the arrivals in M/M/c doesn't exceed, in seconds."""
    load = rate_per_s * service_s
    if load >= servers:
        return math.inf
    waiting = erlang_c(servers, load)
    if waiting <= 1 - quantile:
        return 0.0
    return math.log(waiting / (1 - quantile)) * service_s / (servers - load)


def md1_wait_s(rate_per_s: float, service_s: float) -> float:
    """Mean wait in M/D/1 (Pollaczek-Khinchine with a constant service time), in seconds."""
    load = rate_per_s * service_s
    _check(1, load)
    return load * service_s / (2 * (1 - load)) if load < 1 else math.inf


def mdc_wait_s(servers: int, rate_per_s: float, service_s: float) -> float:
    """Approximate mean wait in M/D/c, in seconds: half of M/M/c with Cosmetatos' correction (1975).

    Exact for one server; within about 2 % of the exact values elsewhere in moderate and heavy
    traffic.
    """
    load = rate_per_s * service_s
    if load >= servers:
        _check(servers, load)
        return math.inf
    if load == 0:
        return 0.0
    idle = 1 - load / servers
    correction = idle * (servers - 1) * (math.sqrt(4 + 5 * servers) - 2) / (16 * load)
    return 0.5 * (1 + correction) * mmc_wait_s(servers, rate_per_s, service_s)


def gigc_wait_s(
    servers: int, rate_per_s: float, service_s: float, *, gap_cv: float, service_cv: float
) -> float:
    """Approximate mean wait in GI/G/c, in seconds: M/M/c times variability (Allen-Cunneen)."""
    return 0.5 * (gap_cv**2 + service_cv**2) * mmc_wait_s(servers, rate_per_s, service_s)


def cards_for_wait(rate_per_s: float, service_s: float, quantile: float, wait_s: float) -> int:
    """The smallest M/M/c that keeps the wait quantile at or below `wait_s` (both in seconds)."""
    if not wait_s >= 0:
        raise ArgumentError(f"the wait to keep is {wait_s:g} s; it can't be negative")
    servers = math.floor(rate_per_s * service_s) + 1
    while mmc_wait_quantile_s(servers, rate_per_s, service_s, quantile) > wait_s:
        servers += 1
    return servers


def mmc_latency_quantile_s(
    servers: int, rate_per_s: float, service_s: float, quantile: float
) -> float:
    """The wait and service that a share `quantile` of the arrivals in M/M/c doesn't exceed."""
    load = rate_per_s * service_s
    if load >= servers:
        return math.inf
    waiting, spare = erlang_c(servers, load), servers - load
    if abs(spare - 1) < 1e-9:
        spare += 1e-6  # the limit of the formula below, which divides by spare - 1

    def above(time_s: float) -> float:
        own, queued = math.exp(-time_s / service_s), math.exp(-spare * time_s / service_s)
        return (1 - waiting) * own + waiting * (spare * own - queued) / (spare - 1)

    return _bisected(above, 1 - quantile, service_s)


def mdc_latency_quantile_s(
    servers: int, rate_per_s: float, service_s: float, quantile: float, steps: int = 1000
) -> float:
    """The same for M/D/c: each server of c is E(c)/D/1 of its own, Lindley's equation on a grid."""
    load = rate_per_s * service_s
    if load >= servers:
        return math.inf
    size = 6 * steps
    grid = service_s / steps
    times = np.arange(size) * grid * rate_per_s
    log = -times + (servers - 1) * np.log(np.maximum(times, 1e-300)) - math.lgamma(servers)
    gaps = np.exp(log)
    gaps /= gaps.sum()
    waits = np.zeros(size)
    waits[0] = 1.0
    for _ in range(2000):
        moved = _convolved(waits, gaps[::-1])[: 2 * size - 1]  # wait less gap, then a service
        after = np.zeros(size)
        shift = size - 1 - steps
        after[0] = moved[: shift + 1].sum()
        after[1:] = moved[shift + 1 : shift + size]
        if np.abs(after - waits).max() < 1e-9:
            break
        waits = after / after.sum()
    place = int(np.searchsorted(np.cumsum(waits), quantile))
    return place * grid + service_s


def _convolved(one: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.float64]:
    length = len(one) + len(other) - 1
    return np.fft.irfft(np.fft.rfft(one, length) * np.fft.rfft(other, length), length)


def _bisected(above: Callable[[float], float], share: float, scale_s: float) -> float:
    """Where a falling function comes down to a share."""
    low, high = 0.0, scale_s
    while above(high) > share:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if above(middle) > share else (low, middle)
    return high


def _check(servers: int, load: float) -> None:
    if servers < 1:
        raise ArgumentError(f"a queue with {servers} servers")
    if not load >= 0:
        raise ArgumentError(f"an offered load of {load:g}; it can't be negative")
