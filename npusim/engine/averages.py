"""Loops that never repeat because groups of cores share bandwidth: they go on for their averages.

Groups that are a little out of step meet at other places of their transfers in every iteration, so
that no state comes back however long they are played; yet an iteration lasts about as long as the
last. Where much has been played in vain, every group does as many more iterations, each as long as
the mean of its last ones, as take about the same time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from npusim.engine.checkpoints import TOLERANCE
from npusim.engine.paces import Pace, go_on_by, rests
from npusim.engine.state import Stage

if TYPE_CHECKING:
    import simpy

    from npusim.engine.program import Loop
    from npusim.engine.state import GroupState, LoopRun, PipeState, State

_EFFORT = 60  # iterations of every group that are played before: most loops repeat by then
_INSIDE = 200  # the same for loops in loops, which are over sooner
_SURE = 10  # the same where the iterations at hand last as long as each other
_LAST = 6  # iterations that a mean is of, at most
_FEWEST = 4
_SPREAD = 0.02  # of their mean, between the longest and the shortest two in a row; of all cores
_WIDEST = 0.1  # the same of one group
_OFF = 0.01  # of the cycles that are jumped over, by which a group may be off
_TRIED = 64  # numbers of iterations that are tried


class _Mark(NamedTuple):
    """The last pipe of a loop has ended an iteration: when, and what its group has done so far."""

    time: float
    busy: tuple[float, ...]
    entries: int
    inside: int


class _Way(NamedTuple):
    """How a group goes on, and the flags that an iteration takes of what others have set."""

    pace: Pace
    taken: Mapping[int, int]
    own: AbstractSet[int]  # flags that are set and taken inside
    room: int
    spread: float  # of its last iterations, in cycles of one


class _Jump(NamedTuple):
    """Loops that have jumped, and pipes elsewhere whose alarm that has brought nearer."""

    runs: list[LoopRun]
    waiting: list[PipeState]


class Averages:
    """Marks of the last iterations of outermost loops, and jumps of all groups at once.

    What goes on inside of them isn't yet as it will be when a few iterations have been played.
    """

    def __init__(self, env: simpy.Environment, state: State) -> None:
        self._env, self._state = env, state
        self._seen: dict[GroupState, dict[LoopRun, deque[_Mark]]] = {}
        self._flags: dict[Hashable, dict[int, int] | None] = {}
        self._loops: list[Loop] = []  # kept, so that no other one is known by the same number
        self._effort = 0
        self._off = 0.0  # cycles that jumps have been off by

    def forget(self, run: LoopRun) -> None:
        """``run`` has ended, or jumped."""
        for runs in self._seen.values():
            runs.pop(run, None)

    def forget_all(self) -> None:
        """Called when groups are put together or taken apart."""
        self._seen.clear()

    def jump(self, mover: PipeState, run: LoopRun) -> _Jump | None:
        """Called when ``mover``, the last pipe of ``run``, has ended an iteration.

        Returns the loops that have jumped, and the pipes whose alarm that has brought nearer.
        """
        group, now = mover.group, mover.clock + self._state.shift
        self._effort += 1
        if group.group.cluster is not None or len(run.members) != run.expected:
            return None  # nor do cores that wait for each other jump each by itself
        marks = self._seen.setdefault(group, {}).setdefault(run, deque(maxlen=_LAST + 1))
        if marks and marks[-1].inside != len(run.members):
            marks.clear()
        busy = tuple(pipe.busy for pipe in group.pipes)
        marks.append(_Mark(now, busy, len(group.record.entries), len(run.members)))
        tried = _INSIDE if run.level else _EFFORT
        if marks.maxlen == len(marks) and not run.level and _steady(marks):
            tried = _SURE
        if self._effort < tried * len(self._state.groups) or len(marks) <= _FEWEST:
            return None
        ways: dict[GroupState, _Way] = {}
        for each in self._state.groups:
            if not rests(each, self._env.now):
                way = next(self._ways(each, now), None)
                if way is None:
                    return None
                ways[each] = way
        spread = _mean({each: way.spread / way.pace.period for each, way in ways.items()})
        return self._stride(ways, now) if len(ways) > 1 and spread <= _SPREAD else None

    def _ways(self, group: GroupState, now: float) -> Iterator[_Way]:
        """By the loops that a group is in."""
        for run, seen in self._seen.get(group, {}).items():
            count = len(seen) - 1
            if count < _FEWEST or not len(run.members) == run.expected == seen[-1].inside:
                continue  # or some are still to come
            count -= count % 2
            marks = [*seen][-1 - count :]  # who is first may go in turns of two
            times = [mark.time for mark in marks]
            period = (times[-1] - times[0]) / count
            pairs = [end - start for start, end in zip(times, times[2:], strict=False)]
            spread = max(pairs) - min(pairs)
            if spread > _WIDEST * period or now > times[-1] + 2 * period:
                continue
            busy = zip(marks[0].busy, marks[-1].busy, strict=True)
            mean = tuple((end - start) / count for start, end in busy)
            entries = marks[-1].entries - marks[-2].entries
            pace = Pace(run, 1, period, 0.0, entries, mean, now, len(run.members))
            if period > 0.0 and pace.is_whole(group.record):
                yield from self._way(group, pace, spread)

    def _way(self, group: GroupState, pace: Pace, spread: float) -> Iterator[_Way]:
        """How a group can go on at a pace, if it can."""
        if any(
            pipe.stage in (Stage.MOVING, Stage.MOVED) and pipe not in pace.run.members
            for pipe in group.pipes
        ):
            return
        flags = self._balance(pace.run)
        if flags is None or any(left > 0 for left in flags.values()):
            return
        taken = {flag: -left for flag, left in flags.items() if left}
        room, held = pace.room, group.flags.held
        for flag, each in taken.items():
            room = min(room, self._stocked(held.get(flag, ()), each, pace.period))
        yield _Way(pace, taken, flags.keys() - taken.keys(), room, spread)

    def _stocked(self, times: Sequence[float], each: int, period: float) -> int:
        """For how many periods there are flags: those of each are set before it begins."""
        now = self._env.now
        last = enumerate(times[each - 1 :: each])
        return next((n for n, at in last if at > now + n * period), len(times) // each)

    def _stride(self, ways: Mapping[GroupState, _Way], now: float) -> _Jump | None:
        """Go about as far as the first group comes, the one of most cores by whole iterations."""
        paces = {group: way.pace for group, way in ways.items()}
        waiting = [
            pipe
            for group, way in ways.items()
            for pipe in group.pipes
            if pipe not in way.pace.run.members and pipe.due > self._env.now
        ]
        alarms = [pipe.alarm - self._env.now for pipe in waiting if pipe.alarm is not None]
        cycles = min([*alarms, *(way.room * way.pace.period for way in ways.values())])
        most_cores = max(ways, key=lambda group: group.group.size)
        unit = paces[most_cores].period
        best: tuple[float, dict[GroupState, int], float] | None = None
        most = int(cycles / unit)
        for number in range(most, max(most // 2, most - _TRIED), -1):
            lasts = number * unit
            periods = {
                group: min(way.room, round(lasts / way.pace.period)) for group, way in ways.items()
            }
            if not all(periods.values()):
                break
            off = _mean({each: abs(periods[each] * paces[each].period - lasts) for each in periods})
            if best is None or off / lasts < best[0] / best[2]:
                best = off, periods, lasts
        if best is None or self._off + best[0] > _OFF * (now + best[2]):
            return None
        off, periods, lasts = best
        self._off += off
        go_on_by(self._state, paces, periods, lasts)
        for group, way in ways.items():
            _use_up(group, way, periods[group], lasts)
        for pipe in waiting:
            pipe.clock -= lasts
            pipe.started -= lasts
            pipe.arrived -= lasts
            if pipe.alarm is not None:
                pipe.alarm -= lasts
        return _Jump(
            [pace.run for pace in paces.values()],
            [pipe for pipe in waiting if pipe.alarm is not None],
        )

    def _balance(self, run: LoopRun) -> dict[int, int] | None:
        """How many more of each flag the pipes inside set in an iteration than they take.

        None where they can't go on by themselves.
        """
        key = id(run.loop), tuple(map(id, run.members))
        if key not in self._flags:
            self._flags[key] = _balance(run.members, run.loop)
            self._loops.append(run.loop)
        return self._flags[key]


def _steady(marks: Sequence[_Mark]) -> bool:
    """Whether iterations last as long as each other, to the tolerance of all jumps."""
    lasts = [end.time - start.time for start, end in pairwise(marks)]
    return max(lasts) - min(lasts) <= TOLERANCE * max(lasts)


def _mean(numbers: Mapping[GroupState, float]) -> float:
    """Of all cores."""
    cores = sum(group.group.size for group in numbers)
    return sum(group.group.size * each for group, each in numbers.items()) / cores


def _use_up(group: GroupState, way: _Way, periods: int, cycles: float) -> None:
    """Take the flags that iterations take; what others have set is ``cycles`` longer ago."""
    held = group.flags.held
    for flag in list(held.keys() - way.own):
        times = held[flag][periods * way.taken.get(flag, 0) :]
        if times:
            held[flag] = [time - cycles for time in times]
        else:
            del held[flag]


def _balance(members: Sequence[PipeState], loop: Loop) -> dict[int, int] | None:
    left: dict[int, int] = {}
    for pipe in members:
        steps = pipe.iteration(loop)
        if steps is None:
            return None
        for step, times in steps:
            for flag in step.waits:
                left[flag] = left.get(flag, 0) - times
            for flag, _ in step.sets:
                left[flag] = left.get(flag, 0) + times
    return left
