"""TopKTopPSample: the next token of each row of logits.

Of the k largest logits, as many as come to a probability of p together; of their probabilities,
divided by numbers drawn beforehand where these are given, the largest says which token it is. Rows
without a k or a p skip that step: probabilities of all are then made in passes through memory, and
the largest few are tried before everything is sorted. Every row is one core's; the k largest are
kept sorted while parts of 8192 logits pass, of which only those above the last of them are sorted
in. Source: ops-nn index/top_k_top_p_sample, host tiling and device schedule.
"""

from __future__ import annotations

from functools import cached_property
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from npusim.ascendc import Core, GlobalTensor, Kernel, TBuf, TPosition, TQue
from npusim.ascendc.intrinsics.vector import CmpMode
from npusim.ascendc.loops import looked_up, values_of
from npusim.ascendc.task import Task, made
from npusim.library.sorted_pairs import GROUP, LISTS, PAIR_BYTES, record_sort
from npusim.ops.sorting.kept import USUAL
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import FLOAT, INT64, UINT8

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator
    from typing import Any

    from numpy.typing import NDArray

    from npusim.ascendc import LocalTensor
    from npusim.ascendc.gm_slices import GmSlice
    from npusim.ascendc.loops import Index
    from npusim.engine.program import Barrier
    from npusim.hardware.profile import Profile

MOST = 1024  # logits that are kept sorted
_PART, _SORTED, _ROW_PART = 8192, 2048, 16383  # at a time: logits, those sorted, those looked up
_MERGED = 1024  # pairs of a list that is sorted by itself where all are
_FEW = 32  # that are kept where only the largest is wanted
_TOP, _ALL, _GUESSED, _WHOLE = range(4)  # what is done with a row


class _Choice(NamedTuple):
    """What became of a row: how it was found, its token, and which logits were left."""

    way: int
    token: int
    left: NDArray[np.int64]


def _shares(values: NDArray[np.float32]) -> NDArray[np.float32]:
    powers = np.exp(values - values.max())
    return np.asarray(powers / powers.sum(), np.float32)


def _within(shares: NDArray[np.float32], p: float) -> int:
    """How many come to more than p, 0 if all of them don't."""
    over = np.cumsum(shares, dtype=np.float32) > p
    return int(over.argmax()) + 1 if over.any() else 0


class TopKTopPSample(Kernel):
    """index[b] and, where ``wanted``, the logits that are left, -inf for all others.

    ``q`` divides probabilities in their order, the largest first; all of a row where neither k nor
    p limits it.
    """

    op_type = "TopKTopPSample"

    def __init__(
        self,
        profile: Profile,
        given: tuple[GlobalTensor, GlobalTensor, GlobalTensor],
        q: GlobalTensor | None,
        outputs: tuple[GlobalTensor, GlobalTensor],
        *,
        epsilon: float,
        wanted: bool,
        guess: int,
    ) -> None:
        (self.logits, self.k, self.p), self.q = given, q
        (self.tokens, self.left), self.wanted = outputs, wanted
        self.epsilon = np.float32(epsilon)
        self.rows, self.length = self.logits.shape
        self.guess = min(guess, MOST, self.length)
        self.block_dim = min(self.rows, profile.cores.vector_cores)
        self.reads = (*given, *(() if q is None else (q,)))
        self.writes = outputs if wanted else outputs[:1]
        self.space = made((self.rows, self.length), FLOAT, "probabilities")
        self.pairs = made((self.rows, 2 * self.length), FLOAT, "pairs")
        self.scratch = (self.space, self.pairs)

    @property
    def workspace_bytes(self) -> int:
        """Six numbers for each logit."""
        return 6 * self.rows * self.length * FLOAT.itemsize

    def _limits(self) -> NDArray[np.int64]:
        """How many a row asks for, 0 where that is no limit."""
        if self.k.array is None:
            return np.full(self.rows, min(USUAL, self.length))
        asked = self.k.array.reshape(-1).astype(np.int64)
        return np.where((asked < 0) | (asked > min(MOST, self.length)), 0, asked)

    @property
    def count(self) -> int:
        """Logits that are kept: as many as the row that asks for most has."""
        return max(1, int(self._limits().max()))

    @cached_property
    def chosen(self) -> list[_Choice]:
        """Every row's."""
        assert self.logits.array is not None
        values = self.logits.array.astype(np.float32)
        shares = np.full(self.rows, 0.5) if self.p.array is None else self.p.array.reshape(-1)
        drawn = None if self.q is None else self.q.array
        return [
            self._choice(row, int(k), float(p), None if drawn is None else drawn[place])
            for place, (row, k, p) in enumerate(zip(values, self._limits(), shares, strict=True))
        ]

    def _choice(
        self, row: NDArray[np.float32], k: int, p: float, drawn: NDArray[np.float32] | None
    ) -> _Choice:
        limited = 0 < p < 1
        if not k and not limited:
            every = np.arange(len(row))
            return _Choice(_ALL, int(self._divided(_shares(row), drawn).argmax()), every)
        if k:
            order = np.argsort(-row, kind="stable")[:k]
            many = (limited and _within(_shares(row[order]), p)) or k
            shares = self._divided(_shares(row[order[:many]]), drawn)
            return _Choice(_TOP, int(order[shares.argmax()]), order[:many])
        probable = _shares(row)
        order = np.argsort(-probable, kind="stable")
        if many := _within(probable[order[: self.guess]], p):
            shares = self._divided(_shares(probable[order[:many]]), drawn)
            return _Choice(_GUESSED, int(order[shares.argmax()]), order[:many])
        order = order[: _within(probable[order], p) or len(row)]
        shares = self._divided(_shares(probable[order]), drawn)  # without them, the first
        return _Choice(_WHOLE, int(order[shares.argmax()]), order)

    def _divided(self, shares: Any, drawn: NDArray[np.float32] | None) -> NDArray[np.float32]:
        """Probabilities of which the largest wins."""
        if drawn is None:
            return np.asarray(shares)
        return np.asarray(shares / (np.abs(drawn[: len(shares)]) + self.epsilon))

    @property
    def ways(self) -> NDArray[np.int64]:
        """What is done with each row; that k is asked for, where nobody knows."""
        if self.logits.array is not None:
            return self._known_ways
        return np.full(self.rows, _TOP)

    @cached_property
    def _known_ways(self) -> NDArray[np.int64]:
        return np.array([each.way for each in self.chosen])

    def _rows_of(self, block: int) -> list[tuple[int, NDArray[np.int64]]]:
        """A core's rows by what is done with them: those that are left over go to the first."""
        each, more = divmod(self.rows, self.block_dim)
        first = block * each + min(block, more)
        own = np.arange(first, first + each + (block < more))
        ways = self.ways[own]
        return [(way, own[ways == way]) for way in sorted(set(ways.tolist()))]

    def block_kind(self, block_idx: int) -> Hashable:
        return tuple((way, len(rows)) for way, rows in self._rows_of(block_idx))

    @cached_property
    def found(self) -> NDArray[np.int64]:
        """Every row's token."""
        return np.array([each.token for each in self.chosen])

    @cached_property
    def remaining(self) -> NDArray[np.float32]:
        """Logits that are left, -inf for all others."""
        assert self.logits.array is not None
        found = np.full(self.logits.shape, -np.inf, np.float32)
        for row, each in enumerate(self.chosen):
            found[row, each.left] = self.logits.array[row, each.left]
        return found

    def process(self, core: Core) -> Iterator[Barrier]:
        """Nothing is left at first; then row after row."""
        run, parts = _Rows(self, core), self._rows_of(core.get_block_idx())
        if self.wanted:
            for _, rows in parts:
                for turn in core.loop(len(rows)):
                    run.fill(looked_up(turn, rows))
            yield core.sync_all()
        for way, rows in parts:
            for turn in core.loop(len(rows)):
                run.row(way, looked_up(turn, rows))


class _Rows:
    """The work of one core."""

    def __init__(self, kernel: TopKTopPSample, core: Core) -> None:
        self.of, self.core = kernel, core
        wide = _PART * FLOAT.itemsize
        self.ins, self.outs = TQue(TPosition.VECIN, 1, "in"), TQue(TPosition.VECOUT, 1, "out")
        self.work, self.sorted_, self.mask = (TBuf(name) for name in ("work", "sorted", "mask"))
        for queue in (self.ins, self.outs):
            core.pipe.init_buffer(queue, 1, wide)
        core.pipe.init_buffer(self.work, 1, wide)
        core.pipe.init_buffer(self.sorted_, 1, 2 * MOST * PAIR_BYTES)
        core.pipe.init_buffer(self.mask, 1, _PART)

    def row(self, way: int, row: Index) -> None:
        """A row, by what is done with it."""
        core, of = self.core, self.of
        core.load_scalar(of.p.view(of.rows).window(((row, 1),), (), ()))
        core.load_scalar(of.k.view(of.rows).window(((row, 1),), (), ()))
        {_TOP: self._top, _ALL: self._all, _GUESSED: self._guessed, _WHOLE: self._whole}[way](row)
        self._store(row)

    @staticmethod
    def _at(tensor: GlobalTensor, row: Index, start: Index, count: int, wide: int = 1) -> GmSlice:
        length = tensor.shape[1]
        return tensor.window(((row, length), (start, wide)), (count * wide,), (1,))

    def fill(self, row: Index) -> None:
        core = self.core
        for start, count in core.tiles(0, self.of.length, _PART):
            tile = core.duplicate(self.outs.alloc_tensor(FLOAT, count), -np.inf)
            if core.numerics:
                columns = values_of(start)[:, None] + np.arange(count)
                places = values_of(row)[:, None, None], columns[None]
                target = tile.target(core.depth)
                target[...] = self.of.remaining[places].reshape(target.shape)
            self.outs.copy_out(self._at(self.of.left, row, start, count), tile)

    def _top(self, row: Index) -> None:
        """The k largest of all, their probabilities, as many as come to p, and theirs anew."""
        core, kept = self.core, self.of.count
        for number, (start, count) in enumerate(self._parts(_PART)):
            given = self.ins.copy_in(self._at(self.of.logits, row, start, count))
            wide = core.cast(self.work.get(FLOAT, count), given)
            self.ins.free_tensor(given)
            self._sort_in(wide, number, kept)
        core.record_vector("vreducev2", self._list(), 2 * MOST, rows=2)
        self._normalise(kept)
        core.emit_scalar("ld_ub", loads=kept, operations=2 * kept)
        self._normalise(kept)
        self._divide(row, kept)
        if self.of.wanted:
            self._put(kept)

    def _parts(self, most: int) -> list[tuple[int, int]]:
        return [(at, min(most, self.of.length - at)) for at in range(0, self.of.length, most)]

    def _list(self) -> LocalTensor:
        return self.sorted_.get(FLOAT, 2 * MOST)

    def _sort_in(self, wide: LocalTensor, number: int, kept: int) -> None:
        """A part sorted, and what is above the last of those that are kept merged with them."""
        core = self.core
        count, lanes = wide.numel, core.costs.repeat_elements(FLOAT.itemsize)
        core.record_vector("vadds", wide, count)  # places
        if number:
            core.wait_vector()
            core.emit_scalar("ld_ub", loads=1)
            core.compare(self.mask.get(UINT8, count), wide, 0.0, CmpMode.GT)
            core.record_vector("vreducev2", wide, count, rows=2)
            # As many as are above in numbers without order.
            count = min(count, round_up(ceil(kept * count / (number * _PART + count)), GROUP))
        pairs, lists = self._list(), ceil(count / _SORTED)
        for start in range(0, count, _SORTED):
            record_sort(core, pairs, min(_SORTED, count - start))
        merged = min(MOST, count) * (lists > 1) + 2 * MOST * (number > 0)
        if merged:
            rows = ceil(merged / (GROUP * LISTS))
            core.record_vector("vmrgsort4v2", pairs, lanes, rows=rows)
        if number:
            core.record_vector("vector_dup", pairs, 2 * MOST)

    def _normalise(self, count: int) -> LocalTensor:
        """Probabilities of those that are kept."""
        core = self.core
        core.wait_vector()
        core.emit_scalar("ld_ub", loads=1)
        shares = self.work.get(FLOAT, count)
        core.record_vector("vector_dup", shares, count)
        core.record_vector("vsub", shares, count)
        core.record_vector("vexp", shares, count)
        core.record_vector("vcadd", shares, count)
        core.wait_vector()
        core.emit_scalar("ld_ub", loads=1)
        core.record_vector("vector_dup", shares, count)
        core.record_vector("vdiv", shares, count)
        return shares

    def _divide(self, row: Index, count: int, start: Index = 0) -> None:
        """By what was drawn; and the largest with its place."""
        core = self.core
        if self.of.q is not None:
            drawn = self.ins.copy_in(self._at(self.of.q, row, start, count))
            for name in ("vabs", "vadds", "vdiv"):
                core.record_vector(name, drawn, count)
            self.ins.free_tensor(drawn)
        core.record_vector("vcmax", self.work.get(FLOAT, count), count)
        core.wait_vector()
        core.emit_scalar("ld_ub", loads=2)

    def _put(self, count: int) -> None:
        """Logits that are left, one by one: they are among what the row was filled with."""
        core = self.core
        nowhere = np.full(count, -(1 << 40), np.int64)
        tile = core.duplicate(self.outs.alloc_tensor(FLOAT, GROUP), 0.0)
        self.outs.enque(tile)
        self.outs.deque(tile)
        for turn in core.loop(count):
            core.emit_scalar("ld_ub", loads=2, stores=1)
            target = self.of.left.window(((looked_up(turn, nowhere), 1),), (1,), (1,)).skipping()
            core.copy_runs(target, tile[:1])
        self.outs.free_tensor(tile)

    def _look_up(self, row: Index, count: int) -> None:
        """The same by places alone: parts of the row come again, and all places are asked."""
        core = self.core
        for start, length in self._parts(min(_PART, _ROW_PART)):
            given = self.ins.copy_in(self._at(self.of.logits, row, start, length))
            core.cast(self.work.get(FLOAT, length), given)
            self.ins.free_tensor(given)
            core.emit_scalar("ld_ub", loads=count, operations=2 * count)
        self._put(count)

    def _powers(self, row: Index) -> None:
        """The largest of a row, then powers and their sum, through memory."""
        core = self.core
        for start, count in self._parts(_PART):
            given = self.ins.copy_in(self._at(self.of.logits, row, start, count))
            wide = core.cast(self.outs.alloc_tensor(FLOAT, count), given)
            self.ins.free_tensor(given)
            core.record_vector("vcmax", self.work.get(FLOAT, count), count)
            core.wait_vector()
            core.emit_scalar("ld_ub", loads=1)
            self.outs.copy_out(self._at(self.of.space, row, start, count), wide)
        for start, count in self._parts(_PART):
            given = self.ins.copy_in(self._at(self.of.space, row, start, count))
            wide = self.outs.alloc_tensor(FLOAT, count)
            core.duplicate(wide, 0.0)
            core.exp(wide, core.sub(wide, given, wide))
            self.ins.free_tensor(given)
            core.record_vector("vcadd", self.work.get(FLOAT, count), count)
            core.wait_vector()
            core.emit_scalar("ld_ub", loads=1)
            self.outs.copy_out(self._at(self.of.space, row, start, count), wide)

    def _probable(self, row: Index, start: int, count: int) -> LocalTensor:
        core = self.core
        given = self.ins.copy_in(self._at(self.of.space, row, start, count))
        wide = core.duplicate(self.work.get(FLOAT, count), 1.0)
        core.div(wide, given, wide)
        self.ins.free_tensor(given)
        return wide

    def _all(self, row: Index) -> None:
        """Probabilities of all; the largest, of what was drawn divides them."""
        self._powers(row)
        if self.of.q is None:
            self._sorted(row, _FEW)
            return
        for start, count in self._parts(_PART):
            self._probable(row, start, count)
            self._divide(row, count, start)

    def _sorted(self, row: Index, kept: int) -> None:
        """Probabilities are stored, and the largest of them kept sorted."""
        core = self.core
        for number, (start, count) in enumerate(self._parts(_PART)):
            wide = self._probable(row, start, count)
            stored = core.adds(self.outs.alloc_tensor(FLOAT, count), wide, 0.0)
            self.outs.copy_out(self._at(self.of.space, row, start, count), stored)
            self._sort_in(wide, number, kept)
        core.record_vector("vreducev2", self._list(), 2 * round_up(kept, GROUP), rows=2)

    def _guessed(self, row: Index) -> None:
        """The largest few come to p."""
        core = self.core
        self._powers(row)
        self._sorted(row, self.of.guess)
        core.emit_scalar("ld_ub", loads=self.of.guess, operations=2 * self.of.guess)
        self._normalise(self.of.guess)
        self._divide(row, self.of.guess)
        if self.of.wanted:
            self._look_up(row, self.of.guess)

    def _whole(self, row: Index) -> None:
        """They don't: all are sorted, and added up from the largest on."""
        core = self.core
        self._powers(row)
        self._sorted(row, self.of.guess)
        core.emit_scalar("ld_ub", loads=self.of.guess, operations=2 * self.of.guess)
        for start, count in self._parts(_MERGED):
            wide = self.ins.copy_in(self._at(self.of.space, row, start, count))
            core.record_vector("vadds", wide, count)
            pairs = core.adds(self.outs.alloc_tensor(FLOAT, 2 * count), wide[:1], 0.0)
            record_sort(core, pairs, count)
            self.ins.free_tensor(wide)
            self.outs.copy_out(self._at(self.of.pairs, row, start, count, 2), pairs)
        lists = ceil(self.of.length / _MERGED)
        while lists > 1:
            self._merge(row)
            lists = ceil(lists / LISTS)
        core.emit_scalar("ld_ub", loads=_MERGED, operations=2 * _MERGED)
        if self.of.q is not None:
            for start, count in self._parts(_PART):
                self._probable(row, start, count)
                self._divide(row, count, start)
        if self.of.wanted:
            self._look_up(row, self.of.length // 2)

    def _merge(self, row: Index) -> None:
        """Every four lists into one."""
        core = self.core
        lanes = core.costs.repeat_elements(FLOAT.itemsize)
        for start, count in self._parts(_MERGED):
            given = self.ins.copy_in(self._at(self.of.pairs, row, start, count, 2))
            merged = core.adds(self.outs.alloc_tensor(FLOAT, 2 * count), given[:1], 0.0)
            rows = ceil(count / (GROUP * LISTS))
            core.record_vector("vmrgsort4v2", merged, lanes, rows=rows)
            core.wait_vector()
            self.ins.free_tensor(given)
            self.outs.copy_out(self._at(self.of.pairs, row, start, count, 2), merged)

    def _store(self, row: Index) -> None:
        core = self.core
        tile = self.outs.alloc_tensor(INT64, 1)
        core.emit_scalar("st_ub", stores=1)
        if core.numerics:
            target = tile.target(core.depth)
            target[...] = self.of.found[values_of(row)].reshape(target.shape)
        core.wrote(tile)
        place = self.of.tokens.view(self.of.rows).window(((row, 1),), (1,), (1,))
        self.outs.copy_out(place, tile)


def top_k_top_p_sample(task: Task) -> tuple[Kernel, ...]:
    """Logits, k, p, and numbers that were drawn; tokens, and the logits that are left."""
    given = (*task.inputs, None, None, None, None)[:4]
    logits, k, p, q = given
    if logits is None or k is None or p is None:
        raise task.refused("needs logits, k and p")
    if task.profile.cores.style != "split" or len(logits.shape) != 2:
        raise task.refused(f"{task.profile.name} has no kernel for {logits.shape}")
    if k.array is not None and (k.array == 0).any():
        raise task.refused("rows that ask for none: the page skips the k, the kernel looks for it")
    made_ones = made(k.shape, INT64, "tokens"), made(logits.shape, FLOAT, "left")
    outputs = (*task.outputs, *made_ones[len(task.outputs) :])
    guess = task.whole_number("top_k_guess", _FEW)
    if guess < 1:
        raise task.unfit(f"{guess} logits to guess with")
    return (
        TopKTopPSample(
            task.profile, (logits, k, p), q, (outputs[0], outputs[1]),
            epsilon=task.number("eps", 1e-8),
            wanted=bool(task.attributes.get("is_need_logits", False)), guess=guess,
        ),
    )  # fmt: skip
