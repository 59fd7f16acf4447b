"""Packed tiles: short rows stay side by side as they lie in global memory.

Rows that are shorter than a repeat, or don't fill whole 32-byte blocks, would each take a
transfer and a repeat of their own. The schedule keeps them packed: results and full operands move
in one piece, smaller operands are loaded as they are and repeated on chip (see
:mod:`npusim.schedules.spreading`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, prod
from typing import TYPE_CHECKING

from npusim.schedules.broadcast_tiling import Tile, divisor_at_least, outer_places
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

_ALIGN = 128  # elements


@dataclass(frozen=True, slots=True)
class PackedTiling:
    """Units of ``rows`` x ``columns`` packed elements, ``tile_units`` of them per tile.

    ``outer`` are the axes before the one that counts units; a core's share doesn't cross them. A
    unit is ``deep`` if it holds all rows of the plane, else it is a single row.
    """

    plane: Plane
    outer: tuple[int, ...]
    units: int
    rows: int
    columns: int
    block_dim: int
    units_per_core: int
    tile_units: int
    deep: bool

    @classmethod
    def fits(cls, profile: Profile, plane: Plane, itemsize: int) -> bool:
        """True for short and ragged rows, where what isn't repeated is contiguous."""
        block, row_bytes = profile.buffers.block_bytes, plane.columns * itemsize
        if any(operand.strides is not None and all(operand.steps) for operand in plane.operands):
            return False
        if any(operand.steps[-1] not in (0, 1) for operand in plane.operands):
            return False
        return bool(row_bytes % block) and row_bytes < profile.vector.repeat_bytes

    @classmethod
    def of(
        cls,
        profile: Profile,
        plane: Plane,
        coexisting: float,
        itemsize: int,
        split: BlockSplit,
    ) -> PackedTiling:
        """As many units per tile as ``coexisting`` buffers of 4 bytes leave room for.

        ``split`` says what each block gets.
        """
        room = int(profile.buffers.ub_bytes // 2 / coexisting / FLOAT.itemsize)
        limit = max(_ALIGN, room - _ALIGN)  # what is left over rounds slots up to whole blocks
        whole = plane.rows * plane.columns
        deep = bool(plane.outer) and whole <= limit and split.elements >= whole
        outer, units, rows = plane.outer, plane.rows, 1
        if deep:
            outer, units, rows = plane.outer[:-1], plane.outer[-1], plane.rows
        size = max(1, rows * plane.columns)
        per_core = max(1, split.elements // size)
        if outer and prod(outer) * ceil(units / per_core) > split.block_dim:
            per_core = divisor_at_least(units, per_core)
        block = profile.buffers.block_bytes // itemsize
        fitting = max(1, limit // size)
        tile = min(per_core, max(1, fitting // block * block) if fitting > block else fitting)
        return cls(
            plane=plane,
            outer=outer,
            units=units,
            rows=rows,
            columns=plane.columns,
            block_dim=split.block_dim,
            units_per_core=per_core,
            tile_units=tile,
            deep=deep,
        )

    @property
    def footprint(self) -> int:
        """Elements of a tile."""
        return self.tile_units * self.rows * self.columns

    def block_kind(self, block: int) -> int:
        """Units of a block."""
        end, first = prod(self.outer) * self.units, self._first(block)
        if self.units_per_core < self.units:
            end = min(end, round_up(first + 1, self.units))
        return max(0, min(self.units_per_core, end - first))

    def _first(self, block: int) -> int:
        if self.units_per_core >= self.units:
            return block * self.units_per_core
        plane, part = divmod(block, ceil(self.units / self.units_per_core))
        return plane * self.units + part * self.units_per_core

    def tiles(self, core: Core) -> Iterator[Tile]:
        """The tiles of one block."""
        block = core.get_block_idx()
        share = self.block_kind(block)
        if not share:
            return
        inside = min(share, self.units)
        plane, unit = divmod(self._first(block), self.units)
        for turn in core.loop(ceil(share / inside)):
            for first, units in core.tiles(unit, inside, self.tile_units):
                yield self._tile(turn + plane, first, units)

    def _tile(self, plane: Index, first: Index, units: int) -> Tile:
        size = self.rows * self.columns
        cut = [self._slice(operand, plane, first, units) for operand in self.plane.operands]
        targets = tuple(each for each in cut[: self.plane.targets] if each is not None)
        sources = tuple(cut[self.plane.targets :])
        return Tile((units * size,), sources, targets, (units, self.rows, self.columns))

    def _slice(
        self, operand: GlobalTensor, plane: Index, first: Index, units: int
    ) -> GmSlice | None:
        steps = operand.steps
        if not any(steps):
            return None
        size = self.rows * self.columns
        axes = steps[-3:] if self.deep else (steps[-2], 0, steps[-1])
        places: list[tuple[Place, int]] = [(first, axes[0])]
        places += outer_places(plane, self.outer, steps)
        sizes = (units, self.rows, self.columns)
        if axes == (size, self.columns if self.rows > 1 else axes[1], 1) and all(axes[::2]):
            return operand.window(tuple(places), (units * size,), (1,))
        shape = tuple(count if step else 1 for count, step in zip(sizes, axes, strict=True))
        return operand.window(tuple(places), shape, axes)
