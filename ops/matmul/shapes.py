"""What a tiling of a matrix product depends on, and what it is: rectangles of C for the cores."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import ceil, lcm, prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Hashable

    from numpy.typing import NDArray

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


Size = tuple[int, int, int]  # matrices, rows and columns


class Share(NamedTuple):
    """A rectangle: so many ``matrices`` from ``first``, ``rows`` x ``columns`` of each."""

    first: int
    matrices: int
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
        return [Share(*map(int, self._share(each))) for each in self._numbers(core)]

    def sizes(self, core: int) -> tuple[tuple[Size, int], ...]:
        """How many rectangles of each size a core has, of the largest first."""
        return tuple((size, found[core]) for size, found in self._sizes if found[core])

    def order(self, core: int) -> Hashable:
        """Equal for cores whose rectangles are as large, one after the other."""
        sizes = self.sizes(core)
        return sizes if len(sizes) == 1 else tuple(each[1::2] for each in self.shares(core))

    def by_size(self, core: int) -> dict[Size, NDArray[np.int64]]:
        """Where a core's rectangles of each size begin: their first matrices, rows and columns.

        Those of the largest come first.
        """
        found = np.array(self._share(np.array(self._numbers(core))))
        starts, sizes = found[::2], found[1::2].T
        return {size: starts[:, (sizes == size).all(axis=1)] for size, _ in self.sizes(core)}

    def _numbers(self, core: int) -> range:
        """Those of a core's rectangles."""
        return range(core, prod(self.grid), self.block_dim)

    @cached_property
    def _sizes(self) -> list[tuple[Size, list[int]]]:
        """How many rectangles of each size every core has.

        The last rows and columns are dealt out, and whatever is left has the size of the others.
        """
        (groups, high, wide), shape, cores = self.grid, self.shape, self.block_dim
        total, numbers = high * wide, np.arange(cores)
        low, narrow = shape.m - (high - 1) * self.rows, shape.n - (wide - 1) * self.columns
        each, more = divmod(shape.batch, groups)
        found: dict[Size, NDArray[np.int64]] = {}
        for count, first, last in ((each + 1, 0, more), (each, more, groups)):
            if first == last:
                continue
            starts = np.arange(first * total, last * total, total)[:, None]
            in_row, in_column, in_both = (
                np.bincount((starts + places).ravel() % cores, minlength=cores)
                for places in self._edges()
            )
            behind = last * total - numbers + cores - 1
            every = behind // cores - (behind - (last - first) * total) // cores
            for rows, columns, alike in (
                (self.rows, self.columns, every - in_row - in_column + in_both),
                (low, self.columns, in_row - in_both),
                (self.rows, narrow, in_column - in_both),
                (low, narrow, in_both),
            ):
                size = count, rows, columns
                found[size] = found[size] + alike if size in found else alike
        return [(size, found[size].tolist()) for size in sorted(found, reverse=True)]

    def _edges(self) -> tuple[NDArray[np.int64], ...]:
        """Which rectangles of a matrix are in its last row, in its last column, and in both."""
        _, high, wide = self.grid
        rows, columns = self._window
        bands, first = (high - 1) // rows, (wide - 1) // columns * columns
        left, width = high - bands * rows, wide - first

        def narrow(rows: int) -> NDArray[np.int64]:
            """Those of a window in its last column."""
            places = np.arange(rows * width)
            return np.flatnonzero((places + places // lcm(rows, width)) % width == width - 1)

        start = bands * rows * wide
        bottom = np.arange(start + left - 1, high * wide, left)
        begins, right = start + first * left * (bands % 2 == 0), narrow(left)
        corner = begins + right[right % left == left - 1]
        right += begins
        if bands:
            starts = np.arange(0, start, rows * wide)
            starts[::2] += first * rows
            right = np.concatenate([(starts[:, None] + narrow(rows)).ravel(), right])
        return bottom, right, corner

    def _share(self, number: Any) -> tuple[Any, ...]:
        """What a rectangle is, as :class:`Share` has it; many at once for an array."""
        (groups, high, wide), shape, (rows, columns) = self.grid, self.shape, self._window
        group, place = divmod(number, high * wide)
        band, place = divmod(place, rows * wide)
        tall = _least(rows, high - band * rows)
        back = band % 2
        first = (place + back * (tall * wide - 1 - 2 * place)) // (tall * columns) * columns
        broad = _least(columns, wide - first)
        place = place - tall * (first + back * (wide - 2 * first - broad))
        row = band * rows + place % tall
        column = first + (place + place // np.lcm(tall, broad)) % broad
        each, more = divmod(shape.batch, groups)
        return (
            group * each + _least(group, more),
            each + (group < more),
            row * self.rows,
            _least(self.rows, shape.m - row * self.rows),
            column * self.columns,
            _least(self.columns, shape.n - column * self.columns),
        )

    @property
    def _window(self) -> tuple[int, int]:
        """Rows and columns of it; without one it is one column after the other."""
        return self.window or (self.grid[1], 1)


def _least(one: Any, other: Any) -> Any:
    """The lesser of two numbers, or of each of those in arrays."""
    return one - (one > other) * (one - other)
