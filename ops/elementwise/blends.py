"""Sums and choices of three operands and more, one row of a table for each.

Source of the formulas: public operator sources (ops/built-in/tbe/impl/dynamic).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.ascendc import CmpMode
from npusim.ops.elementwise.arithmetic import clip
from npusim.ops.elementwise.comparison import chosen
from npusim.schedules.formula_classes import kernels_of_table
from npusim.schedules.formula_row import Compute
from npusim.values.dtypes import FLOAT, FLOAT16

if TYPE_CHECKING:
    from npusim.schedules.formula import Formula, Operand, Term


def _lerp(f: Formula, start: Operand, end: Operand, weight: Operand) -> Term:
    """start + weight (end - start)."""
    first = f.tile(start)
    return f.add(first, f.mul(f.sub(f.tile(end), first), weight))


def _masked_fill(f: Formula, x: Operand, mask: Operand, value: Operand) -> Term:
    """The value where the mask is set, in the dtype of x."""
    kept, given = f.tile(x), f.cast(value, f.tile(x).dtype)
    return chosen(f, f.compare(f.cast(mask, FLOAT16), 0.0, CmpMode.NE), given, kept)


def _axpy(f: Formula, x: Operand, y: Operand, alpha: float) -> Term:
    """x + alpha y; integers are multiplied and added in float32."""
    first, second = f.tile(x), f.tile(y)
    if first.dtype.is_float:
        return f.add(first, f.mul(second, alpha))
    found = f.add(f.cast(first, FLOAT), f.mul(f.cast(second, FLOAT), alpha))
    return f.cast(found, first.dtype)


_ROWS = (
    Compute(
        "Addcdiv",
        lambda f, x, a, b, value: f.add(x, f.mul(f.div(a, b), value)),
        half_in_float=True,
    ),
    Compute(
        "Addcmul",
        lambda f, x, a, b, value: f.add(x, f.mul(f.mul(f.tile(a), b), value)),
        half_in_float=True,
    ),
    Compute(
        "Axpy",
        _axpy,
        attributes={"alpha": 1.0},
    ),
    Compute(
        "AxpyV2",
        lambda f, x, y, alpha: f.add(x, f.mul(f.tile(y), alpha)),
        half_in_float=True,
    ),
    Compute("ClipByValueV2", clip, like=(0,)),
    Compute("Lerp", _lerp, half_in_float=True),
    Compute("MaskedFill", _masked_fill, raw=(0, 1, 2)),
)

KERNELS = kernels_of_table(_ROWS)
