"""SimPy at work: every pipe of every group of cores is a process that plays its part.

All state a pipe has lives in :class:`PipeState` and :class:`LoopRun`, not in the generators'
frames, so that :mod:`npusim.engine.steady` can recognise a repeating state and jump over the
repetitions.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Hashable
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any

import simpy

from npusim.engine.clock import after
from npusim.engine.memory import MemoryRates, MemorySystem
from npusim.engine.schedule import Burst, PipeLoop, PipeNode, pipes_of, project
from npusim.engine.steady import SteadyState
from npusim.engine.timeline import CoreRecord
from npusim.values.errors import DeadlockError

if TYPE_CHECKING:
    from npusim.engine.program import CoreGroup, Instruction, Loop, Pipe, Transfer

Steps = Generator[simpy.Event, Any, None]


@dataclass(slots=True, eq=False)
class LoopRun:
    """One execution of a loop by one group of cores.

    ``iteration`` tells how far each pipe inside it is.

    ``expected`` counts the pipes that have not left it yet; ``serial`` names it for good (unlike
    its ``id``).
    """

    loop: Loop
    parent: LoopRun | None
    serial: int
    expected: int
    iteration: dict[Pipe, int] = field(default_factory=dict)
    inner: dict[tuple[int, int], LoopRun] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class PipeState:
    """Where one pipe is: its loop, the entry it is at, and what it is waiting for."""

    pipe: Pipe
    group: GroupState
    run: LoopRun | None = None
    entry: int = -1
    started: float = 0.0
    due: float | None = None
    waiting: simpy.Event | None = None
    arriving: deque[tuple[float, tuple[int, ...]]] = field(default_factory=deque)
    finished: bool = False


@dataclass(slots=True, eq=False)
class GroupState:
    """One group of cores: its flags (those of the whole cluster), its pipes, its record."""

    group: CoreGroup
    flags: list[int]
    waiters: dict[int, simpy.Event]
    record: CoreRecord
    pipes: list[PipeState] = field(default_factory=list)
    runs: dict[tuple[int, int], LoopRun] = field(default_factory=dict)
    users: dict[int, int] = field(default_factory=dict)


class Player:
    """Plays the programs of all groups of cores of one kernel."""

    def __init__(
        self,
        groups: tuple[CoreGroup, ...],
        rates: MemoryRates,
        sync_cycles: float,
        miss: Callable[[Transfer], float],
        l2_cost: Callable[[Transfer], float] = lambda _transfer: 1.0,
        exact: bool = False,
    ) -> None:
        self.env = simpy.Environment()
        self.memory = MemorySystem(self.env, rates)
        self.shift = 0.0  # cycles jumped over so far: the clock is env.now + shift
        self._sync_cycles = sync_cycles
        self._miss = miss
        self._l2_cost = l2_cost
        self._treated: dict[int, tuple[float, float]] = {}  # transfer -> misses, L2 cost
        self._serial = count()
        self._arrived = 0
        self._barrier = self.env.event()
        self._clusters: dict[Hashable, tuple[list[int], dict[int, simpy.Event]]] = {}
        self.groups = [self._prepare(group) for group in groups]
        self._steady = None if exact else SteadyState(self)

    @property
    def now(self) -> float:
        """Cycles since the start, jumps included."""
        return self.env.now + self.shift

    def play(self) -> None:
        """Run to the end; raises DeadlockError if a pipe waits for a flag that nobody sets."""
        self.env.run()
        for group in self.groups:
            for state in group.pipes:
                if not state.finished:
                    raise DeadlockError(core=group.group.blocks[0], pipe=str(state.pipe))

    def _prepare(self, group: CoreGroup) -> GroupState:
        record = CoreRecord(group.blocks, group.unit, group.program)
        flags, waiters = list(group.program.flags), dict[int, simpy.Event]()
        if group.cluster is not None:
            flags, waiters = self._clusters.setdefault(group.cluster, (flags, waiters))
        state = GroupState(group, flags, waiters, record)
        for pipe in pipes_of(group.program):
            pipe_state = PipeState(pipe, state)
            record.busy[pipe] = 0.0
            state.pipes.append(pipe_state)
            nodes = project(group.program.body, pipe)
            _count_users(nodes, state.users)
            self.env.process(self._start(pipe_state, nodes))
        return state

    def _start(self, state: PipeState, nodes: tuple[PipeNode, ...]) -> Steps:
        yield from self._run(state, nodes)
        state.finished = True

    def _run(self, state: PipeState, nodes: tuple[PipeNode, ...]) -> Steps:
        for entry, node in enumerate(nodes):
            state.entry = entry
            if isinstance(node, Burst):
                yield from self._burst(state, node)
            elif isinstance(node, PipeLoop):
                yield from self._loop(state, node)
                state.entry = entry
            else:
                yield from self._meet(state)

    def _burst(self, state: PipeState, burst: Burst) -> Steps:
        group = state.group
        for flag in burst.waits:
            if group.flags[flag]:
                group.flags[flag] -= 1
                continue
            state.waiting = group.waiters[flag] = self.env.event()
            yield state.waiting
            state.waiting = None
        state.started = self.now
        if burst.cycles:
            state.due = self.env.now + burst.cycles
            yield self.env.timeout(burst.cycles)
            state.due = None
        if burst.transfer is not None:
            yield from self._transfer(state, burst.transfer)
        if burst.parts:
            end = self.now
            group.record.entries.append((state.pipe, burst.parts, state.started, end))
            group.record.busy[state.pipe] += end - state.started
            group.record.end = max(group.record.end, end)
        if burst.sets:
            latency = burst.transfer.latency if burst.transfer is not None else 0.0
            self._set(state, burst.sets, latency)

    def _set(self, state: PipeState, flags: tuple[int, ...], latency: float) -> None:
        """Set flags ``latency`` cycles from now, those for other cores after their own delay."""
        delays = state.group.group.program.delays
        if delays:
            for flag in flags:
                if flag in delays:
                    self._set_later(state, (flag,), latency + delays[flag])
            flags = tuple(flag for flag in flags if flag not in delays)
        if latency and flags:
            self._set_later(state, flags, latency)
        else:
            _set(state.group, flags)

    def _set_later(self, state: PipeState, flags: tuple[int, ...], delay: float) -> None:
        """The data of a transfer, or the word to another core, is under way.

        Its flags are set on arrival.
        """
        entry = (self.env.now + delay, flags)
        state.arriving.append(entry)

        def arrive() -> None:
            state.arriving.remove(entry)
            _set(state.group, flags)

        after(self.env, delay, arrive)

    def _transfer(self, state: PipeState, instruction: Instruction) -> Steps:
        transfer = instruction.transfer
        if transfer is None or transfer.traffic_bytes <= 0:
            return
        cores = state.group.group.size
        treated = self._treated.get(id(transfer))
        if treated is None:
            treated = self._treated[id(transfer)] = self._miss(transfer), self._l2_cost(transfer)
        flow = self.memory.start(transfer.traffic_bytes, cores, transfer.ceiling, *treated)
        state.waiting = flow.done
        yield flow.done
        state.waiting = None

    def _loop(self, state: PipeState, node: PipeLoop) -> Steps:
        pipe = state.pipe
        run = self._enter(state, node.loop)
        while run.iteration[pipe] < node.loop.count:
            yield from self._run(state, node.body)
            run.iteration[pipe] += 1
            if self._steady is not None:
                self._steady.iteration_ended(state, run)
        self._leave(state, run)

    def _enter(self, state: PipeState, loop: Loop) -> LoopRun:
        parent, table, key = _place(state, loop)
        run = table.get(key)
        if run is None:
            run = table[key] = LoopRun(
                loop, parent, next(self._serial), state.group.users[id(loop)]
            )
        run.iteration[state.pipe] = 0
        state.run = run
        return run

    def _leave(self, state: PipeState, run: LoopRun) -> None:
        del run.iteration[state.pipe]
        run.expected -= 1
        state.run = run.parent
        if run.expected == 0:
            _, table, key = _place(state, run.loop)
            del table[key]
            if self._steady is not None:
                self._steady.forget(run)

    def _meet(self, state: PipeState) -> Steps:
        self._arrived += 1
        everyone = sum(len(group.pipes) for group in self.groups)
        if self._arrived < everyone:
            state.waiting = self._barrier
            yield self._barrier
            state.waiting = None
        else:
            passed, self._barrier, self._arrived = self._barrier, self.env.event(), 0
            yield self.env.timeout(self._sync_cycles)
            passed.succeed()
        record = state.group.record
        record.end = max(record.end, self.now)  # a kernel may end with a barrier


def _place(
    state: PipeState, loop: Loop
) -> tuple[LoopRun | None, dict[tuple[int, int], LoopRun], tuple[int, int]]:
    """Where the execution of ``loop`` is kept that all pipes of a core share."""
    parent = state.run
    if parent is None:
        return None, state.group.runs, (id(loop), 0)
    return parent, parent.inner, (id(loop), parent.iteration[state.pipe])


def _set(group: GroupState, flags: tuple[int, ...]) -> None:
    for flag in flags:
        waiter = group.waiters.pop(flag, None)
        if waiter is not None:
            waiter.succeed()
        else:
            group.flags[flag] += 1


def _count_users(nodes: tuple[PipeNode, ...], users: dict[int, int]) -> None:
    for node in nodes:
        if isinstance(node, PipeLoop):
            users[id(node.loop)] = users.get(id(node.loop), 0) + 1
            _count_users(node.body, users)
