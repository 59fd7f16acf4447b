"""How rows of several tensors are put side by side by the kernel that serves all shapes.

Parts of whole blocks are loaded by rows and moved side by side in UB, on no more cores than have
24 KB each; others, and whatever fits one core, are turned by vnchwconv, so that the rows of all
parts lie one below the other. Source: public operator sources (concat_dsl.cc).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

from npusim.ascendc.costs import TURNED_LINES
from npusim.schedules.rows.shares import RowShare
from npusim.values.arithmetic import round_up

if TYPE_CHECKING:
    from npusim.hardware.profile import Profile

_NARROW = 128  # elements of a joined row that one core puts together whatever its parts are
_REPEAT_BLOCKS = 8
_HALVES = 2  # of a block, at which parts may begin without a line for every element
_CORE_BYTES = 24 << 10  # of the result that a core has at least


@dataclass(frozen=True, slots=True)
class TurnedRows:
    """Rows that are turned ``group`` together, so that each of the lines begins with a block."""

    share: RowShare
    group: int

    def padded(self, rows: int) -> int:
        """Rows that are turned where there are so many."""
        return round_up(rows, self.group)


@dataclass(frozen=True, slots=True)
class JoinTiling:
    """``rows`` of parts that are ``widths`` wide; ``block`` elements take 32 bytes.

    ``room`` is what half of UB holds and ``least`` what makes a core worth it, in elements.
    """

    rows: int
    widths: Sequence[int]
    block: int
    cores: int
    room: int
    least: int

    @classmethod
    def of(cls, profile: Profile, rows: int, widths: Sequence[int], itemsize: int) -> JoinTiling:
        """The tiling of ``widths`` elements of ``itemsize`` bytes."""
        block = profile.buffers.block_bytes // itemsize
        room = profile.buffers.ub_bytes // 2 // itemsize // block * block
        cores, least = profile.cores.vector_cores, _CORE_BYTES // itemsize
        return cls(rows, widths, block, cores, room, least)

    @property
    def whole(self) -> RowShare | None:
        """Rows of each core and of its tiles where all parts are whole blocks, else None."""
        columns = sum(self.widths)
        if self.rows <= 1 or not min(self.widths) or not self._multiple_of(self.block):
            return None
        if columns > self.room:
            return None
        cores = ceil(self.cores / max(1, self.least // columns))
        tile = min(ceil(self.rows / cores), self.room // columns)
        per_core = ceil(ceil(self.rows / tile) / self.cores) * tile
        return RowShare(self.rows, per_core, tile)

    @property
    def turned(self) -> TurnedRows | None:
        """Rows of each core and of its tiles where they are turned, else None."""
        group, columns = TURNED_LINES * self.block, sum(self.widths)
        if self.rows <= 1 or not min(self.widths):
            return None
        if self.rows <= group and columns <= _NARROW:
            return TurnedRows(RowShare(self.rows, self.rows, group), group)
        if self._multiple_of(self.block):
            return None
        align = _HALVES if self._multiple_of(self.block // _HALVES) else self.block
        most = self.room // (TURNED_LINES * align)
        if self._by_parts(align) or columns > most:
            return None
        group = TURNED_LINES * align
        tile = group * (most // columns)
        per_core = ceil(ceil(self.rows / tile) / self.cores) * tile
        return TurnedRows(RowShare(self.rows, per_core, tile), group)

    def _by_parts(self, align: int) -> bool:
        """True for few rows of parts most of which are long enough to be copied by themselves."""
        width = self.room // (TURNED_LINES * self.block) - 2 * self.block
        repeat = _REPEAT_BLOCKS * self.block
        whole = width / repeat % 1 < 1 / 2
        width = width // repeat * repeat if whole else width // self.block * self.block
        if width <= 0:  # a UB that holds no column by itself
            return False
        long = sum(each >= width for each in self.widths)
        column = width * (self.block // align)
        crowded = sum(self.widths) // column >= self.rows // self.cores
        return crowded and long >= len(self.widths) - long

    def _multiple_of(self, elements: int) -> bool:
        return all(width % elements == 0 for width in self.widths)
