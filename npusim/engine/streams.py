"""What a pipe executes as one flat list of steps, so that its place in a program is a number."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from npusim.engine.claims import Claim
from npusim.engine.schedule import Burst, Part, PipeLoop, PipeNode

if TYPE_CHECKING:
    from npusim.engine.machine import Treatment
    from npusim.engine.program import Transfer


class Kind(IntEnum):
    """What a step does."""

    WORK = 0
    ENTER = 1
    TURN = 2
    MEET = 3
    STOP = 4


class Step(NamedTuple):
    """One step of a pipe.

    WORK waits for flags, is busy for ``cycles`` and then moves ``bus_bytes`` on each core, taking
    of shared bandwidth what ``claim`` says (None: it moves nothing); ``sets`` are the flags it
    sets, each with the cycles until it arrives. A transfer is done ``latency`` cycles after its
    last bytes have left, while the pipe goes on. ENTER begins a loop of so many ``iterations``,
    TURN ends one of them and goes back to the step ``target``. MEET is a barrier.
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
    iterations: int = 0
    target: int = -1
    unit_flag: bool = False


_MEET, _STOP = Step(Kind.MEET), Step(Kind.STOP)


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

    def work(burst: Burst) -> Step:
        nbytes, claim, sets, latency, unit = moved_by(burst, delays, cores, treated)
        parts = tuple(burst.parts)
        done = burst.waits, burst.cycles, nbytes, claim, tuple(sets), latency, parts
        return Step(Kind.WORK, *done, unit_flag=unit)

    _append(steps, nodes, work)
    steps.append(_STOP)
    return steps


def unordered(setters: Iterable[tuple[int, object]]) -> frozenset[int]:
    """The flags that aren't set in the order in which they arrive, by who sets each.

    Several pipes set them, or one at different distances: what is set later may arrive earlier.
    """
    first: dict[int, object] = {}
    return frozenset(flag for flag, setter in setters if first.setdefault(flag, setter) != setter)


def _append(steps: list[Step], nodes: Sequence[PipeNode], work: Callable[[Burst], Step]) -> None:
    for node in nodes:
        if isinstance(node, Burst):
            steps.append(work(node))
        elif isinstance(node, PipeLoop):
            count = node.loop.count
            steps.append(Step(Kind.ENTER, iterations=count))
            first = len(steps)
            _append(steps, node.body, work)
            steps.append(Step(Kind.TURN, iterations=count, target=first))
        else:
            steps.append(_MEET)


def moved_by(
    burst: Burst,
    delays: Mapping[int, float],
    cores: int,
    treated: Mapping[Transfer, Treatment],
) -> tuple[float, Claim | None, Sequence[tuple[int, float]], float, bool]:
    """A step's bytes and claim, the flags that it sets, its latency, and its unit flag."""
    latency, bus_bytes, claim, transfer, unit_flag = 0.0, 0.0, None, None, False
    if burst.transfer is not None:
        unit_flag = burst.transfer.unit_flag
        latency, transfer = burst.transfer.latency, burst.transfer.transfer
    if transfer is not None and transfer.traffic_bytes > 0:
        bus_bytes, treatment = transfer.bus_bytes, treated[transfer]
        latency += treatment.late
        claim = Claim.of(cores, treatment.ceiling(transfer), treatment.demand(transfer))
    sets = [(flag, latency + delays.get(flag, 0.0)) for flag in burst.sets]
    return bus_bytes, claim, sets, latency, unit_flag
