"""How a matrix product is partitioned among the cube cores, and the blocks that each works in.

Every core gets a rectangle of C, of one or several matrices of the batch. Kernels for one shape
have tilings of their own (static_tiling), those of A2 the vendor's searches: for large products
(basic_blocks) and for others (cache_tiling). Of what remains, batches of large products and chips
without a fixpipe, the cycles of the busiest pipe are compared, products, loads through L2 and
stores, within the capacities, in whole fractals and whole lines of L2.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from math import ceil, gcd
from typing import TYPE_CHECKING

from npusim.library.matmul_tiling import MatmulTiling, grain_of
from npusim.ops.matmul import basic_blocks, cache_tiling
from npusim.ops.matmul.shapes import Partition, Shape
from npusim.ops.matmul.static_tiling import static_partition, static_serves
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import FLOAT

if TYPE_CHECKING:
    from npusim.hardware.profile import Profile

# Rows and columns of a block of C where a core has less than a usual one.
_SMALLER_BASES = ((128, 128), (64, 256), (256, 64), (64, 512), (32, 512), (16, 512))
_BROADEST = (128, 512)  # of whole numbers, with fewer columns where L0C holds no more
_LONG, _SHORT = 256, 128  # edges of a usual one
_SHORTLIST = 6  # partitions that are looked at with every base


Way = tuple[int, int, int]  # rectangles along the batch, rows of one, columns of one


@lru_cache(maxsize=4096)
def partition(profile: Profile, shape: Shape, cores: int = 0) -> Partition:
    """The partition that keeps the busiest of ``cores`` (0: all) busy for the shortest time."""
    if not profile.software.matmul_overlaps:
        static = static_partition(profile, shape)
        if static_serves(profile, static):
            return static
    cores = cores or profile.cores.cube_cores
    if cache_tiling.applies_to(profile, shape):
        large = cores == profile.cores.cube_cores and basic_blocks.applies_to(profile, shape)
        found = basic_blocks.partition(profile, shape, cores) if large else None
        found = found or cache_tiling.partition(profile, shape, cores)
        if found is not None:
            return found
    costs = _Costs(profile, shape)
    usual = usual_base(profile, shape)
    estimates = {way: costs.cycles(way, usual) for way in _ways(profile, shape, cores)}
    ways = sorted(estimates, key=lambda way: (estimates[way], way))[:_SHORTLIST]
    more = () if shape.dtype.is_float else (_BROADEST,)
    *_, way, base = min(
        (costs.cycles(way, base), order, place, way, base)
        for order, way in enumerate(ways)
        for place, base in enumerate((usual, *_SMALLER_BASES, *more))
    )
    blocks = costs.blocks(way, base)
    outside = _rows_outside(profile, shape, way, blocks)
    return Partition(shape, *way, replace(blocks, rows_outside=outside), cores)


def _rows_outside(profile: Profile, shape: Shape, way: Way, blocks: MatmulTiling) -> bool:
    """Whether A goes past once and B again for each row of blocks, as that is less from memory.

    What all cores go past again comes out of L2, unless it and what stays meanwhile are larger.
    Only for the second generation, whose kernels know their shape; later ones are told an order by
    their tiling.
    """
    if profile.software.matmul_generation > 2 or blocks.keep_a or blocks.keep_b:
        return False
    columns_outside, rows_outside = _from_memory(profile, shape, way, blocks)
    return rows_outside < columns_outside


def _from_memory(
    profile: Profile, shape: Shape, way: Way, blocks: MatmulTiling
) -> tuple[float, float]:
    """Bytes of both operands that come from memory: with columns outside, and with rows.

    What goes past again comes out of L2, unless it and what stays meanwhile are larger.
    """
    _, rows, columns = way
    l2, line = profile.memory.l2_bytes, shape.k * shape.dtype.itemsize
    of_a, of_b = shape.m * line, shape.n * line
    staying_a = min(of_a, ceil(shape.m / rows) * blocks.base_m * line)
    staying_b = min(of_b, ceil(shape.n / columns) * blocks.base_n * line)
    broad = 1 if blocks.keep_a else ceil(columns / blocks.base_n)
    tall = 1 if blocks.keep_b else ceil(rows / blocks.base_m)

    def loaded(nbytes: float, times: int, meanwhile: float) -> float:
        return nbytes * (times if meanwhile > l2 else 1)

    columns_outside = loaded(of_a, broad, of_a + staying_b) + loaded(of_b, tall, staying_b)
    rows_outside = loaded(of_a, broad, staying_a) + loaded(of_b, tall, of_b + staying_a)
    return columns_outside, rows_outside


def estimated_cycles(profile: Profile, found: Partition) -> float:
    """Cycles of the busiest core, roughly: what partitions are compared by."""
    blocks = found.blocks
    way = found.groups, found.rows, found.columns
    return _Costs(profile, found.shape).cycles(way, (blocks.base_m, blocks.base_n))[0]


def usual_base(profile: Profile, shape: Shape) -> tuple[int, int]:
    """Rows and columns of a block that fills L0C: broad ones, unless operands are turned.

    Then the blocks are tall where that loads less, or m alone is long. Source: ops-nn, MatMulV3,
    matmul_v3_base_tiling.cpp (SetBaseBlockTiling).
    """
    broad, tall = (_SHORT, _LONG), (_LONG, _SHORT)
    if shape.turned_a == shape.turned_b:
        return tall if shape.turned_a else broad
    if shape.b_in_fractals:
        return broad
    much = profile.cores.cube_cores // 2 * _LONG
    long_m, long_n = shape.m >= much, shape.n >= much
    if long_m and long_n:
        loads = [
            ceil(shape.m / base[0]) * shape.n + ceil(shape.n / base[1]) * shape.m
            for base in (tall, broad)
        ]
        return tall if loads[0] < loads[1] else broad
    return tall if not long_n and (long_m or shape.m > shape.n) else broad


def _ways(profile: Profile, shape: Shape, cores: int) -> Iterator[Way]:
    """Grids of at most ``cores`` rectangles."""
    grain, line = grain_of(profile, shape.dtype), profile.memory.l2_line_bytes
    units_m = {grain, max(grain, line // shape.dtype.itemsize) if shape.turned_a else grain}
    units_n = {grain, max(grain, line // min(shape.out_bytes, shape.dtype.itemsize))}
    for groups in sorted({min(shape.batch, max(1, cores // part)) for part in range(1, cores + 1)}):
        rest = cores // groups
        for wide in range(1, min(rest, ceil(shape.n / grain)) + 1):
            high = rest // wide
            for unit_m in units_m:
                for unit_n in units_n:
                    rows = min(round_up(ceil(shape.m / high), unit_m), round_up(shape.m, grain))
                    columns = min(round_up(ceil(shape.n / wide), unit_n), round_up(shape.n, grain))
                    yield groups, rows, columns


class _Costs:
    """Cycles of the busiest core for a partition and a base, roughly."""

    def __init__(self, profile: Profile, shape: Shape) -> None:
        self._profile, self._shape = profile, shape
        clock = profile.clock_mhz
        self._hbm = profile.hbm_sustained_gbps * 1e3 / clock
        self._l2 = profile.l2_sustained_gbps * 1e3 / clock
        self._grain = grain_of(profile, shape.dtype)
        kind = "hfloat32" if shape.hf32 else shape.dtype.intrinsic
        self._rate = profile.cube.dtypes.get(kind) or profile.cube.dtypes["float16"]

    def blocks(self, way: Way, base: tuple[int, int]) -> MatmulTiling:
        """The blocks of a core, no larger than what it has to do."""
        _, rows, columns = way
        results = self._profile.buffers.l0c_bytes // FLOAT.itemsize
        base_m = self._evenly(rows, min(base[0], results // self._grain))
        base_n = self._evenly(columns, min(base[1], results // base_m // self._grain * self._grain))
        shape, table = self._shape, self._profile.buffers.bias_table_bytes
        spare = 0
        if shape.has_bias and table is not None:
            base_n = min(base_n, table // FLOAT.itemsize)
            spare = table
        return MatmulTiling.of_blocks(
            self._profile, shape.dtype, (base_m, base_n), rows, shape.k, spare
        )

    def cycles(self, way: Way, base: tuple[int, int]) -> tuple[float, float]:
        """Cycles of the core with most to do, and, to tell equal ones apart, those of its pipes."""
        shape, paths = self._shape, self._profile.paths
        groups, rows, columns = way
        blocks, turns = self.blocks(way, base), ceil(shape.batch / groups)
        size, out = shape.dtype.itemsize, paths.l0c_to_gm or paths.ub_to_gm
        stores = rows * columns * shape.out_bytes / out.bytes_per_cycle
        loaded = _from_memory(self._profile, shape, way, blocks)
        compulsory = min(loaded) + shape.m * shape.n * shape.out_bytes
        hbm = compulsory * shape.batch / self._hbm / turns
        pipes = (*self._cube(way, blocks), self._loads(way, blocks), stores)
        first_bytes = (blocks.base_m + blocks.base_n) * min(blocks.step_k, shape.k) * size
        first = first_bytes / paths.gm_to_l1.bytes_per_cycle
        last = blocks.base_m * blocks.base_n * shape.out_bytes / out.bytes_per_cycle
        # What memory takes is the same for all; of those that hide behind it the leanest is best.
        return max(turns * max(pipes) + first + last, turns * hbm), turns * sum(pipes)

    def _cube(self, way: Way, blocks: MatmulTiling) -> tuple[float, float]:
        """Cycles of a core's products, and of moving what they are of into L0."""
        shape, cube, paths = self._shape, self._profile.cube, self._profile.paths
        _, rows, columns = way
        size, steps = shape.dtype.itemsize, ceil(shape.k / blocks.base_k)
        times = ceil(rows / blocks.base_m) * ceil(columns / blocks.base_n) * steps
        fractals = ceil(rows / cube.fractal_m) * ceil(columns / cube.fractal_n)
        fractals *= ceil(shape.k / self._rate.k_per_fractal)
        products = fractals * self._rate.cycles_per_fractal + times * cube.mad_start_cycles
        into_l0 = times * (
            paths.l1_to_l0a.setup_cycles
            + paths.l1_to_l0b.setup_cycles
            + blocks.base_m * blocks.base_k * size / paths.l1_to_l0a.bytes_per_cycle
            + blocks.base_n * blocks.base_k * size / paths.l1_to_l0b.bytes_per_cycle
        )
        return products, into_l0

    def _loads(self, way: Way, blocks: MatmulTiling) -> float:
        """Cycles of bringing tiles of A and B into L1."""
        shape, path = self._shape, self._profile.paths.gm_to_l1
        groups, rows, columns = way
        high, wide = ceil(shape.m / rows), ceil(shape.n / columns)
        tall, broad = ceil(rows / blocks.base_m), ceil(columns / blocks.base_n)
        size = shape.dtype.itemsize
        of_a = rows * shape.k * size * (1 if blocks.keep_a else broad)
        of_b = columns * shape.k * size * (1 if blocks.keep_b else tall)
        l2 = self._l2 / (groups * high * wide) * (path.shared_fraction if high * wide > 1 else 1.0)
        slow_a, slow_b = self._packets(blocks)
        loads = max((of_a * slow_a + of_b * slow_b) / path.bytes_per_cycle, (of_a + of_b) / l2)
        return loads + 2 * tall * broad * ceil(shape.k / blocks.step_k) * path.setup_cycles

    def _evenly(self, total: int, most: int) -> int:
        """Blocks of at most ``most``, of one size as far as whole fractals allow."""
        whole = round_up(total, self._grain)
        return round_up(ceil(whole / ceil(whole / most)), self._grain)

    def _packets(self, blocks: MatmulTiling) -> tuple[float, float]:
        """How much longer than their bytes the loads of A and B take, by the lines they cut."""
        shape = self._shape
        if shape.in_fractals:
            return 1.0, 1.0
        along_a = blocks.base_m if shape.turned_a else min(blocks.step_k, shape.k)
        along_b = min(blocks.step_k, shape.k) if shape.turned_b else blocks.base_n
        return (
            self._cut(along_a, shape.m if shape.turned_a else shape.k),
            self._cut(along_b, shape.k if shape.turned_b else shape.n),
        )

    def _cut(self, run: int, pitch: int) -> float:
        line, size = self._profile.memory.l2_line_bytes, self._shape.dtype.itemsize
        grain = gcd(line, pitch * size, run * size)
        lines = (round_up(run * size, grain) + line - grain) / line
        return max(1.0, lines * line / (run * size))
