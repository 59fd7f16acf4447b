"""SparseFlashAttention: every query attends to the keys that were chosen for it, latent (MLA).

The heads of a query are the rows of one block. Vector cores bring the keys of a round together in
workspace, half of them each and two at a time, one round before the cube core needs them; from
there on it is attention. Source: ops-transformer attention/sparse_flash_attention, host tiling and
device schedule (arch22).
"""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from math import ceil
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from npusim.ascendc.loops import values_of
from npusim.ascendc.queues import TQueBind
from npusim.ascendc.task import Task, made
from npusim.engine.program import Pipe
from npusim.library.asking import FLAGS
from npusim.ops.attention.call import Call, NotCoveredError
from npusim.ops.attention.cube import CubeSide
from npusim.ops.attention.kernel import Attention
from npusim.ops.attention.lengths import Lengths
from npusim.ops.attention.masks import Mask
from npusim.ops.attention.operands import Gathered
from npusim.ops.attention.pipeline import Pipeline
from npusim.ops.attention.softmax import VectorSide
from npusim.ops.attention.spaces import OUTPUTS, Space
from npusim.values.arithmetic import round_up

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from npusim.ascendc import Core, GlobalTensor, Kernel, LocalTensor
    from npusim.ascendc.cluster import CoreWait
    from npusim.ascendc.loops import Index
    from npusim.engine.program import Barrier
    from npusim.hardware.profile import Profile
    from npusim.library.operands import GmMatrix
    from npusim.ops.attention.heads import Heads
    from npusim.ops.attention.steps import Job, Step, Typical

    Steps = Iterator[Barrier | CoreWait]

CAUSAL = 3  # sparse mode: query i of n sees all keys but the last n - 1 - i
MOST_BY_VECTOR = 4  # tokens of a block that vector cores bring together; longer ones the cube does
_KEYS = 512  # of a round
_ROUNDS = 4  # that workspace has room for
_TOGETHER = 16  # keys in UB at a time; the device has 32, in buffers that scores use too
_MOST_ROWS = 64  # of a vector core
_GRAIN = 16
_ADDRESS = 12  # operations of the scalar unit for the address of a key
_THERE, _ROOM = 3, 4  # flags: keys are together, a place for them is free


class Chosen:
    """Which keys each query attends to: ``count`` blocks of ``size`` tokens, the best ones first.

    ``seen`` are the tokens of its sequence that a query may see. Without numbers it attends to as
    many as there may be, evenly spread.
    """

    def __init__(
        self, indices: GlobalTensor, size: int, lengths: Lengths, seen: NDArray[np.int64]
    ) -> None:
        self.indices, self.size, self.seen = indices, size, seen
        self.sequences, self.own = lengths.sequences, lengths.queries
        self.blocks = indices.shape[-1]
        self._rows = None
        if indices.array is None:
            self.counts = np.minimum(seen, self.blocks * size)
            return
        self._rows = indices.array.reshape(-1, self.blocks)[lengths.rows].astype(np.int64)
        left = np.clip(seen[:, None] - self._rows * size, 0, size)
        self.counts = np.where(self._valid(), left, 0).sum(-1)

    def _valid(self) -> NDArray[np.bool_]:
        """Entries in front of the first that is negative."""
        assert self._rows is not None
        return np.asarray(np.logical_and.accumulate(self._rows >= 0, axis=-1))

    def tokens(self, query: int) -> NDArray[np.int64]:
        """The tokens of its sequence that a query attends to."""
        count, seen = int(self.counts[query]), int(self.seen[query])
        if self._rows is None:
            return np.arange(count) * seen // max(1, count)
        row = self._rows[query][self._valid()[query]]
        found = (row[:, None] * self.size + np.arange(self.size)).reshape(-1)
        return np.asarray(found[found < seen])


class Kept(NamedTuple):
    """A tensor of keys, or of their ropes, and where chosen ones are brought together."""

    heads: Heads
    together: Space

    def numbers(self, sequence: int, tokens: NDArray[np.int64]) -> NDArray[Any]:
        """The rows of some tokens."""
        heads = self.heads
        places = heads.starts[sequence] + tokens * heads.token
        if heads.pages is not None:
            table = heads.pages.table.array
            assert table is not None
            pages = table.reshape(heads.pages.table.shape)[sequence][tokens // heads.pages.size]
            places = pages * heads.pages.step + tokens % heads.pages.size * heads.token
        array = heads.tensor.array
        assert array is not None
        found: NDArray[Any] = array.reshape(-1)[places[:, None] + np.arange(heads.columns)]
        return found


class SparseAttention(Attention):
    """Attention of queries as sequences of their own, to keys that have been brought together."""

    op_type = "SparseFlashAttention"

    def __init__(
        self, profile: Profile, call: Call, chosen: Chosen, keys: tuple[Heads, ...]
    ) -> None:
        clusters = profile.cores.cube_cores
        self.chosen = chosen
        self.kept = tuple(
            Kept(each, Space.of(name, each.tensor.dtype, clusters, 1, _ROUNDS, _KEYS, each.columns))
            for name, each in zip(("keys", "ropes"), keys, strict=False)
        )
        rows = max(call.query.rows)
        half = min(_MOST_ROWS, round_up(ceil(rows / 2), _GRAIN))
        super().__init__(
            profile, call, rows=half, keys=_KEYS, trimmed=False, asking=FLAGS,
            lanes=1 if rows <= half else None, op_type=self.op_type,
        )  # fmt: skip
        given = [call.query, *(call.rope or ())[:1], *keys]
        pages = keys[0].pages
        self.reads = (
            *(each.tensor for each in given), chosen.indices, *([pages.table] if pages else []),
        )  # fmt: skip
        self.scratch = (*self.scratch, *(each.together.tensor for each in self.kept))

    def pipeline(self, core: Core, lane: int | None) -> Pipeline:
        given = (core, self.call, self.dealing, self.spaces)
        side = _Products(*given, messages=0) if lane is None else _Vector(*given)
        side.kernel = self
        return _Bringing(core, side, lane)


class _Bringing(Pipeline):
    """Vector cores bring keys together one round before they weigh its scores."""

    def __init__(self, core: Core, side: _Products | _Vector, lane: int | None) -> None:
        super().__init__(core, side, lane)
        self._bringer = side if isinstance(side, _Vector) else None

    def in_turn(self, steps: Iterator[Step]) -> Steps:
        core, bringer = self._core, self._bringer
        if bringer is None:
            for _ in range(_ROUNDS):
                core.cross_core_set_flag(_ROOM, Pipe.MTE2)
            yield from super().in_turn(steps)
            return
        before: Step = []
        begun: list[Job] = []
        for step in chain(steps, [[]]):
            if step:
                yield from bringer.bring(step[0])
            for job in self._own(before):
                yield from bringer.begin(job)
            for job in begun:
                yield from bringer.finish(job)
            before, begun = step, self._own(before)
        for job in begun:
            yield from bringer.finish(job)
        yield from self._let_go()

    def in_loops(self, typical: Typical) -> Steps:
        core, bringer = self._core, self._bringer
        if bringer is None:
            for _ in range(_ROUNDS):
                core.cross_core_set_flag(_ROOM, Pipe.MTE2)
            for job in typical.last:  # for what a vector core finishes one round later still
                core.cross_core_set_flag(OUTPUTS, Pipe.FIXP, sub_block=job.lane)
            yield from super().in_loops(typical)
            return
        yield from bringer.bring(typical.last[0])
        for step in typical.steps(core):
            yield from bringer.bring(step[0])
            yield from self._whole(step)
        own = self._own(typical.last)
        for job in own:
            yield from bringer.begin(job)
        for _ in own:
            yield core.cross_core_wait_flag(OUTPUTS)
        for job in own:
            yield from bringer.finish(job)
        yield from self._let_go()

    def _let_go(self) -> Steps:
        for _ in range(_ROUNDS):
            yield self._core.cross_core_wait_flag(_ROOM)


class _Products(CubeSide):
    """The cube core's side; the keys of a round are those of both vector cores' blocks."""

    kernel: SparseAttention
    _begun = _finished = -1

    def begin(self, job: Job) -> Steps:
        if not job.lane:
            self._begun += 1
            yield self._core.cross_core_wait_flag(_THERE)
        yield from super().begin(job)

    def finish(self, job: Job) -> Steps:
        self._finished += not job.lane
        yield from super().finish(job)
        if job.lane == self.kernel.dealing.lanes - 1:
            self._core.cross_core_set_flag(_ROOM, Pipe.MTE2)

    def _keys(self, job: Job) -> GmMatrix:
        key, *ropes = (
            replace(self._brought(each, job, self._begun), transposed=True)
            for each in self.kernel.kept
        )
        if not ropes:
            return key
        width = self.kernel.kept[0].heads.columns
        return Gathered(key.tensor, key.start, key.step, True, beside=ropes[0], width=width)

    def _values(self, job: Job) -> GmMatrix:
        return self._brought(self.kernel.kept[0], job, self._finished)

    def _brought(self, kept: Kept, job: Job, number: int) -> GmMatrix:
        return kept.together.matrix(self._core, _in_place(job, number), kept.heads.columns)


def _in_place(job: Job, number: int) -> Job:
    """The job as the workspace of keys counts them: on one lane, round by round."""
    return job._replace(lane=0, slot=number % _ROUNDS)


class _Vector(VectorSide):
    """A vector core's side, which brings half of the keys of every round together."""

    slots = 8  # room for keys beside
    _brought = -1

    def __init__(self, core: Core, call: Call, *given: Any) -> None:
        super().__init__(core, call, *given)
        self._queues = []
        for name, heads in zip(
            ("keys", "ropes"), (call.query, *(call.rope or ())[:1]), strict=False
        ):
            queue = TQueBind(2, name)
            nbytes = _TOGETHER * heads.columns * heads.tensor.dtype.itemsize
            core.pipe.init_buffer(queue, 2, nbytes)
            self._queues.append(queue)

    kernel: SparseAttention

    def bring(self, job: Job) -> Steps:
        """This core's half of the keys of a round."""
        core, size = self._core, self.kernel.chosen.size
        self._brought += 1
        yield core.cross_core_wait_flag(_ROOM)
        half = ceil(ceil(job.keys / (2 * size)) / 2) * 2 * size
        first, last = (0, min(half, job.keys)) if not core.get_sub_block_idx() else (
            min(half, job.keys), job.keys)  # fmt: skip
        for start, count in core.tiles(first, last - first, _TOGETHER):
            self._some(job, start, count)
        core.cross_core_set_flag(_THERE, Pipe.MTE3)

    def _some(self, job: Job, start: Index, count: int) -> None:
        """As many keys as UB has room for, two in one load."""
        core, kept = self._core, self.kernel.kept
        pairs = ceil(count / 2)
        tiles = [
            queue.alloc_tensor(each.heads.tensor.dtype, pairs, 2, each.heads.columns)
            for queue, each in zip(self._queues, kept, strict=True)
        ]
        for turn in core.loop(pairs):
            self._addresses(job)
            for each, tile in zip(kept, tiles, strict=True):
                core.copy_runs(tile[turn], self._source(each, job, start, turn))
        for each, queue, tile in zip(kept, self._queues, tiles, strict=True):
            self._numbers(each, tile, job, start)
            queue.enque(tile)
            queue.deque(tile)
            where = _in_place(job, self._brought)
            target = each.together.window(core, where, start, count, each.heads.columns)
            core.copy_runs(target, tile.view(2 * pairs, each.heads.columns)[:count])
            queue.free_tensor(tile, by=Pipe.MTE3)

    def _addresses(self, job: Job) -> None:
        """Two numbers of chosen keys, and with pages those of their pages."""
        core, kernel, sequence = self._core, self.kernel, job.block.sequence
        chosen = kernel.chosen
        first = sequence * chosen.blocks + job.key // chosen.size
        flat = chosen.indices.view(chosen.indices.numel)
        for _ in range(2):
            core.load_scalar(flat.window(((min(first, flat.numel - 1), 1),), (), ()))
        pages = kernel.kept[0].heads.pages
        if pages is not None:
            table = pages.table.view(pages.table.numel)
            for _ in range(2):
                core.load_scalar(table.window(((0, 1),), (), ()))
        core.emit_scalar("addresses", operations=2 * _ADDRESS)

    def _source(self, each: Kept, job: Job, start: Index, turn: Index) -> Any:
        """Two keys, as far from those before as chosen ones are in the mean."""
        heads, chosen, query = each.heads, self.kernel.chosen, job.block.sequence
        sequence, seen = int(chosen.sequences[query]), int(chosen.seen[query])
        apart = max(1, seen // max(1, int(chosen.counts[query])))
        begin = heads.starts[sequence]
        if heads.pages is not None:
            begin = sequence * heads.pages.table.shape[-1] * heads.pages.step
        width, last = heads.columns, heads.tensor.numel - 2 * heads.columns
        first = min(max(0, last), begin + job.key * apart * heads.token)
        step = apart * heads.token
        if first + _KEYS * step > heads.tensor.numel:
            step = 0
        moved = max(1, seen // int(chosen.own[sequence])) * heads.token
        places = ((first, 1), (start, step), (turn, 2 * step),
                  *((each, _KEYS * step) for each, _ in job.along),
                  *((each, moved) for each, _ in job.over))  # fmt: skip
        return heads.tensor.window(places, (2, width), (heads.token if last >= 0 else 0, 1))

    def _numbers(self, each: Kept, tile: LocalTensor, job: Job, start: Index) -> None:
        """What the loads bring: the keys that were chosen, wherever they lie."""
        core, chosen, query = self._core, self.kernel.chosen, job.block.sequence
        core.wrote(tile)
        if not core.numerics:
            return
        tokens = chosen.tokens(query)
        rows = np.arange(tile.shape[0] * 2)
        places = np.minimum(job.key + values_of(start)[:, None] + rows, len(tokens) - 1)
        found = each.numbers(int(chosen.sequences[query]), tokens[places.reshape(-1)])
        target = tile.target(core.depth)
        target[...] = found.reshape(target.shape)


def sparse_flash_attention(task: Task) -> tuple[Kernel, ...]:
    """query, key, value (as key), chosen tokens, pages, lengths of queries and keys, both ropes.

    Where there are no ropes, they are what queries have more columns than values.
    """
    given = (*task.inputs, *[None] * 10)[:10]
    query, key, value, indices, table, own, theirs, query_rope, key_rope, sinks = given
    if query is None or key is None or indices is None:
        raise task.refused("needs queries, keys and chosen keys")
    if sinks is not None or task.attributes.get("return_softmax_lse"):
        raise NotCoveredError(task.op_type, "sinks, maxima and sums aren't modelled")
    size = task.whole_number("sparse_block_size", 1)
    if size > MOST_BY_VECTOR:
        raise NotCoveredError(task.op_type, f"blocks of {size} keys aren't modelled")
    layout = str(task.first("layout_query", "inputLayout") or "BSND")
    if len(query.shape) != len(layout) or layout not in ("BSND", "TND"):
        raise task.refused(f"queries {query.shape} in layout {layout}")
    lengths = Lengths.of(query, key, table, own, theirs, layout)
    if task.whole_number("sparse_mode", CAUSAL) == CAUSAL:
        seen = lengths.seen()
    else:
        seen = np.repeat(lengths.keys, lengths.queries)
    chosen = Chosen(indices, size, lengths, seen)
    if not chosen.counts.size or chosen.counts.min() < 1:
        raise NotCoveredError(task.op_type, "queries without keys, whose results are zeros")
    wide = key.shape[-1] if value is None else value.shape[-1]
    _values_of_keys(task, key, value, wide)
    shape = (*query.shape[:-1], wide)
    out = task.outputs[0] if task.outputs else made(shape, query.dtype)
    if out.shape != shape:
        raise task.refused(f"a result of {out.shape}; {shape} comes out")
    parts = [(query, key, 0, wide)]
    if query_rope is not None and key_rope is not None:
        parts.append((query_rope, key_rope, 0, key_rope.shape[-1]))
    elif query.shape[-1] > wide:
        parts.append((query, key, wide, query.shape[-1] - wide))
    queries = [lengths.of_queries(each, first, columns) for each, _, first, columns in parts]
    keys = [lengths.of_keys(each, table, first, columns) for _, each, first, columns in parts]
    counts = tuple(chosen.counts.tolist())
    near = [
        replace(each, rows=counts, starts=(0,) * len(counts), token=each.columns, pages=None)
        for each in keys
    ]
    heads, columns = query.shape[-2:]
    call = Call(
        queries[0], near[0], replace(near[0]), lengths.of_queries(out),
        Mask.of(None, 0, (0, 0), [(heads, n) for n in counts]),
        task.number("scale_value", task.number("scaleValue", columns**-0.5)),
        rope=(queries[1], near[1]) if parts[1:] else None,
    )  # fmt: skip
    return (SparseAttention(task.profile, call, chosen, tuple(keys)),)


def _values_of_keys(task: Task, key: GlobalTensor, value: GlobalTensor | None, wide: int) -> None:
    """Values are the first columns of keys: nobody reads their own tensor."""
    if value is None or value.array is None or key.array is None:
        return
    if not np.array_equal(key.array[..., :wide], value.array):
        raise task.refused("values that aren't the first columns of keys aren't modelled")
