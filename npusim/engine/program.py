"""The instruction streams the engine plays: what every pipe of a core does, and what it waits for.

A program is a tree of instructions and counted loops. Order between pipes is expressed with
*flags*: counting semaphores with one setting pipe and one waiting pipe, the hardware's ``set_flag``
/ ``wait_flag``. A queue of depth two is a pair of flags, one of which starts at two. The cores of
one cluster have one table of flags, so that a pipe of one can wait for a pipe of another.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, NamedTuple


class Pipe(StrEnum):
    """The in-order execution units of an AI core, spelled as the profiler spells them."""

    SCALAR = "SCALAR"
    VECTOR = "VECTOR"
    CUBE = "CUBE"
    MTE1 = "MTE1"
    MTE2 = "MTE2"
    MTE3 = "MTE3"
    FIXP = "FIXP"


_PIPES = tuple(Pipe)


class Reuse(NamedTuple):
    """Executions of a transfer that touch bytes which the same core has touched before.

    ``share`` is their part of all executions, ``between`` the bytes per buffer that the core has
    touched since, each counted once.
    """

    share: float
    between: tuple[tuple[int, float], ...]


class Transfer(NamedTuple):
    """Traffic of one instruction with global memory.

    ``payload_bytes`` is what the kernel asked for, ``traffic_bytes`` what crosses the bus (bursts
    are rounded up to whole granules). ``ceiling`` is the path's own limit in bytes per cycle of one
    core; ``setup_cycles`` of the time that this makes are before the first byte. ``reuse_bytes``
    tells how much other data this core moved since it last touched the same bytes (None: the kernel
    touches them for the first time); ``reuses`` tells the same for parts of the executions, buffer
    by buffer. ``shared_cost`` is the L2 time, as a part of its own, that
    each byte costs on top where all cores read the same lines. ``rate_fraction`` of the usual rate
    is what all of the way serves its bytes at: less than 1 for atomic additions. What
    ``bypasses_l2`` finds nothing there and leaves nothing.
    """

    buffer: int
    write: bool
    payload_bytes: int
    traffic_bytes: float
    ceiling: float
    reuse_bytes: float | None = None
    atomic: bool = False
    path: str = ""
    reuses: tuple[Reuse, ...] = ()
    shared_cost: float = 0.0
    rate_fraction: float = 1.0
    bypasses_l2: bool = False
    setup_cycles: float = 0.0

    @property
    def bus_bytes(self) -> float:
        """The plain traffic that takes as long: bytes that move at a fraction of the usual rate."""
        return self.traffic_bytes / self.rate_fraction

    @property
    def fresh_share(self) -> float:
        """The part of the executions that touch their bytes for the first time."""
        if self.reuses:
            return max(0.0, 1.0 - sum([reuse.share for reuse in self.reuses]))
        return 1.0 if self.reuse_bytes is None else 0.0


@dataclass(slots=True)
class Instruction:
    """One instruction on one pipe.

    ``cycles`` of occupancy, plus the transfer's own time where there is one.

    Flags it sets are seen ``latency`` cycles after its end; the pipe goes on meanwhile. With a
    ``unit_flag`` it doesn't wait in front of its pipe, but inside: it is busy from its issue on.
    The first time that a transfer runs takes ``first_cycles`` more.
    """

    pipe: Pipe
    name: str
    cycles: float
    transfer: Transfer | None = None
    waits: tuple[int, ...] = ()
    sets: tuple[int, ...] = ()
    detail: str = ""
    site: str = ""
    latency: float = 0.0
    unit_flag: bool = False
    first_cycles: float = 0.0

    def copied(self) -> Instruction:
        """Another one that does the same."""
        return Instruction(
            self.pipe, self.name, self.cycles, self.transfer, self.waits, self.sets, self.detail,
            self.site, self.latency, self.unit_flag, self.first_cycles,
        )  # fmt: skip

    @property
    def is_marker(self) -> bool:
        """True for an entry that only sets flags and takes no time."""
        return self.transfer is None and self.cycles == 0 and not self.name


@dataclass(slots=True)
class Loop:
    """``count`` repetitions of ``body``."""

    count: int
    body: list[Node] = field(default_factory=list)


@dataclass(slots=True)
class Barrier:
    """All pipes of all cores meet here (SyncAll)."""

    site: str = ""


Node = Instruction | Loop | Barrier


@dataclass(slots=True)
class Program:
    """What one core does, and the initial count of every flag.

    ``starts`` are the cycles at which flags that the launch sets arrive, a list for each.
    ``delays`` are the cycles between setting a flag and its arrival, for flags between cores. The
    programs of one cluster share both. ``kernel`` and the ``names`` of flags are for errors.
    """

    body: list[Node] = field(default_factory=list)
    flags: list[int] = field(default_factory=list)
    delays: dict[int, float] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    kernel: str = ""
    starts: dict[int, tuple[float, ...]] = field(default_factory=dict)
    _totals: Totals | None = field(default=None, init=False, repr=False, compare=False)

    def instructions(self) -> list[tuple[Instruction, int]]:
        """Every instruction with how often it runs."""
        found: list[tuple[Instruction, int]] = []
        _collect(found, self.body, 1)
        return found

    def totals(self) -> Totals:
        """What a program does in all that changes by :meth:`put_first` alone: found once."""
        if self._totals is None:
            self._totals = Totals(0, 0.0, [], set()).plus(self.body, 1)
        return self._totals

    def put_first(self, nodes: list[Node]) -> None:
        """Put ``nodes`` that move nothing in front of everything else."""
        self.body = [*nodes, *self.body]
        if self._totals is not None:
            self._totals = self._totals.plus(nodes, 1)


class Totals(NamedTuple):
    """How many ``instructions`` a program has, and the ``cycles`` of all their executions.

    ``movers`` are those that move something, with how often they run; ``used`` are their pipes.
    """

    instructions: int
    cycles: float
    movers: list[tuple[Instruction, int]]
    used: set[Pipe]

    @property
    def pipes(self) -> tuple[Pipe, ...]:
        """The pipes that it uses, in the order of :class:`Pipe`."""
        return tuple([pipe for pipe in _PIPES if pipe in self.used])

    @property
    def moved(self) -> dict[Transfer, int]:
        """Its different transfers in their order, with how often they run."""
        moved: dict[Transfer, int] = {}
        for mover, times in self.movers:
            if (transfer := mover.transfer) is not None:
                moved[transfer] = moved.get(transfer, 0) + times
        return moved

    def plus(self, nodes: list[Node], times: int) -> Totals:
        """These with so many runs of ``nodes``."""
        count, cycles, movers, used = self
        for node in nodes:
            if type(node) is Instruction:
                count += 1
                cycles += node.cycles * times
                used.add(node.pipe)
                if node.transfer is not None:
                    movers.append((node, times))
            elif type(node) is Loop:
                count, cycles, *_ = Totals(count, cycles, movers, used).plus(
                    node.body, times * node.count
                )
        return Totals(count, cycles, movers, used)


def _collect(found: list[tuple[Instruction, int]], nodes: list[Node], times: int) -> None:
    for node in nodes:
        if isinstance(node, Instruction):
            found.append((node, times))
        elif isinstance(node, Loop):
            _collect(found, node.body, times * node.count)


def fingerprint(program: Program) -> Hashable:
    """Equal for programs that do the same with flags of the same numbers."""
    return _told(program.body), tuple(program.flags)


def _told(nodes: list[Node]) -> Hashable:
    return tuple(
        (
            node.pipe, node.name, node.cycles, node.transfer, node.waits, node.sets,
            node.detail, node.site, node.latency, node.unit_flag, node.first_cycles,
        )
        if isinstance(node, Instruction)
        else (node.count, _told(node.body)) if isinstance(node, Loop) else node.site
        for node in nodes
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Unit:
    """The core of a block that runs a program.

    ``sub_block`` numbers the vector cores that share a block with a cube core; None where a block
    is one core.
    """

    kind: Literal["vector", "cube"] = "vector"
    sub_block: int | None = None

    def __str__(self) -> str:
        """``cube core`` or ``vector core 1``."""
        return f"{self.kind} core" + ("" if self.sub_block is None else f" {self.sub_block}")


VECTOR = Unit()


@dataclass(frozen=True, slots=True)
class CoreGroup:
    """Blocks that run the same program in lockstep: simulated once, counted ``len(blocks)`` times.

    Groups with equal ``cluster`` are the cores of the same blocks; they share their flags.
    """

    blocks: tuple[int, ...]
    program: Program
    unit: Unit = VECTOR
    cluster: Hashable = None

    @property
    def size(self) -> int:
        """Number of cores in the group."""
        return len(self.blocks)
