"""Where all pipes are at one moment, and whether they are there again later."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

from npusim.engine.timeline import Fold

if TYPE_CHECKING:
    from npusim.engine.state import LoopRun, PipeState, State

TOLERANCE = 2e-5  # of a period, for near-repetition, and of all cycles, for what jumps are off by

# The loop that has moved on and by how many iterations; None and 0 where none has.
Step = tuple["LoopRun | None", int]


@dataclass(slots=True)
class Checkpoint:
    """Where everybody is.

    ``shape`` comes back with a state, and so do the other times once ``now`` is taken off them, as
    it is off those that are ``ahead``; ``runs`` and ``turns`` tell what has moved on.
    """

    shape: list[tuple[object, ...]]
    pipes: list[PipeState]
    due: list[float]
    ahead: list[float]
    under_way: list[float]
    remaining: dict[PipeState, float]
    flags: list[dict[int, list[float]]]
    runs: list[tuple[LoopRun, ...]]
    turns: list[tuple[int, ...]]
    now: float
    time: float
    entries: list[int]
    busy: list[float]


class LongWaits:
    """Who waits from one checkpoint to the next and wakes at ``room`` cycles from now or later.

    ``alike`` tells whether all others are nearly where they were, ``off`` by how many cycles: what
    is due is as good as what has long been due. A pipe that ran ahead and has left the
    loop leaves a stock of flags, of which every period takes some: it lasts ``stocked_periods``.
    """

    __slots__ = (
        "_end",
        "_may_be_stocked",
        "_period",
        "_slack",
        "_start",
        "alike",
        "flags",
        "off",
        "pipes",
        "room",
        "stocked_periods",
        "stocks",
    )  # fmt: skip

    def __init__(self, earlier: Checkpoint, now: Checkpoint, *, stocked: bool = True) -> None:
        """Without ``stocked``, flags that are taken and not set again tell moments apart."""
        self._may_be_stocked = stocked
        self.off = 0.0
        self.room = self.stocked_periods = inf
        self.stocks: list[tuple[int, int, int]] = []  # cluster, flag, how many a period takes
        self.pipes: list[int] = []
        self.flags: list[tuple[int, int, slice]] = []  # cluster, flag, places in its list
        self._start, self._end = earlier.now, now.now
        self._period = now.time - earlier.time
        self._slack = TOLERANCE * self._period
        self.alike = self._compare(earlier, now)

    def shorten(self, state: State, cycles: float) -> None:
        """Everybody else has jumped ``cycles`` ahead: what is waited for is that much nearer."""
        for index in self.pipes:
            pipe = state.pipes[index]
            pipe.clock -= cycles
            pipe.started -= cycles
            pipe.arrived -= cycles
            if pipe.alarm is not None:
                pipe.alarm -= cycles
        for cluster, flag, places in self.flags:
            times = state.flags[cluster].held[flag]
            times[places] = [time - cycles for time in times[places]]

    def use_up(self, state: State, periods: int) -> None:
        """Take from the stocks of flags what the periods jumped over take."""
        cycles = periods * self._period
        for cluster, flag, taken in self.stocks:
            held = state.flags[cluster].held
            left = [time - cycles for time in held.pop(flag)[periods * taken :]]
            if left:
                held[flag] = left

    def rescheduled(self, state: State) -> list[PipeState]:
        """The waiting pipes whose alarm is nearer now."""
        return [state.pipes[index] for index in self.pipes if state.pipes[index].alarm is not None]

    def _compare(self, earlier: Checkpoint, now: Checkpoint) -> bool:
        slack, farthest, left = self._slack, 0.0, now.remaining
        if earlier.remaining.keys() != left.keys():
            return False
        for pipe, cycles in earlier.remaining.items():
            if (off := abs(cycles - left[pipe])) > slack:
                return False
            farthest = max(farthest, off)
        if earlier.under_way != now.under_way:
            for a, b in zip(earlier.under_way, now.under_way, strict=True):
                if (off := abs(a - b)) > slack:
                    return False
                farthest = max(farthest, off)
        self.off = farthest
        if earlier.ahead != now.ahead:
            for index, (a, b) in enumerate(zip(earlier.ahead, now.ahead, strict=True)):
                if a != b and not self._is_near(a - b):
                    if not self._still_waits(earlier.due[index], now.due[index]):
                        return False
                    self.room = min(self.room, now.due[index] - self._end)
                    self.pipes.append(index)
        for index, flags in enumerate(earlier.flags):
            if not self._compare_flags(index, flags, now.flags[index]):
                return False
        return True

    def _compare_flags(
        self, cluster: int, earlier: dict[int, list[float]], now: dict[int, list[float]]
    ) -> bool:
        if earlier.keys() != now.keys():
            return False
        for flag, times in earlier.items():
            if times == now[flag]:  # nobody has taken any, or set one
                if times[-1] > self._end:
                    places = slice(bisect_right(times, self._end), len(times))
                    self.flags.append((cluster, flag, places))
                continue
            taken = len(times) - len(now[flag])
            if taken > 0 and self._may_be_stocked and self._is_stocked(times, now[flag], taken):
                self.stocks.append((cluster, flag, taken))
                continue
            if taken:
                return False
            if times[-1] <= self._start and now[flag][-1] <= self._end:
                continue  # all of them are set
            for place, (a, b) in enumerate(zip(times, now[flag], strict=True)):
                if not self._is_near(max(a - self._start, 0.0) - max(b - self._end, 0.0)):
                    if not self._still_waits(a, b):
                        return False  # who is to take it hasn't come to it
                    self.flags.append((cluster, flag, slice(place, place + 1)))
        return True

    def _is_stocked(self, times: list[float], now: list[float], taken: int) -> bool:
        """Whether each period finds so many flags, all set before it begins or at the same times.

        A pipe that runs ahead leaves flags that are to come, too.
        """
        periods = len(now) // taken
        if times[taken - 1] <= self._start:
            set_at = now[taken - 1 :: taken]
            later = (n for n, at in enumerate(set_at) if at > self._end + n * self._period)
            periods = next(later, periods)
        elif not all(
            self._is_near((a - self._start) - (b - self._end))
            for a, b in zip(times, now, strict=False)
        ):
            return False
        self.stocked_periods = min(self.stocked_periods, periods)
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
        return b > self._end and abs(nearer - self._period) <= self._slack


def step_of(
    old_runs: tuple[LoopRun, ...],
    old_turns: tuple[int, ...],
    runs: tuple[LoopRun, ...],
    turns: tuple[int, ...],
) -> Step | None:
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


def advance(run: LoopRun, turns: int) -> None:
    """Let everybody in a loop be so many iterations further."""
    for member in run.members:
        member.turns[run.level] += turns
    run.inner = {(loop, turn + turns): inner for (loop, turn), inner in run.inner.items()}


def go_on(
    state: State, earlier: Checkpoint, now: Checkpoint, progress: list[Step], times: int,
    period: float,
) -> None:  # fmt: skip
    """Everybody does what was done between two moments so many times more, each in a period."""
    state.shift += times * period
    for pipe, before, after in zip(state.pipes, earlier.busy, now.busy, strict=True):
        pipe.busy += times * (after - before)
    for group, (run, step), first, last in zip(
        state.groups, progress, earlier.entries, now.entries, strict=True
    ):
        if run is not None:
            advance(run, times * step)
        group.record.folds.append(Fold(first, last, times, period))
