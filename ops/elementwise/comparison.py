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
from npusim.schedules.formula_kernel import Compute, kernels_of_table
from npusim.values.dtypes import BOOL, FLOAT, FLOAT16, UINT8, DType


def _float_operand(f: Formula, x: Operand) -> Operand:
    """An operand in a type that can be compared: the chip's compare takes float16 and float32."""
    if not isinstance(x, Term):
        return x
    keeps = f.masks_in_memory and x.dtype is FLOAT16
    return x if keeps else f.cast(x, FLOAT16 if x.dtype is UINT8 else FLOAT)


def _comparison(
    mode: CmpMode, arithmetic: Callable[[Formula, Operand, Operand], Term]
) -> Callable[[Formula, Operand, Operand], Term]:
    def formula(f: Formula, a: Operand, b: Operand) -> Term:
        x, y = _float_operand(f, a), _float_operand(f, b)
        if not f.masks_in_memory:
            return f.cast(arithmetic(f, x, y), UINT8)
        mask = f.compare(x, y, mode)
        chosen = f.select(mask, f.fill(1.0, FLOAT16), f.fill(0.0, FLOAT16))
        return f.cast(chosen, UINT8)

    return formula


def _not(f: Formula, x: Term) -> Term:
    return f.add(f.mul(x, -1.0), 1.0)


def _less(f: Formula, a: Operand, b: Operand) -> Term:
    return step(f, f.sub(b, a))


def _greater(f: Formula, a: Operand, b: Operand) -> Term:
    return step(f, f.sub(a, b))


def _not_equal(f: Formula, a: Operand, b: Operand) -> Term:
    return step(f, f.abs(f.sub(a, b)))


def _select(f: Formula, condition: Term, a: Operand, b: Operand) -> Term:
    x, y = f.tile(a), f.tile(b)
    held: DType = x.dtype
    if not f.profile.supports_vector("vsel", held.intrinsic):
        x, y = f.cast(x, FLOAT), f.cast(y, FLOAT)
    mask = f.compare(f.cast(condition, FLOAT16), 0.0, CmpMode.NE)
    return f.cast(f.select(mask, x, y), held)


def _logical_not(f: Formula, x: Term) -> Term:
    return f.abs(f.add(x, -1.0))


_ROWS = (
    Compute("Less", _comparison(CmpMode.LT, _less), raw=(0, 1), result=BOOL),
    Compute("Greater", _comparison(CmpMode.GT, _greater), raw=(0, 1), result=BOOL),
    Compute(
        "LessEqual",
        _comparison(CmpMode.LE, lambda f, a, b: _not(f, _greater(f, a, b))),
        raw=(0, 1),
        result=BOOL,
    ),
    Compute(
        "GreaterEqual",
        _comparison(CmpMode.GE, lambda f, a, b: _not(f, _less(f, a, b))),
        raw=(0, 1),
        result=BOOL,
    ),
    Compute("NotEqual", _comparison(CmpMode.NE, _not_equal), raw=(0, 1), result=BOOL),
    Compute(
        "Equal",
        _comparison(CmpMode.EQ, lambda f, a, b: _not(f, _not_equal(f, a, b))),
        raw=(0, 1),
        result=BOOL,
    ),
    Compute("LogicalAnd", lambda f, a, b: f.mul(a, b), result=BOOL),
    Compute("LogicalOr", lambda f, a, b: f.max(a, b), result=BOOL),
    Compute("LogicalNot", _logical_not, result=BOOL),
    Compute("Select", _select, raw=(0,), typed_by=1),
)

KERNELS = kernels_of_table(_ROWS)
