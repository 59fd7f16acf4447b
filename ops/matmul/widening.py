"""Weights of int8 or int4 turned into numbers by vector cores, for the cube core beside them.

Rows of some columns come to UB, are converted, shifted and scaled there, and stored for the cube
core. Scales and shifts are of columns, or of groups of rows. Source: ops-nn
matmul/weight_quant_batch_matmul_v2 and ops-transformer gmm/grouped_matmul, the custom kernels.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Protocol

import numpy as np

from npusim.ascendc import TBuf, TPosition, TQue
from npusim.ascendc.rounding import RoundMode
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import FLOAT, FLOAT16, INT8

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

    from npusim.ascendc import Core, GlobalTensor, LocalTensor
    from npusim.ascendc.loops import Index
    from npusim.library.matmul_tiling import MatmulTiling
    from npusim.library.operands import GmMatrix, Span
    from npusim.values.dtypes import DType

_SLOTS = 2  # of queues
_MOST_GROUPS = 8  # of rows, whose scales are in UB


class Widening(Protocol):
    """What a kernel says of its weight: ``matrices`` of ``depth`` rows and ``width`` columns.

    ``packed`` numbers are in one of its elements; a ``group`` of rows has a line of scales, 0 for
    all of them; ``chunk`` rows are handed over at a time by ``lanes`` vector cores.
    """

    weight: GlobalTensor
    scale: GlobalTensor
    offset: GlobalTensor | None
    kind: DType
    tiling: MatmulTiling
    packed: int
    group: int
    lanes: int
    matrices: int
    depth: int
    width: int

    @property
    def chunk(self) -> int:
        """Rows that are handed over at a time."""

    def span(self, block: int) -> tuple[int, int]:
        """The first column of a cluster, and how many it has."""


class Widener:
    """A vector core's queues and buffers, and what it does with some rows."""

    def __init__(self, core: Core, kernel: Widening) -> None:
        self._core, self._kernel = core, kernel
        self._lane, self._number = core.get_sub_block_idx(), 0
        self.matrix: Index = 0  # which of several is widened
        width = round_up(kernel.tiling.base_n, core.block_bytes)
        lines = [each for each in (kernel.offset, kernel.scale) if each is not None]
        self._queue, self._lines = TQue(TPosition.VECIN, len(lines), "lines"), lines
        high, group = 1, kernel.group
        if group:
            high = max(1, min(_MOST_GROUPS, kernel.chunk // kernel.lanes // group))
        core.pipe.init_buffer(self._queue, len(lines), high * width * kernel.kind.itemsize)
        self._float = kernel.kind is not FLOAT16
        self._line_bufs = [TBuf(f"line{number}") for number in range(len(lines))]
        for buffer in self._line_bufs:
            core.pipe.init_buffer(buffer, 1, high * width * FLOAT.itemsize)
        element = _SLOTS * (INT8.itemsize + kernel.kind.itemsize) + FLOAT16.itemsize
        element += FLOAT.itemsize if self._float else 0
        room = core.capacity_bytes("UB") - len(lines) * high * width * (
            FLOAT.itemsize + kernel.kind.itemsize
        )
        most = int(room // (width * element))
        self._rows = max(1, min(most, ceil(kernel.chunk / kernel.lanes)))
        if group:
            self._rows = min(high, self._rows // group) * group or _part(group, self._rows)
        tile = self._rows * width
        self._in, self._out = TQue(TPosition.VECIN, _SLOTS, "w"), TQue(TPosition.VECOUT, _SLOTS)
        self._half, self._wide = TBuf("half"), TBuf("wide")
        core.pipe.init_buffer(self._in, _SLOTS, tile)
        core.pipe.init_buffer(self._out, _SLOTS, tile * kernel.kind.itemsize)
        core.pipe.init_buffer(self._half, 1, tile * FLOAT16.itemsize)
        if self._float:
            core.pipe.init_buffer(self._wide, 1, tile * FLOAT.itemsize)

    def load_lines(
        self, part: Span, rows: tuple[Index, ...] = (), high: int = 1
    ) -> list[LocalTensor]:
        """Offsets and scales of a block's columns, in the type that is computed in.

        With groups those of ``high`` of them, from the one of some rows on.
        """
        first, _ = self._kernel.span(self._core.get_block_idx())
        kind, found, n = FLOAT if self._float else FLOAT16, [], self._kernel.width
        for tensor, buffer in zip(self._lines, self._line_bufs, strict=True):
            alone = tensor.numel == self._kernel.matrices
            count = 1 if alone else part[1]
            places = () if alone else ((first, 1), (part[0], 1))
            of_rows = tuple((row // self._kernel.group, n) for row in rows)
            own = (self.matrix, tensor.numel // self._kernel.matrices)
            window = tensor.window(
                (own, *places, *of_rows), (high, count), (n if rows else count, 1)
            )
            tile = self._queue.copy_in(window.by_rows() if high > 1 else window)
            line = buffer.get(kind, high, count)
            if tile.dtype is kind:
                self._core.move(line, tile)
            else:
                self._core.cast(line, tile)
            self._queue.free_tensor(tile)
            found.append(line)
        return found

    def tile(
        self,
        place: GmMatrix,
        rows: tuple[Index, Index],
        count: int,
        part: Span,
        lines: list[LocalTensor],
    ) -> None:
        """Some rows: ``rows`` are those of the chunk, and of these in it."""
        core, kernel, columns = self._core, self._kernel, part[1]
        packed = kernel.packed
        n, first = kernel.width // packed, kernel.span(core.get_block_idx())[0] // packed
        column = part[0] // packed if packed > 1 else part[0]
        source = kernel.weight.window(
            ((self.matrix, kernel.depth * n), (rows[0], n), (rows[1], n), (first, 1), (column, 1)),
            (count, columns // packed), (n, 1),
        )  # fmt: skip
        narrow = self._in.copy_in(source.by_rows() if count > 1 else source)
        half = self._half.get(FLOAT16, count, columns)
        given = narrow
        if packed > 1:  # converted as fast as numbers of eight bits
            given = narrow.same_place(count, columns, dtype=INT8)
            if core.numerics:
                given.alias(_unpacked(narrow.values(narrow.depth)))
        core.cast(half, given)
        self._in.free_tensor(narrow)
        wide = core.cast(self._wide.get(FLOAT, count, columns), half) if self._float else half
        group = kernel.group or count
        if kernel.group:
            lines = self.load_lines(part, rows, ceil(count / group))
        *offset, scale = lines
        for at in range(0, count, group):
            piece = wide if group >= count else wide[at : min(count, at + group)]
            which = slice(at // group, at // group + 1)
            for line in offset:
                core.add(piece, piece, line[which] if kernel.group else line)
            core.mul(piece, piece, scale[which] if kernel.group else scale)
        out = self._out.alloc_tensor(kernel.kind, count, columns)
        if self._float:
            core.cast(out, wide, RoundMode.CAST_RINT)
        else:
            core.move(out, wide)
        target = place.block(rows[1], count, 0, columns)
        self._out.copy_out(target.by_rows() if count > 1 else target, out)


def _part(group: int, most: int) -> int:
    """Rows of a group that are worked on at a time: a half of it, of that, and so on."""
    while group > most:
        group //= 2
    return group


def _unpacked(words: NDArray[Any]) -> NDArray[Any]:
    """Eight numbers of four bits in each, from the lowest bits on, with their signs."""
    bits = words.view(np.uint32)[..., None] >> np.arange(0, 32, 4, dtype=np.uint32) & 15
    found = bits.astype(np.int8)
    found -= (found > 7).astype(np.int8) * 16
    return found.reshape(*words.shape[:-1], -1)
