"""Part of every row, on chips whose transfers move whole blocks: kernels compiled for one shape.

Three ways, as the vendor's schedules choose them: rows of a few elements are spread out by
vnchwconv, a line of blocks each, cut there and put together again; long parts of long rows are
picked by the transfer itself; all else is moved element by element by the scalar unit.
Source: public operator sources (strided_slice_for_last_dim.py, strided_slice_fast_last_dim.py).
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from npusim.ascendc import Core, GlobalTensor, GmSlice, Kernel, LocalTensor, TPosition, TQue
from npusim.ascendc.costs import TURNED_LINES
from npusim.engine.program import Pipe
from npusim.schedules.rows.shares import RowShare
from npusim.values.dtypes import FLOAT16

if TYPE_CHECKING:
    from npusim.ascendc.loops import Index
    from npusim.hardware.profile import Profile

_SCALAR_RATIO = 32  # rows so many times longer than their part aren't worth turning


class LastAxisSlice(Kernel):
    """dst[row] = src[row][start : start + columns], for rows that follow each other."""

    op_type = "StridedSlice"
    generated = True

    def __init__(self, profile: Profile, src: GlobalTensor, dst: GlobalTensor, start: int) -> None:
        self.reads, self.writes = (src,), (dst,)
        rows, self.columns = dst.numel // dst.shape[-1], dst.shape[-1]
        self.start, self.width = start, src.shape[-1]
        self.src, self.dst = src.view(rows, self.width), dst.view(rows, self.columns)
        self.itemsize, self.kind = dst.dtype.itemsize, dst.dtype
        self.division = self.share = self.shared(profile, rows)
        self.block_dim = profile.cores.vector_cores

    def shared(self, profile: Profile, rows: int) -> RowShare:
        """Rows for each core and each tile: both tiles together fill UB."""
        block = profile.buffers.block_bytes // self.itemsize
        room = profile.buffers.ub_bytes // self.itemsize - 2 * block
        tile = max(1, room // (self.width + self.columns) // block * block)
        return RowShare.of(rows, profile.cores.vector_cores, tile, block)

    def process(self, core: Core) -> None:
        share = self.share
        self.init_buffers(core)
        for first, rows in share.tiles(core):
            self.move(core, first, rows)

    def init_buffers(self, core: Core) -> None:
        """Queues: the scalar unit stands between the transfers."""
        tile = self.share.tile * self.itemsize
        self.in_que = TQue(TPosition.VECIN, 1, "rows", consumer=Pipe.SCALAR)
        self.out_que = TQue(TPosition.VECOUT, 1, "parts", producer=Pipe.SCALAR)
        core.pipe.init_buffer(self.in_que, 1, tile * self.width)
        core.pipe.init_buffer(self.out_que, 1, tile * self.columns)

    def move(self, core: Core, first: Index, rows: int) -> None:
        """One tile: load whole rows, pick, store."""
        x = self.in_que.copy_in(self._rows(first, rows))
        out = self.out_que.alloc_tensor(self.kind, rows * self.columns)
        self.pick(core, out, x, rows)
        begin, end = self.start, self.start + self.columns
        whole = (rows, self.width)
        core.arrange(out, x, how=lambda v: v.reshape(*v.shape[:-1], *whole)[..., begin:end])
        self.in_que.free_tensor(x)
        self.out_que.copy_out(self.dst.span(first * self.columns, rows * self.columns), out)

    def pick(self, core: Core, out: LocalTensor, x: LocalTensor, rows: int) -> None:
        """Element by element, by the scalar unit."""
        core.move_elements(out, x, rows * self.columns)

    def _rows(self, first: Index, rows: int) -> GmSlice:
        return self.src.span(first * self.width, rows * self.width)


class TurnedSlice(LastAxisSlice):
    """Rows of few elements: spread to a line of blocks each, cut, put together (two vnchwconv)."""

    depth = 2

    def shared(self, profile: Profile, rows: int) -> RowShare:
        room = profile.buffers.ub_bytes // (2 * self.depth) // FLOAT16.itemsize
        tile = room // (self.halves(self.width) * TURNED_LINES) // TURNED_LINES * TURNED_LINES
        multiple = TURNED_LINES // min(TURNED_LINES, self.halves(self.columns))
        return RowShare.of(rows, profile.cores.vector_cores, tile, multiple)

    def halves(self, elements: int) -> int:
        """How many 16-bit numbers elements are to vnchwconv."""
        return elements * self.itemsize // FLOAT16.itemsize

    def init_buffers(self, core: Core) -> None:
        nbytes = core.profile.buffers.ub_bytes // (2 * self.depth)
        self.in_que = TQue(TPosition.VECIN, self.depth, "rows")
        self.out_que = TQue(TPosition.VECOUT, self.depth, "parts")
        core.pipe.init_buffer(self.in_que, self.depth, nbytes)
        core.pipe.init_buffer(self.out_que, self.depth, nbytes)

    def pick(self, core: Core, out: LocalTensor, x: LocalTensor, rows: int) -> None:
        wide, narrow = self.halves(self.width), self.halves(self.columns)
        core.turn_lines(out, x, ceil(rows * wide / TURNED_LINES))
        core.move_bursts(x, out, rows, narrow)
        core.turn_lines(out, x, ceil(rows * narrow / TURNED_LINES))


class RunSlice(LastAxisSlice):
    """Parts of long rows: loaded as runs of whole blocks, what is left as one more block each.

    Rows whose distance isn't whole blocks are taken in phases, every eighth row in one transfer.
    """

    def shared(self, profile: Profile, rows: int) -> RowShare:
        block = profile.buffers.block_bytes // self.itemsize
        tile = profile.buffers.ub_bytes // self.itemsize // self.columns
        if tile < block:  # some rows that don't come to whole blocks
            return RowShare.of(rows, profile.cores.vector_cores, tile)
        return RowShare.of(rows, profile.cores.vector_cores, tile // block * block, block)

    def init_buffers(self, core: Core) -> None:
        self.in_que = TQue(TPosition.VECIN, 1, "rows", consumer=Pipe.MTE3)
        core.pipe.init_buffer(self.in_que, 1, self.share.tile * self.columns * self.itemsize)

    def move(self, core: Core, first: Index, rows: int) -> None:
        block = core.block_bytes // self.itemsize
        whole = self.columns // block * block
        self._copy(core, first, rows, 0, whole)
        if whole < self.columns:
            self._copy(core, first, rows, self.columns - block, block)

    def _copy(self, core: Core, first: Index, rows: int, begin: int, columns: int) -> None:
        source = self.src.window(
            ((first, self.width), (self.start + begin, 1)), (rows, columns), (self.width, 1)
        )
        target = self.dst.window(
            ((first, self.columns), (begin, 1)), (rows, columns), (self.columns, 1)
        )
        x = self.in_que.copy_in(source)
        core.copy_runs(target, x)
        self.in_que.free_tensor(x)


def last_axis_slice(
    profile: Profile,
    src: GlobalTensor,
    dst: GlobalTensor,
    start: int,
    op_type: str,
    *,
    turning: bool = True,
) -> LastAxisSlice:
    """The kernel that the vendor's schedules choose for these rows; not all know how to turn."""
    columns, width, itemsize = dst.shape[-1], src.shape[-1], dst.dtype.itemsize
    block = profile.buffers.block_bytes // itemsize
    rows = dst.numel // columns
    halves = width * itemsize // FLOAT16.itemsize
    fits = 4 * TURNED_LINES * halves * TURNED_LINES * FLOAT16.itemsize <= profile.buffers.ub_bytes
    kind: type[LastAxisSlice] = LastAxisSlice
    if columns >= profile.buffers.block_bytes or (columns % block == 0 and columns >= block):
        kind = RunSlice
    elif turning and itemsize % FLOAT16.itemsize == 0 and fits and rows > 2:
        kind = TurnedSlice if width // columns <= _SCALAR_RATIO else LastAxisSlice
    return kind.called(op_type)(profile, src, dst, start)
