"""The operands of a matrix product: matrices in global memory, and how their tiles are loaded.

Tiles are filled in L1, and pieces of them move on into L0. Rows and columns are those
of the operand as the product has it, (m, k) or (k, n), however it lies in memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

from npusim.values.arithmetic import round_up

if TYPE_CHECKING:
    from npusim.ascendc.core import Core
    from npusim.ascendc.gm import GlobalTensor, GmSlice, Place
    from npusim.ascendc.loops import Index
    from npusim.ascendc.tensors import LocalTensor
    from npusim.values.dtypes import DType

Span = tuple["Index", int]  # first element and number of elements


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
        part = tile[columns, rows] if self.transposed else tile[rows, columns]
        core.load_data(piece, part, transpose=self.transposed)
