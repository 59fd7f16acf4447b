"""What a pipe executes as its player sees it: steps with the bytes that they move and how."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from npusim.engine.claims import Claim

if TYPE_CHECKING:
    from npusim.engine.machine import Treatment
    from npusim.engine.program import Instruction, Transfer
    from npusim.engine.schedule import Kind, Part, Step


class TimedStep(NamedTuple):
    """A step with what memory makes of it.

    WORK then moves ``bus_bytes`` on each core, taking of shared bandwidth what ``claim`` says
    (None: it moves nothing); ``sets`` are the flags it sets, each with the cycles until it arrives.
    A transfer is done ``latency`` cycles after its last bytes have left, while the pipe goes on.
    With a ``unit_flag`` work is under way from its issue on, while it still waits for flags. Its
    first time takes ``first_cycles`` more.
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
    first_cycles: float = 0.0


def timed(
    steps: Sequence[Step],
    delays: Mapping[int, float],
    cores: int,
    treated: Mapping[Transfer, Treatment],
) -> list[TimedStep]:
    """The steps of a pipe of ``cores`` cores.

    ``delays`` are those of flags between cores, ``treated`` says how memory treats each transfer.
    """
    found: list[TimedStep] = []
    for step in steps:
        first, nbytes, claim, latency, unit = 0.0, 0.0, None, 0.0, False
        if step.mover is not None:
            first = step.mover.first_cycles
            nbytes, claim, latency, unit = moved_by(step.mover, cores, treated)
        sets = tuple([(flag, latency + delays.get(flag, 0.0)) for flag in step.sets])
        found.append(
            TimedStep(
                step.kind, step.waits, step.cycles, nbytes, claim, sets, latency,
                tuple(step.parts), step.iterations, step.target, unit, first,
            )
        )  # fmt: skip
    return found


def unordered(setters: Iterable[tuple[int, object]]) -> frozenset[int]:
    """The flags that aren't set in the order in which they arrive, by who sets each.

    Several pipes set them, or one at different distances: what is set later may arrive earlier.
    """
    told = set(setters)
    return frozenset([flag for flag, _ in told.difference(dict(told).items())])


def moved_by(
    mover: Instruction, cores: int, treated: Mapping[Transfer, Treatment]
) -> tuple[float, Claim | None, float, bool]:
    """The bytes of an instruction that moves some, their claim, its latency, and its unit flag."""
    transfer = mover.transfer
    if transfer is None or transfer.traffic_bytes <= 0:
        return 0.0, None, mover.latency, mover.unit_flag
    treatment = treated[transfer]
    claim = Claim(cores, treatment.ceiling(transfer), treatment.demand(transfer))
    return transfer.bus_bytes, claim, mover.latency + treatment.late, mover.unit_flag
