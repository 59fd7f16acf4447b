"""Programs as each pipe sees them: its own instructions, back-to-back work merged into bursts.

Merging changes no start or end time: only instructions of one pipe with no flag and no memory
traffic between them share a burst.
"""

from __future__ import annotations

from dataclasses import dataclass

from npusim.engine.program import Barrier, Instruction, Loop, Node, Pipe, Program


@dataclass(frozen=True, slots=True)
class Repeat:
    """Parts of a burst that follow each other ``count`` times."""

    count: int
    parts: tuple[Part, ...]


Part = Instruction | Repeat


@dataclass(frozen=True, slots=True)
class Burst:
    """Back-to-back work of one pipe: waits, then ``cycles`` of occupancy, then sets.

    ``parts`` are the instructions in order, for the timeline; ``transfer`` is set for a single
    memory instruction.
    """

    cycles: float
    waits: tuple[int, ...]
    sets: tuple[int, ...]
    parts: tuple[Part, ...]
    transfer: Instruction | None = None


@dataclass(frozen=True, slots=True)
class PipeLoop:
    """A loop with the part of its body that concerns one pipe."""

    loop: Loop
    body: tuple[PipeNode, ...]


PipeNode = Burst | PipeLoop | Barrier


def pipes_of(program: Program) -> tuple[Pipe, ...]:
    """The pipes a program uses, in the order of :class:`Pipe`."""
    used = {instruction.pipe for instruction, _ in program.instructions()}
    return tuple(pipe for pipe in Pipe if pipe in used)


def project(nodes: list[Node], pipe: Pipe) -> tuple[PipeNode, ...]:
    """What ``pipe`` executes of ``nodes``."""
    result: list[PipeNode] = []
    for node in nodes:
        if isinstance(node, Barrier):
            result.append(node)
        elif isinstance(node, Loop):
            _append_loop(result, node, pipe)
        elif node.pipe is pipe:
            _append_burst(result, _burst(node))
    return tuple(result)


def _burst(node: Instruction) -> Burst:
    parts: tuple[Part, ...] = () if node.is_marker else (node,)
    return Burst(
        node.cycles, node.waits, node.sets, parts, node if node.transfer is not None else None
    )


def _append_burst(result: list[PipeNode], burst: Burst) -> None:
    last = result[-1] if result else None
    if isinstance(last, Burst) and _can_merge(last, burst):
        transfer = last.transfer or burst.transfer
        result[-1] = Burst(
            last.cycles + burst.cycles,
            last.waits + burst.waits,
            last.sets + burst.sets,
            last.parts + burst.parts,
            transfer,
        )
    else:
        result.append(burst)


def _can_merge(first: Burst, second: Burst) -> bool:
    if second.waits:
        return False
    if not second.parts:
        return True  # a marker only adds flags to set at the same moment
    return not first.sets and first.transfer is None and second.transfer is None


def _append_loop(result: list[PipeNode], loop: Loop, pipe: Pipe) -> None:
    body = project(loop.body, pipe)
    if not body:
        return
    only = body[0]
    if (
        len(body) == 1
        and isinstance(only, Burst)
        and not (only.waits or only.sets or only.transfer)
    ):
        _append_burst(
            result, Burst(only.cycles * loop.count, (), (), (Repeat(loop.count, only.parts),))
        )
    else:
        result.append(PipeLoop(loop, body))
