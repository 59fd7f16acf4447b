"""The pipes of all cores at work: a recurrence inside a core, SimPy where cores meet.

Flags carry the time at which they were set. A pipe therefore works ahead on a clock of its own: it
starts when it is free and its flags are set, and ends a known number of cycles later. Only what
cores share, the bandwidth of global memory and barriers, has to be seen in the order of time; that
is what SimPy's clock is for. A pipe that wants to begin a transfer waits until the clock is there,
and one that ends an iteration of a loop until nothing else happens before.

All state lives in :class:`PipeState` and :class:`LoopRun`, so that :mod:`npusim.engine.steady` can
recognise a repeating state and jump over the repetitions.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import count
from typing import TYPE_CHECKING

import simpy

from npusim.engine.schedule import pipes_of, project
from npusim.engine.sharing import MemoryRates, MemorySystem
from npusim.engine.steady import SteadyState
from npusim.engine.streams import Kind, Step, flatten
from npusim.engine.timeline import CoreRecord
from npusim.values.errors import DeadlockError

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from npusim.engine.program import CoreGroup, Loop, Pipe, Transfer
    from npusim.engine.sharing import Flow


# How the chip's memory treats a transfer: the share of its bytes that HBM has to serve, and the
# bandwidth of L2 that each byte takes.
Treatment = tuple[float, float]


class Stage(IntEnum):
    """How far a pipe is with the step it is at."""

    BEFORE = 0  # its flags aren't all taken yet
    BUSY_UNTIL = 1  # it has worked, and its transfer begins when the clock is there
    MOVING = 2  # its transfer is under way
    MOVED = 3  # its transfer has ended
    MEETING = 4  # it waits at a barrier
    FINISHED = 5


@dataclass(slots=True, eq=False)
class LoopRun:
    """One execution of a loop by one group of cores.

    ``members`` are the pipes inside it, ``expected`` counts those that have not left it yet, and
    ``level`` tells how many loops are around it.
    """

    loop: Loop
    serial: int
    level: int
    expected: int
    members: list[PipeState] = field(default_factory=list)
    inner: dict[tuple[int, int], LoopRun] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class PipeState:
    """Where one pipe is: its step, its loops with the turn of each, and when it is free."""

    pipe: Pipe
    group: GroupState
    player: Player
    steps: list[Step]
    place: int = 0
    stage: Stage = Stage.BEFORE
    waited: int = 0  # flags of the step that are taken
    ready: bool = True  # not waiting for anything but its turn in the player's list
    clock: float = 0.0
    started: float = 0.0
    busy: float = 0.0
    flow: Flow | None = None
    alarm: float | None = None  # when SimPy's clock will wake it
    runs: list[LoopRun] = field(default_factory=list)
    turns: list[int] = field(default_factory=list)

    def succeed(self) -> None:
        """The last byte of its transfer has been moved."""
        self.clock = self.player.env.now
        self.stage = Stage.MOVED
        self.flow = None
        self.player.wake(self)

    @property
    def due(self) -> float:
        """Until when nobody hears of it, unless a flag wakes it before."""
        return self.clock if self.alarm is None else self.alarm

    def sleep(self, until: float) -> None:
        """Go on at ``until``, whatever was said before."""
        env = self.player.env
        self.alarm = until
        timeout = env.timeout(max(0.0, until - env.now), until)
        if timeout.callbacks is not None:  # None only once the event has been processed
            timeout.callbacks.append(self._resume)

    def put_forward(self, cycles: float) -> None:
        """Everybody else has jumped ``cycles`` ahead, so what is to come is that much nearer."""
        self.clock -= cycles
        self.started -= cycles
        if self.alarm is not None:
            self.sleep(self.alarm - cycles)

    def _resume(self, event: simpy.Event) -> None:
        if event.value == self.alarm:  # else it has been put forward
            self.alarm = None
            self.player.wake(self)
            self.player.advance()


@dataclass(slots=True, eq=False)
class Flags:
    """The flags of a cluster: when each was set that nobody has taken yet, and who waits for one.

    ``unordered`` are those that several pipes set, or one at different distances: what is set
    later may arrive earlier.
    """

    held: dict[int, list[float]]
    unordered: frozenset[int] = frozenset()
    waiters: dict[int, PipeState] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class GroupState:
    """One group of cores: its flags (those of the whole cluster), its pipes, its record."""

    group: CoreGroup
    flags: Flags
    record: CoreRecord
    pipes: list[PipeState] = field(default_factory=list)
    runs: dict[tuple[int, int], LoopRun] = field(default_factory=dict)
    users: dict[int, int] = field(default_factory=dict)


class Player:
    """Plays the programs of all groups of cores of one kernel.

    ``treated`` holds how memory treats each transfer, by the transfer's ``id``.
    """

    def __init__(
        self,
        groups: tuple[CoreGroup, ...],
        rates: MemoryRates,
        sync_cycles: float,
        treated: Mapping[int, Treatment],
        exact: bool = False,
    ) -> None:
        self.env = simpy.Environment()
        self.memory = MemorySystem(self.env, rates, self.advance)
        self.shift = 0.0  # cycles jumped over so far: the time is env.now + shift
        self._sync_cycles = sync_cycles
        self._treated = treated
        self._serial = count()
        self._ready: deque[PipeState] = deque()
        self._meeting: list[PipeState] = []
        clusters: dict[Hashable, Flags] = {}
        self.groups = [self._prepare(group, clusters) for group in groups]
        self.pipes = [state for group in self.groups for state in group.pipes]
        self.flags = list({id(group.flags): group.flags for group in self.groups}.values())
        for flags in self.flags:
            flags.unordered = _unordered(flags, self.pipes)
        self._steady = None if exact else SteadyState(self)

    @property
    def now(self) -> float:
        """Cycles since the start, jumps included."""
        return self.env.now + self.shift

    def play(self) -> None:
        """Run to the end; raises DeadlockError if a pipe waits for a flag that nobody sets."""
        self._ready.extend(self.pipes)
        self.advance()
        self.env.run()
        for state in self.pipes:
            if state.stage is not Stage.FINISHED:
                raise DeadlockError(core=state.group.group.blocks[0], pipe=str(state.pipe))
            state.group.record.busy[state.pipe] = state.busy

    def wake(self, state: PipeState) -> None:
        """``state`` can go on."""
        state.ready = True
        self._ready.append(state)

    def advance(self) -> None:
        """Let everybody work who can, then share out the bandwidth."""
        ready = self._ready
        while ready:
            state = ready.popleft()
            state.ready = False
            self._run(state)
        self.memory.settle()

    def _prepare(self, group: CoreGroup, clusters: dict[Hashable, Flags]) -> GroupState:
        program = group.program
        held = {flag: [0.0] * initial for flag, initial in enumerate(program.flags) if initial}
        flags = Flags(held)
        if group.cluster is not None:
            flags = clusters.setdefault(group.cluster, flags)
        state = GroupState(group, flags, CoreRecord(group.blocks, group.unit, program))
        for pipe in pipes_of(program):
            steps = flatten(project(program.body, pipe), program.delays)
            state.pipes.append(PipeState(pipe, state, self, steps))
            state.record.busy[pipe] = 0.0
            for step in steps:
                if step.kind is Kind.ENTER:
                    state.users[id(step.loop)] = state.users.get(id(step.loop), 0) + 1
        return state

    def _run(self, state: PipeState) -> None:
        """Carry out steps until the pipe has to wait for something."""
        steps = state.steps
        while True:
            step = steps[state.place]
            kind = step.kind
            if kind == 0:
                if not self._work(state, step):
                    return
                state.place += 1
            elif kind == 2:
                if not self._turn(state, step):
                    return
            elif kind == 1:
                self._enter(state, step)
            elif kind == 3:
                if not self._meet(state):
                    return
            else:
                state.stage = Stage.FINISHED
                return

    def _work(self, state: PipeState, step: Step) -> bool:
        """Wait for flags, be busy, move bytes, set flags; False if that isn't done yet."""
        if not state.stage:
            if step.waits and not self._take(state, step.waits):
                return False
            state.started = state.clock
            state.clock += step.cycles
            if step.transfer is not None:
                state.stage = Stage.BUSY_UNTIL
                if state.clock > self.env.now:
                    state.sleep(state.clock)
                    return False
        if state.stage == 1 and step.transfer is not None:
            self._move(state, step.transfer)
            return False
        state.stage = Stage.BEFORE
        end = state.clock
        if step.parts:
            record, shift = state.group.record, self.shift
            record.entries.append((state.pipe, step.parts, state.started + shift, end + shift))
            state.busy += end - state.started
            record.end = max(record.end, end + shift)
        if step.sets:
            self._set(state.group.flags, step.sets, end)
        return True

    def _take(self, state: PipeState, waits: tuple[int, ...]) -> bool:
        """Take the flags one after the other; False if one of them isn't set."""
        flags = state.group.flags
        held = flags.held
        for flag in waits[state.waited :]:
            times = held.get(flag)
            if times is None:
                flags.waiters[flag] = state
                return False
            if times[0] > state.clock:
                if flag in flags.unordered and times[0] > self.env.now:
                    state.sleep(times[0])
                    return False
                state.clock = times[0]
            if len(times) == 1:
                del held[flag]
            else:
                del times[0]
            state.waited += 1
        state.waited = 0
        return True

    def _set(self, flags: Flags, sets: tuple[tuple[int, float], ...], now: float) -> None:
        held, waiters = flags.held, flags.waiters
        for flag, delay in sets:
            times = held.get(flag)
            if times is None:
                held[flag] = [now + delay]
            elif flag in flags.unordered:
                insort(times, now + delay)
            else:
                times.append(now + delay)
            if flag in waiters:
                self.wake(waiters.pop(flag))

    def _move(self, state: PipeState, transfer: Transfer) -> None:
        """Begin a transfer."""
        treated = self._treated[id(transfer)]
        state.stage = Stage.MOVING
        state.flow = self.memory.add(
            transfer.traffic_bytes,
            state.group.group.size,
            transfer.ceiling,
            *treated,
            state,
            write=transfer.write,
        )

    def _enter(self, state: PipeState, step: Step) -> None:
        loop = step.loop
        state.place += 1
        if state.runs:
            table, key = state.runs[-1].inner, (id(loop), state.turns[-1])
        else:
            table, key = state.group.runs, (id(loop), 0)
        run = table.get(key)
        if run is None:
            users = state.group.users[id(loop)]
            run = table[key] = LoopRun(loop, next(self._serial), len(state.runs), users)
        run.members.append(state)
        state.runs.append(run)
        state.turns.append(0)

    def _turn(self, state: PipeState, step: Step) -> bool:
        """An iteration has ended; False if the pipe should let others catch up."""
        run = state.runs[-1]
        state.turns[-1] += 1
        if state.turns[-1] < run.loop.count:
            state.place = step.target
            if self._steady is not None:
                self._steady.iteration_ended(state, run)
            now = self.env.now
            if state.clock > now and (self._ready or state.clock > self.env.peek()):
                state.sleep(state.clock)
                return False
            return True
        state.place += 1
        state.runs.pop()
        state.turns.pop()
        run.members.remove(state)
        run.expected -= 1
        if run.expected == 0:
            if state.runs:
                del state.runs[-1].inner[id(run.loop), state.turns[-1]]
            else:
                del state.group.runs[id(run.loop), 0]
            if self._steady is not None:
                self._steady.forget(run)
        return True

    def _meet(self, state: PipeState) -> bool:
        if state.stage is Stage.MEETING:
            state.stage = Stage.BEFORE
            state.place += 1
            record = state.group.record
            # A kernel may end with a barrier.
            record.end = max(record.end, state.clock + self.shift)
            return True
        state.stage = Stage.MEETING
        self._meeting.append(state)
        if len(self._meeting) == len(self.pipes):
            together = max(each.clock for each in self._meeting) + self._sync_cycles
            for each in self._meeting:
                each.clock = together
                each.sleep(each.clock)
            self._meeting = []
        return False


def _unordered(flags: Flags, pipes: list[PipeState]) -> frozenset[int]:
    """The flags of a cluster that aren't set in the order in which they arrive."""
    first: dict[int, tuple[int, float]] = {}
    found = set()
    for state in pipes:
        if state.group.flags is flags:
            for step in state.steps:
                for flag, delay in step.sets:
                    setter = (id(state), delay)
                    if first.setdefault(flag, setter) != setter:
                        found.add(flag)
    return frozenset(found)
