"""The blocks in which a core works on its part of a convolution, and about how long they take.

All of them are looked at together: arrays have a row for every size of blocks, and a column for
every way of the operands through L1.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from math import ceil, inf, prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from npusim.library.matmul_tiling import MatmulTiling
from npusim.ops.convolution.block_sizes import Sizes
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import FLOAT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.hardware.profile import Profile
    from npusim.ops.convolution.block_sizes import Grid, Job

_CHUNKS = 6  # parts of k in L1 that are looked at
_ALIKE = 1.02  # times the least cycles, which no estimate tells apart
_KEPT = (False, True), (True, False), (False, False)  # of both operands, in L1
_TILES_AHEAD = 4  # tiles on their way into L1, so that none waits for the time of flight


class _Ways(NamedTuple):
    """Ways of the operands through L1.

    So much of k at a time, the slices of channels that it sees, which operands stay, all of
    ``both`` in the first way, and whether there is one tile at a time, ``alone``. ``ends`` are
    behind those of each kind of steps: where some of a kind fit, the next aren't looked at.
    """

    step: NDArray[Any]
    seen: NDArray[Any]
    keep_a: NDArray[Any]
    keep_b: NDArray[Any]
    both: NDArray[Any]
    only_a: NDArray[Any]
    alone: NDArray[Any]
    ends: list[int]


class _InL1(NamedTuple):
    """Which blocks fit, and what :class:`MatmulTiling` says of them."""

    fits: NDArray[Any]
    depth_1: NDArray[Any]
    panels: NDArray[Any]
    a_bytes: NDArray[Any]
    wide: NDArray[Any]


class BlockCosts:
    """Cycles of the core with most to do, for grids and blocks, roughly."""

    def __init__(self, profile: Profile, job: Job, grids: list[Grid]) -> None:
        self._profile, self._job = profile, job
        geometry, grain = job.geometry, profile.cube.fractal_m
        self._grain, self._size = grain, job.dtype.itemsize
        self._lanes = profile.buffers.block_bytes // self._size
        self._k = round_up(geometry.depth, self._lanes)
        step = geometry.window.stride[1] * geometry.lanes * self._size
        self._unfolding = profile.load3d_bytes_per_cycle(profile.paths.l1_to_l0a, step)
        self._path = profile.paths.gm_to_l1
        self._rate = self._a_rate = self._path.bytes_per_cycle
        if job.gathered_bytes:
            line = profile.memory.l2_line_bytes
            self._a_rate *= job.gathered_bytes / round_up(job.gathered_bytes, line)
        given = geometry.images * geometry.slices * prod(geometry.plane) * geometry.lanes
        weights = self._k * geometry.out_channels * geometry.groups
        results = geometry.images * geometry.positions * geometry.out_channels * geometry.groups
        l2_bytes = profile.memory.l2_bytes
        room = (l2_bytes - results * job.out_bytes) / self._size
        self._a_in_l2, self._b_in_l2 = given <= room, weights <= l2_bytes / self._size
        self._sizes = Sizes.of(profile, job, grids)
        self._whole_a = self._sizes.slice_bytes * self._seen(self._k)

    def usual(self, place: int) -> float:
        """Cycles with the first blocks of a grid that fit."""
        mine, cycles = self._sizes.place == place, self._cycles[0]
        for rows in (mine & self._sizes.usual[:, 0], mine):
            chosen = cycles[rows]
            if (fits := chosen < inf).any():
                return float(chosen[fits][0])
        return inf

    def best(self, place: int, limit: float) -> tuple[float, MatmulTiling | None]:
        """The least cycles of a grid below a limit, and their blocks; None where none fits.

        Where memory is what all wait for, those of them that are done first without.
        """
        cycles, without = self._cycles
        cycles = np.where(self._sizes.place[:, None] == place, cycles, inf)
        least = min(limit, float(cycles.min(initial=inf)))
        alike = (cycles < limit) & (cycles <= _ALIKE * least)
        if not alike.any():
            return limit, None
        row, way = divmod(int(np.where(alike, without, inf).argmin()), alike.shape[1])
        return least, self._tiling(row, way)

    def _tiling(self, row: int, way: int) -> MatmulTiling:
        """The blocks of a size that take a way."""
        sizes, ways = self._sizes, self._ways
        base_m, base_n, base_k = (
            int(each[row, 0]) for each in (sizes.base_m, sizes.base_n, sizes.base_k)
        )
        depth_1, panels, a_bytes, wide = (int(each[row, way]) for each in self._in_l1[1:])
        return MatmulTiling(
            base_m,
            base_n,
            base_k,
            round_up(self._k, base_k) if ways.both[way] else int(ways.step[way]),
            keep_a=bool(ways.keep_a[way]),
            keep_b=bool(ways.keep_b[way]),
            depth_c=2 if self._has_two(base_m, base_n) else 1,
            depth_1=depth_1,
            panels=panels,
            a_bytes=a_bytes,
            wide=wide,
        )

    def _has_two(self, base_m: Any, base_n: Any) -> Any:
        """Whether L0C has room for two blocks of results."""
        fits = 2 * base_m * base_n <= self._profile.buffers.l0c_bytes // FLOAT.itemsize
        return fits & (not self._job.sums)

    @cached_property
    def _ways(self) -> _Ways:
        """The ways through L1 that are looked at, a column each."""
        ways, ends = [(self._k, True, True, False)], list[int]()
        for steps in filter(None, self._parts_of_k()):
            ways += [(step, *kept, False) for step in steps for kept in _KEPT]
            ways.append((steps[-1], False, False, True))  # rather than the same rows for every tap
            ends.append(len(ways))
        step, keep_a, keep_b, alone = (np.array(each) for each in zip(*ways, strict=True))
        return _Ways(
            step, self._seen(step), keep_a, keep_b, keep_a & keep_b, keep_a & ~keep_b, alone, ends
        )

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

    def _seen(self, step: Any) -> Any:
        """Slices of channels that a part of k sees."""
        geometry = self._job.geometry
        slices = np.ceil(step / (geometry.window.taps * geometry.lanes))
        return np.minimum(slices, geometry.group_slices)

    @cached_property
    def _in_l1(self) -> _InL1:
        """What stays in L1, and how much of k passes through it at a time.

        Panels that are kept are two where there are several, else the next one waits; of both, as
        many columns of blocks as there is room for, twice if need be. Sources: ops-nn,
        conv/conv3d_v2 (an operand that is loaded in full may have a single buffer); TBE, conv2d
        (multi_n of BL1, so that positions are loaded once for several blocks of L0).
        """
        sizes, ways, buffers = self._sizes, self._ways, self._profile.buffers
        room = buffers.l1_bytes
        if self._job.has_bias:
            room -= buffers.bias_table_bytes or 0
        whole_b = sizes.base_n * np.ceil(self._k / sizes.base_k) * sizes.base_k * self._size
        tile_a, tile_b = sizes.slice_bytes * ways.seen, sizes.base_n * ways.step * self._size
        streamed = np.where(ways.only_a, 0, tile_a) + np.where(ways.keep_b, 0, tile_b)
        kept = np.where(ways.only_a, self._whole_a, 0) + np.where(ways.keep_b, whole_b, 0)
        left = room - np.where(ways.alone, 1, 2) * streamed
        fits, most = self._first_that_fit(kept <= left), np.maximum(1, left[:, :1] // whole_b)
        of_b, of_a = sizes.broad * sizes.part.groups, sizes.tall * sizes.part.images
        several = np.where(ways.only_a, of_a > 1, of_b > np.where(ways.both, most, 1))
        panels = np.where(2 * kept <= left, 1 + (several | (kept == 0)), 1)
        ahead = np.floor((room - kept * panels) / streamed)
        most_ahead = np.where(ways.both, 2, np.where(ways.alone, 1, _TILES_AHEAD))
        depth_1 = np.minimum(np.maximum(ahead, 2), most_ahead)
        columns = np.ceil(sizes.broad / np.minimum(sizes.broad, most // panels[:, :1]))
        wide = np.where(ways.both, np.ceil(sizes.broad / columns), 1)
        return _InL1(fits, depth_1, panels, np.where(ways.keep_a, self._whole_a, tile_a), wide)

    def _first_that_fit(self, fits: NDArray[Any]) -> NDArray[Any]:
        """Those of the first kind of steps that fit, single tiles where no others do."""
        begin, wanted = 1, np.ones((len(fits), 1), bool)
        for end in self._ways.ends:
            streams = fits[:, begin + 2 : end : 3]
            fits[:, begin:end] &= wanted
            found = streams.any(axis=1, keepdims=True)
            fits[:, end - 1 : end] &= ~found
            begin, wanted = end, wanted & ~found
        return fits

    @cached_property
    def _cycles(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """The busiest pipe, and what comes before and after it; also where memory is no limit.

        Infinite for blocks that don't fit.
        """
        sizes, ways, in_l1, path = self._sizes, self._ways, self._in_l1, self._path
        part, tall, broad = sizes.part, sizes.tall, sizes.broad
        chunks, columns = np.ceil(self._k / ways.step), np.ceil(broad / in_l1.wide)
        parts = chunks * np.ceil(np.minimum(ways.step, self._k) / sizes.base_k)
        products, into_l0 = self._in_l0(tall * broad * parts)
        of_tiles = tall * in_l1.a_bytes * np.where(ways.keep_a, 1, chunks)
        of_a = np.where(ways.only_a, of_tiles, of_tiles * columns)
        whole_b = part.n * self._k * self._size
        of_b = whole_b * np.where(ways.keep_b, 1 / part.images, tall)
        loads, tiles = of_a / self._a_rate + of_b / part.b_rate, chunks * tall * columns
        flights = tiles * (path.latency_cycles / in_l1.depth_1)
        loads = np.maximum(loads + 2 * tiles * path.setup_cycles, flights + loads / 2)
        out = self._out(part.high * part.wide, tall * broad)
        computed = np.maximum(products, into_l0)
        overlap = np.maximum(computed, loads)
        if self._job.dilated:
            overlap = np.maximum(overlap, self._made(of_a, np.where(ways.keep_a, tall, tiles)))
        overlap = np.maximum(out, np.where(ways.alone, loads + computed, overlap))
        overlap = overlap + self._waits(of_tiles, whole_b)
        two = self._has_two(sizes.base_m, sizes.base_n)
        overlap = np.where(two, overlap, np.maximum(overlap, products + out))
        step_b = sizes.base_n * np.where(ways.keep_b, self._k, ways.step) * self._size
        last = self._out(sizes.base_m * sizes.base_n // self._grain**2, 1)
        around = in_l1.a_bytes / self._a_rate + step_b / self._rate + last
        # What L2 has no room for comes from memory again.
        read_a = tall * self._whole_a if self._a_in_l2 else of_a
        read_b = np.minimum(of_b, whole_b) if self._b_in_l2 else of_b
        memory = (read_a + read_b + part.m * part.n * self._job.out_bytes) / part.hbm
        turns = part.images * part.groups
        cycles = turns * np.maximum(overlap, memory) + around
        return np.where(in_l1.fits, cycles, inf), turns * overlap + around

    def _in_l0(self, pieces: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Cycles of the cube and of loading L0 for so many parts of k of all blocks."""
        paths, cube = self._profile.paths, self._profile.cube
        sizes, part = self._sizes, self._sizes.part
        kind = "hfloat32" if self._job.hf32 else self._job.dtype.intrinsic
        rate = cube.dtypes.get(kind) or cube.dtypes["float16"]
        fractals = part.high * part.wide * ceil(self._k / rate.k_per_fractal)
        products = fractals * rate.cycles_per_fractal + pieces * cube.mad_start_cycles
        fractal = self._grain * self._k * self._size
        into_l0 = pieces * (cube.load3d.setup_cycles + paths.l1_to_l0b.setup_cycles)
        into_l0 = into_l0 + sizes.broad * part.high * fractal / self._unfolding
        into_l0 = into_l0 + sizes.tall * part.wide * fractal / paths.l1_to_l0b.bytes_per_cycle
        return products, into_l0 + 2 * paths.l1_to_l0a.setup_cycles * sizes.tall * sizes.broad

    def _waits(self, of_tiles: NDArray[Any], whole_b: NDArray[Any]) -> NDArray[Any]:
        """Cycles a turn in which nothing else goes on, as L1 has room for one panel only."""
        sizes, ways, in_l1, part = self._sizes, self._ways, self._in_l1, self._sizes.part
        of_b = ways.keep_b & (sizes.broad * part.groups > in_l1.wide)
        of_a = ways.only_a & (sizes.tall * part.images > 1)
        of_panel = np.where(of_b, whole_b / self._rate / part.images, of_tiles / self._a_rate)
        return np.where((in_l1.panels == 1) & (of_a | of_b), of_panel, 0)

    def _made(self, nbytes: NDArray[Any], tiles: NDArray[Any]) -> Any:
        """Cycles of tiles of planes that get zeros between their elements, one after the other."""
        paths, vector = self._profile.paths, self._profile.vector
        each = paths.gm_to_l1.latency_cycles + paths.gm_to_l1.setup_cycles
        if paths.ub_to_l1 is None:
            return nbytes / paths.gm_to_l1.bytes_per_cycle + tiles * each
        move = nbytes / paths.ub_to_l1.bytes_per_cycle + 2 * nbytes / vector.repeat_bytes
        return move + tiles * (each + paths.ub_to_l1.setup_cycles)

    def _out(self, fractals: Any, blocks: Any) -> Any:
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
        flights = blocks * write.latency_cycles
        return np.maximum(np.maximum(vector, store), (vector + store + flights) / 2)
