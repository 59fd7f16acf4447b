"""What a pipe executes as one flat list of steps, so that its place in a program is a number."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING

from npusim.engine.program import Loop, Transfer
from npusim.engine.schedule import Burst, Part, PipeLoop, PipeNode
from npusim.engine.sharing import Claim

if TYPE_CHECKING:
    from npusim.engine.machine import Treatment


_NO_LOOP = Loop(0)


class Kind(IntEnum):
    """What a step does."""

    WORK = 0
    ENTER = 1
    TURN = 2
    MEET = 3
    STOP = 4
    PART = 5


@dataclass(slots=True, eq=False)
class Step:
    """One step of a pipe.

    WORK waits for flags, is busy for ``cycles`` and then moves ``bus_bytes`` on each core, taking
    of shared bandwidth what ``claim`` says (None: it moves nothing); ``sets`` are the flags it
    sets, each with the cycles until it arrives. A transfer is done ``latency`` cycles after its
    last bytes have left, while the pipe goes on. ENTER begins a loop, TURN ends one of its
    iterations and goes back to the step after ``target``. MEET is a barrier. PART is where
    groups that one stands for don't do the same any more; ``uneven`` loops end sooner in some.
    With a ``unit_flag`` work is under way from its issue on, while it still waits for flags.
    """

    kind: Kind
    waits: tuple[int, ...] = ()
    cycles: float = 0.0
    bus_bytes: float = 0.0
    claim: Claim | None = None
    sets: tuple[tuple[int, float], ...] = ()
    latency: float = 0.0
    parts: tuple[Part, ...] = ()
    loop: Loop = field(default_factory=lambda: _NO_LOOP)
    target: int = -1
    uneven: bool = False
    unit_flag: bool = False

    def claimed(self, claim: Claim) -> Step:
        """The same work with another claim."""
        return Step(
            self.kind,
            self.waits,
            self.cycles,
            self.bus_bytes,
            claim,
            self.sets,
            self.latency,
            self.parts,
            self.loop,
            self.target,
            self.uneven,
            self.unit_flag,
        )

    def looped(self, loop: Loop, *, uneven: bool) -> Step:
        """The beginning or end of another loop."""
        return Step(self.kind, loop=loop, target=self.target, uneven=uneven)


def flatten(
    nodes: Sequence[PipeNode],
    delays: Mapping[int, float],
    cores: int,
    treated: Mapping[Transfer, Treatment],
) -> list[Step]:
    """The steps of a pipe of ``cores`` cores, the last one a STOP.

    ``delays`` are those of flags between cores, ``treated`` says how memory treats each transfer.
    """
    steps: list[Step] = []
    _append(steps, nodes, lambda burst: _work(burst, delays, cores, treated))
    steps.append(Step(Kind.STOP))
    return steps


def _append(steps: list[Step], nodes: Sequence[PipeNode], work: Callable[[Burst], Step]) -> None:
    for node in nodes:
        if isinstance(node, Burst):
            steps.append(work(node))
        elif isinstance(node, PipeLoop):
            first = len(steps)
            steps.append(Step(Kind.ENTER, loop=node.loop))
            _append(steps, node.body, work)
            steps.append(Step(Kind.TURN, loop=node.loop, target=first + 1))
        else:
            steps.append(Step(Kind.MEET))


def _work(
    burst: Burst,
    delays: Mapping[int, float],
    cores: int,
    treated: Mapping[Transfer, Treatment],
) -> Step:
    latency, bus_bytes, claim, transfer, unit_flag = 0.0, 0.0, None, None, False
    if burst.transfer is not None:
        unit_flag = burst.transfer.unit_flag
        latency, transfer = burst.transfer.latency, burst.transfer.transfer
    if transfer is not None and transfer.traffic_bytes > 0:
        bus_bytes, treatment = transfer.bus_bytes, treated[transfer]
        latency += treatment.late
        claim = Claim.of(cores, treatment.ceiling(transfer), treatment.demand(transfer))
    sets = tuple([(flag, latency + delays.get(flag, 0.0)) for flag in burst.sets])
    parts = tuple(burst.parts)
    return Step(
        Kind.WORK, burst.waits, burst.cycles, bus_bytes, claim, sets, latency, parts, _NO_LOOP,
        unit_flag=unit_flag,
    )  # fmt: skip
