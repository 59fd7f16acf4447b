"""What L2 holds when an operator of a step starts.

``order`` follows the step: an operator finds in L2 what is left there of its inputs.  Files don't
say which tensor is which, so an input is taken for the last tensor of its shape, dtype and format
that an operator before it wrote; everything else, weights above all, comes from memory.  ``busy``
is for steps whose order isn't known: inputs come from memory, and what is written drives out
something else.  ``in_graph`` takes the share that a task inside a graph finds on average, ``cold``
an empty L2, ``warm`` one that holds everything.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Final

from npusim.runtime.cache_start import empty_cache

if TYPE_CHECKING:
    from npusim.hardware import Profile
    from npusim.model.step import Operation

ORDER: Final = "order"
BUSY: Final = "busy"
MODES: Final = (ORDER, BUSY, "in_graph", "cold", "warm")
IN_A_STEP: Final = (ORDER, BUSY)
"""Modes in which L2 is full of what others have modified."""

_STEPS: Final = 4
"""Residency is told apart in quarters of a tensor: finer steps cost time and change nothing."""

Residency = tuple[float, ...]
"""For each input tensor of an item the share of it that is in L2."""


class Follower:
    """Follows the tensors of a step through L2, operator by operator."""

    def __init__(self, profile: Profile) -> None:
        self._l2 = empty_cache(profile)
        self._numbers = count()
        self._last: dict[str, int] = {}

    def pass_through(self, operation: Operation) -> Residency:
        """It reads its inputs and writes its outputs: what of the inputs is in L2 before that."""
        given = operation.read_tensors
        taken = [None if key is None else self._last.get(key) for _, key in given]
        found = tuple(
            0.0 if number is None else self._share(number, nbytes)
            for (nbytes, _), number in zip(given, taken, strict=True)
        )
        for (nbytes, _), number in zip(given, taken, strict=True):
            self._touch(next(self._numbers) if number is None else number, nbytes)
        for nbytes, key in operation.written_tensors:
            number = self._last[key] = next(self._numbers)
            self._touch(number, nbytes)
        return found

    def _share(self, number: int, nbytes: int) -> float:
        held = self._l2.resident_bytes(number)
        return min(1.0, round(_STEPS * held / max(1, nbytes)) / _STEPS)

    def _touch(self, number: int, nbytes: int) -> None:
        if nbytes:
            self._l2.touch(number, nbytes)
