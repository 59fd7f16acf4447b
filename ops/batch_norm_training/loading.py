"""Tiles and statistics of a plane in UB, brought to float32."""

from __future__ import annotations

from collections.abc import Hashable
from math import ceil
from typing import TYPE_CHECKING, ClassVar, cast

from npusim.ascendc import (
    Core,
    GlobalTensor,
    GmSlice,
    Kernel,
    LocalTensor,
    LoopIndex,
    RoundMode,
    TBuf,
    TPosition,
    TQue,
)
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import FLOAT

if TYPE_CHECKING:
    from npusim.ascendc.loops import Index
    from npusim.hardware.profile import Profile
    from npusim.ops.batch_norm_training.cut import Cut, Planes, Share

_ALIGN_ROWS = 8  # a tile's rows are a multiple of it, so that instructions fill their repeats


def even_rows(rows: int, most: int) -> int:
    """Rows of tiles of about the same size."""
    even = ceil(rows / ceil(rows / most))
    aligned = round_up(even, _ALIGN_ROWS)
    return aligned if aligned <= most else even


class TileQueue:
    """A queue of tiles of one tensor, and their copies in float32 (``widened``)."""

    def __init__(
        self,
        core: Core,
        tensor: GlobalTensor,
        name: str,
        depth: int,
        elements: int,
        *,
        widened: bool = True,
    ) -> None:
        self.core, self.widened = core, widened and tensor.dtype is not FLOAT
        self.queue = TQue(TPosition.VECIN, depth, name)
        core.pipe.init_buffer(self.queue, depth, elements * tensor.dtype.itemsize)
        self.wide = TBuf(f"{name}32")
        if self.widened:
            core.pipe.init_buffer(self.wide, 1, elements * FLOAT.itemsize)

    def load(self, piece: GmSlice) -> LocalTensor:
        """A tile, in float32 unless the queue keeps the tensor's type."""
        loaded = self.queue.copy_in(piece)
        if not self.widened:
            return loaded
        wide = self.wide.get(FLOAT, *loaded.shape)
        self.core.cast(wide, loaded, RoundMode.CAST_NONE)
        self.queue.free_tensor(loaded)
        return wide

    def release(self, tile: LocalTensor) -> None:
        """The tile is no longer needed."""
        if not self.widened:
            self.queue.free_tensor(tile)


class Statistics:
    """Rows of numbers per channel: those of all slices of a share, computed with at once."""

    def __init__(self, core: Core, share: Share, lanes: int, names: tuple[str, ...]):
        self.core, self.share, self.lanes = core, share, lanes
        self.size = share.slices * lanes
        self.queue = TQue(TPosition.VECIN, 1, "statistics")
        core.pipe.init_buffer(self.queue, 1, self.size * FLOAT.itemsize)
        self.runs: dict[str, LocalTensor] = {}
        self.rows: dict[str, LocalTensor] = {}
        for name in names:
            buffer = TBuf(name)
            core.pipe.init_buffer(buffer, 1, self.size * FLOAT.itemsize)
            self.runs[name] = buffer.get(FLOAT, self.size)
            self.rows[name] = buffer.get(FLOAT, share.slices, lanes)

    def get(self, name: str) -> LocalTensor:
        """The numbers of all slices as one run."""
        return self.runs[name]

    def by_slice(self, name: str, piece: Index) -> LocalTensor:
        """The same numbers of one slice; slices are evenly spaced, so never an irregular index."""
        return self.rows[name][cast("LoopIndex | int", piece)]

    def load(self, name: str, source: GlobalTensor) -> LocalTensor:
        """The share's part of a tensor with one number per channel, over and over if it is short.

        A tensor of the channels of an image does for the slices of several.
        """
        kept, start, end = self.get(name), self._first, self._first + self.size
        while start < end:
            place = start % source.numel
            length = min(end - start, source.numel - place)
            row = self.queue.copy_in(source.view(source.numel).span(place, length))
            begin = start - self._first
            part = kept if length == self.size else kept[begin : begin + length]
            self.core.copy(part, row)
            self.queue.free_tensor(row)
            start += length
        return kept

    def rstd(self, name: str, variance: LocalTensor, epsilon: float, ones: str) -> LocalTensor:
        """1 / sqrt(variance + epsilon); ``ones`` is a buffer to fill with ones."""
        core, result = self.core, self.get(name)
        core.adds(result, variance, epsilon)
        core.sqrt(result, result)
        core.duplicate(self.get(ones), 1.0)
        return core.div(result, self.get(ones), result)

    @property
    def _first(self) -> int:
        return self.share.first_slice * self.lanes


class PlaneKernel(Kernel):
    """What kernels on planes share: whose work is what, and the tiles of their inputs."""

    inputs: tuple[GlobalTensor, ...]
    planes: Planes
    cut: Cut
    names: ClassVar[tuple[str, ...]] = ("x",)  # of the input tiles
    as_they_are: ClassVar[tuple[str, ...]] = ()  # input tiles that keep their type
    kept: ClassVar[tuple[str, ...]] = ()  # statistics that stay in UB, and room to compute them

    def share_out(self, profile: Profile, result_bytes: float, more_rows: int) -> None:
        """Blocks, and the rows of a tile: as many as all buffers together leave room for.

        ``result_bytes`` are those per element beside the inputs' slots and float32 copies,
        ``more_rows`` are rows of numbers per channel beside the kept ones.
        """
        self.block_dim = self.cut.block_dim
        share, lanes = self.cut.share(0), self.planes.lanes
        width = result_bytes + sum(map(self._tile_bytes, self.names, self.inputs))
        reserved = (len(self.kept) + more_rows + 1) * share.slices * lanes * FLOAT.itemsize
        most = max(1, int((profile.buffers.ub_bytes - reserved) / width / lanes))
        self.most_rows = most
        if profile.software.compiled_for_shape:
            most = self.fitting_rows(profile, most)
        self.tile_rows = share.rows
        if most < share.rows and profile.software.compiled_for_shape:
            self.tile_rows = self.rows_of_tile(share, most)
        elif most < share.rows:
            self.tile_rows = even_rows(share.rows, most)

    def fitting_rows(self, profile: Profile, most: int) -> int:
        """Rows of a kernel for one shape's tile, where buffers have room for ``most``."""
        del profile
        return most

    def rows_of_tile(self, share: Share, most: int) -> int:
        """Rows of a kernel for one shape's tile, where a share has more than ``most``."""
        return even_rows(share.rows, most)

    def block_kind(self, block_idx: int) -> Hashable:
        return self.cut.share(block_idx).amounts

    def reserve_tiles(self, core: Core, elements: int) -> None:
        """Queues for tiles of the inputs, of ``elements`` elements."""
        self.queues = [
            TileQueue(core, tensor, name, self.buffer_num, elements, widened=self._widens(name))
            for tensor, name in zip(self.inputs, self.names, strict=True)
        ]

    def load(self, batch: Index, piece: Index, first: Index, rows: int) -> list[LocalTensor]:
        """The tiles of all inputs at one place."""
        return [
            queue.load(self.planes.tile(tensor, batch, piece, first, rows))
            for queue, tensor in zip(self.queues, self.inputs, strict=True)
        ]

    def release(self, tiles: list[LocalTensor]) -> None:
        """The tiles are no longer needed."""
        for queue, tile in zip(self.queues, tiles, strict=True):
            queue.release(tile)

    def _widens(self, name: str) -> bool:
        return name not in self.as_they_are

    def _tile_bytes(self, name: str, tensor: GlobalTensor) -> int:
        wide = FLOAT.itemsize if self._widens(name) and tensor.dtype is not FLOAT else 0
        return self.buffer_num * tensor.dtype.itemsize + wide
