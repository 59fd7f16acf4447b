"""Groups of cores that repeat each at a pace of its own, and hardly get in each other's way.

Their periods differ, so that the state of all of them never comes back. When every group has been
where it was before, several times in a row and always after as long, all go on for as many of their
own periods as take about the same time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from npusim.engine.checkpoints import TOLERANCE, Checkpoint, LongWaits, advance, step_of
from npusim.engine.state import GroupState, Stage, State
from npusim.engine.timeline import Fold

if TYPE_CHECKING:
    from npusim.engine.state import LoopRun
    from npusim.engine.timeline import CoreRecord

_HISTORY = 6  # longest period looked for, in iterations
_SETTLED = 4  # periods in a row that have to be as long
_TRIED = 256  # numbers of periods that are tried


@dataclass(frozen=True, slots=True)
class Pace:
    """The loop of a group takes ``period`` cycles for ``turns`` iterations, ``times`` in a row.

    ``off`` is by how many cycles the group isn't where it was, ``entries`` what it writes down in a
    period, and ``busy`` for how long its pipes are. It was seen at ``time``, when so many of its
    pipes were ``inside`` the loop: the others wait for its end or have ended.
    """

    run: LoopRun
    turns: int
    period: float
    off: float
    entries: int
    busy: tuple[float, ...]
    time: float
    inside: int
    times: int = 1

    @property
    def room(self) -> int:
        """Periods that are left before the loop ends."""
        level = self.run.level
        most = max(member.turns[level] for member in self.run.members)
        return (self.run.loop.count - 1 - most) // self.turns

    def is_whole(self, record: CoreRecord) -> bool:
        """Whether what was written down in the last period is no part of what was folded."""
        first = len(record.entries) - self.entries
        return all(fold.last <= first or fold.first >= first for fold in record.folds)


class Paces:
    """Watches every group by itself, and lets all of them jump."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._found: dict[GroupState, Pace] = {}
        self._alone: dict[GroupState, bool] = {}
        self._seen: dict[int, deque[Checkpoint]] = {}

    def forget(self) -> None:
        """Nothing that was seen holds any more."""
        self._found.clear()
        self._seen.clear()

    def left(self, run: LoopRun) -> None:
        """Everybody has left a loop, or it has jumped."""
        self._seen.pop(run.serial, None)

    def has(self, group: GroupState) -> bool:
        """Whether a group may have a pace beside those of others."""
        return len(self._state.groups) > 1 and group.group.cluster is None

    def jump(self, run: LoopRun, group: GroupState, now: Checkpoint, off: float) -> float | None:
        """Jump if every group has a pace; called where an iteration of ``run`` has ended.

        Returns the cycles that the jump may be off by, which with the ``off`` of all jumps before
        it has to stay within tolerance; None if there is no jump.
        """
        history = self._seen.setdefault(run.serial, deque(maxlen=_HISTORY))
        pace = self._pace(group, history, now)
        history.append(now)
        known = self._found.pop(group, None)
        if pace is None:
            return None
        if known and abs(known.period - pace.period) <= TOLERANCE * pace.period:
            pace = replace(pace, times=known.times + 1)
        self._found[group] = pace
        if pace.times < _SETTLED:
            return None
        moving = [each for each in self._state.groups if not rests(each, now.now)]
        if len(moving) < 2 or not all(self._holds(each, now) for each in moving):
            return None
        return self._stride({each: self._found[each] for each in moving}, now, off)

    def _pace(
        self, group: GroupState, history: Sequence[Checkpoint], now: Checkpoint
    ) -> Pace | None:
        """By the last time that a group was where it is now."""
        for earlier in reversed(history):
            if earlier.shape == now.shape:
                found = _between(earlier, now)
                if found and (found.inside == len(group.pipes) or self._undisturbed(group)):
                    return found
        return None

    def _undisturbed(self, group: GroupState) -> bool:
        """Whether others never slow a group down: else it is to repeat as a whole, to be sure."""
        if group not in self._alone:
            steps = (step for state in group.pipes for step in state.steps)
            self._alone[group] = all(step.claim is None for step in steps)
        return self._alone[group]

    def _holds(self, group: GroupState, now: Checkpoint) -> bool:
        """Whether a group has a pace that it still keeps."""
        pace = self._found.get(group)
        if pace is None or pace.times < _SETTLED or now.time > pace.time + 2 * pace.period:
            return False
        return pace.is_whole(group.record) and len(pace.run.members) == pace.inside

    def _stride(self, paces: dict[GroupState, Pace], now: Checkpoint, off: float) -> float | None:
        """Go as far as the first group comes, where all have done about whole periods."""
        slowest = min(paces.values(), key=lambda pace: pace.room * pace.period)
        for number in range(slowest.room, max(0, slowest.room - _TRIED), -1):
            cycles = number * slowest.period
            most = TOLERANCE * (now.time + cycles) - off
            periods: dict[GroupState, int] = {}
            wrong = 0.0
            for group, pace in paces.items():
                count = periods[group] = min(pace.room, round(cycles / pace.period))
                wrong = max(wrong, abs(count * pace.period - cycles) + count * pace.off)
                if not count or wrong > most:
                    break
            else:
                go_on_by(self._state, paces, periods, cycles)
                return wrong
        return None


def go_on_by(
    state: State, paces: Mapping[GroupState, Pace], periods: Mapping[GroupState, int], cycles: float
) -> None:
    """Let every group do so many of its periods more, which take ``cycles`` in all."""
    state.shift += cycles
    for group, pace in paces.items():
        times, last = periods[group], len(group.record.entries)
        advance(pace.run, times * pace.turns)
        for pipe, busy in zip(group.pipes, pace.busy, strict=True):
            pipe.busy += times * busy
        fold = Fold(last - pace.entries, last, times, cycles / times)
        group.record.folds.append(fold)


def _between(before: Checkpoint, after: Checkpoint) -> Pace | None:
    """The pace of a group that was at ``before`` where it is at ``after``; None if it wasn't."""
    waits = LongWaits(before, after, stocked=False)
    if not waits.alike or waits.pipes or waits.flags:
        return None
    steps = [
        step_of(*each)
        for each in zip(before.runs, before.turns, after.runs, after.turns, strict=True)
    ]
    moved = {step for step in steps if step is None or step[1]}
    if len(moved) != 1 or (step := moved.pop()) is None:
        return None
    run, turns = step
    inside = steps.count(step)
    if run is None or len(run.members) != inside:
        return None
    busy = tuple(b - a for a, b in zip(before.busy, after.busy, strict=True))
    entries = after.entries[0] - before.entries[0]
    period = after.time - before.time
    return Pace(run, turns, period, waits.off, entries, busy, after.time, inside)


def rests(group: GroupState, now: float) -> bool:
    """Whether a group does nothing until others come to a barrier."""
    return all(
        state.stage is Stage.FINISHED or (state.stage is Stage.MEETING and state.clock <= now)
        for state in group.pipes
    )
