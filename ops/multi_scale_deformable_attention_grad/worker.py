"""What one core does in MultiScaleDeformableAttentionGrad: the same code is timed and computed.

One task handles a block of queries of one (batch, head, level, point). Coordinates are vector work
on the block, each query is scalar control: a point with all four cells in the map costs four loads,
21 vector instructions and four atomic stores; a point at the border takes its cells one at a time;
a point outside costs scalars only. Source: CANN 8.1.RC1
ascendc/multi_scale_deformable_attention_grad and hicann/ops-nn vfusion, same operator.

To time a task it is recorded with a block of queries and the number of points of each kind; to
compute, with a block of one query, for many points of one kind at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from npusim.ascendc import (
    Core,
    GlobalTensor,
    GmSlice,
    IndexArray,
    LocalTensor,
    LoopIndex,
    RoundMode,
    Scalar,
)
from npusim.ascendc.events import Event
from npusim.engine.program import Pipe
from npusim.ops.multi_scale_deformable_attention_grad.points import INTERIOR
from npusim.ops.multi_scale_deformable_attention_grad.tiles import Buffers, Place, Point, Sums, Tile
from npusim.values.dtypes import FLOAT, INT32

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.ops.multi_scale_deformable_attention_grad.loads import Load
    from npusim.ops.multi_scale_deformable_attention_grad.problem import Problem

_UPPER_LEFT, _UPPER = 0b0001, 0b0011  # what stands for points with one corner and with two
_AT_ONCE = 1 << 17  # channels of points computed at once


class Worker:
    """One core's buffers and events, and the work on them."""

    def __init__(self, kernel: Problem, core: Core) -> None:
        self.kernel, self.core = kernel, core
        self.channels = kernel.sizes.channels
        self.buffers = Buffers(core, kernel.tiling)
        # Named after what has happened: setter, then waiter.
        self.loaded = Event(core, Pipe.MTE2, Pipe.VECTOR)
        self.scattered = Event(core, Pipe.VECTOR, Pipe.MTE3)
        self.queries_done = Event(core, Pipe.VECTOR, Pipe.MTE2, set_before=True)
        self.adds_done = Event(core, Pipe.MTE3, Pipe.VECTOR, set_before=True)
        self.summed = Event(core, Pipe.VECTOR, Pipe.MTE3)
        self.sums_stored = Event(core, Pipe.MTE3, Pipe.VECTOR, set_before=True)
        self.maps_read = Event(core, Pipe.MTE2, Pipe.SCALAR)

    def clear(self) -> None:
        """Zeros into one of the outputs, by one core alone."""
        core, output = self.core, self.kernel.to_clear(self.core.get_block_idx())
        if output is None:
            return
        longest = min(output.numel, 8 * self.kernel.tiling.buffer_queries * self.channels)
        zeros = core.duplicate(self.buffers.scratch.get(FLOAT, longest), 0.0)
        self.summed.set()
        self.summed.wait()
        for first, length in core.tiles(0, output.numel, longest):
            core.data_copy_pad(output.span(first, length), zeros[:length])

    def read_maps(self) -> None:
        """Bring the maps' sizes and first keys into UB."""
        core, levels = self.core, self.kernel.sizes.levels
        self.shapes = self.buffers.shapes.get(INT32, 2 * levels)
        self.starts = self.buffers.starts.get(INT32, levels)
        core.data_copy_pad(self.shapes, self.kernel.shapes.span(0, 2 * levels))
        core.data_copy_pad(self.starts, self.kernel.starts.span(0, levels))
        self.maps_read.set()
        self.maps_read.wait()

    def schedule(self, load: Load) -> None:
        """Write down the tasks of a core."""
        step = self.kernel.tiling.queries_per_task
        for part in load.parts:
            for task in self.core.loop(part.tasks):
                first = task * step
                place = Place(0, first, first, first * self.kernel.sizes.heads, 0)
                # One case of corners stands for all with as many.
                cases = zip((INTERIOR, _UPPER, _UPPER_LEFT, 0), part.mix, strict=True)
                self.task(place, part.queries, list(cases))

    def follow(self, tasks: range, corners: NDArray[np.uint8]) -> None:
        """The tasks of a core themselves, each query with the corners that it has."""
        tiling, total = self.kernel.tiling, self.kernel.sizes.queries
        for task in tasks:
            plane, block = divmod(task, tiling.blocks)
            query = block * tiling.queries_per_task
            first = plane * total + query
            queries = min(tiling.queries_per_task, total - query)
            for turn in self.core.loop(1):
                cases = [(case, 1) for case in corners[first : first + queries].tolist()]
                self.task(self._place(np.array([first]), turn.depth), queries, cases)

    def compute(self, points: range, corners: NDArray[np.uint8]) -> None:
        """Compute the points of a core, those with the same corners together."""
        mine = corners[points.start : points.stop]
        for case in np.unique(mine).tolist():
            chosen = points.start + np.flatnonzero(mine == case)
            for turn in self.core.loop(len(chosen), at_once=max(1, _AT_ONCE // self.channels)):
                place = self._place(chosen[turn.first : turn.last], turn.depth)
                self.task(place, 1, [(case, 1)])

    def _place(self, point: NDArray[np.int64], depth: int) -> Place:
        sizes = self.kernel.sizes
        plane, query = np.divmod(point, sizes.queries)
        maps, level = np.divmod(plane // sizes.points, sizes.levels)
        batch, head = np.divmod(maps, sizes.heads)

        def index(values: NDArray[np.int64]) -> IndexArray:
            return IndexArray(depth, values, ())

        row = (batch * sizes.queries + query) * sizes.heads + head
        key = batch * sizes.keys * sizes.heads + head
        x = plane * 2 * sizes.queries + query
        return Place(index(level), index(point), index(x), index(row), index(key))

    def task(self, place: Place, queries: int, cases: list[tuple[int, int]]) -> None:
        """A block of ``queries`` queries; ``cases`` are corners and how many points have them."""
        tile = self._begin(place, queries)
        self.adds_done.wait()
        self.core.set_atomic_add(self.kernel.survey.sharers)
        first = 0
        for case, count in cases:
            for query in self.core.loop(count):
                self._query(tile, query + first, case)
            first += count
        self.core.set_atomic_none()
        self.adds_done.set()
        self.queries_done.set()
        self._end(tile)

    def _begin(self, place: Place, queries: int) -> Tile:
        """Scalars of the task, loads, and the coordinates of all its points."""
        core, kernel, channels = self.core, self.kernel, self.channels
        height, width, first_key, step = self._scalars(place)
        self.queries_done.wait()
        sums = self._clear_scratch(queries)
        at = self.buffers.words("at", 2, queries)
        size = (core.to_float(width), core.to_float(height))
        for axis, name in enumerate(("x", "y")):
            given = self.buffers.words(name, queries)
            core.data_copy_pad(
                given, kernel.location.span(place.x + axis * kernel.sizes.queries, queries)
            )
            self.loaded.set()
            self.loaded.wait()
            core.muls(at[axis], given, size[axis])
        weight = self.buffers.words("weight", queries)
        core.data_copy_pad(weight, kernel.weight.span(place.point, queries))
        rows = self.buffers.rows.get(FLOAT, queries, channels)
        for query in core.loop(queries):
            source = ((place.row, channels), (query, kernel.sizes.heads * channels))
            core.data_copy_pad(rows[query], kernel.grad_output.window(source, (channels,), (1,)))
        self.loaded.set()
        cell, inside_cell, product = self._coordinates(at, queries)
        self.loaded.wait()
        return Tile(
            queries,
            place,
            size,
            first_key,
            step,
            at,
            cell,
            inside_cell,
            product,
            weight,
            rows,
            sums,
        )

    def _scalars(self, place: Place) -> tuple[Scalar, Scalar, Scalar, Scalar]:
        """Height and width of the map, the row of its first key, rows from a line to the next."""
        core, heads = self.core, self.kernel.sizes.heads
        core.scalar_alu("next_task", 8)
        first_key = core.get_value(self.starts, place.level) * heads
        height = core.get_value(self.shapes, place.level * 2)
        width = core.get_value(self.shapes, place.level * 2 + 1)
        core.scalar_alu("offsets", 16)
        return height, width, first_key, width * heads

    def _coordinates(
        self, at: LocalTensor, queries: int
    ) -> tuple[LocalTensor, LocalTensor, LocalTensor]:
        """The upper left cells, the distances from them, and the products of both distances."""
        core = self.core
        core.adds(at, at, -0.5)
        cell = self.buffers.words("cell", 2, queries, dtype=INT32)
        core.cast(cell, at, RoundMode.CAST_FLOOR)
        cell_float = core.cast(self.buffers.words("cell_float", 2, queries), cell)
        inside_cell = core.sub(self.buffers.words("inside_cell", 2, queries), at, cell_float)
        product = core.mul(self.buffers.words("product", queries), inside_cell[1], inside_cell[0])
        return cell, inside_cell, product

    def _clear_scratch(self, queries: int) -> Sums:
        """One instruction clears all of the scratch; the numbers need it of the sums alone."""
        core = self.core
        words = 8 * self.kernel.tiling.buffer_queries * self.channels
        core.record_vector("vector_dup", self.buffers.scratch.get(FLOAT, words), words)
        names = ("by_x", "by_y", "weighted", "by_weight")
        tiles = [
            self.buffers.scratch.get(FLOAT, queries, self.channels, part=name) for name in names
        ]
        for tile in tiles:
            core.wrote(tile)
            if core.numerics:
                tile.target(core.depth)[...] = 0.0
        return Sums(*tiles)

    def _query(self, tile: Tile, query: LoopIndex, case: int) -> None:
        """One sampling point with the corners of ``case``."""
        core = self.core
        # Scalar reads of UB are guarded by a wait for the vector unit, so points don't overlap.
        core.wait_vector()
        core.get_value(tile.at[1][query])
        core.get_value(tile.at[0][query])
        core.scalar_alu("compare", 4)
        core.scalar_loop()
        if not case:
            return
        point = self._point(tile, query)
        if case == INTERIOR:
            self._interior(tile, query, point)
        else:
            self._border(tile, query, point, case)

    def _point(self, tile: Tile, query: LoopIndex) -> Point:
        """Read a point's scalars, and work out weights and addresses of its cells."""
        core, heads = self.core, self.kernel.sizes.heads
        left, top = (core.get_value(tile.cell[axis][query]) for axis in (0, 1))
        right, down = (core.get_value(tile.inside_cell[axis][query]) for axis in (0, 1))
        attention = core.get_value(tile.weight[query])
        both = core.get_value(tile.product[query])
        upper_left = both + 1.0 - down - right
        shares = (upper_left, right - both, down - both, both)
        first = tile.first_key + top * tile.step + left * heads
        below = first + tile.step
        core.scalar_alu("compare", 4)
        core.scalar_alu("address", 8)
        cells = (first, first + heads, below, below + heads)
        return Point(right, down, attention, shares, cells)

    def _interior(self, tile: Tile, query: LoopIndex, point: Point) -> None:
        """All four cells at a time."""
        core, sums = self.core, tile.sums
        cells = [self._load_cell(tile, point, number) for number in range(4)]
        self.loaded.set()
        self._weigh(tile, query, point)
        adds = [self._to_add(sums.weighted[query], point, number) for number in range(4)]
        self.scattered.set()
        self.loaded.wait()
        shared = [
            core.muls(
                self.buffers.shared[number].get(FLOAT, self.channels), cell, point.shares[number]
            )
            for number, cell in enumerate(cells)
        ]
        by_x, by_y = sums.by_x[query], sums.by_y[query]
        cross, more = (buffer.get(FLOAT, self.channels) for buffer in self.buffers.temporaries)
        core.sub(by_y, cells[2], cells[0])
        core.sub(cross, cells[3], cells[1])
        core.sub(by_x, cells[1], cells[0])
        core.sub(cross, cross, by_y)
        core.muls(more, cross, point.down)
        core.muls(cross, cross, point.right)
        core.add(by_x, by_x, more)
        core.add(by_y, by_y, cross)
        self._sum_shares(tile, query, shared)
        self.scattered.wait()
        for number, add in enumerate(adds):
            self._add_cell(tile, point, number, add)

    def _border(self, tile: Tile, query: LoopIndex, point: Point, case: int) -> None:
        """The cells that lie in the map, one after the other."""
        core = self.core
        shared = [buffer.get(FLOAT, self.channels) for buffer in self.buffers.shared]
        for share in shared:
            core.duplicate(share, 0.0)
        left, up = 1.0 - point.right, 1.0 - point.down
        self._weigh(tile, query, point)
        for number in range(4):
            if case >> number & 1:
                down, across = divmod(number, 2)
                distances = (point.down if down else up, point.right if across else left)
                self._border_cell(tile, query, point, number, shared[number], distances)
        self._sum_shares(tile, query, shared)

    def _border_cell(
        self,
        tile: Tile,
        query: LoopIndex,
        point: Point,
        number: int,
        share: LocalTensor,
        distances: tuple[Scalar, Scalar],
    ) -> None:
        """One cell: its gradient, its share in the weight's, and its part of the slopes."""
        core, sums = self.core, tile.sums
        down, across = divmod(number, 2)
        cell = self._load_cell(tile, point, number)
        self.loaded.set()
        add = self._to_add(sums.weighted[query], point, number)
        self.scattered.set()
        self.loaded.wait()
        core.muls(share, cell, point.shares[number])
        along_y, along_x = (buffer.get(FLOAT, self.channels) for buffer in self.buffers.temporaries)
        core.muls(along_y, cell, distances[1])
        core.muls(along_x, cell, distances[0])
        by_x, by_y = sums.by_x[query], sums.by_y[query]
        (core.add if down else core.sub)(by_y, by_y, along_y)
        (core.add if across else core.sub)(by_x, by_x, along_x)
        self.scattered.wait()
        self._add_cell(tile, point, number, add)

    def _weigh(self, tile: Tile, query: LoopIndex, point: Point) -> None:
        """The arriving gradient times the attention weight."""
        self.core.muls(tile.sums.weighted[query], tile.rows[query], point.attention)

    def _to_add(self, weighted: LocalTensor, point: Point, number: int) -> LocalTensor:
        """What a cell's gradient grows by."""
        add = self.buffers.adds[number].get(FLOAT, self.channels)
        return self.core.muls(add, weighted, point.shares[number])

    def _sum_shares(self, tile: Tile, query: LoopIndex, shared: list[LocalTensor]) -> None:
        """The value at the point, times the arriving gradient."""
        core = self.core
        core.add(shared[0], shared[0], shared[1])
        core.add(shared[2], shared[2], shared[3])
        core.add(shared[0], shared[0], shared[2])
        core.mul(tile.sums.by_weight[query], tile.rows[query], shared[0])

    def _load_cell(self, tile: Tile, point: Point, number: int) -> LocalTensor:
        cell = self.buffers.scratch.get(FLOAT, self.channels, part=number)
        self.core.data_copy_pad(cell, self._cell(self.kernel.value, tile, point, number))
        return cell

    def _add_cell(self, tile: Tile, point: Point, number: int, add: LocalTensor) -> None:
        self.core.data_copy_pad(self._cell(self.kernel.grad_value, tile, point, number), add)

    def _cell(self, tensor: GlobalTensor, tile: Tile, point: Point, number: int) -> GmSlice:
        """The channels of a cell in value or in its gradient."""
        places = ((tile.place.key, self.channels), (point.cells[number], self.channels))
        return tensor.window(places, (self.channels,), (1,))

    def _end(self, tile: Tile) -> None:
        """Sum over the channels and store the three gradients of the block's points."""
        core, sums, kernel, place = self.core, tile.sums, self.kernel, tile.place
        slopes = (sums.by_x, sums.by_y)
        for slope in slopes:
            core.mul(slope, sums.weighted, slope)
        for slope, size in zip(slopes, tile.size, strict=True):
            core.muls(slope, slope, size)
        self.sums_stored.wait()
        stores = (
            ("sum_weight", sums.by_weight, kernel.grad_weight, place.point),
            ("sum_x", sums.by_x, kernel.grad_location, place.x),
            ("sum_y", sums.by_y, kernel.grad_location, place.x + kernel.sizes.queries),
        )
        summed = []
        for name, source, _, _ in stores:
            summed.append(core.reduce_sum(self.buffers.words(name, tile.queries), source))
            self.summed.set()
        for total, (_, _, target, first) in zip(summed, stores, strict=True):
            self.summed.wait()
            core.data_copy_pad(target.span(first, tile.queries), total)
        self.sums_stored.set()
