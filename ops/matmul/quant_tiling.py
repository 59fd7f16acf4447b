"""How products of int8 are cut: blocks of C of one size, dealt out to cores one after the other.

Of blocks that load about as little as the best, those with the usual number of elements side by
side are taken, and of these the ones that keep the busiest core busy for the shortest time.
Products with a short edge are cut as others are. Source: ops-nn matmul/quant_batch_matmul_v3,
quant_batch_matmul_v3_basic_tiling.cpp.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from math import ceil
from typing import TYPE_CHECKING

from npusim.library.matmul_tiling import MatmulTiling
from npusim.ops.matmul.shapes import Partition, Shape
from npusim.ops.matmul.tiling import partition
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import FLOAT, INT32

if TYPE_CHECKING:
    from npusim.hardware.profile import Profile
    from npusim.values.dtypes import DType

_EDGES = (64, 80, 96, 128, 192, 256, 320, 384, 512)
_INNER_EDGES = (128, 256, 512)  # of an axis that lies innermost in memory
_USUAL = 256  # of such an axis, where there is one
_SCALES_BESIDE = 2  # lines in L1, and one of a bias
_SHORT = 256  # up to here an operand stays in L1
_MUCH_MORE = 0.9  # of what the others load


@lru_cache(maxsize=1024)
def quant_partition(profile: Profile, shape: Shape, scale: DType = FLOAT) -> Partition:
    """The rectangles of a product's cores, beside scales of a dtype."""
    if shape.batch > 1 or min(shape.m, shape.n) <= _SHORT:
        found = partition(profile, shape)
        return replace(found, blocks=_beside_lines(profile, found.blocks, shape, scale))
    most = profile.buffers.l0c_bytes // INT32.itemsize
    table = profile.buffers.bias_table_bytes if shape.has_bias else None
    widest = most if table is None else table // INT32.itemsize
    bases = [
        (rows, columns)
        for rows in (_INNER_EDGES if shape.turned_a else _EDGES)
        for columns in (_EDGES if shape.turned_b else _INNER_EDGES)
        if rows * columns <= most and columns <= widest
    ]
    cores = profile.cores.cube_cores
    least = min(_loaded(shape, base) for base in bases)

    def busy(base: tuple[int, int]) -> tuple[bool, int, int]:
        blocks = ceil(shape.m / base[0]) * ceil(shape.n / base[1])
        inner = base[1] if not shape.turned_b else base[0] if shape.turned_a else _USUAL
        return inner != _USUAL, ceil(blocks / cores) * base[0] * base[1], _loaded(shape, base)

    fitting = [base for base in bases if _MUCH_MORE * _loaded(shape, base) <= least]
    rows, columns = min(fitting, key=busy)
    lines = _bytes_of_lines(columns, scale)
    blocks = MatmulTiling.of_blocks(profile, shape.dtype, (rows, columns), rows, shape.k, lines)
    return Partition(shape, 1, rows, columns, blocks, cores)


def _loaded(shape: Shape, base: tuple[int, int]) -> int:
    """Elements of both operands for each of k that all blocks load."""
    return shape.m * ceil(shape.n / base[1]) + shape.n * ceil(shape.m / base[0])


def _bytes_of_lines(columns: int, scale: DType) -> int:
    """In L1 beside the operands: scales of the columns of a block, and a bias."""
    return columns * (_SCALES_BESIDE * scale.itemsize + INT32.itemsize)


def _beside_lines(
    profile: Profile, blocks: MatmulTiling, shape: Shape, scale: DType
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
