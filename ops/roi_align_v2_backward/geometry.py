"""Where samples lie and what they weigh: vector work on up to 128 boxes, rows or columns at once.

Arithmetic is the kernel's, in float32, but with true divisions where the device multiplies by a
reciprocal: those give one sample more for a few sizes of boxes. Source: CANN 8.1.RC1
tbe/impl/dynamic/roi_align_grad.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from npusim.ascendc import (
    CmpMode,
    Core,
    GmSlice,
    LocalTensor,
    RoundMode,
    Scalar,
    TBuf,
    TPosition,
    TQue,
)
from npusim.engine.program import Pipe
from npusim.ops.roi_align_v2_backward.tiling import BATCH, Tiling
from npusim.values.dtypes import FLOAT, INT32, UINT8, DType

if TYPE_CHECKING:
    from npusim.ascendc.loops import IndexArray
    from npusim.ops.roi_align_v2_backward.schedule import Attributes

_BOX = 5  # image id, x1, y1, x2, y2


@dataclass(frozen=True, slots=True)
class Boxes:
    """Up to 128 boxes in UB: corners on the map, steps between samples, samples per bin, image.

    Rows of `steps`, `counts` and `whole_counts` are x, then y.
    """

    corners: LocalTensor
    steps: LocalTensor
    counts: LocalTensor
    whole_counts: LocalTensor
    image: LocalTensor


@dataclass(frozen=True, slots=True)
class Line:
    """One axis of one box as the scalar unit knows it."""

    start: Scalar
    step: Scalar
    count: Scalar
    inverse: Scalar


@dataclass(frozen=True, slots=True)
class Axis:
    """Up to 128 sample rows or columns: neighbours, their weights, the bin that each belongs to.

    `base` is where a window of two neighbours begins so that it stays on the map.
    """

    low: LocalTensor
    high: LocalTensor
    base: LocalTensor
    near: LocalTensor
    far: LocalTensor
    bins: LocalTensor


class Geometry:
    """Buffers and constants for the geometry, and the instructions that fill them."""

    def __init__(self, core: Core, tiling: Tiling, attributes: Attributes) -> None:
        self.core, self.tiling, self.attributes = core, tiling, attributes
        self.raw_que = TQue(TPosition.VECIN, 1, "boxes", consumer=Pipe.SCALAR)
        core.pipe.init_buffer(self.raw_que, 1, BATCH * _BOX * FLOAT.itemsize)
        self.rows = self._reserve("corners", _BOX)
        self.pairs = {
            name: self._reserve(name, 2)
            for name in ("size", "bins", "steps", "counts", "whole_counts", "coordinates")
        }
        self.image = self._reserve("image")
        self.lanes = self._reserve("lanes").get(FLOAT, BATCH)
        names = ("position", "low", "high", "base", "near", "far", "bin")
        self.axes = {
            axis: {name: self._reserve(f"{axis}_{name}") for name in names} for axis in "xy"
        }
        self.masks = [self._reserve(name) for name in ("below", "above")]
        self.constants: dict[tuple[DType, float], LocalTensor] = {}

    def prepare(self) -> None:
        """What stays the same for all boxes: constants, and the numbers of the lanes."""
        core, tiling = self.core, self.tiling
        for number in (0, 1, -1, *(n for e in (tiling.width, tiling.height) for n in (e, e - 1))):
            self._constant(FLOAT, number)
        self._constant(INT32, 1)
        for extent in (tiling.width, tiling.height):
            self._constant(INT32, extent - 1)
            self._constant(INT32, max(0, extent - 2))
        for row, bins in enumerate((tiling.bins_x, tiling.bins_y)):
            core.duplicate(self._pair("bins")[row], float(bins))
        if self.attributes.ratio:
            core.duplicate(self._pair("counts"), float(self.attributes.ratio))
            core.cast(self._pair("whole_counts", INT32), self._pair("counts"))
        core.count_up(self.lanes)

    def load_boxes(self, boxes: GmSlice, count: int) -> Boxes:
        """Load `count` boxes, turn them into rows with scalar moves, and work out their steps."""
        core, attributes = self.core, self.attributes
        raw = self.raw_que.copy_in(boxes)
        rows = core.turn_by_scalar(self.rows.get(FLOAT, _BOX, BATCH), raw.view(count, _BOX))
        self.raw_que.free_tensor(raw)
        corners = rows[1:]
        core.muls(corners, corners, attributes.scale)
        if attributes.aligned:
            core.adds(corners, corners, -0.5)
        size, steps, counts = (self._pair(name) for name in ("size", "steps", "counts"))
        whole = self._pair("whole_counts", INT32)
        core.sub(size, corners[2:], corners[:2])
        if not attributes.aligned:
            core.maxs(size, size, 1.0)
        core.div(steps, size, self._pair("bins"))
        if attributes.ratio:
            core.muls(steps, steps, 1.0 / attributes.ratio)
        else:
            core.cast(whole, steps, RoundMode.CAST_CEIL)
            core.cast(counts, whole)
            core.div(steps, steps, counts)
        image = self.image.get(INT32, BATCH)
        core.cast(image, rows[0], RoundMode.CAST_FLOOR)
        return Boxes(corners, steps, counts, whole, image)

    def line(self, boxes: Boxes, axis: int, slot: IndexArray | int) -> Line:
        """Read one axis (0 is x, 1 is y) of one box into scalars."""
        core = self.core
        start = core.get_value(boxes.corners[axis], slot)
        step = core.get_value(boxes.steps[axis], slot)
        core.get_value(boxes.whole_counts[axis], slot)  # the bound of the loop over samples
        count = core.get_value(boxes.counts[axis], slot)
        return Line(start, step, count, 1.0 / count)

    def axis(self, name: str, line: Line, first: Scalar, count: int) -> Axis:
        """`count` samples of a box from number `first` on, along `name` ("x" or "y")."""
        core, buffers = self.core, self.axes[name]
        extent = self.tiling.width if name == "x" else self.tiling.height
        place, spare = (self.pairs[key].get(FLOAT, count) for key in ("coordinates", "size"))
        position, near, far = (
            buffers[key].get(FLOAT, count) for key in ("position", "near", "far")
        )
        low, high, base, bins = (
            buffers[key].get(INT32, count) for key in ("low", "high", "base", "bin")
        )
        lanes = self.lanes[:count]
        core.adds(spare, lanes, first)
        core.duplicate(place, line.count)
        core.div(spare, spare, place)
        core.cast(bins, spare, RoundMode.CAST_FLOOR)
        core.adds(place, lanes, first + 0.5)
        core.muls(place, place, line.step)
        core.adds(place, place, line.start)
        core.max(position, place, self._constant(FLOAT, 0))
        core.cast(low, position, RoundMode.CAST_FLOOR)
        core.add(high, low, self._constant(INT32, 1))
        core.max(high, high, low)
        core.min(low, low, self._constant(INT32, extent - 1))
        core.min(high, high, self._constant(INT32, extent - 1))
        core.min(base, low, self._constant(INT32, max(0, extent - 2)))
        core.min(position, position, self._constant(FLOAT, extent - 1))
        core.cast(spare, low)
        core.sub(far, position, spare)
        core.sub(near, self._constant(FLOAT, 1), far)
        self._clear_outside(place, extent, (near, far))
        for weight in (near, far):
            core.muls(weight, weight, line.inverse)
        return Axis(low, high, base, near, far, bins)

    def _clear_outside(
        self, place: LocalTensor, extent: int, weights: tuple[LocalTensor, ...]
    ) -> None:
        """Samples below -1 or beyond the far edge weigh nothing; those on these limits count."""
        core, zero = self.core, self._constant(FLOAT, 0)
        below, above = (mask.get(UINT8, *place.shape) for mask in self.masks)
        core.compare(below, place, self._constant(FLOAT, -1), CmpMode.LT)
        core.compare(above, place, self._constant(FLOAT, extent), CmpMode.GT)
        for weight in weights:
            for mask in (below, above):
                core.select(weight, mask, zero, weight)

    def _constant(self, dtype: DType, number: float) -> LocalTensor:
        """A block that holds one number; filled when first asked for."""
        found = self.constants.get((dtype, number))
        if found is None:
            buffer = TBuf(f"constant_{dtype.intrinsic}_{number:g}")
            self.core.pipe.init_buffer(buffer, 1, self.core.block_bytes)
            found = self.constants[dtype, number] = buffer.get(dtype, 1)
            self.core.duplicate(found, number)
        return found

    def _pair(self, name: str, dtype: DType = FLOAT) -> LocalTensor:
        return self.pairs[name].get(dtype, 2, BATCH)

    def _reserve(self, name: str, rows: int = 1) -> TBuf:
        buffer = TBuf(name)
        self.core.pipe.init_buffer(buffer, 1, rows * BATCH * FLOAT.itemsize)
        return buffer
