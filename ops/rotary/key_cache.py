"""Latent keys of tokens, normalised and turned, into caches: KvRmsNormRopeCache.

A token's row is what is normalised, and behind it what is turned. Cores share the tokens, up to 16
at a time: their turned parts go to one cache and their normalised ones to the other, token by token
to where the scalar unit finds its index, perhaps as int8. Sequences whose tokens share their angles
are dealt out whole, four or one to a core. Source: ops-transformer
posembedding/kv_rms_norm_rope_cache, host tiling and device schedules.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from npusim.ascendc import Core, GlobalTensor, Kernel, Scalar, TBuf, TPosition, TQue
from npusim.ascendc.rounding import RoundMode
from npusim.engine.program import Pipe
from npusim.library.interleaved import turn
from npusim.ops.rotary.checks import MODES, WIDTHS
from npusim.schedules.bounds import fault_outside
from npusim.schedules.rows.shares import RowShare
from npusim.values.dtypes import FLOAT, FLOAT16, INT8, INT32, INT64

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from npusim.ascendc import LocalTensor
    from npusim.ascendc.gm_slices import Place
    from npusim.ascendc.loops import Index
    from npusim.ascendc.task import Task
    from npusim.hardware.profile import Profile

_TOKENS = 16  # at a time
_SEQUENCES = 4  # of a core, where they come to whole fours
_NOWHERE = -(1 << 60)  # where tokens go that are skipped: before every cache
_EPSILON = 1e-5
_INPUTS = 12


@dataclass(frozen=True)
class _Cache:
    """Rows of ``width`` elements, pages of ``size`` of them; what is left out is None."""

    rows: GlobalTensor
    width: int
    size: int
    lanes: int  # of a piece, where pages lie in fractals; else 0
    scale: GlobalTensor | None
    dense: GlobalTensor | None  # all rows, one after the other


class _Tile(NamedTuple):
    """Some tokens: where they begin, how many, and where and how many rows their angles have."""

    first: tuple[tuple[Index, int], ...]
    length: int
    angle: Index
    angles: int


class KvRmsNormRopeCache(Kernel):
    """ckv[i] = norm(kv[t, :512]) * gamma and k[i] = turned(kv[t, 512:]), i the index of token t.

    Shapes: kv (B, 1, S, 576), gamma (512,), cos and sin (B, 1, S or 1, 64). A negative index is
    that of a token that isn't stored.
    """

    op_type = "KvRmsNormRopeCache"

    def __init__(
        self,
        profile: Profile,
        tensors: Sequence[GlobalTensor],
        caches: tuple[_Cache, _Cache],
        mode: str,
        epsilon: float,
    ) -> None:
        kv, gamma, cos, sin, index = tensors
        self.mode, self.epsilon, self.caches = mode, epsilon, caches
        self.batch, _, self.length, self.row = kv.shape
        self.kind = kv.dtype
        self.kv, self.gamma = kv.view(kv.numel), gamma
        self.angles = cos.view(cos.numel), sin.view(sin.numel)
        self.index = index.view(index.numel)
        scales = [each.scale for each in caches if each.scale is not None]
        self.reads = (*tensors, *scales)
        dense = [each.dense for each in caches if each.dense is not None]
        self.writes = (*(each.rows for each in caches), *dense)
        self.shares_angles = self.length > 1 and cos.shape[2] == 1
        cores, tokens = profile.cores.vector_cores, self.batch * self.length
        plain = mode in ("Norm", "PA", "PA_BNSD") and not dense and not scales
        if self.shares_angles or (plain and self.length == 1 and tokens <= cores * _SEQUENCES):
            whole = self.batch % _SEQUENCES == 0
            least = _SEQUENCES if whole else 1
            per_core = max(least, ceil(self.batch / cores))
            self.share = RowShare(self.batch, per_core, 1 if self.shares_angles else per_core)
        else:
            self.share = RowShare.of(tokens, cores, self._tokens(profile))
        self.division = self.share
        most = min(self.length, self._tokens(profile))
        self.tile = most if self.shares_angles else self.share.tile
        self.block_dim = self.share.cores

    def _tokens(self, profile: Profile) -> int:
        """How many tokens are worked on at a time: 16, of those that UB has room for."""
        wide, turned = WIDTHS
        own = 4 * wide + 6 * turned  # two slots of x, of y, of what is turned and of its angles
        widened = 2 * wide + 4 * turned + 1
        each = own * self.kind.itemsize + widened * FLOAT.itemsize + INT64.itemsize + wide
        shared = 4 * wide * FLOAT.itemsize  # gamma, scales, and what they are widened from
        return max(1, min(_TOKENS, (profile.buffers.ub_bytes - shared) // each))

    def block_kind(self, block_idx: int) -> Hashable:
        return self.share.block_kind(block_idx)

    def process(self, core: Core) -> None:
        """Tile after tile."""
        cache = self.caches[0]
        places = cache.size if self.mode == MODES[0] else cache.rows.numel // cache.width
        fault_outside(core, self.op_type, self.index, places, skips=True)
        if any(each.lanes for each in self.caches):
            core.set_store_alone()  # pieces of 32 bytes, as ScatterPaKvCache stores them
        side = _Side(core, self)
        for first, count in self.share.tiles(core):
            if not self.shares_angles:
                side.tokens(_Tile(((first, 1),), count, first, count))
                continue
            for start, some in core.tiles(0, self.length, self.tile):
                side.tokens(_Tile(((first, self.length), (start, 1)), some, first, 1))

    @property
    def by_page(self) -> bool:
        """An index is that of a page, for all tokens of a sequence that go to it."""
        return self.mode.startswith("PA_BLK")

    def place(self, cache: _Cache, token: Scalar, index: Scalar) -> Scalar:
        """The element of a cache that a token's row begins at; ``_NOWHERE`` where it's skipped."""
        depth = max(token.depth, index.depth)
        if index.value is None:
            return Scalar(index.core, None, depth)
        tokens = token.values(depth).astype(np.int64)
        slot = index.values(depth).astype(np.int64)
        size, width = cache.size, cache.width
        if self.mode == "Norm":
            row = tokens // self.length * size + slot
        elif self.by_page:
            row = slot // size * size + tokens % self.length % size
        else:
            row = slot + 0 * tokens
        at = row * width
        if cache.lanes:
            at = row // size * size * width + row % size * cache.lanes
        return Scalar(index.core, np.where(slot < 0, _NOWHERE, at), depth)


class _Side:
    """What a core does with its tokens."""

    def __init__(self, core: Core, kernel: KvRmsNormRopeCache) -> None:
        self._core, self._kernel = core, kernel
        tile, kind = kernel.tile, kernel.kind
        wide, turned = WIDTHS
        self._ids = TQue(TPosition.VECIN, 1, "index", consumer=Pipe.SCALAR)
        core.pipe.init_buffer(self._ids, 1, tile * INT64.itemsize)
        self._x, self._y, self._rope = (
            TQue(position, 2, name)
            for position, name in (
                (TPosition.VECIN, "x"), (TPosition.VECOUT, "y"), (TPosition.VECIN, "rope"),
            )
        )  # fmt: skip
        for queue, width in (self._x, wide), (self._y, wide), (self._rope, turned):
            core.pipe.init_buffer(queue, 2, tile * width * kind.itemsize)
        self._angles = [TQue(TPosition.VECIN, 2, name) for name in ("cos", "sin")]
        for queue in self._angles:
            core.pipe.init_buffer(queue, 2, tile * turned * kind.itemsize)
        self._turning = [TBuf(name) for name in ("apart", "turned", "cos_wide", "sin_wide")]
        for buffer in self._turning:
            core.pipe.init_buffer(buffer, 1, tile * turned * FLOAT.itemsize)
        self._wide, self._squares, self._sums = (TBuf(name) for name in ("wide", "squares", "sums"))
        for buffer in self._wide, self._squares:
            core.pipe.init_buffer(buffer, 1, tile * wide * FLOAT.itemsize)
        core.pipe.init_buffer(self._sums, 1, max(tile * FLOAT.itemsize, core.block_bytes))
        self._lines = TQue(TPosition.VECIN, 1, "lines")
        core.pipe.init_buffer(self._lines, 1, wide * FLOAT.itemsize)
        self._gamma = self._line("gamma", kernel.gamma)
        self._scales = [
            None if each.scale is None else self._line(f"scale{n}", each.scale)
            for n, each in enumerate(kernel.caches)
        ]
        if any(each is not None for each in self._scales):
            self._bytes = TQue(TPosition.VECOUT, 1, "bytes")
            core.pipe.init_buffer(self._bytes, 1, tile * wide)

    def _line(self, name: str, tensor: GlobalTensor) -> LocalTensor:
        """A row in float32 that all tokens share."""
        core, count = self._core, tensor.numel
        buffer = TBuf(name)
        core.pipe.init_buffer(buffer, 1, count * FLOAT.itemsize)
        whole = tensor.view(count).window((), (1, count), (count, 1))
        given, line = self._lines.copy_in(whole), buffer.get(FLOAT, 1, count)
        found = core.move(line, given) if given.dtype is FLOAT else core.cast(line, given)
        self._lines.free_tensor(given)
        return found

    def tokens(self, tile: _Tile) -> None:
        """Turned parts of some tokens to their cache, then normalised ones."""
        core, kernel, (wide, turned) = self._core, self._kernel, WIDTHS
        ids = None
        if kernel.mode in ("Norm", "PA", "PA_BNSD"):
            ids = self._ids.copy_in(kernel.index.window(tile.first, (tile.length,), (1,)))
        rope = self._load(self._rope, tile, wide, turned)
        where = ((tile.angle, turned),)
        angles = [
            queue.copy_in(each.window(where, (tile.angles, turned), (turned, 1)))
            for queue, each in zip(self._angles, kernel.angles, strict=True)
        ]
        found = turn(core, rope, angles, self._turning)
        self._rope.free_tensor(rope)
        for queue, line in zip(self._angles, angles, strict=True):
            queue.free_tensor(line)
        self._store(1, tile, found, ids)
        x = self._load(self._x, tile, 0, wide)
        found = self._normalised(x)
        self._x.free_tensor(x)
        self._store(0, tile, found, ids)
        if ids is not None:
            self._ids.free_tensor(ids)

    def _load(self, queue: TQue, tile: _Tile, start: int, width: int) -> LocalTensor:
        """Columns of the tokens' rows."""
        row = self._kernel.row
        places = (*((at, step * row) for at, step in tile.first), (start, 1))
        source = self._kernel.kv.window(places, (tile.length, width), (row, 1))
        return queue.copy_in(source.by_rows() if tile.length > 1 else source)

    def _normalised(self, x: LocalTensor) -> LocalTensor:
        """Rows divided by the root of their mean square, times gamma."""
        core = self._core
        wide = core.cast(self._wide.get(FLOAT, *x.shape), x)
        squares = core.mul(self._squares.get(FLOAT, *x.shape), wide, wide)
        sums = core.reduce_sum(self._sums.get(FLOAT, x.shape[0]), squares)
        core.muls(sums, sums, 1.0 / x.shape[1])
        core.adds(sums, sums, self._kernel.epsilon)
        core.sqrt(sums, sums)
        core.div(wide, wide, core.broadcast_column(sums))
        return core.mul(wide, wide, self._gamma)

    def _store(self, which: int, tile: _Tile, wide: LocalTensor, ids: LocalTensor | None) -> None:
        """Rows to where their indices say; and one after the other, where the caller wants that."""
        core, kernel = self._core, self._kernel
        cache, scale = kernel.caches[which], self._scales[which]
        tiles: list[tuple[TQue, LocalTensor, bool]] = []
        if cache.dense is not None or scale is None:
            y = self._y.alloc_tensor(kernel.kind, *wide.shape)
            core.cast(y, wide, RoundMode.CAST_RINT)
            tiles.append((self._y, y, scale is None))
        if scale is not None:
            tiles.append((self._bytes, self._quantised(wide, scale), True))
        for queue, out, cached in tiles:
            queue.enque(out)
            given = queue.deque(out)
            for row in core.loop(tile.length):
                if cache.dense is not None and queue is self._y:
                    places = (*((at, step * cache.width) for at, step in tile.first),
                              (row, cache.width))  # fmt: skip
                    core.copy_runs(cache.dense.window(places, (cache.width,), (1,)), given[row])
                if cached:
                    self._put(cache, tile, row, given[row], ids)
            queue.free_tensor(given)

    def _quantised(self, wide: LocalTensor, scale: LocalTensor) -> LocalTensor:
        """The nearest whole numbers of rows times a scale, by way of int32 and float16."""
        core = self._core
        core.mul(wide, wide, scale)
        whole = core.cast(wide.same_place(*wide.shape, dtype=INT32), wide, RoundMode.CAST_RINT)
        half = core.cast(self._squares.get(FLOAT16, *wide.shape), whole)
        out = self._bytes.alloc_tensor(INT8, *wide.shape)
        return core.cast(out, half, RoundMode.CAST_TRUNC)

    def _put(
        self, cache: _Cache, tile: _Tile, row: Index, given: LocalTensor, ids: LocalTensor | None
    ) -> None:
        """A row to its place."""
        core, kernel = self._core, self._kernel
        token = self._token(tile, row)
        if ids is not None:
            index = core.get_value(ids, row // 1)
        else:
            index = core.load_scalar(kernel.index.span(self._of_page(token), 1))
        core.scalar_alu("place", 2)
        places = ((kernel.place(cache, token, index), 1),)
        shape: tuple[int, ...] = (cache.width,)
        steps: tuple[int, ...] = (1,)
        if cache.lanes:
            shape = cache.width // cache.lanes, cache.lanes
            steps = cache.size * cache.lanes, 1
        core.copy_runs(cache.rows.window(places, shape, steps).skipping(), given)

    def _token(self, tile: _Tile, row: Index) -> Scalar:
        """The number of a token among all, as the scalar unit has it."""
        core = self._core
        numbers = [(core.counter(at), step) for at, step in (*tile.first, (row, 1))]
        depth = max(number.depth for number, _ in numbers)
        value = sum(number.values(depth) * step for number, step in numbers)
        return Scalar(core, np.asarray(value), depth)

    def _of_page(self, token: Scalar) -> Place:
        """Which index is a token's."""
        kernel = self._kernel
        if not kernel.by_page or token.value is None:
            return token
        pages = ceil(kernel.length / kernel.caches[0].size)
        tokens = token.value.astype(np.int64)
        page = tokens % kernel.length // kernel.caches[0].size
        return Scalar(self._core, tokens // kernel.length * pages + page, token.depth)


def key_cache(task: Task) -> tuple[Kernel, ...]:
    """kv, gamma, cos, sin, index, both caches, their scales and offsets."""
    given = (*task.inputs, *[None] * _INPUTS)[:_INPUTS]
    kv, gamma, cos, sin, index, keys, latent = task.present(7)
    if task.profile.paths.l0c_to_gm is None:
        raise task.refused(f"{task.profile.name} has no kernel for it")
    if given[11] is not None:
        raise task.refused("values beside keys aren't modelled")
    scales, offsets = given[7:9], given[9:11]
    if any(each is not None for each in offsets):
        raise task.refused("offsets of a quantised cache aren't modelled")
    mode = str(task.first("cache_mode") or MODES[0])
    if mode not in MODES:
        raise task.refused(f"cache mode {mode!r}; there are {', '.join(MODES)}")
    batch, heads, length, row = kv.shape if len(kv.shape) == 4 else (0, 0, 0, 0)
    if (heads, row) != (1, sum(WIDTHS)) or gamma.shape != WIDTHS[:1]:
        raise task.refused(f"{kv.shape} with {gamma.shape}: one head of 512 and 64 is modelled")
    if cos.shape != sin.shape or cos.shape not in [(batch, 1, n, WIDTHS[1]) for n in (length, 1)]:
        raise task.refused(f"angles {cos.shape} and {sin.shape} for {kv.shape}")
    written = task.outputs[2:4] if task.attributes.get("is_output_kv", False) else ()
    dense = [*(each.view(each.numel) for each in written), None, None]
    of_keys = _cache(task, keys, WIDTHS[1], kv, mode, scales[0], dense[0])
    caches = _cache(task, latent, WIDTHS[0], kv, mode, scales[1], dense[1]), of_keys
    pages = ceil(length / caches[0].size) if mode.startswith("PA_BLK") else length
    if index.numel != batch * pages or index.dtype is not INT64:
        raise task.refused(f"{index.numel} indices of {index.dtype} for {batch} x {pages}")
    epsilon = task.number("epsilon", _EPSILON)
    tensors = (kv, gamma, cos, sin, index)
    return (KvRmsNormRopeCache(task.profile, tensors, caches, mode, epsilon),)


def _cache(
    task: Task, tensor: GlobalTensor, width: int, kv: GlobalTensor, mode: str,
    scale: GlobalTensor | None, dense: GlobalTensor | None,
) -> _Cache:  # fmt: skip
    """How a cache lies; KernelError where it doesn't fit."""
    lanes = task.profile.buffers.block_bytes // tensor.dtype.itemsize if "NZ" in mode else 0
    size = tensor.shape[2 if mode == MODES[0] else 1] if len(tensor.shape) == 4 else 0
    heads = tensor.shape[1 if mode == MODES[0] else 2] if size else 0
    if heads != 1 or tensor.shape[3] != width:
        raise task.refused(f"a cache {tensor.shape} for rows of {width}, {mode}")
    if (tensor.dtype is INT8) != (scale is not None) or tensor.dtype not in (INT8, kv.dtype):
        raise task.refused(f"a cache of {tensor.dtype} for {kv.dtype}, with or without scales")
    if scale is not None and (scale.numel != width or mode == MODES[0]):
        raise task.refused(f"{scale.numel} scales for rows of {width}, {mode}")
    flat = tensor.view(tensor.numel)
    return _Cache(flat, width, size, lanes, scale, dense)
