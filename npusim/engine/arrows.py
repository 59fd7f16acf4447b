"""Who waited for whom: the flags between the pipes of one core, as arrows between its spans.

A flag has one setting and one waiting pipe and both run in order, so the n-th wait takes the n-th
set; sets that a flag starts with come from nowhere. Flags between cores are left out, as are
barriers: both ends of an arrow are on one core.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

from npusim.engine.program import Instruction, Loop, Node, Pipe

if TYPE_CHECKING:
    from npusim.engine.timeline import CoreRecord, Span


def linked(record: CoreRecord) -> Iterator[tuple[Span, tuple[Span, ...]]]:
    """All spans of a core in the order in which they ended, each with those it waited for."""
    links = _Links(record)
    for span in record.spans():
        yield span, links.follow(span)


class _Links:
    """The flags of one core while its spans go by; None is a set that no span stands behind."""

    def __init__(self, record: CoreRecord) -> None:
        program = record.program
        self._between_cores = program.delays
        self._sets: dict[int, deque[Span | None]] = {
            flag: deque([None] * count) for flag, count in enumerate(program.flags) if count
        }
        self._streams = {pipe: _Stream(program.body, pipe) for pipe in record.busy}
        self._last: dict[Pipe, Span] = {}
        for pipe in self._streams:
            self._pass_markers(pipe, waiting=False)

    def follow(self, span: Span) -> tuple[Span, ...]:
        """The spans whose flags this one took; None of them if its program isn't known."""
        stream = self._streams[span.pipe]
        self._pass_markers(span.pipe, waiting=True)
        instruction = stream.take()
        if instruction is None:
            return ()
        origins = stream.inherited + [self._take(flag) for flag in instruction.waits]
        stream.inherited = []
        self._last[span.pipe] = span
        self._raise(instruction.sets, span)
        self._pass_markers(span.pipe, waiting=False)
        return tuple({id(origin): origin for origin in origins if origin is not None}.values())

    def _pass_markers(self, pipe: Pipe, *, waiting: bool) -> None:
        """Go past entries without a span; those that wait only if ``waiting``."""
        stream = self._streams[pipe]
        while (marker := stream.head) is not None and marker.is_marker:
            if marker.waits and not waiting:
                return
            stream.take()
            stream.inherited += [self._take(flag) for flag in marker.waits]
            self._raise(marker.sets, self._last.get(pipe))

    def _raise(self, flags: tuple[int, ...], span: Span | None) -> None:
        for flag in flags:
            if flag not in self._between_cores:
                self._sets.setdefault(flag, deque()).append(span)

    def _take(self, flag: int) -> Span | None:
        if flag in self._between_cores:
            return None
        sets = self._sets.setdefault(flag, deque())
        if not sets:  # the setting pipe has only waited for something itself, and has no span yet
            for pipe in self._streams:
                self._pass_markers(pipe, waiting=True)
        return sets.popleft() if sets else None


class _Stream:
    """The instructions of one pipe in order, markers included; loops are unfolded one by one."""

    def __init__(self, body: list[Node], pipe: Pipe) -> None:
        self._instructions = _instructions(body, pipe)
        self.head = next(self._instructions, None)
        self.inherited: list[Span | None] = []

    def take(self) -> Instruction | None:
        """The next instruction."""
        taken, self.head = self.head, next(self._instructions, None)
        return taken


def _instructions(nodes: list[Node], pipe: Pipe) -> Iterator[Instruction]:
    for node in nodes:
        if isinstance(node, Instruction):
            if node.pipe is pipe:
                yield node
        elif isinstance(node, Loop):
            for _ in range(node.count):
                yield from _instructions(node.body, pipe)
