"""Gradients with zeros between their elements, as windows see them that moved by a stride.

Where cube and vector unit share a core, the zeros are put between in UB: a piece of a plane is
filled with zeros, the gradient's rows are laid over it, and MTE3 takes it to L1. Others clear the
tile in L1 and load element by element. Source: the vendor's public schedule
(conv2d_backprop_input_general_schedule: dy_ub, filling with zeros, dy_filling, L1).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

import numpy as np

from npusim.ascendc.events import Event
from npusim.ascendc.loops import first_of, mapped
from npusim.ascendc.queues import BUFFER_NUM, TPosition, TQue
from npusim.engine.program import Pipe
from npusim.library.unfolded import Unfolded

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from numpy.typing import NDArray

    from npusim.ascendc.core import Core
    from npusim.ascendc.gm_slices import GmSlice
    from npusim.ascendc.loops import Index
    from npusim.ascendc.tensors import LocalTensor
    from npusim.library.operands import Span
    from npusim.values.dtypes import DType

_Part = tuple["Index", int]  # of an address: a place and elements from one to the next

_SHARE = 2  # the part of UB that they may take: one in so many


def dilated(plane: tuple[int, int], stride: tuple[int, int]) -> tuple[int, int]:
    """Rows and columns of a plane with zeros between its elements."""
    return (plane[0] - 1) * stride[0] + 1, (plane[1] - 1) * stride[1] + 1


class Filling:
    """Where a core puts zeros between the elements of planes of so many columns: pieces in UB."""

    def __init__(
        self, core: Core, dtype: DType, wide: int, lanes: int, stride: tuple[int, int]
    ) -> None:
        self.stride = stride
        element = lanes * dtype.itemsize
        row, spread = wide * element, dilated((1, wide), stride)[1] * element
        room = core.capacity_bytes("UB") // (_SHARE * BUFFER_NUM)
        each = row + stride[0] * spread
        self._rows = max(1, room // each)
        # Of very long rows there is one.
        depth = BUFFER_NUM if BUFFER_NUM * each < core.capacity_bytes("UB") else 1
        self._given, self._made = TQue(TPosition.VECIN, depth), TQue(TPosition.VECOUT, depth)
        core.pipe.init_buffer(self._given, depth, self._rows * row)
        core.pipe.init_buffer(self._made, depth, self._rows * stride[0] * spread)
        self.there = Event(core, Pipe.MTE3, Pipe.MTE1)

    def pieces(self, slices: int, height: int) -> Iterator[tuple[slice, slice]]:
        """Slices and rows of a tile that are made at a time: whole planes where they fit."""
        kept = ceil(height / self.stride[0])
        rows = min(kept, self._rows) * self.stride[0]
        together = max(1, self._rows // kept)
        for first in range(0, slices, together):
            for start in range(0, height, rows):
                end = min(slices, first + together), min(height, start + rows)
                yield slice(first, end[0]), slice(start, end[1])

    def fill(self, core: Core, target: LocalTensor, source: GmSlice, first: int) -> None:
        """Bring a piece (..., rows, columns, lanes) to L1, with zeros between its elements."""
        given = self._given.copy_in(source, source.shape)
        made = self._made.alloc_tensor(target.dtype, *target.shape)
        core.duplicate(made.view(made.numel), 0.0)
        core.record_vector("vadds", made, given.numel)
        core.arrange(made, given, how=lambda values: self._spread(values, target.shape, first))
        self._given.free_tensor(given)
        self._made.enque(made)
        core.copy_to_l1(target, self._made.deque(made))
        self._made.free_tensor(made)

    def _spread(self, values: NDArray[Any], shape: tuple[int, ...], first: int) -> NDArray[Any]:
        """Rows from row ``first`` of the piece on, and columns, apart by the stride."""
        down, right = self.stride
        lead = values.shape[: values.ndim - len(shape)]
        found = np.zeros((*lead, *shape), values.dtype)
        for row in range(values.shape[-3]):
            if 0 <= first + row * down < shape[-3]:
                found[..., first + row * down, ::right, :] = values[..., row, :, :]
        return found


@dataclass(frozen=True, slots=True)
class Dilated(Unfolded):
    """What windows see of images with zeros between the elements of their planes."""

    stride: tuple[int, int] = (1, 1)
    filling: Filling | None = None

    @property
    def plane(self) -> tuple[int, int]:
        """Rows and columns of a plane with its zeros."""
        return dilated((self.tensor.shape[2], self.tensor.shape[3]), self.stride)

    def load_l1(self, core: Core, tile: LocalTensor, rows: Span, columns: Span) -> None:
        """The planes' rows with zeros between."""
        slices, height, *_ = tile.shape
        first = -self._top(np.array(first_of(rows[0])), height).item() % self.stride[0]
        place = self._place(rows[0], columns[0], height)
        if self.filling is not None and core.recording:
            self._piece_by_piece(core, tile, place, first)
            return
        source = self._source(place, slices, ceil(height / self.stride[0]))
        if self.filling is None:
            core.load_spread(tile, source, self.stride, first)
        else:
            self.filling.fill(core, tile, source, first)

    def _piece_by_piece(
        self, core: Core, tile: LocalTensor, place: tuple[_Part, ...], first: int
    ) -> None:
        """Some slices, or rows of one, after the other, through UB."""
        assert self.filling is not None
        _, _, high, wide, lanes = self.tensor.shape
        row = wide * lanes
        for slices, rows in self.filling.pieces(*tile.shape[:2]):
            here = (*place, (slices.start, high * row), (rows.start // self.stride[0], row))
            kept = ceil((rows.stop - rows.start) / self.stride[0])
            source = self._source(here, slices.stop - slices.start, kept)
            self.filling.fill(core, tile[slices, rows], source, first)
        self.filling.there.set()
        self.filling.there.wait()

    def _source(self, place: tuple[_Part, ...], slices: int, rows: int) -> GmSlice:
        """Rows of some slices as they lie in memory."""
        _, _, high, wide, lanes = self.tensor.shape
        row = wide * lanes
        steps = high * row, row, lanes, 1
        return self.tensor.window(place, (slices, rows, wide, lanes), steps)

    def _place(self, position: Index, column: Index, height: int) -> tuple[_Part, ...]:
        """Where the first row in memory is that a tile has."""
        _, _, high, wide, lanes = self.tensor.shape
        row, (_, size), depth, apart = wide * lanes, self._part, self.depth, self._apart

        def start(positions: NDArray[np.int64]) -> NDArray[np.int64]:
            first = -(-self._top(positions, height) // self.stride[0])
            return (positions // size * apart * high + first) * row

        which = self.window, self.tensor.shape, self.part, height, self.stride, self.apart
        return (
            (self.first[0], apart * high * row),
            (self.first[1], high * row),
            (mapped(position, start, row, "dilated", *which), 1),
            (mapped(column, lambda columns: columns // depth, 1, "of", depth), high * row),
        )

    def _top(self, positions: NDArray[np.int64], height: int) -> NDArray[np.int64]:
        """The first rows of planes with their zeros that tiles have."""
        begin, size = self._part
        return self._first_rows(positions % size + begin, height)
