"""The vector cores' side of an indexer: scores weighed, sorted, and merged into the best.

The numbers are found by the host; what is written down are groups of 32 that are sorted, and lists
that are merged. Source: ops-transformer attention/lightning_indexer, device schedule (arch22).
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from npusim.ascendc import TBuf, TPosition, TQue
from npusim.ascendc.rounding import RoundMode
from npusim.engine.program import Pipe
from npusim.library.sorted_pairs import GROUP, LISTS, record_sort
from npusim.ops.attention.indexer_dealing import KEYS, QUERIES
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import FLOAT, INT32

if TYPE_CHECKING:
    from collections.abc import Iterator

    from npusim.ascendc import Core, GlobalTensor, LocalTensor
    from npusim.ascendc.cluster import CoreWait
    from npusim.ascendc.loops import Index
    from npusim.engine.program import Barrier
    from npusim.ops.attention.indexer_dealing import Part, Row, Turn
    from npusim.ops.attention.lengths import Lengths

    Steps = Iterator[Barrier | CoreWait]

BEST: Final = 2048  # keys that are kept, of which the first ones are asked for
SLOTS = 2  # of scores in workspace
THERE, FREE = 0, 1  # flags: scores are there, their slot is free
_HEADS = 16  # weighed at a time
NONE: Final = -1  # the place of no key


class Indexed(Protocol):
    """The kernel whose keys are sorted."""

    weights: GlobalTensor
    scores: GlobalTensor
    left: GlobalTensor
    places: GlobalTensor
    values: GlobalTensor | None
    lengths: Lengths
    heads: int
    count: int
    causal: bool

    def slot(self, core: Core, number: Index) -> tuple[tuple[Index, int], ...]: ...


class Best:
    """A vector core's side: half of the queries of each block, and the best keys of each."""

    def __init__(self, core: Core, kernel: Indexed) -> None:
        self.core, self._kernel = core, kernel
        size = FLOAT.itemsize
        self._ins, self._given = TQue(TPosition.VECIN, 2, "scores"), TQue(TPosition.VECIN, 2, "w")
        self._outs = TQue(TPosition.VECOUT, 1, "out")
        names = ("sums", "best", "row", "wide")
        self._bufs = {name: TBuf(name) for name in names}
        init = core.pipe.init_buffer
        init(self._ins, 2, _HEADS * KEYS * size)
        init(self._given, 2, _HEADS * size)
        init(self._outs, 1, 2 * BEST * size)
        init(self._bufs["sums"], 1, _HEADS * KEYS * size)
        init(self._bufs["best"], QUERIES // 2, 2 * BEST * size)
        init(self._bufs["row"], 1, KEYS * size)
        init(self._bufs["wide"], 1, _HEADS * size)

    def begin(self) -> Steps:
        """Both slots are free."""
        for _ in range(SLOTS):
            self.core.cross_core_set_flag(FREE, Pipe.MTE2)
        yield from ()

    def end(self) -> Steps:
        yield from ()

    def _mine(self, count: int) -> range:
        """This core's queries of a block."""
        half = ceil(count / 2)
        return range(half, count) if self.core.get_sub_block_idx() else range(half)

    def block(self, part: Part, block: int, turn: Turn, number: Index) -> Steps:
        """Query by query: weighed, sorted, merged."""
        core = self.core
        yield core.cross_core_wait_flag(THERE)
        for place, query in enumerate(self._mine(turn.queries)):
            if block == part.first:
                self._forget(place)
            scores = self._weighed(part, query, turn, number)
            self._merge(part, block, turn, place, scores, query)
            if turn.out == "whole":
                self._store(self._best_of(place), self._row_of(part.row, query))
            elif turn.out:
                where = (core.get_block_idx() * 2 + (part.first == 0)) * QUERIES + query
                target = self._kernel.left.view(self._kernel.left.numel)
                tile = self._best_of(place)
                core.copy_runs(target.span(where * 2 * BEST, 2 * BEST), tile.view(2 * BEST))
        core.cross_core_set_flag(FREE, Pipe.MTE2)

    def _best_of(self, place: int) -> LocalTensor:
        return self._bufs["best"].get(FLOAT, 2, BEST, part=place)

    def _forget(self, place: int) -> None:
        core, best = self.core, self._best_of(place)
        core.duplicate(best, -np.inf)
        core.record_vector("vector_dup", best, BEST)
        if core.numerics:
            best.target(core.depth)[..., 1, :] = NONE

    def _weighed(self, part: Part, query: int, turn: Turn, number: Index) -> LocalTensor:
        """Heads' scores of 512 keys, weighed and added up."""
        core, kernel = self.core, self._kernel
        heads, wide = kernel.heads, round_up(turn.keys, 8)
        first = int(kernel.lengths.first_queries[part.row.sequence]) + part.row.first + query
        flat, kind = kernel.weights.view(kernel.weights.numel), kernel.weights.dtype
        sums = self._bufs["sums"].get(FLOAT, min(_HEADS, heads), turn.keys)
        for head in range(0, heads, _HEADS):
            count = min(_HEADS, heads - head)
            places = (*kernel.slot(core, number), ((query * heads + head) * wide, 1))
            x = self._ins.copy_in(kernel.scores.window(places, (count, turn.keys), (wide, 1)))
            given = self._given.copy_in(flat.span(first * heads + head, count))
            weight = given
            if kind is not FLOAT:
                weight = core.cast(self._bufs["wide"].get(FLOAT, count), given)
            column = core.broadcast_column(weight)
            if head:
                core.mul(x, x, column)
                core.add(sums[:count], sums[:count], x)
            else:
                core.mul(sums, x, column)
            self._ins.free_tensor(x)
            self._given.free_tensor(given)
        return self._added(sums)

    def _added(self, sums: LocalTensor) -> LocalTensor:
        """All rows of heads in one, halves onto halves."""
        core, rows = self.core, sums.shape[0]
        half = 1 << rows.bit_length() - 1
        if rows > half:
            core.add(sums[: rows - half], sums[: rows - half], sums[half:rows])
        while half > 1:
            half //= 2
            core.add(sums[:half], sums[:half], sums[half : 2 * half])
        row = self._bufs["row"].get(FLOAT, sums.shape[1])
        core.adds(row, sums[0], 0.0)
        return row

    def _merge(
        self, part: Part, block: int, turn: Turn, place: int, scores: LocalTensor, query: int
    ) -> None:
        """Sorted scores with their places into the best."""
        core, best = self.core, self._best_of(place)
        pairs = self._outs.alloc_tensor(FLOAT, 2 * BEST)
        core.record_vector("vector_dup", pairs, KEYS)
        core.record_vector("vadds", pairs, turn.keys)
        record_sort(core, pairs, KEYS)
        if turn.merged:
            if turn.later:
                self._merged(pairs, turn.merged * KEYS if turn.merged > 1 else 0)
                self._merged(pairs, BEST + turn.merged * KEYS)
                core.move_bursts(best, pairs, 1, 2 * BEST * FLOAT.itemsize // core.block_bytes)
            else:
                self._merged(pairs, turn.merged * KEYS)
        core.wrote(best)
        self._outs.free_tensor(pairs, by=Pipe.VECTOR)
        if not core.numerics:
            return
        first = block * KEYS
        seen = part.row.keys
        if self._kernel.causal:
            seen -= part.row.queries - 1 - query
        count = max(0, min(turn.keys, seen - first))
        target = best.target(core.depth)
        found = np.concatenate([target[..., 0, :], scores.values(core.depth)[..., :count]], -1)
        where = np.arange(first, first + count, dtype=np.float32)
        shape = (*found.shape[:-1], count)
        names = np.concatenate([target[..., 1, :], np.broadcast_to(where, shape)], -1)
        order = np.argsort(-found, axis=-1, kind="stable")[..., :BEST]
        for at, numbers in enumerate((found, names)):
            target[..., at, :] = np.take_along_axis(numbers, order, -1)

    def _merged(self, pairs: LocalTensor, count: int) -> None:
        """Sorted lists of so many pairs in all into one."""
        core = self.core
        if not count:
            return
        lanes = core.costs.repeat_elements(FLOAT.itemsize)
        core.scalar_call()
        core.record_vector("vmrgsort4v2", pairs, lanes, rows=ceil(count / (GROUP * LISTS)))

    def _row_of(self, row: Row, query: int) -> int:
        """The row of results that a query has."""
        return int(self._kernel.lengths.first_queries[row.sequence]) + row.first + query

    def _store(self, best: LocalTensor, row: int) -> None:
        """Places of the best, and their scores where these are asked for."""
        core, kernel = self.core, self._kernel
        count = kernel.count
        tile = self._outs.alloc_tensor(INT32, count)
        core.record_vector("vreducev2", tile, 2 * BEST)
        core.record_vector("vreducev2", tile, 2 * BEST)
        if core.numerics:
            tile.target(core.depth)[...] = best.values(core.depth)[..., 1, :count]
        core.wrote(tile)
        flat = kernel.places.view(kernel.places.numel)
        self._outs.copy_out(flat.span(row * count, count), tile)
        if kernel.values is None:
            return
        kept = self._outs.alloc_tensor(kernel.values.dtype, count)
        core.cast(kept, best[0, :count], RoundMode.CAST_ROUND)
        flat = kernel.values.view(kernel.values.numel)
        self._outs.copy_out(flat.span(row * count, count), kept)

    def merge_others(self, others: list[tuple[int, Part]]) -> None:
        """The best of all clusters that have keys of a row, four lists at a time."""
        core, kernel = self.core, self._kernel
        size, row = FLOAT.itemsize, others[0][1].row
        lists, merged = TQue(TPosition.VECIN, 1, "lists"), TBuf("merged")
        self._outs = TQue(TPosition.VECOUT, 1, "out")
        core.pipe.init_buffer(lists, 1, LISTS * 2 * BEST * size)
        core.pipe.init_buffer(merged, 1, LISTS * 2 * BEST * size)
        core.pipe.init_buffer(self._outs, 1, BEST * size)
        flat, own = kernel.left.view(kernel.left.numel), core.get_block_idx()
        heads = [(other, 0) for other, _ in others]
        for query in self._mine(row.queries):
            left = [(own, 1), *heads]
            best = merged.get(FLOAT, 2, BEST)
            first = True
            while left:
                taken, left = left[: LISTS - (not first)], left[LISTS - (not first) :]
                tile = lists.alloc_tensor(FLOAT, len(taken), 2, BEST)
                for at, (cluster, side) in enumerate(taken):
                    core.load_lines(1)
                    where = ((cluster * 2 + side) * QUERIES + query) * 2 * BEST
                    core.copy_runs(tile[at], flat.window(((where, 1),), (2, BEST), (BEST, 1)))
                lists.enque(tile)
                tile = lists.deque(tile)
                self._merged(best, (len(taken) + (not first)) * BEST)
                core.move_bursts(best, best, 1, 2 * BEST * size // core.block_bytes)
                core.wrote(best)
                if core.numerics:
                    self._take(tile, best, fresh=first)
                lists.free_tensor(tile)
                first = False
            self._store(best, self._row_of(row, query))

    def _take(self, tile: LocalTensor, best: LocalTensor, *, fresh: bool) -> None:
        depth = self.core.depth
        given, target = tile.values(depth), best.target(depth)
        found, names = (
            np.concatenate(
                [*([] if fresh else [target[at]]), *(each[at] for each in given)], axis=-1
            )
            for at in range(2)
        )
        order = np.argsort(-found, axis=-1, kind="stable")[:BEST]
        target[0], target[1] = found[order], names[order]
