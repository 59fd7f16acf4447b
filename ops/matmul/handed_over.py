"""Products by groups whose clusters hand blocks over in workspace, one side to the other.

Two slots of workspace for each cluster go round; a side is what a core of one kind does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from npusim.ascendc.loops import looked_up
from npusim.ascendc.task import made
from npusim.library.operands import GmMatrix
from npusim.ops.matmul.grouped import GroupedMatMul

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from npusim.ascendc import Core
    from npusim.ascendc.cluster import CoreWait
    from npusim.ascendc.loops import Index
    from npusim.engine.program import Barrier
    from npusim.values.dtypes import DType

    Waits = Iterator[Barrier | CoreWait]

FULL, EMPTY = 0, 1  # flags: a slot has been filled, has been read
SLOTS = 2  # of workspace for a cluster


class Side(Protocol):
    """What the cores of one kind do with a block: its slot, its size, and what `told` says."""

    @property
    def block(self) -> Callable[..., Waits]: ...


class HandedOver(GroupedMatMul):
    """A product by groups on cube and vector cores; subclasses say what each side does."""

    is_mix = True

    def reserve(self, rows: int, columns: int, dtype: DType) -> None:
        """Slots of so many rows and columns for every cluster."""
        self.slots = made((self.block_dim, SLOTS, rows, columns), dtype, "slots")
        self.scratch = (self.slots,)

    @property
    def workspace_bytes(self) -> int:
        """What clusters hand over in."""
        return self.slots.nbytes

    def side(self, core: Core) -> Side:
        """The cube core's side, or a vector core's."""
        raise NotImplementedError

    def told(self, places: Sequence[Any]) -> NDArray[np.int64]:
        """A row of numbers for each block, which the sides are given."""
        return np.array(places, np.int64)

    def process(self, core: Core) -> Waits:  # type: ignore[override]
        """One side of every block, in turn."""
        side, done = self.side(core), 0
        for size, places in self.blocks_of(core.get_block_idx()).items():
            turns = (done + np.arange(len(places), dtype=np.int64)) % SLOTS
            table = np.column_stack((turns, self.told(places)))
            for turn in core.loop(len(places), sequential=True):
                slot, *place = (looked_up(turn, table[:, at]) for at in range(table.shape[1]))
                yield from side.block(self._slot(core, slot), size, *place)
            done += len(places)

    def _slot(self, core: Core, number: Index) -> GmMatrix:
        _, slots, rows, columns = self.slots.shape
        start = core.get_block_idx() * slots * rows * columns
        return GmMatrix(self.slots, ((start, 1), (number, rows * columns)), columns)
