"""A chip as the engine sees it: bandwidths, barrier and launch in cycles of the core clock."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from npusim.engine.claims import Amounts
    from npusim.engine.program import CoreGroup, Transfer
    from npusim.hardware.profile import Profile

HBM, L2_READ, L2_WRITE = "hbm", "l2_read", "l2_write"


@dataclass(frozen=True, slots=True)
class MemoryRates:
    """Bandwidth of the chip in bytes per core cycle, all cores together.

    L2 is read and written at the same time, each with a bandwidth of its own; HBM takes
    ``turnaround`` more for each byte that it writes between reads, or reads between writes.
    """

    hbm: float
    l2_read: float
    l2_write: float
    turnaround: float = 0.0

    @property
    def bandwidths(self) -> dict[str, float]:
        """Every resource's bandwidth by its name."""
        return {HBM: self.hbm, L2_READ: self.l2_read, L2_WRITE: self.l2_write}


class Away(NamedTuple):
    """What loads pay for bytes that L2 doesn't hold: ``cycles`` later they arrive.

    A core has so many requests on their way, so that they also come at a part of its rate:
    ``rate_fraction`` of what L2 misses, ``bypass_rate_fraction`` of what passes it by.
    """

    cycles: float = 0.0
    rate_fraction: float = 1.0
    bypass_rate_fraction: float = 1.0


class Treatment(NamedTuple):
    """How memory treats a transfer: the share of its bytes that HBM serves, and L2's work for each.

    ``l2_cost`` is the bandwidth of L2 that a byte takes, more than 1 where cores get into each
    other's way. ``hbm_cost`` is that of HBM: stores retire into L2, and what they push out is
    written back beside the loads, which wait for it. Its data come ``late`` by so many cycles, and
    its core moves them at ``pace`` times its rate.
    """

    miss: float
    l2_cost: float
    hbm_cost: float
    late: float = 0.0
    pace: float = 1.0

    def ceiling(self, transfer: Transfer) -> float:
        """The most bytes per cycle of a core: memory doesn't make the setup longer."""
        nbytes = transfer.bus_bytes
        cycles = nbytes / transfer.ceiling
        setup = min(transfer.setup_cycles, cycles)
        return nbytes / (setup + (cycles - setup) / self.pace)

    @staticmethod
    def of(
        transfer: Transfer, miss: float, l2_cost: float, hbm_cost: float, away: Away
    ) -> Treatment:
        """That of a transfer of which HBM serves ``miss``."""
        if transfer.write:
            return Treatment(miss, l2_cost, hbm_cost)
        fraction = away.bypass_rate_fraction if transfer.bypasses_l2 else away.rate_fraction
        pace = 1.0 / (1.0 - miss + miss / fraction)
        return Treatment(miss, l2_cost, hbm_cost, miss * away.cycles, pace)

    def demand(self, transfer: Transfer) -> Amounts:
        """What a byte takes of each resource: one that misses uses HBM as well as L2."""
        way = L2_WRITE if transfer.write else L2_READ, self.l2_cost
        return ((HBM, self.hbm_cost), way) if self.hbm_cost else (way,)


@dataclass(frozen=True, slots=True)
class Machine:
    """What the engine needs to know of a chip, all in cycles of the core clock."""

    rates: MemoryRates
    l2_bytes: float
    sync_cycles: float
    launch_cycles: float
    away: Away = field(default_factory=Away)
    issue_queue: int = 0  # entries; 0: nobody issues ahead


def machine_of(profile: Profile, blocks: int, *, mix: bool = False) -> Machine:
    """The machine that runs one kernel, as soon as its first ``blocks`` have been started.

    ``mix`` for kernels on cube and vector cores.
    """
    clock = profile.clock_mhz
    launch = profile.launch
    launch_cycles = launch.base_us * clock + (blocks - 1) * block_cycles(profile)
    launch_cycles += launch.mix_extra_us * clock if mix else 0.0
    l2_read = bytes_per_cycle(profile.l2_sustained_gbps, clock)
    rates = MemoryRates(
        hbm=bytes_per_cycle(profile.hbm_sustained_gbps, clock),
        l2_read=l2_read,
        l2_write=l2_read * profile.memory.l2_write_fraction,
        turnaround=profile.memory.hbm_turnaround_share,
    )
    memory = profile.memory
    return Machine(
        rates,
        memory.l2_bytes,
        launch.sync_all_us * clock,
        launch_cycles,
        Away(memory.miss_cycles, memory.miss_rate_fraction, memory.bypass_rate_fraction),
        profile.scalar.issue_queue or 0,
    )


def machine_for(profile: Profile, groups: Sequence[CoreGroup]) -> Machine:
    """The machine that runs ``groups``, whose time begins when their blocks have been started.

    Blocks that the launch brings one after the other (``Program.starts``) don't count.
    """
    started = max((max(group.blocks) for group in groups if not group.program.starts), default=0)
    mix = any(group.cluster is not None for group in groups)
    return machine_of(profile, started + 1, mix=mix)


def block_cycles(profile: Profile) -> float:
    """Cycles from the start of a block to that of the next one of the launch."""
    return profile.launch.per_block_us * profile.clock_mhz


def bytes_per_cycle(gbps: float, clock_mhz: float) -> float:
    """GB/s as bytes per cycle of a clock in MHz."""
    return gbps * 1e3 / clock_mhz
