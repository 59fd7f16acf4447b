"""Matrix products of one cube core, block by block: operands through L1 and L0 into blocks of C.

As with Ascend C's Matmul: say what is multiplied, iterate over blocks of C, take each one out of
L0C.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from math import gcd
from typing import TYPE_CHECKING, NamedTuple

from npusim.ascendc.loops import Index, first_of, mapped
from npusim.ascendc.queues import TBuf, TPosition, TQue
from npusim.engine.program import Pipe
from npusim.library.block_order import pairs, parts, span_of, turns
from npusim.library.operands import Tile
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import FLOAT, INT32, DType

if TYPE_CHECKING:
    from collections.abc import Hashable

    import numpy as np
    from numpy.typing import NDArray

    from npusim.ascendc.core import Core
    from npusim.ascendc.tensors import LocalTensor
    from npusim.library.matmul_tiling import MatmulTiling
    from npusim.library.operands import Factor, GmMatrix, Span

# Where tiles of A and of B are.
_INTO_L1 = (TPosition.A1, TPosition.B1)
_INTO_L0 = (TPosition.A2, TPosition.B2)
_IN_FLIGHT = 2  # blocks of results: one being summed up, one leaving; panels of A likewise
_HOST_BYTES = 1 << 26  # of results that are computed at once


class Product(NamedTuple):
    """c = a @ b for (m, k) by (k, n), all three in global memory; ``bias`` is added to its rows.

    Columns of whole numbers leave multiplied with their ``scale``, of which there may be one for
    all. ``column`` is what the first column of c is called. Of a and c there may be ``stack``
    matrices with rows counted through all of them; no block has rows of two. ``sides`` are the
    matrices of what is read beside the product, where any doesn't lie as c does. ``keeps_b``: the
    kernel doesn't write b.
    """

    c: GmMatrix
    a: Factor
    b: Factor
    m: int
    n: int
    k: int
    bias: GmMatrix | None = None
    stack: int = 1
    scale: GmMatrix | None = None
    column: int = 0
    sides: tuple[GmMatrix, ...] = ()
    keeps_b: bool = False


class Block(NamedTuple):
    """Sums in L0C, and the rows and columns of C that they are."""

    tensor: LocalTensor
    rows: Span
    columns: Span


class _Stage:
    """Tiles that pass through one level of memory together: one pair of flags for all of them."""

    def __init__(self, core: Core, slots: dict[TPosition, int], depth: int) -> None:
        """``slots`` are the bytes of a tile in each place; there is room for ``depth`` of each."""
        first, *others = slots
        self.que = TQue(first, depth)
        self._bufs = [TBuf(str(place).lower(), place) for place in others]
        buffers: tuple[TQue | TBuf, ...] = (self.que, *self._bufs)
        for buffer, nbytes in zip(buffers, slots.values(), strict=True):
            core.pipe.init_buffer(buffer, depth, nbytes)

    def fill(self, dtype: DType, *shapes: tuple[int, ...]) -> list[LocalTensor]:
        """Free slots, once there are some."""
        first, *others = shapes
        tile = self.que.alloc_tensor(dtype, *first)
        part = tile.tile and tile.tile.slot
        beside = zip(self._bufs, others, strict=True)
        return [tile, *(buffer.get(dtype, *shape, part=part) for buffer, shape in beside)]

    def hand_over(self, first: LocalTensor) -> None:
        """Those that were filled with the first one: whoever needs them may go on."""
        self.que.enque(first)
        self.que.deque(first)

    def free(self, first: LocalTensor) -> None:
        """They aren't needed any more."""
        self.que.free_tensor(first)


class BlockMatmul:
    """Matrix products on one cube core, as often as wanted, with one set of buffers.

    ``k`` is the longest sum, for which ``tiling`` was made. With an ``out_dtype``,
    :meth:`get_tensor_c` takes blocks to global memory. With a ``unit_flag`` (``enUnitFlag`` of the
    vendor's MatmulConfig) results leave L0C fractal by fractal while the next block is summed up
    there; without one a block has to have left before, as in kernels that the operator compiler
    makes (source: cube and fixpipe of convolutions on Ascend910B2, Ascend/msinsight, are busy one
    after the other, 90 to 101 % of the core's time in all). ``staged_rows`` of a block (0: all)
    have room in UB at a time where they pass it, in so many ``stages``. A piece of k takes the
    scalar unit ``step_operations`` beside the instructions.
    """

    def __init__(
        self,
        core: Core,
        tiling: MatmulTiling,
        dtype: DType,
        k: int,
        *,
        out_dtype: DType | None = None,
        bias: DType | None = None,
        scaled: DType | None = None,
        hf32: bool = False,
        unit_flag: bool = True,
        staged_rows: int = 0,
        stages: int = 1,
        step_operations: int = 0,
    ) -> None:
        self._core, self._tiling, self._hf32 = core, tiling, hf32
        self._step_operations = step_operations
        self._sum_dtype = FLOAT if dtype.category == "float" else INT32
        t = tiling
        # An operand is kept in L1 for all of its blocks, or streamed through it.
        self._kept = t.keep_a, t.keep_b
        self._streamed = [side for side in (0, 1) if not self._kept[side]]
        high = round_up(t.base_m, core.profile.cube.fractal_m)
        wide = (high * dtype.itemsize, t.base_n * dtype.itemsize)
        own = t.a_bytes, t.b_bytes
        streams = {_INTO_L1[side]: own[side] or wide[side] * t.step_k for side in self._streamed}
        self._l1 = _Stage(core, streams, t.depth_1) if streams else None
        self._panels: dict[int, TQue] = {}
        depths, columns = (_IN_FLIGHT if all(self._kept) else t.panels, t.panels), (1, t.wide)
        for side in (side for side in (0, 1) if self._kept[side]):
            self._panels[side] = TQue(_INTO_L1[side], depths[side], "panel")
            nbytes = columns[side] * wide[side] * round_up(k, t.base_k)
            core.pipe.init_buffer(self._panels[side], depths[side], own[side] or nbytes)
        into_l0 = {place: nbytes * t.base_k for place, nbytes in zip(_INTO_L0, wide, strict=True)}
        self._l0 = _Stage(core, into_l0, t.depth_0)
        self._known_b: tuple[Hashable, LocalTensor] | None = None
        self._unit_flag = unit_flag and core.profile.paths.l0c_to_gm is not None
        self._c = TQue(TPosition.CO1, _IN_FLIGHT if self._unit_flag else t.depth_c, "c")
        block = core.costs.fractal_bytes(1, (t.base_m, t.base_n), result=True)
        core.pipe.init_buffer(self._c, t.depth_c, block * self._sum_dtype.itemsize)
        self._staging: TQue | None = None
        if core.profile.paths.l0c_to_gm is None and out_dtype is not None:
            self._staging = TQue(TPosition.VECOUT, stages, "c_out")
            staged = (staged_rows or t.base_m, t.base_n)
            nbytes = core.costs.fractal_bytes(out_dtype.itemsize, staged, result=True)
            core.pipe.init_buffer(self._staging, stages, nbytes)
        self._bias = None if bias is None else _Bias(core, bias, self._sum_dtype, t.base_n)
        self._scales: TQue | None = None
        if scaled is not None:
            self._scales = TQue(TPosition.C1, _IN_FLIGHT, "scale", consumer=Pipe.FIXP)
            core.pipe.init_buffer(self._scales, _IN_FLIGHT, t.base_n * scaled.itemsize)

    def begin(self, product: Product) -> None:
        """The product that is worked on from now on."""
        self._operands = (product.a, product.b)
        sides = [(each.dtype, each.moves_as) for each in self._operands]
        self._alike = self._l0.que.flags, self._hf32, self._step_operations, *sides
        self._row, self._shape = product.bias, (product.m, product.n, product.k)
        self._scale = product.scale
        self._stack, self._keeps_b = product.stack, product.keeps_b

    def iterate(self) -> Iterator[Block]:
        """The blocks of C, each in L0C until the next one is asked for.

        Columns of blocks outside, rows of blocks inside, unless the tiling says otherwise. All of
        them have to be taken: they come out of loops of the core.
        """
        t, (m, n, _) = self._tiling, self._shape
        if all(self._kept):
            yield from self._with_both(m, n)
            return
        for row_part, column_part in pairs(t, m, n):
            if any(self._kept):
                yield from self._with_panel(row_part, column_part)
                continue
            high, wide = row_part[2] * self._stack, column_part[2]
            for row, column in turns(self._core, t, high, wide):
                yield from self._block(
                    self._rows_of(row, row_part), span_of(column, column_part), {}
                )

    @contextmanager
    def single(self) -> Iterator[Block]:
        """C where it is no larger than one block, in L0C while the context lasts; in no loop."""
        m, n, k = self._shape
        if not any(self._kept):
            yield from self._block((0, m), (0, n), {})
            return
        side = self._kept.index(True)
        fixed = ((0, m), (0, k)) if side == 0 else ((0, k), (0, n))
        kept = self._kept_tile(side, *fixed)
        yield from self._block((0, m), (0, n), {side: kept})
        self._let_go(side, kept)

    def get_tensor_c(self, block: Block, c: GmMatrix) -> None:
        """Take a block to where it belongs in global memory."""
        target, core = c.block(*block.rows, *block.columns), self._core
        if self._scales is None or self._scale is None:
            core.fixpipe(target, block.tensor, self._staging, unit_flag=self._unit_flag)
            return
        source = self._scale
        alone = source.tensor.numel == 1
        columns = (0, 1) if alone else block.columns
        places = () if alone else (*source.start, (columns[0], 1))
        tile = self._scales.alloc_tensor(source.dtype, columns[1])
        window = source.tensor.window(places, (columns[1],), (1,))
        core.load_l1(tile, window.rounded_up(core.block_bytes))
        self._scales.enque(tile)
        scale = self._scales.deque(tile)
        core.fixpipe(target, block.tensor, scale=scale, unit_flag=self._unit_flag)
        self._scales.free_tensor(tile)

    def whole_rows(self) -> Iterator[Block]:
        """The numbers of C, whole rows at a time, as many as the host has room for.

        For runs that write nothing down: what :meth:`iterate` yields block by block.
        """
        m, n, k = self._shape
        core = self._core
        stack = core.stack_size(0, core.depth)
        most = max(1, _HOST_BYTES // (n * self._sum_dtype.itemsize * stack))
        b = self._whole_b()
        for index in self._matrices(m * (n + k)):
            for first in range(0, m, most):
                block = Block(
                    self._c.alloc_tensor(self._sum_dtype, min(most, m - first), n),
                    (index * m + first, min(most, m - first)),
                    (0, n),
                )
                self._multiply_at_once(block, b)
                yield block

    def _whole_b(self) -> LocalTensor:
        """All of B, as the product before has left it where that had the same."""
        _, n, k = self._shape
        if not self._keeps_b or self._core.loops:
            return self._at_once(1, (0, k), (0, n))
        key = self._operands[1], n, k
        if self._known_b is None or self._known_b[0] != key:
            self._known_b = key, self._at_once(1, (0, k), (0, n))
        return self._known_b[1]

    def _matrices(self, elements: int) -> Iterable[Index]:
        """The matrices of the stack; each is worked on with so many elements."""
        if self._stack == 1:
            return (0,)
        return self._core.loop(self._stack, inner_bytes=elements * self._sum_dtype.itemsize)

    def _rows_of(self, turn: Index, part: tuple[int, int, int]) -> Span:
        """The rows of a block: the ``turn``-th of a part of every matrix of the stack."""
        (first, rows, turns), m = part, self._shape[0]
        if self._stack == 1:
            return turn * rows + first, rows
        if turns == 1:
            return turn * m + first, rows

        def place(turn: NDArray[np.int64]) -> NDArray[np.int64]:
            return turn // turns * m + turn % turns * rows + first

        return mapped(turn, place, gcd(m, rows, first), "rows", m, *part), rows

    # -- blocks ----------------------------------------------------------------------------------

    def _with_panel(self, m: tuple[int, int, int], n: tuple[int, int, int]) -> Iterator[Block]:
        """Blocks that share a panel in L1: those of one column, or of one row."""
        core, k = self._core, self._shape[2]
        keep_a = self._kept[0]
        side = 0 if keep_a else 1
        high, wide = m[2] * self._stack, n[2]
        for first in core.loop(high if keep_a else wide):
            fixed = self._rows_of(first, m) if keep_a else span_of(first, n)
            kept = self._kept_tile(side, *((fixed, (0, k)) if keep_a else ((0, k), fixed)))
            for turn in core.loop(wide if keep_a else high):
                moving = span_of(turn, n) if keep_a else self._rows_of(turn, m)
                rows, columns = (fixed, moving) if keep_a else (moving, fixed)
                yield from self._block(rows, columns, {side: kept})
            self._let_go(side, kept)

    def _with_both(self, m: int, n: int) -> Iterator[Block]:
        """Blocks that share columns of B in L1, and row by row of blocks a panel of A."""
        core, t, k = self._core, self._tiling, self._shape[2]
        for first in range(0, n, t.wide * t.base_n):
            width = min(t.wide * t.base_n, n - first)
            right = self._kept_tile(1, (0, k), (first, width))
            for row_part in parts(m, t.base_m):
                for turn in core.loop(row_part[2] * self._stack):
                    rows = self._rows_of(turn, row_part)
                    left = self._kept_tile(0, rows, (0, k))
                    for begin, size, count in parts(width, t.base_n):
                        for column in core.loop(count):
                            columns = span_of(column, (first + begin, size, count))
                            yield from self._block(rows, columns, {0: left, 1: right})
                    self._let_go(0, left)
            self._let_go(1, right)

    def _kept_tile(self, side: int, rows: Span, columns: Span) -> Tile:
        """All of an operand that some blocks need, in L1."""
        panel, source = self._panels[side], self._operands[side]
        tile = panel.alloc_tensor(source.dtype, *source.tile_shape(rows[1], columns[1]))
        source.load_l1(self._core, tile, rows, columns)
        panel.enque(tile)
        return Tile(panel.deque(tile), first_of(rows[0]), first_of(columns[0]))

    def _let_go(self, side: int, kept: Tile) -> None:
        self._panels[side].free_tensor(kept.tensor)

    def _block(self, rows: Span, columns: Span, there: dict[int, Tile]) -> Iterator[Block]:
        """One block of C; of some operands L1 has all that it needs already."""
        block = Block(self._c.alloc_tensor(self._sum_dtype, rows[1], columns[1]), rows, columns)
        k = self._shape[2]
        self._core.separately(
            lambda: self._multiply(block, there),
            lambda: self._multiply_at_once(block, self._at_once(1, (0, k), columns)),
        )
        self._c.enque(block.tensor)
        self._c.deque(block.tensor)
        yield block
        self._c.free_tensor(block.tensor)

    def _multiply(self, block: Block, there: dict[int, Tile]) -> None:
        """Add up all of k in a block, one chunk after the other."""
        core, t = self._core, self._tiling
        bias = self._load_bias(block.columns)
        alike = *self._alike, block.rows[1], block.columns[1]  # and pieces as long: all the same
        for first, length in core.tiles(0, self._shape[2], t.step_k):
            streamed = self._stream(block, (first, length))
            tiles = [there.get(side) or streamed[side] for side in (0, 1)]
            for start, size, count in parts(length, t.base_k):
                begin = first_of(first) + start
                pieces = [
                    partial(self._add, block, tiles, (begin + number * size, size), bias)
                    for number in range(count)
                ]
                self._l0.que.pass_by(core.alike((*alike, size), pieces))
            if self._l1 is not None:
                self._l1.free(streamed[self._streamed[0]].tensor)
        if bias is not None and self._bias is not None:
            self._bias.free(bias)

    def _add(self, block: Block, tiles: list[Tile], k: Span, bias: LocalTensor | None) -> None:
        """Add up a piece of k, which ``tiles`` have in L1."""
        if self._step_operations:
            self._core.scalar_alu("addresses", self._step_operations)
        pieces = self._pieces(block, tiles, k)
        first = k[0] == 0
        self._core.mmad(
            block.tensor,
            *pieces,
            accumulate=not first,
            bias=bias if first else None,
            hf32=self._hf32,
        )
        self._l0.free(pieces[0])

    def _stream(self, block: Block, k: Span) -> dict[int, Tile]:
        """A chunk of the operands that pass through L1."""
        if self._l1 is None:
            return {}
        spans, sides = ((block.rows, k), (k, block.columns)), self._streamed
        shapes = [
            self._operands[side].tile_shape(spans[side][0][1], spans[side][1][1]) for side in sides
        ]
        tensors = self._l1.fill(self._operands[sides[0]].dtype, *shapes)
        found: dict[int, Tile] = {}
        for side, tensor in zip(sides, tensors, strict=True):
            rows, columns = spans[side]
            self._operands[side].load_l1(self._core, tensor, rows, columns)
            found[side] = Tile(tensor, first_of(rows[0]), first_of(columns[0]))
        self._l1.hand_over(tensors[0])
        return found

    def _pieces(self, block: Block, tiles: list[Tile], k: Span) -> list[LocalTensor]:
        """What of a chunk the cube multiplies at a time, into L0."""
        spans = ((block.rows, k), (k, block.columns))
        shapes = (block.rows[1], k[1]), (k[1], block.columns[1])
        pieces = self._l0.fill(self._operands[0].dtype, *shapes)
        for source, piece, tile, span in zip(self._operands, pieces, tiles, spans, strict=True):
            source.load_l0(self._core, piece, tile, *span)
        self._l0.hand_over(pieces[0])
        return pieces

    # -- numbers at once -------------------------------------------------------------------------

    def _multiply_at_once(self, block: Block, b: LocalTensor) -> None:
        """The numbers of a block of any size by one product."""
        a = self._at_once(0, block.rows, (0, self._shape[2]))
        bias = self._load_bias(block.columns)
        self._core.mmad(block.tensor, a, b, bias=bias, hf32=self._hf32)

    def _at_once(self, side: int, rows: Span, columns: Span) -> LocalTensor:
        """Part of an operand on its way through L1 into L0, whatever its size."""
        core, source = self._core, self._operands[side]
        l1, l0 = (TBuf(f"{place}", place) for place in (_INTO_L1[side], _INTO_L0[side]))
        for buffer in (l1, l0):
            buffer.attach(core, 1, 0)
        piece = l0.get(source.dtype, rows[1], columns[1])
        tile = l1.get(source.dtype, *source.tile_shape(rows[1], columns[1]))
        source.load_l1(core, tile, rows, columns)
        source.load_l0(
            core, piece, Tile(tile, first_of(rows[0]), first_of(columns[0])), rows, columns
        )
        return piece

    def _load_bias(self, columns: Span) -> LocalTensor | None:
        if self._bias is None or self._row is None:
            return None
        return self._bias.load(self._row, columns)


class _Bias:
    """A row that is added to all rows of a product, on its way into the bias table."""

    def __init__(self, core: Core, dtype: DType, sums: DType, columns: int) -> None:
        self._core, self._dtype, self._sums = core, dtype, sums
        self._l1 = TQue(TPosition.C1, 1, "bias")
        self._table = TQue(TPosition.C2, 1, "bias_table")
        core.pipe.init_buffer(self._l1, 1, columns * dtype.itemsize)
        core.pipe.init_buffer(self._table, 1, columns * sums.itemsize)

    def load(self, bias: GmMatrix, columns: Span) -> LocalTensor:
        """The bias of some columns."""
        source = bias.tensor.window((*bias.start, (columns[0], 1)), (columns[1],), (1,))
        tile = self._l1.alloc_tensor(self._dtype, columns[1])
        self._core.load_l1(tile, source.rounded_up(self._core.block_bytes))
        self._l1.enque(tile)
        row = self._table.alloc_tensor(self._sums, columns[1])
        self._core.load_bias(row, self._l1.deque(tile))
        self._l1.free_tensor(tile)
        self._table.enque(row)
        return self._table.deque(row)

    def free(self, row: LocalTensor) -> None:
        """The cube has used it."""
        self._table.free_tensor(row)
