"""What the first transfers of a core wait for while all cores of a launch fetch their code.

Everybody wants the same lines of code, one slice of L2 has them and serves one core after the
other. A transfer is spread over all slices: the more bytes it has, the likelier that some of them
stand in that line. Whoever has stood in it once finds it gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp

from npusim.engine.program import Instruction, Loop, Node

_NOTHING = 1e-9  # of the wait that is left: a loop needs no turn by itself for less


@dataclass(frozen=True, slots=True)
class Queue:
    """The cycles that a core's loads and stores wait in all.

    Every ``spread_bytes`` that they move bring them all but 1/e of what is left; the first one
    brings all of it where that is 0.
    """

    load_cycles: float
    store_cycles: float
    spread_bytes: float

    def behind(self, nodes: Sequence[Node]) -> tuple[list[Node], float]:
        """``nodes`` with the waits of their first transfers, and how many cycles loads wait.

        Loops run their first turn apart, which waits for what all their turns bring.
        """
        core = _Core(self)
        found = core.behind(nodes, 1)
        return found, (1.0 - core.left[False]) * self.load_cycles


class _Core:
    """One core, and what is left of its waits: for loads, for stores."""

    def __init__(self, queue: Queue) -> None:
        self._queue, self.left = queue, [1.0, 1.0]

    def behind(self, nodes: Sequence[Node], turns: int) -> list[Node]:
        """``nodes``, the first of ``turns`` times that they run, with the waits of all of them."""
        found: list[Node] = []
        for node in nodes:
            if isinstance(node, Loop):
                found += self._first_turn_apart(node, turns)
            elif isinstance(node, Instruction):
                found.append(self._waiting(node, turns))
            else:
                found.append(node)
        return found

    def _first_turn_apart(self, loop: Loop, turns: int) -> list[Node]:
        moved = _directions(loop.body)
        if loop.count < 1 or not any(self.left[write] > _NOTHING for write in moved):
            return [loop]
        first = self.behind(_again(loop.body), turns * loop.count)
        return [*first, Loop(loop.count - 1, loop.body)] if loop.count > 1 else first

    def _waiting(self, node: Instruction, turns: int) -> Instruction:
        if node.transfer is None:
            return node
        queue, write = self._queue, node.transfer.write
        nbytes, spread = turns * node.transfer.traffic_bytes, queue.spread_bytes
        share = self.left[write] * (1.0 - exp(-nbytes / spread) if spread else 1.0)
        self.left[write] -= share
        cycles = share * (queue.store_cycles if write else queue.load_cycles)
        return replace(node, cycles=node.cycles + cycles) if cycles else node


def _again(nodes: Sequence[Node]) -> list[Node]:
    """``nodes`` with loops of their own."""
    return [
        Loop(node.count, _again(node.body)) if isinstance(node, Loop) else node for node in nodes
    ]


def _directions(nodes: Sequence[Node]) -> set[bool]:
    """Whether there are loads (False) and stores (True) among ``nodes``."""
    found: set[bool] = set()
    for node in nodes:
        if isinstance(node, Loop):
            found |= _directions(node.body)
        elif isinstance(node, Instruction) and node.transfer is not None:
            found.add(node.transfer.write)
    return found
