"""The workspace in which cube and vector cores meet, and the flags by which they do.

It lies in device memory and is small enough to stay in L2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from npusim.ascendc import GlobalTensor, GmBuffer
from npusim.library.operands import GmMatrix
from npusim.values.arithmetic import round_up

if TYPE_CHECKING:
    from npusim.ascendc import Core
    from npusim.ascendc.gm_slices import GmSlice, Place
    from npusim.ops.attention.steps import Job
    from npusim.values.dtypes import DType

# What a core tells the other side: scores are there, weights are there, outputs are there.
SCORES, WEIGHTS, OUTPUTS = 0, 1, 2

_GRAIN = 16  # elements that rows are rounded up to


@dataclass(frozen=True, slots=True)
class Space:
    """A matrix of up to ``rows`` x ``columns`` for each lane and slot of every cluster."""

    tensor: GlobalTensor
    lanes: int
    slots: int
    rows: int
    columns: int

    @classmethod
    def of(
        cls, name: str, dtype: DType, clusters: int, lanes: int, slots: int, rows: int, columns: int
    ) -> Space:
        """Rows are rounded up to whole blocks."""
        columns = round_up(columns, _GRAIN)
        elements = clusters * lanes * slots * rows * columns
        buffer = GmBuffer(name, elements * dtype.itemsize)
        return cls(GlobalTensor(buffer, dtype, (elements,)), lanes, slots, rows, columns)

    def matrix(self, core: Core, job: Job, columns: int) -> GmMatrix:
        """The matrix of a job, whose rows follow each other closely."""
        return GmMatrix(self.tensor, ((self._start(core, job), 1),), round_up(columns, _GRAIN))

    def first(self, core: Core, job: Job, row: Place, columns: int) -> GmSlice:
        """The first element of a row."""
        places = ((self._start(core, job), 1), (row, round_up(columns, _GRAIN)))
        return self.tensor.window(places, (), ())

    def window(self, core: Core, job: Job, row: Place, rows: int, columns: int) -> GmSlice:
        """Some rows of it, in whole blocks as they lie there.

        Source: ops-transformer, PromptFlashAttention, where a tile's last columns are rounded up to
        blocks (singleProcessSInnerSizeTail) and copied so.
        """
        step = round_up(columns, _GRAIN)
        places = ((self._start(core, job), 1), (row, step))
        return self.tensor.window(places, (rows, columns), (step, 1)).rounded_up(core.block_bytes)

    def _start(self, core: Core, job: Job) -> int:
        number = (core.get_block_idx() * self.lanes + job.lane) * self.slots
        return (number + job.slot % self.slots) * self.rows * self.columns


class Spaces(NamedTuple):
    """Scores, weights made of them, their products with the values, and what these add up to."""

    scores: Space
    weights: Space
    outputs: Space
    total: Space
