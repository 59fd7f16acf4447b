"""What L2 holds when an operator of a step starts.

``order`` follows the step: an operator finds in L2 what is left there of its inputs.  Files don't
say which tensor is which, so an input is taken for the last tensor of its shape, dtype and format
that an operator before it wrote; everything else, weights above all, comes from memory.  ``busy``
is for steps whose order isn't known: inputs come from memory, and what is written drives out
something else.  ``in_graph`` takes the share that a task inside a graph finds on average, ``cold``
an empty L2, ``warm`` one that holds everything.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING, Final

from npusim.engine import L2State

if TYPE_CHECKING:
    from npusim.hardware import Profile
    from npusim.model.step import Item
    from npusim.values.tensors import TensorSpec

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
        self._l2 = L2State(profile.memory.l2_bytes)
        self._numbers = count()
        self._last: dict[tuple[object, ...], int] = {}

    def enter(self, item: Item) -> Residency:
        """What of the item's inputs is in L2 when it starts."""
        shares = []
        for spec, number in self._known(item):
            held = 0.0 if number is None else self._l2.resident_bytes(number)
            shares.append(min(1.0, round(_STEPS * held / max(1, spec.nbytes)) / _STEPS))
        return tuple(shares)

    def leave(self, item: Item) -> None:
        """The item has read its inputs and written its outputs."""
        for spec, number in self._known(item):
            self._touch(next(self._numbers) if number is None else number, spec)
        for spec in item.outputs:
            number = self._last[_key(spec)] = next(self._numbers)
            self._touch(number, spec)

    def _known(self, item: Item) -> Iterator[tuple[TensorSpec, int | None]]:
        """The inputs, each with the tensor that it is taken for; None for one from outside."""
        weights = list(item.weights)
        for spec in item.inputs:
            if spec in weights:
                weights.remove(spec)
                yield spec, None
            else:
                yield spec, self._last.get(_key(spec))

    def _touch(self, number: int, spec: TensorSpec) -> None:
        if spec.nbytes:
            self._l2.touch(number, spec.nbytes)


def _key(spec: TensorSpec) -> tuple[object, ...]:
    return spec.shape, spec.dtype, spec.format
