"""Rows added at places that have been sorted: InplaceIndexAddWithSorted.

Equal places lie side by side, so that one core has all rows of a place: it loads what is there,
adds the rows in float32, each waiting for the one before, and stores the sum. Without data, and in
time, places are spread evenly. Source: ops-nn index/inplace_index_add_with_sorted (tiling of
arch22, kernel for half types), index/inplace_scatter_add/op_host/op_api (who sorts).
"""

from __future__ import annotations

from functools import partial
from math import ceil, prod
from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.ascendc import Core, Kernel, TBuf, TPosition, TQue
from npusim.ascendc.scalars import Scalar
from npusim.engine.program import Pipe
from npusim.schedules.bounds import fault_outside
from npusim.schedules.rows.shares import RowShare
from npusim.values.dtypes import BFLOAT16, FLOAT, FLOAT16, INT32

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.ascendc import GlobalTensor
    from npusim.ascendc.loops import Index
    from npusim.ascendc.task import Task
    from npusim.hardware.profile import Profile

_PLACES = 1536  # places that UB holds, and as many numbers of rows
_BUFFERS = 7  # of the width of a half type: three rows, and two in float32
_KEPT_BYTES = 1024


class InplaceIndexAddWithSorted(Kernel):
    """var[places[k]] += alpha * value[numbers[k]], places in order."""

    def __init__(
        self,
        profile: Profile,
        var: GlobalTensor,
        value: GlobalTensor,
        places: GlobalTensor,
        numbers: GlobalTensor,
        alpha: GlobalTensor | None = None,
    ) -> None:
        self.reads, self.writes = (var, value, places, numbers), (var,)
        self.alpha = 1.0 if alpha is None or alpha.array is None else float(alpha.array.flat[0])
        count, self.width, self.rows = places.numel, prod(var.shape[1:]), var.shape[0]
        cores, buffers, size = profile.cores.vector_cores, profile.buffers, var.dtype.itemsize
        room = buffers.ub_bytes - 2 * _PLACES * INT32.itemsize - _KEPT_BYTES
        most = room // _BUFFERS // buffers.block_bytes * buffers.block_bytes // size
        self.chunk = min(self.width, most)
        self.run = min(max(1, count // self.rows), _PLACES)
        each = ceil(count / min(count, cores))
        self.block_dim = ceil(count / each)
        self.division = self.share = RowShare(count, each, each)
        self._stored: NDArray[Any] | None = None
        self._sums: NDArray[Any] | None = None

    @classmethod
    def from_task(cls, task: Task) -> tuple[Kernel, ...]:
        """Along the first axis."""
        var, value, places, numbers = task.present(4)
        if var.dtype not in (FLOAT16, BFLOAT16) or task.whole_number("axis", 0):
            raise task.refused(f"adds half types along the first axis, not {var.dtype}")
        if value.shape != (places.numel, *var.shape[1:]) or not var.numel * places.numel:
            raise task.unfit(f"{value.shape} added to {var.shape}")
        alpha = task.inputs[4] if len(task.inputs) > 4 else None
        return (cls(task.profile, var, value, places, numbers, alpha),)

    def _found(self) -> None:
        """All sums, and which row each run stores: every place by one of them."""
        var, value, places, numbers = (np.asarray(each.array) for each in self.reads)
        wide = var.astype(np.float32)
        np.add.at(wide, places, value[numbers].astype(np.float32) * np.float32(self.alpha))
        self._sums = wide.astype(var.dtype).reshape(self.rows, self.width)
        self._stored = np.unique(places)

    def process(self, core: Core) -> None:
        """Columns that UB holds; of those the rows of one place after the other."""
        var, value, places, numbers = (each.view(each.numel) for each in self.reads)
        fault_outside(core, self.op_type, places, self.rows)
        if core.numerics and not core.get_block_idx():
            self._found()
        block, size = core.get_block_idx(), var.dtype.itemsize
        known = TQue(TPosition.VECIN, 1, "places", consumer=Pipe.SCALAR)
        order = TQue(TPosition.VECIN, 1, "numbers", consumer=Pipe.SCALAR)
        held, added = TQue(TPosition.VECIN, 1, "held"), TQue(TPosition.VECIN, 1, "added")
        given, sums, wide = TQue(TPosition.VECOUT, 1, "sum"), TBuf("sums"), TBuf("wide")
        for queue in (known, order):
            core.pipe.init_buffer(queue, 1, min(_PLACES, self.share.per_core) * INT32.itemsize)
        for queue in (held, added, given):
            core.pipe.init_buffer(queue, 1, self.chunk * size)
        for buffer in (sums, wide):
            core.pipe.init_buffer(buffer, 1, self.chunk * FLOAT.itemsize)
        first, tile = block * self.share.per_core, _PLACES // self.run * self.run
        for column, width in core.tiles(0, self.width, self.chunk):
            for start, count in core.tiles(first, self.share.length(block), tile):
                where = known.copy_in(places.span(start, count))
                which = order.copy_in(numbers.span(start, count))
                for run, rows in core.tiles(0, count, self.run):
                    core.get_value(where)
                    place = self._place(core, start, run)
                    row = var.window(((place, self.width), (column, 1)), (width,), (1,))
                    before = held.copy_in(row)
                    total = sums.get(FLOAT, width)
                    core.cast(total, before)
                    result = given.alloc_tensor(var.dtype, width)
                    for more in core.loop(rows):
                        core.get_value(where)
                        core.get_value(which)
                        at = (start, self.width), (run, self.width), (more, self.width), (column, 1)
                        line = added.copy_in(value.window(at, (width,), (1,)))
                        part = core.cast(wide.get(FLOAT, width), line)
                        if self.alpha != 1:
                            core.record_vector("vmuls", part, width)
                        core.record_vector("vadd", total, width)
                        added.free_tensor(line)
                    held.free_tensor(before)
                    core.record_vector("vconv", result, width)
                    core.arrange(result, total, how=partial(self._part, core, place, column, width))
                    given.copy_out(row, result)
                known.free_tensor(where)
                order.free_tensor(which)

    def _place(self, core: Core, start: Index, run: Index) -> Scalar:
        """The row that a run stores, as data tell."""
        if self._stored is None or not core.numerics:
            return Scalar(core, None, core.depth)
        depth, each = core.depth, self.share.per_core
        at = core.counter(start).values(depth) + core.counter(run).values(depth)
        number = at // each * ceil(each / self.run) + at % each // self.run
        found = self._stored[np.minimum(number.astype(np.int64), len(self._stored) - 1)]
        return Scalar(core, found, depth)

    def _part(self, core: Core, place: Scalar, column: Index, width: int, _: Any) -> NDArray[Any]:
        """Columns of the sums of a row."""
        assert self._sums is not None
        depth = core.depth
        rows = place.values(depth).astype(np.int64)[..., None]
        found: NDArray[Any] = self._sums[
            rows, core.counter(column).values(depth).astype(np.int64)[..., None] + np.arange(width)
        ]
        return found
