"""Where rows of tokens are: places that the scalar unit reads, of which some name no row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from npusim.ascendc import Scalar
from npusim.schedules.bounds import fault_outside

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.ascendc import Core, GlobalTensor, LocalTensor
    from npusim.ascendc.loops import Index

_NOWHERE = -(1 << 40)  # before every tensor
_ANYWHERE = 1 << 31


class Place(NamedTuple):
    """A row to load, a row to store to or nowhere, and whether there is one."""

    core: Core
    loaded: Scalar
    stored: Scalar
    is_row: Scalar

    def clear(self, tile: LocalTensor) -> None:
        """Zeros where there is no row, of which nothing was loaded; the time is that of a row."""
        if self.core.numerics and self.is_row.value is not None and not self.is_row.value.all():
            there = self.is_row.values(self.core.depth)

            def kept(values: NDArray[Any]) -> NDArray[Any]:
                row = there.reshape(there.shape + (1,) * (values.ndim - there.ndim))
                cleared: NDArray[Any] = values * row
                return cleared

            self.core.arrange(tile, tile, how=kept)


class Places:
    """Places (tokens, rows of each) among so many rows; those behind them were left out.

    ``dropped`` ones are -1.
    """

    def __init__(self, tensor: GlobalTensor, rows: int, *, dropped: bool = False) -> None:
        self.tensor, self.rows, self.dropped = tensor, rows, dropped

    def check(self, core: Core, op_type: str) -> None:
        """DeviceFault for a place in front of the rows."""
        fault_outside(core, op_type, self.tensor, _ANYWHERE, skips=self.dropped)

    def at(self, core: Core, where: tuple[Index, ...]) -> Place:
        """The place of a pair: indices of its token, and the one among the token's rows."""
        count = self.tensor.shape[1]
        own = (*((each, count) for each in where[:-1]), (where[-1], 1))
        place = core.load_scalar(self.tensor.window(own, (), ()))
        core.scalar_alu("mul")
        value, depth = place.value, place.depth
        if value is None:
            return Place(core, place, place, place)
        is_row = (value >= 0) & (value < self.rows)
        loaded, stored = (np.where(is_row, value, other) for other in (0, _NOWHERE))
        kinds = (loaded, stored, is_row.astype(np.float64))
        return Place(core, *(Scalar(core, each, depth) for each in kinds))
