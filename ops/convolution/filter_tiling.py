"""How the gradient of a convolution's weights is shared by the cube cores, and cut into blocks.

It is a product whose sums run over the positions of all images: rows for output channels, columns
for input channels and taps. Cores share images, output channels and slices of input channels; what
several have summed up of one place meets in device memory. Of all grids the one whose busiest core
is done first is taken, of alike ones the one with most parts of the images. Kernels for one shape
cut into equal parts and know 32 cores, among which they share the images before all else, whatever
the sums cost that meet then; channels are cut further where two turns of smaller blocks are done
before one of large ones. Other grids are looked at only for a network whose tilings the vendor has
searched for. Source: the vendor's public tiling (op_tiling/dw_cache_tiling.cc): divisors of every
axis, two tiles of each operand in L0, the least loads; profiled block counts, multiples of the
parts of the images up to 48 on 30 cores, and times, which are those of all parts' sums on their
way.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import ceil, prod
from typing import TYPE_CHECKING, NamedTuple

from npusim.library.matmul_tiling import MatmulTiling
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import FLOAT

if TYPE_CHECKING:
    from npusim.ascendc.windows import Window
    from npusim.hardware.profile import Profile
    from npusim.values.dtypes import DType

_CORES_KNOWN = 32  # to the compiler of the first generation
_TURNS = 2  # blocks that a core does one after the other, at most
_STEPS = 7  # vector instructions that make a gradient in UB
_BUFFERS = 2  # tiles of each operand in L1 and in L0


class FilterShape(NamedTuple):
    """A gradient: images, rows of the result, slices of input channels, planes and positions."""

    images: int
    rows: int
    slices: int
    plane: tuple[int, int]
    window: Window
    dtype: DType
    lanes: int
    hf32: bool = False
    through_ub: bool = False  # whether the gradient is made in UB, which takes half of it

    @property
    def depth(self) -> int:
        """Columns of the result for each slice of input channels."""
        return self.window.taps * self.lanes

    @property
    def positions(self) -> int:
        """Positions of an image, all of which are summed up."""
        high, wide = self.window.positions(self.plane)
        return high * wide

    def plane_rows(self, positions: int) -> int:
        """Rows of a plane that so many positions, one after the other, see at most."""
        high, wide = self.window.positions(self.plane)
        touched = positions // wide if positions % wide == 0 else ceil((positions - 1) / wide) + 1
        needed = (min(high, touched) - 1) * self.window.stride[0] + self.window.extent[0]
        return min(needed, self.plane[0])


class FilterShare(NamedTuple):
    """A core's part: first image, row and slice, and how many of each; which part of the images."""

    image: int
    images: int
    row: int
    rows: int
    slice: int
    slices: int


@dataclass(frozen=True, slots=True)
class FilterPartition:
    """Parts of images, rows and slices of a gradient, and the blocks that a core works in."""

    shape: FilterShape
    images: int
    rows: int
    slices: int
    blocks: MatmulTiling

    @property
    def sharers(self) -> int:
        """Cores that add into one place."""
        return ceil(self.shape.images / self.images)

    @property
    def block_dim(self) -> int:
        """Number of blocks."""
        return self.sharers * self._high * self._wide

    @property
    def _high(self) -> int:
        return ceil(self.shape.rows / self.rows)

    @property
    def _wide(self) -> int:
        return ceil(self.shape.slices / self.slices)

    def share(self, block: int) -> FilterShare:
        """What a block does."""
        rest, across = divmod(block, self._wide)
        part, down = divmod(rest, self._high)
        shape = self.shape
        image, row, first = part * self.images, down * self.rows, across * self.slices
        return FilterShare(
            image,
            min(self.images, shape.images - image),
            row,
            min(self.rows, shape.rows - row),
            first,
            min(self.slices, shape.slices - first),
        )


@lru_cache(maxsize=4096)
def filter_partition(profile: Profile, shape: FilterShape) -> FilterPartition:
    """The partition whose busiest core is done first."""
    costs = _Costs(profile, shape)
    found = (
        (turns * costs.cycles(way, blocks), -ceil(shape.images / way[0]), order, way, blocks)
        for order, (turns, way) in enumerate(_ways(profile, shape))
        for blocks in (costs.blocks(way),)
        if blocks is not None
    )
    *_, way, blocks = min(found, key=lambda each: each[:3])
    return FilterPartition(shape, *way, blocks)


Way = tuple[int, int, int]  # images, rows and slices of a core


def _ways(profile: Profile, shape: FilterShape) -> Iterator[tuple[int, Way]]:
    """Turns of each core, and what it may get in one: equal parts for one shape, else any."""
    cores, static = profile.cores.cube_cores, profile.software.compiled_for_shape
    if not static:
        yield from ((1, way) for way in _grids(profile, shape, cores, equal=False))
        return
    alone = shape.images // _parts(shape.images, _CORES_KNOWN, equal=True)[0]
    ways = list(_grids(profile, shape, alone * max(1, cores // alone), equal=True))
    if _searched(profile, shape):
        yield from ((1, way) for way in ways)
        return
    first = [way for way in ways if way[0] == ways[0][0]]
    yield from ((1, way) for way in first)
    least = min(prod(way) for way in first)
    for way in _grids(profile, shape, _TURNS * cores, equal=True):
        if way[0] == ways[0][0] and _TURNS * prod(way) < least:
            yield _TURNS, way


def _grids(profile: Profile, shape: FilterShape, blocks: int, *, equal: bool) -> Iterator[Way]:
    """What a block may get where there are at most so many."""
    high = profile.cube.fractal_m
    units = ceil(shape.rows / high)
    for images in _parts(shape.images, blocks, equal=equal):
        rest = blocks // ceil(shape.images / images)
        for rows in _parts(units, rest, equal=equal):
            left = rest // ceil(units / rows)
            for slices in _parts(shape.slices, left, equal=equal):
                yield images, min(shape.rows, rows * high), slices


def _searched(profile: Profile, shape: FilterShape) -> bool:
    """Whether the vendor has searched for the tiling of such a gradient."""
    known, window = profile.software.searched_gradients, shape.window
    if known is None or shape.images < known.images:
        return False
    channels = shape.rows // profile.cube.fractal_m, shape.slices
    layer = *channels, window.kernel[0], window.stride[0], shape.plane[0]
    return ",".join(map(str, layer)) in known.layers


def _parts(total: int, most: int, *, equal: bool) -> list[int]:
    """Sizes of a part where there are up to ``most`` of them."""
    sizes = {ceil(total / count) for count in range(1, min(total, most) + 1)}
    return sorted(size for size in sizes if not equal or total % size == 0)


class _Costs:
    """Cycles of a core, roughly, for a way to share a gradient."""

    def __init__(self, profile: Profile, shape: FilterShape) -> None:
        self._profile, self._shape = profile, shape
        self._size = shape.dtype.itemsize
        kind = "hfloat32" if shape.hf32 else shape.dtype.intrinsic
        self._rate = profile.cube.dtypes.get(kind) or profile.cube.dtypes["float16"]

    def blocks(self, way: Way) -> MatmulTiling | None:
        """The block that loads least, of those that fit, and as much of the sums as fits then."""
        _, rows, slices = way
        best: tuple[float, int, int] | None = None
        for base_n in self._columns(slices):
            for base_m in self._rows(rows, base_n):
                step = self._step(base_m, base_n)
                if not step:
                    continue
                loads = self._loads(way, base_m, base_n, step)
                if best is None or loads < best[0]:
                    best = loads, base_m, base_n
        return None if best is None else self._tiling(best[1], best[2])

    def cycles(self, way: Way, blocks: MatmulTiling) -> float:
        """Cycles of a core for its part: the busiest pipe's, and the last block's way out."""
        images, rows, slices = way
        profile, shape, cube = self._profile, self._shape, self._profile.cube
        columns, size = slices * shape.depth, self._size
        tall, broad = ceil(rows / blocks.base_m), ceil(columns / blocks.base_n)
        lanes = profile.buffers.block_bytes // size
        steps = ceil(shape.positions / blocks.base_k) * tall * broad
        deep = ceil(blocks.base_k / lanes) * ceil(shape.positions / blocks.base_k)
        fractals = (
            tall
            * broad
            * ceil(blocks.base_m / cube.fractal_m)
            * ceil(blocks.base_n / cube.fractal_n)
            * deep
        )
        paths = profile.paths
        multiply = fractals * self._rate.cycles_per_fractal + steps * cube.mad_start_cycles
        step = shape.window.stride[1] * shape.lanes * size
        unfold = profile.load3d_bytes_per_cycle(paths.l1_to_l0b, step)
        each = broad * rows / paths.l1_to_l0a.bytes_per_cycle + tall * columns / unfold
        starts = paths.l1_to_l0a.setup_cycles + cube.load3d.setup_cycles
        into_l0 = steps * starts + shape.positions * size * each
        rate = paths.gm_to_l1.bytes_per_cycle * paths.gm_to_l1.shared_fraction
        loads = self._loads(way, blocks.base_m, blocks.base_n, blocks.step_k) * size / rate
        out = rows * columns * FLOAT.itemsize / self._out_rate
        share = 1 / (tall * broad)
        return max(images * max(multiply, into_l0, loads), out) + out * share

    def _loads(self, way: Way, base_m: int, base_n: int, step: int) -> float:
        """Elements that a core loads for an image in steps of so many positions.

        The planes come again for every row of blocks, and, where a block has a part of the taps,
        for every part; rows that two steps see come twice.
        """
        shape, (_, rows, slices) = self._shape, way
        seen = ceil(shape.positions / step) * shape.plane_rows(step) * shape.plane[1]
        again = ceil(rows / base_m) * ceil(shape.depth / base_n)
        broad = ceil(slices * shape.depth / base_n)
        return broad * rows * shape.positions * self._dearer + again * slices * shape.lanes * seen

    @property
    def _dearer(self) -> float:
        """Times that an element of the gradient takes as long as one of the planes."""
        paths, vector = self._profile.paths, self._profile.vector
        if not self._shape.through_ub or paths.ub_to_l1 is None:
            return 1
        ways = 1 / paths.ub_to_l1.bytes_per_cycle + 1 / paths.ub_to_gm.bytes_per_cycle
        made = _STEPS * FLOAT.itemsize / vector.repeat_bytes + ways * self._size
        rate = paths.gm_to_l1.bytes_per_cycle * paths.gm_to_l1.shared_fraction
        return 2 + made * rate / self._size

    @property
    def _out_rate(self) -> float:
        """Bytes per cycle that a core adds to device memory."""
        path = self._profile.paths.l0c_to_gm or self._profile.paths.ub_to_gm
        return path.bytes_per_cycle * self._profile.memory.atomic_rate_fraction

    def _columns(self, slices: int) -> list[int]:
        """Columns of a block: whole slices that divide the core's, or equal parts of one.

        The last part of a core's only slice may be a smaller one.
        """
        taps, lanes = self._shape.window.taps, self._shape.lanes
        within = self._profile.buffers.l0b_bytes // (_BUFFERS * self._size * self._grain)
        whole = [each * self._shape.depth for each in _divisors(slices)]
        parts = [each * lanes for each in _parts(taps, taps, equal=slices > 1)]
        return [each for each in {*whole, *parts} if each <= within]

    def _rows(self, rows: int, base_n: int) -> list[int]:
        """Rows of a block beside so many columns."""
        buffers, high = self._profile.buffers, self._profile.cube.fractal_m
        within = buffers.l0a_bytes // (_BUFFERS * self._size * self._grain)
        room = buffers.l0c_bytes // FLOAT.itemsize // round_up(base_n, self._profile.cube.fractal_n)
        most = min(within, room, self._staged(base_n))
        return [each * high for each in _divisors(ceil(rows / high)) if each * high <= most]

    def _staged(self, base_n: int) -> int:
        """Rows of results that UB has room for, where they pass through it all at once."""
        if self._profile.paths.l0c_to_gm is not None or self._shape.through_ub:
            return self._profile.buffers.l0c_bytes
        return self._profile.buffers.ub_bytes // (base_n * FLOAT.itemsize)

    @property
    def _grain(self) -> int:
        """Positions that are summed up at a time at least."""
        return max(self._profile.cube.fractal_m, self._profile.buffers.block_bytes // self._size)

    def _step(self, base_m: int, base_n: int) -> int:
        """Positions of an image that L1 has room for: a divisor that fills fractals best."""
        room, planes = self._profile.buffers.l1_bytes // _BUFFERS, ceil(base_n / self._shape.depth)
        for step, of_a, of_b in self._steps:
            if base_m * of_a + planes * of_b <= room:
                return step
        return 0

    @cached_property
    def _steps(self) -> list[tuple[int, int, int]]:
        """Divisors of the positions, those first that fill fractals best.

        With the bytes in L1 of a row of the gradient, and of the rows of a plane.
        """
        shape, size, grain = self._shape, self._size, self._grain
        high = self._profile.cube.fractal_m
        row = round_up(shape.plane[1], high) * shape.lanes * size
        divisors = sorted(
            _divisors(shape.positions), key=lambda each: (round_up(each, grain) / each, -each)
        )
        return [
            (each, round_up(each, high) * size, shape.plane_rows(each) * row) for each in divisors
        ]

    def _tiling(self, base_m: int, base_n: int) -> MatmulTiling:
        buffers, size, grain = self._profile.buffers, self._size, self._grain
        step = self._step(base_m, base_n)
        in_l0 = min(buffers.l0a_bytes // base_m, buffers.l0b_bytes // base_n) // (_BUFFERS * size)
        base_k = min(round_up(step, grain), max(grain, in_l0 // grain * grain))
        block = base_m * round_up(base_n, self._profile.cube.fractal_n) * FLOAT.itemsize
        planes = ceil(base_n / self._shape.depth)
        of_a, of_b = next(sizes for each, *sizes in self._steps if each == step)
        return MatmulTiling(
            base_m,
            base_n,
            base_k,
            step,
            keep_a=False,
            keep_b=False,
            depth_c=2 if 2 * block <= buffers.l0c_bytes else 1,
            a_bytes=base_m * of_a,
            b_bytes=planes * of_b,
        )


@lru_cache(maxsize=4096)
def _divisors(value: int) -> tuple[int, ...]:
    return tuple(each for each in range(1, value + 1) if value % each == 0)
