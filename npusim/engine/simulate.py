"""From a kernel's instruction streams to its time: the engine's only entry point."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from npusim.engine.l2 import crowding
from npusim.engine.player import Player

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from npusim.engine.l2 import L2State
    from npusim.engine.memory import MemoryRates
    from npusim.engine.program import CoreGroup, Pipe, Transfer
    from npusim.engine.timeline import CoreRecord


@dataclass(frozen=True, slots=True)
class Machine:
    """What the engine needs to know of a chip, all in cycles of the core clock."""

    rates: MemoryRates
    l2_bytes: float
    sync_cycles: float
    launch_cycles: float


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes a kernel moved, all cores together.

    Asked for by the kernel, and what of it HBM served.
    """

    read_bytes: int
    written_bytes: int
    hbm_bytes: float
    gm_bytes: float


@dataclass(frozen=True, slots=True)
class KernelRun:
    """One kernel played: ``cycles`` from launch to the end of the slowest core."""

    cycles: float
    launch_cycles: float
    records: tuple[CoreRecord, ...]
    traffic: Traffic
    jumped_cycles: float

    @property
    def core_cycles(self) -> float:
        """Cycles without the launch."""
        return self.cycles - self.launch_cycles

    def busy_ratio(self, pipe: Pipe) -> float:
        """Busy share of ``pipe``, averaged over the cores that have it in use."""
        using = [(len(r.blocks), r.busy[pipe]) for r in self.records if pipe in r.busy]
        cores = sum(size for size, _ in using)
        if not cores or self.core_cycles <= 0:
            return 0.0
        return sum(size * busy for size, busy in using) / cores / self.core_cycles


def simulate(
    groups: tuple[CoreGroup, ...],
    machine: Machine,
    l2: L2State,
    buffers: Mapping[int, int] | None = None,
    *,
    exact: bool = False,
) -> KernelRun:
    """Play the programs of all cores; ``l2`` is read and left as the kernel leaves it.

    ``buffers`` are the sizes of the buffers in bytes. ``exact`` plays every repetition instead of
    jumping over the steady state.
    """
    users = _users(groups)
    touched = _footprint(groups)
    sizes = {
        buffer: min(nbytes, (buffers or {}).get(buffer, nbytes))
        for buffer, nbytes in touched.items()
    }
    miss = l2.misses(touched, sizes, users, _produced(groups))
    l2_cost = crowding(touched, sizes, miss, machine.rates.l2 / machine.rates.hbm)
    player = Player(groups, machine.rates, machine.sync_cycles, miss, l2_cost, exact)
    player.play()
    for buffer, nbytes in sizes.items():
        l2.touch(buffer, nbytes)
    end = max((group.record.end for group in player.groups), default=0.0)
    records = tuple(group.record for group in player.groups)
    traffic = _traffic(groups, miss)
    return KernelRun(
        end + machine.launch_cycles, machine.launch_cycles, records, traffic, player.shift
    )


def _transfers(groups: tuple[CoreGroup, ...]) -> list[tuple[Transfer, int]]:
    return [
        (instruction.transfer, times * group.size)
        for group in groups
        for instruction, times in group.program.instructions()
        if instruction.transfer is not None
    ]


def _footprint(groups: tuple[CoreGroup, ...]) -> dict[int, float]:
    """Bytes first touched per buffer, in the order of first touch."""
    sizes: dict[int, float] = {}
    for transfer, times in _transfers(groups):
        first = transfer.payload_bytes * times * transfer.fresh_share
        sizes[transfer.buffer] = sizes.get(transfer.buffer, 0.0) + first
    return sizes


def _users(groups: tuple[CoreGroup, ...]) -> dict[int, int]:
    """How many cores touch each buffer."""
    users: dict[int, int] = {}
    for group in groups:
        transfers = (each.transfer for each, _ in group.program.instructions())
        for buffer in dict.fromkeys(each.buffer for each in transfers if each is not None):
            users[buffer] = users.get(buffer, 0) + group.size
    return users


def _produced(groups: tuple[CoreGroup, ...]) -> tuple[int, ...]:
    """Buffers that some core writes before it reads them, if it ever does."""
    produced: dict[int, None] = {}
    for group in groups:
        seen: set[int] = set()
        for instruction, _ in group.program.instructions():
            transfer = instruction.transfer
            if transfer is not None and transfer.buffer not in seen:
                seen.add(transfer.buffer)
                if transfer.write:
                    produced[transfer.buffer] = None
    return tuple(produced)


def _traffic(groups: tuple[CoreGroup, ...], miss: Callable[[Transfer], float]) -> Traffic:
    read = written = 0
    hbm = gm = 0.0
    for transfer, times in _transfers(groups):
        if transfer.write:
            written += transfer.payload_bytes * times
        else:
            read += transfer.payload_bytes * times
        gm += transfer.traffic_bytes * times
        hbm += transfer.traffic_bytes * times * miss(transfer)
    return Traffic(read, written, hbm, gm)
