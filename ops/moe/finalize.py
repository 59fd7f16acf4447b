"""MoeFinalizeRouting: every token's rows are fetched from its experts, weighted and added up.

A token's sum begins with its skips; the row of each expert is a transfer from where the scalar unit
reads that it is. Source: ops-transformer moe/moe_finalize_routing, device schedule for whole rows
(fp_db, bf16).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.ascendc import Core, GlobalTensor, Kernel, LocalTensor, TBuf, TPosition, TQue
from npusim.ascendc.events import Event
from npusim.ascendc.queues import BUFFER_NUM
from npusim.ascendc.rounding import RoundMode
from npusim.ascendc.task import Task, made
from npusim.engine.program import Pipe
from npusim.ops.moe.places import Place, Places
from npusim.schedules.bounds import fault_outside
from npusim.schedules.rows.layouts import UB_SHARE
from npusim.schedules.rows.shares import RowShare
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import FLOAT

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from npusim.ascendc.loops import Index
    from npusim.ascendc.scalars import Scalar
    from npusim.hardware.profile import Profile


class MoeFinalizeRouting(Kernel):
    """out[t] = skips[t] + sum of scales[t, j] * (rows[places[j, t]] + bias[experts[t, j]]).

    ``by_token`` places are (t, j); ``truncated`` rows those of which the last may have been left
    out, which places behind them name.
    """

    op_type = "MoeFinalizeRouting"

    def __init__(
        self,
        profile: Profile,
        rows: GlobalTensor,
        places: GlobalTensor,
        skips: tuple[GlobalTensor, ...],
        bias: GlobalTensor | None,
        scales: GlobalTensor | None,
        experts: GlobalTensor | None,
        out: GlobalTensor,
        *,
        by_token: bool = False,
        truncated: bool = False,
    ) -> None:
        self.rows, self.places, self.skips = rows, places, skips
        self.bias, self.scales, self.experts, self.out = bias, scales, experts, out
        self.by_token = by_token
        self.tokens, self.width = out.shape
        self.count = places.numel // self.tokens
        self.table = None
        if truncated:
            self.table = Places(places.view(self.tokens, self.count), rows.shape[0])
        self.kind = out.dtype
        self.wide = self.kind is FLOAT or not profile.supports_vector("vadd", self.kind.intrinsic)
        given = (rows, places, *skips, bias, scales, experts)
        self.reads = tuple(each for each in given if each is not None)
        self.writes = (out,)
        block = profile.buffers.block_bytes // self.kind.itemsize
        room = int(profile.buffers.ub_bytes * UB_SHARE)
        self.chunk, tile = self._fitting(room, block)
        self.share = RowShare.of(self.tokens, profile.cores.vector_cores, tile)
        self.block_dim = self.share.cores

    def _fitting(self, room: int, block: int) -> tuple[int, int]:
        """Columns of a row that are worked on at once, and rows of a tile."""
        size, sums = self.kind.itemsize, FLOAT.itemsize if self.wide else self.kind.itemsize
        beside = sums if self.wide and len(self.skips) > 1 else 0
        element = (len(self.skips) + 1) * size + sums + beside
        single = (1 + (self.bias is not None)) * BUFFER_NUM * size + 2 * sums
        most = room // (element + single)
        chunk = round_up(self.width, block)
        if chunk > most:
            return most // block * block, 1
        return chunk, max(1, (room - single * chunk) // (element * chunk))

    def block_kind(self, block_idx: int) -> Hashable:
        return self.share.block_kind(block_idx)

    def process(self, core: Core) -> None:
        """Tiles of tokens, a piece of their columns after the other where rows are long."""
        if self.table is not None:
            self.table.check(core, self.op_type)
        else:
            fault_outside(core, self.op_type, self.places, self.rows.shape[0])
        if self.experts is not None and self.bias is not None:
            fault_outside(core, self.op_type, self.experts, self.bias.shape[0])
        size, tile = self.kind.itemsize, self.share.tile
        self.skip_ques = [TQue(TPosition.VECIN, 1, f"skip{n}") for n in range(len(self.skips))]
        self.out_que = TQue(TPosition.VECOUT, 1, "out")
        self.row_que, self.bias_que = (
            TQue(TPosition.VECIN, BUFFER_NUM, name) for name in ("rows", "bias")
        )
        for queue in (*self.skip_ques, self.out_que):
            core.pipe.init_buffer(queue, 1, tile * self.chunk * size)
        core.pipe.init_buffer(self.row_que, BUFFER_NUM, self.chunk * size)
        if self.bias is not None:
            core.pipe.init_buffer(self.bias_que, BUFFER_NUM, self.chunk * size)
        wide = FLOAT.itemsize if self.wide else size
        self.sums, self.single, self.other = TBuf("sums"), TBuf("row"), TBuf("bias_wide")
        core.pipe.init_buffer(self.sums, 1, tile * self.chunk * wide)
        self.beside = TBuf("skip_wide")
        if self.wide and len(self.skips) > 1:
            core.pipe.init_buffer(self.beside, 1, tile * self.chunk * wide)
        for buffer in (self.single, self.other):
            core.pipe.init_buffer(buffer, 1, self.chunk * wide)
        self.done = [
            Event(core, Pipe.VECTOR, Pipe.SCALAR, set_before=True) for _ in range(BUFFER_NUM)
        ]
        for first, count in self.share.tiles(core):
            for column, length in core.tiles(0, self.width, self.chunk):
                self._tile(core, first, count, column, length)

    def _tile(self, core: Core, first: Index, count: int, column: Index, length: int) -> None:
        kind = FLOAT if self.wide else self.kind
        sums = self.sums.get(kind, count, length)
        self._begin(core, sums, first, column)
        for row in core.loop(count):
            total, token = sums[row], (first, row)
            for pair in core.loop(self.count // BUFFER_NUM, sequential=True):
                turns = [pair * BUFFER_NUM + half for half in range(BUFFER_NUM)]
                self._add(core, total, token, turns, column)
            if self.count % BUFFER_NUM:
                self._add(core, total, token, [self.count - 1], column)
        out = self.out_que.alloc_tensor(self.kind, count, length)
        if self.kind is kind:
            core.move(out, sums)
        else:
            core.cast(out, sums, RoundMode.CAST_RINT)
        target = self.out.window(
            ((first, self.width), (column, 1)), (count, length), (self.width, 1)
        )
        self.out_que.copy_out(target.by_rows() if count > 1 else target, out)

    def _begin(self, core: Core, sums: LocalTensor, first: Index, column: Index) -> None:
        """Sums begin with the skips, or with zeros."""
        if not self.skips:
            core.duplicate(sums, 0.0)
        for number, (skip, queue) in enumerate(zip(self.skips, self.skip_ques, strict=True)):
            places = ((first, self.width), (column, 1))
            source = skip.window(places, sums.shape, (self.width, 1))
            tile = queue.copy_in(source.by_rows() if sums.shape[0] > 1 else source)
            if number:
                core.add(sums, sums, self._widened(core, tile))
            elif tile.dtype is sums.dtype:
                core.move(sums, tile)
            else:
                core.cast(sums, tile)
            queue.free_tensor(tile)

    def _add(
        self,
        core: Core,
        total: LocalTensor,
        token: tuple[Index, Index],
        turns: Sequence[Index],
        column: Index,
    ) -> None:
        """What two experts say about a token: both are fetched before the first is added."""
        fetched = []
        for turn, done in zip(turns, self.done, strict=False):
            done.wait()
            fetched.append(self._fetch(core, total.numel, token, turn, column))
        for (place, row, beside, scale), done in zip(fetched, self.done, strict=False):
            wide = self._taken(core, row, self.row_que, self.single)
            if place is not None:
                place.clear(wide)
            if beside is not None:
                core.add(wide, wide, self._taken(core, beside, self.bias_que, self.other))
            if scale is not None:
                core.muls(wide, wide, scale)
            core.add(total, total, wide)
            done.set()

    def _fetch(
        self, core: Core, length: int, token: tuple[Index, Index], turn: Index, column: Index
    ) -> tuple[Place | None, LocalTensor, LocalTensor | None, Scalar | None]:
        """An expert's row, its bias and its weight: the scalar unit reads where they are."""
        beside, found = None, None
        steps = (self.count, 1) if self.by_token else (1, self.tokens)
        where = (*((each, steps[0]) for each in token), (turn, steps[1]))
        own = (*((each, self.count) for each in token), (turn, 1))
        if self.table is not None:
            found = self.table.at(core, (*token, turn))
            place = found.loaded
        else:
            place = core.load_scalar(self.places.window(where, (), ()))
            core.scalar_alu("mul")
        source = self.rows.window(((place, self.width), (column, 1)), (length,), (1,))
        row = self.row_que.copy_in(source)
        if self.bias is not None and self.experts is not None:
            expert = core.load_scalar(self.experts.window(own, (), ()))
            source = self.bias.window(((expert, self.width), (column, 1)), (length,), (1,))
            beside = self.bias_que.copy_in(source)
        if self.scales is None:
            return found, row, beside, None
        return found, row, beside, core.load_scalar(self.scales.window(own, (), ()))

    def _taken(self, core: Core, tile: LocalTensor, queue: TQue, buffer: TBuf) -> LocalTensor:
        """A fetched row in the type of sums, and its slot given back."""
        wide = buffer.get(FLOAT if self.wide else self.kind, *tile.shape)
        if wide.dtype is tile.dtype:
            core.move(wide, tile)
        else:
            core.cast(wide, tile)
        queue.free_tensor(tile)
        return wide

    def _widened(self, core: Core, tile: LocalTensor) -> LocalTensor:
        """A second skip in the type of sums."""
        if tile.dtype is FLOAT or not self.wide:
            return tile
        return core.cast(self.beside.get(FLOAT, *tile.shape), tile)


def moe_finalize_routing(task: Task) -> tuple[Kernel, ...]:
    """Rows of the experts, where they are, two skips, bias, scales and experts of the tokens."""
    given = [each if each is not None and each.shape else None for each in task.inputs]
    rows, places, first, second, bias, scales, experts = (*given, *[None] * 7)[:7]
    if rows is None or places is None:
        raise task.refused("rows and their places are needed")
    width = rows.shape[-1]
    known = next((each for each in (scales, first, experts) if each is not None), None)
    if known is None or not known.shape or places.numel % max(1, known.shape[0]):
        raise task.refused("the number of tokens isn't told")
    tokens = known.shape[0]
    out = task.outputs[0] if task.outputs else made((tokens, width), rows.dtype)
    if bias is None:
        experts = None
    skips = tuple(each for each in (first, second) if each is not None)
    kernel = MoeFinalizeRouting(
        task.profile, rows.view(rows.numel // width, width), places.view(places.numel), skips,
        bias, scales, experts, out,
        by_token=task.whole_number("drop_pad_mode", 0) > 1,
    )  # fmt: skip
    return (kernel,)


def moe_token_unpermute(task: Task) -> tuple[Kernel, ...]:
    """Rows of experts, where those of each token are, and what these count for."""
    rows, places, weights = (*task.inputs, *[None] * 3)[:3]
    if rows is None or places is None or not rows.shape or not places.numel:
        raise task.refused("rows and their places are needed")
    if weights is not None and not weights.shape:
        weights = None
    tokens, width = places.numel if weights is None else weights.shape[0], rows.shape[-1]
    if task.attributes.get("padded_mode", False) or places.numel % max(1, tokens):
        raise task.refused(f"places of {places.numel} rows for {tokens} tokens")
    out = task.outputs[0] if task.outputs else made((tokens, width), rows.dtype)
    if out.shape != (tokens, width):
        raise task.refused(f"{out.shape} for {tokens} tokens")
    kernel = MoeFinalizeRouting(
        task.profile, rows.view(rows.numel // width, width), places.view(places.numel), (),
        None, weights, None, out, by_token=True, truncated=True,
    )  # fmt: skip
    return (kernel,)


def moe_token_permute_grad(task: Task) -> tuple[Kernel, ...]:
    """Gradients of rows, and where those of each token are: their sums, by the same kernel."""
    rows, places = task.present(2)
    tokens = places.numel // max(1, task.whole_number("num_topk", 1))
    width = rows.shape[-1]
    out = task.outputs[0] if task.outputs else made((tokens, width), rows.dtype)
    if out.shape != (tokens, width) or not tokens or places.numel % tokens:
        raise task.refused(f"{out.shape} for {tokens} tokens")
    if task.attributes.get("padded_mode", False):
        raise task.refused("the padded mode isn't modelled: its page has it for later")
    kernel = MoeFinalizeRouting(
        task.profile, rows, places.view(places.numel), (), None, None, None, out, by_token=True,
        truncated=True,
    )  # fmt: skip
    return (kernel,)
