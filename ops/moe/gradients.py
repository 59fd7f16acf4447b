"""Gradients of routed tokens: of the rows of experts, and of what these count for.

A token's gradient goes to each of its rows, times what the row counts for, which itself has the
product of the gradient and the row for a gradient, both in float32. MoeTokenUnpermuteGrad fetches a
token's gradient once and some rows ahead; MoeFinalizeRoutingV2Grad fetches it for each row anew,
one after the other. Source: ops-transformer moe/moe_token_unpermute_grad and
moe/moe_finalize_routing_v2_grad, host tilings and device schedules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.ascendc import Core, GlobalTensor, Kernel, LocalTensor, TBuf, TPosition, TQue
from npusim.ascendc.queues import BUFFER_NUM, TQueBind
from npusim.ascendc.rounding import RoundMode
from npusim.ascendc.task import Task, made
from npusim.engine.program import Pipe
from npusim.ops.moe.places import Places
from npusim.schedules.rows.shares import RowShare
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import FLOAT, DType

if TYPE_CHECKING:
    from collections.abc import Hashable

    from npusim.ascendc.loops import Index
    from npusim.ascendc.scalars import Scalar
    from npusim.hardware.profile import Profile

_MOST_PAIRS = 256  # whose weights are fetched together


class MoeTokenUnpermuteGrad(Kernel):
    """out[places[t, j]] = grad[t] * weights[t, j], shares[t, j] = sum of grad[t] * rows[places].

    Without weights a token has one row. Places behind the last row are those of rows that have been
    left out: nothing is stored, and their share is nought.
    """

    op_type = "MoeTokenUnpermuteGrad"
    depth = BUFFER_NUM
    each_fetches = False  # a row the gradient of its token, which the others have too

    def __init__(
        self,
        profile: Profile,
        rows: GlobalTensor,
        grad: GlobalTensor,
        places: GlobalTensor,
        weights: GlobalTensor | None,
        bias: tuple[GlobalTensor, GlobalTensor] | None,
        out: GlobalTensor,
        shares: GlobalTensor | None,
    ) -> None:
        self.rows, self.grad, self.weights, self.bias = rows, grad, weights, bias
        self.out, self.shares = out, shares
        self.tokens, self.width = grad.shape
        self.count, self.kind = places.numel // self.tokens, grad.dtype
        self.places = Places(places.view(self.tokens, self.count), out.shape[0])
        given = (rows, grad, places, weights, *(bias or ()))
        self.reads = tuple(each for each in given if each is not None)
        self.writes = tuple(each for each in (out, shares) if each is not None)
        buffers, size = profile.buffers, self.kind.itemsize
        room = int(buffers.ub_bytes) - 1024
        lanes = buffers.block_bytes // size
        if weights is None:
            most = room // (BUFFER_NUM * size)
            tile = max(1, most // round_up(self.width, lanes))
        else:
            tiles = 3 + (bias is not None)
            tile = max(1, _MOST_PAIRS // self.count)
            room -= 7 * tile * round_up(self.count * FLOAT.itemsize, buffers.block_bytes)
            most = room // (tiles * (self.depth * size + FLOAT.itemsize))
        self.columns = min(round_up(self.width, lanes), most // lanes * lanes)
        self.share = RowShare.of(self.tokens, profile.cores.vector_cores, tile)
        self.block_dim = self.share.cores

    def block_kind(self, block_idx: int) -> Hashable:
        return self.share.block_kind(block_idx)

    def process(self, core: Core) -> None:
        """Tiles of tokens."""
        self.places.check(core, self.op_type)
        if self.weights is None:
            self._scatter(core)
            return
        size = self.columns * self.kind.itemsize
        self.grads, self.row_que, self.bias_que = (
            TQue(TPosition.VECIN, self.depth, name) for name in ("grad", "rows", "bias")
        )
        self.outs = TQue(TPosition.VECOUT, self.depth, "out")
        queues = [self.grads, self.row_que, self.outs]
        for queue in queues if self.bias is None else [*queues, self.bias_que]:
            core.pipe.init_buffer(queue, self.depth, size)
        self.wide = [TBuf(name) for name in ("grad_wide", "row_wide", "product", "bias_wide")]
        for buffer in self.wide if self.bias else self.wide[:3]:
            core.pipe.init_buffer(buffer, 1, self.columns * FLOAT.itemsize)
        self.ins, self.sums_out = (
            TQue(TPosition.VECIN, BUFFER_NUM, "weights"),
            TQue(TPosition.VECOUT, BUFFER_NUM, "shares"),
        )
        self.known, self.sums, self.part = (TBuf(name) for name in ("known", "sums", "part"))
        most = self.share.tile * round_up(self.count * FLOAT.itemsize, core.block_bytes)
        for queue in (self.ins, self.sums_out):
            core.pipe.init_buffer(queue, BUFFER_NUM, most)
        for buffer in (self.known, self.sums, self.part):
            core.pipe.init_buffer(buffer, 1, most)
        for first, count in self.share.tiles(core):
            self._tile(core, first, count)

    def _tile(self, core: Core, first: Index, count: int) -> None:
        """Tokens whose weights are fetched together."""
        assert self.weights is not None
        shape = (count, self.count)
        steps = (self.count, 1)
        given = self.ins.copy_in(self.weights.window(((first, self.count),), shape, steps))
        weights = _widened(core, given, self.known)
        self.ins.free_tensor(given)
        core.wait_vector()
        sums = core.duplicate(self.sums.get(FLOAT, *shape), 0.0)
        part = self.part.get(FLOAT, *shape)
        for column in range(0, self.width, self.columns):
            cut = (column, min(self.columns, self.width - column))
            for token in core.loop(count):
                self._token(core, (first, token), weights[token], part[token], cut)
            core.add(sums, sums, part)
        if self.shares is not None:
            result = self.sums_out.alloc_tensor(self.shares.dtype, *shape)
            _narrowed(core, result, sums)
            target = self.shares.window(((first, self.count),), shape, steps)
            self.sums_out.copy_out(target, result)

    def _token(
        self,
        core: Core,
        token: tuple[Index, Index],
        weights: LocalTensor,
        sums: LocalTensor,
        cut: tuple[int, int],
    ) -> None:
        """A token's gradient, to each of its rows."""
        grad = None if self.each_fetches else self._fetched(core, token, cut)
        for pair in core.loop(self.count):
            own = self._fetched(core, token, cut) if grad is None else grad
            self._pair(core, (*token, pair), own, core.get_value(weights[pair]), sums[pair], cut)

    def _fetched(self, core: Core, token: tuple[Index, Index], cut: tuple[int, int]) -> LocalTensor:
        places = (*((each, self.width) for each in token), (cut[0], 1))
        tile = self.grads.copy_in(self.grad.window(places, (cut[1],), (1,)))
        wide = _widened(core, tile, self.wide[0])
        self.grads.free_tensor(tile)
        return wide

    def _pair(
        self,
        core: Core,
        where: tuple[Index, ...],
        grad: LocalTensor,
        weight: Scalar,
        share: LocalTensor,
        cut: tuple[int, int],
    ) -> None:
        """The gradient of a row, and of what it counts for."""
        place = self.places.at(core, where)
        product = self.wide[2].get(FLOAT, *grad.shape)
        core.muls(product, grad, weight)
        out = self.outs.alloc_tensor(self.kind, *grad.shape)
        _narrowed(core, out, product)
        target = ((place.stored, self.width), (cut[0], 1))
        window = self.out.window(target, grad.shape, (1,)).skipping()
        self.outs.copy_out(window, out)
        source = ((place.loaded, self.width), (cut[0], 1))
        tile = self.row_que.copy_in(self.rows.window(source, grad.shape, (1,)))
        row = _widened(core, tile, self.wide[1])
        self.row_que.free_tensor(tile)
        place.clear(row)
        if self.bias is not None:
            core.add(row, row, self._biased(core, where, cut))
        core.mul(product, row, grad)
        core.reduce_sum(share, product)

    def _biased(self, core: Core, where: tuple[Index, ...], cut: tuple[int, int]) -> LocalTensor:
        """The bias of the row's expert."""
        assert self.bias is not None
        table, experts = self.bias
        own = (*((each, self.count) for each in where[:-1]), (where[-1], 1))
        expert = core.load_scalar(experts.window(own, (), ()))
        source = table.window(((expert, self.width), (cut[0], 1)), (cut[1],), (1,))
        tile = self.bias_que.copy_in(source)
        wide = _widened(core, tile, self.wide[3])
        self.bias_que.free_tensor(tile)
        return wide

    def _scatter(self, core: Core) -> None:
        """Gradients of tokens with one row each, as they are."""
        bind = TQueBind(BUFFER_NUM, "grad")
        core.pipe.init_buffer(bind, BUFFER_NUM, self.share.tile * self.columns * self.kind.itemsize)
        for first, count in self.share.tiles(core):
            for column, length in core.tiles(0, self.width, self.columns):
                places = ((first, self.width), (column, 1))
                source = self.grad.window(places, (count, length), (self.width, 1))
                tile = bind.copy_in(source.by_rows() if count > 1 else source)
                for row in core.loop(count):
                    for pair in core.loop(self.count):
                        place = self.places.at(core, (first, row, pair))
                        target = ((place.stored, self.width), (column, 1))
                        window = self.out.window(target, (length,), (1,)).skipping()
                        core.copy_runs(window, tile[row])
                bind.free_tensor(tile, by=Pipe.MTE3)


class MoeFinalizeRoutingGrad(MoeTokenUnpermuteGrad):
    """The same, row by row, each with what it needs fetched and stored for itself."""

    op_type = "MoeFinalizeRoutingV2Grad"
    depth = 1
    each_fetches = True


def _widened(core: Core, tile: LocalTensor, buffer: TBuf) -> LocalTensor:
    wide = buffer.get(FLOAT, *tile.shape)
    if tile.dtype is FLOAT:
        return core.move(wide, tile)
    return core.cast(wide, tile)


def _narrowed(core: Core, target: LocalTensor, source: LocalTensor) -> None:
    if target.dtype is FLOAT:
        core.move(target, source)
    else:
        core.cast(target, source, RoundMode.CAST_RINT)


def moe_token_unpermute_grad(task: Task) -> tuple[Kernel, ...]:
    """Rows, the gradient of tokens, where each token's rows are, what these count for."""
    rows, grad, places, weights = (*task.inputs, *[None] * 4)[:4]
    if rows is None or grad is None or places is None or not grad.numel or not rows.numel:
        raise task.refused("rows, a gradient and places are needed")
    if weights is not None and not weights.shape:
        weights = None
    if task.attributes.get("padded_mode", False) or places.numel % grad.shape[0]:
        raise task.refused(f"places of {places.numel} rows for {grad.shape[0]} tokens")
    out = task.outputs[0] if task.outputs else made(rows.shape, rows.dtype)
    shares = _shares(task, weights)
    kernel = MoeTokenUnpermuteGrad(task.profile, rows, grad, places, weights, None, out, shares)
    return (kernel,)


def moe_finalize_routing_v2_grad(task: Task) -> tuple[Kernel, ...]:
    """The gradient of tokens, places, rows, scales, experts and a bias."""
    grad, places, rows, scales, experts, bias = (*task.inputs, *[None] * 6)[:6]
    if grad is None or places is None or not grad.numel:
        raise task.refused("a gradient and places are needed")
    if task.whole_number("drop_pad_mode", 0):
        raise task.refused("rows of a fixed number for each expert aren't modelled")
    if scales is not None and (rows is None or (bias is not None) != (experts is not None)):
        raise task.refused("scales need rows, and a bias experts")
    active = task.whole_number("active_num", 0)
    shape = (min(active, places.numel) if active else places.numel, grad.shape[1])
    out = task.outputs[0] if task.outputs else made(shape, grad.dtype)
    if out.shape != shape or (scales is None and places.numel != grad.shape[0]):
        raise task.refused(f"{out.shape} isn't the result")
    beside = None if bias is None or experts is None else (bias, experts)
    kernel = MoeFinalizeRoutingGrad(
        task.profile, grad if rows is None else rows, grad, places, scales, beside, out,
        _shares(task, scales),
    )  # fmt: skip
    return (kernel,)


def _shares(task: Task, weights: GlobalTensor | None) -> GlobalTensor | None:
    if weights is None:
        return None
    kind: DType = weights.dtype
    return task.outputs[1] if len(task.outputs) > 1 else made(weights.shape, kind, "shares")
