"""What the first transfers of a core wait for while all cores of a launch fetch their code.

Everybody wants the same lines of code, one slice of L2 has them and serves one core after the
other. A transfer is spread over all slices: the more bytes it has, the likelier that some of them
stand in that line. Whoever has stood in it once finds it gone.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from npusim.engine.program import Program


@dataclass(frozen=True, slots=True)
class Queue:
    """The cycles that a core's loads and stores wait in all.

    Every ``spread_bytes`` that they move bring them all but 1/e of what is left; the first one
    brings all of it where that is 0.
    """

    load_cycles: float
    store_cycles: float
    spread_bytes: float

    def hold_up(self, program: Program) -> float:
        """Let the first transfers of a core's ``program`` wait; how many cycles its loads do.

        Those in loops wait in their first turn, for what all their turns bring.
        """
        left = [1.0, 1.0]  # of the waits: of loads, of stores
        for mover, times in program.totals().movers:
            if (transfer := mover.transfer) is None or not times:
                continue
            write, share = transfer.write, left[transfer.write]
            if share and self.spread_bytes:
                share *= 1.0 - exp(-times * transfer.traffic_bytes / self.spread_bytes)
            left[write] -= share
            mover.first_cycles = share * (self.store_cycles if write else self.load_cycles)
        return (1.0 - left[False]) * self.load_cycles
