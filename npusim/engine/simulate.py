"""From a kernel's instruction streams to its time: the engine's only entry point."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from npusim.engine.compiled import play as compiled
from npusim.engine.l2 import L2State, crowding
from npusim.engine.machine import Machine, MemoryRates, Treatment
from npusim.engine.timeline import CoreRecord, Played, Whole

if TYPE_CHECKING:
    from npusim.engine.program import CoreGroup, Pipe, Transfer


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes a kernel moved, all cores together.

    Asked for by the kernel, what of it HBM served, and what passed the L2 either way.
    """

    read_bytes: int
    written_bytes: int
    hbm_bytes: float
    l2_read_bytes: float
    l2_written_bytes: float

    @property
    def gm_bytes(self) -> float:
        """What global memory moved, in whole blocks."""
        return self.l2_read_bytes + self.l2_written_bytes


@dataclass(frozen=True, slots=True)
class KernelRun:
    """One kernel played: ``cycles`` from launch to the end of the slowest core.

    ``memory_cycles`` is what the busiest of HBM and the two ways of L2 needs for the transfers,
    ``touched`` what L2 has got of each buffer.
    """

    cycles: float
    launch_cycles: float
    records: tuple[CoreRecord, ...]
    traffic: Traffic
    jumped_cycles: float
    memory_cycles: float
    touched: Mapping[int, float] = field(default_factory=dict)

    @property
    def core_cycles(self) -> float:
        """Cycles without the launch."""
        return self.cycles - self.launch_cycles

    def busy_ratio(self, pipe: Pipe) -> float:
        """Busy share of ``pipe``, as :meth:`busy_ratios` has it; 0 where nobody uses it."""
        return self.busy_ratios().get(pipe, 0.0)

    def busy_ratios(self) -> dict[Pipe, float]:
        """Busy share of each pipe that is in use, averaged as msprof does it.

        Over all cores of a kind that has it in use, those among them that don't use it.
        """
        sizes: dict[str, int] = {}  # cores of each kind
        kinds: dict[Pipe, set[str]] = {}
        spent: dict[Pipe, float] = {}
        for record in self.records:
            kind, size = record.unit.kind, len(record.blocks)
            sizes[kind] = sizes.get(kind, 0) + size
            for pipe, busy in record.busy.items():
                kinds.setdefault(pipe, set()).add(kind)
                spent[pipe] = spent.get(pipe, 0.0) + size * busy
        if self.core_cycles <= 0:
            return dict.fromkeys(spent, 0.0)
        return {
            pipe: total / sum(sizes[kind] for kind in kinds[pipe]) / self.core_cycles
            for pipe, total in spent.items()
        }


def simulate(
    groups: tuple[CoreGroup, ...],
    machine: Machine,
    l2: L2State,
    buffers: Mapping[int, int] | None = None,
    *,
    exact: bool = False,
    known_as: Mapping[int, int] | None = None,
) -> KernelRun:
    """Play the programs of all cores; ``l2`` is read and left as the kernel leaves it.

    ``buffers`` are the sizes of the buffers in bytes. ``exact`` plays every repetition instead of
    jumping over the steady state. ``known_as`` are
    the numbers by which ``l2`` knows buffers that the programs number otherwise.
    """
    numbers = known_as or {}
    listed = _Listed(groups)
    touched, loaded = listed.footprint()
    sizes = {
        buffer: min(nbytes, (buffers or {}).get(buffer, nbytes))
        for buffer, nbytes in touched.items()
    }
    held = {buffer: l2.resident_bytes(numbers.get(buffer, buffer)) for buffer in sizes}
    miss = l2.misses(touched, sizes, held, listed.users(), listed.produced(), loaded)
    missed = [miss(transfer) for transfer in listed.transfers]
    crowded = machine.rates.l2_read / machine.rates.hbm
    costs = listed.hbm_costs(missed, l2, machine)
    treated = {
        transfer: Treatment.of(
            transfer,
            share,
            crowding(transfer, touched, sizes, share, crowded),
            share * costs[transfer.write],
            machine.away,
        )
        for transfer, share in zip(listed.transfers, missed, strict=True)
    }
    played = (_by_simpy if exact else compiled.play)(groups, machine, treated)
    left = {numbers.get(buffer, buffer): nbytes for buffer, nbytes in sizes.items()}
    for buffer, nbytes in left.items():
        l2.touch(buffer, nbytes)
    launch = machine.launch_cycles
    return KernelRun(
        max((group.end for group in played.groups), default=0.0) + launch,
        launch,
        _records(played, groups, machine, treated),
        listed.traffic(treated),
        played.jumped_cycles,
        listed.memory_cycles(treated, machine.rates),
        left,
    )


def _by_simpy(
    groups: tuple[CoreGroup, ...], machine: Machine, treated: Mapping[Transfer, Treatment]
) -> Played:
    """What the reference plays; SimPy takes longer to import than most kernels to play."""
    from npusim.engine import player

    return player.play(groups, machine, treated)


def _records(
    played: Played,
    groups: tuple[CoreGroup, ...],
    machine: Machine,
    treated: Mapping[Transfer, Treatment],
) -> tuple[CoreRecord, ...]:
    """What each group has done, in its own instructions."""
    return tuple(
        CoreRecord(
            group.blocks,
            group.unit,
            each.end,
            each.busy,
            partial(
                Whole,
                group.program,
                each,
                partial(compiled.replay, groups, machine, treated, index),
            ),
        )
        for index, (group, each) in enumerate(zip(groups, played.groups, strict=True))
    )


class _Listed:
    """The different transfers of all groups with how often they run, and what follows from them."""

    def __init__(self, groups: tuple[CoreGroup, ...]) -> None:
        self.groups = [(group, group.program.totals().moved) for group in groups]
        self.transfers: dict[Transfer, int] = {}
        for group, moved in self.groups:
            for transfer, times in moved.items():
                self.transfers[transfer] = self.transfers.get(transfer, 0) + times * group.size

    def footprint(self) -> tuple[dict[int, float], dict[int, float]]:
        """Bytes first touched per buffer, in the order of first touch, and those of loads."""
        touched: dict[int, float] = {}
        loaded: dict[int, float] = {}
        for transfer, times in self.transfers.items():
            if not transfer.bypasses_l2:
                buffer = transfer.buffer
                first = transfer.payload_bytes * times * transfer.fresh_share
                touched[buffer] = touched.get(buffer, 0.0) + first
                if not transfer.write:
                    loaded[buffer] = loaded.get(buffer, 0.0) + first
        return touched, loaded

    def users(self) -> dict[int, int]:
        """How many cores touch each buffer."""
        users: dict[int, int] = {}
        for group, moved in self.groups:
            for buffer in dict.fromkeys(each.buffer for each in moved):
                users[buffer] = users.get(buffer, 0) + group.size
        return users

    def produced(self) -> tuple[int, ...]:
        """Buffers that some core writes before it reads them, if it ever does."""
        produced: dict[int, None] = {}
        for _, moved in self.groups:
            seen: set[int] = set()
            for transfer in moved:
                if transfer.buffer not in seen:
                    seen.add(transfer.buffer)
                    if transfer.write:
                        produced[transfer.buffer] = None
        return tuple(produced)

    def hbm_costs(
        self, missed: Sequence[float], l2: L2State, machine: Machine
    ) -> tuple[float, float]:
        """What HBM has to do for each byte that misses: of a load, and of a store.

        ``missed`` are the shares of the transfers that do.

        A line that is loaded pushes out one line, one that the kernel itself has modified or
        somebody before it. Stores wait themselves for what else is written back, and for what
        exceeds the room for modified bytes. While a kernel is launched nobody needs HBM, which
        makes room then. It turns around between reading and writing: ``turnaround`` is what that
        costs for each byte of what it does less of.
        """
        loaded = stored = 0.0
        for (transfer, times), share in zip(self.transfers.items(), missed, strict=True):
            nbytes = transfer.bus_bytes * times * share
            if transfer.write:
                stored += nbytes
            else:
                loaded += nbytes
        others = min(l2.pushed_out_share * loaded, max(0.0, l2.capacity_bytes - stored))
        room = machine.rates.hbm * machine.launch_cycles
        late = max(0.0, 1.0 - room / (others + stored)) if others + stored else 0.0
        others, written = late * others, late * stored
        carried = min(written, loaded - others, l2.reuse_fraction * l2.capacity_bytes)
        moved = loaded + others + written
        turned = 1.0
        if moved:
            turned += machine.rates.turnaround * min(loaded, others + written) / moved
        load = 1.0 + (others + carried) / loaded if loaded else 1.0
        store = (written - carried) / stored if stored else 1.0
        return turned * load, turned * store

    def traffic(self, treated: Mapping[Transfer, Treatment]) -> Traffic:
        """What has been moved; ``treated`` says how memory treats each transfer, in their order."""
        read = written = 0
        hbm = l2_read = l2_written = 0.0
        for (transfer, times), how in zip(self.transfers.items(), treated.values(), strict=True):
            traffic = transfer.traffic_bytes * times
            if transfer.write:
                written += transfer.payload_bytes * times
                l2_written += traffic
            else:
                read += transfer.payload_bytes * times
                l2_read += traffic
            hbm += traffic * how.miss
        return Traffic(read, written, hbm, l2_read, l2_written)

    def memory_cycles(self, treated: Mapping[Transfer, Treatment], rates: MemoryRates) -> float:
        """What the busiest of HBM and the two ways of L2 needs to move everything."""
        hbm = read = written = 0.0
        for (transfer, times), how in zip(self.transfers.items(), treated.values(), strict=True):
            nbytes = transfer.bus_bytes * times
            hbm += nbytes * how.hbm_cost
            if transfer.write:
                written += nbytes
            else:
                read += nbytes
        return max(hbm / rates.hbm, read / rates.l2_read, written / rates.l2_write)
