"""All numbers of rows that are longer than UB, in order, and where they were: Sort.

Cores sort parts of rows as UB holds them, then merge four lists at a time, one core for each
result, through pairs in workspace; when a row is one list, numbers and places are taken apart.
Cores wait for each other in between. Source: the same for pairs of experts in ops-transformer
moe/moe_init_routing_v2.
"""

from __future__ import annotations

from functools import lru_cache
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.ascendc import Core, GlobalTensor, Kernel, TPosition, TQue
from npusim.ascendc.loops import values_of
from npusim.ascendc.task import made
from npusim.library.sorted_pairs import GROUP, LISTS, PAIR_BYTES, merge_lists, record_sort
from npusim.schedules.tile_grid import Grid
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import FLOAT, INT32

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from numpy.typing import NDArray

    from npusim.ascendc.gm_slices import Place
    from npusim.engine.program import Barrier
    from npusim.hardware.profile import Profile


def ordered(values: NDArray[Any], count: int, *, largest: bool) -> NDArray[np.intp]:
    """The places of the first ``count`` numbers along the last axis, equal ones as they come."""
    wide = values.astype(np.int64) if values.dtype.kind in "iub" else values.astype(np.float64)
    return np.argsort(-wide if largest else wide, axis=-1, kind="stable")[..., :count]


class LongSort(Kernel):
    """values, places = the numbers of the rows of x [rows, n] in order."""

    op_type = "Sort"
    hard_sync = True

    def __init__(
        self,
        profile: Profile,
        x: GlobalTensor,
        values: GlobalTensor,
        places: GlobalTensor,
        *,
        largest: bool,
    ) -> None:
        self.rows, self.length = x.shape
        self.x, self.values, self.places, self.largest = x, values, places, largest
        self.reads, self.writes = (x,), (values, places)
        pairs = made((2 * x.numel,), FLOAT, "pairs")
        self.lists = self.scratch = (pairs, made((2 * x.numel,), FLOAT, "merged"))
        cores = profile.cores.vector_cores
        bytes_of_one = x.dtype.itemsize + 2 * PAIR_BYTES
        most = profile.buffers.ub_bytes // bytes_of_one // GROUP * GROUP
        share = ceil(self.length / max(1, cores // self.rows))
        runs = [min(most, round_up(share, GROUP))]
        while runs[-1] < self.length:
            runs.append(runs[-1] * LISTS)
        self.grids = [Grid((self.rows, self.length), (1, run), cores) for run in runs]
        apart = profile.buffers.ub_bytes // (x.dtype.itemsize + INT32.itemsize + PAIR_BYTES)
        tile = min(apart // GROUP * GROUP, round_up(share, GROUP))
        self.out_grid = Grid((self.rows, self.length), (1, tile), cores)
        self.division = self.grids[0]
        self.block_dim = max(self.grids[0].used_cores, self.out_grid.used_cores)

    @property
    def workspace_bytes(self) -> int:
        """Pairs, before and after a merge."""
        return sum(each.nbytes for each in self.scratch)

    def block_kind(self, block_idx: int) -> Hashable:
        return tuple(grid.block_kind(block_idx) for grid in (*self.grids, self.out_grid))

    def process(self, core: Core) -> Iterator[Barrier]:
        """Parts in order, lists merged until there is one of a row, numbers and places."""
        self._sort_parts(core)
        side = 0
        for grid in self.grids[1:]:
            yield core.sync_all()
            core.pipe.reset()
            groups = ((self._at(piece.starts, 2), piece.shape[1]) for piece in grid.pieces(core))
            merge_lists(core, self.lists[side], self.lists[1 - side], groups)
            side = 1 - side
        yield core.sync_all()
        core.pipe.reset()
        self._take_apart(core, self.lists[side])

    def _at(self, starts: tuple[Place, ...], step: int) -> tuple[tuple[Place, int], ...]:
        """Where a stretch of a row begins, of elements that are ``step`` numbers each."""
        row, start = starts
        return ((row, step * self.length), (start, step))

    def _sort_parts(self, core: Core) -> None:
        grid = self.grids[0]
        padded = round_up(grid.extent[1], GROUP)
        ins, outs = TQue(TPosition.VECIN, 1, "row"), TQue(TPosition.VECOUT, 1, "pairs")
        core.pipe.init_buffer(ins, 1, padded * self.x.dtype.itemsize)
        core.pipe.init_buffer(outs, 1, 2 * padded * PAIR_BYTES)
        x, target = self.x.view(self.x.numel), self.lists[0]
        for piece in grid.pieces(core):
            count = piece.shape[1]
            numbers = ins.copy_in(x.window(self._at(piece.starts, 1), (count,), (1,)))
            pairs = outs.alloc_tensor(FLOAT, 2 * count)
            record_sort(core, pairs, count)
            ins.free_tensor(numbers)
            outs.copy_out(target.window(self._at(piece.starts, 2), (2 * count,), (1,)), pairs)

    def _take_apart(self, core: Core, source: GlobalTensor) -> None:
        most = self.out_grid.extent[1]
        ins = TQue(TPosition.VECIN, 1, "pairs")
        out_que, place_que = (TQue(TPosition.VECOUT, 1, name) for name in ("values", "places"))
        core.pipe.init_buffer(ins, 1, most * PAIR_BYTES)
        core.pipe.init_buffer(out_que, 1, most * self.x.dtype.itemsize)
        core.pipe.init_buffer(place_que, 1, most * INT32.itemsize)
        values, places = (each.view(each.numel) for each in (self.values, self.places))
        known = self._sorted() if core.numerics else None
        for piece in self.out_grid.pieces(core):
            count = piece.shape[1]
            pairs = ins.copy_in(source.window(self._at(piece.starts, 2), (2 * count,), (1,)))
            tiles = out_que.alloc_tensor(self.x.dtype, count), place_que.alloc_tensor(INT32, count)
            for tile in tiles:
                core.scalar_call()
                core.record_vector("vreducev2", tile, 2 * count)
            if known is not None:
                row, start = (values_of(each) for each in piece.starts)
                where = start[:, None] + np.arange(count)
                for tile, numbers in zip(tiles, known, strict=True):
                    found = numbers[row[:, None], where]
                    tile.target(core.depth)[...] = found.reshape(tile.target(core.depth).shape)
            ins.free_tensor(pairs)
            to = self._at(piece.starts, 1)
            out_que.copy_out(values.window(to, (count,), (1,)), tiles[0])
            place_que.copy_out(places.window(to, (count,), (1,)), tiles[1])

    def _sorted(self) -> tuple[NDArray[np.generic], NDArray[np.intp]] | None:
        found = self.x.array
        if found is None:
            return None
        return _in_order(found.tobytes(), found.shape, found.dtype.str, largest=self.largest)


@lru_cache(1)  # every core asks for the same rows
def _in_order(
    data: bytes, shape: tuple[int, ...], kind: str, *, largest: bool
) -> tuple[NDArray[np.generic], NDArray[np.intp]]:
    x = np.frombuffer(data, kind).reshape(shape)
    places = ordered(x, x.shape[-1], largest=largest)
    return np.take_along_axis(x, places, -1), places
