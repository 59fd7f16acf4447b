"""MoeDistributeCombine: experts' rows go back, are weighed and added up, in one kernel.

Rows are dealt over cores, which store each into the window of the chip that its token is of, and
then tell it so. Tokens of this chip are dealt over cores too: each waits until all rows of a token
have come, and adds them up by their scales. What other chips' experts make isn't known: it counts
as nought. Source: ops-transformer mc2/moe_distribute_combine_v2, device schedule.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.ascendc import Core, GlobalTensor, Kernel, TBuf, TPosition, TQue
from npusim.ascendc.events import Event
from npusim.ascendc.loops import looked_up, values_of
from npusim.ascendc.queues import BUFFER_NUM, TQueBind
from npusim.ascendc.rounding import RoundMode
from npusim.ascendc.task import Task, made
from npusim.engine.program import Pipe
from npusim.ops.moe.dispatch import TRIPLE
from npusim.ops.moe.peers import Peers, peers_of, share
from npusim.schedules.bounds import fault_outside
from npusim.values.dtypes import FLOAT, INT32

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from numpy.typing import NDArray

    from npusim.ascendc import LocalTensor
    from npusim.ascendc.loops import Index
    from npusim.engine.program import Barrier
    from npusim.hardware.profile import Profile

_STATE = 8  # numbers that tell a token that a row has come
_ELSEWHERE = -(1 << 40)  # the window of another chip: before every tensor


class MoeDistributeCombine(Kernel):
    """out[t] = sum of scales[t, k] * the row for choice k of token t, and a shared expert's row.

    ``triples`` say what rows are of, ``counts`` how many there are; without numbers all experts
    have as many. Pairs that a mask leaves out or whose expert is one ``without_weights`` have none.
    """

    def __init__(
        self,
        profile: Profile,
        tensors: tuple[GlobalTensor, GlobalTensor, GlobalTensor, GlobalTensor, GlobalTensor],
        shared: GlobalTensor | None,
        out: GlobalTensor,
        peers: Peers,
        op_type: str,
        *,
        without_weights: int = 0,
    ) -> None:
        self.experts = peers.experts + without_weights
        self.op_type, self.peers, self.shared, self.out = op_type, peers, shared, out
        self.rows, self.ids, self.triples, self.counts, self.scales = tensors
        (self.tokens, self.choices), self.width = self.ids.shape, self.rows.shape[-1]
        self.kind, self.block_dim = self.rows.dtype, profile.cores.vector_cores
        pairs = self.tokens * self.choices
        self.window = made((pairs, self.width), self.kind, "window")
        known = self.counts.array is not None and self.triples.array is not None
        self.count = min(self.rows.shape[0], pairs)
        self.places: NDArray[np.int64] | None = None
        if known:
            self.count = self._told()
        self.reads = (*tensors, *((shared,) if shared is not None else ()))
        self.writes, self.scratch = (out,), (self.window,)

    def _told(self) -> int:
        """The rows that there are, and where those of this chip's tokens go."""
        counts, triples = self.counts.array, self.triples.array
        if counts is None or triples is None:
            return 0
        count = int(counts.reshape(-1)[-1])
        found = triples.reshape(-1)[: count * TRIPLE].reshape(-1, TRIPLE).astype(np.int64)
        places = found[:, 1] * self.choices + found[:, 2]
        self.places = np.where(found[:, 0] == self.peers.rank, places, _ELSEWHERE)
        return count

    def block_kind(self, block_idx: int) -> Hashable:
        dealt = (self.count, self.tokens)
        return tuple(share(each, self.block_dim, block_idx)[1] for each in dealt)

    def process(self, core: Core) -> Iterator[Barrier]:
        """Send back, wait, add up; all chips send as this one does."""
        block = core.get_block_idx()
        fault_outside(core, self.op_type, self.ids, self.experts)
        self._send(core, *share(self.count, self.block_dim, block))
        yield core.sync_all()
        core.pipe.reset()
        self._add_up(core, *share(self.tokens, self.block_dim, block))

    def _send(self, core: Core, first: int, count: int) -> None:
        """A row, and behind it that it has come: nothing may pass it on the way."""
        if not count:
            return
        bind, triples = TQueBind(BUFFER_NUM, "rows"), TQue(TPosition.VECIN, 1, "triples")
        core.pipe.init_buffer(bind, BUFFER_NUM, self.width * self.kind.itemsize)
        core.pipe.init_buffer(triples, 1, count * TRIPLE * INT32.itemsize)
        of = self.triples.view(self.triples.numel)
        triples.free_tensor(triples.copy_in(of.span(first * TRIPLE, count * TRIPLE)))
        there = Event(core, Pipe.MTE3, Pipe.MTE3)
        mine = np.arange(first, first + count)
        places = mine if self.places is None else self.places[mine]
        core.set_store_link(*self.peers.link(core.profile, self.block_dim))
        for turn in core.loop(count):
            core.emit_scalar("ld_ub", loads=TRIPLE, operations=8)
            source = looked_up(turn, mine)
            row = bind.copy_in(self.rows.window(((source, self.width),), (self.width,), (1,)))
            place = looked_up(turn, places)
            target = self.window.window(((place, self.width),), (self.width,), (1,))
            core.copy_runs(target.skipping(), row)
            there.set()
            there.wait()
            bind.free_tensor(row, by=Pipe.MTE3)
        core.set_store_link()

    def _add_up(self, core: Core, first: int, count: int) -> None:
        """Token by token, choice by choice."""
        if not count:
            return
        self.row_in = TQue(TPosition.VECIN, BUFFER_NUM, "came")
        self.sums, self.wide, self.part = (TBuf(name) for name in ("sums", "wide", "part"))
        self.out_que, states = TQue(TPosition.VECOUT, 1, "out"), TQue(TPosition.VECIN, 1, "states")
        nbytes = self.width * self.kind.itemsize
        core.pipe.init_buffer(self.row_in, BUFFER_NUM, nbytes)
        core.pipe.init_buffer(self.out_que, 1, nbytes)
        for buffer in (self.sums, self.wide, self.part):
            core.pipe.init_buffer(buffer, 1, self.width * FLOAT.itemsize)
        core.pipe.init_buffer(states, 1, self.choices * _STATE * FLOAT.itemsize)
        core.elsewhere("peers", self.peers.latency_us(core.profile))
        mine = np.arange(first, first + count)
        for turn in core.loop(count):
            token = looked_up(turn, mine)
            self._wait(core, states)
            total = core.duplicate(self.sums.get(FLOAT, self.width), 0.0)
            for choice in core.loop(self.choices, sequential=True):
                self._add(core, total, token, choice)
            if self.shared is not None:
                self._add_row(core, total, self.shared, token)
            out = self.out_que.alloc_tensor(self.kind, self.width)
            core.cast(out, total, RoundMode.CAST_RINT)
            target = self.out.window(((token, self.width),), (self.width,), (1,))
            self.out_que.copy_out(target, out)

    def _wait(self, core: Core, states: TQue) -> None:
        """What has come of a token, once it is all there, and that it is forgotten again."""
        numbers = self.choices * _STATE
        seen = states.copy_in(self.scales.view(self.scales.numel).span(0, self.choices))
        core.record_vector("vcadd", self.part.get(FLOAT, self.width), numbers)
        core.wait_vector()
        core.emit_scalar("ld_ub", loads=1, operations=4, stores=1)
        states.free_tensor(seen)

    def _add(self, core: Core, total: LocalTensor, token: Index, choice: Index) -> None:
        where = ((token, self.choices), (choice, 1))
        core.load_scalar(self.ids.window(where, (), ()))
        scale = core.load_scalar(self.scales.window(where, (), ()))
        row = self.row_in.copy_in(
            self.window.window(
                ((token, self.choices * self.width), (choice, self.width)), (self.width,), (1,)
            )
        )
        wide = core.cast(self.wide.get(FLOAT, self.width), row)
        self.row_in.free_tensor(row)
        if core.numerics:
            core.arrange(wide, wide, how=lambda values: self._here(core, values, token, choice))
        core.add(total, total, core.muls(self.part.get(FLOAT, self.width), wide, scale))

    def _here(self, core: Core, values: NDArray[Any], token: Index, choice: Index) -> NDArray[Any]:
        """Nought for rows that other chips have."""
        if self.places is None:
            return values
        here = np.isin(np.arange(self.tokens * self.choices), self.places)
        of = [values_of(each).reshape(-1) for each in (token, choice)]
        found = here.reshape(self.tokens, self.choices)[np.ix_(*of)]
        shape = (*values.shape[: core.depth], *(1,) * (values.ndim - core.depth))
        cleared: NDArray[Any] = np.where(found.reshape(shape), values, np.float32(0))
        return cleared

    def _add_row(self, core: Core, total: LocalTensor, source: GlobalTensor, token: Index) -> None:
        row = self.row_in.copy_in(source.window(((token, self.width),), (self.width,), (1,)))
        wide = core.cast(self.wide.get(FLOAT, self.width), row)
        self.row_in.free_tensor(row)
        core.add(total, total, wide)


def moe_distribute_combine(task: Task) -> tuple[Kernel, ...]:
    """Rows, experts of tokens, what rows are of, counts and scales; perhaps a shared expert's."""
    given = (*task.inputs, *[None] * 12)[:12]
    needed, shared = given[:5], given[11]
    if any(each is None for each in needed):
        raise task.refused("needs rows, experts, what rows are of, their counts and scales")
    if any(each is not None for each in given[7:10]):
        raise task.refused("int8 results of experts aren't modelled")
    if mode := task.whole_number("comm_quant_mode", 0):
        raise task.refused(f"comm_quant_mode {mode}; 0 is modelled")
    rows, ids, *_ = (each for each in needed if each is not None)
    out = task.outputs[0] if task.outputs else made((ids.shape[0], rows.shape[-1]), rows.dtype)
    return (
        MoeDistributeCombine(
            task.profile, needed, shared, out, peers_of(task), task.op_type,  # type: ignore[arg-type]
            without_weights=task.whole_number("zero_expert_num", 0),
        ),
    )  # fmt: skip
