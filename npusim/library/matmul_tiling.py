"""How one core cuts a matrix product into blocks that its memories hold.

The block sizes follow from the sizes of the memories, where an operator has no tiling of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from npusim.values.arithmetic import round_up
from npusim.values.dtypes import FLOAT, DType

if TYPE_CHECKING:
    from npusim.hardware.profile import Profile

_BASE_M = 128  # rows of a block of C: with twice as many columns, L0C is full on every chip
_BASE_N = 256
_PANEL_SHARE = 4  # an operand stays in L1 as a whole when it takes at most this part of it


@dataclass(frozen=True, slots=True)
class MatmulTiling:
    """A block of C is ``base_m x base_n``; of k, ``base_k`` are in L0 and ``step_k`` in L1.

    ``keep_a`` and ``keep_b`` say that L1 holds all of k of one block row of A, or of one block
    column of B, ``panels`` of these at a time, while the other operand streams past. With both, L1
    holds ``wide`` block columns of B, and of A one block row after the other. ``depth_c`` blocks of
    C are in L0C, and ``depth_1`` and ``depth_0`` tiles of the operands in L1 and L0.
    ``a_bytes`` and ``b_bytes`` are those of tiles in L1 that aren't simply rows and columns.
    Streamed blocks go down a column of C after the other, or along a row with ``rows_outside``.
    """

    base_m: int
    base_n: int
    base_k: int
    step_k: int
    keep_a: bool
    keep_b: bool
    depth_c: int
    depth_1: int = 2
    depth_0: int = 2
    panels: int = 2
    a_bytes: int = 0
    b_bytes: int = 0
    rows_outside: bool = False
    wide: int = 1

    @classmethod
    def of(cls, profile: Profile, dtype: DType, m: int, n: int, k: int) -> MatmulTiling:
        """Blocks for products of up to (m, k) by (k, n) elements of ``dtype``."""
        grain = grain_of(profile, dtype)
        results = profile.buffers.l0c_bytes // FLOAT.itemsize
        base_m = min(_BASE_M, round_up(m, grain))
        base_n = min(_BASE_N, round_up(n, grain), results // base_m // grain * grain)
        return cls.of_blocks(profile, dtype, (base_m, base_n), m, k)

    @classmethod
    def of_blocks(
        cls,
        profile: Profile,
        dtype: DType,
        base: tuple[int, int],
        m: int,
        k: int,
        spare_bytes: int = 0,
    ) -> MatmulTiling:
        """What fits of k, for given blocks of C, up to ``m`` rows of it and L1 to spare."""
        (base_m, base_n), buffers, size = base, profile.buffers, dtype.itemsize
        grain = grain_of(profile, dtype)
        in_l0 = min(buffers.l0a_bytes // base_m, buffers.l0b_bytes // base_n) // (2 * size)
        base_k = min(round_up(k, grain), max(grain, in_l0 // grain * grain))
        line = profile.memory.l2_line_bytes // size  # rows of whole lines make full packets
        if profile.cube.nd2nz_setup_cycles is not None and base_k < k and line % base_k:
            base_k = base_k // line * line or 1 << (base_k.bit_length() - 1)
        panel_k = round_up(k, base_k)
        share = buffers.l1_bytes // _PANEL_SHARE
        keep_b = base_n * panel_k * size <= share and m > base_m
        keep_a = not keep_b and m <= base_m and base_m * panel_k * size <= share
        room = (buffers.l1_bytes - spare_bytes) // (2 * size)
        room -= (base_n * keep_b + base_m * keep_a) * panel_k
        in_l1 = room // (base_m * (not keep_a) + base_n * (not keep_b))
        step_k = min(panel_k, max(base_k, in_l1 // base_k * base_k))
        part = next((each for each in (line, line // 2) if step_k > each), base_k)
        if step_k < panel_k and part % base_k == 0:
            step_k = step_k // part * part
        depth_c = 2 if 2 * base_m * base_n * FLOAT.itemsize <= buffers.l0c_bytes else 1
        return cls(base_m, base_n, base_k, step_k, keep_a, keep_b, depth_c)


def grain_of(profile: Profile, dtype: DType) -> int:
    """The multiple that blocks are rounded up to: whole fractals, whichever way they lie."""
    return max(profile.cube.fractal_m, profile.buffers.block_bytes // dtype.itemsize)
