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
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

from npusim.engine.timeline import Fold

if TYPE_CHECKING:
    import simpy

    from npusim.engine.sharing import SharedBandwidth
    from npusim.engine.state import LoopRun, PipeState, State

_HISTORY = 6  # longest period looked for, in iterations
_ROUNDING = 1e-6  # of a period: what rounding of the clock explains
_TOLERANCE = 2e-5  # of a period, for near-repetition, and of all cycles, for what jumps are off by
_PATIENCE = 24  # iterations played before a jump may be off by that part of its own cycles, too
_SHORTEST = 4  # loops with fewer iterations left are simply played
_HOPELESS = 256  # iterations after which a loop that has not repeated is played to its end

# The loop that has moved on and by how many iterations; None and 0 where none has.
_Step = tuple["LoopRun | None", int]


@dataclass(frozen=True, slots=True)
class _Checkpoint:
    """Where everybody is.

    ``shape`` comes back with a state, and so do the other times once ``now`` is taken off them;
    ``runs`` and ``turns`` tell what has moved on.
    """

    shape: tuple[object, ...]
    due: list[float]
    remaining: list[float]
    flags: list[dict[int, list[float]]]
    runs: list[tuple[LoopRun, ...]]
    turns: list[tuple[int, ...]]
    now: float
    time: float
    entries: list[int]
    busy: list[float]


class SteadyState:
    """Watches the loops of all cores and jumps when they repeat."""

    def __init__(
        self, env: simpy.Environment, state: State, memory: SharedBandwidth[PipeState]
    ) -> None:
        self._env = env
        self._state = state
        self._memory = memory
        self._seen: dict[int, deque[_Checkpoint]] = {}
        self._played: dict[int, int] = {}
        self._off = 0.0  # cycles that jumps may have been off by so far

    def iteration_ended(self, state: PipeState, run: LoopRun) -> list[PipeState]:
        """Called by every pipe after every iteration; acts for the pipe that is furthest behind.

        Returns the pipes whose alarm a jump has brought nearer.
        """
        level = run.level
        turns = [member.turns[level] for member in run.members]
        if run.loop.count - max(turns) < _SHORTEST or state.turns[level] != min(turns):
            return []
        played = self._played[run.serial] = self._played.get(run.serial, 0) + 1
        if played > _HOPELESS:
            return []
        checkpoint = self._checkpoint(state)
        history = self._seen.setdefault(run.serial, deque(maxlen=_HISTORY))
        for earlier in reversed(history):
            if earlier.shape != checkpoint.shape:
                continue
            waits = _LongWaits(earlier, checkpoint)
            if not waits.alike:
                continue
            progress = self._progress(earlier, checkpoint)
            patient = played >= _PATIENCE
            if progress is not None and self._jump(earlier, checkpoint, progress, waits, patient):
                for moved, _ in progress:
                    if moved is not None:
                        self.forget(moved)
                return waits.rescheduled(self._state)
        history.append(checkpoint)
        return []

    def forget(self, run: LoopRun) -> None:
        """Called when the last pipe has left ``run``."""
        self._seen.pop(run.serial, None)
        self._played.pop(run.serial, None)

    def forget_all(self) -> None:
        """Called when groups of cores are put together or taken apart."""
        self._seen.clear()
        self._played.clear()

    def _checkpoint(self, mover: PipeState) -> _Checkpoint:
        pipes = self._state.pipes
        flows = self._memory.flows  # brought up to now
        shape = (
            id(mover),
            len(flows),
            [state.place for state in pipes],
            [state.stage for state in pipes],
            [state.waited for state in pipes],
            [state.ready for state in pipes],
        )
        return _Checkpoint(
            shape,
            [state.due for state in pipes],
            [flow.remaining / (flow.rate or flow.claim.ceiling) for flow in flows],
            [{flag: times[:] for flag, times in flags.held.items()} for flags in self._state.flags],
            [tuple(state.runs) for state in pipes],
            [tuple(state.turns) for state in pipes],
            self._env.now,
            self._env.now + self._state.shift,
            [len(group.record.entries) for group in self._state.groups],
            [state.busy for state in pipes],
        )

    def _progress(self, earlier: _Checkpoint, now: _Checkpoint) -> list[_Step] | None:
        """What every group has done between two equal states; None if the states differ."""
        steps = [
            _step(*each)
            for each in zip(earlier.runs, earlier.turns, now.runs, now.turns, strict=True)
        ]
        if None in steps:
            return None
        result: list[_Step] = []
        first = 0
        for group in self._state.groups:
            last = first + len(group.pipes)
            moved = {step for step in steps[first:last] if step is not None and step[1]}
            if len(moved) > 1:
                return None
            progress: _Step = moved.pop() if moved else (None, 0)
            # Whoever is in the loop has to have come along.
            for step, runs in zip(steps[first:last], now.runs[first:last], strict=True):
                if step != progress and progress[0] in runs:
                    return None
            result.append(progress)
            first = last
        return result

    def _jump(
        self,
        earlier: _Checkpoint,
        now: _Checkpoint,
        progress: list[_Step],
        waits: _LongWaits,
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
        self._state.shift += periods * period
        waits.shorten(self._state, periods * period)
        waits.use_up(self._state, periods)
        for state, before, after in zip(self._state.pipes, earlier.busy, now.busy, strict=True):
            state.busy += periods * (after - before)
        for group, (run, step), before, after in zip(
            self._state.groups, progress, earlier.entries, now.entries, strict=True
        ):
            if run is not None:
                _advance(run, periods * step)
            group.record.folds.append(Fold(before, after, periods, period))
        return True


    def _afforded(self, off: float, period: float, time: float, patient: bool) -> float:
        """How many periods may be jumped over that each may be ``off`` by some cycles."""
        if off <= _ROUNDING * period:
            return inf
        each = off - _TOLERANCE * period if patient else off
        left = _TOLERANCE * time - self._off
        return inf if each <= 0.0 <= left else left / max(each, _ROUNDING * period)


class _LongWaits:
    """Who waits from one checkpoint to the next and wakes at ``room`` cycles from now or later.

    ``alike`` tells whether all others are nearly where they were, ``off`` by how many cycles: what
    is due is as good as what has long been due. A pipe that ran ahead and has left the
    loop leaves a stock of flags, of which every period takes some: it lasts ``stocked_periods``.
    """

    def __init__(self, earlier: _Checkpoint, now: _Checkpoint) -> None:
        self.off = 0.0
        self.room = self.stocked_periods = inf
        self.stocks: list[tuple[int, int, int]] = []  # cluster, flag, how many a period takes
        self.pipes: list[int] = []
        self.flags: list[tuple[int, int, int]] = []  # cluster, flag, place in its list
        self._start, self._end = earlier.now, now.now
        self._period = now.time - earlier.time
        self._slack = _TOLERANCE * self._period
        self.alike = self._compare(earlier, now)

    def shorten(self, state: State, cycles: float) -> None:
        """Everybody else has jumped ``cycles`` ahead: what is waited for is that much nearer."""
        for index in self.pipes:
            pipe = state.pipes[index]
            pipe.clock -= cycles
            pipe.started -= cycles
            if pipe.alarm is not None:
                pipe.alarm -= cycles
        for cluster, flag, place in self.flags:
            state.flags[cluster].held[flag][place] -= cycles

    def use_up(self, state: State, periods: int) -> None:
        """Take from the stocks of flags what the periods jumped over take."""
        for cluster, flag, taken in self.stocks:
            held = state.flags[cluster].held
            del held[flag][: periods * taken]
            if not held[flag]:
                del held[flag]

    def rescheduled(self, state: State) -> list[PipeState]:
        """The waiting pipes whose alarm is nearer now."""
        return [state.pipes[index] for index in self.pipes if state.pipes[index].alarm is not None]

    def _compare(self, earlier: _Checkpoint, now: _Checkpoint) -> bool:
        for a, b in zip(earlier.remaining, now.remaining, strict=True):
            if not self._is_near(a - b):
                return False
        for index, (a, b) in enumerate(zip(earlier.due, now.due, strict=True)):
            if not self._is_near(max(a - self._start, 0.0) - max(b - self._end, 0.0)):
                if not self._still_waits(a, b):
                    return False
                self.pipes.append(index)
        pairs = zip(earlier.flags, now.flags, strict=True)
        return all(self._compare_flags(index, *pair) for index, pair in enumerate(pairs))

    def _compare_flags(
        self, cluster: int, earlier: dict[int, list[float]], now: dict[int, list[float]]
    ) -> bool:
        if earlier.keys() != now.keys():
            return False
        for flag, times in earlier.items():
            taken = len(times) - len(now[flag])
            if taken > 0 and max(times) <= self._start:  # all of them set long ago
                self.stocks.append((cluster, flag, taken))
                self.stocked_periods = min(self.stocked_periods, len(now[flag]) // taken)
                continue
            if taken:
                return False
            for place, (a, b) in enumerate(zip(times, now[flag], strict=True)):
                if not self._is_near(max(a - self._start, 0.0) - max(b - self._end, 0.0)):
                    if not self._still_waits(a, b):
                        return False
                    self.flags.append((cluster, flag, place))
        return True

    def _is_near(self, cycles: float) -> bool:
        """Whether something comes at the same time of the period."""
        off = abs(cycles)
        if off > self._slack:
            return False
        self.off = max(self.off, off)
        return True

    def _still_waits(self, a: float, b: float) -> bool:
        """Whether two times on SimPy's clock are one and the same in the future."""
        nearer = (a - self._start) - (b - self._end)
        if b <= self._end or abs(nearer - self._period) > self._slack:
            return False
        self.room = min(self.room, b - self._end)
        return True


def _step(
    old_runs: tuple[LoopRun, ...],
    old_turns: tuple[int, ...],
    runs: tuple[LoopRun, ...],
    turns: tuple[int, ...],
) -> _Step | None:
    """The loop in which a pipe has moved on, and how far; None if it is at another place in it."""
    if old_turns == turns:
        return (None, 0) if old_runs == runs else None
    if len(old_turns) != len(turns):
        return None
    for level, (old, new) in enumerate(zip(old_turns, turns, strict=True)):
        if old_runs[level] is not runs[level]:
            return None
        if old != new:
            alike = old_turns[level + 1 :] == turns[level + 1 :] and all(
                a.loop is b.loop
                for a, b in zip(old_runs[level + 1 :], runs[level + 1 :], strict=True)
            )
            return (runs[level], new - old) if alike else None
    return None


def _advance(run: LoopRun, turns: int) -> None:
    for member in run.members:
        member.turns[run.level] += turns
    run.inner = {(loop, turn + turns): inner for (loop, turn), inner in run.inner.items()}
