"""Rows dealt out to cores in like shares, and each share cut into tiles."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from math import ceil
from typing import TYPE_CHECKING

from npusim.values.arithmetic import round_up

if TYPE_CHECKING:
    from npusim.ascendc.core import Core
    from npusim.ascendc.loops import Index


@dataclass(frozen=True, slots=True)
class RowShare:
    """Rows dealt out to cores in multiples of ``multiple``, in tiles of ``tile`` rows.

    Where only so ``many`` cores are wanted, the last takes what is left over as well.
    """

    rows: int
    per_core: int
    tile: int
    many: int = field(default=0, kw_only=True)

    @classmethod
    def of(cls, rows: int, cores: int, tile: int, multiple: int = 1) -> RowShare:
        """Like shares; tiles of at most ``tile`` rows."""
        per_core = round_up(ceil(rows / cores), multiple)
        passes = ceil(per_core / max(1, tile))
        even = round_up(ceil(per_core / passes), multiple)
        return cls(rows, per_core, min(even, max(multiple, tile)))

    def block_kind(self, block: int) -> Hashable:
        """How many rows a core has."""
        return self.length(block)

    def tiles(self, core: Core) -> Iterator[tuple[Index, int]]:
        """The first row and the rows of each tile of a core."""
        block = core.get_block_idx()
        return core.tiles(block * self.per_core, self.length(block), self.tile)

    @property
    def cores(self) -> int:
        """Cores that get rows."""
        return self.many or ceil(self.rows / self.per_core)

    def length(self, block: int) -> int:
        """Rows of a core."""
        left = self.rows - block * self.per_core
        return left if block == self.many - 1 else max(0, min(self.per_core, left))
