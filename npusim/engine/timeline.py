"""What happened when: the spans the engine recorded, with repeated stretches kept folded.

Times inside a task are cycles from the start of its first core. A jump over ``times`` repetitions
of a period is kept as a :class:`Fold` and unfolded only when somebody iterates.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from heapq import merge

from npusim.engine.program import VECTOR, Instruction, Pipe, Program, Unit
from npusim.engine.schedule import Part, Repeat


@dataclass(frozen=True, slots=True)
class Span:
    """One instruction on one pipe of a core."""

    pipe: Pipe
    instruction: Instruction
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Fold:
    """Entries ``first:last`` of the record happen ``times`` more times, ``period`` cycles apart."""

    first: int
    last: int
    times: int
    period: float


@dataclass(frozen=True, slots=True)
class Total:
    """One instruction of the program over a whole run of a core: how often, and for how long."""

    pipe: Pipe
    instruction: Instruction
    times: int
    cycles: float


# What the player notes down: parts of a burst, when it started and when it ended.
Entry = tuple[Pipe, tuple[Part, ...], float, float]


@dataclass(slots=True)
class CoreRecord:
    """Everything one group of cores did, and the program that told them to."""

    blocks: tuple[int, ...]
    unit: Unit = VECTOR
    program: Program = field(default_factory=Program, repr=False)
    entries: list[Entry] = field(default_factory=list)
    folds: list[Fold] = field(default_factory=list)
    busy: dict[Pipe, float] = field(default_factory=dict)
    end: float = 0.0

    def spans(self) -> Iterator[Span]:
        """All spans in the order in which they ended, repetitions unfolded."""
        lines = (self._line(pipe).unfold() for pipe in self.busy)
        yield from merge(*lines, key=lambda span: span.end)

    def totals(self) -> list[Total]:
        """Every instruction with its executions and its cycles; nothing is unfolded for it."""
        return [total for pipe in self.busy for total in self._line(pipe).totals()]

    def _line(self, pipe: Pipe) -> _Line:
        places = [place for place, entry in enumerate(self.entries) if entry[0] is pipe]
        folds = [
            replace(
                fold, first=bisect_left(places, fold.first), last=bisect_left(places, fold.last)
            )
            for fold in self.folds
        ]
        return _Line([self.entries[place] for place in places], folds)


@dataclass(frozen=True, slots=True)
class _Line:
    """What one pipe did, in the order of time."""

    entries: list[Entry]
    folds: list[Fold]

    def unfold(self) -> Iterator[Span]:
        """All spans, repetitions unfolded."""
        yield from self._unfold(0, len(self.entries), len(self.folds), 0.0)

    def totals(self) -> list[Total]:
        """Every instruction with its executions and its cycles."""
        times: dict[int, int] = {}
        cycles: dict[int, float] = {}
        known: dict[int, tuple[Pipe, Instruction]] = {}
        for (pipe, parts, start, end), turns in zip(self.entries, self._turns(), strict=True):
            for part, count in _counted(parts, turns):
                key = id(part)
                known[key] = (pipe, part)
                alone = len(parts) == 1 and part is parts[0]
                times[key] = times.get(key, 0) + count
                taken = count * (end - start if alone else part.cycles)
                cycles[key] = cycles.get(key, 0.0) + taken
        return [Total(*known[key], times[key], cycles[key]) for key in known]

    def _turns(self) -> list[int]:
        """How often every entry happens: once, and once more for each turn of a fold around it."""
        turns = [1] * len(self.entries)
        for fold in self.folds:
            for index in range(fold.first, fold.last):
                turns[index] *= 1 + fold.times
        return turns

    def _unfold(self, first: int, last: int, folds: int, shift: float) -> Iterator[Span]:
        """Entries ``first:last`` and what the first ``folds`` folds repeat of them."""
        position = first
        for index, fold in enumerate(self.folds[:folds]):
            if not first < fold.last <= last or fold.first == fold.last:
                continue
            yield from self._plain(position, fold.last, shift)
            for turn in range(1, fold.times + 1):
                yield from self._unfold(fold.first, fold.last, index, shift + turn * fold.period)
            position = fold.last
        yield from self._plain(position, last, shift)

    def _plain(self, first: int, last: int, shift: float) -> Iterator[Span]:
        for pipe, parts, start, end in self.entries[first:last]:
            if len(parts) == 1 and isinstance(parts[0], Instruction):
                yield Span(pipe, parts[0], start + shift, end + shift)
                continue
            clock = start + shift
            for part in _flatten(parts):
                yield Span(pipe, part, clock, clock + part.cycles)
                clock += part.cycles


def _flatten(parts: tuple[Part, ...]) -> Iterator[Instruction]:
    for part in parts:
        if isinstance(part, Repeat):
            for _ in range(part.count):
                yield from _flatten(part.parts)
        else:
            yield part


def _counted(parts: tuple[Part, ...], turns: int) -> Iterator[tuple[Instruction, int]]:
    """The instructions of a burst with how often they run in ``turns`` of it."""
    for part in parts:
        if isinstance(part, Repeat):
            yield from _counted(part.parts, turns * part.count)
        else:
            yield part, turns
