"""Elementwise operators that a graph compiler has fused into one kernel, named after its parts.

``FusionOp_Mul_Neg`` multiplies two operands and negates the product. Every part takes the result
of the one before as its first operand, and what else it needs from the kernel's inputs, in order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING

from npusim.operators.registry import definition
from npusim.ops.elementwise import arithmetic
from npusim.schedules.formula import Formula, Operand, Term
from npusim.schedules.formula_kernel import Compute, FormulaKernel, kernel_of

if TYPE_CHECKING:
    from npusim.ascendc import Kernel
    from npusim.ascendc.task import Task

_PREFIX = "FusionOp_"


def fused(parts: Sequence[str]) -> Callable[..., Term]:
    """The formula of ``parts`` one after the other."""

    def formula(f: Formula, *operands: Operand) -> Term:
        rest = list(operands)
        value: Operand = rest.pop(0)
        for part in parts:
            others = [rest.pop(0) for _ in range(_operands(part) - 1) if rest]
            found = arithmetic.KERNELS[part].row.formula(f, value, *others)
            value = found if isinstance(found, Term) else found[0]
        return f.tile(value)

    return formula


def _operands(op_type: str) -> int:
    """How many operands a part takes: of a list, two."""
    inputs = definition(op_type).inputs
    return sum(2 if slot.many else 1 for slot in inputs)


def fused_kernel(task: Task) -> tuple[Kernel, ...]:
    """The kernel named after its parts."""
    parts = task.op_type.removeprefix(_PREFIX).split("_")
    task.present(1 + sum(_operands(part) - 1 for part in parts))
    return _kernel(task.op_type).from_task(task)


@cache
def _kernel(name: str) -> type[FormulaKernel]:
    return kernel_of(Compute(name, fused(name.removeprefix(_PREFIX).split("_"))))
