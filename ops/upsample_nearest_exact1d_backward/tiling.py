"""How UpsampleNearestExact2dGrad divides its work: slides of columns, dealt to the cube cores.

A slide's columns depend on a range of gradient columns, which is all that its matrix product reads.
Source: ops-cv image/upsample_nearest_exact2d_grad, host tiling (slide width, dealing of whole and
remaining slides, workspace) and kernel (windows, in float32).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from npusim.values.dtypes import FLOAT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.hardware.profile import Profile

# Columns of a slide by the scale up to which they hold; the widest slide that keeps the selection
# matrix small.
_SLIDES = ((5.0, 64), (8.0, 48), (20.0, 32), (float("inf"), 16))
_SPARE_K = 4  # gradient columns a slide is given on top of slide * scale
_SAME = 1e-6  # scales closer than this are equal to the device
_SYSTEM_WORKSPACE_BYTES = 32 << 20
_WORKSPACE_FACTOR = 8  # the host asks for this many times the bytes of one set of matrices


class Slide(NamedTuple):
    """Neighbouring output columns, and the gradient columns ``start : start + k`` they sum up."""

    first: int
    width: int
    start: int
    k: int


class Share(NamedTuple):
    """What one block does of a slide: ``rows`` rows of it from ``row``."""

    slide: Slide
    row: int
    rows: int


def window_starts(columns: NDArray[np.integer], scale: float, length: int) -> NDArray[np.int64]:
    """The first gradient column of each output column: min(ceil(i * scale - 1/2), length).

    In float32, in this order: the windows of a column end where those of the next one begin.
    """
    places = columns.astype(np.float32) * np.float32(scale) - np.float32(0.5)
    starts: NDArray[np.float32] = np.minimum(np.ceil(places), np.float32(length))
    return starts.astype(np.int64).clip(0, length)


@dataclass(frozen=True)
class Tiling:
    """``rows`` rows of ``length`` gradient columns become rows of ``size`` columns.

    ``itemsize`` is that of the operator's dtype: float32, unless somebody calls it directly.
    """

    rows: int
    length: int
    size: int
    scale: float
    cores: int
    itemsize: int = FLOAT.itemsize

    @property
    def copies(self) -> bool:
        """Whether the scale is 1 and every gradient column belongs to the column it stands over."""
        return abs(self.scale - 1.0) < _SAME and self.length == self.size

    @property
    def slide(self) -> int:
        """Output columns of a slide."""
        return next(width for limit, width in _SLIDES if self.scale <= limit)

    @property
    def k(self) -> int:
        """Gradient columns that a slide may need: the height of the selection matrix."""
        if self.scale < _SAME:
            return self.length
        return min(ceil(np.float32(self.slide) * np.float32(self.scale)) + _SPARE_K, self.length)

    @property
    def slides(self) -> int:
        """Slides that the output is cut into."""
        return ceil(self.size / self.slide)

    @property
    def slides_per_core(self) -> int:
        """Slides that every core does by itself, all rows of them."""
        return self.slides // self.cores

    @property
    def tail_slides(self) -> int:
        """Slides that remain, each divided among several cores by rows."""
        return self.slides % self.cores

    @property
    def tail_rows(self) -> int:
        """Rows that a core does of a remaining slide."""
        group = self.cores // self.tail_slides
        return max(ceil(self.rows / group), self.slide)

    @property
    def tail_group(self) -> int:
        """Cores that share a remaining slide."""
        return min(self.cores // self.tail_slides, ceil(self.rows / self.tail_rows))

    @property
    def rows_per_core(self) -> int:
        """Rows that a core copies when the scale is 1."""
        return ceil(self.rows / self.cores)

    @property
    def block_dim(self) -> int:
        """Clusters that have something to do, at least one."""
        if self.copies:
            return ceil(self.rows / self.rows_per_core)
        if self.slides_per_core:
            return self.cores
        return self.tail_slides * self.tail_group

    @property
    def selection_elements(self) -> int:
        """Elements of one block's selection matrix."""
        return self.slide * self.k

    @property
    def workspace_bytes(self) -> int:
        """What the host asks for, system workspace included."""
        intermediate = self.rows * self.size * self.itemsize
        matrices = self.selection_elements * self.block_dim
        return (intermediate + matrices) * _WORKSPACE_FACTOR + _SYSTEM_WORKSPACE_BYTES

    @cached_property
    def all_slides(self) -> tuple[Slide, ...]:
        """The slides in the order of their columns."""
        firsts = np.arange(0, self.size, self.slide)
        ends = np.minimum(firsts + self.slide, self.size)
        starts = window_starts(firsts, self.scale, self.length)
        depths = window_starts(ends, self.scale, self.length) - starts
        # Where nothing is summed up, the product is still made, with a column of zeros.
        starts = np.where((depths == 0) & (starts >= self.length), 0, starts)
        columns = (firsts, ends - firsts, starts, np.maximum(depths, 1))
        return tuple(map(Slide, *(column.tolist() for column in columns)))

    @property
    def tails(self) -> tuple[Slide, ...]:
        """The remaining slides."""
        return self.all_slides[self.slides_per_core * self.cores :]

    def whole(self, block: int) -> tuple[Slide, ...]:
        """The slides that ``block`` does by itself."""
        each = self.slides_per_core
        return self.all_slides[block * each : (block + 1) * each]

    def tail(self, block: int) -> Share | None:
        """The part of a remaining slide that ``block`` does."""
        if not self.tail_slides:
            return None
        group, member = divmod(block, self.tail_group)
        if group >= self.tail_slides:
            return None
        row = member * self.tail_rows
        return Share(self.tails[group], row, min(self.tail_rows, self.rows - row))


def tile(profile: Profile, rows: int, length: int, size: int, scale: float) -> Tiling:
    """The tiling on a chip; ``scale`` of 0 takes it from the sizes, in float32 like the host."""
    given = np.float32(scale)
    used = given if given > 0 else np.float32(length) / np.float32(size)
    return Tiling(rows, length, size, float(used), profile.cores.cube_cores)
