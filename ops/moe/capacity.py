"""MoeInitRouting with as many rows for each expert: what is too much is dropped, the rest zeros.

Sorted pairs are counted by the scalar unit, which stores the place of each that still finds room,
one by one; a place without a pair gets a row of zeros by the core that comes by. Source:
ops-transformer moe/moe_init_routing_v2, moe_v2_src_to_dst_with_capacity and host tiling.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.ascendc import Core, TBuf, TPosition, TQue
from npusim.ascendc.events import Event
from npusim.ascendc.loops import values_of
from npusim.engine.program import Pipe
from npusim.ops.moe.init_routing import TURNED_TILE, MoeInitRouting, found
from npusim.schedules.bounds import fault_outside
from npusim.values.dtypes import FLOAT16, INT8, INT32

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from numpy.typing import NDArray

    from npusim.engine.program import Barrier

_MOST_ZEROS = 8192  # columns of a row that are stored at once


class MoeInitRoutingPadded(MoeInitRouting):
    """rows[e, r] = the r-th token of expert e, places[i] = e * capacity + r, or -1 where r is more.

    ``experts_room`` are the experts and what each has room for.
    """

    is_padded = True

    def __init__(self, *given: Any, experts_room: tuple[int, int], **more: Any) -> None:
        super().__init__(*given, **more)
        self.count, self.room = experts_room

    def block_kind(self, block_idx: int) -> Hashable:
        zeros = np.array_split(self._empty(), self.block_dim)[block_idx]
        return super().block_kind(block_idx), zeros.size

    def process(self, core: Core) -> Iterator[Barrier]:
        """Sort, clear the places, count, find places and fill up with zeros, copy."""
        block = core.get_block_idx()
        fault_outside(core, self.op_type, self.experts, self.count)
        yield from self._sort(core)
        core.pipe.reset()
        self._clear(core, *self._own(block))
        self._count(core)
        yield core.sync_all()
        core.pipe.reset()
        self._turn_around(core, *self._own(block))
        self._fill_up(core)
        yield core.sync_all()
        core.pipe.reset()
        self._gather(core)

    def _places(self, *, in_memory: bool = True) -> NDArray[np.int64] | None:
        del in_memory  # places are in the order of pairs
        order, numbers = self._order(), self._ranked()
        if order is None or numbers is None:
            return None
        places = np.empty_like(numbers)
        places[order] = numbers
        return places

    def _ranked(self) -> NDArray[np.int64] | None:
        """The place of each sorted pair."""
        experts = self._order(sort=True)
        if experts is None:
            return None
        ranks = np.arange(experts.size) - np.searchsorted(experts, experts)
        return np.where(ranks < self.room, experts.astype(np.int64) * self.room + ranks, -1)

    def _clear(self, core: Core, first: int, count: int) -> None:
        """No pair has a place yet."""
        out = TQue(TPosition.VECOUT, 1, "none")
        core.pipe.init_buffer(out, 1, TURNED_TILE * INT32.itemsize)
        for start, length in core.tiles(first, count, TURNED_TILE):
            tile = core.duplicate(out.alloc_tensor(INT32, length), -1)
            out.copy_out(self.out.places.view(self.pairs).span(start, length), tile)

    def _turn_around(self, core: Core, first: int, count: int) -> None:
        """The place of each pair, stored by itself; the scalar unit waits until it is."""
        ins, outs = TQue(TPosition.VECIN, 1, "pairs"), TQue(TPosition.VECOUT, 1, "places")
        core.pipe.init_buffer(ins, 1, 2 * TURNED_TILE * INT32.itemsize)
        core.pipe.init_buffer(outs, 1, TURNED_TILE * core.block_bytes)
        target, order, numbers = self.out.places.view(self.pairs), self._order(), self._ranked()
        stored = None
        if order is not None and numbers is not None:
            stored = np.where(numbers < 0, -self.pairs, order)  # before the tensor: nowhere
        done = Event(core, Pipe.MTE3, Pipe.SCALAR)
        for start, length in core.tiles(first, count, TURNED_TILE):
            pairs = ins.copy_in(self.lists[0].span(start, 2 * length))
            places = outs.alloc_tensor(INT32, length, 1)
            core.wrote(places)
            if core.numerics and numbers is not None:
                ranks = values_of(start)[:, None] + np.arange(length)
                places.target(core.depth)[..., 0] = numbers[ranks].reshape(
                    (1,) * (core.depth - 1) + ranks.shape
                )
            outs.enque(places)
            places = outs.deque(places)
            for row in core.loop(length):
                core.emit_scalar("ld_ub", loads=2, operations=3, stores=1)
                place = found(core, stored, core.counter(start) + core.counter(row))
                core.copy_runs(target.window(((place, 1),), (1,), (1,)).skipping(), places[row])
                done.set()
                done.wait()
            ins.free_tensor(pairs)
            outs.free_tensor(places)

    def _fill_up(self, core: Core) -> None:
        """Rows of zeros where no pair is, dealt out as evenly as pairs are."""
        own = np.array_split(self._empty(), self.block_dim)[core.get_block_idx()]
        kind = self.rows.dtype
        out = TQue(TPosition.VECOUT, 1, "zeros")
        columns = min(self.width, _MOST_ZEROS)
        core.pipe.init_buffer(out, 1, columns * kind.itemsize)
        zeros = out.alloc_tensor(kind, columns)
        if kind is INT8:
            halves = TBuf("halves")
            core.pipe.init_buffer(halves, 1, columns * FLOAT16.itemsize)
            core.cast(zeros, core.duplicate(halves.get(FLOAT16, columns), 0.0))
        else:
            core.duplicate(zeros, 0)
        out.enque(zeros)
        zeros = out.deque(zeros)
        done = Event(core, Pipe.MTE3, Pipe.SCALAR)
        for turn in core.loop(own.size):
            place = found(core, own, core.counter(turn))
            for column, length in core.tiles(0, self.width, columns):
                row = ((place, self.width), (column, 1))
                core.copy_runs(self.rows.window(row, (length,), (1,)), zeros[:length])
                done.set()
                done.wait()
        out.free_tensor(zeros)

    def _empty(self) -> NDArray[np.int64]:
        """The places that no pair has; without data, all experts have as many pairs."""
        experts = self.experts.array
        if experts is None:
            pairs = np.full(self.count, self.pairs // self.count)
            pairs[: self.pairs % self.count] += 1
        else:
            pairs = np.bincount(experts.reshape(-1), minlength=self.count)
        ranks = np.arange(self.room)
        return np.flatnonzero((ranks >= pairs[: self.count, None]).reshape(-1))
