"""The reference: SimPy plays the programs of all cores, event by event.

Every pipe walks through its list of steps. It waits for flags, is busy, moves bytes through
bandwidth that all cores share, and sets flags. A pipe's own clock runs ahead of SimPy's; only
transfers and barriers bring the two together. The compiled player (`compiled/player.c`) is the same
machine.
"""

from __future__ import annotations

from array import array
from bisect import insort
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING

from npusim.engine.clock import Alarm, Clock
from npusim.engine.issue import IssueQueue
from npusim.engine.schedule import Kind
from npusim.engine.sharing import SharedBandwidth
from npusim.engine.state import Flags, GroupState, PipeState, Stage, State
from npusim.engine.timeline import Chunks, GroupPlayed, Played
from npusim.values.errors import DeadlockError

if TYPE_CHECKING:
    from npusim.engine.claims import Claim
    from npusim.engine.machine import Machine, Treatment
    from npusim.engine.program import CoreGroup, Transfer
    from npusim.engine.streams import TimedStep

_WORK, _ENTER, _TURN, _MEET, _STOP = Kind
_BEFORE, _BUSY_UNTIL = Stage.BEFORE, Stage.BUSY_UNTIL
_MOVING, _MOVED = Stage.MOVING, Stage.MOVED
_SHORTEST = 4  # loops with fewer iterations left aren't held up


def play(
    groups: tuple[CoreGroup, ...], machine: Machine, treated: Mapping[Transfer, Treatment]
) -> Played:
    """Play the programs of all cores."""
    player = Player(groups, machine, treated)
    try:
        player.play()
        return Played(tuple([_played(group) for group in player.state.groups]))
    finally:
        player.fall_apart()


def replay(
    groups: tuple[CoreGroup, ...],
    machine: Machine,
    treated: Mapping[Transfer, Treatment],
    index: int,
) -> Chunks:
    """Play a kernel once more, for what its group number ``index`` does one by one."""
    player = Player(groups, machine, treated)
    entries = player.state.groups[index].entries = []
    try:
        player.play()
    finally:
        player.fall_apart()
    yield entries


def _played(group: GroupState) -> GroupPlayed:
    return GroupPlayed(
        group.end,
        {state.pipe: state.busy for state in group.pipes},
        array("q", [times for state in group.pipes for times in state.times]),
        array("d", [cycles for state in group.pipes for cycles in state.cycles]),
    )


class Player:
    """Plays the programs of all groups of cores of one kernel.

    ``treated`` says how memory treats each transfer.
    """

    def __init__(
        self,
        groups: tuple[CoreGroup, ...],
        machine: Machine,
        treated: Mapping[Transfer, Treatment],
    ) -> None:
        self.env = Clock()
        self.state = State(groups, treated)
        for group in self.state.groups:
            if any(step.unit_flag for pipe in group.pipes for step in pipe.steps):
                group.issue = IssueQueue(machine.issue_queue)
        self.memory: SharedBandwidth[PipeState] = SharedBandwidth(
            self.env, machine.rates.bandwidths, self._moved
        )
        self._sync_cycles = machine.sync_cycles
        self._ready: deque[PipeState] = deque()
        self._meeting: list[PipeState] = []

    def play(self) -> None:
        """Run to the end; raises DeadlockError if a pipe waits for a flag that nobody sets."""
        self._ready.extend(self.state.pipes)
        self._advance()
        self.env.run_out()
        waiting = [state for state in self.state.pipes if state.stage is not Stage.FINISHED]
        if waiting:
            raise _deadlock(waiting)

    def fall_apart(self) -> None:
        """Let go of everything: its parts know each other, and Python would have to search them."""
        self.state.fall_apart()
        vars(self).clear()

    def _wake(self, state: PipeState) -> None:
        self._ready.append(state)

    def _sleep(self, state: PipeState, until: float) -> None:
        """``state`` goes on at ``until``, whatever was said before."""
        state.alarm = until
        Alarm(self.env, max(0.0, until - self.env.now), self._resume, (state, until))

    def _resume(self, alarm: Alarm) -> None:
        state, until = alarm.about
        if state.alarm == until:  # else it wakes at another time
            state.alarm = None
            self._run(state)
            self._advance()

    def _moved(self, ended: list[PipeState]) -> None:
        """The last bytes of these pipes' transfers have been moved."""
        for state in ended:
            state.clock = self.env.now
            state.stage = _MOVED
            self._wake(state)
        self._advance()

    def _advance(self) -> None:
        """Let everybody work who can, then share out the bandwidth."""
        ready = self._ready
        while ready:
            state = ready.popleft()
            self._run(state)
        self.memory.settle()

    def _run(self, state: PipeState) -> None:
        """Carry out steps until the pipe has to wait for something."""
        steps = state.steps
        while True:
            step = steps[state.place]
            kind = step.kind
            if kind is _WORK:
                if not self._work(state, step):
                    return
                state.place += 1
            elif kind is _TURN:
                if not self._turn(state, step):
                    return
            elif kind is _ENTER:
                state.turns.append(0)
                state.place += 1
            elif kind is _MEET:
                if not self._meet(state):
                    return
            else:
                state.stage = Stage.FINISHED
                return

    def _work(self, state: PipeState, step: TimedStep) -> bool:
        """Wait for flags, be busy, move bytes, set flags; False if that isn't done yet."""
        if step.claim is None:
            if step.waits and not self._take(state, step.waits):
                return False
            started = state.clock
            state.clock += _cycles(state, step)
        elif self._moves(state, step, step.claim):
            started = state.started
        else:
            return False
        end = state.clock
        if step.parts:
            group = state.group
            state.times[state.place] += 1
            state.cycles[state.place] += end - started
            if group.entries is not None:
                group.entries.append((group.pipes.index(state), state.place, started, end))
            arrived, before = end + step.latency, state.arrived
            if (issue := group.issue) is not None:
                started = issue.begun(state.pipe, step, started)
            busy = arrived - (started if started > before else before)  # noqa: FURB136 - quicker
            if busy > 0.0:
                state.busy += busy
            if arrived > before:
                state.arrived = arrived
            if arrived > group.end:  # noqa: PLR1730 - quicker
                group.end = arrived
        elif state.arrived > end:  # what it moved before has ended when it is there
            end = state.arrived
        if step.sets:
            self._set(state.group.flags, step.sets, end)
        return True

    def _moves(self, state: PipeState, step: TimedStep, claim: Claim) -> bool:
        """Do work that ends with a transfer in the shared bandwidth; True once it has ended."""
        stage = state.stage
        if stage is _MOVED:
            state.stage = _BEFORE
            return True
        if stage is _BEFORE:
            if step.waits and not self._take(state, step.waits):
                return False
            state.started = state.clock
            state.clock += _cycles(state, step)
            if state.clock > self.env.now:
                state.stage = _BUSY_UNTIL
                self._sleep(state, state.clock)
                return False
        state.stage = _MOVING
        self.memory.add(step.bus_bytes, claim, state)
        return False

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
                    self._sleep(state, times[0])
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
                self._wake(waiters.pop(flag))

    def _turn(self, state: PipeState, step: TimedStep) -> bool:
        """An iteration has ended; False if the pipe should let others catch up."""
        state.turns[-1] += 1
        left = step.iterations - state.turns[-1]
        if left > 0:
            state.place = step.target
            return left < _SHORTEST or not self._lets_catch_up(state)
        state.place += 1
        state.turns.pop()
        return True

    def _lets_catch_up(self, state: PipeState) -> bool:
        """Sleep if something happens before the pipe's own clock; else SimPy's goes along with it.

        Nobody runs away: what is set ahead would have to be kept.
        """
        if state.clock <= self.env.now:
            return False
        if self._ready or state.clock > self.env.peek():
            self._sleep(state, state.clock)
            return True
        if self.memory.settled:
            self.env.go_to(state.clock)
        return False

    def _meet(self, state: PipeState) -> bool:
        if state.stage is Stage.MEETING:
            state.stage = Stage.BEFORE
            state.place += 1
            # A kernel may end with a barrier.
            state.group.end = max(state.group.end, state.clock)
            return True
        state.stage = Stage.MEETING
        self._meeting.append(state)
        if len(self._meeting) == len(self.state.pipes):
            together = max(each.clock for each in self._meeting) + self._sync_cycles
            for each in self._meeting:
                each.clock = together
                self._sleep(each, together)
            self._meeting = []
        return False


def _cycles(state: PipeState, step: TimedStep) -> float:
    """What a step is busy for, the first time or any other."""
    first = step.first_cycles and not state.times[state.place]
    return step.cycles + step.first_cycles if first else step.cycles


def _deadlock(waiting: list[PipeState]) -> DeadlockError:
    """The error for pipes that wait for ever, with the flag and the line of each."""
    first = waiting[0]
    return DeadlockError(
        core=first.group.group.blocks[0],
        pipe=str(first.pipe),
        kernel=first.group.group.program.kernel,
        waits=list(dict.fromkeys(_wait(state) for state in waiting)),
    )


def _wait(state: PipeState) -> str:
    """What a pipe waits for: ``MTE2 of core 0 waits for a free tile of queue x, add.py:12``."""
    group, program = state.group.group, state.group.group.program
    who = f"{state.pipe} of core {group.blocks[0]}"
    if state.stage is Stage.MEETING:
        return f"{who} waits for all cores (sync_all)"
    flag = state.steps[state.place].waits[state.waited]
    sites = (
        instruction.site
        for instruction, _ in program.instructions()
        if instruction.pipe is state.pipe and flag in instruction.waits and instruction.site
    )
    line = next(sites, "")
    return f"{who} waits for {program.names.get(flag, f'flag {flag}')}" + (line and f", {line}")
