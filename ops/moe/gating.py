"""MoeGatingTopKSoftmax: the experts that tokens are sent to, by the largest shares of a softmax.

Where few of at most 1024 experts are wanted, tiles of tokens are sorted together: groups of 32 with
their places (vbitsort32), eight of each four at a time (vmrgsort4v2). Otherwise tokens are sorted
one by one, as the TopK of the high-level interface does. Source: ops-transformer
moe/moe_gating_top_k_softmax, host tilings and device schedules (perf, e_k_full_load); asc-devkit,
sort/topk.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.ascendc import Core, GlobalTensor, Kernel, LocalTensor, TBuf, TPosition, TQue
from npusim.ascendc.folds import LARGEST, SUM
from npusim.ascendc.task import Task, made
from npusim.library.sorted_pairs import GROUP, LISTS, PAIR_BYTES
from npusim.ops.moe.checks import MOST_CHOSEN
from npusim.schedules.rows.shares import RowShare
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import BFLOAT16, FLOAT, FLOAT16, INT32
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from collections.abc import Hashable

    from numpy.typing import NDArray

    from npusim.ascendc.loops import Index
    from npusim.hardware.profile import Profile

_MERGED = GROUP * LISTS  # numbers in a repeat of it
_FEW = 8  # experts that are kept of every group: what a block holds
_MOST_TOGETHER = 1024
_BUFFERS = 6  # of a tile in float32: two come in, two go out, two are worked in
_ROW_BUFFERS = 4  # for a token that is sorted alone


class MoeGatingTopKSoftmax(Kernel):
    """y, experts, rows [tokens, k] = the k largest of softmax(x[token]), where they are, row ids.

    Tokens that are ``finished`` name an expert that there isn't. A row id is
    ``place * tokens + token``; the second interface has none, but ``every`` share if asked for,
    and with ``renorm`` the softmax of the k largest of x.
    """

    def __init__(
        self,
        profile: Profile,
        x: GlobalTensor,
        finished: GlobalTensor | None,
        y: GlobalTensor,
        experts: GlobalTensor,
        rows: GlobalTensor | None,
        every: GlobalTensor | None = None,
        *,
        op_type: str = "MoeGatingTopKSoftmax",
        renorm: bool = False,
    ) -> None:
        self.op_type, self.every, self.renorm = op_type, every, renorm
        (self.tokens, self.columns), self.count = x.shape, y.shape[-1]
        if not 0 < self.count <= min(self.columns, MOST_CHOSEN):
            raise KernelError(self.op_type, f"{self.count} of {self.columns} experts")
        self.x, self.finished, self.y, self.experts = x, finished, y, experts
        self.reads = (x,) if finished is None else (x, finished)
        self.results = tuple(each for each in (y, experts, rows) if each is not None)
        self.writes = self.results if every is None else (*self.results, every)
        self.kind = x.dtype
        few = self.columns % _FEW == 0 and self.count <= _FEW
        self.together = self.columns < _FEW or (few and self.columns <= _MOST_TOGETHER)
        if renorm and not self.together:
            problem = f"shares of {self.count} of {self.columns} experts alone aren't modelled"
            raise KernelError(op_type, problem)
        self.padded = round_up(self.columns, GROUP)
        # Tokens that are sorted one by one keep the type of x, but for one that nothing sorts.
        self.sorted = FLOAT if self.together or x.dtype is BFLOAT16 else x.dtype
        share = (_BUFFERS if self.together else _ROW_BUFFERS) * FLOAT.itemsize
        beside = 0 if self.together else 2 * self.padded * PAIR_BYTES
        row = share * self.padded + (3 + renorm) * round_up(self.count * FLOAT.itemsize, 32)
        tile = (int(profile.buffers.ub_bytes) - beside - 4096) // row
        if tile < 1:
            raise KernelError(self.op_type, f"{self.columns} experts are more than UB holds")
        self.share = RowShare.of(self.tokens, profile.cores.vector_cores, tile)
        self.block_dim = self.share.cores

    def block_kind(self, block_idx: int) -> Hashable:
        return self.share.block_kind(block_idx)

    def process(self, core: Core) -> None:
        """Tiles of tokens."""
        tile, size = self.share.tile, self.kind.itemsize
        self.in_que, self.flag_que = (TQue(TPosition.VECIN, 1, name) for name in ("x", "finished"))
        names = ("y", "experts", "rows")[: len(self.results)]
        self.out_ques = [TQue(TPosition.VECOUT, 1, name) for name in names]
        self.wide, self.pairs, self.column = TBuf("shares"), TBuf("pairs"), TBuf("column")
        core.pipe.init_buffer(self.in_que, 1, tile * self.padded * size)
        core.pipe.init_buffer(self.flag_que, 1, tile)
        for queue, width in zip(self.out_ques, (size, 4, 4), strict=False):
            core.pipe.init_buffer(queue, 1, tile * round_up(self.count * width, 32))
        self.every_que = TQue(TPosition.VECOUT, 1, "every")
        held = self.wide if self.every is None else self.every_que
        core.pipe.init_buffer(held, 1, tile * self.padded * FLOAT.itemsize)
        pairs = (tile if self.together else 2) * self.padded * PAIR_BYTES
        core.pipe.init_buffer(self.pairs, 1, pairs)
        core.pipe.init_buffer(self.column, 1, tile * FLOAT.itemsize)
        self.chosen = TBuf("chosen")
        if self.renorm:
            core.pipe.init_buffer(self.chosen, 1, tile * round_up(self.count * FLOAT.itemsize, 32))
        for first, count in self.share.tiles(core):
            self._tile(core, first, count)

    def _tile(self, core: Core, first: Index, count: int) -> None:
        width = self.columns
        source = self.x.window(((first, width),), (count, width), (width, 1))
        apart = count > 1 and (not self.together or width % _FEW > 0)
        x = self.in_que.copy_in(source.by_rows() if apart else source)
        shares = self._widened(core, x) if self.renorm else self._softmax(core, x)
        if shares is not x:
            self.in_que.free_tensor(x)
        if self.every is not None:
            self.every_que.enque(shares)
            shares = self.every_que.deque(shares)
            target = self.every.window(((first, width),), (count, width), (width, 1))
            core.copy_runs(target.by_rows(), shares)
        finished = None
        if self.finished is not None:
            finished = self.flag_que.copy_in(self.finished.span(first, count))
        results = [
            queue.alloc_tensor(kind, count, self.count)
            for queue, kind in zip(self.out_ques, (self.kind, INT32, INT32), strict=False)
        ]
        if self.together:
            self._sort_together(core, shares, results)
        else:
            for row in core.loop(count):
                self._sort_alone(core, [each[row] for each in results], finished)
        if len(results) > 2:
            self._number_rows(core, results[2])
        self._numbers(core, shares, finished, results, first)
        if finished is not None:
            self.flag_que.free_tensor(finished)
        if self.every is not None:
            self.every_que.free_tensor(shares)
        if shares is x:
            self.in_que.free_tensor(x)
        for tensor, result, queue in zip(self.results, results, self.out_ques, strict=True):
            target = tensor.window(((first, self.count),), result.shape, (self.count, 1))
            queue.copy_out(target if self.together else target.by_rows(), result)

    def _softmax(self, core: Core, x: LocalTensor) -> LocalTensor:
        """Shares of a tile's rows in float32, rounded where they are sorted as halves."""
        if self.every is None:
            wide = self.wide.get(FLOAT, *x.shape)
        else:
            wide = self.every_que.alloc_tensor(FLOAT, *x.shape)
        self._shared_out(core, wide, x if x.dtype is FLOAT else core.cast(wide, x))
        if self.sorted is FLOAT16:
            core.record_vector("vconv", wide, wide.numel)
        return wide

    def _shared_out(self, core: Core, wide: LocalTensor, source: LocalTensor) -> None:
        """The softmax of every row."""
        column = self.column.get(FLOAT, source.shape[0])
        core.whole_reduce(LARGEST, column, source)
        core.sub(wide, source, core.broadcast_column(column))
        core.exp(wide, wide)
        column = self.column.get(FLOAT, source.shape[0])
        core.whole_reduce(SUM, column, wide)
        core.div(wide, wide, core.broadcast_column(column))

    def _widened(self, core: Core, x: LocalTensor) -> LocalTensor:
        """What is sorted where only the largest are shared out."""
        return x if x.dtype is FLOAT else core.cast(self.wide.get(FLOAT, *x.shape), x)

    def _shares(self, core: Core, found: NDArray[Any] | None, result: LocalTensor) -> None:
        """The softmax of the largest, which the sort has left in rows of blocks."""
        chosen = self.chosen.get(FLOAT, *result.shape)
        core.wrote(chosen)
        if found is not None:
            chosen.target(core.depth)[...] = found
        self._shared_out(core, chosen, chosen)
        lanes = core.costs.repeat_elements(FLOAT.itemsize)
        core.record_vector("vreducev2", result, lanes, rows=result.shape[0])
        if found is not None:
            result.target(core.depth)[...] = chosen.values(core.depth).astype(result.dtype.numpy)

    def _sort_together(self, core: Core, shares: LocalTensor, results: list[LocalTensor]) -> None:
        """Rows in whole groups of 32, sorted, and eight of each merged until eight are left."""
        rows, lanes = shares.shape[0], core.costs.repeat_elements(FLOAT.itemsize)
        pairs = self.pairs.get(FLOAT, 2 * rows * self.padded)
        if self.count == 1 and self.columns <= lanes:
            core.record_vector("vcmax", pairs, self.columns, rows=rows)
        else:
            core.move_bursts(pairs, shares, rows, ceil(self.columns / _FEW))
            if self.padded > self.columns:
                core.record_vector("vector_dup", pairs, GROUP, rows=rows)
            self._count_up(core, pairs, rows)
            core.record_vector("vbitsort32", pairs, lanes, rows=rows * self.padded // GROUP)
            self._merge_groups(core, pairs, rows)
        for each in results[:2]:
            core.record_vector("vreducev2", each, lanes, rows=rows)
            core.wait_vector()  # to read how many were kept
        if self.finished is not None:
            self._name_nobody(core, results[1])
        if self.kind is not FLOAT:
            core.record_vector("vadds", results[0], results[0].numel)

    def _merge_groups(self, core: Core, pairs: LocalTensor, rows: int) -> None:
        """Up to 16 groups of every row by four; those beyond apart, then the two row by row."""
        groups, most = self.padded // GROUP, LISTS**2
        if groups == 1:
            return
        self._merge(core, pairs, rows, min(groups, most))
        if groups > most:
            self._merge(core, pairs, rows, groups - most)
            for _ in core.loop(rows):
                core.scalar_call()
                core.record_vector("vmrgsort4v2", pairs, core.costs.repeat_elements(FLOAT.itemsize))
            core.move_bursts(pairs, pairs, rows, 2 * _FEW * PAIR_BYTES // core.block_bytes)

    def _merge(self, core: Core, pairs: LocalTensor, rows: int, lists: int) -> None:
        """The eight largest of so many groups; lists that there aren't are filled up."""
        lanes = core.costs.repeat_elements(FLOAT.itemsize)
        for room in (LISTS**2, LISTS) if lists > LISTS else (LISTS,):
            if lists < room:
                core.record_vector("vector_dup", pairs, 2 * _FEW * room * rows)
            for _ in range(lists):
                core.move_bursts(pairs, pairs, rows, _FEW * PAIR_BYTES // core.block_bytes)
            steps = ceil(rows * room * _FEW / _MERGED)
            core.record_vector("vmrgsort4v2", pairs, lanes, rows=steps)
            lists = LISTS

    def _name_nobody(self, core: Core, experts: LocalTensor) -> None:
        """Flags converted twice and times the experts, spread, gathered, and the larger taken."""
        rows = experts.shape[0]
        for _ in range(3):
            core.record_vector("vadds", experts, rows)
        core.record_vector("vbrcb", experts, rows)
        core.record_vector("vreducev2", experts, _FEW, rows=rows)
        core.wait_vector()
        core.record_vector("vadds", experts, experts.numel)

    def _count_up(self, core: Core, pairs: LocalTensor, rows: int) -> None:
        """Places of the first row, and copies of them for the others."""
        core.wait_vector()
        core.emit_scalar("st_ub", operations=_FEW, stores=_FEW)
        for _ in range(_FEW, self.padded, _FEW):
            core.record_vector("vadds", pairs, _FEW)
        for _ in range(0, self.padded, core.costs.repeat_elements(FLOAT.itemsize)):
            core.record_vector("vadds", pairs, min(64, self.padded), rows=rows)

    def _sort_alone(
        self, core: Core, results: list[LocalTensor], finished: LocalTensor | None
    ) -> None:
        """Groups of 32, then lists of like length by four, at last those that are left by two."""
        pairs = self.pairs.get(FLOAT, 2 * self.padded)
        lanes = core.costs.repeat_elements(FLOAT.itemsize)
        bursts = 2 * self.padded * PAIR_BYTES // core.block_bytes // 2
        core.scalar_call()
        core.record_vector("vbitsort32", pairs, lanes, rows=self.padded // GROUP)
        core.move_bursts(pairs, pairs, bursts, 1)
        length = GROUP
        while length * LISTS <= self.padded:
            core.scalar_call()
            whole = self.padded // (length * LISTS) * length * LISTS
            core.record_vector("vmrgsort4v2", pairs, lanes, rows=whole // _MERGED)
            core.move_bursts(pairs, pairs, bursts, 1)
            length *= LISTS
        for merged in self._left(length):
            core.scalar_call()
            core.record_vector("vmrgsort4v2", pairs, lanes, rows=ceil(merged / _MERGED))
        for each in results[:2]:
            core.scalar_call()
            core.record_vector("vreducev2", each, 2 * self.count)
            core.wait_vector()  # to read how many were kept
        if finished is not None:
            core.emit_scalar("ld_ub", loads=1, operations=1)

    def _left(self, length: int) -> list[int]:
        """Numbers that go into each merge of two lists, of which no more are kept than wanted."""
        lists, rest = [], self.padded
        while rest and length >= GROUP:
            lists += [length] * (rest // length)
            rest, length = rest % length, length // LISTS
        found, sorted_so_far = [], lists[0]
        for each in lists[1:]:
            found.append(min(sorted_so_far, self.count) + min(each, self.count))
            sorted_so_far += each
        return found

    def _number_rows(self, core: Core, rows: LocalTensor) -> None:
        """The ids of the first rows by the scalar unit in a loop, the others by adding to them."""
        count, width = rows.shape
        first = min(count, _FEW) if self.together else 1
        stored = first * min(width, _FEW)
        core.wait_vector()
        core.emit_scalar("st_ub", operations=2 * stored, stores=stored, turns=stored)
        step = first * width
        if count > first:
            for _ in core.loop(ceil((count - first) / first)):
                core.scalar_call()
                core.record_vector("vadds", rows, step)

    def _numbers(
        self,
        core: Core,
        shares: LocalTensor,
        finished: LocalTensor | None,
        results: list[LocalTensor],
        first: Index,
    ) -> None:
        for each in results:
            core.wrote(each)
        if not core.numerics:
            if self.renorm:
                self._shares(core, None, results[0])
            return
        depth = core.depth
        values = shares.values(depth)
        if self.sorted is FLOAT16:
            values = values.astype(np.float16)
        order = np.argsort(-values.astype(np.float64), axis=-1, kind="stable")[..., : self.count]
        found = np.take_along_axis(values, order, -1)
        if self.renorm:
            self._shares(core, found, results[0])
        else:
            results[0].target(depth)[...] = found.astype(results[0].dtype.numpy)
        experts = order
        if finished is not None:
            over = finished.values(depth)[..., None].astype(bool)
            experts = np.where(over, self.columns, order)
        results[1].target(depth)[...] = experts
        if len(results) < 3:
            return
        token = core.counter(first).values(depth)[..., None, None]
        places = np.arange(self.count) * self.tokens
        for rows in results[2:]:
            rows.target(depth)[...] = token + np.arange(order.shape[-2])[:, None] + places


def moe_gating_top_k_softmax(task: Task) -> tuple[Kernel, ...]:
    """x and which tokens are finished; ``k`` tells the results where they are left out."""
    return (_gating(task, 3),)


def moe_gating_top_k_softmax_v2(task: Task) -> tuple[Kernel, ...]:
    """Without ids of rows; the shares of all experts where they are asked for."""
    renorm = task.whole_number("renorm", 0) == 1
    asked = not renorm and bool(task.attributes.get("output_softmax_result_flag", False))
    (x,) = task.present(1)
    every = (*task.outputs[2:], made(x.shape, FLOAT, "shares"))[0]
    flat = every.view(x.numel // x.shape[-1], x.shape[-1]) if asked else None
    return (_gating(task, 2, flat, renorm=renorm),)


def _gating(
    task: Task, count: int, every: GlobalTensor | None = None, *, renorm: bool = False
) -> Kernel:
    (x,) = task.present(1)
    finished = task.inputs[1] if len(task.inputs) > 1 else None
    if finished is not None and not finished.shape:
        finished = None
    k = task.outputs[0].shape[-1] if task.outputs else task.whole_number("k", 1)
    shape = (*x.shape[:-1], k)
    kinds = [(x.dtype, "y"), (INT32, "experts"), (INT32, "rows")][:count]
    results = list(task.outputs[:count]) or [made(shape, kind, name) for kind, name in kinds]
    tokens = x.numel // x.shape[-1]
    flags = None if finished is None else finished.view(tokens)
    flat = [each.view(tokens, k) for each in results]
    return MoeGatingTopKSoftmax(
        task.profile, x.view(tokens, x.shape[-1]), flags, flat[0], flat[1],
        flat[2] if count > 2 else None, every, op_type=task.op_type,
        renorm=renorm,
    )  # fmt: skip
