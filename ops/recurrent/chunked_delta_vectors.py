"""The vector cores' side of ChunkGatedDeltaRule: half a chunk each, decays and inverses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from npusim.ascendc import RoundMode, TBuf, TPosition, TQue
from npusim.engine.program import Pipe
from npusim.ops.recurrent.chunked_delta_work import (
    ADDED,
    CHUNK,
    DECAYED,
    HEARD,
    INVERSE,
    PRODUCTS,
    READ,
    ROWS,
    TOGETHER,
    VALUES,
    WRITTEN,
)
from npusim.values.dtypes import BFLOAT16, FLOAT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from numpy.typing import NDArray

    from npusim.ascendc import Core, GlobalTensor, GmSlice, LocalTensor
    from npusim.ascendc.cluster import CoreWait
    from npusim.engine.program import Barrier
    from npusim.ops.recurrent.chunked_delta_work import Call, Part, Place

    Steps = Iterator[Barrier | CoreWait]

_HALF = CHUNK // 2
_DOUBLINGS = 6  # additions until 64 numbers are added up


class Halves:
    """One vector core of a cluster: its half of the tokens of a chunk."""

    def __init__(self, core: Core, kernel: Call) -> None:
        self.core, self.of = core, kernel
        self.lane = core.get_sub_block_idx()
        self.own = slice(self.lane * _HALF, (self.lane + 1) * _HALF)

    def begin(self) -> None:
        """Ones below the diagonal, row by row, in workspace."""
        core, mask = self.core, self.of.spaces.mask
        self._reserve(CHUNK * FLOAT.itemsize, {})
        line = core.duplicate(self.outs.alloc_tensor(FLOAT, CHUNK), 0.0)
        self.outs.enque(line)
        self.outs.deque(line)
        first = (core.get_block_idx() * 2 + self.lane) * CHUNK * CHUNK
        for row in core.loop(CHUNK):
            core.emit_scalar("st_ub", stores=1)
            for _ in range(2):
                core.copy_runs(mask.window(((first, 1), (row, CHUNK)), (CHUNK,), (1,)), line)
        self.outs.free_tensor(line)

    def _reserve(self, nbytes: int, buffers: dict[str, tuple[int, int]]) -> None:
        """Two queues of so many bytes, and buffers of so many parts of so many bytes."""
        core = self.core
        core.pipe.reset()
        self.ins, self.outs = TQue(TPosition.VECIN, 1, "in"), TQue(TPosition.VECOUT, 1, "out")
        for queue in (self.ins, self.outs):
            core.pipe.init_buffer(queue, 1, nbytes)
        self.buffers = {name: TBuf(name) for name in buffers}
        for name, (parts, size) in buffers.items():
            core.pipe.init_buffer(self.buffers[name], parts, size)

    def _arrange(
        self, tile: LocalTensor, *sources: LocalTensor, how: Callable[[NDArray[Any]], NDArray[Any]]
    ) -> None:
        """The numbers that the instructions before have made."""
        self.core.arrange(tile, *sources, how=how)
        self.core.wrote(tile)

    # -- chunks alone ------------------------------------------------------------------------------

    def alone(self, part: Part) -> Steps:
        """Rows brought together, decays, inverses, and what products are made of."""
        core, of = self.core, self.of
        line, wide = CHUNK * FLOAT.itemsize, _HALF * max(of.keys, of.values) * FLOAT.itemsize
        self._reserve(max(CHUNK * line, wide), {
            "sums": (TOGETHER, line), "powers": (TOGETHER, line), "betas": (TOGETHER, line // 2),
            "gammas": (TOGETHER, CHUNK * line), "line": (1, line // 2), "wide": (1, wide),
            "product": (1, wide), "attention": (1, _HALF * line), "inverse": (1, _HALF * line),
        })  # fmt: skip
        for places in part.together(core, of.block_dim):
            for slot, place in enumerate(places):
                self._bring(part, slot, place, of.query, of.spaces.own_queries)
                self._bring(part, slot, place, of.key, of.spaces.own_keys)
            core.cross_core_set_flag(ROWS, Pipe.MTE3)
            for slot, place in enumerate(places):
                if of.decay is not None:
                    self._decays(part, slot, place, of.decay)
            for slot, place in enumerate(places):
                self._betas(part, slot, place)
            yield core.cross_core_wait_flag(PRODUCTS)
            for slot, _ in enumerate(places):
                self._inverse(slot)
            core.cross_core_set_flag(INVERSE, Pipe.MTE3)
            for slot, place in enumerate(places):
                self._keys(slot, place)
            core.cross_core_set_flag(DECAYED, Pipe.MTE3)
            for slot, place in enumerate(places):
                self._values(part, slot, place)
            core.cross_core_set_flag(VALUES, Pipe.MTE3)
            for slot, place in enumerate(places):
                self._queries(slot, place)
            yield core.cross_core_wait_flag(HEARD)

    def _mine(self, place: Place) -> int:
        """Tokens of this half."""
        return max(0, min(_HALF, place.tokens - self.lane * _HALF))

    def _slot(self, space: GlobalTensor, slot: int) -> GmSlice:
        """This half of a matrix in the cluster's own workspace."""
        columns = space.shape[-1]
        first = (self.core.get_block_idx() * TOGETHER + slot) * CHUNK + self.lane * _HALF
        return space.window(((first * columns, 1),), (_HALF, columns), (columns, 1))

    def _chunk(self, space: GlobalTensor, place: Place) -> GmSlice:
        """This half of a chunk's matrix in the group's workspace."""
        columns = space.shape[-1]
        places = (
            (place.head, self.of.longest * columns), (place.chunk, CHUNK * columns),
            (self.lane * _HALF * columns, 1),
        )  # fmt: skip
        return space.window(places, (_HALF, columns), (columns, 1))

    def _given(self, tensor: GlobalTensor, part: Part, place: Place, count: int) -> GmSlice:
        """Tokens of this half, of one head, as the call has them."""
        heads = tensor.shape[1]
        columns = tensor.numel // (tensor.shape[0] * heads)
        row, shared = heads * columns, self.of.heads // heads
        places = (
            ((part.first + self.lane * _HALF) * row, 1), (place.chunk, CHUNK * row),
            (place.head if shared == 1 else place.head // shared, columns),
        )  # fmt: skip
        return tensor.window(places, (count, columns), (row, 1))

    def _filled(self, tile: LocalTensor, source: GmSlice | None) -> LocalTensor:
        """Rows of a tile, those that aren't there as nought."""
        core = self.core
        if source is None:
            return core.duplicate(tile, 0.0)
        given = self.ins.copy_in(source)
        count, rows = given.shape[0], tile.shape[0]
        name = "vconv" if given.dtype is not tile.dtype else "vadds"
        core.record_vector(name, tile, given.numel)
        if count < rows:
            core.record_vector("vector_dup", tile, (rows - count) * (tile.numel // rows))

        def padded(values: NDArray[Any]) -> NDArray[Any]:
            found = np.zeros((*values.shape[:-2], rows, values.shape[-1]), tile.dtype.numpy)
            found[..., :count, :] = values
            return found.reshape(*values.shape[:-2], *tile.shape)

        self._arrange(tile, given, how=padded)
        self.ins.free_tensor(given)
        return tile

    def _bring(
        self, part: Part, slot: int, place: Place, tensor: GlobalTensor, space: GlobalTensor
    ) -> None:
        """Rows of a head side by side."""
        mine, columns = self._mine(place), tensor.shape[-1]
        tile = self.outs.alloc_tensor(BFLOAT16, _HALF, columns)
        self._filled(tile, self._given(tensor, part, place, mine) if mine else None)
        self.outs.copy_out(self._slot(space, slot), tile)
        if self.of.decay is None and tensor is self.of.key:
            again = self.outs.alloc_tensor(BFLOAT16, _HALF, columns)
            self._filled(again, self._given(tensor, part, place, mine) if mine else None)
            self.outs.copy_out(self._chunk(self.of.spaces.keys, place), again)

    def _decays(self, part: Part, slot: int, place: Place, decay: GlobalTensor) -> None:
        """Sums of a chunk's decays, their powers, and those of tokens against each other."""
        core, heads = self.core, self.of.heads
        places = ((part.first * heads, 1), (place.chunk, CHUNK * heads), (place.head, 1))
        given = self.ins.copy_in(decay.window(places, (place.tokens, 1), (heads, 1)))
        sums, powers = (
            self.buffers[name].get(FLOAT, CHUNK, part=slot) for name in ("sums", "powers")
        )
        core.record_vector("vgather", sums, place.tokens)
        for _ in range(_DOUBLINGS):
            core.record_vector("vadd", sums, CHUNK)

        def added(values: NDArray[Any]) -> NDArray[Any]:
            found = np.zeros((*values.shape[:-2], CHUNK), np.float32)
            found[..., : place.tokens] = values[..., 0]
            return np.cumsum(found, -1, dtype=np.float32)

        self._arrange(sums, given, how=added)
        self.ins.free_tensor(given)
        core.exp(powers, sums)
        if self.lane == 0:
            tile = core.adds(self.outs.alloc_tensor(FLOAT, CHUNK), sums, 0.0)
            where = ((place.head, self.of.longest), (place.chunk, CHUNK))
            self.outs.copy_out(self.of.spaces.sums.window(where, (CHUNK,), (1,)), tile)
        gammas = self.buffers["gammas"].get(FLOAT, CHUNK, CHUNK, part=slot)
        self._between(gammas, self._mask())
        self._arrange(gammas, sums, how=_decayed(-1))

    def _mask(self) -> GmSlice:
        first = (self.core.get_block_idx() * 2 + self.lane) * CHUNK * CHUNK
        return self.of.spaces.mask.window(((first, 1),), (CHUNK, CHUNK), (CHUNK, 1))

    def _between(self, tile: LocalTensor, mask: GmSlice | None) -> None:
        """What tokens' decays against each other take: spread, subtracted, masked, powers."""
        core, count = self.core, tile.numel
        for _ in range(2):
            core.record_vector("vbrcb", tile, count)
        core.record_vector("vsub", tile, count)
        given = None if mask is None else self.ins.copy_in(mask)
        for name in ("vmul", "vexp", "vmul"):
            core.record_vector(name, tile, count)
        if given is not None:
            self.ins.free_tensor(given)

    def _betas(self, part: Part, slot: int, place: Place) -> None:
        mine = self._mine(place)
        betas = self.buffers["betas"].get(FLOAT, _HALF, part=slot)
        source = self._given(self.of.beta, part, place, mine) if mine else None
        if source is not None:
            self.core.record_vector("vgather", betas, mine)
        self._filled(betas, source)

    def _inverse(self, slot: int) -> None:
        """Blocks on the diagonal inverted, and what is below them with its sign turned."""
        core, of = self.core, self.of
        given = self.ins.copy_in(self._slot(of.spaces.own_products, slot))
        attention = core.cast(self.buffers["attention"].get(FLOAT, _HALF, CHUNK), given)
        self.ins.free_tensor(given)
        betas = self.buffers["betas"].get(FLOAT, _HALF, part=slot)
        core.mul(attention, attention, core.broadcast_column(betas))
        if of.decay is None:
            mask = self.ins.copy_in(self._mask())
            core.record_vector("vmul", attention, attention.numel)
            below = np.tril(np.ones((CHUNK, CHUNK), np.float32), -1)[self.own]
            self._arrange(attention, attention, how=lambda values: values * below)
            self.ins.free_tensor(mask)
        else:
            gammas = self.buffers["gammas"].get(FLOAT, CHUNK, CHUNK, part=slot)
            core.mul(attention, attention, gammas[self.own])
        inverse = core.muls(self.buffers["inverse"].get(FLOAT, _HALF, CHUNK), attention, -1.0)
        core.wait_vector()
        for step in range(1, _HALF):
            rows = _HALF - step
            core.record_vector("vgather", inverse, rows)
            for name in ("vbrcb", "vbrcb", "vmla"):
                core.record_vector(name, inverse, rows * _HALF)
            core.wait_vector()
            core.emit_scalar("st_ub", stores=2)
            core.record_vector("vsub", inverse, _HALF)
        self._arrange(inverse, attention, how=self._inverted)
        tile = self.outs.alloc_tensor(BFLOAT16, _HALF, CHUNK)
        core.cast(tile, inverse, RoundMode.CAST_RINT)
        self.outs.copy_out(self._slot(of.spaces.own_inverse, slot), tile)

    def _inverted(self, values: NDArray[Any]) -> NDArray[Any]:
        found = -values
        block = values[..., self.own].astype(np.float64) + np.eye(_HALF)
        found[..., self.own] = np.linalg.inv(block)
        return found

    def _scaled(self, wide: LocalTensor, line: LocalTensor, target: GmSlice) -> None:
        """Rows times numbers of theirs, in bfloat16."""
        core = self.core
        product = self.buffers["product"].get(FLOAT, *wide.shape)
        core.mul(product, wide, core.broadcast_column(line))
        tile = self.outs.alloc_tensor(BFLOAT16, *wide.shape)
        self.outs.copy_out(target, core.cast(tile, product, RoundMode.CAST_RINT))

    def _wide(self, source: GmSlice) -> LocalTensor:
        given = self.ins.copy_in(source)
        wide = self.core.cast(self.buffers["wide"].get(FLOAT, *given.shape), given)
        self.ins.free_tensor(given)
        return wide

    def _keys(self, slot: int, place: Place) -> None:
        """Keys by their strength and decay, with their sign turned; and as the state has them."""
        core, of, line = self.core, self.of, self.buffers["line"].get(FLOAT, _HALF)
        betas = self.buffers["betas"].get(FLOAT, _HALF, part=slot)
        sums, powers = (
            self.buffers[name].get(FLOAT, CHUNK, part=slot) for name in ("sums", "powers")
        )
        if of.decay is None:
            core.muls(line, betas, -1.0)
        else:
            core.muls(line, core.mul(line, betas, powers[self.own]), -1.0)
        wide = self._wide(self._slot(of.spaces.own_keys, slot))
        self._scaled(wide, line, self._slot(of.spaces.own_decayed, slot))
        if of.decay is None:
            return
        for name in ("vbrcb", "vsub", "vexp"):
            core.record_vector(name, line, _HALF)
        self._arrange(line, sums, how=lambda v: np.exp(v[..., -1:] - v[..., self.own]))
        self._scaled(wide, line, self._chunk(of.spaces.keys, place))

    def _values(self, part: Part, slot: int, place: Place) -> None:
        of, mine = self.of, self._mine(place)
        wide = self.buffers["wide"].get(FLOAT, _HALF, of.values)
        self._filled(wide, self._given(of.value, part, place, mine) if mine else None)
        betas = self.buffers["betas"].get(FLOAT, _HALF, part=slot)
        self._scaled(wide, betas, self._slot(of.spaces.own_values, slot))

    def _queries(self, slot: int, place: Place) -> None:
        core, of = self.core, self.of
        wide = self._wide(self._slot(of.spaces.own_queries, slot))
        core.muls(wide, wide, of.scale)
        target = self._chunk(of.spaces.queries, place)
        if of.decay is not None:
            powers = self.buffers["powers"].get(FLOAT, CHUNK, part=slot)
            self._scaled(wide, powers[self.own], target)
            return
        tile = self.outs.alloc_tensor(BFLOAT16, *wide.shape)
        self.outs.copy_out(target, core.cast(tile, wide, RoundMode.CAST_RINT))

    # -- states, and what chunks hear --------------------------------------------------------------

    def through(self, part: Part) -> Steps:
        """States decayed, by one of the two cores, before the chunk's share is added to them."""
        core, of = self.core, self.of
        whole = of.values * of.keys
        self._reserve(whole * BFLOAT16.itemsize, {
            "wide": (1, whole * FLOAT.itemsize), "line": (1, core.block_bytes),
        })  # fmt: skip
        for place, fresh in part.states(core, of.block_dim):
            places = ((part.sequence * of.heads * whole, 1), (place.head, whole))
            shape, steps = (of.values, of.keys), (of.keys, 1)
            tile = None
            if self.lane == 0:
                old = (of.state if fresh else of.new).window(places, shape, steps)
                tile = self._decayed_state(old, place)
            yield core.cross_core_wait_flag(READ)
            if tile is not None:
                self.outs.copy_out(of.new.window(places, shape, steps), tile)
            core.cross_core_set_flag(WRITTEN, Pipe.MTE3)
            yield core.cross_core_wait_flag(ADDED)

    def _decayed_state(self, old: GmSlice, place: Place) -> LocalTensor:
        core, of = self.core, self.of
        given = self.ins.copy_in(old)
        wide = core.cast(self.buffers["wide"].get(FLOAT, *given.shape), given)
        self.ins.free_tensor(given)
        if of.decay is not None:
            where = ((place.head, of.longest), (place.chunk, CHUNK), (place.tokens - 1, 1))
            last = core.load_scalar(of.spaces.sums.window(where, (), ()))
            line = core.duplicate(self.buffers["line"].get(FLOAT, 1), last)
            core.muls(wide, wide, core.get_value(core.exp(line, line)))
        tile = self.outs.alloc_tensor(BFLOAT16, *wide.shape)
        return core.cast(tile, wide, RoundMode.CAST_RINT)

    def within(self, part: Part) -> Steps:
        """What queries hear of keys before them, by one of the two cores."""
        core, of, block = self.core, self.of, CHUNK * CHUNK * FLOAT.itemsize
        self._reserve(block, {"gammas": (1, block), "wide": (1, block)})
        if self.lane == 0:
            self.ins.free_tensor(self.ins.copy_in(self._mask()))
        for place in part.single(core, of.block_dim):
            if self.lane == 0:
                self._hear(place)
            core.cross_core_set_flag(WRITTEN, Pipe.MTE3)
            yield core.cross_core_wait_flag(ADDED)

    def _hear(self, place: Place) -> None:
        core, of, count = self.core, self.of, place.tokens
        gammas = self.buffers["gammas"].get(FLOAT, count, count)
        if of.decay is None:
            core.duplicate(gammas, 1.0)
        else:
            where = ((place.head, of.longest), (place.chunk, CHUNK))
            sums = self.ins.copy_in(of.spaces.sums.window(where, (count,), (1,)))
            self._between(gammas, None)
            self._arrange(gammas, sums, how=_decayed(0))
            self.ins.free_tensor(sums)
        places = ((place.head, of.longest * CHUNK), (place.chunk, CHUNK * CHUNK))
        given = self.ins.copy_in(of.spaces.heard.window(places, (count, count), (CHUNK, 1)))
        wide = core.cast(self.buffers["wide"].get(FLOAT, count, count), given)
        self.ins.free_tensor(given)
        core.muls(wide, wide, of.scale)
        core.mul(wide, wide, gammas)
        core.record_vector("vmul", wide, wide.numel)
        below = np.tril(np.ones((count, count), np.float32))
        self._arrange(wide, wide, how=lambda values: values * below)
        tile = self.outs.alloc_tensor(BFLOAT16, count, count)
        first = core.get_block_idx() * TOGETHER * CHUNK * CHUNK
        target = of.spaces.own_heard.window(((first, 1),), (count, count), (CHUNK, 1))
        self.outs.copy_out(target, core.cast(tile, wide, RoundMode.CAST_RINT))


def _decayed(diagonal: int) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """How much of a token is left at a later one, up to a diagonal."""

    def between(sums: NDArray[Any]) -> NDArray[Any]:
        size = sums.shape[-1]
        below = np.tril(np.ones((size, size), np.float32), diagonal)
        return np.asarray(np.exp((sums[..., :, None] - sums[..., None, :]) * below) * below)

    return between
