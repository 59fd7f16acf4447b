"""Matrix products on one cube core: blocks of C, fed through L1 and L0, double buffered.

What the vendor's matmul library does for one core. The schedule is written down block by block;
the numbers are computed in as few products as the host likes best.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from npusim.ascendc.queues import TBuf, TPosition, TQue
from npusim.library.matmul_tiling import GmMatrix, MatmulTiling, up
from npusim.values.dtypes import FLOAT, INT32, DType

if TYPE_CHECKING:
    from npusim.ascendc.core import Core
    from npusim.ascendc.gm import GmSlice, Place
    from npusim.ascendc.tensors import LocalTensor

__all__ = ["GmMatrix", "Matmul", "MatmulTiling", "Product"]

_IN_FLIGHT = 2  # blocks of results: one being summed up, one leaving
_HOST_BYTES = 1 << 26  # of results that are computed at once

Span = tuple["Place", int]  # first element and number of elements

# Brings a block of results from L0C to where it belongs: (block, rows, columns).
Finish = Callable[["LocalTensor", Span, Span], None]


class Product(NamedTuple):
    """c = a @ b for (m, k) by (k, n), all three in global memory; ``bias`` is added to its rows."""

    c: GmMatrix
    a: GmMatrix
    b: GmMatrix
    m: int
    n: int
    k: int
    bias: GmMatrix | None = None


class _Stage:
    """Tiles that pass through one level of memory together: one pair of flags for all of them."""

    def __init__(self, core: Core, slots: dict[TPosition, int], depth: int) -> None:
        """``slots`` are the bytes of a tile in each place; there is room for ``depth`` of each."""
        first, *others = slots
        self._que = TQue(first, depth)
        self._bufs = [TBuf(str(place).lower(), place) for place in others]
        self._depth, self._turn = depth, 0
        buffers: tuple[TQue | TBuf, ...] = (self._que, *self._bufs)
        for buffer, nbytes in zip(buffers, slots.values(), strict=True):
            core.pipe.init_buffer(buffer, depth, nbytes)

    def fill(self, dtype: DType, *shapes: tuple[int, ...]) -> list[LocalTensor]:
        """Free slots, once there are some."""
        self._turn = (self._turn + 1) % self._depth
        tiles = [self._que.alloc_tensor(dtype, *shapes[0])]
        for buffer, shape in zip(self._bufs, shapes[1:], strict=True):
            tiles.append(buffer.get(dtype, *shape, part=self._turn))
        return tiles

    def hand_over(self, tiles: list[LocalTensor]) -> None:
        """They are filled: whoever needs them may go on."""
        self._que.enque(tiles[0])
        self._que.deque(tiles[0])

    def free(self, tiles: list[LocalTensor]) -> None:
        """They aren't needed any more."""
        self._que.free_tensor(tiles[0])


class Matmul:
    """Matrix products on one cube core, as often as wanted, with one set of buffers.

    Columns of blocks outside, rows of blocks inside; along k one chunk after the other into the
    same block. ``k`` is the longest sum, for which ``tiling`` was made. ``finish`` takes over what
    happens to results.
    """

    def __init__(
        self,
        core: Core,
        tiling: MatmulTiling,
        dtype: DType,
        out_dtype: DType,
        k: int,
        *,
        bias: DType | None = None,
        hf32: bool = False,
        finish: Callable[[Product], Finish] | None = None,
    ) -> None:
        self._core, self._tiling, self._hf32 = core, tiling, hf32
        self._sum_dtype = FLOAT if dtype.category == "float" else INT32
        t, size = tiling, dtype.itemsize
        panel = up(k, t.base_k)
        wide_a, wide_b = t.base_m * size, t.base_n * size
        streams = {}
        if not t.keep_a:
            streams[TPosition.A1] = wide_a * t.step_k
        if not t.keep_b:
            streams[TPosition.B1] = wide_b * t.step_k
        self._l1 = _Stage(core, streams, t.depth_1)
        self._panel: TQue | None = None
        if t.keep_a or t.keep_b:
            self._panel = TQue(TPosition.A1 if t.keep_a else TPosition.B1, t.depth_1, "panel")
            core.pipe.init_buffer(self._panel, t.depth_1, (wide_a if t.keep_a else wide_b) * panel)
        into_l0 = {TPosition.A2: wide_a * t.base_k, TPosition.B2: wide_b * t.base_k}
        self._l0 = _Stage(core, into_l0, t.depth_0)
        # With one block in L0C, results leave it piece by piece while the next ones arrive.
        unit_flag = core.profile.paths.l0c_to_gm is not None
        self._c = TQue(TPosition.CO1, _IN_FLIGHT if unit_flag else t.depth_c, "c")
        block = t.base_m * t.base_n
        core.pipe.init_buffer(self._c, t.depth_c, block * self._sum_dtype.itemsize)
        self._staging: TQue | None = None
        self._finish = finish or self._store
        if core.profile.paths.l0c_to_gm is None and finish is None:
            self._staging = TQue(TPosition.VECOUT, 1, "c_out")
            core.pipe.init_buffer(self._staging, 1, block * out_dtype.itemsize)
        self._bias = None if bias is None else _Bias(core, bias, t.base_n)

    def multiply(self, c: GmMatrix, a: GmMatrix, b: GmMatrix, m: int, n: int, k: int) -> None:
        """c = a @ b for (m, k) by (k, n), all three in global memory."""
        self.run(Product(c, a, b, m, n, k))

    def run(self, product: Product) -> None:
        """Carry out a product."""
        core = self._core
        if core.recording:
            with core.schedule_only():
                self._schedule(product)
        if core.numerics:
            with core.numbers_only():
                self._compute(product)

    # -- when it happens -------------------------------------------------------------------------

    def _schedule(self, product: Product) -> None:
        """Write the instructions down, block by block."""
        t = self._tiling
        m, n = _parts(product.m, t.base_m), _parts(product.n, t.base_n)
        for first_column, columns, number in n:
            for first_row, rows, turns in m:
                if t.keep_a or t.keep_b:
                    self._with_panel(
                        product, (first_row, rows, turns), (first_column, columns, number)
                    )
                    continue
                for turn in self._core.loop(turns * number):
                    row = (turn % turns if turns > 1 and number > 1 else turn) if turns > 1 else 0
                    column = (turn // turns if turns > 1 else turn) if number > 1 else 0
                    self._block(
                        product,
                        (_moved(row, rows, first_row), rows),
                        (_moved(column, columns, first_column), columns),
                        None,
                    )

    def _with_panel(
        self, product: Product, m: tuple[int, int, int], n: tuple[int, int, int]
    ) -> None:
        """Blocks that share a panel in L1: those of one column, or of one row."""
        core, panel = self._core, self._panel
        assert panel is not None
        keep_a = self._tiling.keep_a
        outer, inner = (m, n) if keep_a else (n, m)
        for first in core.loop(outer[2]):
            fixed = (_moved(first, outer[1], outer[0]), outer[1])
            matrix = product.a if keep_a else product.b
            source = _slice(matrix, (0, product.k), fixed, is_a=keep_a)
            kept = panel.alloc_tensor(matrix.tensor.dtype, *_tile_shape(source))
            self._load(kept, source)
            panel.enque(kept)
            panel.deque(kept)
            for turn in core.loop(inner[2]):
                moving = (_moved(turn, inner[1], inner[0]), inner[1])
                rows, columns = (fixed, moving) if keep_a else (moving, fixed)
                self._block(product, rows, columns, kept)
            panel.free_tensor(kept)

    def _block(self, product: Product, rows: Span, columns: Span, kept: LocalTensor | None) -> None:
        """One block of C: all of k, then out."""
        block = self._c.alloc_tensor(self._sum_dtype, rows[1], columns[1])
        bias = None
        if self._bias is not None and product.bias is not None:
            bias = self._bias.load(product.bias, columns)
        for k in self._core.tiles(0, product.k, self._tiling.step_k):
            tiles = self._stream((product.a, product.b), k, rows, columns)
            for start in range(0, k[1], self._tiling.base_k):
                depth = min(self._tiling.base_k, k[1] - start)
                pieces = self._pieces(product, tiles, kept, start, depth)
                self._core.mmad(block, *pieces, accumulate=True, hf32=self._hf32)
                self._l0.free(pieces)
            self._l1.free(tiles)
        if bias is not None and self._bias is not None:
            self._bias.free(bias)
        self._c.enque(block)
        self._finish(product)(self._c.deque(block), rows, columns)
        self._c.free_tensor(block)

    def _stream(
        self, operands: tuple[GmMatrix, GmMatrix], k: Span, rows: Span, columns: Span
    ) -> list[LocalTensor]:
        """A chunk of the operands that aren't kept, into L1."""
        t = self._tiling
        sources = []
        if not t.keep_a:
            sources.append(_slice(operands[0], k, rows, is_a=True))
        if not t.keep_b:
            sources.append(_slice(operands[1], k, columns, is_a=False))
        tiles = self._l1.fill(
            operands[0].tensor.dtype, *(_tile_shape(source) for source in sources)
        )
        for tile, source in zip(tiles, sources, strict=True):
            self._load(tile, source)
        self._l1.hand_over(tiles)
        return tiles

    def _pieces(
        self,
        product: Product,
        tiles: list[LocalTensor],
        kept: LocalTensor | None,
        start: int,
        length: int,
    ) -> list[LocalTensor]:
        """What of a chunk the cube multiplies at a time, into L0."""
        t = self._tiling
        of_a = kept if t.keep_a and kept is not None else tiles[0]
        of_b = kept if t.keep_b and kept is not None else tiles[-1]
        parts = []
        for tile, matrix, is_a in ((of_a, product.a, True), (of_b, product.b, False)):
            # Where in a kept panel the chunk lies makes no difference to the time.
            first = 0 if tile is kept else start
            along_rows = is_a == matrix.transposed
            cut = slice(first, first + length)
            parts.append((tile[cut] if along_rows else tile[:, cut], matrix.transposed))
        shapes = [tuple(reversed(part.shape)) if turned else part.shape for part, turned in parts]
        pieces = self._l0.fill(of_a.dtype, *shapes)
        for piece, (part, turned) in zip(pieces, parts, strict=True):
            self._core.load_data(piece, part, transpose=turned)
        self._l0.hand_over(pieces)
        return pieces

    def _load(self, tile: LocalTensor, source: GmSlice) -> None:
        in_fractals = len(source.shape) > 2
        if in_fractals or self._core.profile.cube.nd2nz_setup_cycles is None:
            self._core.data_copy_nz(tile, source)
        else:
            self._core.data_copy_nd2nz(tile, source)

    def _store(self, product: Product) -> Finish:
        def store(block: LocalTensor, rows: Span, columns: Span) -> None:
            self._core.fixpipe(product.c.block(*rows, *columns), block, self._staging)

        return store

    # -- what it computes ------------------------------------------------------------------------

    def _compute(self, product: Product) -> None:
        """The numbers: whole rows of C at a time, as many as the host has room for."""
        m, n, k = product.m, product.n, product.k
        most = max(1, _HOST_BYTES // (n * self._sum_dtype.itemsize * self._stack()))
        tile_b = self._operand(product.b, (0, k), (0, n), is_a=False)
        for first in range(0, m, most):
            rows = min(most, m - first)
            tile_a = self._operand(product.a, (0, k), (first, rows), is_a=True)
            block = self._c.alloc_tensor(self._sum_dtype, rows, n)
            bias = None
            if self._bias is not None and product.bias is not None:
                bias = self._bias.load(product.bias, (0, n))
            self._core.mmad(block, tile_a, tile_b, bias=bias, hf32=self._hf32)
            self._finish(product)(block, (first, rows), (0, n))

    def _stack(self) -> int:
        return self._core.stack_size(0, self._core.depth)

    def _operand(self, matrix: GmMatrix, k: Span, across: Span, *, is_a: bool) -> LocalTensor:
        """An operand on its way through L1 into L0, as a whole."""
        source = _slice(matrix, k, across, is_a=is_a)
        dtype, shape = matrix.tensor.dtype, _tile_shape(source)
        positions = (TPosition.A1, TPosition.A2) if is_a else (TPosition.B1, TPosition.B2)
        l1, l0 = (TBuf(f"{place}", place) for place in positions)
        for buffer in (l1, l0):
            buffer.attach(self._core, 1, 0)
        tile = l1.get(dtype, *shape)
        self._load(tile, source)
        piece = l0.get(dtype, *(reversed(shape) if matrix.transposed else shape))
        self._core.load_data(piece, tile, transpose=matrix.transposed)
        return piece


class _Bias:
    """A row that is added to all rows of a product, on its way into the bias table."""

    def __init__(self, core: Core, dtype: DType, columns: int) -> None:
        self._core, self._dtype = core, dtype
        self._l1 = TQue(TPosition.C1, 1, "bias")
        self._table = TQue(TPosition.C2, 1, "bias_table")
        core.pipe.init_buffer(self._l1, 1, columns * dtype.itemsize)
        core.pipe.init_buffer(self._table, 1, columns * FLOAT.itemsize)

    def load(self, bias: GmMatrix, columns: Span) -> LocalTensor:
        """The bias of some columns."""
        source = bias.tensor.window((*bias.start, (columns[0], 1)), (columns[1],), (1,))
        tile = self._l1.alloc_tensor(self._dtype, columns[1])
        self._core.load_l1(tile, source.rounded_up())
        self._l1.enque(tile)
        row = self._table.alloc_tensor(FLOAT, columns[1])
        self._core.load_bias(row, self._l1.deque(tile))
        self._l1.free_tensor(tile)
        self._table.enque(row)
        return self._table.deque(row)

    def free(self, row: LocalTensor) -> None:
        """The cube has used it."""
        self._table.free_tensor(row)


def _parts(total: int, step: int) -> list[tuple[int, int, int]]:
    """(first element, elements of a block, number of blocks): whole blocks and what remains."""
    whole, rest = divmod(total, step)
    parts = [(0, step, whole)] if whole else []
    if rest:
        parts.append((whole * step, rest, 1))
    return parts


def _moved(index: Place, step: int, start: int) -> Place:
    """start + index * step."""
    if isinstance(index, int):
        return start + index * step
    return index * step + start


def _slice(matrix: GmMatrix, k: Span, across: Span, *, is_a: bool) -> GmSlice:
    """(first, number) along k, (first, number) along rows of A or columns of B."""
    return matrix.block(*across, *k) if is_a else matrix.block(*k, *across)


def _tile_shape(source: GmSlice) -> tuple[int, int]:
    """Rows and columns of a tile, which may lie in blocks of columns."""
    *blocks, rows, columns = source.shape
    return rows, columns * (blocks[0] if blocks else 1)
