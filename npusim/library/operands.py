"""The operands of a matrix product: matrices in global memory, and how their tiles are loaded.

Tiles are filled in L1, and pieces of them move on into L0. Rows and columns are those
of the operand as the product has it, (m, k) or (k, n), however it lies in memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, gcd
from typing import TYPE_CHECKING, NamedTuple, Protocol

from npusim.ascendc.loops import first_of, mapped
from npusim.ascendc.scalars import Scalar
from npusim.values.arithmetic import round_up

if TYPE_CHECKING:
    from collections.abc import Hashable

    import numpy as np
    from numpy.typing import NDArray

    from npusim.ascendc.core import Core
    from npusim.ascendc.gm import GlobalTensor
    from npusim.ascendc.gm_slices import GmSlice, Place
    from npusim.ascendc.loops import Index
    from npusim.ascendc.tensors import LocalTensor
    from npusim.values.dtypes import DType

Span = tuple["Index", int]  # first element and number of elements


class Factor(Protocol):
    """What a product is of: how tiles of it come into L1, and pieces of these into L0."""

    @property
    def dtype(self) -> DType: ...

    @property
    def moves_as(self) -> Hashable:
        """What the instructions of :meth:`load_l0` follow from, beside the shapes and the dtype."""

    def tile_shape(self, rows: int, columns: int) -> tuple[int, ...]:
        """The shape of a tile in L1."""

    def load_l1(self, core: Core, tile: LocalTensor, rows: Span, columns: Span) -> None:
        """Load rows and columns of it, or what they are made of."""

    def load_l0(
        self, core: Core, piece: LocalTensor, tile: Tile, rows: Span, columns: Span
    ) -> None:
        """Move rows and columns that a tile has on."""


class Tile(NamedTuple):
    """A tile in L1, and the row and column of its operand that it starts at."""

    tensor: LocalTensor
    row: int
    column: int

    def within(self, rows: Span, columns: Span) -> tuple[slice, slice]:
        """Rows and columns of the operand, counted from the tile's first ones."""
        first, second = first_of(rows[0]) - self.row, first_of(columns[0]) - self.column
        return slice(first, first + rows[1]), slice(second, second + columns[1])


class AsItLies:
    """A factor whose tiles have its rows and columns in L1 as the product has them."""

    __slots__ = ()

    @property
    def moves_as(self) -> Hashable:
        """Nothing."""
        return None

    def tile_shape(self, rows: int, columns: int) -> tuple[int, ...]:
        """Rows and columns."""
        return rows, columns

    def load_l0(
        self, core: Core, piece: LocalTensor, tile: Tile, rows: Span, columns: Span
    ) -> None:
        """A part of the tile."""
        core.load_data(piece, tile.tensor[tile.within(rows, columns)])


@dataclass(frozen=True, slots=True)
class GmMatrix:
    """A matrix in global memory: where it starts, and elements from one row to the next.

    ``start`` is a sum of ``index * stride``. A ``transposed`` matrix lies there column by column,
    ``step`` elements from one column to the next. One in fractals (FRACTAL_NZ) lies in blocks of
    ``lanes`` columns, each of them row by row, ``step`` elements from one block to the next.
    With a ``height``, further matrices follow, ``apart`` elements from one to the next, and rows
    are counted through all of them. ``row_by_row`` are brought to L1 those of less than a block.
    """

    tensor: GlobalTensor
    start: tuple[tuple[Place, int], ...]
    step: int
    transposed: bool = False
    lanes: int = 0
    height: int = 0
    apart: int = 0
    row_by_row: bool = False

    @property
    def dtype(self) -> DType:
        return self.tensor.dtype

    @property
    def moves_as(self) -> Hashable:
        """Whether it is turned."""
        return self.transposed

    @property
    def corner(self) -> GmSlice:
        """Its first element."""
        return self.tensor.window(self.start, (), ())

    def block(self, row: Place, rows: int, column: Place, columns: int) -> GmSlice:
        """Part of the matrix as it lies in memory: (columns, rows) of a transposed one.

        In fractals (blocks of columns, rows, lanes); whole blocks have to be asked for.
        """
        if self.transposed:
            row, rows, column, columns = column, columns, row, rows
        lanes = self.lanes
        if lanes:
            places = (*self.start, self._row(row, lanes), (column, self.step // lanes))
            shape, steps = (ceil(columns / lanes), rows, lanes), (self.step, lanes, 1)
            return self.tensor.window(places, shape, steps)
        places = (*self.start, self._row(row, self.step), (column, 1))
        return self.tensor.window(places, (rows, columns), (self.step, 1))

    def _row(self, row: Place, step: int) -> tuple[Place, int]:
        """Where a row begins, in its matrix or in one of the further ones."""
        height, apart = self.height, self.apart
        if not height or apart == height * step or isinstance(row, Scalar):
            return row, step
        unit = gcd(apart, step)

        def place(rows: NDArray[np.int64]) -> NDArray[np.int64]:
            return rows // height * apart + rows % height * step

        return mapped(row, place, unit, "row", height, apart, step), 1

    def tile_shape(self, rows: int, columns: int) -> tuple[int, ...]:
        """As it lies in memory, in whole blocks of columns where it is in fractals."""
        if self.transposed:
            rows, columns = columns, rows
        return rows, round_up(columns, self.lanes) if self.lanes else columns

    def load_l1(self, core: Core, tile: LocalTensor, rows: Span, columns: Span) -> None:
        """With Nd2Nz where the chip has that and the matrix doesn't lie in fractals already.

        Operands of less than a block in a row are brought row by row. Source: products of 4 and 8
        columns on 910B2 and 910B3, whose MTE2 is busy for 0.09 us for each row of a core's blocks
        (lukaIvanic/paddle_ocr_vl_npu, lishanni/npu-mfu-analyzer).
        """
        source = self.block(*rows, *columns)
        if self.lanes or core.profile.cube.nd2nz_setup_cycles is None:
            core.data_copy_nz(tile, source)
        else:
            short = self.tensor.shape[-1] * self.dtype.itemsize < core.block_bytes
            core.data_copy_nd2nz(tile, source, row_by_row=self.row_by_row and short)

    def load_l0(
        self, core: Core, piece: LocalTensor, tile: Tile, rows: Span, columns: Span
    ) -> None:
        """Turned on the way where it lies transposed."""
        high, wide = tile.within(rows, columns)
        part = tile.tensor[wide, high] if self.transposed else tile.tensor[high, wide]
        core.load_data(piece, part, transpose=self.transposed)


def bring_rows(
    core: Core,
    tile: LocalTensor,
    matrix: GmMatrix,
    places: tuple[tuple[Place, int], ...],
    shape: tuple[int, int],
) -> None:
    """Rows into fractals in L1; chips that don't turn them move 32 bytes of a row at a time."""
    (rows, columns), step = shape, matrix.step
    if core.profile.cube.nd2nz_setup_cycles is not None:
        core.data_copy_nd2nz(tile, matrix.tensor.window(places, shape, (step, 1)))
        return
    lanes = core.block_bytes // matrix.dtype.itemsize
    window = (columns // lanes, rows, lanes), (lanes, step, 1)
    core.data_copy_nz(tile, matrix.tensor.window(places, *window))


@dataclass(frozen=True, slots=True)
class OnTheFly(GmMatrix):
    """A matrix whose rows are brought into fractals on their way."""

    def load_l1(self, core: Core, tile: LocalTensor, rows: Span, columns: Span) -> None:
        """Tokens are rows in memory, whichever way the product has them."""
        tokens, wide = (columns, rows) if self.transposed else (rows, columns)
        places = (*self.start, (tokens[0], self.step), (wide[0], 1))
        bring_rows(core, tile, self, places, (tokens[1], wide[1]))
