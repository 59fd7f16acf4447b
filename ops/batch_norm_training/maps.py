"""Kernels that compute every element of a plane from the elements and the channel's statistics."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, NamedTuple

from npusim.ascendc import Core, GlobalTensor, LocalTensor, RoundMode, TBuf, TPosition, TQue
from npusim.ops.batch_norm_training.loading import PlaneKernel, Statistics
from npusim.values.dtypes import FLOAT

if TYPE_CHECKING:
    from npusim.ascendc.loops import Index
    from npusim.hardware.profile import Profile
    from npusim.ops.batch_norm_training.cut import Cut, Share


class Where(NamedTuple):
    """Where a tile is: its slice counted in the share, and (batch, slice, first row, rows)."""

    piece: Index
    place: tuple[Index, Index, Index, int]


class ChannelMap(PlaneKernel):
    """y = a function of the input planes and of rows of numbers per channel.

    The statistics of a share's channels are computed once, then the planes go by tile by tile.
    """

    def __init__(
        self, profile: Profile, inputs: tuple[GlobalTensor, ...], y: GlobalTensor, cut: Cut
    ) -> None:
        self.inputs, self.y, self.cut, self.planes = inputs, y, cut, cut.planes
        self.share_out(profile, self.result_bytes, 3)

    @property
    def result_bytes(self) -> float:
        """Bytes of UB per element for results."""
        return self.buffer_num * self.y.dtype.itemsize

    def process(self, core: Core) -> None:
        share, lanes = self.cut.share(core.get_block_idx()), self.planes.lanes
        if not share.batches:
            return
        self.reserve(core, self.tile_rows * lanes)
        self.statistics = Statistics(core, share, lanes, self.kept)
        self.prepare(core, share)
        for turn in core.loop(share.batches):
            for piece in core.loop(share.slices):
                for first, rows in core.tiles(share.first_row, share.rows, self.tile_rows):
                    place = (turn + share.first_batch, piece + share.first_slice, first)
                    tiles = self.load(*place, rows)
                    y = self.compute(core, Where(piece, (*place, rows)), tiles)
                    self.release(tiles)
                    self.out_que.copy_out(self.planes.tile(self.y, *place, rows), y)

    def reserve(self, core: Core, elements: int) -> None:
        """Queues for tiles of ``elements`` elements."""
        self.reserve_tiles(core, elements)
        depth = self.result_buffers(core)
        self.out_que = TQue(TPosition.VECOUT, depth, "y")
        core.pipe.init_buffer(self.out_que, depth, elements * self.y.dtype.itemsize)

    def result_buffers(self, core: Core) -> int:
        """Tiles of y that are there at a time."""
        del core
        return self.buffer_num

    @abstractmethod
    def prepare(self, core: Core, share: Share) -> None:
        """Bring the statistics of the share's channels into UB."""

    @abstractmethod
    def compute(self, core: Core, where: Where, tiles: list[LocalTensor]) -> LocalTensor:
        """The tile of y."""

    def result(self, core: Core, intrinsic: str, x: LocalTensor, row: LocalTensor) -> LocalTensor:
        """``x`` <intrinsic> ``row`` in a slot of y's queue, in its type."""
        y = self.out_que.alloc_tensor(self.y.dtype, x.numel)
        if y.dtype is FLOAT:
            return core.by_lanes(intrinsic, y, x, row)
        return core.cast(y, core.by_lanes(intrinsic, x, x, row), RoundMode.CAST_RINT)

    def scratch_buffer(self, core: Core, name: str, nbytes: int) -> TBuf:
        """Room beside the queues."""
        buffer = TBuf(name)
        core.pipe.init_buffer(buffer, 1, nbytes)
        return buffer
