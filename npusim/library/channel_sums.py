"""Sums over the rows of a product, column by column, taken while its blocks pass UB.

What batch normalisation needs of a convolution: totals in float32, which cores that share columns
add into global memory when they have done their part.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.ascendc.folds import SUM
from npusim.ascendc.loops import first_of
from npusim.ascendc.queues import TBuf, TPosition, TQue
from npusim.values.dtypes import FLOAT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from npusim.ascendc import Core, GlobalTensor, LocalTensor
    from npusim.library.operands import Span


class ChannelSums:
    """Totals of one core; each of ``targets`` has a number for every column."""

    def __init__(self, core: Core, targets: Sequence[GlobalTensor], most_columns: int) -> None:
        self._core, self._targets = core, [each.view(each.numel) for each in targets]
        self._queue = TQue(TPosition.VECOUT, 1, "totals")
        self._part = TBuf("part")
        each = FLOAT.itemsize * self._targets[0].numel
        core.pipe.init_buffer(self._queue, 1, len(targets) * each)
        core.pipe.init_buffer(self._part, len(targets), most_columns * FLOAT.itemsize)
        self._totals = self._queue.alloc_tensor(FLOAT, len(targets), self._targets[0].numel)
        core.duplicate(self._totals, 0.0)

    def add(self, tiles: Sequence[LocalTensor], columns: Span, lanes: int) -> None:
        """Add tiles of (blocks of columns, rows * lanes), one for each target."""
        core, blocks = self._core, tiles[0].shape[0]
        parts = [self._part.get(FLOAT, blocks, lanes, part=index) for index in range(len(tiles))]
        pairs = [
            (part[block], tile[block])
            for block in range(blocks)
            for part, tile in zip(parts, tiles, strict=True)
        ]
        core.fold_lanes(SUM, *pairs)  # steps of all of them in turns, so that none waits
        for index, part in enumerate(parts):
            if core.recording:
                first = first_of(columns[0])
                total = self._totals[index, first : first + columns[1]].view(blocks, lanes)
                core.add(total, total, part)
            else:  # of many blocks at once, which is in no order
                self._store(part, index, columns)

    def store(self, columns: Span, sharers: float) -> None:
        """Add the totals of some columns to what ``sharers`` cores add at a time."""
        core, (first, count) = self._core, (first_of(columns[0]), columns[1])
        self._queue.enque(self._totals)
        self._queue.deque(self._totals)
        core.set_atomic_add(sharers)
        for index in range(len(self._targets)):
            core.data_copy(
                self._targets[index].span(first, count), self._totals[index, first : first + count]
            )
        core.set_atomic_none()
        self._queue.free_tensor(self._totals)

    def _store(self, part: LocalTensor, index: int, columns: Span) -> None:
        self._core.set_atomic_add()
        self._core.data_copy(self._targets[index].span(*columns), part)
        self._core.set_atomic_none()
