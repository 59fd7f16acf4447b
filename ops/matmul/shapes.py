"""What a tiling of a matrix product depends on, and what it is: rectangles of C for the cores."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import ceil, lcm, prod
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from npusim.ascendc.loops import Index
    from npusim.library.matmul_tiling import MatmulTiling
    from npusim.values.dtypes import DType


class Shape(NamedTuple):
    """Sizes, how the operands lie, dtypes, and what happens to results on their way out.

    ``steps_out`` counts vector instructions for each element there.
    """

    batch: int
    m: int
    n: int
    k: int
    turned_a: bool
    turned_b: bool
    in_fractals: bool
    dtype: DType
    out_bytes: int
    hf32: bool = False
    steps_out: int = 0
    has_bias: bool = False
    b_in_fractals: bool = False


@dataclass(frozen=True, slots=True)
class Share:
    """A rectangle: ``count`` matrices from ``first``, ``rows`` x ``columns`` of each."""

    first: int
    count: int
    row: Index
    rows: int
    column: Index
    columns: int


@dataclass(frozen=True)
class Partition:
    """A grid of rectangles: matrices, rows and columns of one (the last ones get what remains).

    ``cores`` share them, one after the other where there are more rectangles than cores. They go
    down one column after the other, or through a ``window`` of so many rows and columns of them at
    a time, along its diagonals; windows go to and fro.
    """

    shape: Shape
    groups: int
    rows: int
    columns: int
    blocks: MatmulTiling
    cores: int
    window: tuple[int, int] | None = None  # rows, columns

    @property
    def grid(self) -> tuple[int, int, int]:
        """Rectangles along the batch, the rows and the columns."""
        shape = self.shape
        return self.groups, ceil(shape.m / self.rows), ceil(shape.n / self.columns)

    @property
    def block_dim(self) -> int:
        """Number of cores in use."""
        return min(self.cores, prod(self.grid))

    def shares(self, core: int) -> list[Share]:
        """The rectangles of a core."""
        return self._shares[core :: self.block_dim]

    @cached_property
    def _shares(self) -> list[Share]:
        groups, high, wide = self.grid
        return [self._share(index, high, wide) for index in range(groups * high * wide)]

    def _share(self, index: int, high: int, wide: int) -> Share:
        """A rectangle, of so many of a matrix."""
        group, place = divmod(index, high * wide)
        row, column = self._place(place, high, wide)
        each, more = divmod(self.shape.batch, self.groups)
        first = group * each + min(group, more)
        row, column = row * self.rows, column * self.columns
        return Share(
            first,
            each + (group < more),
            row,
            min(self.rows, self.shape.m - row),
            column,
            min(self.columns, self.shape.n - column),
        )

    def _place(self, index: int, high: int, wide: int) -> tuple[int, int]:
        """Row and column of a rectangle among those of a matrix."""
        if self.window is None:
            column, row = divmod(index, high)
            return row, column
        rows, columns = self.window
        band, index = divmod(index, rows * wide)
        rows = min(rows, high - band * rows)
        firsts = range(0, wide, columns)
        for first in firsts if band % 2 == 0 else reversed(firsts):
            width = min(columns, wide - first)
            if index < rows * width:
                break
            index -= rows * width
        along = (index + index // lcm(rows, width)) % width
        return band * self.window[0] + index % rows, first + along
