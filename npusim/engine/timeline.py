"""What happened when: what every core did in all, and its spans for those who want to see them.

Times inside a task are cycles from the start of its first core. Spans aren't kept: a kernel is
played again for those who iterate over them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import merge
from typing import NamedTuple

from npusim.engine.program import Instruction, Pipe, Program, Unit
from npusim.engine.schedule import Part, Repeat, Step, projected

# What a player notes down of a group: which of its pipes did which of its steps from when to when.
Entry = tuple[int, int, float, float]
Chunks = Iterator[Sequence[Entry]]  # those of each pipe in the order of time

LANES = ("SCALAR", "FLOWCTRL", "MTE1", "CUBE", "FIXP", "MTE2", "VECTOR", "MTE3", "CACHEMISS",
         "SCALARLDST", "ALL", "USERMARK")  # fmt: skip
"""Pipes as msopprof's viewer has them from top to bottom."""


def pipe_order(pipe: str) -> tuple[int, str]:
    """Where a pipe stands among others: its place in LANES from 1, others after all of them."""
    return (LANES.index(pipe) + 1 if pipe in LANES else 100), pipe


@dataclass(frozen=True, slots=True)
class Span:
    """One instruction on one pipe of a core."""

    pipe: Pipe
    instruction: Instruction
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Total:
    """One instruction of the program over a whole run of a core: how often, and for how long."""

    pipe: Pipe
    instruction: Instruction
    times: int
    cycles: float


class GroupPlayed(NamedTuple):
    """What a player has found of a group of cores: its last cycle, and how busy its pipes were.

    ``times`` and ``cycles`` tell how often each step was done, one pipe after the other, and for
    how long in all.
    """

    end: float
    busy: dict[Pipe, float]
    times: Sequence[int]
    cycles: Sequence[float]


class Played(NamedTuple):
    """What a player has found of a kernel; ``jumped_cycles`` weren't played but known to repeat."""

    groups: tuple[GroupPlayed, ...]
    jumped_cycles: float = 0.0


class Whole(NamedTuple):
    """The program of a group of cores, what a player has found, and what tells it one by one."""

    program: Program
    played: GroupPlayed
    replay: Callable[[], Chunks]


@dataclass(slots=True)
class CoreRecord:
    """What one group of cores did: its last cycle, and for how many each of its pipes was at work.

    ``whole`` has the rest, which may take as long as playing it.
    """

    blocks: tuple[int, ...]
    unit: Unit
    end: float
    busy: dict[Pipe, float]
    whole: Callable[[], Whole] = field(repr=False)

    @property
    def program(self) -> Program:
        """What told them what to do."""
        return self.whole().program

    def spans(self) -> Iterator[Span]:
        """All spans in the order in which they ended."""
        feed = _Feed(self.whole().replay(), len(self.busy))
        lines = (
            _spans(pipe, steps, feed.line(index))
            for index, (pipe, steps) in enumerate(projected(self.program).items())
        )
        yield from merge(*lines, key=lambda span: span.end)

    def totals(self) -> list[Total]:
        """Every instruction with its executions and its cycles."""
        found: dict[int, Total] = {}
        played = self.whole().played
        all_times, all_cycles = played.times, played.cycles
        place = 0
        for pipe, steps in projected(self.program).items():
            for parts in [step.parts for step in steps]:
                if parts and (times := all_times[place]):
                    alone = len(parts) == 1 and isinstance(parts[0], Instruction)
                    for part, count in _counted(parts, times):
                        spent = all_cycles[place] if alone else count * part.cycles
                        before = found.get(id(part), Total(pipe, part, 0, 0.0))
                        found[id(part)] = Total(
                            pipe, part, before.times + count, before.cycles + spent
                        )
                place += 1
        return list(found.values())


class _Feed:
    """Deals out what a player notes down to the pipes that it belongs to."""

    def __init__(self, chunks: Chunks, pipes: int) -> None:
        self._chunks = chunks
        self._waiting: list[deque[Entry]] = [deque() for _ in range(pipes)]

    def line(self, pipe: int) -> Iterator[Entry]:
        """What one pipe did."""
        waiting = self._waiting[pipe]
        while waiting or self._more():
            while waiting:
                yield waiting.popleft()

    def _more(self) -> bool:
        chunk = next(self._chunks, None)
        for entry in chunk or ():
            self._waiting[entry[0]].append(entry)
        return chunk is not None


def _spans(pipe: Pipe, steps: Sequence[Step], line: Iterator[Entry]) -> Iterator[Span]:
    for _, step, start, end in line:
        parts = steps[step].parts
        if len(parts) == 1 and isinstance(parts[0], Instruction):
            yield Span(pipe, parts[0], start, end)
            continue
        clock = start
        for part in _flatten(parts):
            yield Span(pipe, part, clock, clock + part.cycles)
            clock += part.cycles


def _flatten(parts: Sequence[Part]) -> Iterator[Instruction]:
    for part in parts:
        if isinstance(part, Repeat):
            for _ in range(part.count):
                yield from _flatten(part.parts)
        else:
            yield part


def _counted(parts: Sequence[Part], turns: int) -> Iterator[tuple[Instruction, int]]:
    """The instructions of a burst with how often they run in ``turns`` of it."""
    for part in parts:
        if isinstance(part, Repeat):
            yield from _counted(part.parts, turns * part.count)
        else:
            yield part, turns
