"""Weights for the gradient of the input: input and output channels exchanged, taps in reverse."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

from npusim.ascendc.loops import first_of, mapped

if TYPE_CHECKING:
    from collections.abc import Hashable

    import numpy as np
    from numpy.typing import NDArray

    from npusim.ascendc.core import Core
    from npusim.ascendc.gm import GlobalTensor
    from npusim.ascendc.loops import Index
    from npusim.ascendc.tensors import LocalTensor
    from npusim.library.operands import Span, Tile
    from npusim.values.dtypes import DType


@dataclass(frozen=True, slots=True)
class TurnedWeight:
    """A weight in FRACTAL_Z as what gradients of the output are multiplied by.

    A row for every slice of ``lanes`` output channels, tap from the last to the first, and channel
    of the slice, in this order; a column for every input channel from slice ``first`` of all groups
    on. L1 gets output channels by input channels for some taps, as they lie in memory; pieces are
    turned on their way into L0B.
    """

    tensor: GlobalTensor
    taps: int
    lanes: int
    first: int = 0

    @property
    def dtype(self) -> DType:
        return self.tensor.dtype

    @property
    def depth(self) -> int:
        """Rows for each slice of output channels."""
        return self.taps * self.lanes

    @property
    def _of_tap(self) -> int:
        """Elements of all output channels by a slice of input channels at one tap."""
        _, blocks, high, lanes = self.tensor.shape
        return blocks * high * lanes

    def tile_shape(self, rows: int, columns: int) -> tuple[int, ...]:
        """(slices of input channels, taps, output channels, channels of a slice)."""
        width = self.tensor.shape[-1]
        taps = min(self.taps, ceil(rows / self.lanes))
        return ceil(columns / width), taps, ceil(rows / self.depth) * self.lanes, width

    def load_l1(self, core: Core, tile: LocalTensor, rows: Span, columns: Span) -> None:
        """Whole slices of output channels, or some taps of one."""
        slices, taps, channels, width = tile.shape
        places = (
            (self.first * self.taps, self._of_tap),
            (self._channel(rows[0]), width),
            (self._tap(rows[0], taps), self._of_tap),
            (scaled(columns[0], width), self.taps * self._of_tap),
        )
        shape = slices, taps, channels, width
        steps = self.taps * self._of_tap, self._of_tap, width, 1
        core.load_l1(tile, self.tensor.window(places, shape, steps))

    @property
    def moves_as(self) -> Hashable:
        """Nothing."""
        return type(self).__name__

    def load_l0(
        self, core: Core, piece: LocalTensor, tile: Tile, rows: Span, columns: Span
    ) -> None:
        """Rows and columns of a tile, turned."""
        whole = tile.tensor
        turned = whole.same_place(rows[1], columns[1], depth=whole.depth)
        if core.numerics:
            first, second = first_of(rows[0]) - tile.row, first_of(columns[0]) - tile.column
            part = slice(first, first + rows[1]), slice(second, second + columns[1])
            turned.alias(self._turned(whole.values(whole.depth), whole.depth)[(..., *part)])
        core.load_data(piece, turned)

    def _turned(self, values: NDArray[np.generic], depth: int) -> NDArray[np.generic]:
        """The numbers of a tile as rows and columns."""
        *stack, slices, taps, channels, width = values.shape
        split = values[..., ::-1, :, :].reshape(
            *stack, slices, taps, channels // self.lanes, self.lanes, width
        )
        order = (*range(depth), *(depth + axis for axis in (2, 1, 3, 0, 4)))
        return split.transpose(order).reshape(*stack, taps * channels, slices * width)

    def _channel(self, row: Index) -> Index:
        """The first output channel of a row's slice."""
        lanes, depth = self.lanes, self.depth
        return mapped(row, lambda rows: rows // depth * lanes, lanes, "channel", depth)

    def _tap(self, row: Index, taps: int) -> Index:
        """The first tap, in the order of memory, of ``taps`` from a row on."""
        lanes, all_taps = self.lanes, self.taps

        def place(rows: NDArray[np.int64]) -> NDArray[np.int64]:
            return all_taps - taps - rows // lanes % all_taps

        return 0 if taps == all_taps else mapped(row, place, 1, "tap", all_taps, taps)


def scaled(place: Index, divisor: int) -> Index:
    """``place // divisor`` for multiples of it."""
    return mapped(place, lambda places: places // divisor, 1, "slice", divisor)
