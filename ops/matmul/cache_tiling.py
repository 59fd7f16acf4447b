"""The search for tilings that the vendor's GEMM kernels make when they are launched (A2).

Products of which an edge is short, or that L1 holds, are laid out as follows. For every grid of
cores four ways to use L1 are tried: it holds what a core needs of both operands, of A, of B, or
chunks of both. Edges of tiles follow from the memories and from whole lines of L2; a model of the
cycles picks one. Sizes are counted in fractals. Source: cann-ops, op_tiling/cache_tiling.cc and
op_tiling/gemm/estimate (a reading of it; products of several small matrices in L0 at once and
tilings found by tuning are left out).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from math import ceil
from typing import TYPE_CHECKING

from npusim.library.matmul_tiling import MatmulTiling, grain_of
from npusim.ops.matmul.cache_tiling_cycles import CycleModel, Found, Grid, Tiles
from npusim.ops.matmul.shapes import Partition
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import FLOAT

if TYPE_CHECKING:
    from npusim.hardware.profile import Profile
    from npusim.ops.matmul.shapes import Shape

LARGE = 256  # elements that every edge has to exceed, from which on another search is made
_EDGE = 8  # fractals: 128 rows or columns
_LONG_EDGE = 16  # fractals
_FEW_CORES = 16  # grids of fewer cores aren't tried where L1 holds one operand
_MERGED = 256  # fractals of narrow rows that are loaded as one run
_SPREAD = 1.35  # by which rounding up may lengthen an edge, 3 where edges are ragged anyway
_RAGGED_SPREAD = 3.0


def applies_to(profile: Profile, shape: Shape) -> bool:
    """True where the search is made: not for batches of large products."""
    if profile.software.matmul_load_bytes_per_cycle is None or not shape.dtype.is_float:
        return False
    if shape.batch == 1:
        return True
    loads = (shape.m + shape.n) * shape.k * shape.dtype.itemsize * 2
    large = min(shape.m, shape.n, shape.k) > LARGE
    return not large or loads <= profile.buffers.l1_bytes * profile.cores.cube_cores


def partition(profile: Profile, shape: Shape, cores: int) -> Partition | None:
    """The tiling with the fewest cycles on at most ``cores``; None where nothing fits."""
    search, model = _Search(profile, shape, cores), CycleModel(profile, shape)
    ranked = ((model.rank(each), place, each) for place, each in enumerate(search.candidates()))
    _, _, found = min(ranked, default=(None, None, None))
    return None if found is None else partition_of(profile, shape, found, cores)


def partition_of(profile: Profile, shape: Shape, found: Found, cores: int) -> Partition:
    """A tiling in elements."""
    cube = profile.cube
    rows, columns = found.rows * cube.fractal_m, found.columns * cube.fractal_n
    return Partition(shape, found.grid.groups, rows, columns, _blocks(profile, shape, found), cores)


def _blocks(profile: Profile, shape: Shape, found: Found) -> MatmulTiling:
    """The blocks of a core, with what of its operands stays in L1.

    Where L1 holds all of k of both, it is A's rows that stay.
    """
    tiles, cube, buffers = found.tiles, profile.cube, profile.buffers
    size, grain = shape.dtype.itemsize, grain_of(profile, shape.dtype)
    lanes = buffers.block_bytes // size
    base_m, base_n = tiles.m0 * cube.fractal_m, tiles.n0 * cube.fractal_n
    base_k = round_up(tiles.k0 * lanes, grain)  # whole fractals, whichever way they lie
    if 2 * max(base_m, base_n) * base_k * size > buffers.l0a_bytes:
        base_k -= grain
    keep_a = tiles.ka * lanes >= shape.k and found.columns > tiles.n0
    keep_b = tiles.kb * lanes >= shape.k and found.rows > tiles.m0 and not keep_a
    room = buffers.l1_bytes - ((buffers.bias_table_bytes or 0) if shape.has_bias else 0)
    panel = round_up(shape.k, base_k) * size * (base_m * keep_a + base_n * keep_b)
    streamed = 2 * size * (base_m * (not keep_a) + base_n * (not keep_b))
    panels = 2 if 2 * panel + streamed * base_k <= room else 1
    chunk = tiles.kb if keep_a else tiles.ka if keep_b else max(tiles.ka, tiles.kb)
    step_k = min(round_up(shape.k, base_k), round_up(chunk * lanes, base_k))
    fitting = (room - panels * panel) // streamed // base_k * base_k
    results = base_m * base_n * FLOAT.itemsize
    depth_c = 2 if 2 * results <= buffers.l0c_bytes else 1
    short = base_k if keep_a or keep_b else min(tiles.ka, tiles.kb) * lanes
    if step_k > fitting >= short and short % base_k == 0:
        fitting = fitting // short * short  # as long as the shorter chunk, as rows of whole lines
    step_k = max(base_k, min(step_k, fitting))
    return MatmulTiling(
        base_m, base_n, base_k, step_k, keep_a, keep_b, depth_c=depth_c, panels=panels
    )


class _Search:
    """The limits of one product on one chip, in fractals, and the ways that keep them."""

    def __init__(self, profile: Profile, shape: Shape, cores: int) -> None:
        self._profile, self._shape, self._cores = profile, shape, cores
        buffers, cube, size = profile.buffers, profile.cube, shape.dtype.itemsize
        self._wide = shape.dtype is FLOAT
        self._lanes = buffers.block_bytes // size
        self._m, self._n = ceil(shape.m / cube.fractal_m), ceil(shape.n / cube.fractal_n)
        self._k = ceil(shape.k / self._lanes)
        self._line = profile.memory.l2_line_bytes // (cube.fractal_n * size)
        square = cube.fractal_m * cube.fractal_n
        self._l0 = buffers.l0a_bytes // 2 // (square * size)
        self._l0c = buffers.l0c_bytes // (square * FLOAT.itemsize)
        self._l1 = buffers.l1_bytes // (cube.fractal_m * buffers.block_bytes)
        self._k0 = _EDGE // size
        self._ragged = any(
            edge % unit
            for edge, unit in (
                (shape.m, cube.fractal_m),
                (shape.n, cube.fractal_n),
                (shape.k, self._lanes),
            )
        )

    # -- ways to use L1 --------------------------------------------------------------------------

    def candidates(self) -> Iterator[Found]:
        """Every grid with every way to use L1 that fits."""
        shape, few = self._shape, _FEW_CORES
        if self._wide or shape.has_bias or shape.batch > 1:
            yield from self._tried(self._by_columns(), self._both_full)
        if ceil(self._m / self._cores) * self._k < self._l1:
            tall = [each for each in self._grids(few) if self._m > _EDGE or each.high == 1]
            yield from self._tried(tall, self._a_full)
        if ceil(self._n / self._cores) * self._k < self._l1:
            broad = [
                each for each in self._by_columns(few) if self._n > self._line or each.wide == 1
            ]
            yield from self._tried(broad, self._b_full)
        yield from self._tried(self._widest(), self._neither_full)

    def _grids(self, least: int = 1) -> list[Grid]:
        """Grids of ``least`` to all cores."""
        return [
            Grid(groups, high, wide)
            for groups in range(1, min(self._cores, self._shape.batch) + 1)
            for high in range(1, min(self._cores // groups, self._m) + 1)
            for wide in range(1, min(self._cores // groups // high, self._n) + 1)
            if groups * high * wide >= least
        ]

    def _by_columns(self, least: int = 1) -> list[Grid]:
        """The same, first those of few columns: of equal tilings the first is taken."""
        return sorted(self._grids(least), key=lambda grid: (grid.groups, grid.wide, grid.high))

    def _widest(self) -> Iterator[Grid]:
        """Grids with as many rows of cores as there is room for, of whole edges where m is long."""
        for groups in range(1, min(self._cores, self._shape.batch) + 1):
            for wide in range(1, min(self._cores // groups, self._n) + 1):
                high = min(self._cores // groups // wide, self._m)
                if not self._shape.in_fractals and (self._shape.turned_a or high != self._m):
                    each = ceil(self._m / high)
                    whole = round_up(each, _EDGE)
                    high = ceil(self._m / (whole if whole < 2 * each else round_up(each, 4)))
                yield Grid(groups, high, wide)

    def _tried(self, grids: Iterable[Grid], way: Callable[[Grid], Tiles | None]) -> Iterator[Found]:
        """Tilings of one way to use L1."""
        for grid in grids:
            tiles = way(grid)
            if tiles is not None and self._fits(tiles):
                found = self._found(grid, tiles)
                if self._spread(found) < (_RAGGED_SPREAD if self._ragged else _SPREAD):
                    yield found

    def _both_full(self, grid: Grid) -> Tiles | None:
        """L1 holds what a core needs of both operands."""
        m1, n1 = ceil(self._m / grid.high), ceil(self._n / grid.wide)
        shape, line = self._shape, self._line
        if (not shape.turned_b and n1 % line and grid.wide > 1) or (
            shape.turned_a and m1 % line and grid.high > 1
        ):
            return None
        m0, n0 = _divisor(m1, _EDGE), _divisor(n1, self._longer())
        return Tiles(m0, n0, self._depth(m0, n0), m1, n1, self._k, self._k)

    def _a_full(self, grid: Grid) -> Tiles | None:
        """L1 holds the rows of a core, B passes through."""
        shape, line, k = self._shape, self._line, self._k
        m1 = ceil(self._m / grid.high)
        cut = shape.turned_a and grid.high > 1
        if cut and (m1 < _EDGE or (m1 % line and (self._wide or shape.has_bias))):
            return None
        m1 = self._whole_lines(self._m, m1, grid.high)
        if m1 > line and m1 % _EDGE:
            return None
        m0 = m1 if m1 <= line else _EDGE
        n0 = min(ceil(self._n / grid.wide), _LONG_EDGE)
        if not m1 or m0 > self._l0:
            return None
        k0 = kb = self._depth(m0, n0)
        if shape.turned_b and not k % line and not line % k0 and m1 * k + line * n0 <= self._l1:
            kb = line
        return Tiles(m0, n0, k0, m1, n0, k, kb) if m1 * k + 2 * kb * n0 <= self._l1 else None

    def _b_full(self, grid: Grid) -> Tiles | None:
        """L1 holds the columns of a core, A passes through."""
        shape, line, k, l1 = self._shape, self._line, self._k, self._l1
        n1 = ceil(self._n / grid.wide)
        cut = not shape.turned_b and grid.wide > 1
        if cut and n1 % line and (self._wide or shape.has_bias):
            return None
        n1 = self._whole_lines(self._n, n1, grid.wide)
        if not n1 or (n1 > line and n1 % self._longer()):
            return None
        n0 = n1 if n1 <= line else self._longer()
        core_m = ceil(self._m / grid.high)
        m0 = m1 = min(core_m, _EDGE)
        k0 = ka = self._depth(m0, n0)
        if not shape.turned_a and not k % line and not line % k0 and 2 * m1 * line + k * n1 <= l1:
            ka = line
        if core_m >= line and 2 * line * ka + k * n1 <= l1:
            if line * k0 <= self._l0 and line * n0 <= self._l0c:
                m0 = m1 = line
            elif ka == k:
                m1 = line
        return Tiles(m0, n0, k0, m1, n1, ka, k) if 2 * m1 * ka + k * n1 <= l1 else None

    def _neither_full(self, grid: Grid) -> Tiles | None:
        """Both operands pass through L1."""
        shape, line, k = self._shape, self._line, self._k
        if self._ragged and shape.turned_b and not shape.turned_a and _EDGE < k < line:
            k = line
        merged = not shape.turned_b and grid.wide == 1 and 1 < self._n <= _EDGE
        n1 = (
            self._n if merged else self._edge(self._n, grid.wide, _EDGE if shape.turned_b else line)
        )
        rows = _EDGE * shape.dtype.itemsize // 2
        m1 = self._edge(self._m, grid.high, line if shape.turned_a else rows)
        if not m1 or not n1:
            return None
        ka, kb = self._chunks(k, m1, n1, merged=merged)
        m0, n0 = m1, n1
        if m0 == n0 == _LONG_EDGE:
            m0 = _EDGE
            m1 = m0 if ka != k else m1
        least = min(ka, kb)
        if merged and max(m0, n0) * least <= self._l0:
            k0 = least
        else:
            k0 = self._k0 if least >= self._k0 else k
        if ka == k and not shape.turned_a:
            m1 = self._longer_rows(m0, m1, ka, grid.high)
        most = min(ceil(self._l0 / m0), ceil(self._l0 / n0))
        deeper = [d for d in range(k0 + 1, most + 1) if not most % d and not ka % d]
        if deeper:
            k0, kb = deeper[0], max(deeper[0], kb)
        return Tiles(m0, n0, _divisor(kb, k0), m1, n1, ka, kb)

    def _chunks(self, k: int, m1: int, n1: int, *, merged: bool) -> tuple[int, int]:
        """What passes through L1 at a time of A and of B, along k."""
        shape = self._shape
        if merged and (m1 + n1) * k <= self._l1:
            return k, k
        ka, kb = min(k, _EDGE), min(k, _LONG_EDGE // self._k0)
        preferred = self._line * (2 if self._ragged and k >= 2 * self._line else 1)
        if merged:
            fitting = min(_MERGED // n1, k)
            if fitting == k and not fitting % self._k0:
                kb = fitting // ka * ka
        elif shape.turned_b and k >= preferred:
            kb = preferred
        if not shape.turned_a and k >= preferred:
            ka = preferred
        return (ka, kb // ka * ka) if kb > ka else (ka // kb * kb, kb)

    def _edge(self, total: int, parts: int, wanted: int) -> int:
        """Fractals along an edge, so that the last core isn't left without work; 0: none fits."""
        each = ceil(total / parts)
        size = min(each, wanted)
        if parts > 1:
            most = max(each, ceil(total / (parts - 1)) - 1)
            while round_up(each, size) > most:
                size -= 1
        broken = wanted == self._line and size % _EDGE and each >= self._line
        return 0 if broken else size

    def _whole_lines(self, total: int, size: int, parts: int) -> int:
        """A core's part in whole lines, if that leaves every core some work; else 0."""
        if parts == 1:
            return size
        whole = round_up(size, self._line)
        return whole if whole <= max(ceil(total / (parts - 1)) - 1, size) else 0

    def _longer_rows(self, m0: int, m1: int, ka: int, high: int) -> int:
        """More rows of A in L1 where all of k is there."""
        least = max(ceil(self._l0 / ka), m1)
        most = min(2 * least, ceil(self._m / high))
        return next((m for m in range(least, most + 1, m0) if not self._m % m), m1)

    def _depth(self, m0: int, n0: int) -> int:
        """Of k, what divides it and fits into L0."""
        return _divisor(self._k, max(1, self._l0 // max(m0, n0)))

    def _longer(self) -> int:
        """The longer edge of a tile, in fractals."""
        return _LONG_EDGE * 2 // self._shape.dtype.itemsize

    def _fits(self, tiles: Tiles) -> bool:
        table = self._profile.buffers.bias_table_bytes
        row = tiles.n0 * self._profile.cube.fractal_n * FLOAT.itemsize
        if self._shape.has_bias and table is not None and row > table:
            return False
        return (
            tiles.m1 * tiles.ka + tiles.n1 * tiles.kb <= self._l1
            and max(tiles.m0, tiles.n0) * tiles.k0 <= self._l0
            and tiles.m0 * tiles.n0 <= self._l0c
        )

    def _found(self, grid: Grid, tiles: Tiles) -> Found:
        """The tiling with what the cores get after rounding up to whole tiles."""
        rows = min(round_up(ceil(self._m / grid.high), tiles.m1), self._m)
        columns = min(round_up(ceil(self._n / grid.wide), tiles.n1), self._n)
        groups = ceil(self._shape.batch / ceil(self._shape.batch / grid.groups))
        after = Grid(groups, ceil(self._m / rows), ceil(self._n / columns))
        full_a = rows <= tiles.m1 and tiles.ka >= self._k
        full_b = columns <= tiles.n1 and tiles.kb >= self._k
        return Found(after, tiles, rows, columns, full_a, full_b)

    def _spread(self, found: Found) -> float:
        rows = round_up(found.rows, found.tiles.m1) * found.grid.high / self._m
        columns = round_up(found.columns, found.tiles.n1) * found.grid.wide / self._n
        return max(rows, columns)


def _divisor(value: int, most: int) -> int:
    """The greatest divisor of at most ``most``."""
    return next(each for each in range(min(value, most), 0, -1) if not value % each)
