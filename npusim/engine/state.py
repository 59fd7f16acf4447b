"""Where all pipes of all cores are. The player changes it; the steady state reads it and jumps.

There are two clocks. SimPy's says what the cores have in common: what they share is seen in its
order. A pipe's own ``clock`` runs ahead of it. SimPy's clock can't jump, so that what has been
jumped over is kept beside it, in ``shift``; the time since the start is their sum.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import count
from typing import TYPE_CHECKING

from npusim.engine.schedule import projected
from npusim.engine.streams import Kind, Step, flatten
from npusim.engine.timeline import CoreRecord

if TYPE_CHECKING:
    from npusim.engine.issue import IssueQueue
    from npusim.engine.machine import Treatment
    from npusim.engine.program import CoreGroup, Loop, Pipe, Transfer


class Stage(IntEnum):
    """How far a pipe is with the step it is at."""

    BEFORE = 0  # its flags aren't all taken yet
    BUSY_UNTIL = 1  # it has worked, and its transfer begins when the clock is there
    MOVING = 2  # its transfer is under way
    MOVED = 3  # its transfer has ended
    MEETING = 4  # it waits at a barrier
    FINISHED = 5


_AT_WORK = (Stage.BUSY_UNTIL, Stage.MOVING, Stage.MOVED)


@dataclass(slots=True, eq=False)
class LoopRun:
    """One execution of a loop by one group of cores.

    ``members`` are the pipes inside it, ``expected`` counts those that have not left it yet, and
    ``level`` tells how many loops are around it; one that isn't ``watched`` is simply played.
    """

    loop: Loop
    serial: int
    level: int
    expected: int
    members: list[PipeState] = field(default_factory=list)
    inner: dict[tuple[int, int], LoopRun] = field(default_factory=dict)
    watched: bool = True


@dataclass(slots=True, eq=False)
class PipeState:
    """Where one pipe is: its step, its loops with the turn of each, and when it is free."""

    pipe: Pipe
    group: GroupState
    steps: list[Step]
    place: int = 0
    origin: int = 0  # where it last started together with the pipes of other groups
    stage: Stage = Stage.BEFORE
    waited: int = 0  # flags of the step that are taken
    ready: bool = True  # not waiting for anything but its turn in the player's list
    clock: float = 0.0
    started: float = 0.0
    arrived: float = 0.0  # when all that it has moved is there
    busy: float = 0.0
    alarm: float | None = None  # when SimPy's clock will wake it
    runs: list[LoopRun] = field(default_factory=list)
    turns: list[int] = field(default_factory=list)
    _bodies: dict[int, tuple[int, int]] | None = None

    def body(self, loop: Loop) -> list[Step]:
        """The steps from the beginning of a loop to its end; none if it isn't in it."""
        if self._bodies is None:
            self._bodies = {
                id(step.loop): (step.target - 1, place + 1)
                for place, step in enumerate(self.steps)
                if step.kind is Kind.TURN
            }
        first, last = self._bodies.get(id(loop), (0, 0))
        return self.steps[first:last]

    def iteration(self, loop: Loop) -> list[tuple[Step, int]] | None:
        """The steps of one iteration of a loop, and how often each is done in it.

        None where a barrier or a loop of uneven length leaves that open.
        """
        counted: list[tuple[Step, int]] = []
        turns = [1]
        for step in self.body(loop):
            if step.kind in (Kind.MEET, Kind.PART, Kind.STOP):
                return None
            if step.loop is not loop and step.kind is Kind.ENTER:
                turns.append(turns[-1] * step.loop.count)
            elif step.loop is not loop and step.kind is Kind.TURN:
                turns.pop()
                if step.uneven:
                    return None
            counted.append((step, turns[-1]))
        return counted

    @property
    def due(self) -> float:
        """Until when nobody hears of it, unless a flag wakes it before."""
        return self.clock if self.alarm is None else self.alarm

    def under_way(self, now: float) -> float:
        """Cycles from its step, ``now`` at the soonest, until what it has moved arrives."""
        since = self.started
        if self.stage not in _AT_WORK:
            since = max(self.clock, now)
        return self.arrived - since if self.arrived > since else 0.0


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
    issue: IssueQueue | None = None  # where some work waits inside its pipe


class State:
    """All groups of cores of one kernel, their pipes and their flags, one table per cluster.

    ``shift`` are the cycles that were jumped over so far.
    """

    def __init__(
        self, groups: tuple[CoreGroup, ...], treated: Mapping[Transfer, Treatment]
    ) -> None:
        clusters: dict[Hashable, Flags] = {}
        self.groups = [_prepared(group, clusters, treated) for group in groups]
        self.everybody = self.groups[:]  # and those that have stood for some of them
        self.pipes = [state for group in self.groups for state in group.pipes]
        self.flags = list({id(group.flags): group.flags for group in self.groups}.values())
        for flags in self.flags:
            flags.unordered = _unordered(flags, self.pipes)
        self.shift = 0.0
        self.serials = count()  # of runs of loops

    def fall_apart(self) -> None:
        """Nobody plays any more: groups, pipes and loops forget each other."""
        for group in self.everybody:
            for state in group.pipes:
                state.runs.clear()
            group.pipes.clear()
            group.runs.clear()
            group.flags.waiters.clear()


def _prepared(
    group: CoreGroup, clusters: dict[Hashable, Flags], treated: Mapping[Transfer, Treatment]
) -> GroupState:
    program = group.program
    held = {flag: [0.0] * initial for flag, initial in enumerate(program.flags) if initial}
    held |= {flag: list(times) for flag, times in program.starts.items()}
    flags = Flags(held)
    if group.cluster is not None:
        flags = clusters.setdefault(group.cluster, flags)
    state = GroupState(group, flags, CoreRecord(group.blocks, group.unit, program))
    for pipe, nodes in projected(program).items():
        steps = flatten(nodes, program.delays, group.size, treated)
        state.pipes.append(PipeState(pipe, state, steps))
        state.record.busy[pipe] = 0.0
        for step in steps:
            if step.kind is Kind.ENTER:
                state.users[id(step.loop)] = state.users.get(id(step.loop), 0) + 1
    return state


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
