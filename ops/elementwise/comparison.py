"""Comparisons, logic and selection.

Where the chip compares and selects by masks in UB (not the first generation), they are used; else
truth values come from arithmetic on differences. Source of the arithmetic: public operator
sources (ops/built-in/tbe/impl).
"""

from __future__ import annotations

from collections.abc import Callable

from npusim.ascendc import CmpMode
from npusim.schedules.comparisons import step
from npusim.schedules.formula import Formula, Operand, Term
from npusim.schedules.formula_classes import kernels_of_table
from npusim.schedules.formula_row import Compute
from npusim.values.dtypes import BOOL, FLOAT, FLOAT16, INT32, INT64, UINT8, DType


def _float_operand(f: Formula, x: Operand) -> Operand:
    """An operand in a type that can be compared: the chip's compare takes float16 and float32.

    Where the compiler has one for 64 bits, these are compared as they are.
    """
    if not isinstance(x, Term):
        return x
    keeps = f.masks_in_memory and x.dtype is FLOAT16
    keeps |= x.dtype is INT64 and f.profile.supports_vector("vcmp64", x.dtype.intrinsic)
    return x if keeps else f.cast(x, FLOAT16 if x.dtype is UINT8 else FLOAT)


def _of_whole_numbers(f: Formula, a: Operand, b: Operand, mode: CmpMode) -> Term:
    """By equality, which differences tell even where they wrap: a < b where a isn't the larger.

    Source: the public operator sources, where the chip compares int32 (less.py, greater_equal.py).
    """
    x, y = (each if isinstance(each, Term) else f.fill(each, INT32) for each in (a, b))
    if mode not in (CmpMode.EQ, CmpMode.NE):
        x, y = f.max(x, y), y if mode in (CmpMode.GT, CmpMode.LE) else x
    equal = mode in (CmpMode.EQ, CmpMode.GE, CmpMode.LE)
    if f.profile.supports_vector("vcmpv_eq", INT32.intrinsic):
        return _truth(f, f.compare(x, y, CmpMode.EQ), where=equal)
    return _counted(f, step(f, f.abs(f.cast(f.sub(x, y), FLOAT))), negated=equal)


def _truth(f: Formula, mask: Term, *, where: bool = True) -> Term:
    """The bytes of a truth value that is ``where`` under the mask."""
    values = (f.fill(float(value), FLOAT16) for value in (where, not where))
    return f.cast(f.select(mask, *values), UINT8)


def _counted(f: Formula, found: Term, *, negated: bool) -> Term:
    return f.cast(f.add(f.mul(found, -1.0), 1.0) if negated else found, UINT8)


def _select(f: Formula, condition: Term, a: Operand, b: Operand) -> Term:
    x, y = f.tile(a), f.tile(b)
    return chosen(f, f.compare(f.cast(condition, FLOAT16), 0.0, CmpMode.NE), x, y)


def chosen(f: Formula, mask: Term, a: Term, b: Term) -> Term:
    """a where the mask is set, else b, in their dtype; bytes are selected as float32."""
    held: DType = a.dtype
    if held.itemsize == 1:
        a, b = f.cast(a, FLOAT), f.cast(b, FLOAT)
    return f.cast(f.select(mask, a, b), held)


def _comparison(
    op_type: str,
    mode: CmpMode,
    positive: Callable[[Formula, Operand, Operand], Term],
    *,
    negated: bool = False,
) -> Compute:
    """By a mask, or true where ``positive`` is more than zero, or where it isn't (``negated``)."""

    def formula(f: Formula, a: Operand, b: Operand) -> Term:
        if any(isinstance(each, Term) and each.dtype is INT32 for each in (a, b)):
            return _of_whole_numbers(f, a, b, mode)
        x, y = _float_operand(f, a), _float_operand(f, b)
        if f.masks_in_memory:
            return _truth(f, f.compare(x, y, mode))
        return _counted(f, step(f, positive(f, x, y)), negated=negated)

    return Compute(op_type, formula, raw=(0, 1), result=BOOL)


_ROWS = (
    _comparison("Less", CmpMode.LT, lambda f, a, b: f.sub(b, a)),
    _comparison("Greater", CmpMode.GT, lambda f, a, b: f.sub(a, b)),
    _comparison("LessEqual", CmpMode.LE, lambda f, a, b: f.sub(a, b), negated=True),
    _comparison("GreaterEqual", CmpMode.GE, lambda f, a, b: f.sub(b, a), negated=True),
    _comparison("NotEqual", CmpMode.NE, lambda f, a, b: f.abs(f.sub(a, b))),
    _comparison("Equal", CmpMode.EQ, lambda f, a, b: f.abs(f.sub(a, b)), negated=True),
    Compute("LogicalAnd", lambda f, a, b: f.mul(a, b), result=BOOL),
    Compute("LogicalOr", lambda f, a, b: f.max(a, b), result=BOOL),
    Compute("LogicalNot", lambda f, x: f.abs(f.add(x, -1.0)), result=BOOL),
    Compute("Select", _select, raw=(0,), typed_by=1),
)

KERNELS = kernels_of_table(_ROWS)
