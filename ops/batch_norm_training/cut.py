"""How the planes of an NC1HWC0 tensor are dealt out to cores.

Schedules for one shape split the channel slices, the batch or the rows, each by a rule of its own.
Split into as many parts as there are cores, an axis takes a block for each of them, and those that
ceil(size / cores) leaves without work end at once.
Source: public tensor compiler, schedules of bn_reduce, bn_update_grad, bn_update, bn_grad_reduce.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod
from typing import TYPE_CHECKING

from npusim.schedules.block_split import block_split
from npusim.values.arithmetic import greatest_divisor
from npusim.values.errors import KernelError
from npusim.values.formats import Format

if TYPE_CHECKING:
    from npusim.ascendc import GlobalTensor, GmSlice
    from npusim.ascendc.loops import Index

_LEAST_BYTES = 1024  # of data that a block is worth starting for


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
        """The planes of ``x``; raises KernelError for a shape that can't be NC1HWC0.

        Volumes in NDC1HWC0 are their slices, image by image.
        """
        if len(x.shape) < 4:
            raise KernelError(op_type, f"{x.shape} is no shape of NC1HWC0")
        if x.format is Format.NDC1HWC0:
            x = x.view(x.shape[0] * x.shape[1], *x.shape[2:])
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


_IDLE = Share(0, 0, 0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Cut:
    """Equal shares (the last ones smaller) of batches, slices and rows.

    At least ``launched`` blocks; those without a share have nothing to do.
    """

    planes: Planes
    batch_share: int
    slice_share: int
    row_share: int
    launched: int = 0

    @property
    def block_dim(self) -> int:
        """Number of blocks."""
        return max(self.launched, self.shares)

    @property
    def shares(self) -> int:
        """Number of blocks with work."""
        return prod(self._parts)

    @property
    def splits_sums(self) -> bool:
        """True where several blocks work on the same channels."""
        return self._parts[0] * self._parts[2] > 1

    def share(self, block: int) -> Share:
        """The part of a block."""
        _, slice_parts, row_parts = self._parts
        if block >= self.shares:
            return _IDLE
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


def lines_of_tile(lines: int, fitting: int, *, exact: bool) -> int:
    """How many of a plane's lines a tile has, where ``fitting`` fit.

    As many as divide them; unless ``exact``, as many as fit where that is less than half.
    """
    nearest = greatest_divisor(lines, fitting)
    return nearest if exact or fitting < 2 * nearest else fitting


def cut_batch(planes: Planes, parts: int, launched: int = 0) -> Cut:
    """The batch in ``parts``."""
    return Cut(planes, ceil(planes.batch / parts), planes.slices, planes.rows, launched)


def cut_slices(planes: Planes, parts: int, launched: int = 0) -> Cut:
    """The channel slices in ``parts``."""
    return Cut(planes, planes.batch, ceil(planes.slices / parts), planes.rows, launched)


def cut_height(planes: Planes, parts: int, *, batches: int) -> Cut:
    """The height in ``parts``, and ``batches`` batches for each block."""
    width = planes.rows // planes.height
    return Cut(planes, batches, planes.slices, ceil(planes.height / parts) * width)


def cut_leading(planes: Planes, itemsize: int, cores: int, *, slices: bool, exact: bool) -> Cut:
    """The axis that makes enough blocks of batches, slices (if ``slices``), height and width.

    ``exact`` schedules split it into parts, so that a first axis takes a block for every part.
    """
    width = planes.rows // planes.height
    sizes = [planes.batch, planes.slices if slices else 1, planes.height, width]
    split = block_split((*sizes, planes.lanes), itemsize, cores, _LEAST_BYTES)
    axis = min(split.axis, len(sizes) - 1)  # lanes stay together
    share, launched = split.length if axis == split.axis else 1, 0
    if axis == split.axis and split.before == 1:
        share = split.length if exact else sizes[axis] // split.parts
        launched = split.parts if exact else 0
    slice_share = share if axis == 1 else 1 if slices and axis > 1 else planes.slices
    row_share = (planes.rows, planes.rows, share * width, share)[axis]
    return Cut(planes, share if axis == 0 else 1, slice_share, row_share, launched)
