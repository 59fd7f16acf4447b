"""A collective played: every rank takes its steps in order, and moves share links as they meet.

The clock is SimPy's in microseconds, and bandwidth is shared as it is between the cores of a chip.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import simpy

from npusim.engine.claims import Claim
from npusim.engine.clock import Alarm
from npusim.engine.sharing import SharedBandwidth

if TYPE_CHECKING:
    from npusim.cluster.moves import Move, Steps
    from npusim.cluster.wires import Wires


def played_us(steps: Steps, wires: Wires) -> float:
    """Microseconds until the last rank has taken its last step."""
    rates = {name: rate for step in steps for move in step for name, rate in wires.used_by(move)}
    return _Play(wires, rates).run(steps)


class _Play:
    def __init__(self, wires: Wires, rates: dict[str, float]) -> None:
        self._wires = wires
        self._env = simpy.Environment()
        self._links: SharedBandwidth[simpy.Event] = SharedBandwidth(self._env, rates, self._ended)
        self._settling = False

    def run(self, steps: Steps) -> float:
        """A rank begins a step when its moves of the one before are done."""
        ready: dict[int, simpy.Event] = {}
        for step in steps:
            mine: dict[int, list[simpy.Event]] = {}
            for move in step:
                ends = [ready[rank] for rank in (move.source, move.target) if rank in ready]
                done = self._env.process(self._move(move, ends))
                for rank in (move.source, move.target):
                    mine.setdefault(rank, []).append(done)
            ready |= {rank: simpy.AllOf(self._env, moves) for rank, moves in mine.items()}
        self._env.run()
        return float(self._env.now)

    def _move(self, move: Move, ready: list[simpy.Event]) -> Generator[simpy.Event, Any, None]:
        yield simpy.AllOf(self._env, ready)
        yield self._env.timeout(self._wires.latency_us(move))
        used = self._wires.used_by(move)
        links = dict.fromkeys((name for name, _ in used), 1.0)
        claim = Claim(1, min(rate for _, rate in used), (*links.items(),))
        done = self._env.event()
        self._links.add(self._wires.bus_bytes(move), claim, done)
        self._settle_soon()
        yield done

    def _settle_soon(self) -> None:
        """Share out bandwidth once for all moves that begin at this moment."""
        if not self._settling:
            self._settling = True
            Alarm(self._env, 0, self._settle)

    def _settle(self, _: Alarm) -> None:
        self._settling = False
        self._links.settle()

    def _ended(self, moves: list[simpy.Event]) -> None:
        for done in moves:
            done.succeed()
        self._links.settle()
