"""Instruction streams for tests of the engine, and a plain calculation of when they happen.

The calculation knows nothing of SimPy: with one pipe setting a flag and one waiting for it, the
k-th wait gets the k-th token, so all times follow from a recurrence over the unrolled streams.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from npusim.ascendc.issuing import ISSUE
from npusim.engine import (
    CoreGroup,
    Instruction,
    KernelRun,
    L2State,
    Loop,
    Machine,
    Pipe,
    Program,
    Transfer,
    simulate,
)
from npusim.engine.machine import MemoryRates
from npusim.engine.program import Barrier, Node

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

AMPLE = MemoryRates(hbm=1e9, l2_read=1e9, l2_write=1e9)  # bytes per cycle that nobody uses up
SYNC_CYCLES = 17.0

# (pipe, name, start, end), all times in cycles
Times = list[tuple[Pipe, str, float, float]]


def machine(rates: MemoryRates = AMPLE, *, launch: float = 0.0, l2_bytes: float = 1e12) -> Machine:
    """A chip for the engine."""
    return Machine(rates, l2_bytes, SYNC_CYCLES, launch)


def play(
    *programs: tuple[int, Program],
    on: Machine | None = None,
    l2: L2State | None = None,
    sizes: Mapping[int, int] | None = None,
    exact: bool = False,
) -> KernelRun:
    """Run programs, each on a number of cores."""
    groups, first = [], 0
    for cores, program in programs:
        groups.append(CoreGroup(tuple(range(first, first + cores)), program))
        first += cores
    on = on or machine()
    return simulate(tuple(groups), on, l2 or L2State(on.l2_bytes), sizes, exact=exact)


def spans(run: KernelRun, index: int = 0) -> Times:
    """What a group of cores did, pipe by pipe in order of time."""
    listed = [(s.pipe, s.instruction.name, s.start, s.end) for s in run.records[index].spans()]
    return sorted(listed, key=lambda span: (span[0], span[2], span[3]))


def transfer(
    nbytes: float,
    ceiling: float,
    *,
    buffer: int = 1,
    write: bool = False,
    reuse: float | None = None,
) -> Transfer:
    """A movement of ``nbytes`` that alone takes ``nbytes / ceiling`` cycles."""
    return Transfer(buffer, write, int(nbytes), nbytes, ceiling, reuse)


@dataclass
class Queue:
    """Two flags between a producing and a consuming pipe."""

    producer: Pipe
    consumer: Pipe
    free: int
    filled: int


@dataclass
class Writer:
    """Builds a program as kernel code does: loops opened and closed, tiles in queues."""

    program: Program = field(default_factory=Program)
    _bodies: list[list[Node]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._bodies.append(self.program.body)

    def queue(self, producer: Pipe, consumer: Pipe, depth: int) -> Queue:
        """A queue of ``depth`` slots."""
        self.program.flags += [depth, 0]
        count = len(self.program.flags)
        return Queue(producer, consumer, count - 2, count - 1)

    def do(
        self,
        pipe: Pipe,
        name: str,
        cycles: float,
        *,
        waits: tuple[int, ...] = (),
        sets: tuple[int, ...] = (),
        moves: Transfer | None = None,
        latency: float = 0.0,
    ) -> None:
        """One instruction."""
        self._bodies[-1].append(
            Instruction(pipe, name, cycles, moves, waits, sets, latency=latency)
        )

    def barrier(self) -> None:
        """All pipes of all cores meet."""
        self._bodies[-1].append(Barrier())

    def open(self, count: int) -> None:
        """What follows happens ``count`` times."""
        loop = Loop(count)
        self._bodies[-1].append(loop)
        self._bodies.append(loop.body)

    def close(self) -> None:
        """The end of what happens several times."""
        self._bodies.pop()


def pipeline(
    count: int,
    load: float,
    compute: float,
    store: float,
    *,
    depth: int = 2,
    moves: tuple[Transfer | None, Transfer | None] = (None, None),
    latency: float = 0.0,
) -> Program:
    """``count`` tiles through MTE2, the vector unit and MTE3, with queues between them."""
    writer = Writer()
    inside = writer.queue(Pipe.MTE2, Pipe.VECTOR, depth)
    outside = writer.queue(Pipe.VECTOR, Pipe.MTE3, depth)
    writer.open(count)
    writer.do(
        Pipe.MTE2,
        "load",
        load,
        waits=(inside.free,),
        sets=(inside.filled,),
        moves=moves[0],
        latency=latency,
    )
    writer.do(
        Pipe.VECTOR,
        "compute",
        compute,
        waits=(inside.filled, outside.free),
        sets=(inside.free, outside.filled),
    )
    writer.do(
        Pipe.MTE3, "store", store, waits=(outside.filled,), sets=(outside.free,), moves=moves[1]
    )
    writer.close()
    return writer.program


def calculated(program: Program) -> Times:
    """When everything in a program happens on a core of its own; transfers go at their ceiling."""
    streams: dict[Pipe, list[Instruction]] = defaultdict(list)
    _unroll(program.body, streams)
    tokens: list[list[float]] = [[0.0] * count for count in program.flags]
    taken = [0] * len(program.flags)
    clock = dict.fromkeys(streams, 0.0)
    place = dict.fromkeys(streams, 0)
    waited = dict.fromkeys(streams, 0)  # waits of the instruction at hand that are behind us
    times: Times = []
    moved = True
    while moved:
        moved = False
        for pipe, stream in streams.items():
            while place[pipe] < len(stream):
                node = stream[place[pipe]]
                while waited[pipe] < len(node.waits):
                    flag = node.waits[waited[pipe]]
                    if taken[flag] == len(tokens[flag]):
                        break
                    clock[pipe] = max(clock[pipe], tokens[flag][taken[flag]])
                    taken[flag] += 1
                    waited[pipe] += 1
                if waited[pipe] < len(node.waits):
                    break
                start = clock[pipe]
                clock[pipe] += node.cycles
                if node.transfer is not None:
                    clock[pipe] += node.transfer.traffic_bytes / node.transfer.ceiling
                for flag in node.sets:
                    tokens[flag].append(clock[pipe] + node.latency)
                if not node.is_marker:
                    times.append((pipe, node.name, start, clock[pipe]))
                place[pipe] += 1
                waited[pipe] = 0
                moved = True
    assert all(place[pipe] == len(stream) for pipe, stream in streams.items()), "a deadlock"
    return sorted(times, key=lambda span: (span[0], span[2], span[3]))


def _unroll(nodes: list[Node], streams: dict[Pipe, list[Instruction]]) -> None:
    for node in nodes:
        if isinstance(node, Loop):
            for _ in range(node.count):
                _unroll(node.body, streams)
        elif isinstance(node, Instruction):
            streams[node.pipe].append(node)


def given_to(
    program: Program, told: Callable[[Transfer | None], Hashable] = lambda transfer: transfer
) -> Counter[Hashable]:
    """What a core is given in all, whether it is written down once or in loops.

    ``told`` is what a transfer is known by; flags have no numbers, and the scalar unit issues as
    much whatever is in between.
    """
    found: Counter[Hashable] = Counter()
    for each, times in program.instructions():
        found["waits", each.pipe] += len(each.waits) * times
        found["sets", each.pipe] += len(each.sets) * times
        if each.name == ISSUE:
            found[ISSUE] += round(each.cycles * times)
        elif each.name:
            what = each.pipe, each.name, each.cycles, each.latency, each.unit_flag
            found[*what, each.detail, each.site, told(each.transfer)] += times
    return found
