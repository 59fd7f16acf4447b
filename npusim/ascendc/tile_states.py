"""What a kernel has done with a tile of a queue: allocated, enqueued, dequeued or freed it.

A tile belongs to its producer until it is enqueued, and to its consumer from then on; each step is
a flag between their pipes, so a step left out is a pipe that doesn't wait. States are followed
while instructions are written down.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NoReturn

from npusim.ascendc.mistakes import site
from npusim.values.errors import TileStateError


class State(StrEnum):
    """How far a tile is; the value is what an error calls it."""

    ALLOCATED = "not enqueued"
    ENQUEUED = "enqueued and not dequeued"
    DEQUEUED = "dequeued and not freed"
    FREED = "freed"


_ALLOCATED, _, _DEQUEUED, _FREED = State  # quicker than by their class

# What to write instead, by the state that a tile is in and what was tried.
_REMEDIES: dict[tuple[State, str], str] = {
    (State.ALLOCATED, "dequeued"): "Write {queue}.enque(tile) when it is filled, before the deque.",
    (State.ALLOCATED, "freed"): "Write {queue}.enque(tile) when it is filled and tile = "
    "{queue}.deque() before it is used: that is how the consumer waits for the producer.",
    (State.ENQUEUED, "enqueued"): "Enqueue a tile once.",
    (State.ENQUEUED, "used"): "Write tile = {queue}.deque() first; it waits for the producer.",
    (State.ENQUEUED, "freed"): "Write tile = {queue}.deque() between enque and the first use: "
    "without it the consumer doesn't wait for the producer.",
    (State.DEQUEUED, "enqueued"): "Free it, and allocate the next one.",
    (State.DEQUEUED, "dequeued"): "Dequeue a tile once.",
    (State.FREED, "used"): "Call {queue}.free_tensor(tile) behind its last use.",
    (State.FREED, "freed"): "Free a tile once.",
}
_NEW_TILE = "Allocate a new tile with {queue}.alloc_tensor."


class Tile:
    """One slot of a queue from alloc_tensor to free_tensor.

    ``depth`` counts the loops around its allocation; ``allocated`` and ``freed`` are the lines, for
    kernels whose author is ``told`` them.
    """

    __slots__ = (
        "allocated",
        "depth",
        "freed",
        "kernel",
        "queue",
        "slot",
        "state",
        "told",
        "tracked",
        "usable",
    )

    def __init__(self, kernel: str, queue: str, depth: int, *, tracked: bool, told: bool) -> None:
        self.kernel = kernel
        self.queue = queue
        self.depth = depth
        self.tracked = tracked
        self.told = tracked and told
        self.slot = 0
        self.state = _ALLOCATED
        self.usable = True
        self.allocated = site() if self.told else ""
        self.freed = ""

    def step(self, allowed: State, then: State, tried: str) -> None:
        """Go from ``allowed`` to ``then``; raises TileStateError from any other state."""
        if not self.tracked:
            return
        if self.state is not allowed:
            self.refuse(tried)
        self.state = then
        self.usable = then is _DEQUEUED
        if self.told and then is _FREED:
            self.freed = site()

    def refuse(self, tried: str) -> NoReturn:
        """Raise a TileStateError: the tile can't be ``tried`` (used, freed ...) in its state."""
        remedy = _REMEDIES.get((self.state, tried), _NEW_TILE)
        raise TileStateError(
            self.kernel,
            f"a tile of queue {self.queue} is {tried}, but it is {self}",
            remedy.format(queue=self.queue),
        )

    def forgotten(self) -> TileStateError:
        """The error for a tile that the kernel leaves behind."""
        return TileStateError(
            self.kernel,
            f"a tile of queue {self.queue} is {self.state} when the kernel ends",
            f"Write {self.queue}.{_NEXT[self.state]} when its last use is over.",
            site=self.allocated,
        )

    def __str__(self) -> str:
        if self.state is State.FREED:
            return f"freed (at {self.freed})"
        return f"{self.state} (allocated at {self.allocated})"


_NEXT = {
    State.ALLOCATED: "enque(tile), deque and free_tensor",
    State.ENQUEUED: "deque() and free_tensor(tile)",
    State.DEQUEUED: "free_tensor(tile)",
}
