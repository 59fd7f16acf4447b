"""The largest element, or the mean, of windows that slide over the planes of images (NC1HWC0).

Images, or rows of the result where images are few, are dealt out to cores. A tile of padded rows is
folded along the width and then along the height, an instruction for every element of a window but
the first: over all rows at once where windows don't overlap, row by row where they do. Tiles, their
copy folded along the width and results are a sixth of UB each, twice. Source: public operator
sources (dynamic/max_pool.py and its tiling, op_tiling/max_pool.cc); means likewise, with sums.
"""

from __future__ import annotations

from collections.abc import Hashable
from math import ceil
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from npusim.ascendc import Core, GlobalTensor, Kernel, LocalTensor, TBuf, TPosition, TQue
from npusim.ascendc.loops import Index, looked_up, values_of
from npusim.ops.pooling.plain import on_ai_cpu
from npusim.ops.pooling.windows import Windows, windows_of
from npusim.schedules.tile_grid import Grid, Piece
from npusim.values.dtypes import FLOAT, FLOAT16
from npusim.values.errors import KernelError, RefusedTaskError
from npusim.values.formats import C0

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from npusim.ascendc.task import Task
    from npusim.hardware.profile import Profile

_SHARES_OF_UB = 6
_PLANES, _ROWS = 0, 1  # the axes that cores share


class _Tiling(NamedTuple):
    """Planes, rows and columns of a tile of results, and which axis cores share."""

    extent: tuple[int, int, int]
    axis: int


class MaxPoolV3(Kernel):
    """y = the largest element of every window of x, padding never."""

    op_type = "MaxPoolV3"
    generated = True
    fold = "vmax"
    plain_fold: ClassVar[Callable[..., Any] | None] = None
    """Of windows of plain images (NHWC), for operators that the AI CPUs have, too."""

    def __init__(
        self,
        profile: Profile,
        x: GlobalTensor,
        y: GlobalTensor,
        *,
        windows: tuple[Windows, Windows],
        exclusive: bool = True,
    ) -> None:
        if len(x.shape) != 5 or x.shape[-1] != C0 or y.dtype is not x.dtype:
            raise KernelError(self.op_type, f"pools NC1HWC0 images of {C0} lanes, not {x.shape}")
        if y.shape[:2] != x.shape[:2] or y.shape[-1] != C0:
            raise RefusedTaskError(self.op_type, f"results {y.shape} for images {x.shape}")
        if x.dtype not in (FLOAT16, FLOAT):
            raise KernelError(self.op_type, f"pools FLOAT16 and FLOAT, not {x.dtype}")
        self.reads, self.writes = (x,), (y,)
        self.x, self.y = x.view(x.numel), y.view(y.numel)
        self.height, self.width = windows
        self.exclusive = exclusive
        self.planes = x.shape[0] * x.shape[1]
        sixth = profile.buffers.ub_bytes // _SHARES_OF_UB // x.dtype.itemsize
        self.tiling = self._tiled(sixth // C0)
        sizes = (self.planes, self.height.out, self.width.out)
        shared = sizes[self.tiling.axis]
        self.each = ceil(shared / profile.cores.vector_cores)
        self.block_dim = ceil(shared / self.each)

    @classmethod
    def from_task(cls, task: Task) -> tuple[Kernel, ...]:
        """x to y; ``exclusive`` means leave the padding out of their divisor."""
        x, y = task.present(1, 1)
        if cls.plain_fold is not None and len(x.shape) == len("NHWC"):
            return on_ai_cpu(task, cls.plain_fold)
        windows = windows_of(task, x.shape[2:4], y.shape[2:4])
        exclusive = bool(task.attributes.get("exclusive", True))
        return (cls(task.profile, x, y, windows=windows, exclusive=exclusive),)

    def block_kind(self, block_idx: int) -> Hashable:
        """What a core has of the axis that is shared, and whether it begins or ends it."""
        first, count = self._share(block_idx)
        rows = self.tiling.axis == _ROWS
        return count, rows and first == 0, rows and first + count == self.height.out

    def process(self, core: Core) -> None:
        """Tile by tile."""
        kind, (planes, rows, columns) = self.x.dtype, self.tiling.extent
        high, wide = self.height, self.width
        line = _padded(wide, columns) * C0
        loaded, results = TQue(TPosition.VECIN, 2, "rows"), TQue(TPosition.VECOUT, 2, "pooled")
        narrow = TBuf("folded along the width")
        size = planes * kind.itemsize
        core.pipe.init_buffer(loaded, 2, size * _padded(high, rows) * line)
        core.pipe.init_buffer(narrow, 1, size * _padded(high, rows) * columns * C0)
        core.pipe.init_buffer(results, 2, size * rows * columns * C0)
        first, count = self._share(core.get_block_idx())
        sizes = [self.planes, high.out, wide.out]
        sizes[self.tiling.axis] = count
        for piece in Grid((sizes[0], sizes[1], sizes[2]), self.tiling.extent, 1).pieces(core):
            starts = list(piece.starts)
            starts[self.tiling.axis] = starts[self.tiling.axis] + first
            self._tile(core, Piece(piece.shape, tuple(starts)), loaded, narrow, results)

    def _tile(self, core: Core, piece: Piece, loaded: TQue, narrow: TBuf, results: TQue) -> None:
        high, wide, kind = self.height, self.width, self.x.dtype
        planes, rows, columns = piece.shape
        plane, row, column = piece.starts
        down, across = high.span(rows), wide.span(columns)
        top = looked_up(row, high.loaded_from(rows))
        left = looked_up(column, wide.loaded_from(columns))
        line = wide.size * C0
        places = ((plane, high.size * line), (top, line), (left, C0))
        source = self.x.window(places, (planes, down, across * C0), (high.size * line, line, 1))
        tile = loaded.copy_in(source, (planes * down * across * C0,))
        folded = narrow.get(kind, planes, _padded(high, rows), columns * C0)
        made = results.alloc_tensor(kind, planes, rows, columns * C0)
        for _ in core.loop(planes):
            self._pad(core, tile, rows, columns)
            self._fold(core, folded, _padded(high, rows), columns, wide)
            self._fold(core, made, rows, columns, high)
            self._finish(core, made, rows * columns)

        def pooled(values: NDArray[Any]) -> NDArray[Any]:
            shaped = values.reshape(-1, planes, down, across, C0)
            return self._numbers(shaped, (row, top, rows), (column, left, columns))

        core.arrange(made, tile, how=pooled)
        loaded.free_tensor(tile)
        out_line = wide.out * C0
        places = ((plane, high.out * out_line), (row, out_line), (column, C0))
        results.copy_out(
            self.y.window(places, (planes, rows, columns * C0), (high.out * out_line, out_line, 1)),
            made,
        )

    def _tiled(self, pixels: int) -> _Tiling:
        """Tiles of whole planes, of rows, or of parts of a row, for so many pixels with padding."""
        high, wide = self.height, self.width
        plane = _padded(high, high.out) * _padded(wide, wide.out)
        if plane <= pixels:
            return _Tiling((pixels // plane, high.out, wide.out), _PLANES)
        line = _padded(wide, wide.out)
        if high.window * line <= pixels:
            rows = (pixels // line - high.window) // high.stride + 1
            axis = _PLANES if high.out // rows <= self.planes else _ROWS
            return _Tiling((1, min(rows, high.out), wide.out), axis)
        columns = (pixels // high.window - wide.window) // wide.stride + 1
        if columns < 1:
            raise KernelError(
                self.op_type, f"a window of {high.window} x {wide.window} doesn't fit into UB"
            )
        axis = _PLANES if high.out <= self.planes else _ROWS
        return _Tiling((1, 1, min(columns, wide.out)), axis)

    def _share(self, block: int) -> tuple[int, int]:
        """The first of a core's planes or rows, and how many."""
        total = (self.planes, self.height.out)[self.tiling.axis]
        return block * self.each, min(self.each, total - block * self.each)

    def _pad(self, core: Core, tile: LocalTensor, rows: int, columns: int) -> None:
        """Zeros, or the smallest number, around the rows of a plane where they have padding."""
        high, wide = self.height, self.width
        around = _padded(wide, columns) - wide.span(columns)
        if around > 0:
            core.record_vector("vector_dup", tile, around * C0, rows=_padded(high, rows))
        above = _padded(high, rows) - high.span(rows)
        if above > 0:
            core.record_vector("vector_dup", tile, above * _padded(wide, columns) * C0)

    def _fold(self, core: Core, made: LocalTensor, rows: int, columns: int, axis: Windows) -> None:
        """All elements of windows along one axis into one: at once, or row by row."""
        times = max(1, axis.window - 1)
        apart = axis.stride == axis.window if axis is self.width else axis.stride == 1
        if apart:
            for _ in core.loop(times):
                core.record_vector(self.fold, made, rows * columns * C0)
            return
        for _ in core.loop(rows):
            for _ in core.loop(times):
                core.record_vector(self.fold, made, columns * C0)

    def _finish(self, core: Core, made: LocalTensor, pixels: int) -> None:
        """Nothing more to do."""

    def _numbers(
        self,
        values: NDArray[Any],
        rows: tuple[Index, Index, int],
        columns: tuple[Index, Index, int],
    ) -> NDArray[Any]:
        """Results [turn, plane, row, column, lane] of loaded rows of the same axes."""
        down, inside_down = _places(self.height, *rows, values.shape[2])
        across, inside_across = _places(self.width, *columns, values.shape[3])
        turn = np.arange(len(values))[:, None, None]
        made: NDArray[Any] | None = None
        counts = np.zeros((len(values), rows[2], columns[2]), np.int64)
        for i, j in np.ndindex(self.height.window, self.width.window):
            inside = inside_down[:, :, None, i] & inside_across[:, None, :, j]
            found = values[turn, :, down[:, :, None, i], across[:, None, :, j]]
            found = np.where(inside[..., None, None], found, self._nothing(values.dtype))
            made = found if made is None else self._combined(made, found)
            counts += inside
        assert made is not None
        results: NDArray[Any] = np.moveaxis(self._done(made, counts[..., None, None]), 3, 1)
        return results

    def _nothing(self, kind: np.dtype[Any]) -> Any:
        return np.finfo(kind).min

    def _combined(self, made: NDArray[Any], found: NDArray[Any]) -> NDArray[Any]:
        combined: NDArray[Any] = np.maximum(made, found)
        return combined

    def _done(self, made: NDArray[Any], counts: NDArray[np.int64]) -> NDArray[Any]:
        del counts
        return made


class AvgPoolV2(MaxPoolV3):
    """y = the mean of every window of x, of its elements without the padding if ``exclusive``."""

    op_type = "AvgPoolV2"
    fold = "vadd"

    def _finish(self, core: Core, made: LocalTensor, pixels: int) -> None:
        """A product with one over the elements of a window."""
        core.record_vector("vmuls", made, pixels * C0)

    def _nothing(self, kind: np.dtype[Any]) -> Any:
        return kind.type(0)

    def _combined(self, made: NDArray[Any], found: NDArray[Any]) -> NDArray[Any]:
        total: NDArray[Any] = made + found
        return total

    def _done(self, made: NDArray[Any], counts: NDArray[np.int64]) -> NDArray[Any]:
        elements = self.height.window * self.width.window
        shares = 1 / (np.maximum(counts, 1) if self.exclusive else np.full_like(counts, elements))
        means: NDArray[Any] = made * shares.astype(made.dtype)
        return means


class MaxPool(MaxPoolV3):
    """The same under its older name, which plain images have too."""

    op_type = "MaxPool"
    plain_fold = staticmethod(np.max)


class AvgPool(AvgPoolV2):
    """The same under its older name, which plain images have too."""

    op_type = "AvgPool"
    plain_fold = staticmethod(np.mean)


def _padded(axis: Windows, count: int) -> int:
    """Elements of so many windows in a row, padding included."""
    return (count - 1) * axis.stride + axis.window


def _places(
    axis: Windows, first: Index, loaded: Index, count: int, size: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Where elements of windows are among the loaded ones, [turn, window, element]; which exist."""
    places = axis.elements(values_of(first), count)
    return np.clip(places - values_of(loaded)[:, None, None], 0, size - 1), axis.holds(places)
