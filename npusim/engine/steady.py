"""The steady state: all cores are back where they were a period ago, so jump ahead.

A checkpoint is taken whenever the last pipe of a loop finishes an iteration. It holds where every
pipe of every core is: entry, loops, cycles until its work is due, bytes left of its transfer,
flags. When a checkpoint equals an earlier one but for one loop per core, in which everybody has
moved on alike, everything that follows repeats until such a loop runs out, so whole periods are
skipped by moving the clock and the iteration counters. Nothing else changes: the state landed on
is the one that playing reaches.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from npusim.engine.timeline import Fold

if TYPE_CHECKING:
    from npusim.engine.player import LoopRun, PipeState, Player

_HISTORY = 6  # longest period looked for, in iterations
_PATIENCE = 24  # iterations played before near-repetition is accepted as repetition
_TOLERANCE = 1e-6  # of a period: what rounding of the clock explains
_LOOSE_TOLERANCE = 2e-3  # of a period, once patience is over
_SHORTEST = 4  # loops with fewer iterations left are simply played
_HOPELESS = 256  # iterations after which a loop that has not repeated is played to its end


# The loops around a pipe from the outside in, each with the iteration that the pipe is in.
_Chain = tuple[tuple["LoopRun", int], ...]

# The loop that has moved on and by how many iterations; None and 0 where none has.
_Step = tuple["LoopRun | None", int]


@dataclass(frozen=True, slots=True)
class _Checkpoint:
    """``shape`` and ``amounts`` come back with a state; ``chains`` tell what has moved on."""

    shape: tuple[object, ...]
    amounts: tuple[float, ...]
    chains: tuple[tuple[_Chain, ...], ...]
    now: float
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
        turns = run.iteration
        left = run.loop.count - max(turns.values())
        if left < _SHORTEST or turns[state.pipe] != min(turns.values()):
            return
        if self._somebody_outside():
            return
        played = self._played[run.serial] = self._played.get(run.serial, 0) + 1
        if played > _HOPELESS:
            return
        checkpoint = self._checkpoint(state)
        history = self._seen.setdefault(run.serial, deque(maxlen=_HISTORY))
        tolerance = _TOLERANCE if played < _PATIENCE else _LOOSE_TOLERANCE
        for earlier in reversed(history):
            progress = _progress(earlier, checkpoint, tolerance)
            if progress is not None and self._jump(earlier, checkpoint, progress):
                for moved, _ in progress:
                    if moved is not None:
                        self.forget(moved)
                return
        history.append(checkpoint)

    def forget(self, run: LoopRun) -> None:
        """Called when the last pipe has left ``run``."""
        self._seen.pop(run.serial, None)
        self._played.pop(run.serial, None)

    def _somebody_outside(self) -> bool:
        """Whether a pipe works outside all loops: nothing repeats before it is done."""
        player = self._player
        flowing = {id(flow.done) for flow in player.memory.flows}
        return any(
            state.run is None and (state.due is not None or id(state.waiting) in flowing)
            for group in player.groups
            for state in group.pipes
        )

    def _checkpoint(self, mover: PipeState) -> _Checkpoint:
        player = self._player
        shape: list[object] = []
        amounts: list[float] = []
        remaining = {id(flow.done): flow.remaining for flow in player.memory.flows}
        for group in player.groups:
            shape.append(tuple(group.flags))
            for state in group.pipes:
                waiting = state.waiting
                left = remaining.get(id(waiting)) if waiting is not None else None
                shape.append(
                    (
                        state is mover,
                        state.entry,
                        state.finished,
                        waiting is not None and (waiting.triggered, left is not None),
                        tuple(flags for _, flags in state.arriving),
                    )
                )
                amounts.extend(due - player.env.now for due, _ in state.arriving)
                if state.due is not None:
                    amounts.append(state.due - player.env.now)
                if left is not None:
                    amounts.append(left)
        records = [group.record for group in player.groups]
        return _Checkpoint(
            tuple(shape),
            tuple(amounts),
            tuple(tuple(map(_chain, group.pipes)) for group in player.groups),
            player.now,
            tuple(len(record.entries) for record in records),
            tuple(tuple(record.busy.values()) for record in records),
        )

    def _jump(self, earlier: _Checkpoint, now: _Checkpoint, progress: list[_Step]) -> bool:
        rooms = [
            (run.loop.count - 1 - max(run.iteration.values())) // step
            for run, step in progress
            if run is not None
        ]
        periods = min(rooms, default=0)
        if periods < 1:
            return False
        period = now.now - earlier.now
        self._player.shift += periods * period
        for index, (group, (run, step)) in enumerate(
            zip(self._player.groups, progress, strict=True)
        ):
            for state in group.pipes:
                state.started += periods * period
            if run is not None:
                _advance(run, periods * step)
            record = group.record
            for pipe, before, after in zip(
                record.busy, earlier.busy[index], now.busy[index], strict=True
            ):
                record.busy[pipe] += periods * (after - before)
            record.folds.append(Fold(earlier.entries[index], now.entries[index], periods, period))
        return True


def _chain(state: PipeState) -> _Chain:
    places = []
    run = state.run
    while run is not None:
        places.append((run, run.iteration[state.pipe]))
        run = run.parent
    return tuple(reversed(places))


def _progress(earlier: _Checkpoint, now: _Checkpoint, tolerance: float) -> list[_Step] | None:
    """What every group of cores has done between two equal states; None if the states differ."""
    if earlier.shape != now.shape or len(earlier.amounts) != len(now.amounts):
        return None
    slack = tolerance * (now.now - earlier.now)
    if any(abs(a - b) > slack for a, b in zip(earlier.amounts, now.amounts, strict=True)):
        return None
    result: list[_Step] = []
    for before, after in zip(earlier.chains, now.chains, strict=True):
        steps = [_step(*pair) for pair in zip(before, after, strict=True)]
        moved = {step for step in steps if step is not None and step[1]}
        if None in steps or len(moved) > 1:
            return None
        progress: _Step = moved.pop() if moved else (None, 0)
        # Whoever is in the loop has to have come along.
        for step, chain in zip(steps, after, strict=True):
            if step != progress and any(run is progress[0] for run, _ in chain):
                return None
        result.append(progress)
    return result


def _step(before: _Chain, after: _Chain) -> _Step | None:
    """The loop in which a pipe has moved on, and how far; None if it is at another place in it."""
    if len(before) != len(after):
        return None
    run: LoopRun | None = None
    step = 0
    for (old, old_turn), (new, turn) in zip(before, after, strict=True):
        if run is None and old is new:
            if turn != old_turn:
                run, step = new, turn - old_turn
        elif run is None or old.loop is not new.loop or turn != old_turn:
            return None
    return run, step


def _advance(run: LoopRun, turns: int) -> None:
    for pipe in run.iteration:
        run.iteration[pipe] += turns
    run.inner = {(loop, turn + turns): inner for (loop, turn), inner in run.inner.items()}
