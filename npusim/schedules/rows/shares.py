"""Rows dealt out to cores in like shares, and each share cut into tiles."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from npusim.values.arithmetic import round_up


@dataclass(frozen=True, slots=True)
class RowShare:
    """Rows dealt out to cores in multiples of ``multiple``, in tiles of ``tile`` rows."""

    rows: int
    per_core: int
    tile: int

    @classmethod
    def of(cls, rows: int, cores: int, tile: int, multiple: int = 1) -> RowShare:
        """Like shares; tiles of at most ``tile`` rows."""
        per_core = round_up(ceil(rows / cores), multiple)
        passes = ceil(per_core / max(1, tile))
        even = round_up(ceil(per_core / passes), multiple)
        return cls(rows, per_core, min(even, max(multiple, tile)))

    @property
    def cores(self) -> int:
        """Cores that get rows."""
        return ceil(self.rows / self.per_core)

    def length(self, block: int) -> int:
        """Rows of a core."""
        return max(0, min(self.per_core, self.rows - block * self.per_core))
