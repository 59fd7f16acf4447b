"""How products of int8 are cut: blocks of C of one size, dealt out to cores in runs.

Blocks are looked at from low to high and from narrow to broad. One replaces the last one chosen
where both operands are loaded clearly less often; where it has the usual number of elements side by
side; where it keeps the busiest core busy for clearly less; or, of those with as many rows and
columns together, where the first blocks of all cores need clearly less of the operands in L2.
Products with a short edge, or so small that an operand stays in L1, are cut as others are. Source:
ops-nn matmul/quant_batch_matmul_v3, quant_batch_matmul_v3_basic_tiling.cpp.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

from npusim.library.matmul_tiling import MatmulTiling
from npusim.ops.matmul.shapes import Partition, Shape
from npusim.ops.matmul.tiling import partition
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import INT32

if TYPE_CHECKING:
    from npusim.hardware.profile import Profile
    from npusim.values.dtypes import DType

_EDGES = (64, 80, 96, 128, 192, 256, 320, 384, 512)
_INNER_EDGES = (128, 256, 512)  # of an axis that lies innermost in memory
_BOTH_INNER_EDGES = (64, *_INNER_EDGES)  # of both axes, where both lie so
_FRACTAL_EDGES = (64, 96, 128, 160, 192, 256, 320, 384, 512)  # of columns in fractals
_UNEVEN_EDGES = (160, 192, 320)  # of columns: only for long sums
_SHORT_SUM = 2048
_FIRST = (128, 256)  # the blocks that others are compared with first
_USUAL, _BROAD = 256, 512  # of an axis that lies innermost
_CLEARLY = 0.9  # of what the others load, or of how long they keep a core busy
_MANY_ROUNDS, _LESS_WITH_THOSE, _EDGE_WITH_THOSE = 5, 0.95, 128
_CLOSE = 0.1  # m and n, as part of n
_BROAD_PRODUCT = 5  # times as many columns as rows: cores go down columns
_MOST_SHARING = {True: 8, False: 6}  # cores that begin in one row or column of blocks
_LEAST_SHARE = {True: 0.75, False: 0.85}  # how much less of L2 that has to be worth, for each
_LEAST_GAIN = 1.3
_SCALES_BESIDE = 2  # lines in L1, and one of a bias
_SHORT, _SMALL = 256, (512, 1024)  # edges of products that are cut as others are
_SHALLOW = 1024  # sums of those, if L2 holds this share of all three matrices:
_IN_L2 = 0.8
_STAYS_ELEMENTS = 448 << 10  # of an operand that L1 holds as a whole
_AGAIN_ELEMENTS = 160 << 10  # of it that a core may load again
_DEEP_WEIGHTS, _BROAD_WEIGHTS, _MOST_DECODED = 4096, 7168, 256  # k, n and m of products that decode
_ONE_ROUND_ROWS = 96
_CORES_OF_DECODING = (16, 24)
_LEAST_DEPTH = 64  # of k in L0


class _Base(NamedTuple):
    """Rows and columns of a block."""

    rows: int
    columns: int


@dataclass(frozen=True, slots=True)
class _Merits:
    """What blocks are compared by.

    ``busy`` is how many elements of C the busiest core has, ``loaded`` how many of both operands
    all blocks load for each of k, ``sharing`` how many cores begin in one row or column of blocks,
    and ``first`` how many rows and columns all of their first blocks need.
    """

    rounds: int
    busy: int
    loaded: int
    sharing: int
    first: int


@lru_cache(maxsize=1024)
def quant_partition(profile: Profile, shape: Shape, scale: DType | None = None) -> Partition:
    """The rectangles of a product's cores, beside scales of a dtype.

    Without any, vector cores take the sums, which changes what is worth its while.
    """
    if scale is None and (base := _few_rows(profile, shape)) is not None:
        columns = base.columns * ceil(ceil(shape.n / base.columns) / profile.cores.cube_cores)
        blocks = MatmulTiling.of_blocks(profile, shape.dtype, base, shape.m, shape.k)
        return Partition(shape, 1, base.rows, columns, blocks, profile.cores.cube_cores)
    if not _in_blocks(profile, shape):
        found = partition(profile, shape)
        return replace(found, blocks=_beside_lines(profile, found.blocks, shape, scale))
    base = _search(profile, shape, takes_sums=scale is None)
    rows, columns = base
    lines = _bytes_of_lines(columns, scale)
    blocks = MatmulTiling.of_blocks(profile, shape.dtype, base, rows, shape.k, lines)
    return Partition(shape, 1, rows, columns, blocks, profile.cores.cube_cores)


def _few_rows(profile: Profile, shape: Shape) -> _Base | None:
    """Blocks of all rows of a product that decodes, beside large weights in fractals.

    With up to 96 rows they fill L0C, if one round of them does; with more, those of fewest rounds,
    busiest cores and most products for each element that is loaded. Source: ops-nn
    quant_batch_matmul_v3_tiling.cpp, UpdateSmallMTbeTiling.
    """
    cores, buffers = profile.cores.cube_cores, profile.buffers
    large = shape.k >= _DEEP_WEIGHTS and shape.n >= _BROAD_WEIGHTS and shape.m <= _MOST_DECODED
    plain = shape.batch == 1 and not (shape.turned_a or shape.turned_b or shape.has_bias)
    if not (shape.b_in_fractals and large and plain and cores in _CORES_OF_DECODING):
        return None
    rows = round_up(shape.m, profile.cube.fractal_m)
    most = buffers.l0c_bytes // INT32.itemsize
    if shape.m <= _ONE_ROUND_ROWS:
        columns = min(most // rows, buffers.l0b_bytes // 2 // _LEAST_DEPTH)
        columns = columns // buffers.block_bytes * buffers.block_bytes
        return _Base(rows, columns) if shape.n <= columns * cores else None
    edges = [each for each in range(_INNER_EDGES[0], _USUAL + 1, _EDGES[0]) if each * rows <= most]

    def score(columns: int) -> int:
        blocks = ceil(shape.n / columns)
        rounds = ceil(blocks / cores)
        intensity = columns * rows // (columns + rows)
        return 7 * intensity + 10 * ceil(blocks / rounds) - 100 * rounds

    return _Base(rows, max(edges, key=score)) if edges else None


def _in_blocks(profile: Profile, shape: Shape) -> bool:
    """Whether a product is cut into blocks of one size."""
    low, high = sorted((shape.m, shape.n))
    if shape.batch > 1 or low <= _SHORT or (low <= _SMALL[0] and high <= _SMALL[1]):
        return False
    total = shape.m * shape.k + shape.k * shape.n + shape.m * shape.n * shape.out_bytes
    if shape.k < _SHALLOW and total <= _IN_L2 * profile.memory.l2_bytes:
        return False
    staying = round_up(low, profile.cube.fractal_m)
    deep = round_up(shape.k, profile.buffers.block_bytes)
    staying = (min(staying, _FIRST[0]) if low < _SMALL[0] else staying) * deep
    if staying > _STAYS_ELEMENTS:
        return True
    low_is_m = shape.m <= shape.n
    inner_lies = not shape.turned_b if low_is_m else shape.turned_a
    each = profile.cores.cube_cores * (_INNER_EDGES[0] if inner_lies else _EDGES[0])
    if (ceil(high / each) - 1) * staying > _AGAIN_ELEMENTS:
        return False
    inner = (shape.m if shape.turned_a else shape.k) if low_is_m else 0
    inner = inner or (shape.k if shape.turned_b else shape.n)
    return inner % _INNER_EDGES[0] == 0


def _search(profile: Profile, shape: Shape, *, takes_sums: bool) -> _Base:
    """The blocks that win, one after the other."""
    base = _Base(*_FIRST)
    found = _merits(profile, shape, base)
    least = found.loaded
    for other in _bases(profile, shape):
        if other == base:
            continue
        merits = _merits(profile, shape, other)
        if _CLEARLY * merits.loaded > least:
            continue
        before, clearly = least, merits.loaded < _CLEARLY * least
        many = merits.rounds >= _MANY_ROUNDS
        if many and min(other) >= _EDGE_WITH_THOSE:
            clearly = clearly or merits.loaded < _LESS_WITH_THOSE * found.loaded
        if not clearly:
            least = min(least, merits.loaded)
            if not _lies_well(shape, other, less=merits.loaded < before):
                if _CLEARLY * found.busy > merits.busy:
                    pass
                elif merits.busy > found.busy or not (
                    (many and _intensity(base) < _intensity(other))
                    or _better_in_l2(shape, (base, found), (other, merits), takes_sums)
                ):
                    continue
        base, found = other, merits
    return base


def _bases(profile: Profile, shape: Shape) -> Iterator[_Base]:
    """Blocks that L0C holds, and the bias table, where there is a bias."""
    most = profile.buffers.l0c_bytes // INT32.itemsize
    table = profile.buffers.bias_table_bytes if shape.has_bias else None
    widest = most if table is None else table // INT32.itemsize
    edges, across = _edges(shape)
    for place, rows in enumerate(edges):
        if place and shape.m <= edges[place - 1]:
            return
        for columns in across:
            uneven = columns in _UNEVEN_EDGES and shape.k <= _SHORT_SUM
            if rows * columns <= most and columns <= widest and not uneven:
                yield _Base(rows, columns)


def _edges(shape: Shape) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Rows and columns that blocks may have."""
    if shape.turned_a and not shape.turned_b:
        if shape.m >= shape.n or shape.b_in_fractals:
            return _INNER_EDGES, _FRACTAL_EDGES
        return _BOTH_INNER_EDGES, _BOTH_INNER_EDGES
    rows = _INNER_EDGES if shape.turned_a else _EDGES
    if shape.turned_b:
        return rows, _EDGES
    return rows, _FRACTAL_EDGES if shape.b_in_fractals else _INNER_EDGES


def _merits(profile: Profile, shape: Shape, base: _Base) -> _Merits:
    """What speaks for blocks of C."""
    high, wide = ceil(shape.m / base.rows), ceil(shape.n / base.columns)
    cores = min(profile.cores.cube_cores, high * wide)
    rounds, more = ceil(high * wide / cores), high * wide % cores or cores
    runs = [core * rounds - max(0, core - more) for core in range(cores)]
    down = _goes_down(shape, high, wide, cores)
    places = [divmod(run, high)[::-1] if down else divmod(run, wide) for run in runs]
    in_rows, in_columns = zip(*places, strict=True)
    return _Merits(
        rounds,
        base.rows * base.columns * rounds,
        shape.m * wide + shape.n * high,
        max(max(map(each.count, each)) for each in (in_rows, in_columns)),
        len(set(in_rows)) * base.rows + len(set(in_columns)) * base.columns,
    )


def _goes_down(shape: Shape, high: int, wide: int, cores: int) -> bool:
    """Whether a core's blocks follow each other down a column, not along a row."""
    half = cores // 2
    if half and high % half == 0:
        return True
    if half and wide % half == 0:
        return False
    return shape.n // _BROAD_PRODUCT > shape.m


def _lies_well(shape: Shape, base: _Base, *, less: bool) -> bool:
    """Whether the one axis that lies innermost is as long as loads like it."""
    if shape.turned_a != shape.turned_b or shape.b_in_fractals:
        return False
    edge = base.rows if shape.turned_a else base.columns
    return edge == _USUAL or (edge == _BROAD and less)


def _intensity(base: _Base) -> float:
    """Products for each element that is loaded."""
    return base.rows * base.columns / (base.rows + base.columns)


def _better_in_l2(
    shape: Shape,
    last: tuple[_Base, _Merits],
    other: tuple[_Base, _Merits],
    takes_sums: bool,
) -> bool:
    """Of blocks with as many rows and columns together: what cores begin with in L2, or L0.

    Broad ones suit the cube's output stage, which scales columns, so that others have to be
    better by more; vector cores don't mind. L0A is filled faster than L0B.
    """
    (base, found), (candidate, merits) = last, other
    if sum(candidate) != sum(base):
        return False
    if candidate.rows < candidate.columns and abs(shape.m - shape.n) < _CLOSE * shape.n:
        return True
    crowded = merits.sharing > _MOST_SHARING[takes_sums]
    if crowded or merits.sharing // 2 > found.sharing or merits.first >= found.first:
        return False
    if not takes_sums and shape.n >= shape.k:
        return False
    gain = max(_LEAST_SHARE[takes_sums] * merits.sharing / found.sharing, _LEAST_GAIN)
    return found.first / gain >= merits.first


def _bytes_of_lines(columns: int, scale: DType | None) -> int:
    """In L1 beside the operands: scales of the columns of a block, and a bias."""
    scales = 0 if scale is None else _SCALES_BESIDE * scale.itemsize
    return columns * (scales + INT32.itemsize)


def _beside_lines(
    profile: Profile, blocks: MatmulTiling, shape: Shape, scale: DType | None
) -> MatmulTiling:
    """Blocks made without a thought of lines in L1, with less of k at a time where they need it."""
    high, size = round_up(blocks.base_m, profile.cube.fractal_m), shape.dtype.itemsize
    kept = (high * blocks.keep_a + blocks.base_n * blocks.keep_b) * size * blocks.panels
    streamed = (high * (not blocks.keep_a) + blocks.base_n * (not blocks.keep_b)) * size
    room = profile.buffers.l1_bytes - kept * round_up(shape.k, blocks.base_k)
    room -= _bytes_of_lines(blocks.base_n, scale)
    steps = room // max(1, streamed * blocks.depth_1 * blocks.base_k)
    step_k = max(blocks.base_k, min(blocks.step_k, steps * blocks.base_k))
    return replace(blocks, step_k=step_k)
