"""MoeReRouting: tokens that came rank by rank are put together expert by expert.

A core takes whole ranks: the run of each expert is copied to behind those of lower ranks, with the
tokens' scales and where they came from. Source: ops-transformer moe/moe_re_routing, device
schedule.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from npusim.ascendc import Core, GlobalTensor, Kernel, TBuf, TPosition, TQue
from npusim.ascendc.loops import looked_up, values_of
from npusim.ascendc.queues import BUFFER_NUM, TQueBind
from npusim.ascendc.scalars import Scalar
from npusim.ascendc.task import Task, made
from npusim.schedules.rows.layouts import UB_SHARE
from npusim.values.dtypes import INT32

if TYPE_CHECKING:
    from collections.abc import Hashable

    from numpy.typing import NDArray

    from npusim.ascendc.loops import Index
    from npusim.hardware.profile import Profile


class _Run(NamedTuple):
    """Where the tokens of a rank for an expert are, and where they go to."""

    source: int
    target: int


class MoeReRouting(Kernel):
    """(tokens, counts by rank and expert, scales) to (tokens, scales, places, counts by expert)."""

    op_type = "MoeReRouting"

    def __init__(
        self,
        profile: Profile,
        tokens: GlobalTensor,
        counts: GlobalTensor,
        scales: GlobalTensor | None,
        outputs: tuple[GlobalTensor, GlobalTensor | None, GlobalTensor, GlobalTensor],
        numbers: NDArray[np.int64],
    ) -> None:
        self.tokens, self.counts, self.scales = tokens, counts, scales
        self.out, self.out_scales, self.places, self.totals = outputs
        self.width = tokens.shape[-1]
        self.ranks, self.experts = counts.shape
        self.reads = tuple(each for each in (tokens, counts, scales) if each is not None)
        given = (self.out, self.out_scales, self.places, self.totals)
        self.writes = tuple(each for each in given if each is not None)
        room = int(profile.buffers.ub_bytes * UB_SHARE) // BUFFER_NUM
        each = self.width * tokens.dtype.itemsize + INT32.itemsize * (2 + (scales is not None))
        self.most = max(1, room // each)
        self.block_dim = max(1, min(profile.cores.vector_cores, self.ranks))
        self.runs = _runs(numbers)
        self.numbers = numbers

    def block_kind(self, block_idx: int) -> Hashable:
        ranks = range(block_idx, self.ranks, self.block_dim)
        return tuple(
            (rank, *((length, len(runs)) for length, runs in self.runs[rank].items()))
            for rank in ranks
        )

    def process(self, core: Core) -> None:
        """One rank after the other."""
        rows = min(self.most, max((max(each, default=1) for each in self.runs), default=1))
        self.bind = TQueBind(BUFFER_NUM, "tokens")
        core.pipe.init_buffer(self.bind, BUFFER_NUM, rows * self.width * self.tokens.dtype.itemsize)
        self.scale_bind = TQueBind(BUFFER_NUM, "scales")
        if self.scales is not None:
            nbytes = rows * self.scales.dtype.itemsize
            core.pipe.init_buffer(self.scale_bind, BUFFER_NUM, nbytes)
        self.place_que, self.ramp_buf = (
            TQue(TPosition.VECOUT, BUFFER_NUM, "places"),
            TBuf("ramp"),
        )
        core.pipe.init_buffer(self.place_que, BUFFER_NUM, rows * INT32.itemsize)
        core.pipe.init_buffer(self.ramp_buf, 1, rows * INT32.itemsize)
        self.ramp = core.duplicate(self.ramp_buf.get(INT32, rows), 0)
        core.arrange(self.ramp, self.ramp, how=lambda values: values + np.arange(rows))
        for rank in range(core.get_block_idx(), self.ranks, self.block_dim):
            self._rank(core, rank)
        if core.get_block_idx() == 0:
            self._add_up(core)

    def _rank(self, core: Core, rank: int) -> None:
        for loops in ((rank, self.experts), (self.experts, self.ranks)):
            self._sum_up(core, *loops)
        for length, runs in self.runs[rank].items():
            table = np.array(runs, np.int64)
            for turn in core.loop(len(runs) if length else 0):
                source, target = (looked_up(turn, table[:, side]) for side in (0, 1))
                for first, count in core.tiles(0, length, self.most):
                    self._copy(core, (source, first), (target, first), count)

    def _sum_up(self, core: Core, outer: int, inner: int) -> None:
        """What comes before, from lower ranks and from other experts, one number at a time."""
        for _ in core.loop(outer):
            for turn in core.loop(inner):
                core.load_scalar(self.counts.window(((turn, 1),), (), ()))
                core.emit_scalar("add", operations=1, turns=1)

    def _copy(
        self, core: Core, source: tuple[Index, Index], target: tuple[Index, Index], count: int
    ) -> None:
        width = self.width
        shape, steps = (count * width,), (1,)
        come, go = (tuple((each, width) for each in side) for side in (source, target))
        tile = self.bind.copy_in(self.tokens.window(come, shape, steps))
        self.bind.copy_out(self.out.window(go, shape, steps), tile)
        places = tuple((each, 1) for each in target)
        if self.scales is not None and self.out_scales is not None:
            given = self.scales.window(tuple((each, 1) for each in source), (count,), (1,))
            scale = self.scale_bind.copy_in(given)
            self.scale_bind.copy_out(self.out_scales.window(places, (count,), (1,)), scale)
        numbers = self.place_que.alloc_tensor(INT32, count)
        core.adds(numbers, self.ramp[:count], _number(core, *source))
        self.place_que.copy_out(self.places.window(places, (count,), (1,)), numbers)

    def _add_up(self, core: Core) -> None:
        """The tokens of each expert, by the scalar unit."""
        kind, every = self.counts.dtype, self.ranks * self.experts
        given, sums = TQue(TPosition.VECIN, 1, "counts"), TQue(TPosition.VECOUT, 1, "sums")
        core.pipe.init_buffer(given, 1, every * kind.itemsize)
        core.pipe.init_buffer(sums, 1, self.experts * kind.itemsize)
        counts = given.copy_in(self.counts.view(every).span(0, every))
        total = sums.alloc_tensor(kind, self.experts)
        core.emit_scalar("ld_st_ub", loads=every, operations=every, stores=every)
        core.wrote(total)
        shape = (self.ranks, self.experts)
        core.arrange(
            total, counts, how=lambda values: values.reshape(*values.shape[:-1], *shape).sum(-2)
        )
        given.free_tensor(counts)
        sums.copy_out(self.totals.span(0, self.experts), total)


def moe_re_routing(task: Task) -> tuple[Kernel, ...]:
    """Without their numbers, all ranks have as many tokens for all experts."""
    tokens, counts, scales = (*task.inputs, *[None] * 3)[:3]
    if tokens is None or counts is None or len(tokens.shape) != 2 or len(counts.shape) != 2:
        raise task.refused("needs tokens, and their counts by rank and expert")
    if scales is not None and not scales.shape:
        scales = None
    total, experts = tokens.shape[0], counts.shape[1]
    if task.outputs:
        out, out_scales, places, totals = task.present(0, 4)
    else:
        like = tokens if scales is None else scales
        out, out_scales = made(tokens.shape, tokens.dtype), made((total,), like.dtype, "scales")
        places, totals = made((total,), INT32, "places"), made((experts,), counts.dtype, "totals")
    outputs = (out, None if scales is None else out_scales, places, totals)
    numbers = _counts(task, counts, total)
    return (MoeReRouting(task.profile, tokens, counts, scales, outputs, numbers),)


def _counts(task: Task, counts: GlobalTensor, total: int) -> NDArray[np.int64]:
    if counts.array is None:
        each, more = divmod(total, counts.numel)
        flat = each + (np.arange(counts.numel) < more)
        return flat.astype(np.int64).reshape(counts.shape)
    found: NDArray[np.int64] = counts.array.astype(np.int64)
    if (found < 0).any() or found.sum() > total:
        raise task.refused(f"{found.sum()} tokens of {total}")
    return found


def _runs(counts: NDArray[np.int64]) -> list[dict[int, list[_Run]]]:
    """For each rank, the runs of one length together."""
    come = (np.cumsum(counts) - counts.ravel()).reshape(counts.shape)
    by_expert: NDArray[np.int64] = counts.T
    go = (np.cumsum(by_expert) - by_expert.ravel()).reshape(by_expert.shape).T
    found: list[dict[int, list[_Run]]] = []
    for rank in range(len(counts)):
        runs: dict[int, list[_Run]] = {}
        for expert in range(counts.shape[1]):
            length, source, target = (int(each[rank, expert]) for each in (counts, come, go))
            runs.setdefault(length, []).append(_Run(source, target))
        found.append(runs)
    return found


def _number(core: Core, *places: Index) -> Scalar:
    """A sum of indices as the scalar unit has it."""
    total: NDArray[np.int64] = np.zeros((1,) * core.depth, np.int64)
    for place in places:
        axes = [1] * core.depth
        if not isinstance(place, int):
            axes[place.depth] = -1
        total = total + values_of(place).reshape(axes)
    return Scalar(core, total if core.numerics else None, core.depth)
