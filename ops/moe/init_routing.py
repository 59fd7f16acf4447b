"""MoeInitRouting, MoeTokenPermute: rows of tokens, copied to where those of an expert are.

Pairs of an expert and a place are sorted: on every core by itself where they and the rows of a core
fit into UB, else on some cores whose lists are merged four at a time. Places are turned around,
element by element, experts' tokens counted by the scalar unit, and each core copies the rows of its
tokens, on their way as int8 if that is asked for. Source: ops-transformer moe/moe_init_routing_v2,
moe/moe_init_routing_quant_v2 and moe/moe_token_permute, host tilings and device schedules.
"""

from __future__ import annotations

from math import ceil, log
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from npusim.ascendc import Core, GlobalTensor, Kernel, Scalar, TBuf, TPosition, TQue
from npusim.ascendc.loops import values_of
from npusim.ascendc.queues import TQueBind
from npusim.ascendc.task import made
from npusim.engine.program import Pipe
from npusim.library.sorted_pairs import GROUP, LISTS, PAIR_BYTES, merge_lists, record_sort
from npusim.ops.moe.quantising import Quantising
from npusim.schedules.bounds import fault_outside
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import FLOAT, INT32
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from numpy.typing import NDArray

    from npusim.ascendc import LocalTensor
    from npusim.ascendc.loops import Index
    from npusim.engine.program import Barrier
    from npusim.hardware.profile import Profile
    from npusim.ops.moe.quantising import Scale

_SORT_BYTES = 8 * INT32.itemsize  # in UB for a pair that is sorted
_WHOLE_BUFFERS = 9  # of all pairs, where everything is in UB
_MOST_COLUMNS = 8192  # of a row that is copied at once
TURNED_TILE = 1024  # pairs whose places are turned around together
_NOWHERE = -(1 << 40)  # the row of a pair that is left out: before every tensor


class Results(NamedTuple):
    """Rows, where each pair's row is, the sorted experts, tokens of experts, scales of rows."""

    rows: GlobalTensor
    places: GlobalTensor
    sorted: GlobalTensor | None = None
    counts: GlobalTensor | None = None
    scales: GlobalTensor | None = None


class _Run(NamedTuple):
    """Tokens in a row, with the number of their pairs that are a core's, and the first of these."""

    pair: int
    tokens: int
    each: int


class MoeInitRouting(Kernel):
    """rows[places[i]] = x[i // k] for pairs i of token and choice, in the order of their experts.

    ``by_choice`` stores the place of a pair at choice * tokens + token. ``cumulative`` counts add
    up those of the experts before. Rows are as many as there is room for: those behind are left
    out, but take their time, for only data tells which pairs they are of.
    """

    hard_sync = True

    def __init__(
        self,
        profile: Profile,
        x: GlobalTensor,
        experts: GlobalTensor,
        results: Results,
        op_type: str,
        *,
        by_choice: bool = False,
        cumulative: bool = False,
        scale: Scale | None = None,
    ) -> None:
        self.op_type, self.by_choice, self.cumulative = op_type, by_choice, cumulative
        self.x, self.experts, self.out = x, experts.view(experts.numel), results
        (self.tokens, self.width), self.pairs = x.shape, experts.numel
        self.choices = self.pairs // self.tokens
        self.quantised, self.scale = results.rows.dtype is not x.dtype, scale
        self.rows = results.rows.view(results.rows.numel // self.width, self.width)
        self.block_dim, ub = profile.cores.vector_cores, profile.buffers.ub_bytes
        self.share = ceil(self.pairs / self.block_dim)
        self.most = ub // _SORT_BYTES // GROUP * GROUP
        self.columns = self.width if self.quantised else min(self.width, _MOST_COLUMNS)
        row = round_up(self.width * x.dtype.itemsize, profile.buffers.block_bytes)
        if self.quantised and Quantising.nbytes(x.dtype, self.width) > ub // 2:
            raise KernelError(op_type, f"a row of {self.width} doesn't fit into UB")
        held = round_up(self.pairs, GROUP) * INT32.itemsize * _WHOLE_BUFFERS
        held += (ceil(self.share / self.choices) + 1) * row
        fits = self.pairs <= self.most and self.width <= _MOST_COLUMNS and held < ub
        self.whole = fits and not self.quantised and not self.is_padded
        lists = ceil(self.pairs / self.most)
        power = LISTS ** ceil(log(lists, LISTS)) if lists > 1 else 1
        self.sorters = min(power, self.block_dim)
        self.lists = [made((2 * round_up(self.pairs, GROUP),), FLOAT, f"pairs{n}") for n in (0, 1)]
        by = (each for each in scale or () if isinstance(each, GlobalTensor))
        self.reads = (x, experts, *by)
        self.writes = tuple(each for each in results if each is not None)
        self.scratch = () if self.whole else tuple(self.lists)

    is_padded = False  # with a fixed number of rows for each expert

    @property
    def workspace_bytes(self) -> int:
        """Sorted pairs, before and after a merge."""
        return sum(each.nbytes for each in self.scratch)

    def block_kind(self, block_idx: int) -> Hashable:
        runs = tuple((run.tokens, run.each) for run in self._runs(block_idx))
        return min(block_idx, self.sorters), self._part(block_idx)[1], runs

    def process(self, core: Core) -> Iterator[Barrier]:
        """Sort, turn the places around, copy."""
        block = core.get_block_idx()
        fault_outside(core, self.op_type, self.experts, 1 << 31)
        if self.whole:
            self._sort_whole(core)
        else:
            yield from self._sort(core)
            core.pipe.reset()
            self._turn_around(core, *self._own(block))
        self._count(core)
        if not self.whole:
            yield core.sync_all()
        core.pipe.reset()
        self._gather(core)

    # -- sorting ---------------------------------------------------------------------------------

    def _sort_whole(self, core: Core) -> None:
        """All pairs by experts, and what comes out by places; the first core stores both."""
        pairs = self._loaded(core, 0, self.pairs)
        record_sort(core, pairs, self.pairs)
        if not core.get_block_idx():
            core.record_vector("vreducev2", pairs, 2 * self.pairs)
            self._store(core, self.out.places, self._places())
            if self.out.sorted is not None:
                self._store(core, self.out.sorted, self._order(sort=True))

    def _sort(self, core: Core) -> Iterator[Barrier]:
        """Lists of some cores, merged four at a time until there is one."""
        block = core.get_block_idx()
        first, count = self._part(block)
        if count:
            self._loaded(core, first, count)
            out = TQue(TPosition.VECOUT, 1, "pairs_out")
            core.pipe.init_buffer(out, 1, round_up(count, GROUP) * PAIR_BYTES)
            tile = out.alloc_tensor(FLOAT, 2 * count)
            core.record_vector("ub2ub", tile, 2 * count)
            out.copy_out(self.lists[0].span(2 * first, 2 * count), tile)
        left, side, each = self.sorters, 0, self._part(0)[1]
        while left > 1:
            yield core.sync_all()
            core.pipe.reset()
            left, each = ceil(left / LISTS), each * LISTS
            start = block * each
            if block < left and start < self.pairs:
                length = min(each, self.pairs - start)
                group = (((start, 2),), length)
                merge_lists(core, self.lists[side], self.lists[1 - side], (group,))
            side = 1 - side
        if self.out.sorted is not None and not block:
            core.pipe.reset()
            self._store(core, self.out.sorted, self._order(sort=True))
        yield core.sync_all()

    def _part(self, block: int) -> tuple[int, int]:
        """The first pair and the pairs that a core sorts at the beginning."""
        each = round_up(ceil(self.pairs / self.sorters), GROUP if self.sorters > 1 else 1)
        return block * each, max(0, min(each, self.pairs - block * each))

    def _loaded(self, core: Core, first: int, count: int) -> LocalTensor:
        """Experts as numbers to sort, with their places, sorted."""
        given, pairs = TQue(TPosition.VECIN, 1, "experts"), TBuf("pairs")
        most = min(round_up(count, GROUP), self.most)
        core.pipe.init_buffer(given, 1, most * INT32.itemsize)
        core.pipe.init_buffer(pairs, 1, 2 * round_up(count, GROUP) * PAIR_BYTES)
        found = pairs.get(FLOAT, 4 * round_up(count, GROUP))
        for start, length in core.tiles(first, count, most):
            experts = given.copy_in(self.experts.span(start, length))
            for name in ("vconv", "vmuls"):
                core.record_vector(name, found, length)
            record_sort(core, found, length)
            given.free_tensor(experts)
        return found

    def _store(self, core: Core, target: GlobalTensor, numbers: NDArray[np.int64] | None) -> None:
        """Numbers of all pairs, in their order in memory."""
        out = TQue(TPosition.VECOUT, 1, "numbers")
        most = min(round_up(self.pairs, GROUP), self.most // 2)
        core.pipe.init_buffer(out, 1, most * INT32.itemsize)
        flat = target.view(target.numel)
        for start, length in core.tiles(0, self.pairs, most):
            tile = out.alloc_tensor(INT32, length)
            core.record_vector("vconv", tile, length)
            if numbers is not None and core.numerics:
                where = values_of(start)[:, None] + np.arange(length)
                found = numbers[where].reshape((1,) * (core.depth - 1) + where.shape)
                tile.target(core.depth)[...] = found
            out.copy_out(flat.span(start, length), tile)

    def _order(self, *, sort: bool = False) -> NDArray[np.int64] | None:
        """The experts in order, or the pairs in the order of their experts."""
        found = self.experts.array
        if found is None:
            return None
        order = np.argsort(found.reshape(-1), kind="stable")
        return found.reshape(-1)[order] if sort else order

    def _places(self, *, in_memory: bool = True) -> NDArray[np.int64] | None:
        """Where the row of each pair is, in the order of pairs or as they are stored."""
        order = self._order()
        if order is None:
            return None
        places = np.argsort(order)
        if in_memory and self.by_choice:
            places = places.reshape(self.tokens, self.choices).T.reshape(-1)
        return places

    def _stored_rows(self) -> NDArray[np.int64] | None:
        """The row of each pair that is stored, ``_NOWHERE`` for one that is left out."""
        places = self._places(in_memory=False)
        if places is None:
            return None
        kept = (places >= 0) & (places < self.rows.shape[0])
        return np.where(kept, places, _NOWHERE)

    def _turn_around(self, core: Core, first: int, count: int) -> None:
        """The place of each pair, stored where its row says, four bytes at a time."""
        ins, outs = TQue(TPosition.VECIN, 1, "order"), TQue(TPosition.VECOUT, 1, "turned")
        core.pipe.init_buffer(ins, 1, TURNED_TILE * INT32.itemsize)
        core.pipe.init_buffer(outs, 1, TURNED_TILE * core.block_bytes)
        source, target = self.lists[0], self.out.places.view(self.pairs)
        places = self._places()
        stored = None if places is None else np.argsort(places)
        for start, length in core.tiles(first, count, TURNED_TILE):
            order = ins.copy_in(source.span(start, length))
            turned = outs.alloc_tensor(INT32, length, 1)
            core.record_vector("vadds", turned, length * (core.block_bytes // INT32.itemsize))
            if core.numerics:
                ranks = values_of(start)[:, None] + np.arange(length)
                turned.target(core.depth)[..., 0] = ranks.reshape(
                    (1,) * (core.depth - 1) + ranks.shape
                )
            outs.enque(turned)
            turned = outs.deque(turned)
            for row in core.loop(length):
                core.emit_scalar("ld_ub", loads=1)
                place = found(core, stored, core.counter(start) + core.counter(row))
                core.copy_runs(target.window(((place, 1),), (1,), (1,)), turned[row])
            ins.free_tensor(order)
            outs.free_tensor(turned)

    def _count(self, core: Core) -> None:
        """The tokens of each expert: scalar units look at every sorted pair, one stores them."""
        counts, block = self.out.counts, core.get_block_idx()
        if counts is None or (self.whole and block):
            return
        seen = self.pairs if self.whole else self._own(block)[1]
        core.emit_scalar("ld_ub", loads=seen, operations=2 * seen, turns=seen)
        if block:
            return
        out = TQue(TPosition.VECOUT, 1, "counts")
        core.pipe.init_buffer(out, 1, counts.numel * counts.dtype.itemsize)
        tile = out.alloc_tensor(counts.dtype, counts.numel)
        core.record_vector("vector_dup", tile, counts.numel)
        core.emit_scalar("st_ub", stores=counts.numel)
        if core.numerics and self.experts.array is not None:
            fault_outside(core, self.op_type, self.experts, counts.numel)
            found = np.bincount(self.experts.array.reshape(-1), minlength=counts.numel)
            tile.target(core.depth)[...] = np.cumsum(found) if self.cumulative else found
        out.copy_out(counts.view(counts.numel).span(0, counts.numel), tile)

    # -- rows ------------------------------------------------------------------------------------

    def _own(self, block: int) -> tuple[int, int]:
        """The first pair and the pairs whose rows a core copies."""
        first = block * self.share
        return first, max(0, min(self.share, self.pairs - first))

    def _runs(self, block: int) -> list[_Run]:
        """Those pairs by tokens: part of one, whole ones, part of one."""
        first, count = self._own(block)
        found, k = [], self.choices
        head = min(count, -first % k)
        if head:
            found.append(_Run(first, 1, head))
        whole, tail = divmod(count - head, k)
        if whole:
            found.append(_Run(first + head, whole, k))
        if tail:
            found.append(_Run(first + head + whole * k, 1, tail))
        return found

    def _gather(self, core: Core) -> None:
        """Each token's row is loaded once, and stored for each of its pairs."""
        block = core.get_block_idx()
        first, count = self._own(block)
        if not self.whole and count:
            places = TQue(TPosition.VECIN, 1, "places")
            most = min(count, TURNED_TILE)
            core.pipe.init_buffer(places, 1, most * INT32.itemsize)
            for start, length in core.tiles(first, count, most):
                places.free_tensor(
                    places.copy_in(self.out.places.view(self.pairs).span(start, length))
                )
        known = self._stored_rows()
        self.quantising, self.row_bind = None, TQueBind(2, "rows")
        if self.quantised:
            self.quantising = Quantising(core, self.x.dtype, self.width, self.scale)
        else:
            core.pipe.init_buffer(self.row_bind, 2, self.columns * self.x.dtype.itemsize)
        for run in self._runs(block):
            for turn in core.loop(run.tokens):
                self._token(core, run, turn, known)

    def _token(self, core: Core, run: _Run, turn: Index, known: NDArray[np.int64] | None) -> None:
        """The row of a token, piece by piece."""
        token = turn + run.pair // self.choices
        for column, length in core.tiles(0, self.width, self.columns):
            source = self.x.window(((token, self.width), (column, 1)), (length,), (1,))
            scale = None
            if self.quantising is not None:
                row, scale = self.quantising.row(source)
            else:
                row = self.row_bind.copy_in(source)
            for choice in core.loop(run.each):
                core.emit_scalar("ld_ub", loads=1)
                pair = core.counter(turn) * self.choices + core.counter(choice) + run.pair
                place = found(core, known, pair)
                target = ((place, self.width), (column, 1))
                core.copy_runs(self.rows.window(target, (length,), (1,)).skipping(), row)
                if scale is not None and self.out.scales is not None:
                    scales = self.out.scales.view(self.out.scales.numel)
                    core.copy_runs(scales.window(((place, 1),), (1,), (1,)).skipping(), scale)
            if self.quantising is not None:
                self.quantising.free()
            else:
                self.row_bind.free_tensor(row, by=Pipe.MTE3)


def found(core: Core, table: NDArray[np.int64] | None, place: Scalar) -> Scalar:
    """What a table says of a place that the scalar unit knows."""
    if table is None or place.value is None:
        return Scalar(core, None, place.depth)
    return Scalar(core, table[place.value.astype(np.int64)], place.depth)
