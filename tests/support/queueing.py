"""Closed forms of queueing theory, for holding the fleet simulation against them.

Rates are per second, times are seconds; load is what the servers are offered (rate times service
time), utilisation is load per server. A queue that isn't stable has an infinite wait.
"""

from __future__ import annotations

import math

from npusim.values.errors import ArgumentError


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


def _check(servers: int, load: float) -> None:
    if servers < 1:
        raise ArgumentError(f"a queue with {servers} servers")
    if not load >= 0:
        raise ArgumentError(f"an offered load of {load:g}; it can't be negative")
