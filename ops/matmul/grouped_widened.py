"""Products of groups with weights of int8 or int4, which vector cores turn into numbers.

A vector core of a cluster turns the columns of a block into numbers, all rows of its group's
matrix, and hands them over in workspace; the cube core multiplies while the next block's are made.
Where there is enough to do for all cores both vector cores share the rows. Blocks of other rows of
a group have their columns turned once more. Source: ops-transformer gmm/grouped_matmul, host tiling
and grouped_matmul_antiquant.h; the form for few rows on the int8 cube isn't modelled.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.engine.program import Pipe
from npusim.library.block_matmul import BlockMatmul
from npusim.ops.matmul.handed_over import EMPTY, FULL, SLOTS, HandedOver
from npusim.ops.matmul.widening import Widener
from npusim.values.dtypes import BFLOAT16, INT4_IN_INT32, INT32

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from npusim.ascendc import Core, GlobalTensor
    from npusim.ascendc.loops import Index
    from npusim.hardware.profile import Profile
    from npusim.library.matmul import Product
    from npusim.library.operands import GmMatrix
    from npusim.ops.matmul.grouped import Groups, Size
    from npusim.ops.matmul.handed_over import Side, Waits

_BUSY_SHARE = 0.4  # of the cube cores that have a block of a group: host tiling
_MANY = 12 << 20 >> 1  # elements of float16 that all cube cores turn at a time: host tiling, 12 MiB


class GroupedWidenedMatMul(HandedOver):
    """y = x @ ((weight[group] + offset[group]) * scale[group]) + bias[group]."""

    matrices: int

    def __init__(
        self,
        profile: Profile,
        x: GlobalTensor,
        weight: GlobalTensor,
        lines: tuple[GlobalTensor, GlobalTensor | None, GlobalTensor | None],
        ends: GlobalTensor,
        y: GlobalTensor,
        groups: Groups,
    ) -> None:
        scale, offset, bias = lines
        super().__init__(profile, x, weight, bias, ends, y, groups, (False, False))
        self.scale, self.offset, self.kind = scale, offset, x.dtype
        self.reads += (scale,) if offset is None else (scale, offset)
        self.packed = INT4_IN_INT32 if weight.dtype is INT32 else 1
        self.matrices, self.depth, self.width = len(groups.lengths), groups.k, groups.n
        rows = scale.numel // (self.matrices * groups.n)
        self.group = 0 if rows == 1 else groups.k // rows
        base_m, base_n = self.tiling.base_m, self.tiling.base_n
        cubes = profile.cores.cube_cores
        blocks = ceil(ceil(groups.m / self.matrices) / base_m) * ceil(groups.n / base_n)
        busy = blocks * (2 if x.dtype is BFLOAT16 else 1) >= int(cubes * _BUSY_SHARE)
        shares = busy and groups.k * base_n * cubes >= _MANY
        self.lanes = profile.cores.vector_cores // cubes if shares else 1
        self.reserve(groups.k, base_n, x.dtype)

    @property
    def chunk(self) -> int:
        """Rows of the weight that are handed over at a time: all."""
        return self.depth

    def span(self, block: int) -> tuple[int, int]:
        """Blocks of all columns come to every cluster."""
        del block
        return 0, self.width

    def side(self, core: Core) -> Side:
        return _Cube(core, self) if core.unit.kind == "cube" else _Vector(core, self)

    def told(self, places: Sequence[Any]) -> NDArray[np.int64]:
        """The first column of a block, and which it is."""
        columns = [place.block * self.tiling.base_n for place in places]
        return np.column_stack((columns, places)).astype(np.int64)

    def widened(self, slot: GmMatrix, size: Size, place: tuple[Index, ...]) -> Product:
        """A block, its columns as they have been handed over."""
        return self.product(size, *place)._replace(b=slot)


class _Cube:
    """Multiplies what has been handed over, block after block."""

    def __init__(self, core: Core, kernel: GroupedWidenedMatMul) -> None:
        self._core, self._kernel = core, kernel
        bias = None if kernel.bias is None else kernel.bias.dtype
        self._blocks = BlockMatmul(
            core,
            kernel.tiling,
            kernel.kind,
            kernel.k,
            out_dtype=kernel.y.dtype,
            bias=bias,
            unit_flag=False,
        )
        kernel.read_groups(core)
        for _ in range(SLOTS):
            core.cross_core_set_flag(EMPTY, Pipe.MTE2)

    def block(self, slot: GmMatrix, size: Size, column: Index, *place: Index) -> Waits:
        """One block of a group."""
        del column
        core = self._core
        yield core.cross_core_wait_flag(FULL)
        product = self._kernel.widened(slot, size, place)
        self._blocks.begin(product)
        for sums in self._blocks.iterate():
            self._blocks.get_tensor_c(sums, product.c)
        core.cross_core_set_flag(EMPTY, Pipe.MTE2)


class _Vector(Widener):
    """Turns its rows of a block's columns into numbers."""

    def __init__(self, core: Core, kernel: GroupedWidenedMatMul) -> None:
        super().__init__(core, kernel)
        share = ceil(kernel.depth / kernel.lanes)
        if kernel.group:
            share = ceil(share / kernel.group) * kernel.group
        self._first = min(self._lane * share, kernel.depth)
        self._own = min(share, kernel.depth - self._first) if self._lane < kernel.lanes else 0

    def block(self, slot: GmMatrix, size: Size, column: Index, *place: Index) -> Waits:
        """This core's rows of a block's columns."""
        core = self._core
        self.matrix = place[0]
        yield core.cross_core_wait_flag(EMPTY)
        if self._own:
            part = column, size.columns
            lines = [] if self._kernel.group else self.load_lines(part)
            for start, count in core.tiles(self._first, self._own, self._rows):
                self.tile(slot, (0, start), count, part, lines)
        core.cross_core_set_flag(FULL, Pipe.MTE3)
