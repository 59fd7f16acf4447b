"""What a pipe executes as one flat list of steps, so that its place in a program is a number."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING

from npusim.engine.program import Loop
from npusim.engine.schedule import Burst, PipeLoop

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from npusim.engine.program import Transfer
    from npusim.engine.schedule import Part, PipeNode


_NO_LOOP = Loop(0)


class Kind(IntEnum):
    """What a step does."""

    WORK = 0
    ENTER = 1
    TURN = 2
    MEET = 3
    STOP = 4


@dataclass(slots=True, eq=False)
class Step:
    """One step of a pipe.

    WORK waits for flags, is busy for ``cycles`` and then moves the bytes of ``transfer``; ``sets``
    are the flags it sets, each with the cycles until it arrives. ENTER begins a loop, TURN ends one
    of its iterations and goes back to the step after ``target``. MEET is a barrier.
    """

    kind: Kind
    waits: tuple[int, ...] = ()
    cycles: float = 0.0
    transfer: Transfer | None = None
    sets: tuple[tuple[int, float], ...] = ()
    parts: tuple[Part, ...] = ()
    loop: Loop = field(default_factory=lambda: _NO_LOOP)
    target: int = -1


def flatten(nodes: Sequence[PipeNode], delays: Mapping[int, float]) -> list[Step]:
    """The steps of a pipe, the last one a STOP; ``delays`` are those of flags between cores."""
    steps: list[Step] = []
    _append(steps, nodes, delays)
    steps.append(Step(Kind.STOP))
    return steps


def _append(steps: list[Step], nodes: Sequence[PipeNode], delays: Mapping[int, float]) -> None:
    for node in nodes:
        if isinstance(node, Burst):
            steps.append(_work(node, delays))
        elif isinstance(node, PipeLoop):
            first = len(steps)
            steps.append(Step(Kind.ENTER, loop=node.loop))
            _append(steps, node.body, delays)
            steps.append(Step(Kind.TURN, loop=node.loop, target=first + 1))
        else:
            steps.append(Step(Kind.MEET))


def _work(burst: Burst, delays: Mapping[int, float]) -> Step:
    latency = burst.transfer.latency if burst.transfer is not None else 0.0
    sets = tuple((flag, latency + delays.get(flag, 0.0)) for flag in burst.sets)
    transfer = burst.transfer.transfer if burst.transfer is not None else None
    if transfer is not None and transfer.traffic_bytes <= 0:
        transfer = None
    return Step(Kind.WORK, burst.waits, burst.cycles, transfer, sets, burst.parts)
