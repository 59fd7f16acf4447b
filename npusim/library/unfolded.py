"""The windows of feature maps as a factor of a matrix product (img2col, load3d)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil
from typing import TYPE_CHECKING

import numpy as np

from npusim.ascendc.loops import LoopIndex, first_of, mapped

if TYPE_CHECKING:
    from collections.abc import Hashable

    from numpy.typing import NDArray

    from npusim.ascendc.core import Core
    from npusim.ascendc.gm import GlobalTensor
    from npusim.ascendc.loops import Index
    from npusim.ascendc.tensors import LocalTensor
    from npusim.ascendc.windows import Window
    from npusim.library.operands import Span, Tile
    from npusim.values.dtypes import DType


@dataclass(frozen=True, slots=True)
class Unfolded:
    """What windows see of images in NC1HWC0, from image and slice of channels ``first`` on.

    A row for every position of all images, or for those of a ``part`` of every plane: the first and
    the number of them. A column for every slice of channels, tap and channel of the slice, in this
    order. Images are ``apart`` slices apart, by default as many as they have. L1 gets the rows that
    the positions of a tile need at most, as they lie in memory; load3d unfolds them.
    """

    tensor: GlobalTensor
    window: Window
    first: tuple[int, int] = (0, 0)
    part: tuple[int, int] | None = None
    apart: int = 0

    @property
    def dtype(self) -> DType:
        return self.tensor.dtype

    @property
    def moves_as(self) -> Hashable:
        """The window."""
        return type(self), self._read

    @property
    def plane(self) -> tuple[int, int]:
        """Rows and columns of a plane."""
        return self.tensor.shape[2], self.tensor.shape[3]

    @property
    def positions(self) -> tuple[int, int]:
        """Rows and columns of positions on a plane."""
        return self.window.positions(self.plane)

    @property
    def depth(self) -> int:
        """Columns of the matrix for each slice of channels."""
        return self.window.taps * self.tensor.shape[-1]

    @property
    def skip(self) -> int:
        """Rows of a plane from one that is read to the next."""
        return _skip(self.window)

    def tile_shape(self, rows: int, columns: int) -> tuple[int, ...]:
        """(slices of channels, rows of a plane, columns, lanes) for so many positions."""
        slices = min(ceil(columns / self.depth), self.tensor.shape[1])
        return slices, self.plane_rows(rows), self.plane[1], self.tensor.shape[-1]

    def plane_rows(self, positions: int) -> int:
        """Rows of a plane that so many positions, one after the other, see at most."""
        aligned = self._part[0] % self.positions[1] == 0
        return plane_rows(self.window, self.plane, self.positions, positions, aligned=aligned)

    def load_l1(self, core: Core, tile: LocalTensor, rows: Span, columns: Span) -> None:
        """The planes' rows as they lie in memory (MTE2)."""
        _, height, width, lanes = tile.shape
        _, _, plane_rows, *_ = self.tensor.shape
        row, plane = width * lanes, plane_rows * width * lanes
        places = (
            (self.first[0], self._apart * plane),
            (self.first[1], plane),
            (self._first_elements(rows, height), 1),
            (_quotient(columns[0], self.depth), plane),
        )
        steps = (plane, self.skip * row, lanes, 1)
        core.load_l1(tile, self.tensor.window(places, tile.shape, steps))

    def load_l0(
        self, core: Core, piece: LocalTensor, tile: Tile, rows: Span, columns: Span
    ) -> None:
        """What the positions see (load3d)."""
        (begin, size), deep = self._part, self.depth
        position = first_of(rows[0]) % size + begin
        first_row = self._first_rows(np.array(tile.row % size + begin), tile.tensor.shape[1])
        start = position, first_of(columns[0]) - tile.column // deep * deep
        core.load3d(
            piece,
            tile.tensor,
            self._read,
            plane_rows=self._rows_read,
            first_row=int(first_row),
            start=start,
        )

    @property
    def _part(self) -> tuple[int, int]:
        """The first position and the number of them that there is a row for, on every plane."""
        high, wide = self.positions
        return self.part or (0, high * wide)

    @property
    def _apart(self) -> int:
        """Slices from one image to the next."""
        return self.apart or self.tensor.shape[1]

    @property
    def _rows_read(self) -> int:
        """Rows of a plane that are read at all."""
        return ceil(self.plane[0] / self.skip)

    @property
    def _read(self) -> Window:
        """The window as it moves over the rows that are read."""
        if self.skip == 1:
            return self.window
        return replace(self.window, stride=(1, self.window.stride[1]))

    def _first_rows(self, positions: NDArray[np.int64], height: int) -> NDArray[np.int64]:
        """The first rows of planes that tiles have, for the first positions on a plane."""
        window, wide = self._read, self.positions[1]
        wanted = positions // wide * window.stride[0] - window.padding.top
        found: NDArray[np.int64] = np.clip(wanted, 0, self._rows_read - height)
        return found

    def _first_elements(self, rows: Span, height: int) -> Index:
        """Where the tile of some positions begins, counted from the first image."""
        _, _, plane_rows, width, lanes = self.tensor.shape
        (begin, size), row = self._part, width * lanes

        def place(position: NDArray[np.int64]) -> NDArray[np.int64]:
            first = self._first_rows(position % size + begin, height) * self.skip
            return (position // size * self._apart * plane_rows + first) * row

        which = self.window, self.tensor.shape, self.part, height, self.apart
        return mapped(rows[0], place, row, "unfolded", *which)


@dataclass(frozen=True, slots=True)
class Gathered(Unfolded):
    """The same where windows are unfolded on their way into L1, which gets the matrix itself."""

    def tile_shape(self, rows: int, columns: int) -> tuple[int, ...]:
        """Positions by slices of channels, taps and channels of a slice."""
        return rows, columns

    def load_l1(self, core: Core, tile: LocalTensor, rows: Span, columns: Span) -> None:
        """Run by run (MTE2)."""
        (begin, size), deep = self._part, self.depth
        _, slices, plane_rows, width, lanes = self.tensor.shape
        height = self.plane_rows(rows[1])
        plane = plane_rows * width * lanes
        first, last = first_of(columns[0]) // deep, ceil((first_of(columns[0]) + columns[1]) / deep)
        places = (
            (self.first[0], self._apart * plane),
            (self.first[1], plane),
            (self._first_elements(rows, height), 1),
            (_quotient(columns[0], deep), plane),
        )
        steps = (plane, self.skip * width * lanes, lanes, 1)
        position = first_of(rows[0]) % size + begin
        core.load_windows(
            tile,
            self.tensor.window(places, (min(slices, last - first), height, width, lanes), steps),
            self._read,
            plane_rows=self._rows_read,
            first_row=int(self._first_rows(np.array(position), height)),
            start=(position, first_of(columns[0]) - first * deep),
        )

    def load_l0(
        self, core: Core, piece: LocalTensor, tile: Tile, rows: Span, columns: Span
    ) -> None:
        """As it is (load2d)."""
        high, wide = tile.within(rows, columns)
        core.load_data(piece, tile.tensor[high, wide])


def plane_rows(
    window: Window, plane: tuple[int, int], positions: tuple[int, int], count: int, *, aligned: bool
) -> int:
    """Rows of a plane that ``count`` positions, one after the other, see at most.

    ``positions`` are rows and columns of all of them. ``aligned`` says that they begin a row where
    they are whole rows.
    """
    high, wide = positions
    rows = count // wide if aligned and count % wide == 0 else ceil((count - 1) / wide) + 1
    skip = _skip(window)
    needed = (min(high, rows) - 1) * (window.stride[0] // skip) + window.extent[0]
    return min(needed, ceil(plane[0] / skip))


def _skip(window: Window) -> int:
    """Rows from one that is read to the next: a single row of taps jumps over others."""
    plain = window.kernel[0] == 1 and not any(window.padding[:2])
    return window.stride[0] if plain else 1


def _quotient(place: Index, divisor: int) -> Index:
    """``place // divisor``, evenly spaced where it can be."""
    if isinstance(place, LoopIndex) and not (place.scale % divisor or place.offset % divisor):
        return replace(place, scale=place.scale // divisor, offset=place.offset // divisor)
    return place // divisor
