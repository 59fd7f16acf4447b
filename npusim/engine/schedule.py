"""Programs as each pipe sees them: one flat list of steps, so that its place is a number.

Back-to-back work is merged into bursts, which changes no start or end time: only instructions of
one pipe with no flag and no memory traffic between them share a burst.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from npusim.engine.program import Instruction, Loop, Node, Pipe, Program


class Kind(IntEnum):
    """What a step does."""

    WORK = 0
    ENTER = 1
    TURN = 2
    MEET = 3
    STOP = 4


_WORK, _ENTER, _TURN, _MEET, _STOP = Kind


@dataclass(frozen=True, slots=True)
class Repeat:
    """Parts of a burst that follow each other ``count`` times."""

    count: int
    parts: tuple[Part, ...]


Part = Instruction | Repeat


@dataclass(slots=True, eq=False)
class Step:
    """One step of a pipe.

    WORK is a burst: it waits for flags, is busy for ``cycles``, and sets flags. ``parts`` are its
    instructions in order, for the timeline; a ``mover`` among them is alone and moves bytes, and
    without any it sets flags when all that the pipe moved before has arrived. ENTER begins a loop
    of so many ``iterations``, TURN ends one of them and goes back to the step ``target``. MEET is a
    barrier, STOP the end.
    """

    kind: Kind
    waits: tuple[int, ...]
    cycles: float
    sets: tuple[int, ...]
    parts: list[Part]
    mover: Instruction | None = None
    iterations: int = 0
    target: int = -1


# Of all pipes, since they are all alike.
MEETING, _END = Step(_MEET, (), 0.0, (), []), Step(_STOP, (), 0.0, (), [])


def projected(program: Program) -> dict[Pipe, list[Step]]:
    """What each of its pipes executes of a program that doesn't change any more."""
    found: dict[Pipe, list[Step]] = {pipe: [] for pipe in program.totals().pipes}
    _project(found, program.body)
    for steps in found.values():
        steps.append(_END)
    return found


def _project(found: dict[Pipe, list[Step]], nodes: Sequence[Node]) -> None:
    for node in nodes:
        if type(node) is Instruction:
            steps, waits, cycles = found[node.pipe], node.waits, node.cycles
            if node.transfer is not None:
                steps.append(Step(_WORK, waits, cycles, node.sets, [node], node))
                continue
            marks = not (cycles or node.name)  # as `is_marker` says, quicker
            # A marker only adds flags to set at the same moment.
            if waits or (last := _open(steps, marks)) is None:
                steps.append(Step(_WORK, waits, cycles, node.sets, [] if marks else [node], None))
                continue
            last.sets += node.sets
            if not marks:
                last.cycles += cycles
                last.parts.append(node)
        elif type(node) is Loop:
            enter = Step(_ENTER, (), 0.0, (), [], None, node.count)
            begun = [*map(len, found.values())]
            for steps in found.values():
                steps.append(enter)
            _project(found, node.body)
            for steps, place in zip(found.values(), begun, strict=True):
                if steps[-1] is enter:
                    steps.pop()
                else:
                    _close(steps, place + 1, node.count)
        else:
            for steps in found.values():
                steps.append(MEETING)


def _open(steps: list[Step], marks: bool) -> Step | None:
    """The burst that goes on with what waits for no flag; None where another begins."""
    if not steps or (last := steps[-1]).kind is not _WORK:
        return None
    return last if marks or not (last.sets or last.mover is not None) else None


def _close(steps: list[Step], first: int, count: int) -> None:
    """End the loop whose body began at ``first``; one burst that nobody waits for is no loop."""
    only = steps[-1]
    if (
        len(steps) > first + 1
        or only.waits
        or only.sets
        or only.mover is not None
        or (only.kind is not _WORK)
    ):
        steps.append(Step(_TURN, (), 0.0, (), [], None, count, first))
        return
    del steps[first - 1 :]
    only.cycles *= count
    only.parts = [Repeat(count, tuple(only.parts))]
    if (last := _open(steps, False)) is None:
        steps.append(only)
    else:
        last.cycles += only.cycles
        last.parts += only.parts
