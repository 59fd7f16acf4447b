"""Rows of a tile folded as the chip's compilers do it."""

from __future__ import annotations

from functools import partial
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.ascendc.events import Event
from npusim.ascendc.tensors import LocalTensor
from npusim.engine.program import Pipe

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.ascendc.core import Core
    from npusim.ascendc.folds import Fold
    from npusim.ascendc.loops import LoopIndex

PLANE_BYTES = 512  # that a repeat of vnchwconv turns


def fold_each_row(
    core: Core,
    fold: Fold,
    dst: LocalTensor,
    src: LocalTensor,
    *,
    generated: bool = True,
    singly: bool = False,
) -> LocalTensor:
    """dst[i] = row i of src folded; dst has shape (rows,), src (rows, columns).

    Kernels written by hand fold all rows at once, but ``singly``. ``generated`` code takes row by
    row, unless a row is a single repeat: code for one shape takes the repeats of a row with vcadd
    and has the scalar unit move what is left. Code for any shape folds halves, or all rows at once
    where they are more than the repeats of one, as the repeats of an instruction go along one axis:
    counters of 8192 rows of 169 elements on 910B2 have the vector unit busy for 17 cycles a row.
    Source: public tensor compiler (reduction of the last axis).
    """
    rows, columns = src.shape
    for_one_shape = core.profile.software.compiled_for_shape
    width = core.costs.repeat_elements(src.dtype.itemsize)
    one_step = columns <= width
    at_once = rows == 1 or (one_step and core.folds_within_repeat(fold, src))
    if for_one_shape and at_once:
        return core.whole_reduce(fold, dst, src)
    upright = not generated or (not for_one_shape and rows > ceil(columns / width))
    if upright and not at_once and not singly:
        return fold_strips(core, fold, dst, src)
    if rows == 1 or (at_once and not singly):
        return core.reduce(fold, dst, src)

    def fold_row(row: LoopIndex) -> None:
        core.reduce(fold, dst[row], src[row])

    def one_by_one() -> None:
        if not for_one_shape:
            key = fold.name, src.dtype, columns
            for row in core.loop(rows):
                core.alike(key, (partial(fold_row, row),))
            core.wrote(dst)
            return
        moved = Event(core, Pipe.SCALAR, Pipe.VECTOR, set_before=True)
        for row in core.loop(rows):
            moved.wait()  # what the row before left is still being read
            left = LocalTensor(core, dst.dtype, (), dst.buffer, (dst.slot, "left"))
            core.whole_reduce(fold, left, src[row], drained=True)
            core.move_by_scalar(dst[row], left)
            moved.set()
        core.wrote(dst)

    core.separately(one_by_one, lambda: core.reduce(fold, dst, src))
    return dst


def fold_strips(core: Core, fold: Fold, dst: LocalTensor, src: LocalTensor) -> LocalTensor:
    """dst[i] = row i of src folded: strips of one repeat width onto each other, then each repeat.

    Source: ops-nn norm/norm_common, sums of many rows.
    """
    rows, columns = src.shape

    def strip_by_strip() -> None:
        width = core.costs.repeat_elements(src.dtype.itemsize)
        sums = LocalTensor(core, src.dtype, (rows, width), dst.buffer, (dst.slot, "strips"))
        core.duplicate(sums, fold.neutral_in(sums.dtype))
        for begin in range(0, columns, width):
            part = sums[:, : min(width, columns - begin)]
            core.combine(fold, part, part, src[:, begin : begin + width])
        core.reduce(fold, dst, sums)

    core.separately(strip_by_strip, lambda: core.reduce(fold, dst, src))
    return dst


def spread_strips(core: Core, dst: LocalTensor, column: LocalTensor) -> LocalTensor:
    """dst[i, :] = column[i]: a block of every number (vbrcb), copied to strip after strip.

    Source: asc-devkit, broadcast along the last axis.
    """
    rows, columns = dst.shape
    wide = core.broadcast_column(column)
    width = core.costs.repeat_elements(dst.dtype.itemsize)
    for begin in range(0, columns, width):
        strip = dst[:, begin : begin + width]
        core.record_vector("vcopy", strip, strip.row_elements, rows=rows)
        core.arrange(strip, wide, how=partial(_repeated, times=strip.row_elements))
    core.wrote(dst)
    return dst


def _repeated(column: NDArray[Any], times: int) -> NDArray[Any]:
    return np.broadcast_to(column, (*column.shape[:-1], times))


def fold_packed_rows(core: Core, fold: Fold, dst: LocalTensor, src: LocalTensor) -> LocalTensor:
    """dst[i] = row i of src folded, for rows shorter than a block that lie side by side.

    No instruction starts inside a block, so the scalar unit reads every element.
    """
    rows, columns = src.shape
    core.wait_vector()
    count, detail = rows * columns, f"{src.buffer} {rows}x{columns} {fold.name}"
    core.emit_scalar("ld_ub", loads=count, operations=count, stores=rows, detail=detail)
    core.wrote(dst)
    return core.arrange(dst, src, how=partial(fold.function.reduce, axis=-1))


def planes(nbytes: int) -> int:
    """Repeats of vnchwconv that turn so many bytes."""
    return ceil(nbytes / PLANE_BYTES)


def turn_planes(core: Core, dst: LocalTensor, src: LocalTensor, elements: int) -> None:
    """One vnchwconv over as many planes as these elements of ``dst`` fill."""
    core.turn_lines(dst, src, planes(elements * dst.dtype.itemsize))


def spread_by_turning(
    core: Core, dst: LocalTensor, column: LocalTensor, elements: int
) -> LocalTensor:
    """dst[i, :] = column[i]: lines of the column, one below the other, are turned into rows.

    ``elements`` with what pads the rows. Source: public tensor compiler (broadcast of the last axis
    by vnchwconv, of which norm_tilingcase.py sets room aside).
    """
    turn_planes(core, dst, column, elements)
    core.wrote(dst)
    return core.arrange(dst, column, how=partial(_repeated_rows, columns=dst.shape[-1]))


def _repeated_rows(column: NDArray[Any], columns: int) -> NDArray[Any]:
    return np.repeat(column, columns, axis=-1)


def spread_packed_rows(core: Core, dst: LocalTensor, column: LocalTensor) -> LocalTensor:
    """dst[i, :] = column[i], stored element by element by the scalar unit."""
    rows, columns = dst.shape
    core.wait_vector()
    detail = f"{dst.buffer} {rows}x{columns} numbers"
    core.emit_scalar("st_ub", loads=rows, stores=rows * columns, detail=detail)
    core.wrote(dst)
    if core.numerics:
        depth = core.depth
        dst.target(depth)[...] = column.values(depth)[..., None]
    return dst
