"""MoeInitRoutingV2Grad: the rows of a token's experts are added up again.

Half as many rows as the next power of two are fetched, the others added to these one by one, and
then two and two until one is left; a token waits until the one before it is stored. Source:
ops-transformer moe/moe_init_routing_v2_grad, host tiling and device schedules. There, what comes
in and goes out shares the memory of the sums: rows that are too long for ours are cut earlier.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.ascendc import Core, GlobalTensor, Kernel, LocalTensor, TBuf, TPosition, TQue
from npusim.ascendc.events import Event
from npusim.ascendc.rounding import RoundMode
from npusim.ascendc.task import Task, made
from npusim.engine.program import Pipe
from npusim.ops.moe.places import Places
from npusim.schedules.rows.shares import RowShare
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import FLOAT

if TYPE_CHECKING:
    from collections.abc import Hashable

    from npusim.ascendc.loops import Index
    from npusim.hardware.profile import Profile

_MANY = 128  # rows of a token from which as many are added to at once as are fetched
_MOST_SUMS = 64
_MOST_BYTES = 65536  # of a row that is fetched at once


class MoeInitRoutingV2Grad(Kernel):
    """out[t] = sum of rows[places[t, j]]; places without a row are those that were dropped."""

    op_type = "MoeInitRoutingV2Grad"

    def __init__(
        self, profile: Profile, rows: GlobalTensor, places: GlobalTensor, out: GlobalTensor
    ) -> None:
        self.rows, self.out, self.kind = rows, out, out.dtype
        (self.tokens, self.width), self.count = out.shape, places.numel // out.shape[0]
        table = places.view(self.tokens, self.count)
        self.places = Places(table, rows.shape[0], dropped=True)
        self.reads, self.writes = (rows, places), (out,)
        self.sums = min(_MOST_SUMS, 1 << max(0, self.count.bit_length() - 2))
        self.beside = self.sums if self.count >= _MANY else 1
        size, wide = self.kind.itemsize, FLOAT.itemsize
        lanes = profile.buffers.block_bytes // size
        element = (size + wide) * (self.sums + self.beside) + size
        most = min(_MOST_BYTES // wide, (int(profile.buffers.ub_bytes) - 1024) // element)
        self.columns = min(round_up(self.width, lanes), max(lanes, most // lanes * lanes))
        self.share = RowShare.of(self.tokens, profile.cores.vector_cores, self.tokens)
        self.block_dim = self.share.cores

    def block_kind(self, block_idx: int) -> Hashable:
        return self.share.block_kind(block_idx)

    def process(self, core: Core) -> None:
        """One token after the other."""
        self.places.check(core, self.op_type)
        size, wide = self.columns * self.kind.itemsize, self.columns * FLOAT.itemsize
        self.ins, self.more = (TQue(TPosition.VECIN, n, name) for n, name in
                               ((self.sums, "rows"), (self.beside, "more")))  # fmt: skip
        self.outs = TQue(TPosition.VECOUT, 1, "out")
        core.pipe.init_buffer(self.ins, self.sums, size)
        core.pipe.init_buffer(self.more, self.beside, size)
        core.pipe.init_buffer(self.outs, 1, size)
        self.totals = [TBuf(f"sum{at}") for at in range(self.sums)]
        self.wide = TBuf("wide")
        for buffer in (*self.totals, self.wide):
            core.pipe.init_buffer(buffer, 1, wide)
        self.stored = Event(core, Pipe.MTE3, Pipe.MTE2, set_before=True)
        for first, count in self.share.tiles(core):
            for token in core.loop(count):
                for column, length in core.tiles(0, self.width, self.columns):
                    self._token(core, (first, token), (column, length))

    def _token(self, core: Core, token: tuple[Index, Index], cut: tuple[Index, int]) -> None:
        """Rows at even places first, as far as there are sums, then the others."""
        self.stored.wait()
        even = list(range(0, self.count, 2))
        fetched = even[: self.sums]
        totals = [
            self._row(core, (*token, pair), cut, self.ins, self.totals[at])
            for at, pair in enumerate(fetched)
        ]
        for pair in (*even[self.sums :], *range(1, self.count, 2)):
            row = self._row(core, (*token, pair), cut, self.more, self.wide)
            total = totals[pair // 2 % len(totals)]
            core.add(total, total, row)
        step = 1
        while step < len(totals):
            for at in range(step, len(totals), 2 * step):
                core.add(totals[at - step], totals[at - step], totals[at])
            step *= 2
        out = self.outs.alloc_tensor(self.kind, cut[1])
        if self.kind is FLOAT:
            core.move(out, totals[0])
        else:
            core.cast(out, totals[0], RoundMode.CAST_RINT)
        places = (*((each, self.width) for each in token), (cut[0], 1))
        self.outs.copy_out(self.out.window(places, (cut[1],), (1,)), out)
        self.stored.set()

    def _row(
        self, core: Core, where: tuple[Index, ...], cut: tuple[Index, int], queue: TQue, to: TBuf
    ) -> LocalTensor:
        """A row in float32."""
        place = self.places.at(core, where)
        source = ((place.loaded, self.width), (cut[0], 1))
        tile = queue.copy_in(self.rows.window(source, (cut[1],), (1,)))
        wide = to.get(FLOAT, cut[1])
        if tile.dtype is FLOAT:
            core.move(wide, tile)
        else:
            core.cast(wide, tile)
        queue.free_tensor(tile)
        place.clear(wide)
        return wide


def moe_init_routing_v2_grad(task: Task) -> tuple[Kernel, ...]:
    """Gradients of rows, and the places of pairs; with a capacity, rows expert by expert."""
    rows, places = task.present(2)
    each = task.whole_number("top_k", 1)
    if each < 1 or not rows.numel or places.numel % each:
        raise task.refused(f"{places.numel} places for {each} rows of each token")
    width = rows.shape[-1]
    shape = (places.numel // each, width)
    out = task.outputs[0] if task.outputs else made(shape, rows.dtype)
    if out.shape != shape:
        raise task.refused(f"{out.shape} isn't the result")
    flat = rows.view(rows.numel // width, width)
    return (MoeInitRoutingV2Grad(task.profile, flat, places, out),)
