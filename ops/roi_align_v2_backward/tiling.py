"""How ROIAlignGrad shares its work: items over cores, slices per pass, and which variant runs.

A work item is one box and one slice of 16 channels; items are numbered box by box. What the host
decides follows from shapes alone. Source: CANN 8.1.RC1 tbe/impl/dynamic/roi_align_grad.py; the
thresholds between the variants are in a binary, so they are modelled by what fits.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from npusim.ascendc.intrinsics.copy import MOST_BLOCKS
from npusim.values.dtypes import FLOAT
from npusim.values.formats import C0

if TYPE_CHECKING:
    from npusim.hardware.profile import Profile

BATCH = 128  # boxes, sample rows or sample columns that one vector instruction covers
RESERVED_BYTES = 30 * 1024  # of UB, for everything but gradients
POINTS = 4  # neighbours of a sample

_LONGEST_STEP_BLOCKS = 255  # a vector instruction counts those between two repeats in 8 bits


class Variant(IntEnum):
    """What is gathered in UB; the numbers are the vendor's tiling keys."""

    SUM_ROW = 11100  # a row of gradients in, a whole row (or two) of the feature map out
    LOAD_ROW = 11000  # a row of gradients in, the four neighbours of each sample out
    SINGLE = 10000  # one gradient in and four neighbours out per sample


class Share(NamedTuple):
    """Some boxes of one core and their slices: all of them, but for a core's first and last box."""

    first_box: int
    boxes: int
    first_slice: int
    slices: int


@dataclass(frozen=True, slots=True)
class Tiling:
    """Sizes of the call, and what the host makes of them.

    Shapes: gradients [boxes, slices, bins_y, bins_x, 16], map [images, slices, height, width, 16].
    """

    boxes: int
    slices: int
    bins_y: int
    bins_x: int
    images: int
    height: int
    width: int
    block_dim: int
    variant: Variant
    slices_per_pass: int
    slice_blocks: int  # blocks of a slice at one place of the map
    line_columns: int  # columns of the map in a line of L2, which cores write one after the other

    @classmethod
    def of(
        cls, profile: Profile, grad_shape: tuple[int, ...], map_shape: tuple[int, ...]
    ) -> Tiling:
        """The tiling for one chip."""
        boxes, slices, bins_y, bins_x, _ = grad_shape
        images, _, height, width, _ = map_shape
        room = (profile.buffers.ub_bytes - RESERVED_BYTES) // (C0 * FLOAT.itemsize)
        row = longest_row(width, width, height)
        if slices * (bins_x + row + POINTS) <= room:
            variant, per_pass = Variant.SUM_ROW, slices
        elif bins_x + 3 * POINTS <= room:  # a row, the products, and two windows of four points
            variant, per_pass = Variant.LOAD_ROW, room // (bins_x + 3 * POINTS)
        else:
            variant, per_pass = Variant.SINGLE, max(1, room // (2 + 3 * POINTS))
        return cls(
            boxes,
            slices,
            bins_y,
            bins_x,
            images,
            height,
            width,
            min(profile.cores.vector_cores, boxes * slices),
            variant,
            min(slices, per_pass),
            C0 * FLOAT.itemsize // profile.buffers.block_bytes,
            profile.memory.l2_line_bytes // (C0 * FLOAT.itemsize),
        )

    def shares(self, block: int) -> tuple[Share, ...]:
        """The boxes of a core: the rest of one box, whole boxes, the beginning of another.

        All cores have equally many items, but the first takes what is left over as well.
        """
        each, left = divmod(self.boxes * self.slices, self.block_dim)
        start = block * each + left if block else 0
        stop = start + each + (0 if block else left)
        (box, skipped), (last, more) = divmod(start, self.slices), divmod(stop, self.slices)
        if box == last:
            return (Share(box, 1, skipped, more - skipped),)
        found = []
        if skipped:
            found.append(Share(box, 1, skipped, self.slices - skipped))
            box += 1
        if last > box:
            found.append(Share(box, last - box, 0, self.slices))
        if more:
            found.append(Share(last, 1, 0, more))
        return tuple(found)

    @property
    def sums_rows(self) -> bool:
        """True when whole rows of the map are gathered in UB."""
        return self.variant is Variant.SUM_ROW

    @property
    def window(self) -> tuple[int, int]:
        """Rows and columns of the neighbours of a sample: two each, where the map has two."""
        return min(2, self.height), min(2, self.width)

    def lines_per_store(self, span: int) -> float:
        """Lines of L2 that one store covers in each slice."""
        if self.variant is not Variant.SUM_ROW:
            return 1.0
        return max(1.0, longest_row(span, self.width, self.height) / self.line_columns)

    @property
    def gap_is_long(self) -> bool:
        """True when one copy can't step from slice to slice of the map, so a loop does it."""
        return self.height * self.width * self.slice_blocks > MOST_BLOCKS

    def step_is_long(self, row: int) -> bool:
        """True when one vector instruction can't step from slice to slice of rows this long."""
        return row * self.slice_blocks > _LONGEST_STEP_BLOCKS


def longest_row(span: int, width: int, height: int) -> int:
    """Columns that `span` touched ones take in UB: two rows lie as in the map, one width apart."""
    return span + (width if height > 1 else 0)
