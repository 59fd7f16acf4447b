"""Tiles of a plane: rows and columns dealt out to cores where operands broadcast along an axis."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from math import ceil, prod
from typing import TYPE_CHECKING

from npusim.values.arithmetic import round_up
from npusim.values.dtypes import FLOAT

if TYPE_CHECKING:
    from npusim.ascendc.core import Core
    from npusim.ascendc.gm import GlobalTensor
    from npusim.ascendc.gm_slices import GmSlice, Place
    from npusim.ascendc.loops import Index
    from npusim.hardware.profile import Profile
    from npusim.schedules.block_split import BlockSplit
    from npusim.schedules.broadcasting import Plane

_CORE_ALIGN = 128  # elements; a tile's limit is a multiple of it


@dataclass(frozen=True, slots=True)
class Tile:
    """One tile: its shape in UB, and where each operand and each result lie in global memory.

    ``box`` is given for packed tiles, whose shape is flat: what (units, rows, columns) it holds.
    """

    shape: tuple[int, ...]
    sources: tuple[GmSlice | None, ...]
    targets: tuple[GmSlice, ...]
    box: tuple[int, int, int] | None = None

    @property
    def target(self) -> GmSlice:
        """Where the (first) result goes."""
        return self.targets[0]


@dataclass(frozen=True, slots=True)
class PlaneTiling:
    """Rows of a plane dealt out to cores; a tile is some rows, or part of one row.

    Where there are fewer rows than cores, ``parts`` cores share a row.
    """

    plane: Plane
    block_dim: int
    rows_per_core: int
    tile_rows: int
    tile_columns: int
    footprint: int
    parts: int = 1
    part_columns: int = 0
    block_elements: int = 1  # of a 32-byte block

    @classmethod
    def of(
        cls,
        profile: Profile,
        plane: Plane,
        coexisting: float,
        itemsize: int,
        *,
        narrowest: int = FLOAT.itemsize // 2,
        split: BlockSplit | None = None,
    ) -> PlaneTiling:
        """Tiles for ``plane``: as many whole rows as the buffers take, else one row in pieces.

        ``itemsize`` is that of the widest buffer, ``narrowest`` that of the one whose rows are
        padded by the most elements. ``split`` says what each block gets, where the schedule decides
        that by axes.
        """
        block = profile.buffers.block_bytes // min(itemsize, FLOAT.itemsize)
        limit = int(profile.buffers.ub_bytes // 2 / coexisting / FLOAT.itemsize)
        limit = limit // _CORE_ALIGN * _CORE_ALIGN
        total, cores = prod(plane.outer) * plane.rows, profile.cores.vector_cores
        parts, width = 1, plane.columns
        if split and plane.columns > split.elements:
            width = split.elements
            parts = ceil(plane.columns / width)
        pad = max(2 * block, profile.buffers.block_bytes // narrowest)
        padded = round_up(width, pad)
        columns = min(width, plane.columns) if padded <= limit else limit
        per_core = max(1, split.elements // plane.columns) if split else ceil(total / cores)
        blocks = split.block_dim if split else 0
        if plane.outer and prod(plane.outer) * ceil(plane.rows / per_core) * parts > blocks:
            per_core = divisor_at_least(plane.rows, per_core)  # a tile stays inside one plane
        rows = min(max(1, limit // padded), per_core)
        return cls(
            plane,
            blocks or ceil(total / per_core) * parts,
            per_core,
            rows,
            columns,
            rows * round_up(columns, pad),
            parts,
            width,
            profile.buffers.block_bytes // itemsize,
        )

    def block_kind(self, block: int) -> Hashable:
        """Rows and columns of a block."""
        return self._rows(block // self.parts), self._columns(block % self.parts)[1]

    def tiles(self, core: Core) -> Iterator[Tile]:
        """The tiles of one block."""
        group, part = divmod(core.get_block_idx(), self.parts)
        inside = self.rows_per_core
        if self.plane.outer:
            inside = min(self.rows_per_core, self.plane.rows)
        begin, width = self._columns(part)
        first_row = self._first_row(group)
        for plane, first, rows in self._row_tiles(core, first_row, self._rows(group), inside):
            for start, columns in core.tiles(begin, width, self.tile_columns):
                yield self._tile(plane, first, rows, start, columns)

    def _rows(self, group: int) -> int:
        end = prod(self.plane.outer) * self.plane.rows
        first = self._first_row(group)
        if self.rows_per_core < self.plane.rows:  # a block stays inside one plane
            end = min(end, round_up(first + 1, self.plane.rows))
        return max(0, min(self.rows_per_core, end - first))

    def _first_row(self, group: int) -> int:
        if self.rows_per_core >= self.plane.rows:
            return group * self.rows_per_core
        plane, part = divmod(group, ceil(self.plane.rows / self.rows_per_core))
        return plane * self.plane.rows + part * self.rows_per_core

    def _columns(self, part: int) -> tuple[int, int]:
        """First column and number of columns of one of the cores that share a row."""
        if self.parts == 1:
            return 0, self.plane.columns
        first = part * self.part_columns
        return first, min(self.part_columns, self.plane.columns - first)

    def _row_tiles(
        self, core: Core, first_row: int, rows: int, inside: int
    ) -> Iterator[tuple[Index, Index, int]]:
        """(plane, first row in it, rows) of every tile of a block."""
        planes = max(1, rows // inside) if self.plane.outer else 1
        plane, row = divmod(first_row, self.plane.rows)
        for turn in core.loop(planes):
            for first, length in core.tiles(row, min(inside, rows), self.tile_rows):
                yield turn + plane, first, length

    def _tile(self, plane: Index, first: Index, rows: int, start: Index, columns: int) -> Tile:
        cut = [
            self._slice(operand, plane, first, rows, start, columns)
            for operand in self.plane.operands
        ]
        targets = tuple(each for each in cut[: self.plane.targets] if each is not None)
        return Tile((rows, columns), tuple(cut[self.plane.targets :]), targets)

    def _slice(
        self,
        operand: GlobalTensor,
        plane: Index,
        first: Index,
        rows: int,
        start: Index,
        columns: int,
    ) -> GmSlice | None:
        steps = operand.steps
        if not any(steps) and self.plane.columns * self.plane.rows > 1:
            return None
        places: list[tuple[Place, int]] = [(first, steps[-2]), (start, steps[-1])]
        places += outer_places(plane, self.plane.outer, steps)
        shape = (rows if steps[-2] else 1, columns if steps[-1] else 1)
        cut = operand.window(tuple(places), shape, (steps[-2], steps[-1]))
        return cut.by_rows() if columns % self.block_elements and shape[1] > 1 else cut


def outer_places(
    plane: Index, outer: tuple[int, ...], steps: tuple[int, ...]
) -> list[tuple[Place, int]]:
    """The outer axes' part of an address: a plane's index taken apart, with strides."""
    places: list[tuple[Place, int]] = []
    after = prod(outer)
    for size, step in zip(outer, steps, strict=False):
        after //= size
        places.append((plane if len(outer) == 1 else plane // after % size, step))
    return places


def divisor_at_least(size: int, wanted: int) -> int:
    """The smallest divisor of ``size`` that is at least ``wanted``, or a multiple of ``size``."""
    if wanted >= size:
        return round_up(wanted, size)
    return next(part for part in range(wanted, size + 1) if size % part == 0)
