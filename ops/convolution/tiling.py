"""How a convolution is cut: images, output channels and positions for the cores, blocks for each.

Cores share the images in equal parts first, then blocks of output channels in equal parts, then
positions. Sources: profiled block counts of the first generation and of A2, where 32 and 64 images
are shared by 16 cores, of 24 and of 30; ops-nn, conv/conv3d_v2 (axes that are split, what stays in
L1, ping-pong of L0); TBE, conv2d (whole slices of channels in L1).

Where results are summed up, more images than cores may have unequal parts, and one that has more
positions than L0A takes at a time may be parted too; while a block is summed up, the cube waits
(convolutions with BNTrainingReduce take as long as products and sums one after the other). Of the
blocks that fit into the memories those are taken with which the busiest pipe is busy for the
shortest time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from math import ceil, inf
from typing import TYPE_CHECKING, NamedTuple

from npusim.library.matmul_tiling import MatmulTiling
from npusim.library.unfolded import plane_rows
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import FLOAT, DType
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from npusim.hardware.profile import Profile
    from npusim.ops.convolution.geometry import Geometry

_FRACTALS = (128, 96, 64, 48, 32, 24, 20, 16, 12, 10, 8, 6, 5, 4, 3, 2, 1)  # of an edge of a block
_CHUNKS = 6  # parts of k in L1 that are looked at
_TILES_AHEAD = 4  # tiles on their way into L1, so that none waits for the time of flight
_SHORTLIST = 3  # grids that are looked at with every block


@dataclass(frozen=True, slots=True)
class Job:
    """What decides about a tiling.

    ``steps_out`` are vector instructions on results before they are stored; ``sums`` says that
    results are added up for each channel, too, ``uneven`` that images needn't be shared in equal
    parts, ``dilated`` that planes get zeros between elements.
    """

    geometry: Geometry
    dtype: DType
    out_bytes: int
    hf32: bool = False
    has_bias: bool = False
    steps_out: float = 0
    sums: bool = False
    uneven: bool = False
    dilated: bool = False


class Share(NamedTuple):
    """What a core does: images, output channels of packed groups, and positions."""

    image: int
    images: int
    group: int
    column: int
    columns: int
    row: int
    rows: int


@dataclass(frozen=True, slots=True)
class Grid:
    """Parts of the images, of all groups' output channels, and of the positions of an image."""

    images: int
    columns: int
    rows: int

    @property
    def cores(self) -> int:
        """Cores that have a part."""
        return self.images * self.columns * self.rows


@dataclass(frozen=True, slots=True)
class Tiling:
    """A grid, and the blocks that a core works in."""

    job: Job
    grid: Grid
    blocks: MatmulTiling
    grain: int

    @property
    def block_dim(self) -> int:
        """Cores in use."""
        return self.grid.cores

    def shares(self, core: int) -> list[Share]:
        """What a core does, a packed group after the other."""
        geometry, grid = self.job.geometry, self.grid
        rest, part = divmod(core, grid.rows)
        image, column = divmod(rest, grid.columns)
        each, more = divmod(geometry.images, grid.images)
        first, images = image * each + min(image, more), each + (image < more)
        high = _part_of(geometry.positions, grid.rows, self.grain)
        row = part * high
        rows = min(high, geometry.positions - row)
        groups = max(1, geometry.groups // grid.columns)
        if geometry.groups >= grid.columns:
            chosen = range(column * groups, min(geometry.groups, (column + 1) * groups))
            return [
                Share(first, images, group, 0, geometry.out_channels, row, rows)
                for group in chosen
                if rows > 0
            ]
        group, place = divmod(column * geometry.groups, grid.columns)
        wide = _part_of(geometry.out_channels, grid.columns // geometry.groups, self.grain)
        begin = place // geometry.groups * wide
        columns = min(wide, geometry.out_channels - begin)
        if rows <= 0 or columns <= 0:
            return []
        return [Share(first, images, group, begin, columns, row, rows)]


@lru_cache(maxsize=4096)
def tiling_of(profile: Profile, job: Job) -> Tiling:
    """The tiling of a convolution on a chip."""
    grain = profile.cube.fractal_m
    costs = [_Costs(profile, job, grid) for grid in _grids(profile, job)]
    ranked = sorted(costs, key=_Costs.usual)[:_SHORTLIST]
    found = [(each.best(), each.grid) for each in ranked]
    (_, blocks), grid = min(found, key=lambda each: each[0][0])
    if blocks is None:
        rows, columns = job.geometry.plane
        problem = f"what windows see of planes of {rows} x {columns} doesn't fit into L1"
        raise KernelError("Conv2D", problem)
    return Tiling(job, grid, blocks, grain)


def _grids(profile: Profile, job: Job) -> Iterator[Grid]:
    """As many parts of the images as there are cores for; then of the rest what fits."""
    geometry, cores, grain = job.geometry, profile.cores.cube_cores, profile.cube.fractal_m
    high = ceil(geometry.positions / grain)
    longest = profile.buffers.l0a_bytes // (2 * grain * profile.buffers.block_bytes)
    images = _most_parts(geometry.images, cores)
    if job.uneven:
        images = ceil(geometry.images / ceil(geometry.images / cores))
    if job.sums and geometry.images > cores:
        fewest = ceil(geometry.images / cores)  # images of a part
        most = min(geometry.images, 4 * fewest)
        for images in sorted({ceil(geometry.images / each) for each in range(fewest, most + 1)}):
            yield Grid(images, 1, min(max(1, high // longest), cores // images))
        return
    blocks = geometry.groups * ceil(geometry.out_channels / grain)
    for columns in range(1, cores // images + 1):
        if blocks % columns or (geometry.groups % columns and columns % geometry.groups):
            continue
        rows = min(high, cores // images // columns)
        yield Grid(images, columns, ceil(high / ceil(high / rows)))


def _most_parts(total: int, most: int) -> int:
    """The greatest number of equal parts up to ``most``."""
    return max(each for each in range(1, min(total, most) + 1) if total % each == 0)


def _part_of(total: int, parts: int, grain: int) -> int:
    """Elements of a part, in whole fractals."""
    return total if parts == 1 else ceil(ceil(total / grain) / parts) * grain


class _Costs:
    """Cycles of the core with most to do, for a grid and blocks, roughly."""

    def __init__(self, profile: Profile, job: Job, grid: Grid) -> None:
        self._profile, self._job, self.grid = profile, job, grid
        geometry, grain = job.geometry, profile.cube.fractal_m
        self._grain, self._size = grain, job.dtype.itemsize
        self._lanes = profile.buffers.block_bytes // self._size
        self._deep = max(grain, self._lanes)  # of pieces that are turned on their way into L0B
        self._images = ceil(geometry.images / grid.images)
        self._groups = ceil(geometry.groups / grid.columns)
        self._m = min(geometry.positions, _part_of(geometry.positions, grid.rows, grain))
        parts = max(1, grid.columns // geometry.groups)
        self._n = _part_of(geometry.out_channels, parts, grain)
        self._k = round_up(geometry.depth, self._lanes)
        self._aligned = grid.rows == 1
        self._shared = grid.images * grid.rows > 1
        kind = "hfloat32" if job.hf32 else job.dtype.intrinsic
        self._rate = profile.cube.dtypes.get(kind) or profile.cube.dtypes["float16"]
        self._steps = ceil(self._k / self._rate.k_per_fractal)

    def usual(self) -> float:
        """Cycles with the first blocks that fit."""
        some = (blocks for edges in (_FRACTALS[2:4], _FRACTALS) for blocks in self._fitting(edges))
        return min(map(self._cycles, islice(some, 1)), default=inf)

    def best(self) -> tuple[float, MatmulTiling | None]:
        """The least cycles, and their blocks; None where none fits."""
        found = [(self._cycles(blocks), blocks) for blocks in self._fitting(_FRACTALS)]
        return min(found, key=lambda each: each[0], default=(inf, None))

    def _fitting(self, edges: tuple[int, ...]) -> Iterator[MatmulTiling]:
        """Blocks that fit into L0 and L1, with as much of k as fits."""
        buffers = self._profile.buffers
        table = buffers.bias_table_bytes if self._job.has_bias else None
        widest = min(self._n, (table or self._n * FLOAT.itemsize) // FLOAT.itemsize)
        results = buffers.l0c_bytes // FLOAT.itemsize
        for base_n in self._edges(self._n, edges, widest, self._deep):
            for base_m in self._edges(self._m, edges, results // base_n, self._grain):
                in_l0 = min(buffers.l0a_bytes // base_m, buffers.l0b_bytes // base_n)
                base_k = in_l0 // (2 * self._size) // self._deep * self._deep
                if not base_k:
                    continue
                depth_c = 2 if 2 * base_m * base_n <= results and not self._job.sums else 1
                base = base_m, base_n, min(round_up(self._k, self._deep), base_k)
                yield from self._in_l1(base, depth_c)

    def _edges(self, total: int, edges: tuple[int, ...], most: int, grain: int) -> list[int]:
        """Edges of blocks that cut a total as evenly as fractals allow, the longest first."""
        whole = ceil(total / grain)
        limits = [each for each in edges if each * grain <= most] or [1]
        return list(dict.fromkeys(ceil(whole / ceil(whole / each)) * grain for each in limits))

    def _in_l1(self, base: tuple[int, int, int], depth_c: int) -> Iterator[MatmulTiling]:
        """What stays in L1, and how much of k passes through it at a time."""
        base_m, base_n, base_k = base
        room = self._profile.buffers.l1_bytes
        if self._job.has_bias:
            room -= self._profile.buffers.bias_table_bytes or 0
        several = ceil(self._n / base_n) * self._groups > 1
        tiles = ceil(self._m / base_m) * self._images > 1
        whole_b = base_n * round_up(self._k, base_k) * self._size
        whole_a = self._a_bytes(base_m, self._k)
        for chunks in self._chunks():
            fitting = 0
            for step in chunks:
                of_a, of_b = self._a_bytes(base_m, step), base_n * step * self._size
                if panels := self._panels(several, whole_b, room - 2 * of_a):
                    depth = self._depth(room - whole_b * panels, of_a)
                    yield MatmulTiling(
                        *base, step, False, True, depth_c, depth, panels=panels, a_bytes=of_a
                    )
                if panels := self._panels(tiles, whole_a, room - 2 * of_b):
                    depth = self._depth(room - whole_a * panels, of_b)
                    yield MatmulTiling(
                        *base, step, True, False, depth_c, depth, panels=panels, a_bytes=whole_a
                    )
                if 2 * (of_a + of_b) <= room:
                    depth = self._depth(room, of_a + of_b)
                    yield MatmulTiling(*base, step, False, False, depth_c, depth, a_bytes=of_a)
                    fitting += 1
            if fitting:
                return
            if of_a + of_b <= room:  # a tile at a time, rather than the same rows for every tap
                yield MatmulTiling(*base, step, False, False, depth_c, 1, a_bytes=of_a)

    @staticmethod
    def _panels(several: bool, panel: int, room: int) -> int:
        """Panels that L1 holds: two where there are several, else the next one waits; none, maybe.

        Source: ops-nn, conv/conv3d_v2: an operand that is loaded in full may have a single buffer.
        """
        return next((each for each in (2, 1)[not several :] if each * panel <= room), 0)

    def _depth(self, room: int, of_tile: int) -> int:
        """Tiles that L1 has room for beside each other, as many as are of use."""
        return max(2, min(_TILES_AHEAD, room // of_tile))

    def _chunks(self) -> Iterator[list[int]]:
        """Parts of k to choose from: whole slices of channels, rows of taps, single taps."""
        geometry = self._job.geometry
        if geometry.lanes < self._lanes:
            yield [self._k]
            return
        (rows, columns), slices = geometry.window.kernel, geometry.group_slices
        counts = sorted({ceil(slices / parts) for parts in range(1, slices + 1)}, reverse=True)
        tap = geometry.lanes
        yield [tap * rows * columns * each for each in counts[:: max(1, len(counts) // _CHUNKS)]]
        yield [tap * columns * each for each in range(rows - 1, 0, -1) if rows % each == 0]
        yield [tap]

    def _a_bytes(self, base_m: int, step: int) -> int:
        """Bytes of the rows of planes that a block and a part of k see."""
        geometry = self._job.geometry
        window, lanes = geometry.window, geometry.lanes
        slices = min(ceil(step / (window.taps * lanes)), geometry.group_slices)
        if window.is_point and not self._job.dilated:
            return base_m * slices * lanes * self._size
        rows = plane_rows(
            window, geometry.plane, geometry.out_plane, min(base_m, self._m), aligned=self._aligned
        )
        return slices * rows * geometry.plane[1] * lanes * self._size

    def _cycles(self, blocks: MatmulTiling) -> float:
        """The busiest pipe, and what comes before and after it."""
        profile, cube, paths = self._profile, self._profile.cube, self._profile.paths
        tall, broad = ceil(self._m / blocks.base_m), ceil(self._n / blocks.base_n)
        turns = self._images * self._groups
        high, wide = ceil(self._m / self._grain), ceil(self._n / self._grain)
        chunks = ceil(self._k / blocks.step_k)
        parts = chunks * ceil(min(blocks.step_k, self._k) / blocks.base_k)
        products = high * wide * self._steps * self._rate.cycles_per_fractal
        products += tall * broad * parts * cube.mad_start_cycles
        fractal = self._grain * self._k * self._size
        into_l0 = tall * broad * parts * (cube.load3d.setup_cycles + paths.l1_to_l0b.setup_cycles)
        into_l0 += broad * high * fractal / paths.l1_to_l0a.bytes_per_cycle
        into_l0 += tall * wide * fractal / paths.l1_to_l0b.bytes_per_cycle
        into_l0 += 2 * paths.l1_to_l0a.setup_cycles * tall * broad
        whole_a = tall * chunks * self._a_bytes(blocks.base_m, blocks.step_k)
        if blocks.keep_a:
            whole_a = tall * blocks.a_bytes
        whole_b = self._n * self._k * self._size
        of_a = whole_a * (1 if blocks.keep_a else broad)
        of_b = whole_b * (1 / self._images if blocks.keep_b else tall)
        rate, shared = paths.gm_to_l1.bytes_per_cycle, paths.gm_to_l1.shared_fraction
        loads = of_a / rate + of_b / (rate * (shared if self._shared else 1.0))
        chunks *= tall * broad
        flight = paths.gm_to_l1.latency_cycles / blocks.depth_1
        loads = max(loads + 2 * chunks * paths.gm_to_l1.setup_cycles, chunks * flight + loads / 2)
        out = self._out(high * wide, tall * broad)
        first = (min(blocks.a_bytes, whole_a) + blocks.base_n * blocks.step_k * self._size) / rate
        if blocks.keep_b:
            first = blocks.a_bytes / rate + blocks.base_n * self._k * self._size / rate
        last = self._out(blocks.base_m * blocks.base_n // self._grain**2, 1)
        made = self._made(of_a, tall if blocks.keep_a else chunks)
        overlap = max(products, into_l0, loads, out, made)
        if blocks.depth_1 == 1:
            overlap = max(out, loads + max(products, into_l0))
        overlap += self._waits(blocks, whole_a, whole_b, rate)
        if blocks.depth_c == 1 and profile.paths.l0c_to_gm is None:
            overlap = max(overlap, products + out)
        return turns * overlap + first + last

    def _waits(self, blocks: MatmulTiling, of_a: float, of_b: float, rate: float) -> float:
        """Cycles a turn in which nothing else goes on, as L1 has room for one panel only."""
        tall, broad = ceil(self._m / blocks.base_m), ceil(self._n / blocks.base_n)
        if blocks.panels > 1 or not (blocks.keep_a or blocks.keep_b):
            return 0
        if blocks.keep_a:
            return of_a / rate if tall * self._images > 1 else 0
        return of_b / rate / self._images if broad * self._groups > 1 else 0

    def _made(self, nbytes: float, tiles: int) -> float:
        """Cycles of tiles of planes that get zeros between their elements, one after the other."""
        paths, vector = self._profile.paths, self._profile.vector
        if not self._job.dilated:
            return 0
        each = paths.gm_to_l1.latency_cycles + paths.gm_to_l1.setup_cycles
        if paths.ub_to_l1 is None:
            return nbytes / paths.gm_to_l1.bytes_per_cycle + tiles * each
        move = nbytes / paths.ub_to_l1.bytes_per_cycle + 2 * nbytes / vector.repeat_bytes
        return move + tiles * (each + paths.ub_to_l1.setup_cycles)

    def _out(self, fractals: int, blocks: int) -> float:
        """Cycles of so many fractals of results on their way out, in so many blocks.

        UB has two of them: one is filled while the other leaves and, for a while, isn't free yet.
        """
        profile, elements = self._profile, fractals * self._grain**2
        paths = profile.paths
        if paths.l0c_to_gm is not None:
            return elements * self._job.out_bytes / paths.l0c_to_gm.bytes_per_cycle
        read, write = paths.l0c_to_ub or paths.ub_to_gm, paths.ub_to_gm
        repeats = elements * FLOAT.itemsize / profile.vector.repeat_bytes
        vector = elements * FLOAT.itemsize / read.bytes_per_cycle + self._job.steps_out * repeats
        store = elements * self._job.out_bytes / write.bytes_per_cycle
        return max(vector, store, (vector + store + blocks * write.latency_cycles) / 2)
