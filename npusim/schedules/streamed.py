"""Kernels made from a row of a table where data decide what goes where: a function of arrays.

Every operand passes through UB once, tile by tile on all cores, a few vector instructions for each;
then every result is stored in the same way. That is what the vendor's kernels for counts, masks and
runs have in common; which elements a tile holds is found for the whole tensor at once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.ascendc import Core, GlobalTensor, Kernel, TBuf, TPosition, TQue
from npusim.schedules.on_ai_cpu import OnAiCpu
from npusim.schedules.tile_grid import Grid
from npusim.values.dtypes import FLOAT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.ascendc.ai_cpu import AiCpuKernel
    from npusim.ascendc.loops import Index
    from npusim.ascendc.task import Task
    from npusim.hardware.profile import Profile

    Array = NDArray[Any]

_QUEUES = 4  # two for operands, two for results, beside the tile that is computed on
_MOST_TILE = 8192  # elements


@dataclass(frozen=True)
class Streamed:
    """One row of a table: ``compute`` as in :class:`~npusim.schedules.on_ai_cpu.OnAiCpu`.

    ``steps`` are the vector instructions for each tile of an operand, in float32; ``passes`` counts
    how often the operands pass, e.g. once for sums and once for what they are needed for.
    """

    op_type: str
    compute: Callable[..., Any]
    steps: tuple[str, ...] = ("vmuls",)
    attributes: Mapping[str, object] = field(default_factory=dict)
    passes: int = 1

    def from_task(self, task: Task) -> tuple[Kernel, ...]:
        """The kernel for a task, whose results are known."""
        row = OnAiCpu(self.op_type, self.compute, attributes=self.attributes)
        (whole,) = row.from_task(task)
        kernel = StreamedKernel.called(task.op_type)
        return (kernel(task.profile, whole, self.steps, self.passes),)


class StreamedKernel(Kernel):
    """Operands in, results out, tile by tile; ``whole`` says what tensors and makes the numbers."""

    generated = False

    def __init__(
        self, profile: Profile, whole: AiCpuKernel, steps: tuple[str, ...], passes: int
    ) -> None:
        self.steps, self.passes = steps, passes
        self.reads, self.writes, self.compute = whole.reads, whole.writes, whole.compute
        widest = max(each.dtype.itemsize for each in (*self.reads, *self.writes))
        block = profile.buffers.block_bytes
        room = profile.buffers.ub_bytes // (_QUEUES * widest + FLOAT.itemsize)
        self.tile = max(block, min(_MOST_TILE, room) // block * block)
        self._lanes = profile.cores.vector_cores
        self.block_dim = max(
            self._grid(each).used_cores for each in (*self.reads, *self.writes) if each.numel
        )
        self._results: list[Array] = []

    def _grid(self, tensor: GlobalTensor) -> Grid:
        return Grid((tensor.numel,), (min(self.tile, tensor.numel),), self._lanes)

    def block_kind(self, block_idx: int) -> Hashable:
        """What a block has of every tensor."""
        grids = [self._grid(each) for each in (*self.reads, *self.writes) if each.numel]
        return tuple(
            grid.block_kind(block_idx) if block_idx < grid.used_cores else None for grid in grids
        )

    def process(self, core: Core) -> None:
        """All operands, then all results."""
        if core.numerics and not core.get_block_idx():
            self._results = [
                np.asarray(each).reshape(-1)
                for each in self.compute(*(each.array for each in self.reads))
            ]
        width = max(each.dtype.itemsize for each in (*self.reads, *self.writes))
        taken = TQue(TPosition.VECIN, 2, "operand")
        given = TQue(TPosition.VECOUT, 2, "result")
        work = TBuf("work")
        core.pipe.init_buffer(taken, 2, self.tile * width)
        core.pipe.init_buffer(given, 2, self.tile * width)
        core.pipe.init_buffer(work, 1, self.tile * FLOAT.itemsize)
        for each in self.reads * self.passes:
            for piece in self._pieces(core, each):
                start, count = piece
                operand = taken.copy_in(each.view(each.numel).span(start, count))
                tile = work.get(FLOAT, count)
                for step in self.steps:
                    core.record_vector(step, tile, count)
                taken.free_tensor(operand)
        for number, each in enumerate(self.writes):
            for start, count in self._pieces(core, each):
                tile = work.get(FLOAT, count)
                core.duplicate(tile, 0.0)
                result = given.alloc_tensor(each.dtype, count)
                core.move_blocks(result, tile, count * each.dtype.itemsize)
                how = partial(self._part, core, number, start, count)
                core.arrange(result, tile, how=how)
                given.copy_out(each.view(each.numel).span(start, count), result)

    def _pieces(self, core: Core, tensor: GlobalTensor) -> Any:
        if not tensor.numel:
            return
        grid = self._grid(tensor)
        if core.get_block_idx() >= grid.used_cores:
            return
        for piece in grid.pieces(core):
            yield piece.starts[0], piece.shape[0]

    def _part(self, core: Core, number: int, start: Index, count: int, _: Array) -> Array:
        """What of a result belongs to a tile, for every iteration at once."""
        first = core.counter(start).values(core.depth)
        return self._results[number][np.asarray(first)[..., None] + np.arange(count)]
