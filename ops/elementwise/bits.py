"""Operations on bits. The chips' instructions take words of 16 bits, of whatever dtype they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from npusim.ascendc import Core
from npusim.operators.registry import kernel_class
from npusim.schedules.formula import Term
from npusim.schedules.formula_classes import kernel_of, kernels_of_table
from npusim.schedules.formula_row import Compute
from npusim.schedules.on_ai_cpu import OnAiCpu
from npusim.values.dtypes import BOOL

if TYPE_CHECKING:
    from npusim.ascendc import Kernel
    from npusim.ascendc.task import Task
    from npusim.schedules.formula import Formula, Operand


def _tiles(f: Formula, a: Operand, b: Operand) -> tuple[Term, Term]:
    """Both as tiles of one dtype; a single element is repeated."""
    kind = next(each.dtype for each in (a, b) if isinstance(each, Term))
    x, y = (each if isinstance(each, Term) else f.fill(each, kind) for each in (a, b))
    return x, y


def _and(f: Formula, a: Operand, b: Operand) -> Term:
    return f.step(Core.bitwise_and, _tiles(f, a, b))


def _or(f: Formula, a: Operand, b: Operand) -> Term:
    return f.step(Core.bitwise_or, _tiles(f, a, b))


def _xor(f: Formula, a: Operand, b: Operand) -> Term:
    """What either has, but not both."""
    x, y = _tiles(f, a, b)
    return _and(f, _or(f, x, y), f.step(Core.bitwise_not, (_and(f, x, y),)))


_Invert = kernel_of(Compute("Invert", lambda f, x: f.step(Core.bitwise_not, (x,)), raw=(0,)))


def invert(task: Task) -> tuple[Kernel, ...]:
    """Every bit turned over; of truth values LogicalNot."""
    (x,) = task.present(1)
    if x.dtype is BOOL:
        negated: tuple[Kernel, ...] = kernel_class("LogicalNot").from_task(task)  # type: ignore[attr-defined]
        return negated
    return _Invert.from_task(task)


left_shift = OnAiCpu("LeftShift", np.left_shift).from_task
right_shift = OnAiCpu("RightShift", np.right_shift).from_task

KERNELS = kernels_of_table(
    (
        Compute("BitwiseAnd", _and, raw=(0, 1)),
        Compute("BitwiseOr", _or, raw=(0, 1)),
        Compute("BitwiseXor", _xor, raw=(0, 1)),
    )
)
