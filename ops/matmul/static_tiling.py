"""Tilings of kernels that are compiled for one shape, as on the first generation.

There every cut is a divisor, counted in fractals: of what the cores get, of the blocks they work
in, of the parts of k; of operands that don't lie in fractals also of a larger size, with a tail.
The compiler knows 32 cores (the public TBE schedule, mmad_schedule, cuts for as many), so that a
chip with 30 may have to work in two rounds. Loads, products and stores of a
block follow each other, nothing is double buffered. An operand that all blocks of a core share
stays in L1 if all of k fits there. The compiler's own search isn't published; that divisors are
taken, and that more rectangles than the chip has cores are, is what profiled block counts show.
Kernels tuned by hand (about a tenth) are up to four times faster than this.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, NamedTuple

from npusim.library.matmul_tiling import MatmulTiling
from npusim.ops.matmul.shapes import Partition, Shape
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import FLOAT

if TYPE_CHECKING:
    from npusim.hardware.profile import Profile

_CORES_KNOWN = 32
_ENOUGH = 3 / 4  # of them: rectangles that more aren't looked for
_EVEN = (1, 2, 4, 8, 16)  # fractals of which a size may be rounded up to a multiple
_WORTH = 0.85  # of a core's time that more rectangles than the chip has cores may leave at most


class _Size(NamedTuple):
    """A product in fractals."""

    m: int
    n: int
    k: int


def static_partition(profile: Profile, shape: Shape) -> Partition:
    """The rectangles, and the cheapest blocks that divide them."""
    lanes = profile.buffers.block_bytes // shape.dtype.itemsize
    high, wide = profile.cube.fractal_m, profile.cube.fractal_n
    cores = profile.cores.cube_cores
    groups = min(shape.batch, cores)
    _, (rows, columns), block, whole = min(
        (_found(profile, shape, each) for each in _sizes(profile, shape)),
        key=lambda found: found[0],
    )
    part = _Size(whole.m // rows, whole.n // columns, whole.k)
    room = profile.buffers.l1_bytes // ((block.m + block.n) * _fractal(profile))
    steps = [each for each in _divisors(whole.k, room) if each % block.k == 0]
    step = max(steps, default=max(1, room // block.k) * block.k)
    # A single row or column of blocks needs its operand once, if L1 holds all of k.
    all_of_k, (tall, broad) = step == whole.k, (part.m // block.m, part.n // block.n)
    blocks = MatmulTiling(
        block.m * high,
        block.n * wide,
        block.k * lanes,
        step * lanes,
        keep_a=all_of_k and tall == 1 and broad > 1,
        keep_b=all_of_k and broad == 1 and tall > 1,
        depth_c=1,
        depth_1=1,
        depth_0=1,
        panels=1,
    )
    turns = max(cores, rows * columns)  # a rectangle is a block, and blocks go in rounds
    return Partition(
        shape, groups, whole.m // rows * high, whole.n // columns * wide, blocks, turns
    )


def static_serves(profile: Profile, found: Partition) -> bool:
    """False where it is better to cut as evenly as fractals allow, into unequal parts.

    That is so if equal parts leave over half of the cores idle that there is work for, and if
    results on their way out take the vector unit longer than sums take the cube, so that two rounds
    of blocks would take twice as long.
    """
    shape, cube = found.shape, profile.cube
    whole = _size(profile, shape)
    blocks, cores = found.block_dim, profile.cores.cube_cores
    if 2 * blocks <= cores:
        return blocks == shape.batch * whole.m * whole.n
    results = cube.fractal_m * cube.fractal_n * FLOAT.itemsize
    vector = shape.steps_out * results / profile.vector.repeat_bytes
    products = whole.k * cube.dtypes[shape.dtype.intrinsic].cycles_per_fractal
    return blocks <= cores or vector <= products


def _sizes(profile: Profile, shape: Shape) -> list[_Size]:
    """The product itself, and with tails larger ones that can be cut: the last block isn't full.

    A graph that is compiled for its shapes has operands in fractals, and divisors whatever comes
    of them: products with 1321 columns of fractals, a prime, are profiled as slow as those make
    them. Operands as they are come with kernels for any shape.
    """
    whole, unit = _size(profile, shape), _unit(profile, shape)
    if shape.in_fractals:
        return [whole]
    highs, wides = (
        sorted({round_up(size, step * grain) for step in _EVEN})
        for size, grain in ((whole.m, unit.m), (whole.n, unit.n))
    )
    return [_Size(high, wide, whole.k) for high in highs for wide in wides]


def _found(
    profile: Profile, shape: Shape, whole: _Size
) -> tuple[float, tuple[int, int], _Size, _Size]:
    """Cycles of a core, rectangles along rows and columns, the block that they are worked in.

    The last is ``whole``, the product in fractals.

    As many equal ones as the chip has cores for. Where these are few, as many as the compiler
    knows cores, if that leaves even parts and saves enough. What launching them takes it doesn't
    know. Source: profiled block counts of 41 products.
    """
    pairs = _pairs(whole, _unit(profile, shape))
    if shape.batch > 1:
        return (*_cheapest(profile, shape, whole, pairs, 1), whole)
    within = _most(pairs, profile.cores.cube_cores)
    found = _cheapest(profile, shape, whole, pairs, within)
    even = [pair for pair in pairs if _is_even(whole.m, pair[0]) and _is_even(whole.n, pair[1])]
    more = _most(even, _CORES_KNOWN)
    if within <= _ENOUGH * _CORES_KNOWN and more > within:
        other = _cheapest(profile, shape, whole, even, more)
        if other[0] < _WORTH * found[0]:
            found = other
    return (*found, whole)


def _cheapest(
    profile: Profile,
    shape: Shape,
    whole: _Size,
    pairs: list[tuple[int, int]],
    rectangles: int,
) -> tuple[float, tuple[int, int], _Size]:
    """So many equal rectangles in the cheapest blocks that divide them, and their cycles."""
    unit = _unit(profile, shape)
    return min(
        (_cost(profile, shape, part, block), (rows, columns), block)
        for rows, columns in pairs
        if rows * columns == rectangles
        for part in (_Size(whole.m // rows, whole.n // columns, whole.k),)
        for block in _blocks(profile, shape, part, unit)
    )


def _most(pairs: list[tuple[int, int]], limit: int) -> int:
    """The greatest number of equal rectangles up to ``limit``, 0 without any."""
    counts = (rows * columns for rows, columns in pairs)
    return max((each for each in counts if each <= limit), default=0)


def _is_even(size: int, parts: int) -> bool:
    """Whether parts are single fractals or an even number of them, if ``size`` is even itself.

    Source: TBE, conv2d_fast_tiling: rows of a block in L0 are one or even.
    """
    return size % 2 == 1 or size // parts == 1 or size // parts % 2 == 0


def _pairs(whole: _Size, unit: _Size) -> list[tuple[int, int]]:
    """Numbers of rectangles along rows and columns that divide them."""
    return [
        (rows, columns)
        for rows in _divisors(whole.m // unit.m, _CORES_KNOWN)
        for columns in _divisors(whole.n // unit.n, _CORES_KNOWN)
    ]


def _size(profile: Profile, shape: Shape) -> _Size:
    """The product in fractals."""
    cube, lanes = profile.cube, profile.buffers.block_bytes // shape.dtype.itemsize
    unit = _unit(profile, shape)
    return _Size(
        round_up(ceil(shape.m / cube.fractal_m), unit.m),
        round_up(ceil(shape.n / cube.fractal_n), unit.n),
        ceil(shape.k / lanes),
    )


def _unit(profile: Profile, shape: Shape) -> _Size:
    """Fractals that aren't parted: 32 bytes of m or n where a row of a tile runs along it."""
    cube, lanes = profile.cube, profile.buffers.block_bytes // shape.dtype.itemsize
    along_m = max(1, lanes // cube.fractal_m) if shape.turned_a else 1
    return _Size(along_m, max(1, lanes // cube.fractal_n), 1)


def _blocks(profile: Profile, shape: Shape, part: _Size, unit: _Size) -> list[_Size]:
    """Blocks that divide a core's part and fit into L0, with as much of k as fits."""
    buffers, fractal = profile.buffers, _fractal(profile)
    divides = shape.in_fractals
    result = profile.cube.fractal_m * profile.cube.fractal_n * FLOAT.itemsize
    found = []
    for m in (unit.m * each for each in _divisors(part.m // unit.m, buffers.l0a_bytes // fractal)):
        for n in (
            unit.n * each for each in _divisors(part.n // unit.n, buffers.l0b_bytes // fractal)
        ):
            room = min(buffers.l0a_bytes // (m * fractal), buffers.l0b_bytes // (n * fractal))
            if room and m * n * result <= buffers.l0c_bytes:
                found.append(_Size(m, n, _part_of_k(part.k, room, divides=divides)))
    return found


def _part_of_k(k: int, room: int, *, divides: bool) -> int:
    """The greatest divisor of k that fits; with tails equal parts if that is far less."""
    divisor, most = max(_divisors(k, room)), min(k, room)
    return divisor if divides or 2 * divisor >= most else ceil(k / ceil(k / most))


def _cost(profile: Profile, shape: Shape, part: _Size, block: _Size) -> float:
    """Cycles of a core that does one thing after the other."""
    paths, cube, fractal = profile.paths, profile.cube, _fractal(profile)
    tall, broad = part.m // block.m, part.n // block.n
    steps = tall * broad * ceil(part.k / block.k)
    each = cube.dtypes[shape.dtype.intrinsic].cycles_per_fractal
    product = cube.mad_start_cycles + block.m * block.n * block.k * each
    into_l0 = (
        paths.l1_to_l0a.setup_cycles
        + paths.l1_to_l0b.setup_cycles
        + block.m * block.k * fractal / paths.l1_to_l0a.bytes_per_cycle
        + block.n * block.k * fractal / paths.l1_to_l0b.bytes_per_cycle
    )
    size = block.m * block.n * cube.fractal_m * cube.fractal_n
    out = paths.l0c_to_ub or paths.ub_to_gm
    leave = out.setup_cycles + size * FLOAT.itemsize / out.bytes_per_cycle
    store = paths.ub_to_gm.setup_cycles + size * shape.out_bytes / paths.ub_to_gm.bytes_per_cycle
    rate = paths.gm_to_l1.bytes_per_cycle * paths.gm_to_l1.shared_fraction
    loads = (broad * part.m + tall * part.n) * part.k * fractal / rate
    return steps * (product + into_l0) + tall * broad * (leave + store) + loads


def _fractal(profile: Profile) -> int:
    """Bytes of a fractal of an operand."""
    return profile.cube.fractal_m * profile.buffers.block_bytes


def _divisors(value: int, most: int) -> list[int]:
    return [each for each in range(1, min(value, most) + 1) if value % each == 0]
