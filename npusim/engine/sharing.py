"""Bandwidth that cores share: every transfer is a flow with a fair share of what it uses.

Resources (HBM, L2 one way, a link) have names and bandwidths; a byte of a flow takes so much of
each. A flow never exceeds the ceiling of its own path. Shares are max-min fair, recomputed whenever
a transfer starts or ends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ulp
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from npusim.engine.clock import Alarm

if TYPE_CHECKING:
    import simpy

    from npusim.engine.claims import Claim

Owner = TypeVar("Owner")

_EPSILON = 1e-9
_MOST_RATES = 1000  # sets of transfers whose shares are kept
_DONE_CYCLES = 1e-6  # a transfer this close to its end has ended


@dataclass(slots=True, eq=False)
class Flow(Generic[Owner]):
    """One transfer in progress: bytes left and bytes per cycle of one core.

    ``owner`` is who is to be told of its end.
    """

    remaining: float
    claim: Claim
    owner: Owner
    rate: float = 0.0


class SharedBandwidth(Generic[Owner]):
    """Shares the bandwidth of resources among the transfers in progress.

    ``ended`` is called with the owners of transfers that have ended; it has to end with
    :meth:`settle`.
    """

    def __init__(
        self,
        env: simpy.Environment,
        bandwidths: Mapping[str, float],
        ended: Callable[[list[Owner]], None],
    ) -> None:
        self._env = env
        self._bandwidths = bandwidths
        self._ended = ended
        self._flows: list[Flow[Owner]] = []
        self._rates: dict[tuple[Claim, ...], dict[Claim, float]] = {}
        self._updated = 0.0
        self._version = 0
        self._changed = False

    @property
    def settled(self) -> bool:
        """Whether bandwidth is shared out among the transfers that there are."""
        return not self._changed

    def add(self, nbytes: float, claim: Claim, owner: Owner) -> None:
        """Begin to move ``nbytes`` on each core; bandwidth is shared out at the next settle."""
        if self._env.now > self._updated:
            self._advance()
        self._flows.append(Flow(nbytes, claim, owner))
        self._changed = True

    def settle(self) -> None:
        """Share out the bandwidth among the transfers that there are now."""
        if not self._changed:
            return
        self._changed = False
        self._version += 1
        flows = self._flows
        if not flows:
            return
        claims = tuple(sorted([flow.claim for flow in flows]))
        rates = self._rates.get(claims)
        if rates is None:  # else as many transfers with these claims have met before
            share(flows, self._bandwidths)
            if len(self._rates) > _MOST_RATES:
                self._rates.clear()
            self._rates[claims] = {flow.claim: flow.rate for flow in flows}
        else:
            for flow in flows:
                flow.rate = rates[flow.claim]
        delay = min([flow.remaining / flow.rate for flow in flows])
        Alarm(self._env, max(delay, 0.0), self._on_wake, self._version)

    def _advance(self) -> None:
        now = self._env.now
        elapsed = now - self._updated
        if elapsed > 0:
            for flow in self._flows:
                flow.remaining -= flow.rate * elapsed
            self._updated = now

    def _on_wake(self, alarm: Alarm) -> None:
        if alarm.about != self._version:
            return  # a transfer started meanwhile: a later wake-up carries on
        self._advance()
        # A late clock is coarser: what ends before its next tick would wake up now for ever.
        done = max(_DONE_CYCLES, 2 * ulp(self._env.now))
        ended: list[Owner] = []
        going: list[Flow[Owner]] = []
        for flow in self._flows:
            if flow.remaining <= done * flow.rate:
                ended.append(flow.owner)
            else:
                going.append(flow)
        self._flows = going
        self._changed = True
        self._ended(ended)


def share(flows: Sequence[Flow[Any]], bandwidths: Mapping[str, float]) -> None:
    """Set every flow's rate (bytes per cycle of one core) to its max-min fair share.

    All rates grow together until a flow reaches its ceiling or a resource is used up; what is then
    limited stays put and the others go on.
    """
    wanted = dict.fromkeys(bandwidths, 0.0)
    for flow in flows:
        claim = flow.claim
        flow.rate = claim.ceiling
        for name, amount in claim.most:
            wanted[name] += amount
    for name, amount in wanted.items():
        if amount > bandwidths[name]:
            _share_out(flows, bandwidths)
            return


def _share_out(flows: Sequence[Flow[Any]], bandwidths: Mapping[str, float]) -> None:
    growing, left, level = flows, dict(bandwidths), 0.0
    while growing:
        loads = dict.fromkeys(bandwidths, 0.0)
        for flow in growing:
            for name, amount in flow.claim.loads:
                loads[name] += amount
        step = min([flow.claim.ceiling for flow in growing]) - level
        for name, load in loads.items():
            if load > 0:
                step = min(step, left[name] / load)
        step = max(step, 0.0)
        level += step
        full = set()
        for name, load in loads.items():
            left[name] -= step * load
            if left[name] <= _EPSILON * bandwidths[name]:
                full.add(name)
        still = []
        for flow in growing:
            flow.rate = level
            ceiling, used_up = flow.claim.ceiling, not full.isdisjoint(dict(flow.claim.demand))
            if ceiling - level > _EPSILON * ceiling and not used_up:
                still.append(flow)
        growing = still
