"""The blocks in which a core works on its part of a convolution, and about how long they take."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, inf, prod
from typing import TYPE_CHECKING, NamedTuple

from npusim.library.matmul_tiling import MatmulTiling
from npusim.library.unfolded import plane_rows
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import FLOAT

if TYPE_CHECKING:
    from npusim.hardware.profile import Profile
    from npusim.ops.convolution.geometry import Geometry
    from npusim.values.dtypes import DType

_FRACTALS = (128, 96, 64, 48, 32, 24, 20, 16, 12, 10, 8, 6, 5, 4, 3, 2, 1)  # of an edge of a block
_CHUNKS = 6  # parts of k in L1 that are looked at
_ALIKE = 1.02  # times the least cycles, which no estimate tells apart
_TILES_AHEAD = 4  # tiles on their way into L1, so that none waits for the time of flight


@dataclass(frozen=True, slots=True)
class Job:
    """What decides about a tiling.

    ``steps_out`` are vector instructions on results before they are stored; ``sums`` says that
    results are added up for each channel, too, ``uneven`` that images needn't be shared in equal
    parts, ``dilated`` that planes get zeros between elements. What windows see comes from memory in
    runs of ``gathered_bytes``, where it isn't unfolded in L1.
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
    gathered_bytes: int = 0


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


def part_of(total: int, parts: int, grain: int) -> int:
    """Elements of a part, in whole fractals."""
    return total if parts == 1 else ceil(ceil(total / grain) / parts) * grain


class Blocks(NamedTuple):
    """Blocks that fit, as :class:`MatmulTiling` has them."""

    base_m: int
    base_n: int
    base_k: int
    step_k: int
    keep_a: bool
    keep_b: bool
    depth_c: int
    depth_1: int
    panels: int
    a_bytes: int
    wide: int = 1

    def tiling(self) -> MatmulTiling:
        """The same for the product."""
        return MatmulTiling(**self._asdict())


class _OfBlock(NamedTuple):
    """What blocks of one size have in common: how many there are, and cycles of all of them.

    ``started`` are those of what has to be started for each, ``last`` the way out of one,
    ``slice_bytes`` what one sees of a slice of channels, and ``once_a`` what all rows of blocks see
    of an image.
    """

    tall: int
    broad: int
    a_into_l0: float
    b_into_l0: float
    started: float
    out: float
    last: float
    slice_bytes: int
    once_a: int


class BlockCosts:
    """Cycles of the core with most to do, for a grid and blocks, roughly."""

    def __init__(self, profile: Profile, job: Job, grid: Grid) -> None:
        self._profile, self._job, self.grid = profile, job, grid
        geometry, grain = job.geometry, profile.cube.fractal_m
        self._grain, self._size = grain, job.dtype.itemsize
        self._lanes = profile.buffers.block_bytes // self._size
        self._deep = max(grain, self._lanes)  # of pieces that are turned on their way into L0B
        self._images = ceil(geometry.images / grid.images)
        self._groups = ceil(geometry.groups / grid.columns)
        self._m = min(geometry.positions, part_of(geometry.positions, grid.rows, grain))
        parts = max(1, grid.columns // geometry.groups)
        self._n = part_of(geometry.out_channels, parts, grain)
        self._k = round_up(geometry.depth, self._lanes)
        self._aligned = grid.rows == 1
        kind = "hfloat32" if job.hf32 else job.dtype.intrinsic
        rate = profile.cube.dtypes.get(kind) or profile.cube.dtypes["float16"]
        self._high, self._wide = ceil(self._m / grain), ceil(self._n / grain)
        fractals = self._high * self._wide * ceil(self._k / rate.k_per_fractal)
        self._products = fractals * rate.cycles_per_fractal
        paths = profile.paths
        self._starts = profile.cube.load3d.setup_cycles + paths.l1_to_l0b.setup_cycles
        step = geometry.window.stride[1] * geometry.lanes * self._size
        self._unfolding = profile.load3d_bytes_per_cycle(paths.l1_to_l0a, step)
        self._path, self._mad_start = paths.gm_to_l1, profile.cube.mad_start_cycles
        self._rate = self._a_rate = self._path.bytes_per_cycle
        if job.gathered_bytes:
            line = profile.memory.l2_line_bytes
            self._a_rate *= job.gathered_bytes / round_up(job.gathered_bytes, line)
        shared = grid.images * grid.rows > 1
        self._b_rate = self._rate * (self._path.shared_fraction if shared else 1.0)
        self._hbm = profile.hbm_sustained_gbps * 1e3 / profile.clock_mhz / grid.cores
        given = geometry.images * geometry.slices * prod(geometry.plane) * geometry.lanes
        weights = self._k * geometry.out_channels * geometry.groups
        results = geometry.images * geometry.positions * geometry.out_channels * geometry.groups
        l2_bytes = profile.memory.l2_bytes
        room = (l2_bytes - results * job.out_bytes) / self._size
        self._a_in_l2, self._b_in_l2 = given <= room, weights <= l2_bytes / self._size
        self._b_bytes = self._n * self._k * self._size
        self._results = self._m * self._n * job.out_bytes
        self._b_once = self._b_bytes * (1 / self._images)  # an image, where all of them share it
        self._slices, self._slice = geometry.group_slices, geometry.window.taps * geometry.lanes
        parts_of_k = self._parts_of_k()
        self._chunks = [[(step, self._seen(step)) for step in steps] for steps in parts_of_k]
        self._slice_bytes: dict[int, int] = {}  # of a plane, by rows of a block

    def usual(self) -> float:
        """Cycles with the first blocks that fit."""
        for edges in (_FRACTALS[2:4], _FRACTALS):
            for base in self._bases(edges):
                of_block = self._of_block(base)
                for blocks in self._in_l1(base, of_block):
                    return self._cycles(blocks, of_block)[0]
        return inf

    def best(self, limit: float) -> tuple[float, Blocks | None]:
        """The least cycles below a limit, and their blocks; None where none fits.

        Where memory is what all wait for, those of them that are done first without.
        """
        least, found = limit, list[tuple[float, float, Blocks]]()
        for base in self._bases(_FRACTALS):
            of_block = self._of_block(base)
            if self._least(base, of_block) >= _ALIKE * least:
                continue
            for blocks in self._in_l1(base, of_block):
                cycles, without = self._cycles(blocks, of_block)
                if cycles < limit and cycles < _ALIKE * least:
                    least = min(least, cycles)
                    found.append((cycles, without, blocks))
        alike = [(without, blocks) for cycles, without, blocks in found if cycles <= _ALIKE * least]
        return least, min(alike, default=(inf, None), key=lambda each: each[0])[1]

    def _bases(self, edges: tuple[int, ...]) -> Iterator[tuple[int, int, int]]:
        """Rows, columns and depth of blocks that fit into L0."""
        buffers = self._profile.buffers
        table = buffers.bias_table_bytes if self._job.has_bias else None
        widest = min(self._n, (table or self._n * FLOAT.itemsize) // FLOAT.itemsize)
        results = buffers.l0c_bytes // FLOAT.itemsize
        whole_k = round_up(self._k, self._deep)
        for base_n in self._edges(self._n, edges, widest, self._deep):
            for base_m in self._edges(self._m, edges, results // base_n, self._grain):
                in_l0 = min(buffers.l0a_bytes // base_m, buffers.l0b_bytes // base_n)
                base_k = in_l0 // (2 * self._size) // self._deep * self._deep
                if base_k:
                    yield base_m, base_n, min(whole_k, base_k)

    def _edges(self, total: int, edges: tuple[int, ...], most: int, grain: int) -> list[int]:
        """Edges of blocks that cut a total as evenly as fractals allow, the longest first."""
        whole = ceil(total / grain)
        limits = [each for each in edges if each * grain <= most] or [1]
        return list(dict.fromkeys(ceil(whole / ceil(whole / each)) * grain for each in limits))

    def _in_l1(self, base: tuple[int, int, int], of_block: _OfBlock) -> Iterator[Blocks]:
        """Blocks with what stays in L1, and how much of k passes through it at a time."""
        base_m, base_n, base_k = base
        buffers, slice_bytes = self._profile.buffers, of_block.slice_bytes
        results = buffers.l0c_bytes // FLOAT.itemsize
        depth_c = 2 if 2 * base_m * base_n <= results and not self._job.sums else 1
        room = buffers.l1_bytes
        if self._job.has_bias:
            room -= buffers.bias_table_bytes or 0
        several = of_block.broad * self._groups > 1
        tiles = of_block.tall * self._images > 1
        whole_b = base_n * round_up(self._k, base_k) * self._size
        whole_a = self._seen(self._k) * slice_bytes
        if 2 * whole_a + whole_b <= room:
            yield self._both(base, depth_c, of_block.broad, (whole_a, whole_b), room)
        for chunks in self._chunks:
            fitting = 0
            for step, seen in chunks:
                of_a, of_b = seen * slice_bytes, base_n * step * self._size
                if panels := self._panels(several, whole_b, room - 2 * of_a):
                    depth = self._depth(room - whole_b * panels, of_a)
                    yield Blocks(*base, step, False, True, depth_c, depth, panels, of_a)
                if panels := self._panels(tiles, whole_a, room - 2 * of_b):
                    depth = self._depth(room - whole_a * panels, of_b)
                    yield Blocks(*base, step, True, False, depth_c, depth, panels, whole_a)
                if 2 * (of_a + of_b) <= room:
                    depth = self._depth(room, of_a + of_b)
                    yield Blocks(*base, step, False, False, depth_c, depth, 2, of_a)
                    fitting += 1
            if fitting:
                return
            if of_a + of_b <= room:  # a tile at a time, rather than the same rows for every tap
                yield Blocks(*base, step, False, False, depth_c, 1, 2, of_a)

    def _both(
        self,
        base: tuple[int, int, int],
        depth_c: int,
        broad: int,
        whole: tuple[int, int],
        room: int,
    ) -> Blocks:
        """All of k of both in L1: as many columns of blocks as there is room for, twice if need be.

        Source: TBE, conv2d: tiles in L1 are several blocks of L0 wide (multi_n of BL1), so that
        positions are loaded once for all of them.
        """
        of_a, of_b = whole
        panels, most = 1, (room - 2 * of_a) // of_b
        if most < broad * self._groups and most > 1:
            panels, most = 2, most // 2
        wide = ceil(broad / ceil(broad / min(broad, most)))
        step = round_up(self._k, base[2])
        return Blocks(*base, step, True, True, depth_c, 2, panels, of_a, wide)

    @staticmethod
    def _panels(several: bool, panel: int, room: int) -> int:
        """Panels that L1 holds: two where there are several, else the next one waits; none, maybe.

        Source: ops-nn, conv/conv3d_v2: an operand that is loaded in full may have a single buffer.
        """
        if several and 2 * panel <= room:
            return 2
        return 1 if panel <= room else 0

    def _depth(self, room: int, of_tile: int) -> int:
        """Tiles that L1 has room for beside each other, as many as are of use."""
        return max(2, min(_TILES_AHEAD, room // of_tile))

    def _parts_of_k(self) -> Iterator[list[int]]:
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

    def _seen(self, step: int) -> int:
        """Slices of channels that a part of k sees."""
        return min(-(-step // self._slice), self._slices)

    def _slice_of(self, base_m: int) -> int:
        """Bytes of the rows that a block sees of the planes of a slice of channels."""
        geometry = self._job.geometry
        window, lanes = geometry.window, geometry.lanes
        if window.is_point and not self._job.dilated:
            return base_m * lanes * self._size
        rows = plane_rows(
            window, geometry.plane, geometry.out_plane, min(base_m, self._m), aligned=self._aligned
        )
        return rows * geometry.plane[1] * lanes * self._size

    def _of_block(self, base: tuple[int, int, int]) -> _OfBlock:
        """What is known of blocks whatever part of k is in L1."""
        base_m, base_n, _ = base
        slice_bytes = self._slice_bytes.get(base_m)
        if slice_bytes is None:
            slice_bytes = self._slice_bytes[base_m] = self._slice_of(base_m)
        paths = self._profile.paths
        tall, broad = ceil(self._m / base_m), ceil(self._n / base_n)
        fractal = self._grain * self._k * self._size
        return _OfBlock(
            tall,
            broad,
            broad * self._high * fractal / self._unfolding,
            tall * self._wide * fractal / paths.l1_to_l0b.bytes_per_cycle,
            2 * paths.l1_to_l0a.setup_cycles * tall * broad,
            self._out(self._high * self._wide, tall * broad),
            self._out(base_m * base_n // self._grain**2, 1),
            slice_bytes,
            tall * self._seen(self._k) * slice_bytes,
        )

    def _in_l0(self, of_block: _OfBlock, parts: int) -> tuple[float, float]:
        """Cycles of the cube and of loading L0, with so many parts of k for each block."""
        pieces = of_block.tall * of_block.broad * parts
        into_l0 = pieces * self._starts + of_block.a_into_l0 + of_block.b_into_l0
        products = self._products + pieces * self._mad_start
        return products, into_l0 + of_block.started

    def _least(self, base: tuple[int, int, int], of_block: _OfBlock) -> float:
        """Cycles that blocks take at least, whatever is in L1."""
        busiest = max(*self._in_l0(of_block, -(-self._k // base[2])), of_block.out)
        return self._images * self._groups * busiest

    def _cycles(self, blocks: Blocks, of_block: _OfBlock) -> tuple[float, float]:
        """The busiest pipe, and what comes before and after it; also where memory is no limit."""
        _, base_n, base_k, step_k, keep_a, keep_b, depth_c, depth_1, panels, a_bytes, wide = blocks
        tall, broad, out = of_block.tall, of_block.broad, of_block.out
        chunks, columns = -(-self._k // step_k), -(-broad // wide)
        products, into_l0 = self._in_l0(of_block, chunks * -(-min(step_k, self._k) // base_k))
        of_tiles = tall * a_bytes * (1 if keep_a else chunks)
        of_a = of_tiles if keep_a and not keep_b else of_tiles * columns
        of_b = self._b_once if keep_b else self._b_bytes * tall
        loads = of_a / self._a_rate + of_b / self._b_rate
        tiles = chunks * tall * columns
        flights = tiles * (self._path.latency_cycles / depth_1)
        loads = max(loads + 2 * tiles * self._path.setup_cycles, flights + loads / 2)
        overlap = max(products, into_l0, loads, out)
        if self._job.dilated:
            overlap = max(overlap, self._made(of_a, tall if keep_a else tiles))
        if depth_1 == 1:
            overlap = max(out, loads + max(products, into_l0))
        if panels == 1:  # which nothing is loaded beside, where another one follows
            if keep_b and broad * self._groups > wide:
                overlap += self._b_bytes / self._rate / self._images
            elif keep_a and not keep_b and tall * self._images > 1:
                overlap += of_tiles / self._a_rate
        if depth_c == 1:
            overlap = max(overlap, products + out)
        step_b = base_n * (self._k if keep_b else step_k) * self._size
        around = a_bytes / self._a_rate + step_b / self._rate + of_block.last
        # What L2 has no room for comes from memory again.
        read_a = of_block.once_a if self._a_in_l2 else of_a
        read_b = min(of_b, self._b_bytes) if self._b_in_l2 else of_b
        memory = (read_a + read_b + self._results) / self._hbm
        turns = self._images * self._groups
        return turns * max(overlap, memory) + around, turns * overlap + around

    def _made(self, nbytes: float, tiles: int) -> float:
        """Cycles of tiles of planes that get zeros between their elements, one after the other."""
        paths, vector = self._profile.paths, self._profile.vector
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
