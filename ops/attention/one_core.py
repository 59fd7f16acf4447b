"""Attention where cube and vector unit share a core: scores come to UB, weights go to L1.

A core multiplies a block of rows with some keys, weighs the scores in UB as they leave the cube,
and hands the weights over for the product with the values; nothing goes through device memory. The
cube multiplies the next keys while the vector unit adds up. Queries stay in L1 for all rounds of a
block. Sums are those of float16, which products with the values leave the cube in. Source:
ops-transformer prompt_flash_attention (s1s2_bns1_x310, host tiling).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from npusim.ascendc import Kernel, TBuf, TPosition, TQue
from npusim.ascendc.events import Event
from npusim.engine.program import Pipe
from npusim.library.block_matmul import BlockMatmul, Product
from npusim.library.matmul_tiling import MatmulTiling, grain_of
from npusim.library.operands import OnTheFly
from npusim.ops.attention.blocks import ROWS, Dealing
from npusim.ops.attention.fractal_softmax import FractalSoftmax
from npusim.ops.attention.operands import Gathered, OnChip
from npusim.ops.attention.pipeline import Pipeline
from npusim.ops.attention.single_tokens import SingleTokens
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import FLOAT, FLOAT16
from npusim.values.formats import FRACTAL

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from npusim.ascendc import Core, LocalTensor
    from npusim.ascendc.cluster import CoreWait
    from npusim.engine.program import Barrier
    from npusim.hardware.profile import Profile
    from npusim.library.operands import GmMatrix
    from npusim.ops.attention.call import Call
    from npusim.ops.attention.steps import Job

    Steps = Iterator[Barrier | CoreWait]

_KEYS = 128  # of a product; of a round, where several rows have a mask of their own
_RESULTS = 1 << 15  # of a block in L0C
_HIDDEN = -10000.0  # what is added to scores that the mask hides


class Cut(NamedTuple):
    """Rows of a block, and keys of a round; whole fractals of both."""

    rows: int
    keys: int

    def fitting(self, profile: Profile, call: Call) -> Cut:
        """As much of it as UB holds: fewer rows first, then fewer keys."""
        rows, keys = self
        while rows > FRACTAL and not Cut(rows, keys).fits(profile, call):
            rows = round_up(rows // 2, FRACTAL)
        while keys > FRACTAL and not Cut(rows, keys).fits(profile, call):
            keys = round_up(keys // 2, _KEYS if keys > _KEYS else FRACTAL)
        return Cut(rows, keys)

    def work_bytes(self, call: Call) -> int:
        """A mask as numbers, then weights, then the products of a round."""
        scores, wide = self.rows * self.keys, self.rows * call.value.columns
        each = FLOAT if call.mask.tensor is not None else FLOAT16
        return max(scores * each.itemsize, wide * FLOAT16.itemsize)

    def fits(self, profile: Profile, call: Call) -> bool:
        """Whether UB holds the scores, their mask, and what is added up and stored."""
        scores = self.rows * self.keys * (FLOAT.itemsize + (call.mask.tensor is not None))
        outputs = 2 * self.rows * call.value.columns * FLOAT16.itemsize
        need = scores + self.work_bytes(call) + outputs + FractalSoftmax.bytes_of(self.rows)
        return need <= profile.buffers.ub_bytes


class OneCoreAttention(Kernel):
    """softmax(scale * q @ k.T) @ v for all heads of a call, in float16.

    Single tokens may be multiplied by the vector unit (``by_vector``).
    """

    op_type: str = "PromptFlashAttention"
    cores = "cube"

    def __init__(
        self, profile: Profile, call: Call, *, op_type: str, cut: Cut, by_vector: bool = False
    ) -> None:
        self.op_type, self.call, self.by_vector = op_type, call, by_vector
        queries, keys = (round_up(max(each), FRACTAL) for each in zip(*call.lengths, strict=True))
        cut = Cut(min(cut.rows, queries), min(cut.keys, keys))
        self.cut = cut if by_vector else cut.fitting(profile, call)
        self.dealing = Dealing(
            call.mask, call.lengths, call.query.heads, profile.cores.cube_cores, *self.cut, lanes=1
        )
        self.block_dim = len(self.dealing.stretches)
        given = [each.tensor for each in (call.query, call.key, call.value)]
        others = (call.mask.tensor, call.key.pages and call.key.pages.table)
        self.reads = (*given, *(each for each in others if each))
        self.writes = (call.out.tensor,)

    def block_kind(self, block_idx: int) -> Hashable:
        """All cores have about as much to do."""
        del block_idx
        return self.dealing.typical

    def process(self, core: Core) -> Steps:
        """All rounds of a core's blocks."""
        call, cut = self.call, self.cut
        side = SingleTokens(core, call, cut.keys) if self.by_vector else _OneCore(core, call, cut)
        yield from Pipeline(core, side, None, ahead=False).run(self.dealing)


class _OneCore:
    """A core's cube and vector unit in turn."""

    def __init__(self, core: Core, call: Call, cut: Cut) -> None:
        self._core, self._call = core, call
        (rows, keys), wide, pipe = cut, call.value.columns, core.pipe
        self._softmax = FractalSoftmax(core, rows)
        self._scores, self._work, self._total = TBuf("scores"), TBuf("work"), TBuf("total")
        self._mask, self._out = TQue(TPosition.VECIN, 1, "mask"), TQue(TPosition.VECOUT, 1, "out")
        pipe.init_buffer(self._scores, 1, rows * keys * FLOAT.itemsize)
        pipe.init_buffer(self._work, 1, cut.work_bytes(call))
        for buffer in (self._total, self._out):
            pipe.init_buffer(buffer, 1, rows * wide * FLOAT16.itemsize)
        if call.mask.tensor is not None:
            pipe.init_buffer(self._mask, 1, rows * keys)
        self._queries = TBuf("queries", TPosition.A1)
        pipe.init_buffer(self._queries, 2, rows * call.columns * FLOAT16.itemsize)
        self._chunk = min(keys, max(_KEYS, _RESULTS // rows // 4))
        columns = call.columns
        first = _tiling(core.profile, rows, self._chunk, columns)
        self._first = BlockMatmul(core, first, FLOAT16, columns)
        self._second = BlockMatmul(core, _tiling(core.profile, rows, wide, keys), FLOAT16, keys)
        self._tiles: dict[str, LocalTensor] = {}
        self._loaded = Event(core, Pipe.MTE2, Pipe.MTE1)
        self._made = Event(core, Pipe.VECTOR, Pipe.MTE3)
        self._brought = Event(core, Pipe.MTE3, Pipe.MTE1)

    def begin(self, job: Job) -> Steps:
        """Scores into weights."""
        core, call = self._core, self._call
        scores = self._scores.get(FLOAT, job.rows, job.keys)
        queries = self._query(job)
        own = call.queries(call.query, job)
        for first in range(0, job.keys, self._chunk):
            count = min(self._chunk, job.keys - first)
            later = job._replace(key=job.key + first, keys=count)
            keys = _on_the_fly(call.keys(call.key, later, transposed=True))
            self._first.begin(Product(own, queries, keys, job.rows, count, call.columns))
            with self._first.single() as block:
                whole = count == job.keys
                core.take_out(scores if whole else scores[:, first : first + count], block.tensor)
        core.muls(scores, scores, call.scale)
        if job.edges:
            self._hide(job, scores)
        self._softmax.weigh(scores, job.turn, first=job.first)
        core.cast(self._work.get(FLOAT16, *scores.shape, part="weights"), scores)
        self._made.set()
        self._made.wait()
        yield from ()

    def finish(self, job: Job) -> Steps:
        """Add up products with the values; after the last one, divide by the sum of weights."""
        core, call = self._core, self._call
        shape = job.rows, call.value.columns
        weights = OnChip(self._work.get(FLOAT16, job.rows, job.keys, part="weights"), self._bring)
        total = self._held("total", job, self._total.get(FLOAT16, *shape))
        new = total if job.first else self._work.get(FLOAT16, *shape, part="new")
        own, values = call.queries(call.out, job), _on_the_fly(call.keys(call.value, job))
        self._second.begin(Product(own, weights, values, job.rows, shape[1], job.keys))
        with self._second.single() as block:
            if not job.first:
                self._softmax.shrink(total)
            core.take_out(new, block.tensor)
        if not job.first:
            core.add(total, total, new)
        if job.last:
            self._softmax.divide(total, job.turn)
            self._store(job, total)
        yield from ()

    def _query(self, job: Job) -> OnChip:
        """The rows of a block, which come to L1 with its first round."""
        call = self._call
        tile = self._queries.get(FLOAT16, job.rows, call.columns, part=job.turn)
        tile = self._held("queries", job, tile)
        if job.first:
            matrix = _on_the_fly(call.queries(call.query, job))
            matrix.load_l1(self._core, tile, (0, job.rows), (0, call.columns))
            self._loaded.set()
            self._loaded.wait()
        return OnChip(tile)

    def _held(self, name: str, job: Job, tile: LocalTensor) -> LocalTensor:
        """The tile that the first round of a block has filled."""
        if job.first or not self._core.numerics:
            self._tiles[name] = tile
        return self._tiles[name]

    def _bring(self, tile: LocalTensor, weights: LocalTensor) -> None:
        self._core.copy_to_l1(tile, weights)
        self._brought.set()
        self._brought.wait()

    def _hide(self, job: Job, scores: LocalTensor) -> None:
        """Add what puts scores out of reach that the mask hides."""
        core, shape = self._core, scores.shape
        edge, *_ = self._call.mask.read(job.edges[0], job.spot, 0, *shape)
        mask = self._mask.copy_in(edge.window)
        half = self._work.get(FLOAT16, *shape, part="mask")
        core.cast(half, mask)
        self._mask.free_tensor(mask)
        core.move_bursts(half, half, shape[0] * -(-shape[1] // FRACTAL), 1)
        core.muls(half, half, _HIDDEN)
        hidden = core.cast(self._work.get(FLOAT, *shape, part="hidden"), half)
        core.add(scores, scores, hidden)

    def _store(self, job: Job, total: LocalTensor) -> None:
        """A block of columns at a time, as they lie in UB."""
        core, out = self._core, self._call.out
        tile = core.copy(self._out.alloc_tensor(FLOAT16, *total.shape), total)
        self._out.enque(tile)
        self._out.deque(tile)
        for first in range(0, total.shape[1], FRACTAL):
            places = (*self._call.rows_at(out, job), (first, 1))
            target = out.tensor.window(places, (total.shape[0], FRACTAL), (out.token, 1))
            core.data_copy(target, tile[:, first : first + FRACTAL])
        self._out.free_tensor(tile)


def _on_the_fly(matrix: GmMatrix) -> GmMatrix:
    """Pages are read on the fly as they are."""
    if isinstance(matrix, Gathered):
        return matrix
    return OnTheFly(matrix.tensor, matrix.start, matrix.step, matrix.transposed)


def _tiling(profile: Profile, rows: int, columns: int, k: int) -> MatmulTiling:
    """A product of one block, whose left side is in L1 as a whole."""
    buffers, size, grain = profile.buffers, FLOAT16.itemsize, grain_of(profile, FLOAT16)
    base_n = round_up(columns, grain)
    in_l0 = min(buffers.l0a_bytes // rows, buffers.l0b_bytes // base_n) // (4 * size)
    base_k = max(grain, min(in_l0 // grain * grain, round_up(k, grain)))
    step_k = max(base_k, min(ROWS, round_up(k, base_k)) // base_k * base_k)
    return MatmulTiling(rows, base_n, base_k, step_k, True, False, 1, panels=1)
