"""Repeating a small operand over a tile in UB, as schedules do it that have no instruction for it.

A column becomes rows one by one: the scalar unit reads the number, the vector unit fills the row with it. Runs that
aren't whole 32-byte blocks are moved element by element by the scalar unit; a pattern that comes again after whole
blocks is put together once and repeated by the vector unit.
Source: schedule of the public tensor compiler (broadcast by register); kernels of the first generation that spread
pairs take 1.2 cycles per element, those that spread a number over a row of 150 take 53 cycles per row.
"""

from __future__ import annotations

from math import lcm, prod
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from npusim.dialect.core import Core
    from npusim.dialect.local import LocalTensor

Box = tuple[int, ...]


def spread_column(core: Core, dst: LocalTensor, column: LocalTensor) -> LocalTensor:
    """dst[i, :] = column[i]; dst has shape (rows, columns), column (rows,)."""
    with core.schedule_only():
        for _ in core.loop(dst.shape[0]):
            core.duplicate(dst[0], core.get_value(column))
    with core.numbers_only():
        if core.numerics:
            depth = core.depth
            dst.target(depth)[...] = column.values(depth)[..., None]
    return dst


def spread_box(
    core: Core, dst: LocalTensor, src: LocalTensor, source_box: Box, box: Box
) -> LocalTensor:
    """dst = src repeated from ``source_box`` to ``box`` (units, rows, columns), both packed."""
    with core.schedule_only():
        stores, repeats = _pattern(core.block_bytes // dst.dtype.itemsize, source_box, box)
        if stores:
            core.get_value(src)
            core.scalar_alu("mov_ub", stores + min(stores, src.numel))
        if repeats:
            core.move(dst, dst)
    with core.numbers_only():
        if core.numerics:
            depth = core.depth
            small, wide = src.values(depth), dst.target(depth)
            shaped = small.reshape(small.shape[:depth] + source_box)
            spread = np.broadcast_to(shaped, wide.shape[:depth] + box)
            wide[...] = spread.reshape(wide.shape)
    return dst


def _pattern(block: int, source_box: Box, box: Box) -> tuple[int, bool]:
    """Elements that the scalar unit stores, and whether the vector unit repeats what they make up."""
    total, unit = prod(box), prod(box[1:])
    if source_box[0] == box[0]:
        return total, False
    whole = source_box[1:] == box[1:] and unit % block == 0
    stores = 0 if whole else lcm(unit, block)
    return (stores, True) if stores < total else (total, False)
