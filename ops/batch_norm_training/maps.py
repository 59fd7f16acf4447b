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
    """Where a tile is: its first slice counted in the share, how many slices it has.

    ``place`` is (batch, slice, first row, rows of all slices).
    """

    piece: Index
    slices: int
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
        self.together = self.slices_of_tile(profile)

    @property
    def result_bytes(self) -> float:
        """Bytes of UB per element for results."""
        return self.buffer_num * self.y.dtype.itemsize

    def process(self, core: Core) -> None:
        share, lanes = self.cut.share(core.get_block_idx()), self.planes.lanes
        if not share.batches:
            return
        self.reserve(core, self.tile_rows * self.together * lanes)
        self.statistics = Statistics(core, share, lanes, self.kept)
        self.prepare(core, share)
        for turn in core.loop(share.batches):
            for piece, slices in core.tiles(0, share.slices, self.together):
                for first, rows in core.tiles(share.first_row, share.rows, self.tile_rows):
                    place = (turn + share.first_batch, piece + share.first_slice, first,
                             slices * rows)  # fmt: skip
                    tiles = self.load(*place)
                    y = self.compute(core, Where(piece, slices, place), tiles)
                    self.release(tiles)
                    self.out_que.copy_out(self.planes.tile(self.y, *place), y)

    def slices_of_tile(self, profile: Profile) -> int:
        """Whole planes of a tile, which follow each other; only where it has no part of one."""
        del profile
        return 1

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

    def by_channel(
        self,
        core: Core,
        intrinsic: str,
        dst: LocalTensor,
        src: LocalTensor,
        where: Where,
        name: str,
    ) -> LocalTensor:
        """dst = ``src`` <intrinsic> the kept numbers of its channels, slice by slice."""
        size = src.numel // where.slices
        for each in range(where.slices):
            part = slice(each * size, (each + 1) * size)
            to, of = (dst, src) if where.slices == 1 else (dst[part], src[part])
            core.by_lanes(intrinsic, to, of, self.statistics.by_slice(name, where.piece + each))
        return dst

    def result(
        self, core: Core, intrinsic: str, x: LocalTensor, where: Where, name: str
    ) -> LocalTensor:
        """The same in a slot of y's queue, in its type."""
        y = self.out_que.alloc_tensor(self.y.dtype, x.numel)
        if y.dtype is FLOAT:
            return self.by_channel(core, intrinsic, y, x, where, name)
        found = self.by_channel(core, intrinsic, x, x, where, name)
        return core.cast(y, found, RoundMode.CAST_RINT)

    def scratch_buffer(self, core: Core, name: str, nbytes: int) -> TBuf:
        """Room beside the queues."""
        buffer = TBuf(name)
        core.pipe.init_buffer(buffer, 1, nbytes)
        return buffer
