"""Rows of a tile folded as the chip's compilers do it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.dialect.events import Event
from npusim.dialect.spreading import compiled_for_shape
from npusim.engine.program import Pipe

if TYPE_CHECKING:
    from npusim.dialect.core import Core
    from npusim.dialect.folds import Fold
    from npusim.dialect.local import LocalTensor


def fold_each_row(core: Core, fold: Fold, dst: LocalTensor, src: LocalTensor) -> LocalTensor:
    """dst[i] = row i of src folded; dst has shape (rows,), src (rows, columns).

    Code for any shape folds halves of all rows at once. Code for one shape takes the repeats of a
    row with vcadd, row by row, and the scalar unit moves what is left to its place; only rows of
    one repeat are taken in one go. Source: public tensor compiler (reduction of the last axis).
    """
    if not compiled_for_shape(core.profile):
        return core.reduce(fold, dst, src)
    rows, columns = src.shape
    one_step = columns <= core.costs.repeat_elements(src.dtype.itemsize)
    if rows == 1 or (one_step and core.folds_within_repeat(fold, src)):
        return core.whole_reduce(fold, dst, src)
    with core.schedule_only():
        moved = Event(core, Pipe.SCALAR, Pipe.VECTOR, set_before=True)
        for _ in core.loop(rows):
            moved.wait()  # what the row before left is still being read
            core.whole_reduce(fold, dst[:1], src[:1], drained=True)
            core.move_by_scalar(dst[:1], dst[:1])
            moved.set()
    with core.numbers_only():
        core.whole_reduce(fold, dst, src)
    return dst
