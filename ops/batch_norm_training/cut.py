"""How the planes of an NC1HWC0 tensor are dealt out to cores.

Schedules for one shape split a single axis: the channel slices where there are as many as cores,
else the batch, else the rows. Shares are ceil(size / cores), so some cores may stay idle.
Source: public tensor compiler, schedules of bn_reduce, bn_update_grad and bn_update.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod
from typing import TYPE_CHECKING

from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from npusim.ascendc import GlobalTensor, GmSlice
    from npusim.ascendc.loops import Index


@dataclass(frozen=True, slots=True)
class Planes:
    """A tensor [N, C1, ..., C0] as ``batch`` x ``slices`` planes of ``rows`` x ``lanes``."""

    batch: int
    slices: int
    height: int
    rows: int
    lanes: int

    @classmethod
    def of(cls, op_type: str, x: GlobalTensor) -> Planes:
        """The planes of ``x``; raises KernelError for a shape that can't be NC1HWC0."""
        if len(x.shape) < 4:
            raise KernelError(op_type, f"{x.shape} is no shape of NC1HWC0")
        return cls(x.shape[0], x.shape[1], x.shape[2], prod(x.shape[2:-1]), x.shape[-1])

    def tile(
        self, tensor: GlobalTensor, batch: Index, piece: Index, first: Index, rows: int
    ) -> GmSlice:
        """``rows`` rows of one plane as a flat run."""
        plane = self.rows * self.lanes
        places = ((batch, self.slices * plane), (piece, plane), (first, self.lanes))
        return tensor.view(tensor.numel).window(places, (rows * self.lanes,), (1,))


@dataclass(frozen=True, slots=True)
class Share:
    """What one block works on; ``first_`` are the places where its ranges begin."""

    first_batch: int
    batches: int
    first_slice: int
    slices: int
    first_row: int
    rows: int

    @property
    def amounts(self) -> tuple[int, int, int]:
        """The sizes alone, which blocks with the same work have in common."""
        return self.batches, self.slices, self.rows


@dataclass(frozen=True, slots=True)
class Cut:
    """``block_dim`` equal shares (the last ones smaller) of batches, slices and rows."""

    planes: Planes
    batch_share: int
    slice_share: int
    row_share: int

    @property
    def block_dim(self) -> int:
        """Number of blocks."""
        return prod(self._parts)

    @property
    def splits_sums(self) -> bool:
        """True where several blocks work on the same channels."""
        return self._parts[0] * self._parts[2] > 1

    def share(self, block: int) -> Share:
        """The part of a block."""
        _, slice_parts, row_parts = self._parts
        planes = self.planes
        batch = block // (slice_parts * row_parts) * self.batch_share
        piece = block // row_parts % slice_parts * self.slice_share
        row = block % row_parts * self.row_share
        return Share(
            batch,
            min(self.batch_share, planes.batch - batch),
            piece,
            min(self.slice_share, planes.slices - piece),
            row,
            min(self.row_share, planes.rows - row),
        )

    @property
    def _parts(self) -> tuple[int, int, int]:
        planes = self.planes
        return (
            ceil(planes.batch / self.batch_share),
            ceil(planes.slices / self.slice_share),
            ceil(planes.rows / self.row_share),
        )


def cut_batch(planes: Planes, cores: int) -> Cut:
    """Each core some batches."""
    return Cut(planes, ceil(planes.batch / cores), planes.slices, planes.rows)


def cut_slices(planes: Planes, cores: int) -> Cut:
    """Each core some channel slices."""
    return Cut(planes, planes.batch, ceil(planes.slices / cores), planes.rows)


def cut_rows(planes: Planes, cores: int) -> Cut:
    """Each core one batch, or a part of its rows where there are more cores than batches."""
    parts = max(1, cores // planes.batch)
    share = ceil(planes.rows / parts)
    return Cut(planes, ceil(planes.batch / cores), planes.slices, share)


def cut_height(planes: Planes, parts: int) -> Cut:
    """Each core a part of the height of all batches."""
    width = planes.rows // planes.height
    return Cut(planes, planes.batch, planes.slices, ceil(planes.height / parts) * width)
