"""Every n-th element of rows, on chips with kernels compiled for one shape.

Rows are loaded whole, sixteen side by side; vnchwconv makes a block of every sixteen elements that
stand at one place, a move picks the blocks, and vnchwconv turns them back.
Source: public operator sources (strided_slice_strides_larger_than_one.py).
"""

from __future__ import annotations

from itertools import pairwise
from math import ceil
from typing import TYPE_CHECKING

from npusim.ascendc import Core, GlobalTensor, Kernel, TPosition, TQue
from npusim.ascendc.costs import TURNED_LINES
from npusim.schedules.rows.shares import RowShare
from npusim.values.dtypes import FLOAT16

if TYPE_CHECKING:
    from npusim.ascendc.loops import Index
    from npusim.hardware.profile import Profile


class SteppedSlice(Kernel):
    """dst[row, i] = src[row, i * step]; ``src`` is a view with one distance between rows."""

    op_type = "StridedSlice"

    def __init__(self, profile: Profile, src: GlobalTensor, dst: GlobalTensor) -> None:
        self.reads, self.writes = (src,), (dst,)
        self.src, self.columns = src, dst.shape[-1]
        self.pitch, self.step = src.steps
        self.dst = dst.view(dst.numel)
        self.halves = dst.dtype.itemsize // FLOAT16.itemsize
        self.room = profile.buffers.ub_bytes // 2
        wide = self.room // (
            TURNED_LINES * dst.dtype.itemsize
        )  # elements of a row, sixteen rows in UB
        self.chunk = max(1, min(self.columns, (wide - 1) // self.step + 1))
        groups = max(1, wide // self.width(self.chunk))
        cores = profile.cores.vector_cores
        self.division = self.share = RowShare.of(src.shape[0], cores, groups * TURNED_LINES)
        self.block_dim = self.share.cores

    def width(self, columns: int) -> int:
        """Elements of a row that so many results are spread over."""
        return (columns - 1) * self.step + 1

    def process(self, core: Core) -> None:
        rows_in, parts_out = TQue(TPosition.VECIN, 1, "rows"), TQue(TPosition.VECOUT, 1, "parts")
        for queue in (rows_in, parts_out):
            core.pipe.init_buffer(queue, 1, self.room)
        for first, rows in self.share.tiles(core):
            for begin, columns in core.tiles(0, self.columns, self.chunk):
                self._tile(core, (rows_in, parts_out), (first, rows), (begin, columns))

    def _tile(
        self,
        core: Core,
        queues: tuple[TQue, TQue],
        rows: tuple[Index, int],
        columns: tuple[Index, int],
    ) -> None:
        (first, high), (begin, count) = rows, columns
        wide, step = self.width(count), self.step
        source = self.src.window(
            ((first, self.pitch), (begin, step)), (high, wide), (self.pitch, 1)
        )
        x = queues[0].copy_in(source.by_rows())
        out = queues[1].alloc_tensor(self.dst.dtype, high, count)
        groups = ceil(high / TURNED_LINES) * self.halves
        core.turn_lines(out, x, ceil(groups * wide / TURNED_LINES))
        core.move_bursts(x, out, groups // self.halves * count, self.halves)
        core.turn_lines(out, x, ceil(groups * count / TURNED_LINES))
        core.arrange(out, x, how=lambda values: values[..., ::step])
        queues[0].free_tensor(x)
        places = ((first, self.columns), (begin, 1))
        queues[1].copy_out(self.dst.window(places, (high, count), (self.columns, 1)).by_rows(), out)


def as_rows(view: GlobalTensor) -> GlobalTensor | None:
    """A view with steps along its last axis as rows of one distance; None where it isn't one."""
    sizes, steps = list(view.shape[:-1]), list(view.steps[:-1])
    pairs = [pair for pair in zip(sizes, steps, strict=True) if pair[0] > 1]
    for (_, outer), (size, inner) in pairwise(pairs):
        if outer != size * inner:
            return None
    rows, pitch = view.numel // view.shape[-1], pairs[-1][1] if pairs else view.steps[-1]
    return GlobalTensor(view.buffer, view.dtype, (rows, view.shape[-1]), view.start,
                        (pitch, view.steps[-1]))  # fmt: skip
