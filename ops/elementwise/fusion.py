"""Elementwise operators that a graph compiler has fused into one kernel, named after its parts.

``FusionOp_Mul_Neg`` multiplies two operands and negates the product. Every part takes the result
of the one before as its first operand, and what else it needs from the kernel's inputs, in order.
``AutomaticBufferFusionOp`` doesn't say what it was made of: two operands are taken for a gate, as
language models have it, others are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING

from npusim.operators.registry import definition, kernel_class
from npusim.schedules.formula import Formula, Operand, Term
from npusim.schedules.formula_kernel import Compute, FormulaKernel, kernel_of

if TYPE_CHECKING:
    from npusim.ascendc import Kernel
    from npusim.ascendc.task import Task

_PREFIX = "FusionOp_"
_GATE = "FusionOp_Swish_Mul"


def fused(parts: Sequence[str]) -> Callable[..., Term]:
    """The formula of ``parts`` one after the other."""

    def formula(f: Formula, *operands: Operand) -> Term:
        rest = list(operands)
        value: Operand = rest.pop(0)
        for part in parts:
            others = [rest.pop(0) for _ in range(_operands(part) - 1) if rest]
            found = _formula(part)(f, value, *others)
            value = found if isinstance(found, Term) else found[0]
        return f.tile(value)

    return formula


def _formula(part: str) -> Callable[..., Term | tuple[Term, ...]]:
    """The formula of an elementwise operator, its attributes as by default."""
    kernel = kernel_class(part)
    assert isinstance(kernel, type)
    assert issubclass(kernel, FormulaKernel)
    row = kernel.row
    return partial(row.formula, **row.attributes)


def _operands(op_type: str) -> int:
    """How many operands a part takes: of a list, two."""
    inputs = definition(op_type).inputs
    return sum(2 if slot.many else 1 for slot in inputs)


def fused_kernel(task: Task) -> tuple[Kernel, ...]:
    """The kernel named after its parts."""
    return _fused_kernel(task, task.op_type)


def unnamed_kernel(task: Task) -> tuple[Kernel, ...]:
    """Swish of the first operand times the second."""
    if len(task.inputs) != 2:
        raise task.refused("the record doesn't say which operators were fused")
    return _fused_kernel(task, _GATE)


def _fused_kernel(task: Task, name: str) -> tuple[Kernel, ...]:
    parts = name.removeprefix(_PREFIX).split("_")
    task.present(1 + sum(_operands(part) - 1 for part in parts))
    return _kernel(name).from_task(task)


@cache
def _kernel(name: str) -> type[FormulaKernel]:
    return kernel_of(Compute(name, fused(name.removeprefix(_PREFIX).split("_"))))
