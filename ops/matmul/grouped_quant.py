"""Products of int8 by groups, whose sums vector cores turn into numbers beside the cube cores.

A cube core hands its blocks of sums over in workspace, one after the other; its vector cores take
half of the rows each and multiply them with the scales of their columns and of their rows. Source:
ops-transformer gmm/grouped_matmul, the kernels with scales of rows.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from npusim.ascendc import Core, GlobalTensor, TBuf, TPosition, TQue
from npusim.ascendc.rounding import RoundMode
from npusim.engine.program import Pipe
from npusim.library.block_matmul import BlockMatmul
from npusim.ops.matmul.handed_over import EMPTY, FULL, SLOTS, HandedOver
from npusim.values.dtypes import FLOAT, INT32

if TYPE_CHECKING:
    from npusim.ascendc.loops import Index
    from npusim.hardware.profile import Profile
    from npusim.library.operands import GmMatrix
    from npusim.ops.matmul.grouped import Groups, Size
    from npusim.ops.matmul.handed_over import Side, Waits


class GroupedDequantMatMul(HandedOver):
    """y = (x @ weight[group]) * scale[group] * rows' scale."""

    def __init__(
        self,
        profile: Profile,
        x: GlobalTensor,
        weight: GlobalTensor,
        scale: GlobalTensor,
        per_row: GlobalTensor | None,
        ends: GlobalTensor,
        y: GlobalTensor,
        groups: Groups,
        turned: tuple[bool, bool],
    ) -> None:
        super().__init__(profile, x, weight, None, ends, y, groups, turned)
        self.scale, self.per_row = scale, per_row
        self.reads += (scale,) if per_row is None else (scale, per_row)
        self.lanes_of_block = profile.cores.vector_cores // profile.cores.cube_cores
        self.reserve(self.tiling.base_m, self.tiling.base_n, INT32)

    def side(self, core: Core) -> Side:
        return _Cube(core, self) if core.unit.kind == "cube" else _Vector(core, self)


class _Cube:
    """Multiplies, and hands over block after block."""

    def __init__(self, core: Core, kernel: GroupedDequantMatMul) -> None:
        self._core, self._kernel = core, kernel
        flagged = bool(kernel.lanes)  # the vendor's configuration for weights in fractals
        self._blocks = BlockMatmul(core, kernel.tiling, kernel.x.dtype, kernel.k, unit_flag=flagged)
        kernel.read_groups(core)

    def block(
        self, slot: GmMatrix, size: Size, group: Index, row: Index, block: Index, k: Index
    ) -> Waits:
        """One block of a group."""
        core, kernel = self._core, self._kernel
        self._blocks.begin(kernel.product(size, group, row, block, k))
        for sums in self._blocks.iterate():
            yield core.cross_core_wait_flag(EMPTY)
            core.fixpipe(slot.block(0, size.rows, 0, size.columns), sums.tensor)
            core.cross_core_set_flag(FULL, Pipe.FIXP)


class _Vector:
    """Takes its rows of every block through UB."""

    def __init__(self, core: Core, kernel: GroupedDequantMatMul) -> None:
        self._core, self._kernel = core, kernel
        self._lane = core.get_sub_block_idx()
        columns, kind = kernel.tiling.base_n, kernel.y.dtype
        room = core.capacity_bytes("UB") - columns * (kernel.scale.dtype.itemsize + 4) - 1024
        each = columns * (2 * INT32.itemsize + kind.itemsize) + 2 * core.block_bytes
        self._rows = max(1, min(int(room // each), ceil(kernel.tiling.base_m / 2)))
        tile = self._rows * columns
        self._line, self._in, self._by_row = (
            TQue(TPosition.VECIN, 1, name) for name in ("line", "sums", "per_row")
        )
        self._out, self._wide, self._wide_line = TQue(TPosition.VECOUT, 1), TBuf("wide"), TBuf("by")
        core.pipe.init_buffer(self._line, 1, columns * kernel.scale.dtype.itemsize)
        core.pipe.init_buffer(self._wide_line, 1, columns * FLOAT.itemsize)
        core.pipe.init_buffer(self._in, 1, tile * INT32.itemsize)
        core.pipe.init_buffer(self._wide, 1, tile * FLOAT.itemsize)
        core.pipe.init_buffer(self._out, 1, tile * kind.itemsize)
        core.pipe.init_buffer(self._by_row, 1, self._rows * FLOAT.itemsize)
        for _ in range(SLOTS):
            core.cross_core_set_flag(EMPTY, Pipe.MTE2)

    def block(
        self, slot: GmMatrix, size: Size, group: Index, row: Index, block: Index, k: Index
    ) -> Waits:
        """This core's rows of a block."""
        del k
        core, kernel = self._core, self._kernel
        yield core.cross_core_wait_flag(FULL)
        half = ceil(size.rows / kernel.lanes_of_block)
        first = min(self._lane * half, size.rows)
        own = min(half, size.rows - first)
        if own:
            column = (block, kernel.tiling.base_n)
            places = ((group, kernel.groups.n), column)
            window = kernel.scale.window(places, (1, size.columns), (size.columns, 1))
            given = self._line.copy_in(window)
            line = given
            if given.dtype is not FLOAT:
                line = core.cast(self._wide_line.get(FLOAT, 1, size.columns), given)
            for start, count in core.tiles(first, own, self._rows):
                sums = self._in.copy_in(slot.block(start, count, 0, size.columns))
                wide = core.cast(self._wide.get(FLOAT, count, size.columns), sums)
                self._in.free_tensor(sums)
                core.mul(wide, wide, line)
                if kernel.per_row is not None:
                    rows = kernel.per_row.window(((row, 1), (start, 1)), (count,), (1,))
                    factors = self._by_row.copy_in(rows)
                    core.mul(wide, wide, core.broadcast_column(factors))
                    self._by_row.free_tensor(factors)
                out = self._out.alloc_tensor(kernel.y.dtype, count, size.columns)
                core.cast(out, wide, RoundMode.CAST_RINT)
                n = kernel.groups.n
                target = kernel.y.window(
                    ((row, n), (start, n), column), (count, size.columns), (n, 1)
                )
                self._out.copy_out(target.by_rows() if count > 1 else target, out)
            self._line.free_tensor(given)
        core.cross_core_set_flag(EMPTY, Pipe.MTE2)
