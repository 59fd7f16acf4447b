"""What a collective moves: steps of moves from rank to rank, each step after the one before it."""

from __future__ import annotations

from typing import NamedTuple


class Move(NamedTuple):
    """Bytes from one rank to another; `reduces` where they are added to what is there."""

    source: int
    target: int
    nbytes: float
    reduces: bool = False


Step = tuple[Move, ...]
Steps = tuple[Step, ...]


def together(parts: list[Steps]) -> Steps:
    """Steps of several groups of ranks side by side, the first with the first and so on."""
    longest = max((len(steps) for steps in parts), default=0)
    return tuple(
        tuple(move for steps in parts if number < len(steps) for move in steps[number])
        for number in range(longest)
    )
