"""Rows of images in UB as columns of windows: img2col, with padding below every number.

Source: load3dv1 of the public operator sources; where a chip lacks it, their copies by vadds, and
for what the operator compiler schedules itself its copies by vshl (CANN 8.1, tbe/dsl,
pooling_with_arg_schedule.py: a block of each position, for one element of the windows and fractal
by fractal of positions, which lie in several rows).
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from npusim.ascendc import Core, GlobalTensor, LocalTensor, TPosition, TQue
from npusim.ascendc.loops import Index, looked_up, values_of
from npusim.engine.program import Pipe
from npusim.values.dtypes import INT32
from npusim.values.formats import C0

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.hardware.profile import Profile
    from npusim.ops.pooling.windows import Windows
    from npusim.values.dtypes import DType

# What the scalar unit works out for a pixel and a row of its window: which row and column the
# pixel is in, and with two sums of products where it comes from and where it goes.
_ADDRESS_OPERATIONS = 18


class Tile(NamedTuple):
    """Windows of a plane: the first row and column of the result, and how many."""

    plane: Index
    row: Index
    column: Index
    rows: int
    width: int


class Columns:
    """The windows of one image after the other, [pixel, element, lane]."""

    def __init__(
        self,
        profile: Profile,
        dtype: DType,
        height: Windows,
        width: Windows,
        *,
        scheduled: bool = False,
    ) -> None:
        self.dtype, self.height, self.width, self.scheduled = dtype, height, width, scheduled
        self.by_load3d = profile.paths.l1_to_ub is not None
        self._blocks = C0 * dtype.itemsize // profile.buffers.block_bytes  # of a position
        self._loaded: TQue
        self._columns: TQue

    @property
    def elements(self) -> int:
        """Elements of a window."""
        return self.height.window * self.width.window

    def reserve(self, core: Core, extent: tuple[int, ...], buffers: int) -> None:
        """Buffers for tiles of at most so many rows and columns, ``buffers`` of each."""
        rows, width = extent
        pixels = ceil(rows * width / C0) * C0
        size = C0 * self.dtype.itemsize
        place = TPosition.A1 if self.by_load3d else TPosition.VECIN
        producer = Pipe.MTE1 if self.by_load3d else Pipe.VECTOR
        self._loaded = TQue(place, buffers, "rows")
        self._columns = TQue(TPosition.VECIN, buffers, "columns", producer=producer)
        taken = self.height.span(rows) * self.width.span(width) * size
        core.pipe.init_buffer(self._loaded, buffers, taken)
        core.pipe.init_buffer(self._columns, buffers, pixels * self.elements * size)

    def load(self, core: Core, x: GlobalTensor, tile: Tile) -> LocalTensor:
        """The windows of a tile."""
        high, wide = self.height, self.width
        rows, columns = high.span(tile.rows), wide.span(tile.width)
        top = looked_up(tile.row, high.loaded_from(tile.rows))
        left = looked_up(tile.column, wide.loaded_from(tile.width))
        line = wide.size * C0
        places = ((tile.plane, high.size * line), (top, line), (left, C0))
        source = x.window(places, (rows, columns * C0), (line, 1))
        loaded = self._loaded.copy_in(source, (rows * columns * C0,))
        pixels = tile.rows * tile.width
        made = self._columns.alloc_tensor(self.dtype, pixels, self.elements, C0)
        if self.scheduled:
            self._copy_pieces(core, made, pieces_of(pixels, tile.width), pixels)
        else:
            for _ in core.loop(ceil(pixels / C0)):
                self._turn(core, made)

        def turned(values: NDArray[Any]) -> NDArray[Any]:
            return self._numbers(values.reshape(-1, rows, columns, C0), tile, top, left)

        core.arrange(made, loaded, how=turned)
        self._loaded.free_tensor(loaded)
        self._columns.enque(made)
        return self._columns.deque(made)

    def free(self, columns: LocalTensor) -> None:
        """The columns have been folded."""
        self._columns.free_tensor(columns)

    def _turn(self, core: Core, made: LocalTensor) -> None:
        """The columns of 16 pixels."""
        if self.by_load3d:
            core.img2col(made, self.elements)
            return
        for _ in core.loop(C0 * self.height.window):
            core.scalar_loop()
            core.scalar_alu("address", _ADDRESS_OPERATIONS)
            core.emit_vector("vadds", self.dtype, self.width.window * C0, chained=False)
        core.noted(made)

    def _copy_pieces(self, core: Core, made: LocalTensor, pieces: int, pixels: int) -> None:
        """The columns of all pixels, of which a piece lies in one row and one fractal."""
        elements = ceil(pixels / pieces) * C0 // self._blocks
        for _ in core.loop(self.elements * self._blocks):
            for _ in core.loop(pieces):
                core.scalar_loop()
                core.scalar_alu("address", _ADDRESS_OPERATIONS)
                core.emit_vector("vshl", INT32, elements, chained=False)
        core.noted(made)

    def _numbers(self, rows: NDArray[Any], tile: Tile, top: Index, left: Index) -> NDArray[Any]:
        """Columns of rows [iteration, row, column, lane]; padding is below every number."""
        down = self.height.elements(values_of(tile.row), tile.rows)
        across = self.width.elements(values_of(tile.column), tile.width)
        inside = (
            self.height.holds(down)[:, :, None, :, None]
            & self.width.holds(across)[:, None, :, None, :]
        )
        down = np.clip(down - values_of(top)[:, None, None], 0, rows.shape[1] - 1)
        across = np.clip(across - values_of(left)[:, None, None], 0, rows.shape[2] - 1)
        turn = np.arange(len(rows))[:, None, None, None, None]
        found = rows[turn, down[:, :, None, :, None], across[:, None, :, None, :]]
        found = np.where(inside[..., None], found, np.finfo(rows.dtype).min)
        columns: NDArray[Any] = found.reshape(len(rows), -1, self.elements, C0)
        return columns


def pieces_of(pixels: int, width: int) -> int:
    """Runs of pixels that lie in one row of the result and in one fractal."""
    return len({*range(0, pixels, width), *range(0, pixels, C0)})
