"""The steady state: all cores are back where they were a period ago, so jump ahead.

A checkpoint is taken whenever the last pipe of a loop finishes an iteration. It holds where every
pipe of every core is *relative to that iteration*: entry, loops, cycles until its work is due,
bytes left of its transfer, flags. When a checkpoint equals an earlier one, everything that follows
repeats until a loop runs out, so whole periods are skipped by moving the clock and the iteration
counters. Nothing else changes: the state landed on is the one that playing reaches.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from npusim.engine.timeline import Fold

if TYPE_CHECKING:
    from npusim.engine.player import GroupState, LoopRun, PipeState, Player

_HISTORY = 6  # longest period looked for, in iterations
_PATIENCE = 24  # iterations played before near-repetition is accepted as repetition
_TOLERANCE = 1e-6  # of a period: what rounding of the clock explains
_LOOSE_TOLERANCE = 2e-3  # of a period, once patience is over
_SHORTEST = 4  # loops with fewer iterations left are simply played
_HOPELESS = 256  # iterations after which a loop that has not repeated is played to its end


@dataclass(frozen=True, slots=True)
class _Checkpoint:
    shape: tuple[object, ...]
    amounts: tuple[float, ...]
    now: float
    turns: dict[int, int]
    entries: tuple[int, ...]
    busy: tuple[tuple[float, ...], ...]


class SteadyState:
    """Watches one player's loops and jumps when they repeat."""

    def __init__(self, player: Player) -> None:
        self._player = player
        self._seen: dict[int, deque[_Checkpoint]] = {}
        self._played: dict[int, int] = {}

    def iteration_ended(self, state: PipeState, run: LoopRun) -> None:
        """Called by every pipe after every iteration; acts for the pipe that is furthest behind."""
        ahead = max(run.iteration.values())
        if run.loop.count - ahead < _SHORTEST or run.iteration[state.pipe] != min(
            run.iteration.values()
        ):
            return
        if self._played.get(run.serial, 0) > _HOPELESS:
            return
        anchors = self._anchors(state.group, run)
        if anchors is None:
            return
        checkpoint = self._checkpoint(state, anchors)
        history = self._seen.setdefault(run.serial, deque(maxlen=_HISTORY))
        played = self._played[run.serial] = self._played.get(run.serial, 0) + 1
        tolerance = _TOLERANCE if played < _PATIENCE else _LOOSE_TOLERANCE
        for earlier in reversed(history):
            if _same(earlier, checkpoint, tolerance) and self._jump(earlier, checkpoint, anchors):
                for anchor in anchors:
                    if anchor is not None:
                        self.forget(anchor)
                return
        history.append(checkpoint)

    def forget(self, run: LoopRun) -> None:
        """Called when the last pipe has left ``run``."""
        self._seen.pop(run.serial, None)
        self._played.pop(run.serial, None)

    def _anchors(self, group: GroupState, run: LoopRun) -> list[LoopRun | None] | None:
        """For each group the loop its moving pipes share; None if somebody moves outside it."""
        result: list[LoopRun | None] = []
        for other in self._player.groups:
            anchor = run if other is group else _shared_run(other)
            for state in other.pipes:
                if not _idle(state) and (anchor is None or not _inside(state.run, anchor)):
                    return None
            result.append(anchor)
        return result

    def _checkpoint(self, mover: PipeState, anchors: list[LoopRun | None]) -> _Checkpoint:
        player = self._player
        shape: list[object] = []
        amounts: list[float] = []
        turns: dict[int, int] = {}
        remaining = {id(flow.done): flow.remaining for flow in player.memory.flows}
        for group, anchor in zip(player.groups, anchors, strict=True):
            behind = min(anchor.iteration.values()) if anchor is not None else 0
            if anchor is not None:
                turns[anchor.serial] = behind
            shape.append((anchor.serial if anchor is not None else -1, tuple(group.flags)))
            for state in group.pipes:
                shape.append(
                    (
                        state is mover,
                        state.entry,
                        state.finished,
                        _position(state.run, anchor, state, behind),
                    )
                )
                shape.append(
                    state.waiting is not None
                    and (state.waiting.triggered, id(state.waiting) in remaining)
                )
                shape.append(tuple(flags for _, flags in state.arriving))
                amounts.extend(due - player.env.now for due, _ in state.arriving)
                if state.due is not None:
                    amounts.append(state.due - player.env.now)
                if state.waiting is not None and id(state.waiting) in remaining:
                    amounts.append(remaining[id(state.waiting)])
        records = [group.record for group in player.groups]
        return _Checkpoint(
            tuple(shape),
            tuple(amounts),
            player.now,
            turns,
            tuple(len(record.entries) for record in records),
            tuple(tuple(record.busy.values()) for record in records),
        )

    def _jump(self, earlier: _Checkpoint, now: _Checkpoint, anchors: list[LoopRun | None]) -> bool:
        periods = None
        steps: list[int] = []
        for anchor in anchors:
            step = (
                now.turns[anchor.serial] - earlier.turns[anchor.serial] if anchor is not None else 0
            )
            steps.append(step)
            if anchor is not None and step > 0:
                room = (anchor.loop.count - 1 - max(anchor.iteration.values())) // step
                periods = room if periods is None else min(periods, room)
        if not periods or periods < 1:
            return False
        period = now.now - earlier.now
        self._player.shift += periods * period
        for state in (state for group in self._player.groups for state in group.pipes):
            state.started += periods * period
        for index, (group, anchor, step) in enumerate(
            zip(self._player.groups, anchors, steps, strict=True)
        ):
            if anchor is not None and step > 0:
                _advance(anchor, periods * step)
            record = group.record
            for pipe, before, after in zip(
                record.busy, earlier.busy[index], now.busy[index], strict=True
            ):
                record.busy[pipe] += periods * (after - before)
            record.folds.append(Fold(earlier.entries[index], now.entries[index], periods, period))
        return True


def _idle(state: PipeState) -> bool:
    """True for a pipe that has ended or waits for something only the others can bring about."""
    if state.finished:
        return True
    return state.due is None and state.waiting is not None and not state.waiting.triggered


def _shared_run(group: GroupState) -> LoopRun | None:
    moving = [state for state in group.pipes if not _idle(state)]
    if not moving:
        return None
    run = moving[0].run
    while run is not None and not all(_inside(state.run, run) for state in moving):
        run = run.parent
    return run


def _inside(run: LoopRun | None, anchor: LoopRun) -> bool:
    while run is not None:
        if run is anchor:
            return True
        run = run.parent
    return False


def _position(
    run: LoopRun | None, anchor: LoopRun | None, state: PipeState, behind: int
) -> tuple[object, ...]:
    """The loops around a pipe from the inside out, the anchor's turns relative to ``behind``."""
    place: list[object] = []
    while run is not None:
        turn = run.iteration.get(state.pipe, -1)
        if run is anchor:
            place.append(turn - behind)
            return tuple(place)
        place.append((id(run.loop), turn))
        run = run.parent
    return tuple(place)


def _advance(run: LoopRun, turns: int) -> None:
    for pipe in run.iteration:
        run.iteration[pipe] += turns
    run.inner = {(loop, turn + turns): inner for (loop, turn), inner in run.inner.items()}


def _same(earlier: _Checkpoint, now: _Checkpoint, tolerance: float) -> bool:
    if earlier.shape != now.shape or len(earlier.amounts) != len(now.amounts):
        return False
    slack = tolerance * (now.now - earlier.now)
    return all(abs(a - b) <= slack for a, b in zip(earlier.amounts, now.amounts, strict=True))
