"""The pipes of all cores at work: a recurrence inside a core, SimPy where cores meet.

Flags carry the time at which they were set. A pipe therefore works ahead on a clock of its own: it
starts when it is free and its flags are set, and ends a known number of cycles later. Only what
cores share, the bandwidth of global memory and barriers, has to be seen in the order of time; that
is what SimPy's clock is for. A pipe that wants to begin a transfer waits until the clock is there,
and one that ends an iteration of a loop until nothing else happens before.

All state lives in :mod:`npusim.engine.state`, so that :mod:`npusim.engine.steady` can recognise a
repeating state and jump over the repetitions.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from npusim.engine.clock import Alarm, Clock
from npusim.engine.contention import settle_uncontended
from npusim.engine.free_loops import FreeLoops
from npusim.engine.issue import IssueQueue
from npusim.engine.lockstep import Lockstep, Replaced
from npusim.engine.sharing import SharedBandwidth
from npusim.engine.state import Flags, LoopRun, PipeState, Stage, State
from npusim.engine.steady import SHORTEST, SteadyState
from npusim.engine.streams import Kind, Step
from npusim.values.errors import DeadlockError

if TYPE_CHECKING:
    from npusim.engine.machine import Machine, Treatment
    from npusim.engine.program import CoreGroup, Transfer
    from npusim.engine.sharing import Claim
    from npusim.engine.timeline import CoreRecord

_WORK, _ENTER, _TURN, _MEET, _STOP, _PART = Kind
_BEFORE, _BUSY_UNTIL = Stage.BEFORE, Stage.BUSY_UNTIL
_MOVING, _MOVED = Stage.MOVING, Stage.MOVED


class Played(NamedTuple):
    """The last cycle, what every group of cores did, and the cycles that were jumped over.

    The records may be shared with others: they are only to be read.
    """

    end: float
    records: tuple[CoreRecord, ...]
    jumped_cycles: float


def play(
    groups: tuple[CoreGroup, ...],
    machine: Machine,
    treated: Mapping[Transfer, Treatment],
    *,
    exact: bool,
) -> Played:
    """Play the programs of all cores."""
    player = Player(groups, machine, treated, exact=exact)
    try:
        player.play()
        records = tuple(group.record for group in player.state.groups)
        end = max((record.end for record in records), default=0.0)
        return Played(end, records, player.jumped_cycles)
    finally:
        player.fall_apart()


class Player:
    """Plays the programs of all groups of cores of one kernel.

    ``treated`` says how memory treats each transfer.
    """

    def __init__(
        self,
        groups: tuple[CoreGroup, ...],
        machine: Machine,
        treated: Mapping[Transfer, Treatment],
        *,
        exact: bool = False,
    ) -> None:
        self.env = Clock()
        self.state = State(groups, treated)
        for group in self.state.groups:
            if any(step.unit_flag for pipe in group.pipes for step in pipe.steps):
                group.issue = IssueQueue(machine.issue_queue)
        settle_uncontended(self.state.pipes, machine.rates.bandwidths)
        self.memory: SharedBandwidth[PipeState] = SharedBandwidth(
            self.env, machine.rates.bandwidths, self._moved
        )
        self._sync_cycles = machine.sync_cycles
        self._ready: deque[PipeState] = deque()
        self._meeting: list[PipeState] = []
        self._begun = False  # whether somebody has gone on behind the barrier
        self._steady = None if exact else SteadyState(self.env, self.state, self.memory)
        self._free = None if exact else FreeLoops()
        self._lockstep = Lockstep(self.state, self._replace)
        self._exact = exact

    @property
    def jumped_cycles(self) -> float:
        """How many cycles weren't played."""
        watchers = (self._steady, self._free)
        return max(0.0 if each is None else each.jumped_cycles for each in watchers)

    def play(self) -> None:
        """Run to the end; raises DeadlockError if a pipe waits for a flag that nobody sets."""
        if not self._exact:
            self._lockstep.join()
        self._ready.extend(self.state.pipes)
        self._advance()
        self.env.run_out()
        waiting = [state for state in self.state.pipes if state.stage is not Stage.FINISHED]
        if waiting:
            raise _deadlock(waiting)
        self._lockstep.end()
        for state in self.state.pipes:
            state.group.record.busy[state.pipe] = state.busy

    def fall_apart(self) -> None:
        """Let go of everything: its parts know each other, and Python would have to search them."""
        self.state.fall_apart()
        vars(self).clear()

    def _wake(self, state: PipeState) -> None:
        state.ready = True
        self._ready.append(state)

    def _sleep(self, state: PipeState, until: float) -> None:
        """``state`` goes on at ``until``, whatever was said before."""
        state.alarm = until
        Alarm(self.env, max(0.0, until - self.env.now), self._resume, (state, until))

    def _resume(self, alarm: Alarm) -> None:
        state, until = alarm.about
        if state.alarm == until:  # else it wakes at another time
            state.alarm = None
            state.ready = False
            self._run(state)
            self._advance()

    def _replace(self, pipes: Replaced) -> None:
        """Go on with other pipes in the place of some."""
        for listed in (self._ready, self._meeting):
            now = [new for old in listed for new in pipes.get(old, (old,))]
            listed.clear()
            listed.extend(now)
        self.memory.replace(
            {
                old: [(new, claim) for new in stand if (claim := new.steps[new.place].claim)]
                for old, stand in pipes.items()
                if old.stage is Stage.MOVING
            }
        )
        for old, stand in pipes.items():
            for new in stand:
                if old.alarm is not None:
                    self._sleep(new, old.alarm)
            old.alarm = None
        if self._steady is not None:
            self._steady.forget_all()
        if self._free is not None:
            self._free.forget()

    def _part(self, state: PipeState) -> None:
        """Go on by themselves, those for whom ``state`` stood."""
        self._wake(state)
        self._lockstep.part(state)

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
            state.ready = False
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
                self._enter(state, step)
            elif kind is _MEET:
                if not self._meet(state):
                    return
            elif kind is _PART:
                self._part(state)
                return
            else:
                state.stage = Stage.FINISHED
                return

    def _work(self, state: PipeState, step: Step) -> bool:
        """Wait for flags, be busy, move bytes, set flags; False if that isn't done yet."""
        if step.claim is None:
            if step.waits and not self._take(state, step.waits):
                return False
            started = state.clock
            state.clock += step.cycles
        elif self._moves(state, step, step.claim):
            started = state.started
        else:
            return False
        end = state.clock
        if step.parts:
            record, shift = state.group.record, self.state.shift
            record.entries.append((state.pipe, step.parts, started + shift, end + shift))
            arrived, before = end + step.latency, state.arrived
            if (issue := state.group.issue) is not None:
                started = issue.begun(state.pipe, step, started)
            busy = arrived - (started if started > before else before)  # noqa: FURB136 - quicker
            if busy > 0.0:
                state.busy += busy
            if arrived > before:
                state.arrived = arrived
            if arrived + shift > record.end:  # noqa: PLR1730 - quicker
                record.end = arrived + shift
        if step.sets:
            self._set(state.group.flags, step.sets, end)
        return True

    def _moves(self, state: PipeState, step: Step, claim: Claim) -> bool:
        """Do work that ends with a transfer in the shared bandwidth; True once it has ended."""
        stage = state.stage
        if stage is _MOVED:
            state.stage = _BEFORE
            return True
        if stage is _BEFORE:
            if step.waits and not self._take(state, step.waits):
                return False
            state.started = state.clock
            state.clock += step.cycles
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
            run = table[key] = LoopRun(loop, next(self.state.serials), len(state.runs), users)
        run.members.append(state)
        state.runs.append(run)
        state.turns.append(0)

    def _turn(self, state: PipeState, step: Step) -> bool:
        """An iteration has ended; False if the pipe should let others catch up."""
        run, turns = state.runs[-1], state.turns
        count = run.loop.count
        turns[-1] += 1
        if turns[-1] < count:
            state.place = step.target
            if count - turns[-1] < SHORTEST:
                return True  # few turns are just played
            if self._free is not None and self._free.passes(state, run):
                return True
            if self._steady is not None and run.watched:
                for waiting in self._steady.iteration_ended(state, run):
                    self._sleep(waiting, waiting.due)
            return not self._lets_catch_up(state)
        if step.uneven:
            state.turns[-1] -= 1
            self._part(state)
            return False
        state.place += 1
        state.runs.pop()
        state.turns.pop()
        run.members.remove(state)
        run.expected -= 1
        if self._free is not None:
            self._free.left(state, run)
        if run.expected == 0:
            if state.runs:
                del state.runs[-1].inner[id(run.loop), state.turns[-1]]
            else:
                del state.group.runs[id(run.loop), 0]
            if self._steady is not None:
                self._steady.forget(run)
        elif self._steady is not None:
            self._steady.left(run)
        return True

    def _lets_catch_up(self, state: PipeState) -> bool:
        """Sleep if something happens before the pipe's own clock; else SimPy's goes along with it.

        A loop repeats where both do.
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
            if self._steady is not None and not self._begun:
                self._begun = True
                self._steady.met(state)
            state.stage = Stage.BEFORE
            state.place += 1
            record = state.group.record
            # A kernel may end with a barrier.
            record.end = max(record.end, state.clock + self.state.shift)
            return True
        state.stage = Stage.MEETING
        self._meeting.append(state)
        if len(self._meeting) == len(self.state.pipes):
            together = max(each.clock for each in self._meeting) + self._sync_cycles
            for each in self._meeting:
                each.clock = together
            if not self._exact:
                self._lockstep.join()
            for each in self._meeting:
                self._sleep(each, together)
            self._meeting, self._begun = [], False
        return False


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
