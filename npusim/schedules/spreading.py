"""Repeating a small operand over a tile in UB, as schedules do it that have no instruction for it.

A column becomes rows one by one: the scalar unit reads the number, the vector unit fills the row
with it. Runs that aren't whole 32-byte blocks are moved element by element by the scalar unit; a
pattern that comes again after whole blocks is put together once and repeated by the vector unit.
Source: schedule of the public tensor compiler (broadcast by register); kernels of the first
generation that spread pairs take 1.2 cycles per element, those that spread a number over a row of
150 take 53 cycles per row.
"""

from __future__ import annotations

from math import lcm, prod
from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.engine.program import Pipe

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.ascendc.core import Core
    from npusim.ascendc.tensors import LocalTensor

Box = tuple[int, ...]


def spread_column(core: Core, dst: LocalTensor, column: LocalTensor) -> LocalTensor:
    """dst[..., i, :] = column[..., i]; a column may have one element along other axes."""
    core.get_value(column)
    _emit_rows(core, dst)
    if core.numerics:
        values = column.values(dst.depth)[..., None]
        dst.alias(np.broadcast_to(values, (*values.shape[: dst.depth], *dst.shape)))
    return dst


def _emit_rows(core: Core, dst: LocalTensor) -> None:
    """A read by the scalar unit and a fill for every row.

    Code for one shape has all reads ahead of the fills; code for any shape loops, and waits for
    each number.
    """
    if not core.recording:
        return
    rows, kind = dst.rows, dst.dtype
    looped = not core.profile.software.compiled_for_shape
    fill = core.costs.row_fill(kind.intrinsic, kind.itemsize, dst.row_elements, chained=looped)
    detail = f"{dst.buffer} {rows} numbers"
    core.emit_scalar("ld_ub", loads=rows, turns=rows * looped, detail=detail)
    core.recorder.emit(
        Pipe.VECTOR, "vector_dup", rows * fill, detail=f"{dst.buffer} {rows} rows, one by one"
    )
    core.wrote(dst)


def spread_box(
    core: Core, dst: LocalTensor, src: LocalTensor, source_box: Box, box: Box
) -> LocalTensor:
    """dst = src repeated from ``source_box`` to ``box`` (units, rows, columns), both packed."""

    def repeated(values: NDArray[Any]) -> NDArray[Any]:
        stack = values.shape[: values.ndim - len(src.shape)]
        return np.broadcast_to(values.reshape(*stack, *source_box), (*stack, *box))

    def flat(values: NDArray[Any]) -> NDArray[Any]:
        return repeated(values).reshape(*values.shape[: values.ndim - len(src.shape)], -1)

    def put_together() -> None:
        stores, repeats = _pattern(core.block_bytes // dst.dtype.itemsize, source_box, box)
        if stores:
            core.get_value(src)
            core.scalar_alu("mov_ub", stores + min(stores, src.numel))
            core.filled(dst)
            core.arrange(dst[:stores], src, how=lambda values: flat(values)[..., :stores])
        if repeats:
            pattern = dst[:stores] if stores else src
            core.issue("ub2ub", dst, (pattern,))
            rest = dst[stores:]
            places = np.arange(rest.numel) % pattern.numel
            core.arrange(rest, pattern, how=lambda values: values[..., places])

    def shown() -> None:
        found = repeated(src.values(dst.depth))
        dst.alias(found.reshape(*found.shape[: dst.depth], *dst.shape))

    core.separately(put_together, shown)
    dst.check_write()
    return dst


def _pattern(block: int, source_box: Box, box: Box) -> tuple[int, bool]:
    """Elements that the scalar unit stores, and whether the vector unit repeats them."""
    total, unit = prod(box), prod(box[1:])
    if source_box[0] == box[0]:
        return total, False
    whole = source_box[1:] == box[1:] and unit % block == 0
    stores = 0 if whole else lcm(unit, block)
    return (stores, True) if stores < total else (total, False)
