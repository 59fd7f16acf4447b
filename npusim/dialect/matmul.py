"""Matrix products on one cube core: blocks of C, fed through L1 and L0, double buffered.

What the vendor's matmul library does for one core. The block sizes follow from the sizes of the
memories; the library's own search is not published, so they may differ from it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

from npusim.dialect.pipe import TPosition, TQue
from npusim.values.dtypes import FLOAT, INT32, DType

if TYPE_CHECKING:
    from npusim.dialect.core import Core
    from npusim.dialect.gm import GlobalTensor, GmSlice, Place
    from npusim.dialect.local import LocalTensor
    from npusim.dialect.loops import LoopIndex
    from npusim.hardware.profile import Profile

_BASE_M = 128  # rows of a block of C: with twice as many columns, L0C is full on every chip
_BASE_N = 256
_PANEL_SHARE = 4  # an operand stays in L1 as a whole when it takes at most this part of it


@dataclass(frozen=True, slots=True)
class GmMatrix:
    """A matrix in global memory: where it starts, and elements from one row to the next.

    ``start`` is a sum of ``index * stride``. A ``transposed`` matrix lies there column by column,
    ``step`` elements from one column to the next.
    """

    tensor: GlobalTensor
    start: tuple[tuple[Place, int], ...]
    step: int
    transposed: bool = False

    def block(self, row: Place, rows: int, column: Place, columns: int) -> GmSlice:
        """Part of the matrix, as it lies in memory: (columns, rows) of a transposed one."""
        if self.transposed:
            row, rows, column, columns = column, columns, row, rows
        places = (*self.start, (row, self.step), (column, 1))
        return self.tensor.window(places, (rows, columns), (self.step, 1))


@dataclass(frozen=True, slots=True)
class MatmulTiling:
    """A block of C is ``base_m x base_n``; of k, ``base_k`` are in L0 and ``step_k`` in L1.

    ``keep_a`` and ``keep_b`` say that L1 holds all of k of one block row of A, or of one block
    column of B, while the other operand streams past. ``depth_c`` blocks of C are in L0C.
    """

    base_m: int
    base_n: int
    base_k: int
    step_k: int
    keep_a: bool
    keep_b: bool
    depth_c: int

    @classmethod
    def of(cls, profile: Profile, dtype: DType, m: int, n: int, k: int) -> MatmulTiling:
        """Blocks for products of up to (m, k) by (k, n) elements of ``dtype``."""
        buffers, size = profile.buffers, dtype.itemsize
        grain = max(profile.cube.fractal_m, buffers.block_bytes // size)
        results = buffers.l0c_bytes // FLOAT.itemsize
        base_m = min(_BASE_M, _up(m, grain))
        base_n = min(_BASE_N, _up(n, grain), results // base_m // grain * grain)
        in_l0 = min(buffers.l0a_bytes // base_m, buffers.l0b_bytes // base_n) // (2 * size)
        base_k = min(_up(k, grain), max(grain, in_l0 // grain * grain))
        panel_k = _up(k, base_k)
        share = buffers.l1_bytes // _PANEL_SHARE
        keep_b = base_n * panel_k * size <= share
        keep_a = not keep_b and m <= base_m and base_m * panel_k * size <= share
        room = buffers.l1_bytes // (2 * size) - (base_n * keep_b + base_m * keep_a) * panel_k
        in_l1 = room // (base_m * (not keep_a) + base_n * (not keep_b))
        step_k = min(panel_k, max(base_k, in_l1 // base_k * base_k))
        depth_c = 2 if 2 * base_m * base_n <= results else 1
        return cls(base_m, base_n, base_k, step_k, keep_a, keep_b, depth_c)


class _Chunk(NamedTuple):
    """Part of k: where it starts in the matrix, and in a tile that holds all of k."""

    first: int | LoopIndex
    length: int
    inside: int
    is_first: bool


class _Operand:
    """A or B on its way to the cube: a queue in L1, one in L0; k runs along axis ``k_axis``."""

    def __init__(
        self, core: Core, positions: tuple[TPosition, TPosition], k_axis: int, *, kept: bool
    ) -> None:
        self._core = core
        self._k_axis = k_axis
        self._kept = kept
        self._l1, self._l0 = (TQue(position, 2) for position in positions)

    def reserve(self, in_l1: int, in_l0: int, itemsize: int) -> None:
        """Memory for two tiles of ``in_l1`` and two of ``in_l0`` elements."""
        self._core.pipe.init_buffer(self._l1, 2, in_l1 * itemsize)
        self._core.pipe.init_buffer(self._l0, 2, in_l0 * itemsize)

    def load(
        self, matrix: GmMatrix, k: tuple[Place, int], across: tuple[Place, int]
    ) -> LocalTensor:
        """Into L1: (first, length) along k, (first, length) along rows of A or columns of B."""
        source = matrix.block(*k, *across) if self._k_axis == 0 else matrix.block(*across, *k)
        tile = self._l1.alloc_tensor(source.tensor.dtype, *source.shape)
        if self._core.profile.cube.nd2nz_setup_cycles is None:
            self._core.data_copy_nz(tile, source)
        else:
            self._core.data_copy_nd2nz(tile, source)
        self._l1.enque(tile)
        return self._l1.deque(tile)

    def step(
        self, tile: LocalTensor, matrix: GmMatrix, chunk: _Chunk, start: int, length: int
    ) -> LocalTensor:
        """Into L0: ``length`` elements of k, ``start`` elements into ``chunk``."""
        start += chunk.inside if self._kept else 0
        cut = slice(start, start + length)
        part = tile[cut] if self._k_axis == int(matrix.transposed) else tile[:, cut]
        shape = reversed(part.shape) if matrix.transposed else part.shape
        piece = self._l0.alloc_tensor(tile.dtype, *shape)
        self._core.load_data(piece, part, transpose=matrix.transposed)
        self._l0.enque(piece)
        return self._l0.deque(piece)

    def drop_step(self, piece: LocalTensor) -> None:
        """The cube has used a piece in L0."""
        self._l0.free_tensor(piece)

    def drop(self, tile: LocalTensor) -> None:
        """Nothing more of a tile in L1 is needed."""
        self._l1.free_tensor(tile)


class Matmul:
    """C = A @ B on one cube core, as often as wanted, with one set of buffers.

    Columns of blocks outside, rows of blocks inside; along k one chunk after the other into the
    same block. ``k`` is the longest sum, for which ``tiling`` was made.
    """

    def __init__(
        self, core: Core, tiling: MatmulTiling, dtype: DType, out_dtype: DType, k: int
    ) -> None:
        self._core, self._tiling = core, tiling
        self._sum_dtype = FLOAT if dtype.category == "float" else INT32
        t, panel = tiling, _up(k, tiling.base_k)
        self._a = _Operand(core, (TPosition.A1, TPosition.A2), 1, kept=t.keep_a)
        self._b = _Operand(core, (TPosition.B1, TPosition.B2), 0, kept=t.keep_b)
        in_l1 = (panel if t.keep_a else t.step_k, panel if t.keep_b else t.step_k)
        self._a.reserve(t.base_m * in_l1[0], t.base_m * t.base_k, dtype.itemsize)
        self._b.reserve(t.base_n * in_l1[1], t.base_n * t.base_k, dtype.itemsize)
        self._c = TQue(TPosition.CO1, t.depth_c, "c")
        block = t.base_m * t.base_n
        core.pipe.init_buffer(self._c, t.depth_c, block * self._sum_dtype.itemsize)
        self._staging: TQue | None = None
        if core.profile.paths.l0c_to_gm is None:
            self._staging = TQue(TPosition.VECOUT, 1, "c_out")
            core.pipe.init_buffer(self._staging, 1, block * out_dtype.itemsize)

    def multiply(self, c: GmMatrix, a: GmMatrix, b: GmMatrix, m: int, n: int, k: int) -> None:
        """c = a @ b for (m, k) by (k, n), all three in global memory."""
        core, t = self._core, self._tiling
        kept_a = self._a.load(a, (0, k), (0, m)) if t.keep_a else None
        for columns in core.tiles(0, n, t.base_n):
            kept_b = self._b.load(b, (0, k), columns) if t.keep_b else None
            for rows in core.tiles(0, m, t.base_m):
                block = self._c.alloc_tensor(self._sum_dtype, rows[1], columns[1])
                for chunk in self._chunks(k):
                    tile_a = kept_a or self._a.load(a, chunk[:2], rows)
                    tile_b = kept_b or self._b.load(b, chunk[:2], columns)
                    self._accumulate(block, (tile_a, a), (tile_b, b), chunk)
                    if tile_a is not kept_a:
                        self._a.drop(tile_a)
                    if tile_b is not kept_b:
                        self._b.drop(tile_b)
                self._c.enque(block)
                core.fixpipe(c.block(*rows, *columns), self._c.deque(block), self._staging)
                self._c.free_tensor(block)
            if kept_b is not None:
                self._b.drop(kept_b)
        if kept_a is not None:
            self._a.drop(kept_a)

    def _chunks(self, k: int) -> Iterator[_Chunk]:
        """What of k is worked on at a time."""
        t = self._tiling
        if t.keep_a or t.keep_b or k <= t.step_k:
            for first in range(0, k, t.step_k):
                yield _Chunk(first, min(t.step_k, k - first), first, first == 0)
        else:
            for index, length in self._core.tiles(0, k, t.step_k, sequential=True):
                yield _Chunk(index, length, 0, int(index.values()[0]) == 0)

    def _accumulate(
        self,
        block: LocalTensor,
        a: tuple[LocalTensor, GmMatrix],
        b: tuple[LocalTensor, GmMatrix],
        chunk: _Chunk,
    ) -> None:
        """block += the part of the product that one chunk of k gives."""
        for start in range(0, chunk.length, self._tiling.base_k):
            length = min(self._tiling.base_k, chunk.length - start)
            piece_a = self._a.step(*a, chunk, start, length)
            piece_b = self._b.step(*b, chunk, start, length)
            accumulate = start > 0 or not chunk.is_first
            self._core.mmad(block, piece_a, piece_b, accumulate=accumulate)
            self._a.drop_step(piece_a)
            self._b.drop_step(piece_b)


def _up(value: int, step: int) -> int:
    return ceil(value / step) * step
