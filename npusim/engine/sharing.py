"""Global memory as the cores share it.

L2 and HBM as two levels, every transfer a flow with a fair share.

A transfer's bytes that hit L2 use L2 bandwidth alone, the others use HBM bandwidth as well. L2 is
read and written at the same time, each with a bandwidth of its own. A flow never exceeds the
ceiling of its own path. Shares are max-min fair, recomputed whenever a transfer starts or ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from npusim.engine.clock import after

if TYPE_CHECKING:
    from collections.abc import Callable

    import simpy

_EPSILON = 1e-9
_DONE_CYCLES = 1e-6  # a transfer this close to its end has ended: finer than a float clock


@dataclass(frozen=True, slots=True)
class MemoryRates:
    """Bandwidth of the chip in bytes per core cycle, all cores together."""

    hbm: float
    l2_read: float
    l2_write: float


class Done(Protocol):
    """Who is told that a transfer has ended: an event, or whoever waits for it."""

    def succeed(self) -> object:
        """The last byte has been moved."""


@dataclass(slots=True)
class Flow:
    """One transfer in progress on ``cores`` cores at once; amounts are bytes of one core.

    ``l2_cost`` is the L2 bandwidth that a byte takes, more than 1 where cores get into each other's
    way.
    """

    remaining: float
    cores: int
    ceiling: float
    miss: float
    done: Done
    rate: float = 0.0
    l2_cost: float = 1.0
    write: bool = False


class MemorySystem:
    """Shares L2 and HBM bandwidth among the transfers in progress.

    ``after_wake`` is called when transfers have ended and everybody concerned has been told; it
    has to end with :meth:`settle`.
    """

    def __init__(
        self,
        env: simpy.Environment,
        rates: MemoryRates,
        after_wake: Callable[[], None] | None = None,
    ) -> None:
        self._env = env
        self._rates = rates
        self._after_wake = after_wake or self.settle
        self._flows: list[Flow] = []
        self._updated = 0.0
        self._version = 0
        self._changed = False

    @property
    def flows(self) -> list[Flow]:
        """Transfers in progress, with their remaining bytes brought up to now."""
        self._advance()
        return self._flows

    def start(
        self,
        traffic_bytes: float,
        cores: int,
        ceiling: float,
        miss: float,
        l2_cost: float = 1.0,
        *,
        write: bool = False,
    ) -> simpy.Event:
        """Begin to move ``traffic_bytes`` on each of ``cores`` cores.

        The event fires with the last byte.
        """
        done = self._env.event()
        self.add(traffic_bytes, cores, ceiling, miss, l2_cost, done, write=write)
        self.settle()
        return done

    def add(
        self,
        traffic_bytes: float,
        cores: int,
        ceiling: float,
        miss: float,
        l2_cost: float,
        done: Done,
        *,
        write: bool,
    ) -> Flow:
        """As :meth:`start`; bandwidth is shared out at the next :meth:`settle`."""
        self._advance()
        flow = Flow(traffic_bytes, cores, ceiling, miss, done, l2_cost=l2_cost, write=write)
        self._flows.append(flow)
        self._changed = True
        return flow

    def settle(self) -> None:
        """Share out the bandwidth among the transfers that there are now."""
        if not self._changed:
            return
        self._changed = False
        share(self._flows, self._rates)
        self._version += 1
        if not self._flows:
            return
        version = self._version
        delay = min([flow.remaining / flow.rate for flow in self._flows])
        after(self._env, max(delay, 0.0), lambda: self._on_wake(version))

    def _advance(self) -> None:
        elapsed = self._env.now - self._updated
        if elapsed > 0:
            for flow in self._flows:
                flow.remaining -= flow.rate * elapsed
            self._updated = self._env.now

    def _on_wake(self, version: int) -> None:
        if version != self._version:
            return  # a transfer started meanwhile: a later wake-up carries on
        self._advance()
        ended = [flow for flow in self._flows if flow.remaining <= _DONE_CYCLES * flow.rate]
        self._flows = [flow for flow in self._flows if flow.remaining > _DONE_CYCLES * flow.rate]
        self._changed = True
        for flow in ended:
            flow.done.succeed()
        self._after_wake()


def share(flows: list[Flow], rates: MemoryRates) -> None:
    """Set every flow's rate (bytes per cycle of one core) to its max-min fair share.

    All rates grow together until a flow reaches its ceiling or a level is used up; what is then
    limited stays put and the others go on.
    """
    hbm = read = written = 0.0
    for flow in flows:
        wanted = flow.cores * flow.ceiling
        hbm += wanted * flow.miss
        if flow.write:
            written += wanted * flow.l2_cost
        else:
            read += wanted * flow.l2_cost
        flow.rate = flow.ceiling
    if hbm > rates.hbm or read > rates.l2_read or written > rates.l2_write:
        _share_out(flows, rates)


def _share_out(flows: list[Flow], rates: MemoryRates) -> None:
    growing = list(flows)
    hbm, read, written = rates.hbm, rates.l2_read, rates.l2_write
    level = 0.0
    for flow in flows:
        flow.rate = 0.0
    while growing:
        read_load = sum([flow.cores * flow.l2_cost for flow in growing if not flow.write])
        write_load = sum([flow.cores * flow.l2_cost for flow in growing if flow.write])
        hbm_load = sum([flow.cores * flow.miss for flow in growing])
        step = min([flow.ceiling for flow in growing]) - level
        if read_load > 0:
            step = min(step, read / read_load)
        if write_load > 0:
            step = min(step, written / write_load)
        if hbm_load > 0:
            step = min(step, hbm / hbm_load)
        step = max(step, 0.0)
        level += step
        hbm -= step * hbm_load
        read -= step * read_load
        written -= step * write_load
        hbm_full = hbm <= _EPSILON * rates.hbm
        read_full = read <= _EPSILON * rates.l2_read
        write_full = written <= _EPSILON * rates.l2_write
        still = []
        for flow in growing:
            flow.rate = level
            if not (
                flow.ceiling - level <= _EPSILON * flow.ceiling
                or (write_full if flow.write else read_full)
                or (hbm_full and flow.miss > 0)
            ):
                still.append(flow)
        growing = still
