"""Where all pipes of all cores are while they are played.

There are two clocks. SimPy's says what the cores have in common: what they share is seen in its
order. A pipe's own ``clock`` runs ahead of it.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING

from npusim.engine.schedule import projected
from npusim.engine.streams import TimedStep, timed, unordered

if TYPE_CHECKING:
    from npusim.engine.issue import IssueQueue
    from npusim.engine.machine import Treatment
    from npusim.engine.program import CoreGroup, Pipe, Transfer


class Stage(IntEnum):
    """How far a pipe is with the step it is at."""

    BEFORE = 0  # its flags aren't all taken yet
    BUSY_UNTIL = 1  # it has worked, and its transfer begins when the clock is there
    MOVING = 2  # its transfer is under way
    MOVED = 3  # its transfer has ended
    MEETING = 4  # it waits at a barrier
    FINISHED = 5


@dataclass(slots=True, eq=False)
class PipeState:
    """Where one pipe is: its step, the turns of the loops around it, and when it is free."""

    pipe: Pipe
    group: GroupState
    steps: list[TimedStep]
    place: int = 0
    stage: Stage = Stage.BEFORE
    waited: int = 0  # flags of the step that are taken
    clock: float = 0.0
    started: float = 0.0
    arrived: float = 0.0  # when all that it has moved is there
    busy: float = 0.0
    alarm: float | None = None  # when SimPy's clock will wake it
    turns: list[int] = field(default_factory=list)
    times: list[int] = field(default_factory=list)  # that each step was done
    cycles: list[float] = field(default_factory=list)  # that it took in all


@dataclass(slots=True, eq=False)
class Flags:
    """The flags of a cluster: when each was set that nobody has taken yet, and who waits for one.

    ``unordered`` are those of which one that is set later may arrive earlier.
    """

    held: dict[int, list[float]]
    unordered: frozenset[int] = frozenset()
    waiters: dict[int, PipeState] = field(default_factory=dict)

    @staticmethod
    def at_launch(group: CoreGroup) -> Flags:
        """Those that are set before the first core begins, or by the launch."""
        program = group.program
        held = {flag: [0.0] * initial for flag, initial in enumerate(program.flags) if initial}
        return Flags(held | {flag: list(times) for flag, times in program.starts.items()})


@dataclass(slots=True, eq=False)
class GroupState:
    """One group of cores: its flags (those of the whole cluster) and its pipes.

    ``entries`` are what they have done, where somebody wants to know; ``issue`` is where some work
    waits inside its pipe; ``end`` is when the last of it was done.
    """

    group: CoreGroup
    flags: Flags
    pipes: list[PipeState] = field(default_factory=list)
    entries: list[tuple[int, int, float, float]] | None = None
    issue: IssueQueue | None = None
    end: float = 0.0


class State:
    """All groups of cores of one kernel, their pipes and their flags, one table per cluster."""

    def __init__(
        self, groups: tuple[CoreGroup, ...], treated: Mapping[Transfer, Treatment]
    ) -> None:
        clusters: dict[Hashable, Flags] = {}
        self.groups = [_prepared(group, clusters, treated) for group in groups]
        self.pipes = [state for group in self.groups for state in group.pipes]
        for flags in {id(group.flags): group.flags for group in self.groups}.values():
            flags.unordered = unordered(
                (flag, (id(state), delay))
                for state in self.pipes
                if state.group.flags is flags
                for step in state.steps
                for flag, delay in step.sets
            )

    def fall_apart(self) -> None:
        """Nobody plays any more: groups and pipes forget each other."""
        for group in self.groups:
            group.pipes.clear()
            group.flags.waiters.clear()


def _prepared(
    group: CoreGroup, clusters: dict[Hashable, Flags], treated: Mapping[Transfer, Treatment]
) -> GroupState:
    program = group.program
    flags = Flags.at_launch(group)
    if group.cluster is not None:
        flags = clusters.setdefault(group.cluster, flags)
    state = GroupState(group, flags)
    for pipe, told in projected(program).items():
        steps = timed(told, program.delays, group.size, treated)
        none = [0] * len(steps)
        state.pipes.append(PipeState(pipe, state, steps, times=none, cycles=[0.0] * len(steps)))
    return state
