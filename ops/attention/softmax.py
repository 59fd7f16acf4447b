"""A vector core's side of attention: scores into weights, and products added up.

Rows go through UB a few at a time, as many as fill a slot. Each keeps the largest of its scores so
far and the sum of its weights; when a larger one comes, what was added up before is scaled down
(online softmax). Source: ops-transformer attention/flash_attention_score/op_kernel
(flash_attention_score_s1s2_bn2gs1.h), SoftmaxFlashV2 of asc-devkit.
"""

from __future__ import annotations

from functools import partial
from math import ceil
from typing import TYPE_CHECKING

from npusim.ascendc import RoundMode, TBuf, TPosition, TQue
from npusim.ascendc.intrinsics.vector import CmpMode
from npusim.engine.program import Pipe
from npusim.ops.attention.call import LANES
from npusim.ops.attention.spaces import OUTPUTS, SCORES, WEIGHTS
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import FLOAT, FLOAT16, UINT8

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from npusim.ascendc import Core, LocalTensor
    from npusim.ascendc.cluster import CoreWait
    from npusim.ascendc.gm_slices import GmSlice, Place
    from npusim.engine.program import Barrier
    from npusim.ops.attention.blocks import Dealing
    from npusim.ops.attention.call import Call
    from npusim.ops.attention.heads import Heads
    from npusim.ops.attention.spaces import Space, Spaces
    from npusim.ops.attention.steps import Job

    Steps = Iterator[Barrier | CoreWait]

_LEAST_ROWS = 8  # worked on at a time: a block of float32
HIDDEN = -3.4028234663852886e38  # scores that the mask hides
FLOOR = -1e30  # no maximum is less, so that rows without a key get weights of zero
TINY = 1e-37  # no sum is less, so that they get outputs of zero
_GRAIN = 32  # elements: a block of the mask


class VectorSide:
    """The rows of one vector core; ``slots`` are the parts that UB is cut into.

    ``share`` is its number among those that share the rows of a block, and how many these are.
    """

    slots = 6  # two for loads, scratch, masks, weights, and the rest

    def __init__(
        self,
        core: Core,
        call: Call,
        dealing: Dealing,
        spaces: Spaces,
        share: tuple[int, int] = (0, 1),
    ) -> None:
        self._core, self._call, self._spaces = core, call, spaces
        slot = core.capacity_bytes("UB") // self.slots // 1024 * 1024
        self._elements = 1 << (slot // FLOAT.itemsize).bit_length() - 1
        slot = self._elements * FLOAT.itemsize
        self._ins, self._outs = TQue(TPosition.VECIN, 2, "in"), TQue(TPosition.VECOUT, 1, "out")
        self._masks = TQue(TPosition.VECIN, 1, "mask")
        self._work, self._half, self._kept = TBuf("work"), TBuf("half"), TBuf("kept")
        pipe = core.pipe
        pipe.init_buffer(self._ins, 2, slot)
        pipe.init_buffer(self._outs, 1, slot)
        pipe.init_buffer(self._work, 1, slot)
        if call.mask.tensor is not None or call.dropout is not None:
            pipe.init_buffer(self._masks, 1, self._elements)
            pipe.init_buffer(self._half, 1, self._elements * FLOAT16.itemsize)
            pipe.init_buffer(self._kept, 1, self._elements)
        self._share = share
        self._state = _State(core, self._own(dealing.rows)[1])

    def begin(self, job: Job) -> Steps:
        """Scores into weights."""
        core = self._core
        yield core.cross_core_wait_flag(SCORES)
        height = self._height(job.keys)
        self._slices(
            job.rows, height, lambda at, row, rows: self._weigh_once(job, at, row, rows, height),
            one_by_one=bool(job.edges) and self._call.mask.group > 1,
        )  # fmt: skip
        core.cross_core_set_flag(WEIGHTS, Pipe.MTE3)

    def finish(self, job: Job) -> Steps:
        """Add up products; after the last one, divide by the sum of weights."""
        yield self._core.cross_core_wait_flag(OUTPUTS)
        height = self._height(self._call.value.columns)
        self._slices(
            job.rows, height, lambda at, row, rows: self._add_once(job, at, row, rows, height),
            one_by_one=job.last and self._call.out.inner > 0,
        )  # fmt: skip

    def _weigh_once(self, job: Job, at: Place, row: Place, rows: int, height: int) -> None:
        call, spaces = self._call, self._spaces
        work = partial(self._weigh, job, at, row, rows, height)
        if job.edges or call.shift is not None or call.dropout is not None:
            work()
            return
        kept = [each for each in (call.maxima, call.sums) if each is not None and job.last]
        sizes = row, rows, job.keys, height
        self._alike(work, job, sizes, (spaces.scores, spaces.weights), kept)

    def _add_once(self, job: Job, at: Place, row: Place, rows: int, height: int) -> None:
        work = partial(self._add, job, at, row, rows, height)
        spaces, out = self._spaces, [self._call.out] if job.last else []
        sizes = row, rows, self._call.value.columns, height
        self._alike(work, job, sizes, (spaces.outputs, spaces.total), out)

    def _alike(
        self, work: Callable[[], None], job: Job, sizes: tuple[Place, int, int, int],
        spaces: Sequence[Space], heads: Sequence[Heads],
    ) -> None:  # fmt: skip
        """Work on some rows and columns of spaces, and rows of heads.

        It is written down once for all that are as many and lie alike.
        """
        if any(each.inner for each in heads):
            work()
            return
        core, (row, rows, columns, height) = self._core, sizes
        key = rows, columns, height, job.first, job.last, job.slot, job.turn
        places = [space.first(core, job, row, columns) for space in spaces]
        for each in heads:
            at = (*self._call.rows_at(each, job), (row, each.token))
            places.append(each.tensor.window(at, (), ()))
        core.alike(key, [work], places)

    # -- rows of scores --------------------------------------------------------------------------

    def _weigh(self, job: Job, at: Place, row: Place, rows: int, height: int) -> None:
        """Some rows of scores into weights; their maxima and sums are kept."""
        core, call, state = self._core, self._call, self._state
        x = self._scaled(job, row, rows)
        for edge in job.edges:
            self._hide(job, edge, x, row, rows)
        top, total = state.scratch(0, rows), state.scratch(1, rows)
        maxima, sums = state.maxima(at, rows, height), state.sums(job.turn, at, rows, height)
        core.reduce_max(top, x)
        if job.first:
            core.maxs(maxima, top, FLOOR)
        else:
            core.max(top, top, maxima)
            factor = state.factors(job.slot, at, rows, height)
            core.sub(factor, maxima, top)
            core.exp(factor, factor)
            core.copy(maxima, top)
        core.sub(x, x, core.broadcast_column(maxima))
        core.exp(x, x)
        if job.first:
            core.reduce_sum(sums, x)
        else:
            core.reduce_sum(total, x)
            core.mul(sums, sums, state.factors(job.slot, at, rows, height))
            core.add(sums, sums, total)
        if job.last:
            self._keep(job, row, rows, maxima, sums)
        if call.dropout is not None:
            self._drop(job, x, row, rows)
        self._store(self._spaces.weights.window(core, job, row, rows, job.keys), x)

    def _scaled(self, job: Job, row: Place, rows: int) -> LocalTensor:
        """Scores times the scale, shifted."""
        core, call = self._core, self._call
        x = self._work.get(FLOAT, rows, job.keys)
        loaded = self._ins.copy_in(self._spaces.scores.window(core, job, row, rows, job.keys))
        if call.shift is None:
            core.muls(x, loaded, call.scale)
            self._ins.free_tensor(loaded)
            return x
        shift = self._ins.copy_in(call.shift.window(job, row, rows))
        if shift.dtype is not FLOAT:
            core.cast(x, shift)
            self._ins.free_tensor(shift)
        added = x if shift.dtype is not FLOAT else shift
        if call.shift.before_scale:
            core.add(x, loaded, added)
            core.muls(x, x, call.scale)
        else:
            core.muls(loaded, loaded, call.scale)
            core.add(x, loaded, added)
        if shift.dtype is FLOAT:
            self._ins.free_tensor(shift)
        self._ins.free_tensor(loaded)
        return x

    def _hide(self, job: Job, edge: str, x: LocalTensor, row: Place, rows: int) -> None:
        """Put scores that the mask hides out of reach."""
        core, keys = self._core, job.keys
        mask, half = self._call.mask, self._half.get(FLOAT16, rows, keys)
        for at, count, place in mask.runs(job.spot, row, rows):
            first, *more = mask.read(edge, job.spot, place, count, keys)
            part = half if count == rows else half[at : at + count]
            self._read_mask(part, first.window)
            for other in more:
                lower = self._outs.alloc_tensor(FLOAT16, count, keys)
                self._read_mask(lower, other.window)
                core.min(part, part, lower)
                self._outs.free_tensor(lower, by=Pipe.VECTOR)
        kept = self._kept.get(UINT8, rows, keys)
        core.compare(kept, half, 0.0, CmpMode.NE if first.inverted else CmpMode.EQ)
        core.select(x, kept, x, HIDDEN)

    def _read_mask(self, half: LocalTensor, window: GmSlice) -> None:
        mask = self._masks.copy_in(window)
        self._core.cast(half, mask)
        self._masks.free_tensor(mask)

    def _drop(self, job: Job, x: LocalTensor, row: Place, rows: int) -> None:
        """Zeros where the mask has none; the others are divided by the share that stays."""
        core, call = self._core, self._call
        assert call.dropout is not None
        queries, keys = call.query.rows[job.block.sequence], call.key.rows[job.block.sequence]
        bits = self._masks.copy_in(
            call.dropout.window(job, queries, keys, call.query.heads, row, rows)
        )
        core.select(x, bits, x, 0.0, packed=True)
        self._masks.free_tensor(bits)
        core.muls(x, x, 1.0 / call.dropout.keep)

    def _keep(
        self, job: Job, row: Place, rows: int, maxima: LocalTensor, sums: LocalTensor
    ) -> None:
        """Maxima and sums of finished rows, for the gradient."""
        core, call = self._core, self._call
        for heads, column in ((call.maxima, maxima), (call.sums, sums)):
            if heads is None:
                continue
            tile = self._outs.alloc_tensor(FLOAT, rows, LANES)
            core.copy(tile, core.broadcast_column(column))
            ((_, _, target),) = call.windows(heads, job, row, rows)
            self._outs.copy_out(target, tile)

    # -- rows of outputs -------------------------------------------------------------------------

    def _add(self, job: Job, at: Place, row: Place, rows: int, height: int) -> None:
        """Some rows of products to those before, scaled down as the maxima have grown."""
        core, spaces, state = self._core, self._spaces, self._state
        wide = self._call.value.columns
        new = self._ins.copy_in(spaces.outputs.window(core, job, row, rows, wide))
        x = self._work.get(FLOAT, rows, wide)
        if not job.first:
            old = self._ins.copy_in(spaces.total.window(core, job, row, rows, wide))
            factor = state.factors(job.slot, at, rows, height)
            core.mul(x, old, core.broadcast_column(factor))
            core.add(x, x, new)
            self._ins.free_tensor(old)
        if not job.last:
            self._store(spaces.total.window(core, job, row, rows, wide), new if job.first else x)
            self._ins.free_tensor(new)
            return
        sums = state.sums(job.turn, at, rows, height)
        core.maxs(sums, sums, TINY)
        core.div(x, new if job.first else x, core.broadcast_column(sums))
        self._ins.free_tensor(new)
        for first, count, target in self._call.windows(self._call.out, job, row, rows):
            self._store(target, x if count == rows else x[first : first + count])

    def _store(self, target: GmSlice, x: LocalTensor) -> None:
        """Numbers in the dtype of their target."""
        core, dtype = self._core, target.tensor.dtype
        tile = self._outs.alloc_tensor(dtype, *x.shape)
        if dtype is FLOAT:
            core.copy(tile, x)
        else:
            core.cast(tile, x, RoundMode.CAST_RINT)
        self._outs.copy_out(target, tile)

    # -- slices ----------------------------------------------------------------------------------

    def _height(self, columns: int) -> int:
        """Rows worked on at a time, a power of two."""
        fitting = self._elements // round_up(columns, _GRAIN)
        whole = 1 << max(_LEAST_ROWS, fitting).bit_length() - 1
        return min(self._state.rows, whole)

    def _own(self, rows: int) -> tuple[int, int]:
        """The first one and the number of a block's rows that are this core's."""
        place, cores = self._share
        each = round_up(ceil(rows / cores), _LEAST_ROWS) if cores > 1 else rows
        first = min(rows, place * each)
        return first, min(each, rows - first)

    def _slices(
        self,
        rows: int,
        height: int,
        do: Callable[[Place, Place, int], None],
        *,
        one_by_one: bool = False,
    ) -> None:
        """``do`` (number, first row, rows) for every slice."""
        first, own = self._own(rows)
        whole, rest = divmod(own, height)
        for at in range(whole) if one_by_one else self._core.loop(whole):
            do(at, at * height + first, height)
        if rest:
            do(whole, whole * height + first, rest)


class _State:
    """What is kept of each row: the largest score, sums of weights, and factors of two rounds."""

    def __init__(self, core: Core, rows: int) -> None:
        self.rows = 1 << (max(rows, _LEAST_ROWS) - 1).bit_length()
        self._small = TBuf("small")
        core.pipe.init_buffer(self._small, 2, self.rows * FLOAT.itemsize)
        kept = TBuf("kept")
        core.pipe.init_buffer(kept, 5, self.rows * FLOAT.itemsize)
        self._tiles = [kept.get(FLOAT, self.rows, part=part) for part in range(5)]

    def scratch(self, part: int, rows: int) -> LocalTensor:
        """A number for each of some rows, for now."""
        return self._small.get(FLOAT, rows, part=part)

    def maxima(self, at: Place, rows: int, height: int) -> LocalTensor:
        """The largest scores."""
        return self._part(0, at, rows, height)

    def sums(self, turn: int, at: Place, rows: int, height: int) -> LocalTensor:
        """The sums of weights of one of two blocks."""
        return self._part(1 + turn, at, rows, height)

    def factors(self, slot: int, at: Place, rows: int, height: int) -> LocalTensor:
        """What sums before one of two rounds are multiplied with."""
        return self._part(3 + slot, at, rows, height)

    def _part(self, number: int, at: Place, rows: int, height: int) -> LocalTensor:
        tile = self._tiles[number].view(self.rows // height, height)[at]  # type: ignore[index]
        return tile if rows == height else tile.stretch(0, rows)
