"""Products of int8 whose sums vector cores turn into numbers.

A cube core hands its sums over block by block, through workspace that stays in L2. Where rows have
scales, each of its vector cores takes half of them, else the first takes all. Source: ops-nn
matmul/quant_batch_matmul_v3, the kernels with bf16 results and with scales of rows, CalcUbTiling.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from npusim.ascendc import Core, GlobalTensor, TBuf, TPosition, TQue
from npusim.ascendc.rounding import RoundMode
from npusim.ascendc.task import made
from npusim.engine.program import Pipe
from npusim.library.block_matmul import BlockMatmul
from npusim.library.block_order import blocks_of
from npusim.library.operands import GmMatrix
from npusim.ops.matmul.kernel import MatMul
from npusim.ops.matmul.quant_tiling import quant_partition
from npusim.values.dtypes import FLOAT, INT32

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from npusim.ascendc import LocalTensor
    from npusim.ascendc.cluster import CoreWait
    from npusim.ascendc.gm_slices import GmSlice, Place
    from npusim.ascendc.loops import Index
    from npusim.engine.program import Barrier
    from npusim.hardware.profile import Profile
    from npusim.library.operands import Span
    from npusim.ops.matmul.operands import Problem
    from npusim.ops.matmul.shapes import Share
    from npusim.values.dtypes import DType

    Waits = Iterator[Barrier | CoreWait]

_FULL, _EMPTY = 0, 1  # flags: sums are there, sums have been read
_SLOTS = 2  # of workspace for a cluster
_WORK_BYTES = 8  # for each number that is dequantised
_HOST_ELEMENTS = 1 << 22  # of results computed at once


class DequantMatMul(MatMul):
    """c = (a @ b + bias) * scale * rows' scale + bias: whole biases come first, others last.

    ``scale`` has an element for each column or one for all, ``per_row`` one for each row.
    """

    is_mix = True

    def __init__(
        self,
        profile: Profile,
        problem: Problem,
        scale: GlobalTensor,
        per_row: GlobalTensor | None,
        bias: GlobalTensor | None,
        op_type: str,
    ) -> None:
        whole = bias if bias is not None and bias.dtype is INT32 else None
        super().__init__(
            profile, problem, bias=whole, op_type=op_type, tiling=quant_partition, once=True
        )
        self.generated = False
        self.column_scale, self.per_row = scale, per_row
        self.shift = None if whole is not None else bias
        others = (scale, per_row, self.shift)
        self.reads += tuple(each for each in others if each is not None)
        blocks = self.partition.blocks
        self.lanes = profile.cores.vector_cores // profile.cores.cube_cores
        self.lanes = self.lanes if per_row is not None else 1
        self.slots = made((self.block_dim, _SLOTS, blocks.base_m, blocks.base_n), INT32, "slots")
        self.sums = made((problem.batch, problem.m, problem.n), INT32, "sums")
        self.scratch = (self.slots, self.sums)

    @property
    def workspace_bytes(self) -> int:
        """What clusters hand over in; all sums together are the host's."""
        return self.slots.nbytes

    def process(self, core: Core) -> Waits:  # type: ignore[override]
        """The cube core's side, or a vector core's."""
        side = _CubeSide(core, self) if core.unit.kind == "cube" else _VectorSide(core, self)
        for share, index in self.matrices(core):
            yield from side.rectangle(share, index)

    def block_kind(self, block_idx: int) -> Hashable:
        return self.partition.sizes(block_idx)

    def matrices(self, core: Core) -> Iterator[tuple[Share, Place]]:
        """A core's rectangles, those of one size in a loop."""
        yield from self.in_loops(core)

    def slot(self, core: Core, number: int) -> GmMatrix:
        """Where a cluster hands over its blocks."""
        _, slots, rows, columns = self.slots.shape
        start = (core.get_block_idx() * slots + number % slots) * rows * columns
        return GmMatrix(self.slots, ((start, 1),), columns)

    def all_sums(self, share: Share, index: Place) -> GmMatrix:
        """Where they are when none of them is timed."""
        m, n = self.problem.m, self.problem.n
        places = ((index, m * n), (share.row, n), (share.column, 1))
        return GmMatrix(self.sums, places, n)


class _CubeSide:
    """Multiplies, and hands over block after block."""

    def __init__(self, core: Core, kernel: DequantMatMul) -> None:
        self._core, self._kernel = core, kernel
        problem, bias = kernel.problem, kernel.bias
        self._blocks = BlockMatmul(
            core,
            kernel.partition.blocks,
            problem.a.tensor.dtype,
            problem.k,
            bias=None if bias is None else bias.dtype,
            unit_flag=False,
        )
        self._number = 0

    def rectangle(self, share: Share, index: Place) -> Waits:
        """A part of a matrix."""
        kernel, core = self._kernel, self._core
        self._blocks.begin(kernel.product(core, share, index))
        yield from core.separate_steps(
            self._block_by_block, lambda: self._at_once(kernel.all_sums(share, index))
        )

    def _block_by_block(self) -> Waits:
        core = self._core
        for block in self._blocks.iterate():
            slot = self._kernel.slot(core, self._number)
            self._number += 1
            yield core.cross_core_wait_flag(_EMPTY)
            core.fixpipe(slot.block(0, block.rows[1], 0, block.columns[1]), block.tensor)
            core.cross_core_set_flag(_FULL, Pipe.FIXP)

    def _at_once(self, sums: GmMatrix) -> Waits:
        for block in self._blocks.whole_rows():
            self._core.fixpipe(sums.block(*block.rows, *block.columns), block.tensor)
        self._core.cross_core_set_flag(_FULL, Pipe.FIXP)
        yield from ()


class _VectorSide:
    """Takes its rows of every block through UB."""

    def __init__(self, core: Core, kernel: DequantMatMul) -> None:
        self._core, self._kernel = core, kernel
        self._lane, self._number = core.get_sub_block_idx(), 0
        blocks, kind = kernel.partition.blocks, kernel.problem.c.tensor.dtype
        self._columns = blocks.base_n
        lines = [each for each in (kernel.column_scale, kernel.shift) if each is not None]
        self._lines = [
            _Line(core, each, kernel.problem.n, self._columns, f"line{number}")
            for number, each in enumerate(lines)
        ]
        self._rows = self._rows_of_tile(kernel, kind)
        tile = self._rows * self._columns
        self._in, self._out = TQue(TPosition.VECIN, _SLOTS, "sums"), TQue(TPosition.VECOUT, _SLOTS)
        self._wide, self._by_row = TBuf("numbers"), TQue(TPosition.VECIN, _SLOTS, "per_row")
        core.pipe.init_buffer(self._in, _SLOTS, tile * INT32.itemsize)
        core.pipe.init_buffer(self._out, _SLOTS, tile * kind.itemsize)
        core.pipe.init_buffer(self._wide, 1, tile * FLOAT.itemsize)
        if kernel.per_row is not None:
            core.pipe.init_buffer(self._by_row, _SLOTS, self._rows * FLOAT.itemsize)
        for _ in range(_SLOTS):
            core.cross_core_set_flag(_EMPTY, Pipe.MTE2)

    def _rows_of_tile(self, kernel: DequantMatMul, kind: DType) -> int:
        """As many as UB holds with everything beside them, scales of columns once for each."""
        blocks, scale, shift = kernel.partition.blocks, kernel.column_scale, kernel.shift
        element = _SLOTS * (INT32.itemsize + kind.itemsize) + _WORK_BYTES
        element += _SLOTS * scale.dtype.itemsize * (scale.numel > 1)
        by_row, shifted = kernel.per_row is not None, shift is not None
        element += FLOAT.itemsize * ((by_row or shifted) + by_row + shifted)
        room = int(self._core.capacity_bytes("UB"))
        if by_row:
            room -= (blocks.base_m + _SLOTS) * self._core.block_bytes
        if shift is not None:
            room -= (_SLOTS * shift.dtype.itemsize + FLOAT.itemsize) * self._columns
        most = room // (self._columns * element + _SLOTS * FLOAT.itemsize * by_row)
        return max(1, min(most, blocks.base_m, kernel.problem.m))

    def rectangle(self, share: Share, index: Place) -> Waits:
        """A part of a matrix."""
        yield from self._core.separate_steps(
            lambda: self._block_by_block(share, index), lambda: self._at_once(share, index)
        )

    def _block_by_block(self, share: Share, index: Place) -> Waits:
        core, kernel = self._core, self._kernel
        for rows, columns in blocks_of(core, kernel.partition.blocks, share.rows, share.columns):
            slot = kernel.slot(core, self._number)
            self._number += 1
            yield core.cross_core_wait_flag(_FULL)
            half = ceil(rows[1] / kernel.lanes)
            first = min(self._lane * half, rows[1])
            own = min(half, rows[1] - first)
            if own and self._lane < kernel.lanes:
                for start, count in core.tiles(first, own, self._rows):
                    source = slot.block(start, count, 0, columns[1])
                    self._tile(source, share, index, (rows[0], start, count), columns)
            core.cross_core_set_flag(_EMPTY, Pipe.MTE2)

    def _at_once(self, share: Share, index: Place) -> Waits:
        yield self._core.cross_core_wait_flag(_FULL)
        if self._lane:
            return
        sums = self._kernel.all_sums(share, index)
        columns: Span = (0, share.columns)
        for start, count in self._core.tiles(
            0, share.rows, max(1, _HOST_ELEMENTS // share.columns)
        ):
            source = sums.block(start, count, *columns)
            self._tile(source, share, index, (0, start, count), columns)

    def _tile(
        self,
        source: GmSlice,
        share: Share,
        index: Place,
        rows: tuple[Index, Index, int],
        columns: Span,
    ) -> None:
        """Some rows of a block; ``rows`` are where it starts, where these start in it, how many."""
        core, kernel = self._core, self._kernel
        block, start, count = rows
        sums = self._in.copy_in(source)
        wide = self._wide.get(FLOAT, count, columns[1])
        core.cast(wide, sums, RoundMode.CAST_RINT)
        self._in.free_tensor(sums)
        lines = [line.load(columns[0], share.column, columns[1]) for line in self._lines]
        scale, *shift = lines
        core.mul(wide, wide, scale)
        places = [(block, 1), (start, 1), (share.row, 1), (index, kernel.problem.m)]
        if kernel.per_row is not None:
            factors = self._by_row.copy_in(kernel.per_row.window(tuple(places), (count,), (1,)))
            core.mul(wide, wide, core.broadcast_column(factors))
            self._by_row.free_tensor(factors)
        for line in shift:
            core.add(wide, wide, line)
        for each in self._lines:
            each.free()
        c, n = kernel.problem.c.tensor, kernel.problem.n
        result = wide
        out = self._out.alloc_tensor(c.dtype, count, columns[1])
        if c.dtype is FLOAT:
            core.move(out, result)
        else:
            core.cast(out, result, RoundMode.CAST_RINT)
        where = [(place, step * n) for place, step in places]
        target = c.window((*where, (columns[0], 1), (share.column, 1)), (count, columns[1]), (n, 1))
        self._out.copy_out(target.by_rows() if count > 1 else target, out)


class _Line:
    """Numbers of the columns, in float32 for a block at a time."""

    def __init__(
        self, core: Core, tensor: GlobalTensor, columns: int, most: int, name: str
    ) -> None:
        self._core, self._tensor = core, tensor
        self._alone = tensor.numel == 1 and columns > 1
        count = 1 if self._alone else most
        self._queue, self._wide = TQue(TPosition.VECIN, 1, name), TBuf(f"{name}_wide")
        self.nbytes = core.block_bytes + count * (tensor.dtype.itemsize + FLOAT.itemsize)
        core.pipe.init_buffer(self._queue, 1, count * tensor.dtype.itemsize)
        if tensor.dtype is not FLOAT:
            core.pipe.init_buffer(self._wide, 1, count * FLOAT.itemsize)

    def load(self, first: Index, share: Index, count: int) -> LocalTensor:
        """Those of ``count`` columns."""
        places = () if self._alone else ((first, 1), (share, 1))
        count = 1 if self._alone else count
        self._tile = self._queue.copy_in(self._tensor.window(places, (1, count), (count, 1)))
        if self._tensor.dtype is FLOAT:
            return self._tile
        return self._core.cast(self._wide.get(FLOAT, 1, count), self._tile)

    def free(self) -> None:
        """They aren't needed any more."""
        self._queue.free_tensor(self._tile)
