"""Which of the vendor's kernels for plain products a call queues on A2 and A3: V2 or V3.

V3 takes products of middle size that keep the cores busy, those that L2 doesn't hold, long sums of
few results, and rows so narrow that vector cores turn them. Source: op_api/matmul_util.cpp of
cann-ops as copied in KernelHive/ascendc-skill (CheckHitV3Shape), which agrees with the kernel of
each product on 910B2 in lukaIvanic/paddle_ocr_vl_npu. Its lists of single shapes are left out.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from npusim.values.arithmetic import round_up
from npusim.values.dtypes import FLOAT

if TYPE_CHECKING:
    from npusim.hardware.profile import Profile
    from npusim.ops.matmul.shapes import Shape

_MIDDLE, _MIDDLE_M = (1024, 10368), 18000  # edges, and m where k and n are multiples of 1280
_MULTIPLE = 1280
_FRACTALS_A_CORE = 90000  # of products
_BUSY = 0.7  # share of cores in the rounds of blocks
_BLOCKS = ((128, 256), (256, 128))
_LEAST_M, _LEAST_N = 1152, 960  # of what L2 doesn't hold
_OF_L2 = 0.6666  # that one of the matrices takes
_LONG_SUM, _LONG_BY, _FEW_RESULTS = 27392, 8, 4 << 20
_LEAST_K_OF_FRACTALS = 640
_LONGEST_COLUMN = 100000  # above it with one column
_TALL, _NARROW_BYTES = 8192, ((192, 1), (384, 2), (512, 4))  # and multiples of so many elements
_WHOLE_BYTES, _PACKED_BYTES = 256, (32, 64, 96, 128, 160, 192, 224, 256, 384)


def version_of(profile: Profile, shape: Shape) -> int:
    """2 or 3; what the chip has where it has one."""
    generation = profile.software.matmul_generation
    if generation < 3 or shape.batch > 1 or not shape.dtype.is_float:
        return generation
    middle = shape.dtype is not FLOAT and _of_middle_size(profile, shape)
    beyond = min(shape.m - _LEAST_M, shape.n - _LEAST_N) >= 0 and not _held(profile, shape)
    if shape.b_in_fractals:
        taken = _LEAST_K_OF_FRACTALS <= shape.k < _LONG_SUM and shape.dtype is not FLOAT
        return 3 if taken and (middle or beyond) else 2
    return 3 if middle or beyond or _long(shape) or _narrow(shape) else 2


def _of_middle_size(profile: Profile, shape: Shape) -> bool:
    least, most = _MIDDLE
    if not (least <= shape.m <= _MIDDLE_M and all(least <= e <= most for e in (shape.k, shape.n))):
        return False
    if shape.m > most and (shape.k % _MULTIPLE or shape.n % _MULTIPLE):
        return False
    cores = profile.cores.cube_cores
    if ceil(shape.m / 16) * ceil(shape.n / 16) * ceil(shape.k / 16) // cores <= _FRACTALS_A_CORE:
        return False
    counts = [ceil(shape.m / rows) * ceil(shape.n / columns) for rows, columns in _BLOCKS]
    return any(count / round_up(count, cores) > _BUSY for count in counts)


def _held(profile: Profile, shape: Shape) -> bool:
    """Whether L2 holds all three matrices, and none takes too much of it."""
    m, n, k = shape.m, shape.n, shape.k
    sizes = [each * shape.dtype.itemsize for each in (m * k, n * k, m * n)]
    l2 = profile.memory.l2_bytes
    return sum(sizes) < l2 and max(sizes) < _OF_L2 * l2


def _long(shape: Shape) -> bool:
    """Long sums of few results, or of one column."""
    few = shape.m * shape.n <= _FEW_RESULTS and shape.k >= _LONG_BY * max(shape.m, shape.n)
    alone = shape.n == 1 and shape.turned_b and shape.k > _LONGEST_COLUMN and not shape.has_bias
    return (shape.k >= _LONG_SUM and few) or alone


def _narrow(shape: Shape) -> bool:
    """Many narrow rows that are no whole packets."""
    size = shape.dtype.itemsize
    sides = (
        (shape.k, shape.m) if shape.turned_a else (shape.m, shape.k),
        (shape.n, shape.k) if shape.turned_b else (shape.k, shape.n),
    )
    if any(columns == 1 for _, columns in sides):
        return False
    return any(
        rows > _TALL
        and any(columns * size <= most and columns % unit == 0 for most, unit in _NARROW_BYTES)
        and columns * size % _WHOLE_BYTES != 0
        and columns * size not in _PACKED_BYTES
        for rows, columns in sides
    )
