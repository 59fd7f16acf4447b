"""Loops whose pipes hear of nobody else, so that they jump by themselves.

A loop is closed where its pipes move nothing through what cores share, and neither take a flag that
others set nor set one that others take. What they do is then a recurrence of their own, whatever
the rest does meanwhile: once they are where they were a period ago, so they will be a period later,
and their clocks go on by as many periods as the loop has left.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from npusim.engine.checkpoints import advance
from npusim.engine.streams import Kind
from npusim.engine.timeline import Fold

if TYPE_CHECKING:
    from npusim.engine.program import Loop
    from npusim.engine.state import Flags, GroupState, LoopRun, PipeState, State
    from npusim.engine.streams import Step

_HISTORY = 6  # longest period looked for, in iterations
_ROUNDING = 1e-7  # of a period: what rounding of the clocks explains


class _Moment(NamedTuple):
    """Where the pipes of a loop are: ``shape`` and, from the clock of one of them, ``times``.

    Flags that are set before any of the pipes is free have been set, no matter when. ``time`` is
    since the start of the kernel.
    """

    shape: list[tuple[object, ...]]
    times: list[float]
    time: float
    turn: int
    busy: list[float]
    entries: int


class ClosedLoops:
    """Watches closed loops, and jumps over what repeats of each."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._flags: dict[tuple[GroupState, int], frozenset[int] | None] = {}
        self._users: dict[Flags, dict[int, set[PipeState]]] = {}
        self._loops: list[Loop] = []  # kept, so that no other one is known by the same number
        self._seen: dict[int, deque[_Moment]] = {}
        self._jumped: dict[GroupState, float] = {}

    @property
    def jumped_cycles(self) -> float:
        """How many cycles of the group that has jumped farthest were jumped over."""
        return max(self._jumped.values(), default=0.0)

    def has(self, run: LoopRun) -> bool:
        """Whether a loop is closed and all of its pipes are in it: none has ended or is to come."""
        users = run.members[0].group.users
        return len(run.members) == users[id(run.loop)] and self._closed(run) is not None

    def forget(self, run: LoopRun) -> None:
        """Called when the last pipe has left ``run``."""
        self._seen.pop(run.serial, None)

    def forget_all(self) -> None:
        """Called when groups are put together or taken apart, or have jumped one by one."""
        self._seen.clear()

    def jump(self, mover: PipeState, run: LoopRun) -> list[PipeState]:
        """Called when ``mover``, which is furthest behind, has ended an iteration.

        Returns the pipes whose alarm a jump has moved on.
        """
        now = self._moment(mover, run)
        history = self._seen.setdefault(run.serial, deque(maxlen=_HISTORY))
        for earlier in reversed(history):
            if earlier.shape == now.shape and self._go_on(run, earlier, now):
                history.clear()
                return [member for member in run.members if member.alarm is not None]
        history.append(now)
        return []

    def _go_on(self, run: LoopRun, earlier: _Moment, now: _Moment) -> bool:
        """Do what was done since ``earlier`` as often as the loop still has such periods."""
        period, turns = now.time - earlier.time, now.turn - earlier.turn
        near = _ROUNDING * period
        if any(abs(a - b) > near for a, b in zip(earlier.times, now.times, strict=True)):
            return False
        level, members, record = run.level, run.members, run.members[0].group.record
        last = max(member.turns[level] for member in members)
        periods = (run.loop.count - 1 - last) // turns
        if periods < 1 or period <= 0.0:
            return False
        own = {member.pipe for member in members}
        if any(entry[0] not in own for entry in record.entries[earlier.entries : now.entries]):
            return False  # what else a core has done meanwhile isn't repeated
        ahead = periods * period
        for member, before, after in zip(members, earlier.busy, now.busy, strict=True):
            member.clock += ahead
            member.started += ahead
            member.arrived += ahead
            if member.alarm is not None:
                member.alarm += ahead
            member.busy += periods * (after - before)
        if (issue := members[0].group.issue) is not None:
            issue.go_on(period, periods)
        held = members[0].group.flags.held
        for flag in self._closed(run) or ():
            if flag in held:
                held[flag] = [time + ahead for time in held[flag]]
        advance(run, periods * turns)
        self._jumped[members[0].group] = self._jumped.get(members[0].group, 0.0) + ahead
        record.folds.append(Fold(earlier.entries, now.entries, periods, period))
        return True

    def _moment(self, mover: PipeState, run: LoopRun) -> _Moment:
        level, clock, members = run.level, mover.clock, run.members
        turn, held = mover.turns[level], mover.group.flags.held
        first = min(member.clock for member in members)
        times = [member.clock - clock for member in members]
        times += [max(member.arrived - member.clock, 0.0) for member in members]
        shape: list[tuple[object, ...]] = [
            (
                member.pipe,
                member.place,
                member.waited,
                member.ready,
                member.turns[:level],
                member.turns[level] - turn,
                *member.turns[level + 1 :],
            )
            for member in members
        ]
        for flag in self._closed(run) or ():
            if set_at := held.get(flag):
                shape.append((flag, len(set_at)))
                times += [max(time - first, 0.0) for time in set_at]
        busy = [member.busy for member in members]
        time, entries = clock + self._state.shift, len(mover.group.record.entries)
        return _Moment(shape, times, time, turn, busy, entries)

    def _closed(self, run: LoopRun) -> frozenset[int] | None:
        """The flags of a loop that is closed; None for one that isn't."""
        group = run.members[0].group
        key = group, id(run.loop)
        if key not in self._flags:
            self._flags[key] = self._flags_of(group, run.loop)
            self._loops.append(run.loop)
        return self._flags[key]

    def _flags_of(self, group: GroupState, loop: Loop) -> frozenset[int] | None:
        touched: set[int] = set()
        inside: set[PipeState] = set()
        for pipe in group.pipes:
            for step in pipe.body(loop):
                if step.claim is not None or step.kind in (Kind.MEET, Kind.PART, Kind.STOP):
                    return None
                touched.update(_flags(step))
                inside.add(pipe)
        if not touched.isdisjoint(group.flags.unordered):
            return None
        users = self._users_of(group.flags)
        return frozenset(touched) if all(users[flag] <= inside for flag in touched) else None

    def _users_of(self, flags: Flags) -> Mapping[int, set[PipeState]]:
        """The pipes that take or set each flag of a cluster."""
        if flags not in self._users:
            users = self._users[flags] = defaultdict(set)
            for pipe in self._state.pipes:
                if pipe.group.flags is flags:
                    for step in pipe.steps:
                        for flag in _flags(step):
                            users[flag].add(pipe)
        return self._users[flags]


def _flags(step: Step) -> Iterator[int]:
    yield from step.waits
    for flag, _ in step.sets:
        yield flag
