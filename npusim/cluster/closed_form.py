"""The time of a collective without playing it: each move as long as the busiest of its links.

Ranks begin a step when their moves of the one before are done, as they do when it is played; what
moves of different steps take from each other where ranks drift apart is left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from npusim.cluster.moves import Step, Steps
    from npusim.cluster.wires import Wires


def closed_form_us(steps: Steps, wires: Wires) -> float:
    """Microseconds until the last rank has taken its last step."""
    ready: dict[int, float] = {}
    known: dict[Step, list[float]] = {}  # a ring's steps are equal: each is looked at once
    for step in steps:
        durations = known.get(step)
        if durations is None:
            durations = known[step] = _durations(step, wires)
        ends: dict[int, float] = {}
        for move, duration in zip(step, durations, strict=True):
            end = duration + max(ready.get(move.source, 0.0), ready.get(move.target, 0.0))
            for rank in (move.source, move.target):
                ends[rank] = max(ends.get(rank, 0.0), end)
        ready |= ends
    return max(ready.values(), default=0.0)


def _durations(step: Step, wires: Wires) -> list[float]:
    """Microseconds of every move of a step that all ranks begin at once."""
    busy_us: dict[str, dict[float, float]] = {}  # by when moves begin to flow
    for move in step:
        latency_us = wires.latency_us(move)
        for name, rate in wires.used_by(move):
            link = busy_us.setdefault(name, {})
            link[latency_us] = link.get(latency_us, 0.0) + wires.bus_bytes(move) / rate
    over_us = {name: _over_us(link) for name, link in busy_us.items()}
    return [max(over_us[name] for name, _ in wires.used_by(move)) for move in step]


def _over_us(link: dict[float, float]) -> float:
    """When a link that is shared evenly is done with what begins to flow at some times."""
    over_us = after_us = 0.0
    for latency_us in sorted(link, reverse=True):
        after_us += link[latency_us]
        over_us = max(over_us, latency_us + after_us)
    return over_us
