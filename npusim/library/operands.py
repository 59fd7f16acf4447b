"""Where the tiles of a matrix product's operands come from, and the matrices that they are cut of.

An operand source fills tiles in L1 and moves pieces of them on into L0. Rows and columns are those
of the operand as the product has it, (m, k) or (k, n), however it lies in memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Protocol

from npusim.values.arithmetic import round_up

if TYPE_CHECKING:
    from npusim.ascendc.core import Core
    from npusim.ascendc.gm import GlobalTensor, GmSlice, Place
    from npusim.ascendc.loops import Index
    from npusim.ascendc.tensors import LocalTensor
    from npusim.values.dtypes import DType

Span = tuple["Index", int]  # first element and number of elements


class OperandSource(Protocol):
    """What :class:`npusim.library.block_matmul.BlockMatmul` asks of an operand."""

    @property
    def dtype(self) -> DType:
        """The dtype that is multiplied."""
        ...

    @property
    def resident(self) -> LocalTensor | None:
        """The whole operand where L1 holds it already; then nothing is loaded."""
        ...

    def tile_shape(self, rows: int, columns: int) -> tuple[int, ...]:
        """The shape in L1 of a tile of ``rows`` x ``columns``."""
        ...

    def load_l1(self, core: Core, tile: LocalTensor, rows: Span, columns: Span) -> None:
        """Fill a tile in L1."""
        ...

    def load_l0(
        self, core: Core, piece: LocalTensor, tile: LocalTensor, rows: slice, columns: slice
    ) -> None:
        """Move part of a tile, counted from the tile's first row and column, into L0."""
        ...


@dataclass(frozen=True, slots=True)
class GmMatrix:
    """A matrix in global memory: where it starts, and elements from one row to the next.

    ``start`` is a sum of ``index * stride``. A ``transposed`` matrix lies there column by column,
    ``step`` elements from one column to the next. One in fractals (FRACTAL_NZ) lies in blocks of
    ``lanes`` columns, each of them row by row, ``step`` elements from one block to the next.
    """

    tensor: GlobalTensor
    start: tuple[tuple[Place, int], ...]
    step: int
    transposed: bool = False
    lanes: int = 0

    @property
    def dtype(self) -> DType:
        return self.tensor.dtype

    @property
    def resident(self) -> LocalTensor | None:
        return None

    def block(self, row: Place, rows: int, column: Place, columns: int) -> GmSlice:
        """Part of the matrix as it lies in memory: (columns, rows) of a transposed one.

        In fractals (blocks of columns, rows, lanes); whole blocks have to be asked for.
        """
        if self.transposed:
            row, rows, column, columns = column, columns, row, rows
        lanes = self.lanes
        if lanes:
            places = (*self.start, (row, lanes), (column, self.step // lanes))
            shape, steps = (ceil(columns / lanes), rows, lanes), (self.step, lanes, 1)
            return self.tensor.window(places, shape, steps)
        places = (*self.start, (row, self.step), (column, 1))
        return self.tensor.window(places, (rows, columns), (self.step, 1))

    def tile_shape(self, rows: int, columns: int) -> tuple[int, ...]:
        """As it lies in memory, in whole blocks of columns where it is in fractals."""
        if self.transposed:
            rows, columns = columns, rows
        return rows, round_up(columns, self.lanes) if self.lanes else columns

    def load_l1(self, core: Core, tile: LocalTensor, rows: Span, columns: Span) -> None:
        """With Nd2Nz where the chip has that and the matrix doesn't lie in fractals already."""
        source = self.block(*rows, *columns)
        if self.lanes or core.profile.cube.nd2nz_setup_cycles is None:
            core.data_copy_nz(tile, source)
        else:
            core.data_copy_nd2nz(tile, source)

    def load_l0(
        self, core: Core, piece: LocalTensor, tile: LocalTensor, rows: slice, columns: slice
    ) -> None:
        """Turned on the way where it lies transposed."""
        _load_l0(core, piece, tile, rows, columns, self.transposed)


@dataclass(frozen=True, slots=True)
class L1Matrix:
    """A matrix that L1 holds as a whole; a ``transposed`` one lies there column by column."""

    tensor: LocalTensor
    transposed: bool = False

    @property
    def dtype(self) -> DType:
        return self.tensor.dtype

    @property
    def resident(self) -> LocalTensor | None:
        return self.tensor

    def tile_shape(self, rows: int, columns: int) -> tuple[int, ...]:
        """As it lies there."""
        return (columns, rows) if self.transposed else (rows, columns)

    def load_l1(self, core: Core, tile: LocalTensor, rows: Span, columns: Span) -> None:
        """Nothing: it is there."""

    def load_l0(
        self, core: Core, piece: LocalTensor, tile: LocalTensor, rows: slice, columns: slice
    ) -> None:
        """Turned on the way where it lies transposed."""
        _load_l0(core, piece, tile, rows, columns, self.transposed)


def _load_l0(
    core: Core,
    piece: LocalTensor,
    tile: LocalTensor,
    rows: slice,
    columns: slice,
    transposed: bool,
) -> None:
    part = tile[columns, rows] if transposed else tile[rows, columns]
    core.load_data(piece, part, transpose=transposed)
