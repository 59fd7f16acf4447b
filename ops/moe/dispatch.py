"""MoeDistributeDispatch: tokens go to the chips of their experts, in one kernel of vector cores.

Pairs of a token and a choice are dealt over cores. Of each the vector unit counts how many before
it go to the same expert, which is its place; the row is loaded, made int8 if that is asked for, and
stored into a window of the expert's chip. Then every expert is told how many rows there are, cores
wait until all chips have told them, and copy what came to where the grouped product reads it. All
chips are taken to have the same tokens. Source: ops-transformer mc2/moe_distribute_dispatch_v2,
device schedule.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from npusim.ascendc import Core, GlobalTensor, Kernel, TBuf, TPosition, TQue
from npusim.ascendc.events import Event
from npusim.ascendc.loops import looked_up, values_of
from npusim.ascendc.queues import BUFFER_NUM, TQueBind
from npusim.ascendc.task import Task, made
from npusim.engine.program import Pipe
from npusim.ops.moe.peers import Peers, peers_of, share
from npusim.ops.moe.sent_rows import Quantised, scale_of
from npusim.schedules.bounds import fault_outside
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import FLOAT, INT8, INT32, INT64
from npusim.values.errors import DeviceFault
from npusim.values.status import AclError

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from numpy.typing import NDArray

    from npusim.ascendc import LocalTensor
    from npusim.ascendc.gm_slices import GmSlice
    from npusim.ascendc.loops import Index
    from npusim.engine.program import Barrier
    from npusim.hardware.profile import Profile

TRIPLE = 3  # chip, token and choice that a row is of
_BESIDE_BYTES = 32 + TRIPLE * INT32.itemsize  # its scale and these, behind the row
_LANES = 64  # numbers of 32 bits that the vector unit takes at once
_STATE = 8  # of them that tell an expert how many rows there are
_APART = 128  # of them from what one core tells another to what it tells the next
_LINES_OF_TOTAL = 3  # of memory that the scalar unit reads and writes for the total of an expert


class Arrived(NamedTuple):
    """Rows of this chip's experts, their scales, what they are of, and how many there are."""

    rows: GlobalTensor
    scales: GlobalTensor | None
    triples: GlobalTensor
    totals: GlobalTensor
    counts: GlobalTensor

    @property
    def present(self) -> tuple[GlobalTensor, ...]:
        """Those that there are."""
        return tuple(each for each in self if each is not None)


class MoeDistributeDispatch(Kernel):
    """rows = those of x whose tokens chose an expert of this chip, expert by expert, chip by chip.

    ``smooth`` scales of each expert multiply rows before they are int8; ``cumulative`` totals add
    up those of the experts before. Pairs that a ``mask`` of tokens or pairs leaves out aren't sent,
    nor those of experts ``without_weights``, whose numbers are behind the others'.
    """

    hard_sync = True

    def __init__(
        self,
        profile: Profile,
        x: GlobalTensor,
        ids: GlobalTensor,
        smooth: GlobalTensor | None,
        mask: GlobalTensor | None,
        arrived: Arrived,
        peers: Peers,
        op_type: str,
        *,
        cumulative: bool = False,
        without_weights: int = 0,
    ) -> None:
        self.op_type, self.cumulative = op_type, cumulative
        self.x, self.ids, self.smooth, self.out = x, ids.view(ids.numel), smooth, arrived
        (self.tokens, self.width), self.pairs, self.peers = x.shape, ids.numel, peers
        self.choices = self.pairs // self.tokens
        self.experts = peers.experts + without_weights
        self.quantised = arrived.rows.dtype is INT8
        self.block_dim = profile.cores.vector_cores
        size = arrived.rows.dtype.itemsize
        self.beside = round_up(self.width * size, profile.buffers.block_bytes) // size
        self.columns = self.beside + _BESIDE_BYTES // size
        self.sent = made((self.pairs, self.columns), arrived.rows.dtype, "window")
        held = Quantised.nbytes(self.width) if self.quantised else 0
        held += 2 * round_up(self.pairs, _LANES) * INT32.itemsize
        held += self.width * FLOAT.itemsize * (smooth is not None)
        row = self.columns * arrived.rows.dtype.itemsize
        row += self.width * x.dtype.itemsize * self.quantised
        self.depth = 1 if held + BUFFER_NUM * row > profile.buffers.ub_bytes else BUFFER_NUM
        known = None if ids.array is None else ids.array.reshape(-1).astype(np.int64)
        self.active = self._active(known, mask)
        known = None if known is None else known[self.active]
        self.received = peers.received(known, self.pairs)
        many = len(self.active)
        self.order = np.arange(many) if known is None else np.argsort(known, kind="stable")
        self.places = np.argsort(self.order)
        self.before_here = 0 if known is None else int((known < peers.first).sum())
        self.reads = tuple(each for each in (x, ids, smooth) if each is not None)
        self.states = made((peers.experts, _STATE), INT32, "states")
        self.sums = made((self.block_dim**2 * _APART,), INT32, "sums")
        self.writes, self.scratch = arrived.present, (self.sent, self.states, self.sums)

    @property
    def workspace_bytes(self) -> int:
        """What cores tell each other; windows are the communication's, not the kernel's."""
        return self.sums.nbytes

    def block_kind(self, block_idx: int) -> Hashable:
        blocks, sources = self._own(block_idx)
        last = block_idx == self._last
        return *self._shares(block_idx), len(blocks), len(sources), last

    def _shares(self, block: int) -> tuple[int, int, int]:
        """Pairs of a core, how many pairs are before its middle one, and experts it tells."""
        first, count = share(len(self.active), self.block_dim, block)
        before = round_up(first + count // 2, _LANES)
        return count, before, share(self.peers.experts, self.block_dim, block)[1]

    @property
    def _last(self) -> int:
        return min(self.received.size, self.block_dim) - 1

    def _own(self, block: int) -> tuple[range, list[int]]:
        """The blocks of rows that a core brings in, and where each of their rows is in a window."""
        first, count = share(self.received.size, self.block_dim, block)
        blocks, flat = range(first, first + count), self.received.reshape(-1)
        starts = np.concatenate([[0], np.cumsum(self.received[:, 0])])
        found = [
            self.before_here + int(starts[each // self.peers.ranks]) + row
            for each in blocks
            for row in range(int(flat[each]))
        ]
        return blocks, [each % self.pairs for each in found]

    def _active(
        self, ids: NDArray[np.int64] | None, mask: GlobalTensor | None
    ) -> NDArray[np.int64]:
        """Pairs that are sent: of tokens that count, and of experts that have weights."""
        every = np.arange(self.pairs)
        counts = np.ones(self.pairs, np.bool_) if ids is None else ids < self.peers.experts
        if mask is not None and mask.array is not None:
            told = mask.array.reshape(self.tokens, -1).astype(np.bool_)
            counts &= np.broadcast_to(told, (self.tokens, self.choices)).reshape(-1)
        found: NDArray[np.int64] = every[counts]
        return found

    def process(self, core: Core) -> Iterator[Barrier]:
        """Send, tell, wait, bring in, add up."""
        block = core.get_block_idx()
        fault_outside(core, self.op_type, self.ids, self.experts)
        self._fault_beyond(core)
        self._send(core, *share(len(self.active), self.block_dim, block))
        first, experts = share(self.peers.experts, self.block_dim, block)
        for _ in core.loop(experts):
            self._count(core, round_up(self.pairs, _LANES))
        yield core.sync_all()
        core.pipe.reset()
        self._tell(core, first, experts)
        core.elsewhere("peers", self.peers.latency_us(core.profile))
        self._share_counts(core, block)
        yield core.sync_all()
        self._bring_in(core, *self._own(block))
        yield core.sync_all()
        if block == self._last:
            core.pipe.reset()
            self._add_up(core)

    def _fault_beyond(self, core: Core) -> None:
        """Raise DeviceFault where more rows arrive than there is room for; the first core looks."""
        arriving, room = int(self.received.sum()), self.out.rows.shape[0]
        if core.numerics and not core.get_block_idx() and arriving > room:
            raise DeviceFault(
                AclError.ACL_ERROR_RT_VECTOR_CORE_EXCEPTION,
                f"{self.op_type}: {arriving} rows arrive, and there is room for {room}",
                "Let the experts that a token chooses differ from one another.",
            )

    # -- to the others ---------------------------------------------------------------------------

    def _send(self, core: Core, first: int, count: int) -> None:
        """Row by row: nothing of the next is stored before the last one is."""
        ids, self.seen = TQue(TPosition.VECIN, 1, "ids"), TBuf("seen")
        for buffer in (ids, self.seen):
            core.pipe.init_buffer(buffer, 1, round_up(self.pairs, _LANES) * INT32.itemsize)
        ids.free_tensor(ids.copy_in(self.ids.span(0, self.pairs)))
        quantised = None
        if self.quantised:
            sizes = self.width, self.beside, self.columns, self.depth
            smooth = self.smooth is not None
            quantised = Quantised(core, self.x.dtype, *sizes, smooth=smooth)
        bind = TQueBind(self.depth, "rows")
        if quantised is None:
            nbytes = self.columns * self.out.rows.dtype.itemsize
            core.pipe.init_buffer(bind, self.depth, nbytes)
        done = Event(core, Pipe.MTE3, Pipe.SCALAR, set_before=True)
        core.set_store_link(*self.peers.link(core.profile, self.block_dim))
        before = self._shares(core.get_block_idx())[1]
        mine = self.active[first : first + count]
        for turn in core.loop(count):
            self._count(core, before)
            token = looked_up(turn, mine // self.choices)
            source = self.x.window(((token, self.width),), (self.width,), (1,))
            if quantised is None:
                row = self._as_it_is(core, bind, source)
            else:
                row = quantised.row(source, self._scales_of(turn, mine))
            core.emit_scalar("st_ub", stores=TRIPLE, operations=4)
            done.wait()
            place = looked_up(turn, self.places[first : first + count])
            core.copy_runs(self.sent.window(((place, self.columns),), (self.columns,), (1,)), row)
            done.set()
            if quantised is None:
                bind.free_tensor(row, by=Pipe.MTE3)
            else:
                quantised.free(row)
        core.set_store_link()

    def _scales_of(self, turn: Index, mine: NDArray[np.int64]) -> tuple[GlobalTensor, Index] | None:
        """Smooth scales, and which of their rows is that of the expert of a pair."""
        if self.smooth is None:
            return None
        known = self.ids.array
        rows = np.zeros_like(mine) if known is None else known.astype(np.int64)[mine]
        return self.smooth, looked_up(turn, rows)

    def _as_it_is(self, core: Core, bind: TQueBind, source: GmSlice) -> LocalTensor:
        row = bind.alloc_tensor(self.x.dtype, self.columns)
        core.copy_runs(row[: self.width], source)
        bind.enque(row)
        return bind.deque(row)

    def _count(self, core: Core, before: int) -> None:
        """How many of the pairs before go to the same expert."""
        core.emit_scalar("ld_ub", loads=1, operations=6)
        if not before:
            return
        seen = self.seen.get(INT32, before)
        for name in ("vector_dup", "vsub", "vabs", "vmins", "vcadd"):
            core.record_vector(name, seen, before)
        core.wait_vector()
        core.emit_scalar("ld_ub", loads=1, operations=2)

    def _tell(self, core: Core, first: int, experts: int) -> None:
        """Each expert of this core learns how many rows come, where its chip waits for that."""
        told = TBuf("states")
        core.pipe.init_buffer(told, 1, max(1, experts) * _STATE * INT32.itemsize)
        if not experts:
            return
        tile = core.duplicate(told.get(INT32, experts, _STATE), 1)
        core.set_store_link(*self.peers.link(core.profile, self.block_dim))
        for turn in core.loop(experts):
            core.emit_scalar("flags", loads=1, operations=12)
            expert = looked_up(turn, np.arange(first, first + experts))
            target = self.states.window(((expert, _STATE),), (_STATE,), (1,))
            core.copy_runs(target, tile[turn])
        core.set_store_link()

    def _share_counts(self, core: Core, block: int) -> None:
        """What this core has got goes to all cores, by 512 bytes apart."""
        cores = self.block_dim
        given = TQue(TPosition.VECOUT, 1, "sums")
        core.pipe.init_buffer(given, 1, cores * _STATE * INT32.itemsize)
        tile = core.duplicate(given.alloc_tensor(INT32, cores, _STATE), 0)
        places = ((block, cores * _APART),)
        given.copy_out(self.sums.window(places, (cores, _STATE), (_APART, 1)), tile)

    def _counts_of_others(self, core: Core, block: int) -> None:
        """What the other cores have got, of which those before this one count."""
        cores = self.block_dim
        taken = TQue(TPosition.VECIN, 1, "others")
        core.pipe.init_buffer(taken, 1, cores * _STATE * INT32.itemsize)
        places = ((block, _APART),)
        tile = taken.copy_in(self.sums.window(places, (cores, _STATE), (cores * _APART, 1)))
        core.record_vector("vcadd", tile, cores)
        core.wait_vector()
        core.emit_scalar("ld_ub", loads=1)
        taken.free_tensor(tile)

    # -- from the others -------------------------------------------------------------------------

    def _bring_in(self, core: Core, blocks: range, sources: list[int]) -> None:
        """Rows out of the window of this chip, with what they are of, and how many there are."""
        kind = self.out.rows.dtype
        bind, counts = TQueBind(BUFFER_NUM, "came"), TQue(TPosition.VECOUT, 1, "counts")
        core.pipe.init_buffer(bind, BUFFER_NUM, self.columns * kind.itemsize)
        core.pipe.init_buffer(counts, 1, max(1, len(blocks)) * INT32.itemsize)
        self.scale, self.triple = TBuf("scale"), TBuf("triple")
        core.pipe.init_buffer(self.scale, 1, FLOAT.itemsize)
        core.pipe.init_buffer(self.triple, 1, TRIPLE * INT32.itemsize)
        if not blocks:
            return
        self._counts_of_others(core, core.get_block_idx())
        ends = np.cumsum(self.received.reshape(-1))
        first = int(ends[blocks[0]] - self.received.reshape(-1)[blocks[0]])
        core.emit_scalar("blocks", loads=len(blocks), operations=12 * len(blocks))
        for turn in core.loop(len(sources)):
            target = looked_up(turn, first + np.arange(len(sources)))
            source = looked_up(turn, np.array(sources, np.int64))
            self._row(core, bind, source, target)
        tile = counts.alloc_tensor(INT32, len(blocks))
        core.emit_scalar("st_ub", stores=len(blocks))
        core.wrote(tile)
        if core.numerics:
            tile.target(core.depth)[...] = ends[blocks[0] : blocks[-1] + 1]
        flat = self.out.counts.view(self.out.counts.numel)
        counts.copy_out(flat.span(blocks[0], len(blocks)), tile)

    def _row(self, core: Core, bind: TQueBind, source: Index, target: Index) -> None:
        window = self.sent.window(((source, self.columns),), (self.columns,), (1,))
        row = bind.copy_in(window)
        triple = self.triple.get(INT32, TRIPLE)
        core.wrote(triple)
        core.arrange(triple, row, how=lambda values: self._of(core, target, values))
        core.copy_runs(self.out.triples.window(((target, TRIPLE),), (TRIPLE,), (1,)), triple)
        if self.quantised and self.out.scales is not None:
            scale = self.scale.get(FLOAT, 1)
            core.wrote(scale)
            core.arrange(scale, row[self.beside : self.beside + FLOAT.itemsize], how=scale_of)
            core.copy_runs(self.out.scales.window(((target, 1),), (1,), (1,)), scale)
        rows = self.out.rows.window(((target, self.width),), (self.width,), (1,))
        core.copy_runs(rows, row[: self.width])
        bind.free_tensor(row, by=Pipe.MTE3)

    def _of(self, core: Core, target: Index, like: NDArray[Any]) -> NDArray[np.int32]:
        """Chip, token and choice of received rows."""
        flat = self.received.reshape(-1)
        blocks = np.repeat(np.arange(flat.size), flat)
        inside = np.arange(flat.sum()) - np.repeat(np.cumsum(flat) - flat, flat)
        starts = self.before_here + np.concatenate([[0], np.cumsum(self.received[:, 0])])
        pairs = self.active[self.order[starts[blocks // self.peers.ranks] + inside]]
        table = np.stack([blocks % self.peers.ranks, *np.divmod(pairs, self.choices)], axis=-1)
        found = table[values_of(target)]
        return found.reshape(*like.shape[: core.depth], TRIPLE).astype(np.int32)

    def _add_up(self, core: Core) -> None:
        """The rows of each expert, which the scalar unit reads from memory and writes to it."""
        totals = self.out.totals
        out = TQue(TPosition.VECOUT, 1, "totals")
        core.pipe.init_buffer(out, 1, totals.numel * totals.dtype.itemsize)
        for _ in core.loop(self.peers.local):
            core.load_lines(_LINES_OF_TOTAL)
        tile = out.alloc_tensor(totals.dtype, totals.numel)
        core.wrote(tile)
        core.emit_scalar("st_ub", stores=totals.numel)
        if core.numerics:
            found = self.received.sum(-1)
            tile.target(core.depth)[...] = np.cumsum(found) if self.cumulative else found
        out.copy_out(totals.view(totals.numel).span(0, totals.numel), tile)


def moe_distribute_dispatch(task: Task) -> tuple[Kernel, ...]:
    """x, experts of each token, perhaps smooth scales and a mask; others aren't modelled."""
    given = (*task.inputs, *[None] * 7)[:7]
    x, ids, smooth, mask = given[:4]
    if x is None or ids is None or len(x.shape) != 2 or len(ids.shape) != 2:
        raise task.refused("needs tokens and their experts")
    if any(each is not None for each in given[5:]):
        raise task.refused("elastic groups and times of chips aren't modelled")
    mode = task.whole_number("quant_mode", 0)
    if mode not in (0, 2):
        raise task.refused(f"quant_mode {mode}; 0 and 2 are modelled")
    peers = peers_of(task)
    return (
        MoeDistributeDispatch(
            task.profile, x, ids, smooth if mode else None, mask, _arrived(task, x, ids, peers),
            peers, task.op_type, cumulative=task.whole_number("expert_token_nums_type", 1) == 0,
            without_weights=task.whole_number("zero_expert_num", 0),
        ),
    )  # fmt: skip


def _arrived(task: Task, x: GlobalTensor, ids: GlobalTensor, peers: Peers) -> Arrived:
    given = (*task.outputs, *[None] * 5)
    quantised = task.whole_number("quant_mode", 0) == 2
    most = ids.shape[0] * peers.ranks * min(peers.local, ids.shape[1])
    rows = given[0] or made((most, x.shape[1]), INT8 if quantised else x.dtype)
    scales = (given[1] or made((rows.shape[0],), FLOAT, "scales")) if quantised else None
    return Arrived(
        rows, scales,
        given[2] or made((rows.shape[0] * 128,), INT32, "triples"),
        given[3] or made((peers.local,), INT64, "totals"),
        given[4] or made((peers.local * peers.ranks,), INT32, "counts"),
    )  # fmt: skip
