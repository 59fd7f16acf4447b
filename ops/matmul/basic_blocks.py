"""The vendor's layouts of large products (A2): grids of cores for basic blocks, compared by cycles.

For each of some sizes of a block of C, grids of cores that divide its blocks well are compared by
how many cores work, by what is loaded again and by what L1 holds; blocks may shrink so that all
cores have as many. Then chunks of k are found that divide each other, and of those that remain a
model of the cycles picks one. Whatever has prime edges gets narrow chunks. Source: cann-ops,
op_tiling/gemm/cache_tiling_basic_block.cc and cache_tiling_basic_block_calc.cc (a reading of it;
batches and results wider than operands are left out).
"""

from __future__ import annotations

from functools import partial
from math import ceil, gcd, isqrt, sqrt
from typing import TYPE_CHECKING, NamedTuple

from npusim.ops.matmul.basic_block_cycles import BlockCycles
from npusim.ops.matmul.cache_tiling import LARGE, partition_of
from npusim.ops.matmul.cache_tiling_cycles import Found, Grid, Tiles
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import FLOAT

if TYPE_CHECKING:
    from npusim.hardware.groups import BlockSearch
    from npusim.hardware.profile import Profile
    from npusim.ops.matmul.shapes import Partition, Shape

# Rows and columns of a block and bytes of a chunk of k, in the order in which they are tried.
_BLOCKS = (
    (64, 64, 512), (64, 64, 1024), (64, 64, 2048), (64, 128, 512), (64, 128, 1024),
    (64, 256, 512), (128, 64, 512), (128, 64, 1024), (128, 128, 512), (128, 128, 1024),
    (256, 64, 512), (96, 320, 512), (128, 192, 512), (128, 256, 512), (192, 128, 512),
    (256, 128, 512), (320, 96, 512), (320, 64, 512), (64, 320, 512), (512, 64, 256),
    (64, 512, 256),
)  # fmt: skip
_TWO_IN_L0C = ((64, 64, 2048), (128, 128, 1024))
_WHOLE_K_BYTES = 256  # rows of whole such parts needn't come in longer chunks
_LONG_LOAD_BYTES = 1 << 16  # what a load of a chunk brings at least
_RESULTS_BESIDE_L2 = ((1.0, 0.6), (0.5, 0.8))  # share of L2 that they take, and what is left


class _Way(NamedTuple):
    """Cores along an edge, blocks along it and their length."""

    cores: int
    blocks: int
    length: int


class _Load(NamedTuple):
    """What a grid of cores is judged by; ``chunk`` is what passes beside a full operand."""

    blocks: float = 2**31 - 1
    busy: float = 0.0
    apart: int = 0
    score: float = 0.0
    chunk: int = 0
    full: str = ""  # of which operand L1 holds all that a core needs: "", "a", "b" or "ab"


def applies_to(profile: Profile, shape: Shape) -> bool:
    """True for large products of one matrix with aligned rows."""
    size = shape.dtype.itemsize
    if shape.batch > 1 or min(shape.m, shape.n, shape.k) <= LARGE:
        return False
    if shape.out_bytes != size or not shape.dtype.is_float or shape.in_fractals:
        return False
    loads = shape.k * (shape.m + shape.n) * 2 * size
    rows = shape.m if shape.turned_a else shape.k, shape.k if shape.turned_b else shape.n
    aligned = all(each * size % profile.buffers.block_bytes == 0 for each in rows)
    return aligned and loads // profile.cores.cube_cores > profile.buffers.l1_bytes


def partition(profile: Profile, shape: Shape, cores: int) -> Partition | None:
    """The tiling with the fewest cycles on all ``cores``."""
    found = found_for(profile, shape)
    return None if found is None else partition_of(profile, shape, found, cores)


def found_for(profile: Profile, shape: Shape) -> Found | None:
    """The same in fractals."""
    model = profile.software.block_search
    if model is None:
        return None
    cycles = BlockCycles(profile, model, shape)
    tried = ((block, _Fit(profile, model, shape, block).found()) for block in _BLOCKS)
    ranked = [
        (cycles.of(each, doubled=block in _TWO_IN_L0C), place, each)
        for place, (block, each) in enumerate(tried)
        if each
    ]
    return min(ranked)[-1] if ranked else None


class _Fit:
    """One size of blocks for one product; lengths in elements."""

    def __init__(
        self, profile: Profile, model: BlockSearch, shape: Shape, block: tuple[int, int, int]
    ) -> None:
        self._shape, self._cores, buffers = shape, profile.cores.cube_cores, profile.buffers
        self._size = size = shape.dtype.itemsize
        self._l1, self._l0 = buffers.l1_bytes, buffers.l0a_bytes
        self._l2, line = profile.memory.l2_bytes, profile.memory.l2_line_bytes
        self._line = line // size
        self._lanes = lanes = buffers.block_bytes // size
        self._deep = ceil(shape.k / lanes)
        edges = zip(block, (shape.m, shape.n), strict=False)
        self._m, self._n = (round_up(min(most, edge), 16) for most, edge in edges)
        self._k = round_up(min(block[2] // size, shape.k), lanes)
        table = buffers.bias_table_bytes or 0
        self._row_bytes = 2 * size * shape.has_bias  # of a bias, by column
        self._fits = not shape.has_bias or min(shape.n, self._n) * FLOAT.itemsize <= table
        wide = size == FLOAT.itemsize and (shape.turned_a or not shape.turned_b)
        self._whole_16 = wide
        self._spare = wide and shape.k % 16 != 0
        slower = 1 if size < FLOAT.itemsize else 2 if shape.hf32 else 4
        self._model = model
        self._enough, self._little = model.enough / slower, model.little / slower

    def found(self) -> Found | None:
        """The grid, the blocks and the chunks; None where the block is too broad for a bias."""
        if not self._fits:
            return None
        rows, columns, load = self._grid()
        m, n = rows.length, columns.length
        deep_a, deep_b = self._chunks(m, n, load)
        most = self._l0 // self._size // 2 // max(m, n)
        most = most // 16 * 16 if self._whole_16 else most
        short = min(deep_a, deep_b)
        step = _divisor(ceil(short / self._lanes), most // self._lanes) if most < short else 0
        k0 = step or ceil(short / self._lanes)
        high, wide = min(rows.cores, rows.blocks), min(columns.cores, columns.blocks)
        m0, n0 = m // 16, n // 16
        tiles = Tiles(m0, n0, k0, m0, n0, ceil(deep_a / self._lanes), ceil(deep_b / self._lanes))
        if min(tiles) <= 0:
            return None
        total = ceil(self._shape.m / 16), ceil(self._shape.n / 16)
        tall, broad = (
            min(round_up(ceil(edge / cores), each), edge)
            for edge, cores, each in zip(total, (high, wide), (m0, n0), strict=True)
        )
        full_a = tall <= m0 and tiles.ka >= self._deep
        full_b = broad <= n0 and tiles.kb >= self._deep
        grid = Grid(1, ceil(total[0] / tall), ceil(total[1] / broad))
        return Found(grid, tiles, tall, broad, full_a, full_b)

    # -- grids -----------------------------------------------------------------------------------

    def _grid(self) -> tuple[_Way, _Way, _Load]:
        """Cores along m and n, with the blocks that each has."""
        shape, size = self._shape, self._size
        line = self._line * size
        inner = (shape.m if shape.turned_a else shape.k), (shape.k if shape.turned_b else shape.n)
        cut_a, cut_b = (
            1.0 if each * size % line == 0 else 2.0 if each * size > line else 2.5 for each in inner
        )
        high, wide = ceil(shape.m / self._m), ceil(shape.n / self._n)
        again = cut_a * shape.m * wide + cut_b * shape.n * high
        near = 2.0 * shape.m * shape.n / again / size
        even = round_up(shape.m, 16) % high == 0 and round_up(shape.n, 16) % wide == 0
        results = 2.0 * shape.k / shape.out_bytes
        intensity = min(results * (1.0 if even else self._for_results()), near)
        judge = partial(self._better, intensity=intensity, near=near, inner=inner)
        rows, columns = _Way(1, high, self._m), _Way(1, wide, self._n)
        best = rows, columns, _Load(apart=self._cores, chunk=self._k)
        for grid in self._grids(high, wide, cut_a / cut_b):
            way = rows._replace(cores=grid[0]), columns._replace(cores=grid[1])
            if near >= self._little:
                way = (
                    way[0] if shape.turned_a else _evened(way[0], shape.m),
                    _evened(way[1], shape.n) if shape.turned_b else way[1],
                )
            load = self._load(*way, cut_a, cut_b)
            if judge(best[2], load):
                best = *way, load
        return best

    def _for_results(self) -> float:
        """What is left of the bandwidth for results."""
        shape = self._shape
        if shape.dtype is FLOAT:
            return self._model.store_share
        share = shape.m * shape.n * self._size / self._l2
        left = next((left for most, left in _RESULTS_BESIDE_L2 if share >= most), 1.0)
        return self._model.store_share * left

    def _grids(self, high: int, wide: int, skew: float) -> list[tuple[int, int]]:
        """Cores along m and n."""
        cores = self._cores
        common_m, common_n = gcd(high, cores), gcd(wide, cores)
        found = {
            (common_m, min(wide, cores // common_m)),
            (min(high, cores // common_n), common_n),
        }
        if common_m == 1:
            found.add((min(high, cores), cores // min(high, cores)))
        if common_n == 1:
            found.add((cores // min(wide, cores), min(wide, cores)))
        cuts = [
            sqrt(skew * cores * self._n / self._m),
            sqrt(cores * high * self._m / (wide * self._n) / skew),
        ]
        if cores in (common_m, common_n):
            cuts.append(sqrt(cores))
        for cut in cuts:
            found |= {(min(m, high), min(cores // m, wide)) for m in _around(cut, cores)}
        return sorted(found)

    def _load(self, rows: _Way, columns: _Way, cut_a: float, cut_b: float) -> _Load:
        """What a grid loads, and of which operand L1 holds all."""
        shape, size, model = self._shape, self._size, self._model
        each_m, each_n = (ceil(way.blocks / way.cores) for way in (rows, columns))
        blocks = each_m * each_n * max(1.0, rows.cores * columns.cores / self._cores)
        high, wide = ceil(rows.blocks / each_m), ceil(columns.blocks / each_n)
        active = high * wide
        busy = active / (ceil(active / self._cores) * self._cores)
        load = partial(_Load, blocks, busy, abs(high - wide))
        m, n, row = rows.length, columns.length, self._row_bytes // 2
        near_l2 = self._l2 / (shape.k * size) >= min(shape.m, shape.n)
        miss_a, miss_b = (1, 1) if near_l2 else (each_n, each_m)
        slow_a = cut_a * shape.m * (model.one_address_slower if columns.cores == 1 else 1)
        slow_b = cut_b * shape.n * (model.one_address_slower if rows.cores == 1 else 1)

        def score(base: int, times_a: int, times_b: int) -> float:
            again = slow_a * (times_a - miss_a) + slow_b * (times_b - miss_b)
            return base + 1 / (again + model.memory_slower * (shape.m * miss_a + shape.n * miss_b))

        deep, room = self._deep * self._lanes, self._room(m + n)
        all_m, all_n = rows.blocks <= rows.cores, columns.blocks <= columns.cores
        if deep <= self._k and 2 * (m * self._k * size + n * (self._k * size + row)) <= room:
            times = rows.cores if all_m or all_n else rows.blocks
            return load(score(3, columns.cores, times), self._k, "ab")
        for side, whole, kept, passing in (("a", all_m, m, n), ("b", all_n, n, m)):
            if not whole:
                continue
            chunk = self._beside(passing)
            held = deep * kept * size + row * (n if side == "b" else 2 * n)
            if held + 2 * chunk * passing * size <= room:
                return load(score(1, columns.cores, rows.cores), chunk, side)
        of_a, of_b = (round_up(way.blocks, way.cores) for way in (columns, rows))
        return load(score(0, of_a, of_b), self._k, "")

    def _better(
        self,
        old: _Load,
        new: _Load,
        *,
        intensity: float,
        near: float,
        inner: tuple[int, int],
    ) -> bool:
        """Whether a grid is better than another one: the first difference decides."""
        if intensity >= self._enough:
            fewer = old.blocks - new.blocks
            return _first((fewer, new.busy - old.busy, old.apart - new.apart))
        held = self._l2 / (self._shape.k * self._size)
        far = [
            length % self._line != 0 or edge > held
            for length, edge in zip(inner, (self._shape.m, self._shape.n), strict=True)
        ]
        bound, least = (
            (self._enough, self._model.busy) if all(far) else (self._little, self._model.busy_near)
        )
        busy = min(new.busy, old.busy)
        first = [new.busy - old.busy, new.score - old.score]
        if busy >= least and near < bound * busy * busy:
            first = [new.score - old.score, old.busy - new.busy]
        return _first((*first, old.apart - new.apart, old.blocks - new.blocks))

    # -- chunks of k -----------------------------------------------------------------------------

    def _room(self, lines: int) -> int:
        """Bytes of L1 for blocks of so many rows and columns."""
        return self._l1 - 2 * 16 * lines * self._size * self._spare

    def _beside(self, passing: int) -> int:
        """A chunk of an operand that passes a full one: long loads, in equal parts of all of k."""
        deep = self._deep
        least = ceil(_LONG_LOAD_BYTES / (passing * self._size * self._lanes))
        if least < isqrt(deep):
            parts = next((each for each in range(least, isqrt(deep)) if deep % each == 0), deep)
        else:
            parts = deep // next(
                (each for each in range(deep // least, 0, -1) if deep % each == 0), 1
            )
        return parts * self._lanes

    def _chunks(self, m: int, n: int, load: _Load) -> tuple[int, int]:
        """What passes through L1 at a time of A and of B."""
        shape = self._shape
        if ceil(shape.k / self._k) <= 1 or load.full == "ab":
            return self._k, self._k
        if load.full:
            return self._beside_full(m, n, load)
        room = (self._room(m + n) - self._row_bytes // self._size * n) // self._size
        shrunk, whole = self._shrunk(m, n)
        ka, kb = (shrunk if shape.turned_a else whole), (whole if shape.turned_b else shrunk)
        loose = self._deep * self._lanes * self._size % _WHOLE_K_BYTES != 0
        both = not shape.turned_a and shape.turned_b
        grow_a = both or (loose and not shape.turned_a)
        grow_b = both or (loose and shape.turned_b)
        deep = self._deep * self._lanes
        if both:
            ka = kb = max(whole, min(deep, room // (2 * (m + n))) // whole * whole)
        if grow_a:
            return self._grown(ka, (m, n), min(deep, (room - 2 * kb * n) // (2 * m)), room, kb)
        if grow_b:
            most = min(deep, (room - 2 * ka * m) // (2 * n))
            kb, ka = self._grown(kb, (n, m), most, room, ka)
        return ka, kb

    def _shrunk(self, m: int, n: int) -> tuple[int, int]:
        """The shortest chunk that loads long enough, and the shortest of whole lines of L2."""
        least = round_up(ceil(_LONG_LOAD_BYTES / (max(m, n) * self._size)), self._lanes)
        ways = range(least, self._k + 1, self._lanes)
        shrunk = next((each for each in ways if self._k % each == 0), self._k)
        ways = range(shrunk, self._k + 1, self._lanes)
        return shrunk, next((each for each in ways if each % self._line == 0), self._k)

    def _grown(
        self, chunk: int, edges: tuple[int, int], most: int, room: int, other: int
    ) -> tuple[int, int]:
        """A chunk as long as there is room for, and a part of it for the other operand."""
        if most < chunk:
            return chunk, other
        chunk = most // chunk * chunk
        left = (room - 2 * chunk * edges[0]) // (2 * edges[1] * self._lanes)
        parts = _divisor(chunk // self._lanes, min(self._deep, left))
        return chunk, parts * self._lanes

    def _beside_full(self, m: int, n: int, load: _Load) -> tuple[int, int]:
        """All of k of one operand, and a chunk of the other in whole lines where it can be."""
        kept, passing = (m, n) if load.full == "a" else (n, m)
        deep, chunk = self._deep * self._lanes, load.chunk
        runs_k = self._shape.turned_b if load.full == "a" else not self._shape.turned_a
        if runs_k and deep % self._line == 0:
            room = self._room((kept + 2 * passing) // 2) // self._size
            most = min(deep, (room - deep * kept) // (2 * passing))
            ways = range(chunk, most + 1, self._lanes)
            chunk = next((e for e in ways if deep % e == 0 and e % self._line == 0), chunk)
        return (deep, chunk) if load.full == "a" else (chunk, deep)


def _evened(way: _Way, edge: int) -> _Way:
    """Blocks as short as leaves every core as many, if no core falls idle by it."""
    each = ceil(way.blocks / way.cores)
    length = ceil(round_up(edge, 16) / (each * way.cores * 16)) * 16
    blocks = ceil(edge / length)
    active, before = (ceil(n / ceil(n / way.cores)) for n in (blocks, way.blocks))
    return way._replace(blocks=blocks, length=length) if active >= before else way


def _around(cut: float, cores: int) -> set[int]:
    """The divisors of a number of cores on both sides of a cut."""
    divisors = [each for each in range(1, cores + 1) if cores % each == 0]
    above = next((each for each in divisors if each >= cut), cores)
    if cut < 1 or cut >= cores:
        return {above}
    return {above, max((each for each in divisors if each < above), default=1)}


def _divisor(value: int, most: int) -> int:
    """The greatest divisor of at most ``most``, 1 where there is none."""
    return next((each for each in range(most, 1, -1) if value % each == 0), 1)


def _first(differences: tuple[float, ...]) -> bool:
    """Whether the first of some differences that isn't zero is positive."""
    return next((each > 0 for each in differences if each), False)
