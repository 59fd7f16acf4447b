"""How MatMulV3 lays out products on A2 and A3: blocks of C of one size, dealt to the cores in turn.

Every core takes the next block when its turn comes, all of k at once, so the time goes in rounds:
100 blocks are five on 24 cores. Blocks fill L0C, broad or tall; where there are few rounds, their
rows shrink so far that none is added. Source: hicann/ops-nn, matmul/mat_mul_v3,
op_host/op_tiling/matmul_v3_base_tiling.cpp and op_kernel/mat_mul_base_block.h. Left out are its
ways for few blocks and for sums that are cut.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from typing import TYPE_CHECKING

from npusim.library.matmul_tiling import MatmulTiling
from npusim.ops.matmul.shapes import Partition
from npusim.ops.matmul.tiling import partition as searched
from npusim.ops.matmul.tiling import usual_base
from npusim.values.arithmetic import round_up

if TYPE_CHECKING:
    from npusim.hardware.profile import Profile
    from npusim.ops.matmul.shapes import Shape

_LEAST = 256  # rows and columns of C; few blocks go another way
_FEW_ROUNDS = 4  # in which rows of blocks are made equal
_BALANCED_CORES = 24  # elsewhere they aren't
_WINDOW_ROWS = 4  # rows of blocks that are worked on at a time
# Of an L2 of 192 MiB, what of all three matrices may be in use at a time.
_HELD_BYTES, _OF_L2_BYTES = 100 << 20, 192 << 20
# Cores that may load from one address at a time, along lines and across, by number of cores.
_TOGETHER, _TOGETHER_ON_20, _CORES_20 = (6, 3), (5, 4), 20


def partition(profile: Profile, shape: Shape) -> Partition:
    """Blocks for all cores, or what the other kernels' search finds where there are too few."""
    cores, (base_m, base_n) = profile.cores.cube_cores, usual_base(profile, shape)
    number = ceil(shape.m / base_m) * ceil(shape.n / base_n)
    if shape.batch > 1 or number < cores or min(shape.m, shape.n) < _LEAST:
        return searched(profile, shape)
    base_m = _balanced(shape, base_m, base_n, cores)
    spare = (profile.buffers.bias_table_bytes or 0) if shape.has_bias else 0
    blocks = MatmulTiling.of_blocks(profile, shape.dtype, (base_m, base_n), base_m, shape.k, spare)
    blocks = replace(blocks, keep_a=False, keep_b=False)
    high = min(_WINDOW_ROWS, cores)
    window = _held(profile, shape, base_m, base_n) or (high, cores // high)
    return Partition(shape, 1, base_m, base_n, blocks, cores, window)


def _balanced(shape: Shape, base_m: int, base_n: int, cores: int) -> int:
    """Rows of a block that fill the rounds which there are anyway.

    Source: OptimizeLoadBalanceBasicKernel there.
    """
    high, wide = ceil(shape.m / base_m), ceil(shape.n / base_n)
    if cores != _BALANCED_CORES or shape.turned_a or high * wide >= _FEW_ROUNDS * cores:
        return base_m
    return round_up(ceil(shape.m / (round_up(high * wide, cores) // wide)), 16)


def _held(profile: Profile, shape: Shape, base_m: int, base_n: int) -> tuple[int, int] | None:
    """Rows and columns of blocks that L2 holds, where it doesn't hold all of the product.

    None where it does, or no window leaves the cores work without too many at one address. Source:
    CalcTile there.
    """
    cores, size, limit = profile.cores.cube_cores, shape.dtype.itemsize, _HELD_BYTES
    limit = limit * profile.memory.l2_bytes // _OF_L2_BYTES

    def nbytes(m: int, n: int) -> int:
        return (m + n) * shape.k * size + m * n * shape.out_bytes

    if nbytes(shape.m, shape.n) <= limit:
        return None
    broad = base_n >= base_m
    (outer, step), (inner, pitch) = (shape.n, base_n), (shape.m, base_m)
    if not broad:
        (outer, step), (inner, pitch) = (inner, pitch), (outer, step)
    most, few = _TOGETHER_ON_20 if cores == _CORES_20 else _TOGETHER
    across = few if (shape.turned_a if broad else not shape.turned_b) else most
    best, found = None, None
    for wide in range(cores, max(cores // most, 1) - 1, -1):
        for high in range(cores, max(cores // across, 1) - 1, -1):
            parts = (outer, step, wide), (inner, pitch, high)
            length, height = (
                round_up(ceil(edge / max(edge // (base * used), 1)), base)
                for edge, base, used in parts
            )
            if nbytes(length, height) > limit:
                continue
            left = ceil(((outer - 1) % length + 1) / step), ceil(((inner - 1) % height + 1) / pitch)
            if left[0] * most < cores or left[1] * across < cores:
                continue
            at_once = ceil(cores / left[0]), ceil(cores / left[1])
            if best is None or (best[0] >= at_once[0] and best[1] >= at_once[1]):
                best, found = at_once, (length // step, height // pitch)
    return found if found is None or not broad else (found[1], found[0])
