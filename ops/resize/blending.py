"""What kernels of bilinear resizing share: where pixels come from, and their numbers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from npusim.ascendc import Core, GlobalTensor, GmSlice, Kernel, LocalTensor
from npusim.ascendc.conversions import conversion_path
from npusim.ascendc.loops import Index, looked_up, values_of
from npusim.ops.resize.scales import FLOORED, Corners, Images
from npusim.values.dtypes import FLOAT
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.hardware.profile import Profile


class Blending(Kernel):
    """out = the weighted mean of the four nearest pixels of x."""

    op_type = "ResizeBilinearV2"

    def __init__(
        self, profile: Profile, x: GlobalTensor, out: GlobalTensor, corners: Corners = FLOORED
    ) -> None:
        if x.dtype.category != "float":
            raise KernelError(self.op_type, f"blends floats, not {x.dtype}")
        self.reads, self.writes = (x,), (out,)
        self.kind, self.corners = out.dtype, corners
        self.inside, self.outside = Images.pair(self.op_type, x, out)
        self.x, self.out = x.view(x.numel), out.view(out.numel)
        self.widen = conversion_path(profile, x.dtype, FLOAT)
        self.narrow = conversion_path(profile, FLOAT, out.dtype)
        self.rows = Between(self.inside.height, self.outside.height, corners)
        self.columns = Between(self.inside.width, self.outside.width, corners)

    def _numbers(
        self,
        core: Core,
        out: LocalTensor,
        rows: list[LocalTensor],
        where: tuple[Index, Index, Index],
    ) -> None:
        if not core.numerics:
            return
        depth, lanes = core.depth, self.inside.lanes
        row, first, begin = (values_of(each) for each in where)
        a, b = (x.values(depth).astype(np.float32) for x in rows)
        weight = self.rows.weight[row % self.outside.height].reshape(-1, *(1,) * depth)
        line = (a + (b - a) * weight).reshape(*a.shape[:depth], -1, lanes)
        wanted = first[:, None] + np.arange(out.numel // lanes)
        left, right = (
            np.take_along_axis(line, (table[wanted] - begin[:, None])[..., None], axis=-2)
            for table in (self.columns.low, self.columns.high)
        )
        found = left + (right - left) * self.columns.weight[wanted][..., None]
        out.target(depth)[...] = found.reshape(*found.shape[:depth], -1).astype(self.kind.numpy)

    def _source(
        self, plane: Index, row: Index, table: NDArray[np.int64], begin: Index, taken: int
    ) -> GmSlice:
        """Source pixels from `begin` on, of the source row that a table names for a row."""
        inside = self.inside
        line = inside.width * inside.lanes
        places = (
            (plane, inside.height * line),
            (looked_up(row, table), line),
            (begin, inside.lanes),
        )
        return self.x.window(places, (taken * inside.lanes,), (1,))


@dataclass(frozen=True)
class Between:
    """The two source pixels of every pixel along one axis, and the weight of the second."""

    inside: int
    outside: int
    corners: Corners

    @cached_property
    def _tables(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
        return self.corners.between(self.inside, self.outside)

    @property
    def low(self) -> NDArray[np.int64]:
        """The first pixel."""
        return self._tables[0]

    @property
    def high(self) -> NDArray[np.int64]:
        """The second pixel."""
        return self._tables[1]

    @property
    def weight(self) -> NDArray[np.float32]:
        """The weight of the second pixel."""
        return self._tables[2]

    def span(self, count: int) -> int:
        """Source pixels that any stretch of ``count`` pixels needs."""
        last = np.minimum(np.arange(self.outside) + count, self.outside) - 1
        return int((self.high[last] - self.low).max()) + 1

    def starts(self, count: int) -> NDArray[np.int64]:
        """The first source pixel to load for a stretch that begins at each pixel."""
        return np.minimum(self.low, self.inside - self.span(count))
