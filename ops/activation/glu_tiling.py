"""How SwiGlu and its gradient cut the halves of a tensor: tiles of rows and columns, in turns.

Of all widths in steps of a line of L2, each with as many rows as UB takes, the one that keeps the
most cores busy wins, then the one with the fewest tiles, the largest, the most whole ones. Source:
ops-nn activation/swi_glu, host tiling.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from math import ceil, gcd
from typing import TYPE_CHECKING

from npusim.ascendc.intrinsics.copy import MOST_BLOCKS, MOST_RUNS
from npusim.schedules.elementwise import Tile
from npusim.values.arithmetic import round_up

if TYPE_CHECKING:
    from npusim.ascendc.core import Core
    from npusim.ascendc.gm import GlobalTensor
    from npusim.ascendc.gm_slices import GmSlice
    from npusim.ascendc.loops import Index
    from npusim.hardware.profile import Profile


@dataclass(frozen=True, slots=True)
class GluTiling:
    """Tiles of ``tile_rows`` by ``tile_columns`` elements of a matrix, one core after the other.

    ``whole`` tells that rows are whole blocks of 32 bytes; others are padded to that in UB.
    """

    rows: int
    columns: int
    tile_rows: int
    tile_columns: int
    block_dim: int
    double_buffer: bool
    footprint: int
    whole: bool

    @classmethod
    def of(
        cls,
        profile: Profile,
        rows: int,
        columns: int,
        itemsize: int,
        *,
        queues: int,
        scratch_bytes: int,
    ) -> GluTiling:
        """Tiles with ``queues`` of ``itemsize`` and ``scratch_bytes`` for each element."""
        shape = (rows, columns, itemsize, queues, scratch_bytes)
        found = cls._with(profile, *shape, depth=2)
        if ceil(found.tiles_in_all / found.block_dim) == 2:
            single = cls._with(profile, *shape, depth=1)
            once = single.tiles_in_all <= single.block_dim
            if once and single.block_dim >= found.block_dim:
                return single
        return found

    @classmethod
    def _with(
        cls,
        profile: Profile,
        rows: int,
        columns: int,
        itemsize: int,
        queues: int,
        scratch_bytes: int,
        *,
        depth: int,
    ) -> GluTiling:
        block = profile.buffers.block_bytes // itemsize
        room = profile.buffers.ub_bytes // (queues * depth * itemsize + scratch_bytes)
        room = int(room) // block * block
        line = profile.memory.l2_line_bytes // itemsize
        whole = columns % block == 0
        cores = profile.cores.vector_cores
        most_rows = min(rows, MOST_RUNS)
        width = min(columns, room, MOST_BLOCKS if whole else MOST_BLOCKS // itemsize)
        if line < width < columns:
            width = width // line * line
        found: list[GluTiling] = []
        while True:
            apart = 2 * columns - width
            far = apart > MOST_BLOCKS * block if whole else apart * itemsize > MOST_BLOCKS
            high = 1 if far and not found else min(room // round_up(width, block), most_rows)
            if high < 1 or (far and high > 1):
                break
            tiles = ceil(rows / high) * ceil(columns / width)
            footprint = high * round_up(width, block)
            found.append(
                cls(rows, columns, high, width, min(tiles, cores), depth > 1, footprint, whole)
            )
            if (far and len(found) == 1) or width <= line or high >= most_rows:
                break
            width = width - line if width % line == 0 else width // line * line
        return max(found, key=lambda each: each.worth)

    @property
    def tiles_in_all(self) -> int:
        """Tiles of the whole matrix."""
        return ceil(self.rows / self.tile_rows) * ceil(self.columns / self.tile_columns)

    @property
    def worth(self) -> tuple[int, ...]:
        """What the search looks for, the most important first."""
        full = (self.rows // self.tile_rows) * (self.columns // self.tile_columns)
        size = self.tile_rows * self.tile_columns
        return self.block_dim, -self.tiles_in_all, size, full

    def block_kind(self, block: int) -> Hashable:
        """How many tiles of which shapes a block has."""
        return tuple(
            (self._width(column), full, rest) for column, _, _, full, rest in self._runs(block)
        )

    def tiles(self, core: Core, tensors: tuple[GlobalTensor, ...], results: int) -> Iterator[Tile]:
        """The tiles of one block, those of one shape and column together; results come first."""
        for column, first, step, full, rest in self._runs(core.get_block_idx()):
            for turn in core.loop(full):
                row = (turn * step + first) * self.tile_rows
                yield self._tile(tensors, results, row, self.tile_rows, column)
            if rest:
                yield self._tile(tensors, results, self.rows - rest, rest, column)

    def _runs(self, block: int) -> Iterator[tuple[int, int, int, int, int]]:
        """Tiles of a block in one column of tiles each.

        (column, first row of tiles, rows of tiles between two, whole tiles, rows of the last).
        """
        across = ceil(self.columns / self.tile_columns)
        mine = range(block, self.tiles_in_all, self.block_dim)
        period = across // gcd(across, self.block_dim)
        whole, rest = divmod(self.rows, self.tile_rows)
        for start in mine[:period]:
            turns = range(start, self.tiles_in_all, self.block_dim * period)
            last = turns[-1] // across == whole  # it has the rows that are left
            yield (
                start % across,
                start // across,
                self.block_dim * period // across,
                len(turns) - last,
                rest if last else 0,
            )

    def _width(self, column: int) -> int:
        return min(self.tile_columns, self.columns - column * self.tile_columns)

    def _tile(
        self, tensors: tuple[GlobalTensor, ...], results: int, row: Index, rows: int, column: int
    ) -> Tile:
        shape = (rows, self._width(column))
        cut = [self._slice(each, row, shape, column) for each in tensors]
        return Tile(shape, tuple(cut[results:]), tuple(cut[:results]))

    def _slice(
        self, tensor: GlobalTensor, row: Index, shape: tuple[int, int], column: int
    ) -> GmSlice:
        down, along = tensor.steps
        places = ((row, down), (column * self.tile_columns, along))
        cut = tensor.window(places, shape, (down, along))
        return cut if self.whole else cut.by_rows()
