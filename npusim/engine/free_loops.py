"""Loops in which a pipe waits for nobody, such as a scalar unit that issues what others do.

A pipe that is quicker than the others leaves them ever farther behind, so that no state comes back
before it is through. But its iterations are alike whatever they do meanwhile: it goes through them
at once, and the flags that it sets are there with the times at which they will be set. Whoever
finds all that it will wait for set by such a pipe waits for nobody, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from npusim.engine.timeline import Fold

if TYPE_CHECKING:
    from npusim.engine.program import Loop
    from npusim.engine.state import LoopRun, PipeState

_AHEAD = 8  # iterations, of who is last in the loop: queues let a pipe be some ahead
_ENTERED = 3  # iterations after which others are in the loop that haven't anything else to do
_WORTH = 4  # iterations that are left
_MOST_FLAGS = 100_000  # set ahead in a jump: more take more memory than they save time
_ROUNDING = 1e-7  # of an iteration: what rounding of the clocks explains


class _Needs(NamedTuple):
    """The flags that an iteration takes, and how often, and those that it sets."""

    takes: Mapping[int, int]
    sets: frozenset[int]


class _Mark(NamedTuple):
    """The end of an iteration: where the pipe is, the flags it takes next, how often it set its."""

    clock: float
    busy: float
    entries: int
    next: Mapping[int, list[float]]
    held: Mapping[int, int]


class FreeLoops:
    """Finds such loops; a pipe plays one more iteration and jumps over those up to the last."""

    def __init__(self) -> None:
        self._needs: dict[tuple[PipeState, int], _Needs | None] = {}
        self._loops: list[Loop] = []  # kept, so that no other one is known by the same number
        self._marks: dict[tuple[PipeState, LoopRun], _Mark | None] = {}  # None: it has been tried
        self._through: dict[PipeState, LoopRun] = {}  # whose last iteration is still to be played
        self._open = 0  # marks of loops around each other: nobody else is to come between
        self._jumped: dict[PipeState, float] = {}

    @property
    def jumped_cycles(self) -> float:
        """How many cycles of the pipe that has jumped farthest were jumped over."""
        return max(self._jumped.values(), default=0.0)

    def passes(self, pipe: PipeState, run: LoopRun) -> bool:
        """Called when ``pipe`` has ended an iteration: whether it goes on at once."""
        turn = pipe.turns[run.level]
        left = run.loop.count - 1 - turn
        before = self._marks.get((pipe, run))
        if before is not None:
            self._marks[pipe, run] = None
            self._open -= 1
            start = pipe.clock
            through = _jump(pipe, run, before, left)
            self._jumped[pipe] = self._jumped.get(pipe, 0.0) + pipe.clock - start
            if through:
                self._through.setdefault(pipe, run)
            return through or self._open > 0
        goes_on = self._open > 0 or pipe in self._through
        if not goes_on and turn < _ENTERED:
            return False
        needs = self._needed(pipe, run.loop)
        if needs is None or left < _WORTH or (pipe, run) in self._marks:
            return goes_on
        ahead = _AHEAD if needs.takes else 1  # nothing holds back who takes no flags
        if not goes_on and needs.sets and not _is_ahead(run, turn - ahead):
            return False  # nor does anybody run away from those who wait for it
        held = pipe.group.flags.held
        if any(len(held.get(flag, ())) < each * (left + 1) for flag, each in needs.takes.items()):
            return goes_on
        self._marks[pipe, run] = _mark(pipe, needs)
        self._open += 1
        return True

    def left(self, pipe: PipeState, run: LoopRun) -> None:
        """``pipe`` is through."""
        self._marks.pop((pipe, run), None)
        if self._through.get(pipe) is run:
            del self._through[pipe]

    def forget(self) -> None:
        """Groups are put together or taken apart."""
        self._marks.clear()
        self._through.clear()
        self._open = 0

    def _needed(self, pipe: PipeState, loop: Loop) -> _Needs | None:
        """What a pipe takes and sets in a loop; None if it moves anything that others slow down."""
        key = pipe, id(loop)
        if key not in self._needs:
            self._needs[key] = _needed(pipe, loop)
            self._loops.append(loop)
        return self._needs[key]


def _is_ahead(run: LoopRun, turn: int) -> bool:
    """Whether somebody is behind a turn, or hasn't come yet, or nobody else is to come."""
    if len(run.members) != run.expected or run.expected == 1:
        return True
    return min([member.turns[run.level] for member in run.members]) <= turn


def _mark(pipe: PipeState, needs: _Needs) -> _Mark:
    held = pipe.group.flags.held
    following = {flag: held[flag][:each] for flag, each in needs.takes.items()}
    lengths = {flag: len(held.get(flag, ())) for flag in needs.sets}
    return _Mark(pipe.clock, pipe.busy, len(pipe.group.record.entries), following, lengths)


def _jump(pipe: PipeState, run: LoopRun, before: _Mark, left: int) -> bool:
    """Do the iterations that are left but for the last, if they are as the one since ``before``."""
    held, record = pipe.group.flags.held, pipe.group.record
    sets = {flag: held[flag][length:] for flag, length in before.held.items()}
    each = sum(map(len, sets.values()))
    period, times = pipe.clock - before.clock, left
    times = min(times, _MOST_FLAGS // each) if each else times
    for flag, taken in before.next.items():
        flags = held[flag][: times * len(taken)]
        if not _in_time(flags, taken, pipe.clock, period):
            return False
    for flag, taken in before.next.items():
        del held[flag][: times * len(taken)]
    for flag, last in sets.items():
        held[flag] += [at + n * period for n in range(1, times + 1) for at in last]
    ahead = times * period
    pipe.clock += ahead
    pipe.started += ahead
    pipe.arrived += ahead
    pipe.busy += times * (pipe.busy - before.busy)
    pipe.turns[run.level] += times
    record.folds.append(Fold(before.entries, len(record.entries), times, period))
    return times == left


def _in_time(flags: list[float], before: list[float], clock: float, period: float) -> bool:
    """Whether all flags are set before their iteration begins, or always at the same moment."""
    each = len(before)
    if all(at <= clock + n // each * period for n, at in enumerate(flags)):
        return True
    return all(
        abs(at - before[n % each] - (n // each + 1) * period) <= _ROUNDING * period
        for n, at in enumerate(flags)
    )


def _needed(pipe: PipeState, loop: Loop) -> _Needs | None:
    steps = pipe.iteration(loop)
    if steps is None or any(step.claim is not None for step, _ in steps):
        return None
    takes: Counter[int] = Counter()
    for step, times in steps:
        for flag in step.waits:
            takes[flag] += times
    sets = {flag for step, _ in steps for flag, _ in step.sets}
    touched = sets | takes.keys()
    if not sets.isdisjoint(takes) or not pipe.group.flags.unordered.isdisjoint(touched):
        return None
    return _Needs(takes, frozenset(sets))
