"""Tiles and statistics of a plane in UB, brought to float32."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, cast

from npusim.ascendc import (
    Core,
    GlobalTensor,
    GmSlice,
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
    from npusim.ops.batch_norm_training.cut import Planes, Share

_ALIGN_ROWS = 8  # a tile's rows are a multiple of it, so that instructions fill their repeats


def tile_rows(
    profile: Profile, planes: Planes, bytes_per_element: float, reserved_bytes: int, rows: int
) -> int:
    """Rows of a tile: as many as the buffers that are alive together leave room for.

    ``rows`` of a plane go by in tiles of about the same size.
    """
    room = profile.buffers.ub_bytes - reserved_bytes
    most = max(1, int(room / bytes_per_element / planes.lanes))
    if most >= rows:
        return rows
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
        """The share's part of a tensor with one number per channel."""
        row = self.queue.copy_in(source.view(source.numel).span(self._first, self.size))
        kept = self.core.copy(self.get(name), row)
        self.queue.free_tensor(row)
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


def statistics_bytes(share: Share, lanes: int, buffers: int) -> int:
    """What :class:`Statistics` with as many buffers takes of UB."""
    return (buffers + 1) * share.slices * lanes * FLOAT.itemsize
