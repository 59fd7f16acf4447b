"""Numbers in the scalar unit, which addresses and other numbers are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np

from npusim.ascendc.loops import deepen

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.ascendc.issuer import Issuer


class Scalar:
    """A number in the scalar unit.

    Arithmetic on it costs scalar cycles and holds back what is issued later.
    """

    __slots__ = ("__weakref__", "_scope", "_shown", "_value", "core", "depth")

    def __init__(self, core: Issuer, value: NDArray[Any] | None, depth: int) -> None:
        self.core = core
        self.depth = depth
        self._scope = core.scopes.open[min(depth, len(core.scopes.open) - 1)]
        self._value = value
        self._shown: NDArray[Any] | None = None

    @classmethod
    def of(cls, core: Issuer, shown: NDArray[Any], depth: int) -> Scalar:
        """The numbers that a tile shows, or will show when the core's chain has been computed."""
        scalar = cls(core, None, depth)
        scalar._shown = shown
        known = ref(scalar)  # many are read for the wait alone

        def read() -> None:
            waiting = known()
            if waiting is not None and waiting._shown is not None:
                waiting.value = np.array(waiting._shown)

        if not core.chain.tells_later(shown, read):
            read()
        return scalar

    def check_scope(self) -> None:
        """Refuse a number of another iteration of a loop whose iterations are computed at once."""
        if self.core.own_code:
            scopes = self.core.scopes
            home = min(
                self.depth, len(scopes.open) - 1
            )  # after a sequential loop it is still there
            scopes.check_home(home, self._scope, "a number of the scalar unit")

    @property
    def value(self) -> NDArray[Any] | None:
        """The number in every iteration; None in a run without numbers."""
        if self._shown is not None:
            self.core.chain.run()
        return self._value

    @value.setter
    def value(self, value: NDArray[Any] | None) -> None:
        self._value, self._shown = value, None

    def values(self, depth: int, trailing: int = 0) -> NDArray[Any]:
        """The numbers with ``depth`` stack axes and ``trailing`` axes of length one behind."""
        self.check_scope()
        assert self.value is not None
        array = self.value
        if self.depth > depth:
            array = array.reshape(array.shape[:depth] + array.shape[self.depth :])
        else:
            array = deepen(array, self.depth, depth)
        return array.reshape(array.shape + (1,) * trailing)

    def combine(
        self, other: Scalar | float, operation: np.ufunc, *, swapped: bool = False
    ) -> Scalar:
        """One operation of the scalar ALU on two numbers."""
        self.core.scalar_alu(operation.__name__)
        self.check_scope()
        depth = max(self.depth, other.depth) if isinstance(other, Scalar) else self.depth
        if not self.core.numerics:
            return Scalar(self.core, None, depth)
        right = other.values(depth) if isinstance(other, Scalar) else np.float32(other)
        left = self.values(depth)
        pair = (right, left) if swapped else (left, right)
        result = np.asarray(operation(*pair))
        self.core.settle(result)
        return Scalar(self.core, result, depth)

    def __add__(self, other: Scalar | float) -> Scalar:
        return self.combine(other, np.add)

    def __sub__(self, other: Scalar | float) -> Scalar:
        return self.combine(other, np.subtract)

    def __rsub__(self, other: float) -> Scalar:
        return self.combine(other, np.subtract, swapped=True)

    def __mul__(self, other: Scalar | float) -> Scalar:
        return self.combine(other, np.multiply)

    def __truediv__(self, other: Scalar | float) -> Scalar:
        return self.combine(other, np.divide)

    def __rtruediv__(self, other: float) -> Scalar:
        return self.combine(other, np.divide, swapped=True)

    __radd__ = __add__
    __rmul__ = __mul__

    def __neg__(self) -> Scalar:
        return self.combine(-1.0, np.multiply)
