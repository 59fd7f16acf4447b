"""ApplyTopKTopP: of a row of logits those that are likely stay, all others become -inf.

The row comes sorted, the smallest first, with places. The k largest stay, those as large as the
last of them too; of these as many of the largest as come to a probability of p together. Every row
is one core's. Where few are left, the row is filled with -inf, and they are stored one by one;
else probabilities are added up along the row by doubling steps through global memory, and logits
are compared with the first that stays. Source: ops-nn index/apply_top_k_top_p_with_sorted, host
tiling and device schedule (apply_top_k_top_p_opt.h).
"""

from __future__ import annotations

from functools import cached_property
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.ascendc import Core, GlobalTensor, Kernel, TBuf, TPosition, TQue
from npusim.ascendc.intrinsics.vector import CmpMode
from npusim.ascendc.loops import looked_up, values_of
from npusim.ascendc.task import Task, made
from npusim.schedules.rows.shares import RowShare
from npusim.values.dtypes import BFLOAT16, FLOAT, INT32, UINT8

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.ascendc.gm_slices import GmSlice
    from npusim.ascendc.loops import Index
    from npusim.hardware.profile import Profile
    from npusim.operators.host import Host

_RESERVED_BYTES = 1024
_PART = 1024  # numbers that are looked through at a time
USUAL = 50  # that are asked for where nobody tells


class ApplyTopKTopPWithSorted(Kernel):
    """out[row, v] = logits[row, v] where it stays, else -inf."""

    op_type = "ApplyTopKTopPWithSorted"

    def __init__(
        self,
        profile: Profile,
        given: tuple[GlobalTensor, GlobalTensor],
        logits: GlobalTensor,
        limits: tuple[GlobalTensor | None, GlobalTensor | None],
        out: GlobalTensor,
    ) -> None:
        (self.sorted, self.places), self.logits, self.out = given, logits, out
        self.p, self.k = limits
        self.rows, self.length = logits.shape
        self.reads = (*given, logits, *(each for each in limits if each is not None))
        self.writes = (out,)
        self.division = self.share = RowShare.of(self.rows, profile.cores.vector_cores, 1)
        self.block_dim = self.share.cores
        size, block = logits.dtype.itemsize, profile.buffers.block_bytes
        room = profile.buffers.ub_bytes - _RESERVED_BYTES
        wide = FLOAT.itemsize
        self.long = min(self.length, room // 2 // wide)
        beside = room - block
        self.few = beside // (2 * wide + size + block) // _PART * _PART
        lanes = 256 // size
        per = 2 * size + 1 + (wide if logits.dtype is BFLOAT16 else 0)
        self.tile = beside // per // lanes * lanes
        self.count = self._asked()
        self.sums = made((self.rows, self.length), FLOAT, "sums")
        self.scratch = (self.sums,)

    @property
    def workspace_bytes(self) -> int:
        """None: sums lie where the result will."""
        return 0

    def _asked(self) -> int:
        """How many a row is asked for, the most of all rows; all where there is no limit."""
        if self.k is None:
            return self.length
        if self.k.array is None:
            return min(USUAL, self.length)
        asked = self.k.array.reshape(-1).astype(np.int64)
        return int(np.where((asked <= 0) | (asked >= self.length), self.length, asked).max())

    @cached_property
    def stays(self) -> NDArray[Any]:
        """The result."""
        arrays = (self.sorted.array, self.places.array)
        assert arrays[0] is not None
        assert arrays[1] is not None
        values, places = arrays[0].astype(np.float32), arrays[1]
        first = np.zeros(self.rows, np.int64)
        if self.k is not None and self.k.array is not None:
            asked = self.k.array.reshape(-1).astype(np.int64)
            limited = (asked > 0) & (asked < self.length)
            last = np.take_along_axis(
                values, (self.length - np.where(limited, asked, self.length))[:, None], 1
            )
            first = np.where(limited, (values < last).sum(-1), 0)
        if self.p is not None and self.p.array is not None:
            first = np.maximum(first, self._by_probability(values, first))
        kept = np.arange(self.length) >= first[:, None]
        ordered = np.where(kept, arrays[0], np.array(-np.inf, arrays[0].dtype))
        found = np.empty_like(arrays[0])
        np.put_along_axis(found, places.astype(np.int64), ordered, -1)
        return found

    def _by_probability(self, values: NDArray[np.float32], first: NDArray[np.int64]) -> Any:
        """The first that stays of those that are left; at least one does."""
        assert self.p is not None
        assert self.p.array is not None
        left = np.where(np.arange(self.length) >= first[:, None], values, -np.inf)
        shares = np.exp(left - values[:, -1:])
        sums = np.cumsum(shares / shares.sum(-1, keepdims=True), -1, dtype=np.float32)
        bound = np.float32(1.0) - self.p.array.reshape(-1, 1).astype(np.float32)
        found = np.argmax(sums > bound, -1)
        return np.where((sums > bound).any(-1), found, self.length - 1)

    def process(self, core: Core) -> None:
        """Row by row."""
        self._init(core)
        first = core.get_block_idx() * self.share.per_core
        for row, _ in core.tiles(first, self.share.length(core.get_block_idx()), 1):
            for limit in (self.k, self.p):
                if limit is not None:
                    core.load_scalar(limit.view(limit.numel).window(((row, 1),), (), ()))
            core.load_lines(1)  # the largest
            if self.k is not None and self.count < self.length:
                self._look_back(core, row)
            if self.count <= min(self.few, self.long):
                self._few(core, row)
            else:
                self._many(core, row)

    def _init(self, core: Core) -> None:
        size, wide = self.out.dtype.itemsize, FLOAT.itemsize
        self.ins, self.outs = TQue(TPosition.VECIN, 1, "in"), TQue(TPosition.VECOUT, 1, "out")
        self.work, self.mask = TBuf("work"), TBuf("mask")
        most = core.capacity_bytes("UB") // 4 // _RESERVED_BYTES * _RESERVED_BYTES
        nbytes = min(most, max(min(self.tile, self.length) * size, self.long * wide))
        core.pipe.init_buffer(self.ins, 1, nbytes)
        core.pipe.init_buffer(self.outs, 1, nbytes)
        core.pipe.init_buffer(self.work, 1, nbytes)
        core.pipe.init_buffer(self.mask, 1, nbytes // 4)
        self.most = nbytes // wide

    def _part(self, tensor: GlobalTensor, row: Index, start: Index, count: int) -> GmSlice:
        return tensor.window(((row, self.length), (start, 1)), (count,), (1,))

    def _look_back(self, core: Core, row: Index) -> None:
        """From where on numbers are as large as the last that is asked for."""
        before = min(self.few, self.length - self.count)
        seen = self.ins.copy_in(
            self._part(self.sorted, row, self.length - self.count - before, before)
        )
        core.emit_scalar("ld_ub", loads=1, operations=4)
        self.ins.free_tensor(seen)

    def _shares(self, core: Core, row: Index, start: Index, count: int) -> Any:
        """Numbers of a sorted row, less the largest, through the exponential."""
        given = self.ins.copy_in(self._part(self.sorted, row, start, count))
        wide = self.work.get(FLOAT, count)
        if given.dtype is FLOAT:
            core.adds(wide, given, 0.0)
        else:
            core.cast(wide, given)
            core.adds(wide, wide, 0.0)
        self.ins.free_tensor(given)
        return core.exp(wide, wide)

    def _few(self, core: Core, row: Index) -> None:
        """Sums by the scalar unit; -inf everywhere, and then what stays."""
        count = self.count
        shares = self._shares(core, row, self.length - count, count)
        core.record_vector("vcadd", shares, count)
        core.muls(shares, shares, 1.0)
        core.wait_vector()
        if self.p is not None:
            core.emit_scalar("ld_ub", loads=count, operations=2 * count)
        for start, number in core.tiles(0, self.length, min(self.tile, self.most)):
            tile = core.duplicate(self.outs.alloc_tensor(self.out.dtype, number), -np.inf)
            self._filled(core, tile, row, start)
            self.outs.copy_out(self._part(self.out, row, start, number), tile)
        self._put(core, row, count)

    def _put(self, core: Core, row: Index, count: int) -> None:
        """Numbers that stay, one by one; each fills a block before it is stored."""
        start = self.length - count
        kept = self.ins.copy_in(self._part(self.sorted, row, start, count))
        core.record_vector("vbrcb", kept, count)
        self.ins.free_tensor(kept)
        where = self.ins.copy_in(self._part(self.places, row, start, count))
        self.ins.free_tensor(where)
        tile = core.duplicate(self.outs.alloc_tensor(self.out.dtype, count), 0.0)
        self.outs.enque(tile)
        self.outs.deque(tile)
        nowhere = np.full(count, -(1 << 40), np.int64)
        for turn in core.loop(count):
            core.emit_scalar("ld_ub", loads=1)
            # They are among what the row has been filled with.
            target = self.out.window(((looked_up(turn, nowhere), 1),), (1,), (1,)).skipping()
            core.copy_runs(target, tile[:1])
        self.outs.free_tensor(tile)

    def _filled(self, core: Core, tile: Any, row: Index, start: Index) -> None:
        """The numbers of the result."""
        if not core.numerics:
            return
        columns = values_of(start)[:, None] + np.arange(tile.shape[0])
        rows = values_of(row)
        target = tile.target(core.depth)
        target[...] = self.stays[rows[:, None, None], columns[None]].reshape(target.shape)

    def _many(self, core: Core, row: Index) -> None:
        """Probabilities, added up along the row, and logits compared with the first that stays."""
        begin = self.length - self.count
        if self.p is not None:
            for start, count in core.tiles(begin, self.count, self.most):
                core.record_vector("vcadd", self._shares(core, row, start, count), count)
                core.wait_vector()
            parts = 1 if self.out.dtype is FLOAT else 2  # the result has room for half of them
            for part in range(parts):
                self._add_up(core, row, part * self.length // parts, self.length // parts)
        for start, count in core.tiles(0, self.length, min(self.tile, self.most)):
            x = self.ins.copy_in(self._part(self.logits, row, start, count))
            tile = self.outs.alloc_tensor(self.out.dtype, count)
            core.duplicate(tile, -np.inf)
            wide = x
            if x.dtype is BFLOAT16:
                wide = core.cast(self.work.get(FLOAT, count), x)
            core.compare(self.mask.get(UINT8, count), wide, 0.0, CmpMode.GE)
            core.record_vector("vsel", tile, count)
            core.wrote(tile)
            self._filled(core, tile, row, start)
            self.ins.free_tensor(x)
            self.outs.copy_out(self._part(self.out, row, start, count), tile)

    def _add_up(self, core: Core, row: Index, begin: int, count: int) -> None:
        """Sums of 2, 4, 8 ... probabilities, through memory: on the device that of the result."""

        def part(start: Index, length: int) -> GmSlice:
            return self._part(self.sums, row, start, length)

        for start, length in core.tiles(begin, count, self.most):
            shares = self._shares(core, row, start, length)
            tile = core.muls(self.outs.alloc_tensor(FLOAT, length), shares, 1.0)
            self.outs.copy_out(part(start, length), tile)
        step = 1
        while step < count:
            for start, length in core.tiles(0, count - step, self.most):
                one = self.ins.copy_in(part(start, length))
                total = core.add(self.outs.alloc_tensor(FLOAT, length), one, one)
                self.ins.free_tensor(one)
                other = self.ins.copy_in(part(start + step, length))
                self.ins.free_tensor(other)
                self.outs.copy_out(part(start + step, length), total)
            step *= 2
        for start, length in core.tiles(0, count, min(self.few, self.most)):
            seen = self.ins.copy_in(part(start, length))
            core.emit_scalar("ld_ub", loads=1, operations=2)
            self.ins.free_tensor(seen)
        core.emit_scalar("ld_ub", loads=ceil(self.few / _PART) + _PART / 2, operations=_PART)


def apply_top_k_top_p(task: Task) -> tuple[Kernel, ...]:
    """Sorted numbers and their places, p, k, and the logits as they came."""
    given = (*task.inputs, *[None] * 5)[:5]
    values, places, p, k, logits = given
    if values is None or places is None or (p is None and k is None):
        raise task.refused("needs sorted numbers, their places, and p or k")
    if task.profile.cores.style != "split":
        raise task.refused(f"{task.profile.name} has no kernel for it")
    out = task.outputs[0] if task.outputs else made(values.shape, values.dtype)
    return (ApplyTopKTopPWithSorted(task.profile, (values, places), logits or values, (p, k), out),)


def kept(host: Host, logits: GlobalTensor, p: GlobalTensor | None, k: GlobalTensor | None) -> Any:
    """Logits sorted, and those of them that stay."""
    if logits.shape[1] == 1:
        return logits
    outputs = host.empty(logits.shape, logits.dtype), host.empty(logits.shape, INT32, "places")
    values, places = host.run("Sort", logits, axis=-1, descending=False, outputs=outputs)
    return host.run("ApplyTopKTopPWithSorted", values, places, p, k, logits)
