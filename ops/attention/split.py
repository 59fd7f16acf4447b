"""Few heads with many keys: parts of the keys on different cores, merged afterwards.

Each part is attended to as a sequence of its own, whose outputs, maxima and sums go to workspace.
When all are there, vector cores weigh them: a part counts as much as its sum of weights does beside
the largest maximum. All cores are started, as they wait for each other. Source: ops-transformer
attention/incre_flash_attention, host tiling and CombineSplitKVRes of the kernel.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from math import ceil
from typing import TYPE_CHECKING, Any

from npusim.ascendc import Core, GlobalTensor, RoundMode, TBuf, TPosition, TQue
from npusim.ascendc.task import made
from npusim.library.asking import ONE_BY_ONE
from npusim.ops.attention.call import LANES
from npusim.ops.attention.heads import Heads
from npusim.ops.attention.kernel import Attention
from npusim.ops.attention.softmax import HIDDEN, TINY
from npusim.values.dtypes import FLOAT

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from npusim.ascendc import LocalTensor
    from npusim.ascendc.cluster import CoreWait
    from npusim.engine.program import Barrier
    from npusim.hardware.profile import Profile
    from npusim.library.asking import Asking
    from npusim.ops.attention.call import Call

    Steps = Iterator[Barrier | CoreWait]

_BUSY = 0.4  # of the vector cores: with fewer heads than that, keys are split
_LONG_KEYS = 2048  # where heads share keys: fewer aren't split
_LEAST_KEYS = 512  # of a part
_TILE = 8192  # elements that are merged at a time
_STATS_BYTES = 1 << 14  # of maxima, and of sums, that are weighed at a time


def parts_of(profile: Profile, call: Call) -> int:
    """Parts that the keys of a call with one block of rows for each head are split into.

    Latent heads are dealt to clusters, others to vector cores.
    """
    cores, heads = profile.cores.vector_cores, call.query.heads * call.query.batch
    if call.rope is not None:
        cores = profile.cores.cube_cores
    if heads >= _BUSY * cores:
        return 1
    if max(call.query.rows) > 1 and max(call.key.rows) < _LONG_KEYS:
        return 1
    size = max(_LEAST_KEYS, call.key.pages.size if call.key.pages else 1)
    return max(1, min(cores // heads, min(call.key.rows) // size))


class SplitAttention(Attention):
    """Attention whose keys are split; ``call`` has one block of rows for each head."""

    def __init__(
        self, profile: Profile, call: Call, parts: int, *, asking: Asking = ONE_BY_ONE, **given: Any
    ) -> None:
        self.whole, self.parts = call, parts
        rows, wide = max(call.query.rows), call.value.columns
        place = (call.query.batch * parts, call.query.heads, rows)
        self.partial = made((*place, wide), FLOAT, "partial")
        self.stats = [made((*place, LANES), FLOAT, name) for name in ("maxima", "sums")]
        super().__init__(profile, self._split(call), trimmed=False, asking=asking, **given)
        self.busy, self.block_dim = self.block_dim, profile.cores.cube_cores
        self.lanes = profile.cores.vector_cores // profile.cores.cube_cores
        self.reads = tuple(each for each in self.reads if each is not call.out.tensor)
        self.writes = (call.out.tensor,)
        self.scratch = (*self.scratch, self.partial, *self.stats)

    def _split(self, call: Call) -> Call:
        """Every part as a sequence."""
        where, seen = [], []
        for sequence, keys in enumerate(call.key.rows):
            edges = self._edges(keys, call.key.pages.size if call.key.pages else 1)
            where += [(sequence, first) for first in edges[:-1]]
            seen += [end - first for first, end in pairwise(edges)]
        query = replace(call.query, starts=tuple(call.query.starts[b] for b, _ in where),
                        rows=tuple(call.query.rows[b] for b, _ in where))  # fmt: skip
        key, value = (heads.stretches(where, seen) for heads in (call.key, call.value))
        out, maxima, sums = (
            Heads.of(each, "BNSD", call.query.heads) for each in (self.partial, *self.stats)
        )
        bands = tuple(call.mask.bands[b].from_key(first) for b, first in where)
        mask = replace(call.mask, bands=bands, parts=tuple(where))
        rope = call.rope and (
            replace(call.rope[0], starts=tuple(call.rope[0].starts[b] for b, _ in where),
                    rows=query.rows),
            call.rope[1].stretches(where, seen),
        )  # fmt: skip
        return replace(call, query=query, key=key, value=value, out=out, mask=mask,
                       maxima=maxima, sums=sums, rope=rope)  # fmt: skip

    def _edges(self, keys: int, size: int) -> list[int]:
        """Where parts of a sequence end, those of pages behind a whole one."""
        if size == 1:
            each = ceil(keys / self.parts)
            return [*range(0, keys, each), keys]
        pages = ceil(keys / size)
        return [*(part * pages // self.parts * size for part in range(self.parts)), keys]

    def block_kind(self, block_idx: int) -> Hashable:
        """Clusters that have parts are alike but for what their vector cores merge."""
        places = [lane * self.block_dim + block_idx for lane in range(self.lanes)]
        merges = tuple(place < self._heads for place in places)
        return self.dealing.typical if block_idx < self.busy else None, merges

    @property
    def _heads(self) -> int:
        """Heads of all sequences, each merged by one vector core."""
        return self.whole.query.batch * self.whole.query.heads

    def process(self, core: Core) -> Steps:
        """The parts, then what they come to."""
        if core.get_block_idx() < self.busy:
            yield from super().process(core)
        yield core.sync_all()
        core.pipe.reset()
        place = core.get_sub_block_idx() * self.block_dim + core.get_block_idx()
        if core.unit.kind == "vector" and place < self._heads:
            _Merge(core, self).run(*divmod(place, self.whole.query.heads))


class _Merge:
    """One head's parts, some rows at a time."""

    def __init__(self, core: Core, kernel: SplitAttention) -> None:
        self._core, self._kernel = core, kernel
        self._wide = kernel.whole.value.columns
        row = LANES * FLOAT.itemsize
        weighed = max(1, _STATS_BYTES // (kernel.parts * row))
        self._height = min(max(1, _TILE // self._wide), weighed)
        slot = self._height * self._wide * FLOAT.itemsize
        self._ins, self._outs = TQue(TPosition.VECIN, 2, "part"), TQue(TPosition.VECOUT, 1, "out")
        self._stats = [TQue(TPosition.VECIN, 1, name) for name in ("maxima", "sums")]
        self._total, self._small, self._weights = TBuf("total"), TBuf("small"), TBuf("weights")
        core.pipe.init_buffer(self._ins, 2, slot)
        core.pipe.init_buffer(self._outs, 1, slot)
        core.pipe.init_buffer(self._total, 1, slot)
        core.pipe.init_buffer(self._small, 2, self._height * row)
        stats = kernel.parts * self._height * row
        core.pipe.init_buffer(self._weights, 1, stats)
        for queue in self._stats:
            core.pipe.init_buffer(queue, 1, stats)

    def run(self, sequence: int, head: int) -> None:
        """All rows of a head."""
        core, whole = self._core, self._kernel.whole
        rows = whole.query.rows[sequence]
        for first in range(0, rows, self._height):
            count = min(self._height, rows - first)
            x = self._merged(sequence, head, first, count)
            out = whole.out
            for at, own, behind in out.runs(first, count):
                tile, part = (
                    self._outs.alloc_tensor(out.tensor.dtype, own, self._wide),
                    x[at : at + own],
                )
                if out.tensor.dtype is FLOAT:
                    core.copy(tile, part)
                else:
                    core.cast(tile, part, RoundMode.CAST_RINT)
                start = out.at(sequence, head) + behind
                target = out.tensor.window(((start, 1),), (own, self._wide), (out.token, 1))
                self._outs.copy_out(target, tile)

    def _merged(self, sequence: int, head: int, first: int, count: int) -> LocalTensor:
        """Outputs of the parts, weighed."""
        core, kernel, parts = self._core, self._kernel, range(self._kernel.parts)
        place = sequence * kernel.parts
        maxima, sums = (
            self._statistics(queue, tensor, (place, head, first, count))
            for queue, tensor in zip(self._stats, kernel.stats, strict=True)
        )
        self._weigh(maxima, sums, count)
        self._stats[0].free_tensor(maxima)
        x = self._total.get(FLOAT, count, self._wide)
        for part in parts:
            found = self._ins.copy_in(kernel.partial[place + part, head, first : first + count])
            weight = sums[part][:, 0:1]
            if part:
                core.mul(found, found, weight)
                core.add(x, x, found)
            else:
                core.mul(x, found, weight)
            self._ins.free_tensor(found)
        self._stats[1].free_tensor(sums)
        return x

    def _statistics(
        self, queue: TQue, tensor: GlobalTensor, where: tuple[int, int, int, int]
    ) -> LocalTensor:
        """Maxima or sums of all parts of some rows, one load for each part."""
        place, head, first, count = where
        _, heads, rows, lanes = tensor.shape
        parts, step = self._kernel.parts, heads * rows * lanes
        begin = ((place * heads + head) * rows + first) * lanes
        source = tensor.window(((begin, 1),), (parts, count * lanes), (step, 1))
        return queue.copy_in(source.by_rows(), (parts, count, lanes))

    def _weigh(self, maxima: LocalTensor, sums: LocalTensor, count: int) -> None:
        """``sums`` become the weights of the parts, which add up to one."""
        core, parts = self._core, range(self._kernel.parts)
        top, total = (self._small.get(FLOAT, count, LANES, part=at) for at in range(2))
        weights = self._weights.get(FLOAT, len(parts), count, LANES)
        core.duplicate(top, HIDDEN)
        core.duplicate(total, 0.0)
        for part in parts:
            core.max(top, top, maxima[part])
        for part in parts:
            core.sub(weights[part], maxima[part], top)
        core.exp(weights, weights)
        core.mul(sums, sums, weights)
        for part in parts:
            core.add(total, total, sums[part])
        core.maxs(total, total, TINY)
        for part in parts:
            core.div(sums[part], sums[part], total)
