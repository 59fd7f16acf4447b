"""MoeTokenUnpermuteGrad: every token's gradient goes to its experts' rows, and to their weights.

A row's gradient is the token's times its weight, stored where the scalar unit reads that the row
is; a weight's is the sum of the token's gradient times the row. Source: ops-transformer
moe/moe_token_unpermute_grad (tiling, device schedules with and without weights).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.ascendc import Core, GlobalTensor, Kernel, LocalTensor, TBuf, TPosition, TQue
from npusim.ascendc.rounding import RoundMode
from npusim.ascendc.task import Task, made
from npusim.schedules.bounds import fault_outside
from npusim.schedules.rows.shares import RowShare
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import FLOAT

if TYPE_CHECKING:
    from collections.abc import Hashable

    from npusim.ascendc.loops import Index, LoopIndex
    from npusim.hardware.profile import Profile

_MOST_PLACES = 256  # of a tile of tokens
_LINE_BYTES = 512  # that pieces of rows are multiples of
_LINES = 2 * 3  # of a piece in its own type: gradients, rows and results, two of each
_BESIDE = 5  # weights and sums of a tile, narrow and wide
_KEPT_BYTES = 256


class MoeTokenUnpermuteGrad(Kernel):
    """rows_grad[places[t, j]] = grad[t] * weights[t, j]; weights_grad[t, j] = rows @ grad[t]."""

    def __init__(
        self,
        profile: Profile,
        rows: GlobalTensor,
        grad: GlobalTensor,
        places: GlobalTensor,
        weights: GlobalTensor | None,
        rows_grad: GlobalTensor,
        weights_grad: GlobalTensor | None,
    ) -> None:
        self.rows, self.grad, self.weights = rows, grad, weights
        self.rows_grad, self.weights_grad = rows_grad, weights_grad
        (tokens, self.width), self.kind = grad.shape, grad.dtype
        self.count = places.numel // tokens
        self.places = places.view(places.numel)
        self.reads = (grad, places) if weights is None else (rows, grad, places, weights)
        self.writes = tuple(each for each in (rows_grad, weights_grad) if each is not None)
        size, tile = self.kind.itemsize, max(1, _MOST_PLACES // self.count)
        self.line = round_up(self.count * FLOAT.itemsize, profile.buffers.block_bytes)
        room = profile.buffers.ub_bytes - _KEPT_BYTES - _BESIDE * tile * self.line
        line = _LINE_BYTES // size
        most = room // (_LINES * size + 3 * FLOAT.itemsize) // line * line
        self.chunk = min(round_up(self.width, line), most)
        self.division = self.share = RowShare.of(tokens, profile.cores.vector_cores, tile)
        self.block_dim = self.share.cores

    def block_kind(self, block_idx: int) -> Hashable:
        return self.share.block_kind(block_idx)

    def process(self, core: Core) -> None:
        """Tiles of tokens; of those a piece of their columns after the other."""
        fault_outside(core, self.op_type, self.places, self.rows_grad.shape[0])
        size, places = self.kind.itemsize, self.share.tile * self.line
        self.grads, self.lines = (TQue(TPosition.VECIN, 2, name) for name in ("grad", "rows"))
        self.given, self.chances = TQue(TPosition.VECOUT, 2, "result"), TQue(TPosition.VECIN, 1)
        self.wide = [TBuf(name) for name in ("grad_wide", "row_wide", "product")]
        for queue in (self.grads, self.lines, self.given):
            core.pipe.init_buffer(queue, 2, self.chunk * size)
        for buffer in self.wide:
            core.pipe.init_buffer(buffer, 1, self.chunk * FLOAT.itemsize)
        self.shares, self.sums, self.more = (TBuf(name) for name in ("weights", "sums", "more"))
        self.found = TQue(TPosition.VECOUT, 1, "weights_grad")
        if self.weights is not None:
            for each in (self.chances, self.shares, self.sums, self.more, self.found):
                core.pipe.init_buffer(each, 1, places)
        for first, count in self.share.tiles(core):
            self._tile(core, first, count)

    def _tile(self, core: Core, first: Index, count: int) -> None:
        shares = total = None
        if self.weights is not None:
            source = self.weights.window(((first, self.count),), *self._cut(count))
            loaded = self.chances.copy_in(source.by_rows())
            shares = self._widened(core, self.shares.get(FLOAT, *loaded.shape), loaded)
            self.chances.free_tensor(loaded)
            total = core.duplicate(self.sums.get(FLOAT, count, self.count), 0.0)
        pieces = core.tiles(0, self.width, self.chunk, sequential=self.chunk < self.width)
        for column, length in pieces:
            part = None if total is None else self.more.get(FLOAT, *total.shape)
            for token in core.loop(count):
                self._token(core, (first, token), (column, length), shares, part)
            if total is not None and part is not None:
                core.add(total, total, part)
        if total is not None and self.weights_grad is not None:
            found = self.found.alloc_tensor(self.weights_grad.dtype, *total.shape)
            self._narrowed(core, found, total)
            target = self.weights_grad.window(((first, self.count),), *self._cut(count))
            self.found.copy_out(target.by_rows(), found)

    def _cut(self, count: int) -> tuple[tuple[int, int], tuple[int, int]]:
        """Sizes and steps of what a tile has for each row."""
        return (count, self.count), (self.count, 1)

    def _token(
        self,
        core: Core,
        where: tuple[Index, LoopIndex],
        piece: tuple[Index, int],
        shares: LocalTensor | None,
        part: LocalTensor | None,
    ) -> None:
        """A token's gradient, to each of its rows."""
        (column, length), token = piece, where[1]
        own = tuple((each, self.width) for each in where)
        loaded = self.grads.copy_in(self.grad.window((*own, (column, 1)), (length,), (1,)))
        grad = self._widened(core, self.wide[0].get(FLOAT, length), loaded)
        self.grads.free_tensor(loaded)
        for turn in core.loop(self.count):
            at = (*((each, self.count) for each in where), (turn, 1))
            place = core.load_scalar(self.places.window(at, (), ()))
            core.scalar_alu("mul")
            line = ((place, self.width), (column, 1)), (length,), (1,)
            result = self.given.alloc_tensor(self.kind, length)
            if shares is None or part is None:
                self._narrowed(core, result, grad)
            else:
                row = self.lines.copy_in(self.rows.window(*line))
                share = core.get_value(shares[token], turn // 1)
                scaled = core.muls(self.wide[2].get(FLOAT, length), grad, share)
                self._narrowed(core, result, scaled)
                wide = self._widened(core, self.wide[1].get(FLOAT, length), row)
                self.lines.free_tensor(row)
                core.reduce_sum(part[token][turn], core.mul(wide, wide, grad))
            self.given.copy_out(self.rows_grad.window(*line), result)

    def _widened(self, core: Core, target: LocalTensor, source: LocalTensor) -> LocalTensor:
        return core.move(target, source) if source.dtype is FLOAT else core.cast(target, source)

    def _narrowed(self, core: Core, target: LocalTensor, source: LocalTensor) -> None:
        if target.dtype is FLOAT:
            core.move(target, source)
        else:
            core.cast(target, source, RoundMode.CAST_RINT)


def moe_token_unpermute_grad(task: Task) -> tuple[Kernel, ...]:
    """Rows of experts, gradients of tokens, where each token's rows are, what these count for."""
    rows, grad, places, weights = (*task.inputs, None)[:4]
    if rows is None or grad is None or places is None or not grad.numel:
        raise task.refused("rows, gradients and places are needed")
    if weights is not None and not weights.shape:
        weights = None
    each = 1 if weights is None else weights.shape[-1]
    if task.attributes.get("padded_mode", False) or places.numel != grad.shape[0] * each:
        raise task.refused(f"places of {places.numel} rows for {grad.shape[0]} tokens")
    if rows.shape != (places.numel, grad.shape[1]):
        raise task.refused(f"{rows.shape}; rows that were dropped aren't modelled")
    results = list(task.outputs) or [made(rows.shape, rows.dtype, "rows_grad")]
    if weights is not None and len(results) < 2:
        results.append(made(weights.shape, weights.dtype, "weights_grad"))
    last = results[1] if weights is not None else None
    return (MoeTokenUnpermuteGrad(task.profile, rows, grad, places, weights, results[0], last),)
