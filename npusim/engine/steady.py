"""The steady state: all cores are back where they were a period ago, so jump ahead.

A checkpoint is taken whenever the last pipe of a loop finishes an iteration. It holds where every
pipe of every core is: step, loops, cycles until it is free, bytes left of its transfer, flags. When
a checkpoint equals an earlier one but for one loop per core, in which everybody has moved on alike,
everything that follows repeats until such a loop runs out, so whole periods are skipped by moving
the clock and the turns. Pipes that are busy all the while with something long don't hinder that, as
long as the jump ends before they do. Nothing else changes: the state landed on is the one that
playing reaches.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from npusim.engine.averages import Averages
from npusim.engine.checkpoints import TOLERANCE, Checkpoint, LongWaits, Step, go_on, step_of
from npusim.engine.closed_loops import ClosedLoops
from npusim.engine.paces import Paces
from npusim.engine.wandering import Wandering

if TYPE_CHECKING:
    import simpy

    from npusim.engine.sharing import SharedBandwidth
    from npusim.engine.state import GroupState, LoopRun, PipeState, State

_HISTORY = 6  # longest period looked for, in iterations
_ROUNDING = 1e-6  # of a period: what rounding of the clock explains
_PATIENCE = 12  # iterations played before a jump may be off by that part of its own cycles, too
_EAGER = 8  # iterations that are all looked at; then those that last as long as one before
SHORTEST = 4  # loops with fewer iterations left are simply played
_OFTEN = 48  # iterations after which only some in a row are looked at, now and then
_NOW_AND_THEN = 32
_SLOWER = 1.5  # times as long as those of another loop that iterations are of a slower one
_HOPELESS = 256  # iterations after which a loop that has not repeated is played to its end


class _Leader(NamedTuple):
    """The loop that looks where everybody is: when an iteration ended last, and how long it was."""

    serial: int
    time: float
    lasts: float


class SteadyState:
    """Watches the loops of all cores and jumps when they repeat."""

    def __init__(
        self, env: simpy.Environment, state: State, memory: SharedBandwidth[PipeState]
    ) -> None:
        self._env = env
        self._state = state
        self._memory = memory
        self._seen: dict[int, deque[Checkpoint]] = {}
        self._played: dict[int, int] = {}
        self._ends: dict[int, deque[float]] = {}
        self._leaders: dict[int, _Leader] = {}  # by the number of loops around
        self._given_up: list[LoopRun] = []
        self._met: dict[tuple[int, ...], Checkpoint] = {}  # by where every pipe was
        self._paces = Paces(state)
        self._wandering = Wandering(state)
        self._averages = Averages(env, state)
        self._closed = ClosedLoops(state)
        self._off = 0.0  # cycles that jumps may have been off by so far

    @property
    def jumped_cycles(self) -> float:
        """How many cycles were jumped over."""
        return self._state.shift + self._closed.jumped_cycles

    def iteration_ended(self, state: PipeState, run: LoopRun) -> list[PipeState]:
        """Called by every pipe after every iteration; acts for the pipe that is furthest behind.

        Returns the pipes whose alarm a jump has brought nearer.
        """
        if not _is_last(state, run):
            return []
        played = self._played[run.serial] = self._played.get(run.serial, 0) + 1
        if played <= _EAGER and self._closed.has(run):
            return self._closed.jump(state, run)
        if jump := self._averages.jump(state, run):
            self._jumped(jump.runs)
            return jump.waiting
        if played > _HOPELESS:
            return self._give_up(run)
        regular = self._regular(run)
        if not self._is_worth_a_look(played, regular=regular):
            return []
        if self._leads(run):
            checkpoint = self._checkpoint(state, self._state.groups)
            history = self._seen.setdefault(run.serial, deque(maxlen=_HISTORY))
            waiting = self._repeats(run, played, history, checkpoint)
            if waiting is not None:
                return waiting
            history.append(checkpoint)
        if regular and self._paces.has(state.group):
            own = self._checkpoint(state, [state.group])
            off = self._paces.jump(run, state.group, own, self._off)
            if off is not None:
                self._off += off
                self.forget_all()
        return []

    def met(self, pipe: PipeState) -> None:
        """Called where all have met at a barrier, ``pipe`` among them; jumps in a loop around it.

        All begin together behind it, so that a second turn is often as the first: short loops, too,
        needn't be played.
        """
        if not pipe.turns or pipe.turns[-1] >= _EAGER:
            return
        now = self._checkpoint(None, self._state.groups)
        place = tuple([state.place for state in now.pipes])
        earlier = self._met.get(place)
        self._met[place] = now
        if earlier is None or earlier.shape != now.shape:
            return
        waits = LongWaits(earlier, now)
        progress = self._progress(earlier, now) if waits.alike and not waits.pipes else None
        if progress and self._jump(earlier, now, progress, waits, patient=False):
            self._jumped([moved for moved, _ in progress])
            self._met.clear()

    def _leads(self, run: LoopRun) -> bool:
        """Whether it is for a loop to look where everybody is.

        What comes back does so after whole iterations of all loops of a level, so that one is
        enough: the slowest that goes on.
        """
        ends = self._ends[run.serial]
        lasts = ends[0] - ends[1] if len(ends) > 1 else 0.0
        leader = self._leaders.get(run.level)
        if leader is not None and leader.serial != run.serial:
            patience = 2 * max(leader.lasts, lasts)
            slower = 0.0 < _SLOWER * leader.lasts < lasts
            if not slower and (not patience or ends[0] - leader.time <= patience):
                return False
        self._leaders[run.level] = _Leader(run.serial, ends[0], lasts)
        return True

    def _repeats(
        self, run: LoopRun, played: int, history: Sequence[Checkpoint], now: Checkpoint
    ) -> list[PipeState] | None:
        """Jump if everybody is where they were before; None if there is no jump."""
        for earlier in reversed(history):
            if earlier.shape != now.shape:
                continue
            waits = LongWaits(earlier, now)
            possible = waits.alike or self._wandering.tied
            progress = self._progress(earlier, now) if possible else None
            if progress is None:
                continue
            if waits.alike:
                patient = played >= _PATIENCE
                if self._jump(earlier, now, progress, waits, patient):
                    self._jumped([moved for moved, _ in progress])
                    return waits.rescheduled(self._state)
            if self._wandering.jump(run.serial, played, earlier, now, progress):
                self._jumped([moved for moved, _ in progress])
                return []
        return None

    def _is_worth_a_look(self, played: int, *, regular: bool) -> bool:
        if played > _OFTEN and played % _NOW_AND_THEN > _HISTORY:
            return False
        return regular or played <= _EAGER or self._wandering.tied

    def _regular(self, run: LoopRun) -> bool:
        """Whether the last iteration took as long as one of those before it.

        Where everything repeats, it does; it is told without asking where everybody is.
        """
        now = self._env.now + self._state.shift
        ends = self._ends.get(run.serial)
        if ends is None:
            ends = self._ends[run.serial] = deque(maxlen=_HISTORY + 2)
        ends.appendleft(now)
        times = list(ends)
        for begun, ended in zip(times[2:], times[1:], strict=False):
            # both may be off by as much as states that are nearly alike
            if abs(now - times[1] - (ended - begun)) <= 2 * TOLERANCE * (now - ended):
                return True
        return False

    def _give_up(self, run: LoopRun) -> list[PipeState]:
        run.watched = False
        self._given_up.append(run)
        return []

    def left(self, run: LoopRun) -> None:
        """Called when a pipe, but not the last, has left ``run``: the others may repeat now."""
        if self._played.pop(run.serial, 0) > _HOPELESS:
            run.watched = True
            self._given_up.remove(run)

    def forget(self, run: LoopRun) -> None:
        """Called when the last pipe has left ``run``."""
        self._seen.pop(run.serial, None)
        self._played.pop(run.serial, None)
        self._ends.pop(run.serial, None)
        leader = self._leaders.get(run.level)
        if leader is not None and leader.serial == run.serial:
            del self._leaders[run.level]
        self._paces.left(run)
        self._closed.forget(run)
        self._averages.forget(run)
        run.watched = True

    def _jumped(self, runs: Sequence[LoopRun | None]) -> None:
        """Everybody is elsewhere: what was seen of these loops is over."""
        for run in runs:
            if run is not None:
                self.forget(run)
        self._paces.forget()
        self._wandering.forget()

    def forget_all(self) -> None:
        """Called when groups are put together or taken apart, or have jumped one by one."""
        self._seen.clear()
        self._played.clear()
        self._ends.clear()
        self._leaders.clear()
        self._met.clear()
        self._closed.forget_all()
        self._averages.forget_all()
        self._paces.forget()
        self._wandering.forget()
        for run in self._given_up:
            run.watched = True
        self._given_up.clear()

    def _checkpoint(self, mover: PipeState | None, groups: list[GroupState]) -> Checkpoint:
        """Where all pipes of some groups are, or of all."""
        if groups is self._state.groups:
            pipes, tables = self._state.pipes, self._state.flags
        else:
            pipes = [pipe for group in groups for pipe in group.pipes]
            tables = [group.flags for group in groups]
        now = self._env.now
        due = [state.clock if state.alarm is None else state.alarm for state in pipes]
        flows, everybody = self._memory.flows, len(self._state.pipes)  # brought up to now
        return Checkpoint(
            [
                (state is mover, state.place, state.stage, state.waited, state.ready)
                for state in pipes
            ],
            pipes,
            due,
            [time - now if time > now else 0.0 for time in due],
            [state.under_way(now) for state in pipes],
            {
                flow.owner: flow.remaining / (flow.rate or flow.claim.ceiling)
                for flow in flows
                if len(pipes) == everybody or flow.owner in pipes
            },
            [{flag: times[:] for flag, times in flags.held.items()} for flags in tables],
            [tuple(state.runs) for state in pipes],
            [tuple(state.turns) for state in pipes],
            now,
            now + self._state.shift,
            [len(group.record.entries) for group in groups],
            [state.busy for state in pipes],
        )

    def _progress(self, earlier: Checkpoint, now: Checkpoint) -> list[Step] | None:
        """What every group has done between two equal states; None if the states differ."""
        steps = [
            step_of(*each)
            for each in zip(earlier.runs, earlier.turns, now.runs, now.turns, strict=True)
        ]
        if None in steps:
            return None
        result: list[Step] = []
        first = 0
        for group in self._state.groups:
            last = first + len(group.pipes)
            moved = {step for step in steps[first:last] if step is not None and step[1]}
            if len(moved) > 1:
                return None
            progress: Step = moved.pop() if moved else (None, 0)
            # Whoever is in the loop has to have come along.
            for step, runs in zip(steps[first:last], now.runs[first:last], strict=True):
                if step != progress and progress[0] in runs:
                    return None
            result.append(progress)
            first = last
        return result

    def _jump(
        self,
        earlier: Checkpoint,
        now: Checkpoint,
        progress: list[Step],
        waits: LongWaits,
        patient: bool,
    ) -> bool:
        rooms = [
            (run.loop.count - 1 - max(member.turns[run.level] for member in run.members)) // step
            for run, step in progress
            if run is not None
        ]
        period = now.time - earlier.time
        if not rooms or period <= 0:
            return False
        afforded = self._afforded(waits.off, period, now.time, patient)
        periods = int(min(*rooms, waits.room / period, waits.stocked_periods, afforded))
        if periods < 1:
            return False
        self._off += periods * waits.off
        waits.shorten(self._state, periods * period)
        waits.use_up(self._state, periods)
        go_on(self._state, earlier, now, progress, periods, period)
        return True

    def _afforded(self, off: float, period: float, time: float, patient: bool) -> float:
        """How many periods may be jumped over that each may be ``off`` by some cycles."""
        if off <= _ROUNDING * period:
            return inf
        each = off - TOLERANCE * period if patient else off
        left = TOLERANCE * time - self._off
        return inf if each <= 0.0 <= left else left / max(each, _ROUNDING * period)


def _is_last(state: PipeState, run: LoopRun) -> bool:
    """Whether nobody in a loop is behind a pipe, and everybody has turns left to jump over."""
    level = run.level
    own, first = state.turns[level], run.loop.count - SHORTEST
    if own > first:
        return False
    for member in run.members:  # noqa: SIM110 - quicker
        if not own <= member.turns[level] <= first:
            return False
    return True
