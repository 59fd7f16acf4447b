"""The first numbers of rows on chips that sort region proposals: TopKV2, Sort.

A proposal is eight numbers, of which sorting compares one: a number is put twice into its proposal,
with its place beside it in two halves (vconcat). Groups of 16 are sorted by one instruction
(vbitsort), four lists at a time merged into one (vmrgsort4); then numbers and places are taken out
again (vextract). Rows of up to 4096 numbers lie in UB several at a time, longer ones are sorted in
parts of 1024, each merged into the first 5120 so far. Where there are fewer results than a block of
memory has, one core takes all rows, not their store alone, but for 8 and more on chips that add
halves in memory: there cores add what they have to zeros. Of many numbers the AI CPUs find so few
sooner than one core. Source: public operator sources (top_k.py, top_k_d.py: tiling, schedules and
check_supported).
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.ascendc import Core, GlobalTensor, Kernel, LocalTensor, TBuf, TPosition, TQue
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import FLOAT16, INT32

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.ascendc.loops import Index
    from npusim.hardware.profile import Profile
    from npusim.values.dtypes import DType

MOST_SORTED = 1458176  # numbers of a row, by what the operator lets through
_KEPT_BYTES = 10240  # of the first numbers of a row in parts
_NUMBERS = 8  # of a proposal
_GROUP, _LISTS = 16, 4
_WHOLE_BYTES, _PART = 8192, 1024  # of rows that UB holds; numbers of a part of longer ones
_ROW_NUMBERS = 25  # room for each number of a row, in its own type: proposals, twice, and places
_FEW, _TOO_FEW = 16, 8  # results that one core stores; that no cores add
_LANES = 128  # bytes of a repeat of what moves numbers into proposals


def sorts_proposals(profile: Profile, kind: DType) -> bool:
    """Whether the chip sorts proposals of a dtype, having no instruction for pairs."""
    pairs = profile.supports_vector("vbitsort32", kind.intrinsic)
    return not pairs and profile.supports_vector("vbitsort", kind.intrinsic)


def shares_rows(profile: Profile, kept: int) -> bool:
    """Whether cores share the rows of which so many numbers are kept."""
    adds = FLOAT16.intrinsic in profile.memory.atomic_dtypes
    return kept >= (_TOO_FEW if adds else _FEW)


def most_kept(kind: DType) -> int:
    """How many of the first numbers of a row UB holds as proposals."""
    return _KEPT_BYTES // kind.itemsize


class ProposalTopK(Kernel):
    """values, places [rows, k] = the first numbers of the rows of x [rows, n], in order."""

    op_type = "TopKV2"
    generated = True

    def __init__(
        self,
        profile: Profile,
        x: GlobalTensor,
        values: GlobalTensor,
        places: GlobalTensor,
        *,
        largest: bool = True,
    ) -> None:
        rows, self.length = x.shape
        self.x, self.values, self.places, self.largest = x, values, places, largest
        self.reads, self.writes = (x,), (values, places)
        self.kept, self.kind = values.shape[-1], x.dtype
        self.padded, size = round_up(self.length, _GROUP), x.dtype.itemsize
        room = profile.buffers.ub_bytes - 3 * profile.buffers.block_bytes
        self.by_parts = self.length * size > _WHOLE_BYTES
        tile = (room - 2 * self.padded * size) // (_ROW_NUMBERS * size * self.padded)
        cores = profile.cores.vector_cores if shares_rows(profile, self.kept) else 1
        self.added = self.kept < _FEW and cores > 1
        self.adds_into = (values,) if self.added else ()
        self.count, self.tile = rows, 1 if self.by_parts else max(1, min(tile, rows))
        self.block_dim = min(cores, rows)
        self._found: tuple[NDArray[Any], NDArray[Any]] | None = None

    def block_kind(self, block_idx: int) -> int:
        return self._own(block_idx)[1]

    def _own(self, block: int) -> tuple[int, int]:
        """The first row of a block, and how many it has: the first blocks one more."""
        each, more = divmod(self.count, self.block_dim)
        return block * each + min(block, more), each + (block < more)

    def process(self, core: Core) -> None:
        """Tiles of rows, or one row after the other by parts."""
        if core.numerics and not core.get_block_idx():
            given = self.x.array
            wide = np.asarray(given).astype(np.float64)
            order = np.argsort(-wide if self.largest else wide, axis=-1, kind="stable")
            order = order[:, : self.kept]
            self._found = np.take_along_axis(np.asarray(given), order, -1), order
        size, tile = self.kind.itemsize, self.tile
        columns = _PART if self.by_parts else self.padded
        self.rows, self.ids = TQue(TPosition.VECIN, 1, "row"), TBuf("places")
        self.regions, self.best = TBuf("proposals"), TBuf("first")
        self.outs = [TQue(TPosition.VECOUT, 1, name) for name in ("values", "numbers")]
        core.pipe.init_buffer(self.rows, 1, tile * columns * size)
        core.pipe.init_buffer(self.ids, 1, columns * size)
        core.pipe.init_buffer(self.regions, 1, 2 * tile * columns * _NUMBERS * size)
        for queue, each in zip(self.outs, (size, INT32.itemsize), strict=True):
            core.pipe.init_buffer(queue, 1, tile * round_up(self.kept * each, 32))
        if self.by_parts:
            core.pipe.init_buffer(self.best, 1, most_kept(self.kind) * _NUMBERS * size)
        for first, count in core.tiles(*self._own(core.get_block_idx()), tile):
            if self.by_parts:
                self._parts(core, first)
            else:
                self._tile(core, first, count)
            self._store(core, first, count)

    def _tile(self, core: Core, first: Index, count: int) -> None:
        """Rows that UB holds side by side; each is merged by itself."""
        flat = self.x.view(self.x.numel)
        source = flat.window(((first, self.length),), (count, self.length), (self.length, 1))
        row = self.rows.copy_in(source.by_rows())
        self._sort(core, count, self.padded)
        self.rows.free_tensor(row)

    def _parts(self, core: Core, first: Index) -> None:
        """Parts of a row, each merged into what is kept of those before."""
        flat, held = self.x.view(self.x.numel), 0
        for part in range(ceil(self.length / _PART)):
            start = part * _PART
            count = min(_PART, self.length - start)
            places = ((first, self.length), (start, 1))
            row = self.rows.copy_in(flat.window(places, (count,), (1,)))
            regions = self._sort(core, 1, round_up(count, _GROUP))
            self.rows.free_tensor(row)
            if held:
                core.scalar_call(_LISTS)
                merged = ceil((held + count) / (_GROUP * _LISTS))
                core.record_vector("vmrgsort4", regions, _GROUP, rows=merged)
            held = min(held + count, most_kept(self.kind))
            core.record_vector("ub2ub", regions, held * _NUMBERS)

    def _sort(self, core: Core, rows: int, columns: int) -> LocalTensor:
        """Proposals made of rows of numbers, and put in order."""
        regions = self.regions.get(self.kind, columns * _NUMBERS)
        lanes, groups = _LANES // self.kind.itemsize, rows * columns // _GROUP
        if not self.largest:
            core.record_vector("vmuls", regions, rows * columns)
        for _ in range(2):
            core.record_vector("vconcat", regions, lanes, rows=groups)
        for _ in core.loop(2 * rows):
            core.record_vector("vconcat", regions, lanes, rows=columns // _GROUP)
        core.record_vector("vbitsort", regions, lanes, rows=groups)
        lists = columns // _GROUP
        for _ in core.loop(rows):
            left = lists
            while left > 1:
                core.scalar_call(_LISTS)
                core.record_vector("vmrgsort4", regions, lanes, rows=ceil(lists / _LISTS))
                left = ceil(left / _LISTS)
        return regions

    def _store(self, core: Core, first: Index, count: int) -> None:
        """Numbers and places taken out of the proposals, and stored row by row."""
        taken = round_up(self.kept, _GROUP) if self.by_parts else self.padded
        results = [
            queue.alloc_tensor(kind, count, self.kept)
            for queue, kind in zip(self.outs, (self.kind, INT32), strict=True)
        ]
        groups = count * taken // _GROUP
        for number, each in enumerate(results):
            lanes = _LANES // self.kind.itemsize
            for _ in range(1 + number):
                core.record_vector("vextract", each, lanes, rows=groups)
        if not self.largest:
            core.record_vector("vmuls", results[0], count * taken)
        for _ in range(2):
            core.record_vector("vconv", results[1], count * taken)
        core.record_vector("vadd", results[1], count * taken)
        for number, (queue, each, out) in enumerate(
            zip(self.outs, results, self.writes, strict=True)
        ):
            core.wrote(each)
            if core.numerics:
                each.target(core.depth)[...] = self._part(core, first, count, number)
            flat = out.view(out.numel)
            target = flat.window(((first, self.kept),), each.shape, (self.kept, 1))
            if self.added and not number:
                core.set_atomic_add(1.0)
            queue.copy_out(target.by_rows(), each)
            core.set_atomic_none()

    def _part(self, core: Core, first: Index, count: int, number: int) -> NDArray[Any]:
        """The results of the rows worked on."""
        assert self._found is not None
        rows = core.counter(first).values(core.depth).astype(np.int64)[..., None] + np.arange(count)
        found: NDArray[Any] = self._found[number][rows]
        return found
