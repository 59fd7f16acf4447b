"""Attention of one token a head, multiplied by the vector unit.

A product of one row would fill a sixteenth of the cube. Keys come to UB some rows at a time; each
row is multiplied with the query 16 elements after the other, four rows a repeat, and what is left
of it is added up. Values are multiplied with the weight of their row, added onto as many rows as
fit, and these onto each other. Source: ops-transformer incre_flash_attention, the kernel for
vector units alone (allvec_new).
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

import numpy as np

from npusim.ascendc import TBuf, TPosition, TQue
from npusim.ascendc.events import Event
from npusim.ascendc.intrinsics.vector import CmpMode
from npusim.ascendc.rounding import RoundMode
from npusim.engine.program import Pipe
from npusim.ops.attention.softmax import FLOOR, HIDDEN, TINY
from npusim.values.dtypes import FLOAT, FLOAT16, UINT8

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from numpy.typing import NDArray

    from npusim.ascendc import Core, LocalTensor
    from npusim.ascendc.cluster import CoreWait
    from npusim.engine.program import Barrier
    from npusim.ops.attention.call import Call
    from npusim.ops.attention.steps import Job

    Numbers = NDArray[Any]
    Steps = Iterator[Barrier | CoreWait]

TOKEN_KEYS = 8192  # of a round
_TILE_BYTES = 1 << 15  # of keys, of values, and of what these are multiplied into
_LANES = 16  # elements of a row that are multiplied at a time; copies of a weight
_BLOCK = 8  # numbers in float32 that a block of 32 bytes has
_REPEAT = 64  # and an instruction takes at a time
_MOST_ROWS = 512  # of values: 32 bytes for the weight of each
_FACTOR = 2  # the place of what sums before are multiplied with


class SingleTokens:
    """The rounds of one core, of up to so many keys."""

    def __init__(self, core: Core, call: Call, keys: int) -> None:
        self._core, self._call = core, call
        columns, wide, pipe = call.columns, call.value.columns, core.pipe
        room = min(_TILE_BYTES, core.capacity_bytes("UB") // 6) // FLOAT16.itemsize
        self._key_rows, self._value_rows = (
            max(_LANES, min(_MOST_ROWS, room // each) // _LANES * _LANES)
            for each in (columns, wide)
        )
        self._ins, self._out = TQue(TPosition.VECIN, 2, "in"), TQue(TPosition.VECOUT, 1, "out")
        self._mask, self._query = TQue(TPosition.VECIN, 1, "mask"), TBuf("query")
        self._scores, self._work, self._spread = TBuf("scores"), TBuf("work"), TBuf("spread")
        tile = max(self._key_rows * columns, self._value_rows * wide) * FLOAT16.itemsize
        self._sums = max(1, tile // (wide * FLOAT.itemsize))  # rows that products are added onto
        pipe.init_buffer(self._ins, 2, tile)
        pipe.init_buffer(self._work, 1, tile)
        pipe.init_buffer(self._spread, 1, self._value_rows * _LANES * FLOAT16.itemsize)
        pipe.init_buffer(self._scores, 1, keys * FLOAT.itemsize)
        pipe.init_buffer(self._query, 1, columns * FLOAT16.itemsize)
        pipe.init_buffer(self._out, 1, wide * FLOAT16.itemsize)
        if call.mask.tensor is not None:
            pipe.init_buffer(self._mask, 1, keys)
        rows, numbers = TBuf("rows"), TBuf("numbers")
        pipe.init_buffer(rows, 2, wide * FLOAT.itemsize)
        pipe.init_buffer(numbers, 5, FLOAT.itemsize)
        self._total, self._new = (rows.get(FLOAT, 1, wide, part=part) for part in range(2))
        self._numbers = [numbers.get(FLOAT, 1, part=part) for part in range(5)]
        self._row = self._query.get(FLOAT16, 1, columns)
        self._loaded = Event(core, Pipe.MTE2, Pipe.VECTOR)

    def begin(self, job: Job) -> Steps:
        """Scores into weights."""
        core, call = self._core, self._call
        scores = self._scores.get(FLOAT, 1, job.keys)
        if job.first or not core.numerics:
            self._row = self._query.get(FLOAT16, 1, call.columns)
        query = self._row
        if job.first:
            core.copy_runs(query, call.queries(call.query, job).block(0, 1, 0, call.columns))
            self._loaded.set()
            self._loaded.wait()
        keys = call.keys(call.key, job)
        for first in range(0, job.keys, self._key_rows):
            count = min(self._key_rows, job.keys - first)
            tile = self._ins.copy_in(keys.block(first, count, 0, call.columns))
            self._score(scores[:, first : first + count], query, tile)
            self._ins.free_tensor(tile)
        core.muls(scores, scores, call.scale)
        if job.edges:
            self._hide(job, scores)
        self._weigh(scores, first=job.first)
        yield from ()

    def finish(self, job: Job) -> Steps:
        """Add up values; after the last ones, divide by the sum of weights."""
        core, call, wide = self._core, self._call, self._call.value.columns
        weights = self._scores.get(FLOAT, 1, job.keys)
        halves = core.cast(self._scores.get(FLOAT16, 1, job.keys, part="halves"), weights)
        new, values = self._new, call.keys(call.value, job)
        core.duplicate(self._work.get(FLOAT, self._sums, wide), 0.0)
        core.duplicate(new, 0.0)
        for first in range(0, job.keys, self._value_rows):
            count = min(self._value_rows, job.keys - first)
            tile = self._ins.copy_in(values.block(first, count, 0, wide))
            self._weighted(new, halves[:, first : first + count], tile)
            self._ins.free_tensor(tile)
        rows = self._sums
        while rows > 1:
            rows //= 2
            core.record_vector("vadd", new, rows * wide)
        total, factor = self._total, self._numbers[_FACTOR]
        if job.first:
            core.copy(total, new)
        else:
            core.muls(total, total, core.get_value(factor))
            core.add(total, total, new)
        if job.last:
            self._store(job)
        yield from ()

    def _score(self, scores: LocalTensor, query: LocalTensor, keys: LocalTensor) -> None:
        """Keys times the query."""
        core, (rows, columns) = self._core, keys.shape
        core.record_vector("vector_dup", scores, rows * _LANES)
        for _ in range(columns // _LANES):
            core.record_vector("vmla", scores, rows * _LANES)
        core.record_vector("vadd", scores, _BLOCK, rows=rows)
        core.record_vector("vcgadd", scores, rows * _BLOCK)
        core.arrange(scores, query, keys, how=_products)

    def _weigh(self, x: LocalTensor, *, first: bool) -> None:
        """Scores into weights; their maximum and sum are kept."""
        core, (largest, total, factor, found, lower) = self._core, self._numbers
        core.reduce_max(found, x)
        core.maxs(found, found, FLOOR)
        if not first:
            core.max(found, found, largest)
            core.sub(factor, largest, found)
            core.exp(factor, factor)
        core.copy(largest, found)
        core.muls(lower, largest, -1.0)
        core.adds(x, x, core.get_value(lower))
        core.exp(x, x)
        core.reduce_sum(found, x)
        if first:
            core.copy(total, found)
        else:
            core.mul(total, total, factor)
            core.add(total, total, found)

    def _hide(self, job: Job, scores: LocalTensor) -> None:
        """Put scores that the mask hides out of reach."""
        core, shape = self._core, scores.shape
        edge, *_ = self._call.mask.read(job.edges[0], job.spot, 0, *shape)
        mask = self._mask.copy_in(edge.window)
        half = core.cast(self._work.get(FLOAT16, *shape, part="mask"), mask)
        self._mask.free_tensor(mask)
        kept = self._work.get(UINT8, *shape, part="kept")
        core.compare(kept, half, 0.0, CmpMode.NE if edge.inverted else CmpMode.EQ)
        core.select(scores, kept, scores, HIDDEN)

    def _weighted(self, new: LocalTensor, weights: LocalTensor, values: LocalTensor) -> None:
        """Values times the weights of their rows, each of which fills a block."""
        core, (rows, wide) = self._core, values.shape
        spread = self._spread.get(FLOAT16, rows, _LANES)
        spread.check_write()
        for _ in range(_LANES):
            core.move_bursts(spread, weights, 1, ceil(rows / _LANES))
        core.turn_lines(spread, spread, ceil(rows / _LANES))
        core.arrange(spread, weights, how=_in_blocks)
        for first in range(0, wide, _REPEAT):
            core.record_vector("vmla", new, min(_REPEAT, wide - first), rows=rows)
        core.arrange(new, new, spread, values, how=_added)

    def _store(self, job: Job) -> None:
        """What was added up by the sum of weights."""
        core, out, (_, total, _, found, _) = self._core, self._call.out, self._numbers
        core.maxs(found, total, TINY)
        core.duplicate(self._new, 1.0)
        core.muls(self._new, self._new, core.get_value(found))
        core.div(self._total, self._total, self._new)
        tile = self._out.alloc_tensor(FLOAT16, 1, out.columns)
        core.cast(tile, self._total, RoundMode.CAST_RINT)
        target = self._call.queries(out, job).block(0, 1, 0, out.columns)
        self._out.copy_out(target, tile)


def _products(query: Numbers, keys: Numbers) -> Numbers:
    found: Numbers = np.matmul(query.astype(np.float32), keys.astype(np.float32).swapaxes(-1, -2))
    return found


def _in_blocks(weights: Numbers) -> Numbers:
    return np.repeat(weights.swapaxes(-1, -2), _LANES, -1)


def _added(sums: Numbers, weights: Numbers, values: Numbers) -> Numbers:
    row = weights[..., :1].swapaxes(-1, -2).astype(np.float32)
    found: Numbers = sums + np.matmul(row, values.astype(np.float32))
    return found
