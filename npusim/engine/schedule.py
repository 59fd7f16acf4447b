"""Programs as each pipe sees them: its own instructions, back-to-back work merged into bursts.

Merging changes no start or end time: only instructions of one pipe with no flag and no memory
traffic between them share a burst.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from npusim.engine.program import Barrier, Instruction, Loop, Node, Pipe, Program

_PIPES = tuple(Pipe)


@dataclass(frozen=True, slots=True)
class Repeat:
    """Parts of a burst that follow each other ``count`` times."""

    count: int
    parts: tuple[Part, ...]


Part = Instruction | Repeat


@dataclass(slots=True, eq=False)
class Burst:
    """Back-to-back work of one pipe: waits, then ``cycles`` of occupancy, then sets.

    ``parts`` are the instructions in order, for the timeline; ``transfer`` is set for a single
    memory instruction.
    """

    cycles: float
    waits: tuple[int, ...] = ()
    sets: tuple[int, ...] = ()
    parts: list[Part] = field(default_factory=list)
    transfer: Instruction | None = None


@dataclass(slots=True)
class PipeLoop:
    """A loop with the part of its body that concerns one pipe."""

    loop: Loop
    body: tuple[PipeNode, ...]


PipeNode = Burst | PipeLoop | Barrier


def pipes_of(program: Program) -> tuple[Pipe, ...]:
    """The pipes a program uses, in the order of :class:`Pipe`."""
    used: set[Pipe] = set()
    _note_pipes(program.body, used)
    return tuple([pipe for pipe in _PIPES if pipe in used])


def projected(program: Program) -> dict[Pipe, list[PipeNode]]:
    """What each of its pipes executes of a program that doesn't change any more."""
    return project(program.body, pipes_of(program))


def project(nodes: Sequence[Node], pipes: Sequence[Pipe]) -> dict[Pipe, list[PipeNode]]:
    """What each of ``pipes`` executes of ``nodes``."""
    found: dict[Pipe, list[PipeNode]] = {pipe: [] for pipe in pipes}
    for node in nodes:
        if isinstance(node, Instruction):
            if node.pipe in found:
                _append(found[node.pipe], node)
        elif isinstance(node, Loop):
            for pipe, body in project(node.body, pipes).items():
                if body:
                    _append_loop(found[pipe], node, body)
        else:
            for nodes_of_pipe in found.values():
                nodes_of_pipe.append(node)
    return found


def _note_pipes(nodes: Sequence[Node], used: set[Pipe]) -> None:
    for node in nodes:
        if isinstance(node, Instruction):
            used.add(node.pipe)
        elif isinstance(node, Loop):
            _note_pipes(node.body, used)


def _append(result: list[PipeNode], node: Instruction) -> None:
    last = result[-1] if result else None
    moves = node.transfer is not None
    marks = not moves and node.cycles == 0 and not node.name  # as `is_marker` says, quicker
    if isinstance(last, Burst) and _can_merge(last, node.waits, moves=moves, marks=marks):
        last.cycles += node.cycles
        last.sets += node.sets
    else:
        last = Burst(node.cycles, node.waits, node.sets)
        result.append(last)
    if not marks:
        last.parts.append(node)
    if moves:
        last.transfer = node


def _can_merge(first: Burst, waits: Sequence[int], *, moves: bool, marks: bool) -> bool:
    if waits:
        return False
    if marks:
        return True  # a marker only adds flags to set at the same moment
    return not first.sets and first.transfer is None and not moves


def _append_loop(result: list[PipeNode], loop: Loop, body: list[PipeNode]) -> None:
    only = body[0]
    if (
        len(body) > 1
        or not isinstance(only, Burst)
        or (only.waits or only.sets or only.transfer is not None)
    ):
        result.append(PipeLoop(loop, tuple(body)))
        return
    cycles, turns = only.cycles * loop.count, Repeat(loop.count, tuple(only.parts))
    last = result[-1] if result else None
    if isinstance(last, Burst) and _can_merge(last, (), moves=False, marks=False):
        last.cycles += cycles
        last.parts.append(turns)
    else:
        result.append(Burst(cycles, parts=[turns]))
