"""What a core does with one box: each sample adds its share of a gradient to four neighbours.

Sample rows go one by one, samples two by two; vector instructions cover the 16 channels of a slice
and repeat over slices. The variants differ in what they gather in UB before an atomic store.
Source: CANN 8.1.RC1 tbe/impl/dynamic/roi_align_grad.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from npusim.ascendc import Core, GlobalTensor, LocalTensor, Scalar, TBuf, TPosition, TQue
from npusim.ops.roi_align_v2_backward.tiling import BATCH, POINTS, Tiling, Variant, longest_row
from npusim.values.dtypes import FLOAT
from npusim.values.formats import C0

if TYPE_CHECKING:
    from npusim.ascendc.gm_slices import Place
    from npusim.ascendc.loops import Index, IndexArray, LoopIndex
    from npusim.ops.roi_align_v2_backward.geometry import Axis, Boxes, Geometry, Line
    from npusim.ops.roi_align_v2_backward.schedule import Group

_HOST_BYTES = 1 << 21  # of one operand that the host computes at once

Places = tuple[tuple["Place", int], ...]


@dataclass(frozen=True, slots=True)
class Box:
    """One box, or many alike: where its gradients begin, image and axes in scalars, the group."""

    grad: Places
    image: Scalar
    x: Line
    y: Line
    group: Group


@dataclass(frozen=True, slots=True)
class Batch:
    """Sample rows (`per_bin` in each of `bins` bins) and columns whose geometry is in UB."""

    box: Box
    rows: Axis
    first_bin: Index
    bins: int
    per_bin: int
    columns: Axis
    count: int


@dataclass(frozen=True, slots=True)
class Row:
    """One sample row of a pass of slices.

    `up` and `down` are the neighbouring rows of the map, counted from `base`; `weights` belong to
    the four neighbours of each column; `loaded` is the row of gradients, where one is in UB.
    """

    batch: Batch
    slices: int
    grad: Places
    map: Places
    weights: tuple[LocalTensor, ...]
    base: Scalar
    up: Scalar
    down: Scalar
    loaded: LocalTensor | None


class Accumulation:
    """Buffers of the second half of the kernel, and the instructions that use them."""

    def __init__(
        self, core: Core, geometry: Geometry, tiling: Tiling, grad: GlobalTensor, map_: GlobalTensor
    ) -> None:
        self.core, self.geometry, self.tiling = core, geometry, tiling
        self.grad, self.map = grad, map_
        self.grad_step = tiling.bins_y * tiling.bins_x * C0  # from slice to slice, in elements
        self.map_step = tiling.height * tiling.width * C0
        pass_bytes = tiling.slices_per_pass * C0 * FLOAT.itemsize
        self.weight_bufs = [TBuf(f"weight{point}") for point in range(POINTS)]
        self.product_bufs = [TBuf(f"product{point}") for point in range(POINTS)]
        for buffer in self.weight_bufs:
            core.pipe.init_buffer(buffer, 1, BATCH * FLOAT.itemsize)
        for buffer in self.product_bufs:
            core.pipe.init_buffer(buffer, 1, pass_bytes)
        single = tiling.variant is Variant.SINGLE
        self.grad_que = TQue(TPosition.VECIN, 2 if single else 1, "gradients")
        columns = 1 if single else tiling.bins_x
        core.pipe.init_buffer(self.grad_que, self.grad_que.depth, pass_bytes * columns)
        if tiling.variant is Variant.SUM_ROW:
            self.row_que = TQue(TPosition.VECOUT, 1, "row")
            longest = longest_row(tiling.width, tiling.width, tiling.height)
            core.pipe.init_buffer(self.row_que, 1, pass_bytes * longest)
            return
        self.window_ques = [TQue(TPosition.VECOUT, 1, name) for name in ("ping", "pong")]
        for queue in self.window_ques:
            core.pipe.init_buffer(queue, 1, pass_bytes * POINTS)

    def add(self, boxes: Boxes, group: Group, box: Index, slot: IndexArray | int) -> None:
        """Spread the gradients of one box; `slot` is its place among `boxes` in UB.

        The columns' geometry stays in UB while rows go on, where one batch holds all columns.
        """
        core, tiling, geometry = self.core, self.tiling, self.geometry
        image = core.get_value(boxes.image, slot)
        x, y = (geometry.line(boxes, axis, slot) for axis in (0, 1))
        core.scalar_alu("first and last slice, image in range", 8)
        if not group.samples_y:
            return
        found = Box(((box, tiling.slices * self.grad_step),), image, x, y, group)
        columns = None
        if group.columns <= BATCH:
            columns = geometry.axis("x", x, core.counter(0), group.columns)
        for first_bin, bins, start, per_bin in self._row_batches(group.samples_y):
            first = core.counter(first_bin * group.samples_y) + core.counter(start)
            rows = geometry.axis("y", y, first, bins * per_bin)
            for axis, count in self._column_batches(found, columns):
                core.wait_vector()
                self._batch(Batch(found, rows, first_bin, bins, per_bin, axis, count))

    def at_once(self, group: Group, rows: int | None = None) -> int:
        """How many iterations of `rows` sample rows (a whole box) the host computes at once."""
        tiling = self.tiling
        wide = (group.columns + 1) // 2
        if tiling.variant is Variant.SUM_ROW:
            wide = max(
                wide, longest_row(min(group.columns, tiling.width), tiling.width, tiling.height)
            )
        each = min(group.slices, tiling.slices_per_pass) * C0 * FLOAT.itemsize * wide
        each *= group.samples_y * tiling.bins_y if rows is None else rows
        return max(1, _HOST_BYTES // max(1, each * self.core.stack_size(0, self.core.depth)))

    def _row_batches(self, samples: int) -> Iterator[tuple[Index, int, Index, int]]:
        """At most 128 sample rows each: (first bin, bins, first sample in the bin, samples)."""
        together = BATCH // samples
        if together:
            for first, bins in _cut(self.core, self.tiling.bins_y, together):
                yield first, bins, 0, samples
            return
        for first in self.core.loop(self.tiling.bins_y, sequential=True):
            for start, count in _cut(self.core, samples, BATCH):
                yield first, 1, start, count

    def _column_batches(self, box: Box, columns: Axis | None) -> Iterator[tuple[Axis, int]]:
        """Batches of at most 128 sample columns and their number."""
        if columns is not None:
            yield columns, box.group.columns
            return
        for first, count in _cut(self.core, box.group.columns, BATCH):
            yield self.geometry.axis("x", box.x, self.core.counter(first), count), count

    def _batch(self, batch: Batch) -> None:
        """All slices and rows of a batch; gradients stay in UB while the rows are in their bin."""
        core, tiling, box = self.core, self.tiling, batch.box
        group, pooled_row = box.group, tiling.bins_x * C0
        for start, slices in _cut(core, group.slices, tiling.slices_per_pass):
            slice_ = (group.first_slice, start)
            map_: Places = ((box.image, tiling.slices * self.map_step),)
            map_ += tuple((index, self.map_step) for index in slice_)
            for bin_ in core.loop(batch.bins, at_once=self.at_once(group, batch.per_bin)):
                grad = box.grad + tuple((index, self.grad_step) for index in slice_)
                grad += ((batch.first_bin, pooled_row), (bin_, pooled_row))
                loaded = None
                if tiling.variant is not Variant.SINGLE:
                    loaded = self._load(grad, slices, tiling.bins_x)
                for turn in core.loop(batch.per_bin, at_once=self.at_once(group, 1)):
                    self._row(batch, bin_, turn, slices, grad, map_, loaded)
                if loaded is not None:
                    self.grad_que.free_tensor(loaded)

    def _load(self, places: Places, slices: int, columns: int) -> LocalTensor:
        shape = (slices, columns, C0)
        return self.grad_que.copy_in(self.grad.window(places, shape, (self.grad_step, C0, 1)))

    def _row(
        self,
        batch: Batch,
        bin_: LoopIndex,
        turn: LoopIndex,
        slices: int,
        grad: Places,
        map_: Places,
        loaded: LocalTensor | None,
    ) -> None:
        """Weights of one sample row, then its samples."""
        core, rows, columns = self.core, batch.rows, batch.columns

        def read(tensor: LocalTensor) -> Scalar:
            return core.get_value(tensor.view(batch.bins, batch.per_bin)[bin_, turn])

        near, far, low, high, base = map(
            read, (rows.near, rows.far, rows.low, rows.high, rows.base)
        )
        read(rows.bins)  # the row of gradients that belongs to it
        pairs = ((columns.near, near), (columns.far, near), (columns.near, far), (columns.far, far))
        weights = tuple(
            core.muls(buffer.get(FLOAT, batch.count), column, row)
            for buffer, (column, row) in zip(self.weight_bufs, pairs, strict=True)
        )
        core.wait_vector()
        pitch = (
            self.tiling.width if self.tiling.variant is Variant.SUM_ROW else self.tiling.window[1]
        )
        up, down = (low - base) * pitch, (high - base) * pitch
        row = Row(batch, slices, grad, map_, weights, base, up, down, loaded)
        if self.tiling.variant is Variant.SUM_ROW:
            self._sum_row(row)
        else:
            self._windows(row)

    def _sum_row(self, row: Row) -> None:
        """Gather all samples of a row in one or two rows of the map, and store those at once."""
        core, tiling, columns = self.core, self.tiling, row.batch.columns
        ends = [
            core.get_value(tensor, place)
            for tensor in (columns.low, columns.high)
            for place in (0, row.batch.count - 1)
        ]
        first = core.scalar_min(ends[0], ends[1])
        reach = core.scalar_max(ends[2], ends[3]) - first
        span = row.batch.box.group.span
        if core.numerics:
            span = int(np.max(reach.values(reach.depth))) + 1
        left = core.scalar_min(first, tiling.width - span)
        length = longest_row(span, tiling.width, tiling.height)
        gathered = self.row_que.alloc_tensor(FLOAT, row.slices, length, C0)
        core.duplicate(gathered, 0.0)
        for pair in self._pairs(row.batch.count):
            for column in pair:
                self._sample(row, column, gathered, left)
                if tiling.step_is_long(length):
                    core.scalar_loop(row.slices)
        self.row_que.enque(gathered)
        self._store(row, 0, left, self.row_que.deque(gathered))
        self.row_que.free_tensor(gathered)

    def _windows(self, row: Row) -> None:
        """Store the four neighbours of each sample by themselves, from two buffers in turn."""
        core, (height, width) = self.core, self.tiling.window
        for pair in self._pairs(row.batch.count):
            windows = [
                core.duplicate(queue.alloc_tensor(FLOAT, row.slices, height * width, C0), 0.0)
                for queue, _ in zip(self.window_ques, pair, strict=False)
            ]
            for column, queue, window in zip(pair, self.window_ques, windows, strict=False):
                left = core.get_value(row.batch.columns.base[column])
                self._sample(row, column, window, left)
                queue.enque(window)
                queue.deque(window)
                for line in range(height):
                    part = window[:, line * width : (line + 1) * width]
                    self._store(row, line, left, part)
                queue.free_tensor(window)

    def _pairs(self, count: int) -> Iterator[tuple[LoopIndex | int, ...]]:
        """The columns of a row two by two, and the last one alone if it is left over."""
        for pair in self.core.loop(count // 2, at_once=max(1, count // 2)):
            self.core.scalar_loop()
            yield pair * 2, pair * 2 + 1
        if count % 2:
            yield (count - 1,)

    def _sample(self, row: Row, column: LoopIndex | int, target: LocalTensor, left: Scalar) -> None:
        """Four products of one gradient with its weights, added to the four neighbours in UB."""
        core, columns = self.core, row.batch.columns
        low, high = (
            core.get_value(tensor[column]) - left for tensor in (columns.low, columns.high)
        )
        bin_ = core.get_value(columns.bins[column])
        loaded = row.loaded
        if loaded is None:
            loaded = self._load((*row.grad, (bin_, C0)), row.slices, 1)
            gradient = loaded[:, 0]
        else:
            gradient = core.at(loaded, bin_)
        places = (row.up + low, row.up + high, row.down + low, row.down + high)
        weights = [core.get_value(weight[column]) for weight in row.weights]
        core.scalar_alu("addresses", 2 * POINTS)
        products = [
            core.muls(buffer.get(FLOAT, row.slices, C0), gradient, weight)
            for buffer, weight in zip(self.product_bufs, weights, strict=True)
        ]
        if row.loaded is None:
            self.grad_que.free_tensor(loaded)
        for product, place in zip(products, places, strict=True):
            core.add_at(target, place, product)

    def _store(self, row: Row, line: int, left: Scalar, part: LocalTensor) -> None:
        """Add a row of UB to the map, one run per slice."""
        core, width = self.core, self.tiling.width
        places = (*row.map, (row.base, width * C0), (line, width * C0), (left, C0))
        core.data_copy(self.map.window(places, part.shape, (self.map_step, C0, 1)), part)
        if self.tiling.gap_is_long:
            core.scalar_loop(row.slices)


def _cut(core: Core, length: int, longest: int) -> Iterator[tuple[Index, int]]:
    """(first, number) of parts of at most `longest`; a single part without a loop around it."""
    if length <= longest:
        yield 0, length
    else:
        yield from core.tiles(0, length, longest, sequential=True)
