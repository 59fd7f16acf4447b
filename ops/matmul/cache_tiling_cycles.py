"""What the vendor's search for GEMM tilings takes them to cost, in cycles of a core.

Loads, fills of L0 and products of a chunk; what is loaded once and what again and again follows
from what L1 holds. Source: cann-ops, op_tiling/gemm/estimate/cache_tiling_cycle_model.cc and
cache_tiling_cycle_est.cc.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, NamedTuple

from npusim.values.dtypes import FLOAT

if TYPE_CHECKING:
    from npusim.hardware.profile import Profile
    from npusim.ops.matmul.shapes import Shape


class Grid(NamedTuple):
    """Cores along the batch, the rows and the columns."""

    groups: int
    high: int
    wide: int


class Tiles(NamedTuple):
    """Fractals along m, n and k in L0, along m and n in L1, and along k in L1 of A and of B."""

    m0: int
    n0: int
    k0: int
    m1: int
    n1: int
    ka: int
    kb: int


class Found(NamedTuple):
    """A tiling; ``full_a`` and ``full_b`` say that L1 holds all that a core needs of them."""

    grid: Grid
    tiles: Tiles
    rows: int
    columns: int
    full_a: bool
    full_b: bool


class CycleModel:
    """Tilings of one product on one chip, compared. Sizes in fractals."""

    def __init__(self, profile: Profile, shape: Shape) -> None:
        self._profile, self._shape = profile, shape
        cube = profile.cube
        self._wide = shape.dtype is FLOAT
        self._m, self._n = ceil(shape.m / cube.fractal_m), ceil(shape.n / cube.fractal_n)
        self._k = ceil(shape.k / (profile.buffers.block_bytes // shape.dtype.itemsize))
        self._l0c = profile.buffers.l0c_bytes // (cube.fractal_m * cube.fractal_n * FLOAT.itemsize)

    def rank(self, found: Found) -> tuple[float, ...]:
        """Cycles, then what decides among tilings of equal cycles."""
        tiles, grid = found.tiles, found.grid
        results = tiles.m0 * tiles.n0
        results *= 2 if 2 * results <= self._l0c else 1
        again = grid.wide * found.rows + grid.high * found.columns
        cycles = self._cycles(found) * ceil(self._shape.batch / grid.groups)
        loads = self._loaded(found)
        return cycles, tiles.m0 * tiles.n0 * tiles.k0, loads, -results, again

    def _cycles(self, found: Found) -> float:
        """Cycles of one product of a core."""
        tiles, k = found.tiles, self._k
        load_a, load_b, step = self._load_a(tiles), self._load_b(tiles), self._step(tiles)
        tall, broad = ceil(found.rows / tiles.m0), ceil(found.columns / tiles.n0)
        all_a, all_b = tiles.ka >= k, tiles.kb >= k
        steps = ceil(k / tiles.k0)
        if found.full_a and found.full_b:
            cycles = load_a + load_b + tall * broad * steps * step
        elif found.full_a:
            cycles = load_a + self._streamed(found, tiles.kb, load_b, step, all_b, found.full_a)
        elif found.full_b:
            cycles = load_b + self._streamed(found, tiles.ka, load_a, step, all_a, found.full_a)
        elif all_a and all_b:
            panels = ceil(found.rows / tiles.m1)
            each = load_b + ceil(tiles.n1 / tiles.n0) * steps * step
            each *= ceil(found.columns / tiles.n1) * ceil(tiles.m1 / tiles.m0)
            cycles = panels * (load_a + each)
        elif all_a or all_b:
            chunk, fixed, moving = (
                (tiles.kb, load_a, load_b) if all_a else (tiles.ka, load_b, load_a)
            )
            each = ceil(k / chunk) * max(moving, ceil(chunk / tiles.k0) * step)
            panels = ceil(found.rows / tiles.m1) if all_a else ceil(found.columns / tiles.n1)
            cycles = panels * fixed + tall * broad * each
        else:
            cycles = tall * broad * self._alternating(tiles, load_a, load_b, step)
        return cycles + self._leaving(found)

    def _streamed(
        self, found: Found, chunk: int, load: float, step: float, whole: bool, beside_a: bool
    ) -> float:
        """Cycles of an operand that passes by another one that is in L1."""
        tiles, k = found.tiles, self._k
        tall, broad = ceil(found.rows / tiles.m0), ceil(found.columns / tiles.n0)
        if not whole:
            each = max(load, ceil(chunk / tiles.k0) * step)
            return tall * broad * ceil(k / chunk) * each
        panels = ceil(found.columns / tiles.n1) if beside_a else ceil(found.rows / tiles.m1)
        return panels * load + tall * broad * ceil(k / tiles.k0) * step

    def _alternating(self, tiles: Tiles, load_a: float, load_b: float, step: float) -> float:
        """Cycles of a block of results when chunks of both operands come and go."""
        if tiles.ka == tiles.kb:
            each = max(load_a + load_b, ceil(tiles.ka / tiles.k0) * step)
            return ceil(self._k / tiles.ka) * each
        short, long = sorted((tiles.ka, tiles.kb))
        first, then = (load_a, load_b) if tiles.ka > tiles.kb else (load_b, load_a)
        each = ceil(long / short) * max(then, ceil(short / tiles.k0) * step)
        return ceil(self._k / long) * (first + each)

    def _step(self, tiles: Tiles) -> float:
        """Cycles of a product in L0, or of filling it."""
        paths, block = self._profile.paths, self._profile.buffers.block_bytes
        fractal = self._profile.cube.fractal_m * block
        slower = 2 if self._wide and not self._shape.hf32 else 1
        into_a = tiles.m0 * tiles.k0 * fractal / paths.l1_to_l0a.bytes_per_cycle
        into_b = tiles.n0 * tiles.k0 * fractal / paths.l1_to_l0b.bytes_per_cycle
        head = paths.l1_to_l0a.setup_cycles
        return max(tiles.m0 * tiles.n0 * tiles.k0 * slower, into_a + head, into_b + head)

    def _load_a(self, tiles: Tiles) -> float:
        shape = self._shape
        along, across = (tiles.m1, tiles.ka) if shape.turned_a else (tiles.ka, tiles.m1)
        inner = self._m if shape.turned_a else self._k
        return self._load(along, across, inner, shape.in_fractals)

    def _load_b(self, tiles: Tiles) -> float:
        shape = self._shape
        along, across = (tiles.kb, tiles.n1) if shape.turned_b else (tiles.n1, tiles.kb)
        inner = self._k if shape.turned_b else self._n
        return self._load(along, across, inner, shape.b_in_fractals)

    def _load(self, along: int, across: int, inner: int, fractals: bool) -> float:
        """Cycles of a load into L1, of rows that run ``along`` or of whole fractals.

        Rows are cut into packets of 512, 256 and 128 bytes, each of which takes a line's time.
        """
        cube, software = self._profile.cube, self._profile.software
        size = self._shape.dtype.itemsize
        row, rows = along * cube.fractal_n * size, across * cube.fractal_m
        if fractals:
            row, rows = across * cube.fractal_m * cube.fractal_n * size, along
        elif 4 // size <= along <= 16 // size and inner == along:
            row, rows = row * rows, 1
        rate = software.matmul_load_bytes_per_cycle
        assert rate is not None
        line = self._profile.memory.l2_line_bytes
        packets, rest = 0, row
        for packet in (line, line // 2, line // 4):
            packets, rest = packets + rest // packet, rest % packet
        packets += rest > 0
        return rows * packets * line / rate + software.matmul_load_setup_cycles

    def _leaving(self, found: Found) -> float:
        """Cycles in which results leave L0C; only batches of products take note of them."""
        if self._shape.batch == 1:
            return 0.0
        cube = self._profile.cube
        blocks = ceil(found.rows / found.tiles.m0) * ceil(found.columns / found.tiles.n0)
        size = found.tiles.m0 * found.tiles.n0 * cube.fractal_m * cube.fractal_n * FLOAT.itemsize
        return blocks * size / (cube.l0c_read_bytes_per_cycle or 1)

    def _loaded(self, found: Found) -> float:
        """Fractals that a core loads."""
        tiles, k = found.tiles, self._k
        of_a, of_b = found.rows * k, found.columns * k
        tall, broad = found.rows // tiles.m0, found.columns // tiles.n0
        if found.full_a and found.full_b:
            return of_a + of_b
        if found.full_b or (tiles.kb >= k and not found.full_a and tiles.ka < k):
            return of_a * broad + of_b
        if found.full_a or tiles.ka >= k:
            return of_a + of_b * tall
        return of_a * broad + of_b * tall
