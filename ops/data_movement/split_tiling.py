"""How many blocks a kernel has that takes a matrix apart by columns, one binary for all shapes.

Source: public operator sources (split_dsl.cc).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

from npusim.ops.data_movement.join_tiling import TurnedRows
from npusim.schedules.rows.shares import RowShare
from npusim.values.arithmetic import round_up

if TYPE_CHECKING:
    from npusim.hardware.profile import Profile

_FEW_ROWS = 16
_SINGLE_CORE = 2048  # elements
_NARROW_BLOCKS, _REPEAT_BLOCKS = 12, 8  # parts that are packed in UB while they are copied


@dataclass(frozen=True, slots=True)
class WholeTiles:
    """Tiles of so many rows and columns; a block has ``per_rows`` x ``per_columns`` of them all."""

    tile_rows: int
    tile_columns: int
    per_rows: int
    per_columns: int
    across: int  # blocks beside each other
    blocks: int

    @classmethod
    def dealt(
        cls, rows: int, columns: int, tile_rows: int, tile_columns: int, cores: int
    ) -> WholeTiles:
        """Dealt out by rows, and where these are few by columns too."""
        down = ceil(rows / tile_rows)
        if down > cores // 2:
            each = ceil(down / cores)
            return cls(tile_rows, tile_columns, each * tile_rows, columns, 1, ceil(down / each))
        over = ceil(columns / tile_columns)
        each = ceil(over / (cores // down))
        across = ceil(over / each)
        return cls(tile_rows, tile_columns, tile_rows, each * tile_columns, across, down * across)


@dataclass(frozen=True, slots=True)
class SplitTiling:
    """``rows`` of parts that are ``widths`` wide; ``block`` elements take 32 bytes."""

    rows: int
    widths: Sequence[int]
    block: int
    cores: int
    ub_elements: int

    @classmethod
    def of(cls, profile: Profile, rows: int, widths: Sequence[int], itemsize: int) -> SplitTiling:
        """The tiling of ``widths`` elements of ``itemsize`` bytes."""
        wide = [width for width in widths if width] or [0]
        block = profile.buffers.block_bytes // itemsize
        cores, ub = profile.cores.vector_cores, profile.buffers.ub_bytes // itemsize
        return cls(rows, wide, block, cores, ub)

    @property
    def blocks(self) -> int:
        """Blocks of the launch."""
        if not self.rows * self._columns:
            return 1
        if len(self.widths) == 1:
            return self._by_rows_and_parts()
        if (whole := self.whole) is not None:
            return whole.blocks
        return self._packed() if self._whole else self._ragged()

    @property
    def whole(self) -> WholeTiles | None:
        """Tiles of the widest parts of whole blocks, about as many as there are cores; else None.

        One tile fills UB, and its parts leave from where they lie.
        """
        columns, rows = self._columns, self.rows
        if not rows * columns or len(self.widths) == 1 or not self._whole or self._packed():
            return None
        tile_rows = min(_FEW_ROWS, rows)
        tile_columns = self.ub_elements // tile_rows // self.block * self.block
        if columns < tile_columns:
            tile_columns, tile_rows = columns, self.ub_elements // columns
            if rows // tile_rows < self.cores:
                tile_rows = max(_FEW_ROWS, ceil(rows / self.cores))
        return WholeTiles.dealt(rows, columns, min(tile_rows, rows), tile_columns, self.cores)

    @property
    def turned(self) -> TurnedRows | None:
        """Rows of each core and of its tiles where parts are turned out of them, else None."""
        group, room = _FEW_ROWS * self.block, self.ub_elements // 3
        if not self.rows * min(self.widths) or self._whole or not self._turns:
            return None
        tile = room // self._columns // group * group
        if self.rows > tile:
            tile = group
        per_core = ceil(ceil(self.rows / tile) / self.cores) * tile
        return TurnedRows(RowShare(self.rows, per_core, tile), group)

    @property
    def _whole(self) -> bool:
        return all(width % self.block == 0 for width in self.widths)

    @property
    def _turns(self) -> bool:
        """True for rows of two-byte elements of which UB has room for a group, three times."""
        group, room = _FEW_ROWS * self.block, self.ub_elements // 3
        widest = room // group // self.block * self.block
        several = self.rows > 1 and len(self.widths) > 1
        return several and self.block == _FEW_ROWS and self._columns <= widest

    @property
    def _columns(self) -> int:
        return sum(self.widths)

    @property
    def _equal(self) -> bool:
        return len(set(self.widths)) == 1

    def _packed(self) -> int:
        """Blocks where narrow parts of whole blocks are packed in UB; 0 where they aren't."""
        columns, least = self._columns, min(self.widths)
        narrow = least < _NARROW_BLOCKS * self.block and least % (_REPEAT_BLOCKS * self.block)
        room = self.ub_elements // 2
        packed = narrow and columns <= room < self.rows * columns
        return self._by_rows(room // columns) if packed else 0

    def _ragged(self) -> int:
        """Parts that are turned in UB, so that their columns lie one below the other."""
        if (turned := self.turned) is not None:
            return turned.share.cores
        group, room = _FEW_ROWS * self.block, self.ub_elements // 3
        widest = room // group // self.block * self.block
        turns = self.block == _FEW_ROWS and self.rows > 1  # two-byte elements
        least = min(self.widths)
        if turns and self._equal and widest >= round_up(2 * least, self.block):
            tile = widest // least * least
            tall = room // round_up(tile, self.block) // group * group
            tall = min(tall, round_up(self.rows, group))
            return WholeTiles.dealt(self.rows, self._columns, tall, tile, self.cores).blocks
        return self._by_rows_and_parts()

    def _by_rows_and_parts(self) -> int:
        rows, least = self.rows, min(self.widths)
        cores = self.cores if rows * self._columns >= _SINGLE_CORE else 1
        if least < self.block and rows * least // cores < self.block:
            cores = max(rows // ceil(self.block / least), 1)
        if rows > cores or least // (cores // rows) < self.block:
            return ceil(rows / ceil(rows / cores))
        if not self._equal:
            return rows
        return rows * ceil(least / ceil(least / (cores // rows)))

    def _by_rows(self, tile: int) -> int:
        tiles = ceil(self.rows / tile)
        return ceil(tiles / ceil(tiles / self.cores))
