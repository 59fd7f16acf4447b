"""FlashAttentionScoreGrad: the gradients of queries, keys and values.

The weights are made again from the scores and the maxima and sums that the forward kept. With
P = weights, dP = dy @ v.T and D = the sums of rows of dy * out it is dS = P * (dP - D) * scale, and
dq = dS @ k, dk = dS.T @ q, dv = P.T @ dy. Five products for each round of keys; the last three are
added in float32 in workspace, and all of them converted behind a barrier. Source: ops-transformer
attention/flash_attention_score_grad.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

from npusim.ascendc import Core, GlobalTensor, GmBuffer, Kernel, RoundMode, TBuf, TPosition, TQue
from npusim.engine.program import Pipe
from npusim.library.asking import LIBRARY
from npusim.library.matmul import Matmul, Product
from npusim.ops.attention.blocks import Dealing
from npusim.ops.attention.call import LANES
from npusim.ops.attention.cube import multiply, tiling
from npusim.ops.attention.pipeline import Pipeline
from npusim.ops.attention.softmax import TINY, VectorSide
from npusim.ops.attention.spaces import SCORES, WEIGHTS, Space, Spaces
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import FLOAT
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from npusim.ascendc.cluster import CoreWait
    from npusim.ascendc.gm_slices import GmSlice, Place
    from npusim.engine.program import Barrier
    from npusim.hardware.profile import Profile
    from npusim.library.operands import GmMatrix
    from npusim.ops.attention.call import Call
    from npusim.ops.attention.heads import Heads
    from npusim.ops.attention.steps import Job

    Steps = Iterator[Barrier | CoreWait]

_KEYS = 512  # of a round: two tiles of scores share UB
_SLOTS = 2
_MOST_COLUMNS = 512  # of a head
_GRAIN = 64  # elements that a core's share of a tensor is a multiple of


@dataclass(frozen=True, slots=True)
class Backward:
    """A forward call, the gradient of what came out, and where those of its inputs go."""

    call: Call
    grad: Heads
    results: tuple[GlobalTensor, GlobalTensor, GlobalTensor]


class _Sums(NamedTuple):
    """Gradients in float32, added up round by round."""

    query: Heads
    key: Heads
    value: Heads


class AttentionGrad(Kernel):
    """dq, dk and dv of a call of attention."""

    op_type: str = "FlashAttentionScoreGrad"
    is_mix = True

    def __init__(self, profile: Profile, backward: Backward) -> None:
        self.backward, self.call = backward, backward.call
        call = self.call
        if call.maxima is None or call.sums is None:
            raise KernelError(self.op_type, "the maxima and sums of the forward are missing")
        if max(call.columns, call.value.columns) > _MOST_COLUMNS:
            raise KernelError(self.op_type, f"heads of more than {_MOST_COLUMNS} elements")
        cores = profile.cores
        lanes = cores.vector_cores // cores.cube_cores
        self.dealing = Dealing(
            call.mask, call.lengths, call.query.heads, cores.cube_cores, keys=_KEYS, lanes=lanes
        )
        self.block_dim = len(self.dealing.stretches)
        self.vectors = self.block_dim * lanes
        self.spaces = self._spaces()
        self.sums = _Sums(*(_summed(each) for each in (call.query, call.key, call.value)))
        given = (call.query, call.key, call.value, backward.grad, call.out, call.maxima, call.sums)
        others = (call.mask.tensor, call.shift and call.shift.tensor,
                  call.dropout and call.dropout.bits)  # fmt: skip
        self.reads = (*(each.tensor for each in given), *(each for each in others if each))
        self.writes = backward.results
        sums = tuple(each.tensor for each in self.sums)
        self.scratch = (*(space.tensor for space in self.spaces), *sums)

    def _spaces(self) -> Spaces:
        """Scores and their gradients in float32, weights and gradients of scores as the inputs."""
        dealing, dtype = self.dealing, self.call.query.tensor.dtype
        keys = min(dealing.keys, max(keys for _, keys in dealing.lengths))
        place = (self.block_dim, dealing.lanes, _SLOTS, dealing.rows, keys)
        return Spaces(
            Space.of("scores", FLOAT, *place),
            Space.of("weights", dtype, *place),
            Space.of("grads", FLOAT, *place),
            Space.of("score_grads", dtype, *place),
        )

    @property
    def workspace_bytes(self) -> int:
        """Bytes of everything in workspace."""
        return sum(tensor.nbytes for tensor in self.scratch)

    def block_kind(self, block_idx: int) -> Hashable:
        """All clusters have about as much to do; the last may clear and convert less."""
        shares = [
            self.share(lane * self.block_dim + block_idx, each.tensor)[1]
            for lane in range(self.dealing.lanes)
            for each in self.sums
        ]
        return self.dealing.typical, *shares

    def process(self, core: Core) -> Steps:
        """Clear the sums, add up all rounds, convert."""
        cube = core.unit.kind == "cube"
        place = core.get_sub_block_idx() * self.block_dim + core.get_block_idx()
        if not cube:
            self._clear(core, place)
        yield core.sync_all()
        core.pipe.reset()
        yield from LIBRARY.begin(core, self.dealing.lanes)
        side = CubeSide(core, self) if cube else GradientSide(core, self)
        lane = None if cube else core.get_sub_block_idx()
        yield from Pipeline(core, side, lane).run(self.dealing)
        yield core.sync_all()
        core.pipe.reset()
        if not cube:
            self._convert(core, place)

    def share(self, place: int, tensor: GlobalTensor) -> tuple[int, int]:
        """The first element and the number of those that a vector core clears and converts."""
        each = round_up(ceil(tensor.numel / self.vectors), _GRAIN)
        return place * each, max(0, min(each, tensor.numel - place * each))

    def _clear(self, core: Core, place: int) -> None:
        outs = TQue(TPosition.VECOUT, 2, "zeros")
        tile = core.capacity_bytes("UB") // (4 * FLOAT.itemsize) // _GRAIN * _GRAIN
        core.pipe.init_buffer(outs, 2, tile * FLOAT.itemsize)
        for heads in self.sums:
            flat = heads.tensor.view(heads.tensor.numel)
            for start, length in core.tiles(*self.share(place, heads.tensor), tile):
                zeros = outs.alloc_tensor(FLOAT, length)
                core.duplicate(zeros, 0.0)
                outs.copy_out(flat.span(start, length), zeros)

    def _convert(self, core: Core, place: int) -> None:
        ins, outs = TQue(TPosition.VECIN, 2, "sums"), TQue(TPosition.VECOUT, 2, "grads")
        tile = core.capacity_bytes("UB") // (4 * FLOAT.itemsize) // _GRAIN * _GRAIN
        for queue in (ins, outs):
            core.pipe.init_buffer(queue, 2, tile * FLOAT.itemsize)
        for heads, result in zip(self.sums, self.backward.results, strict=True):
            summed, flat = heads.tensor.view(heads.tensor.numel), result.view(result.numel)
            for start, length in core.tiles(*self.share(place, heads.tensor), tile):
                loaded = ins.copy_in(summed.span(start, length))
                out = outs.alloc_tensor(result.dtype, length)
                if result.dtype is FLOAT:
                    core.copy(out, loaded)
                else:
                    core.cast(out, loaded, RoundMode.CAST_RINT)
                ins.free_tensor(loaded)
                outs.copy_out(flat.span(start, length), out)


class CubeSide:
    """The five products of a round."""

    def __init__(self, core: Core, kernel: AttentionGrad) -> None:
        self._core, self._kernel = core, kernel
        call, dealing, profile = kernel.call, kernel.dealing, core.profile
        dtype = call.query.tensor.dtype
        rows = min(dealing.rows, max(queries for queries, _ in dealing.lengths))
        keys = min(dealing.keys, max(keys for _, keys in dealing.lengths))
        longest = max(call.columns, call.value.columns, keys, rows)
        blocks = tiling(profile, dtype, dealing.rows, longest, longest, 1)
        self._matmul = Matmul(core, blocks, dtype, FLOAT, longest)

    def begin(self, job: Job) -> Steps:
        """scores = q @ k.T, and the gradients of weights, dy @ v.T."""
        call, spaces, core = self._kernel.call, self._kernel.spaces, self._core
        grad = self._kernel.backward.grad
        sides = ((call.query, call.key, spaces.scores), (grad, call.value, spaces.outputs))
        for rows, keys, space in sides:
            core.take_messages(LIBRARY.a_product)
            into = space.matrix(core, job, job.keys)
            own, theirs = call.queries(rows, job), call.keys(keys, job, transposed=True)
            product = Product(into, own, theirs, job.rows, job.keys, rows.columns)
            multiply(core, self._matmul, product)
        core.cross_core_set_flag(SCORES, Pipe.FIXP, sub_block=job.lane)
        yield from ()

    def finish(self, job: Job) -> Steps:
        """Add dv = weights.T @ dy, dk = dS.T @ q and dq = dS @ k."""
        call, spaces, core = self._kernel.call, self._kernel.spaces, self._core
        sums, grad = self._kernel.sums, self._kernel.backward.grad
        yield core.cross_core_wait_flag(WEIGHTS, sub_block=job.lane)
        core.set_atomic_add()
        for target, space, rows in (
            (sums.value, spaces.weights, grad),
            (sums.key, spaces.total, call.query),
        ):
            core.take_messages(LIBRARY.a_product)
            into, turned = call.keys(target, job), _turned(space.matrix(core, job, job.keys))
            own = call.queries(rows, job)
            product = Product(into, turned, own, job.keys, rows.columns, job.rows)
            multiply(core, self._matmul, product)
        core.take_messages(LIBRARY.a_product)
        into, grads = call.queries(sums.query, job), spaces.total.matrix(core, job, job.keys)
        keys = call.keys(call.key, job)
        product = Product(into, grads, keys, job.rows, call.columns, job.keys)
        multiply(core, self._matmul, product)
        core.set_atomic_none()


class GradientSide(VectorSide):
    """Scores and gradients of weights into weights and gradients of scores."""

    slots = 8  # two for loads, two scratch, masks, what leaves, and the rest

    def __init__(self, core: Core, kernel: AttentionGrad) -> None:
        super().__init__(core, kernel.call, kernel.dealing, kernel.spaces)
        self._grad = kernel.backward.grad
        self._other = TBuf("other")
        core.pipe.init_buffer(self._other, 1, self._elements * FLOAT.itemsize)

    def begin(self, job: Job) -> Steps:
        """One round."""
        core = self._core
        yield core.cross_core_wait_flag(SCORES)
        if job.first:
            tall = self._height(self._call.value.columns)
            self._slices(job.rows, tall, lambda at, row, rows: self._dot(job, at, row, rows, tall))
        height = self._height(job.keys)
        self._slices(job.rows, height, lambda at, row, rows: self._turn(job, at, row, rows, height))
        core.cross_core_set_flag(WEIGHTS, Pipe.MTE3)

    def finish(self, job: Job) -> Steps:
        """Nothing: the cube core adds up by itself."""
        del job
        yield from ()

    def _dot(self, job: Job, at: Place, row: Place, rows: int, height: int) -> None:
        """The sums of rows of dy * out."""
        core, wide = self._core, self._call.value.columns
        tiles = []
        for heads, buffer in ((self._grad, self._work), (self._call.out, self._other)):
            loaded = self._ins.copy_in(self._rows(heads, job, row, rows, wide))
            tile = buffer.get(FLOAT, rows, wide)
            if loaded.dtype is FLOAT:
                core.copy(tile, loaded)
            else:
                core.cast(tile, loaded)
            self._ins.free_tensor(loaded)
            tiles.append(tile)
        core.mul(tiles[0], *tiles)
        core.reduce_sum(self._state.sums(job.turn, at, rows, height), tiles[0])

    def _turn(self, job: Job, at: Place, row: Place, rows: int, height: int) -> None:
        """Some rows of a round."""
        core, call, spaces = self._core, self._call, self._spaces
        x = self._scaled(job, row, rows)
        for edge in job.edges:
            self._hide(job, edge, x, row, rows)
        assert call.maxima is not None
        assert call.sums is not None
        top = self._ins.copy_in(self._rows(call.maxima, job, row, rows, LANES))
        core.sub(x, x, top[:, 0:1])
        self._ins.free_tensor(top)
        core.exp(x, x)
        total = self._ins.copy_in(self._rows(call.sums, job, row, rows, LANES))
        core.maxs(total, total, TINY)
        core.div(x, x, total[:, 0:1])
        self._ins.free_tensor(total)
        new = self._ins.copy_in(spaces.outputs.window(core, job, row, rows, job.keys))
        grads = self._other.get(FLOAT, rows, job.keys)
        core.copy(grads, new)
        self._ins.free_tensor(new)
        if call.dropout is not None:
            self._drop(job, grads, row, rows)
        dots = self._state.sums(job.turn, at, rows, height)
        core.sub(grads, grads, core.broadcast_column(dots))
        core.mul(grads, grads, x)
        core.muls(grads, grads, call.scale)
        self._store(spaces.total.window(core, job, row, rows, job.keys), grads)
        if call.dropout is not None:
            self._drop(job, x, row, rows)
        self._store(spaces.weights.window(core, job, row, rows, job.keys), x)

    def _rows(self, heads: Heads, job: Job, row: Place, rows: int, columns: int) -> GmSlice:
        """Some rows of a block in a tensor that has one for each query."""
        places = (*self._call.rows_at(heads, job), (row, heads.token))
        return heads.tensor.window(places, (rows, columns), (heads.token, 1))


def _summed(heads: Heads) -> Heads:
    """The same heads in float32."""
    tensor = heads.tensor
    buffer = GmBuffer("sums", tensor.numel * FLOAT.itemsize)
    return replace(heads, tensor=GlobalTensor(buffer, FLOAT, tensor.shape))


def _turned(matrix: GmMatrix) -> GmMatrix:
    return replace(matrix, transposed=True)
