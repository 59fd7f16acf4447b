"""LightningIndexer: the keys that a sparse attention looks at, the best by small heads' scores.

Score of a key: what heads say of it, none below nought, weighed and added up. Up to 8 queries of a
sequence go with 512 keys at a time; all such blocks are dealt to clusters evenly, keys innermost.
The cube core makes scores of all heads, its vector cores weigh those of half the queries each,
sort them, and merge them into the best so far. Where keys of a query are on several clusters, each
leaves its best in workspace, and the one with the first keys merges them. Source: ops-transformer
attention/lightning_indexer, host tiling and device schedule (arch22).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from npusim.ascendc import Core, Kernel, TPosition, TQue
from npusim.ascendc.task import Task, made
from npusim.engine.program import Pipe
from npusim.library.matmul import Matmul
from npusim.library.operands import GmMatrix
from npusim.ops.attention.call import NotCoveredError
from npusim.ops.attention.cube import tiling
from npusim.ops.attention.indexer_best import BEST, FREE, NONE, SLOTS, THERE, Best
from npusim.ops.attention.indexer_dealing import KEYS, QUERIES, Dealt
from npusim.ops.attention.lengths import Lengths
from npusim.ops.attention.operands import Gathered
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import FLOAT, INT32

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

    from numpy.typing import NDArray

    from npusim.ascendc import GlobalTensor
    from npusim.ascendc.cluster import CoreWait
    from npusim.ascendc.loops import Index
    from npusim.engine.program import Barrier
    from npusim.hardware.profile import Profile
    from npusim.library.matmul import Block, Product
    from npusim.ops.attention.heads import Heads
    from npusim.ops.attention.indexer_dealing import Part, Turn

    Steps = Iterator[Barrier | CoreWait]

CAUSAL: Final = 3  # sparse mode
_MANY = 8  # rows of a cluster from which on all are taken to have as much to do


class LightningIndexer(Kernel):
    """places [.., k] = the keys with the best scores, the best first; -1 where there are fewer."""

    op_type = "LightningIndexer"
    is_mix = True

    def __init__(
        self,
        profile: Profile,
        query: GlobalTensor,
        key: Heads,
        weights: GlobalTensor,
        results: tuple[GlobalTensor, GlobalTensor | None],
        lengths: Lengths,
        *,
        causal: bool,
    ) -> None:
        self.query, self.key, self.weights, self.lengths = query, key, weights, lengths
        (self.places, self.values), self.causal = results, causal
        self.heads, self.columns = query.shape[-2:]
        self.count = self.places.shape[-1]
        clusters = profile.cores.cube_cores
        self.dealt = Dealt(lengths, clusters, causal=causal)
        self.block_dim, self.lanes = clusters, profile.cores.vector_cores // clusters
        high = round_up(QUERIES * self.heads, 16)
        self.scores = made((clusters, SLOTS, high, KEYS), FLOAT, "scores")
        self.left = made((clusters, 2, QUERIES, 2, BEST), FLOAT, "best")
        table = () if key.pages is None else (key.pages.table,)
        self.reads = (query, key.tensor, weights, *table)
        self.writes = (self.places,) if self.values is None else (self.places, self.values)
        self.scratch = (self.scores, self.left)
        self.unfilled = self._unfilled()

    @property
    def workspace_bytes(self) -> int:
        """Scores, and the best of rows whose keys several clusters have."""
        return self.scores.nbytes + self.left.nbytes

    def block_kind(self, block_idx: int) -> Hashable:
        unfilled = [len(self._mine(block_idx, lane)) for lane in range(self.lanes)]
        if block_idx >= self.dealt.used:
            return tuple(unfilled)
        if len(self.dealt.parts[block_idx]) > _MANY:
            return ("many", *unfilled)
        typical = self.dealt.typical(block_idx)
        kinds = tuple((turn, times) for turn, (_, times) in typical.items())
        return kinds, len(self.others(block_idx)), tuple(unfilled)

    def others(self, cluster: int) -> list[tuple[int, Part]]:
        """Clusters behind one that have more keys of its last row, where it has the first ones."""
        parts = self.dealt.parts[cluster] if cluster < self.dealt.used else []
        if not parts or parts[-1].first or parts[-1].whole:
            return []
        found = []
        for other in range(cluster + 1, self.dealt.used):
            part = self.dealt.parts[other][0]
            found.append((other, part))
            if part.last == part.row.blocks:
                break
        return found

    def process(self, core: Core) -> Steps:
        """Blocks, then what is left to merge."""
        cluster = core.get_block_idx()
        side: _Products | Best | None = None
        if cluster < self.dealt.used:
            side = _Products(core, self) if core.unit.kind == "cube" else Best(core, self)
            yield from core.separate_steps(
                lambda: self._alone(side) if core.reference else self._in_loops(side),
                lambda: self._alone(side),
            )
        if core.unit.kind == "vector":
            self._clear(core)
        yield core.sync_all()
        if isinstance(side, Best) and self.others(cluster):
            core.pipe.reset()
            side.merge_others(self.others(cluster))

    def _alone(self, side: _Products | Best | None) -> Steps:
        """Block by block."""
        assert side is not None
        yield from side.begin()
        turns = self.dealt.turns(side.core.get_block_idx())
        for number, (part, block, turn) in enumerate(turns):
            yield from side.block(part, block, turn, number)
        yield from side.end()

    def _in_loops(self, side: _Products | Best | None) -> Steps:
        """Those of a kind in a loop."""
        assert side is not None
        yield from side.begin()
        for turn, (part, times) in self.dealt.typical(side.core.get_block_idx()).items():
            for number in side.core.loop(times, sequential=True):
                yield from side.block(part, part.first, turn, number)
        yield from side.end()

    def slot(self, core: Core, number: Index) -> tuple[tuple[Index, int], ...]:
        """Where the scores of a block begin."""
        _, slots, high, wide = self.scores.shape
        return ((core.get_block_idx() * slots * high * wide, 1), (number % SLOTS, high * wide))

    def _unfilled(self) -> NDArray[np.intp]:
        """Rows of queries that see nothing, or aren't there."""
        lengths, seen = self.lengths, self.lengths.seen()
        if not self.causal:
            seen = np.repeat(lengths.keys, lengths.queries)
        filled = np.zeros(self.places.numel // self.count, bool)
        filled[lengths.rows[seen > 0]] = True
        return np.flatnonzero(~filled)

    def _mine(self, cluster: int, lane: int) -> NDArray[np.intp]:
        """Those that a vector core fills."""
        return self.unfilled[lane * self.block_dim + cluster :: self.block_dim * self.lanes]

    def _clear(self, core: Core) -> None:
        """No places for them."""
        mine = self._mine(core.get_block_idx(), core.get_sub_block_idx())
        if not len(mine):
            return
        core.pipe.reset()
        outs: list[tuple[GlobalTensor, float]] = [(self.places, NONE)]
        if self.values is not None:
            outs.append((self.values, -np.inf))
        for tensor, number in outs:
            empty = TQue(TPosition.VECOUT, 1, "none")
            core.pipe.init_buffer(empty, 1, self.count * tensor.dtype.itemsize)
            flat = tensor.view(tensor.numel)
            for row in mine.tolist():
                tile = core.duplicate(empty.alloc_tensor(tensor.dtype, self.count), number)
                empty.copy_out(flat.span(row * self.count, self.count), tile)


class _Products:
    """The cube core's side: what all heads say of 512 keys, none of it below nought."""

    def __init__(self, core: Core, kernel: LightningIndexer) -> None:
        self.core, self._kernel = core, kernel
        kind, columns = kernel.query.dtype, kernel.columns
        rows = max(row.queries for row in kernel.dealt.rows) * kernel.heads
        tile = tiling(core.profile, kind, rows, KEYS, columns, 1)
        self._matmul = Matmul(core, tile, kind, FLOAT, columns, finish=self._finish)

    def _finish(self, product: Product) -> Callable[[Block], None]:
        def take_out(block: Block) -> None:
            target = product.c.block(*block.rows, *block.columns)
            self.core.fixpipe(target, block.tensor, unit_flag=True, relu=True)

        return take_out

    def begin(self) -> Steps:
        yield from ()

    def end(self) -> Steps:
        for _ in range(SLOTS):
            yield self.core.cross_core_wait_flag(FREE)

    def block(self, part: Part, block: int, turn: Turn, number: Index) -> Steps:
        """Scores of a block."""
        core, kernel, row = self.core, self._kernel, part.row
        yield core.cross_core_wait_flag(FREE)
        wide = round_up(turn.keys, 8)
        c = GmMatrix(kernel.scores, kernel.slot(core, number), wide)
        first = int(kernel.lengths.first_queries[row.sequence]) + row.first
        a = GmMatrix(kernel.query, ((first * kernel.heads * kernel.columns, 1),), kernel.columns)
        self._matmul.multiply(c, a, self._keys(part, block, number), turn.queries * kernel.heads,
                              turn.keys, kernel.columns)  # fmt: skip
        core.cross_core_set_flag(THERE, Pipe.FIXP)

    def _keys(self, part: Part, block: int, number: Index) -> GmMatrix:
        key, sequence = self._kernel.key, part.row.sequence
        onward: tuple[tuple[Index, int], ...] = ()
        if not isinstance(number, int):
            onward = ((number, KEYS * key.token),)
        if key.pages is not None:
            pages = replace(key.pages, in_loops=bool(onward))
            return Gathered(key.tensor, ((0, 1), *onward), key.token, True, pages=pages,
                            sequence=sequence, first=block * KEYS)  # fmt: skip
        first = key.starts[sequence] + block * KEYS * key.token
        return GmMatrix(key.tensor, ((first, 1), *onward), key.token, True)


def lightning_indexer(task: Task) -> tuple[Kernel, ...]:
    """query, key, weights of heads, lengths of queries and keys, a table of pages."""
    given = (*task.inputs, *[None] * 6)[:6]
    query, key, weights, own, theirs, table = given
    if query is None or key is None or weights is None:
        raise task.refused("needs queries, keys and weights of heads")
    count = task.whole_number("sparse_count", BEST)
    if count > BEST:
        raise NotCoveredError(task.op_type, f"the best {count}; {BEST} are modelled")
    layout = str(task.attributes.get("layout_query", "BSND"))
    lengths = Lengths.of(query, key, table, own, theirs, layout)
    shape = (*query.shape[:-2], 1, count)
    outputs = (*task.outputs, *[None] * 2)[:2]
    places = outputs[0] or made(shape, INT32, "places")
    wanted = bool(task.attributes.get("return_value"))
    values = (outputs[1] or made(shape, key.dtype, "values")) if wanted else None
    return (
        LightningIndexer(
            task.profile, query, lengths.of_keys(key, table), weights, (places, values), lengths,
            causal=task.whole_number("sparse_mode", CAUSAL) == CAUSAL,
        ),
    )  # fmt: skip
