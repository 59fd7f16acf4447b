"""Elementwise operators that a graph compiler has fused into one kernel, named after its parts.

``AutomaticBufferFusionOp`` doesn't say what it was made of: two operands are taken for a gate, as
language models have it, others are refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from npusim.operators.fusions import Part, follow, half_in_float, parts_of
from npusim.schedules.formula_classes import kernel_of_call
from npusim.schedules.formula_row import Compute

if TYPE_CHECKING:
    from collections.abc import Sequence

    from npusim.ascendc import Kernel
    from npusim.ascendc.task import Task
    from npusim.schedules.formula import Formula, Operand, Term

_GATE: Final = (Part("Swish"), Part("Mul"))


def fused_kernel(task: Task) -> tuple[Kernel, ...]:
    """The first operator, and what follows it while a tile is in UB."""
    head, others = parts_of(task)
    return _kernel(task, (Part(head, task.attributes), *others))


def unnamed_kernel(task: Task) -> tuple[Kernel, ...]:
    """Swish of the first operand times the second."""
    if len(task.inputs) != 2:
        raise task.refused("the record doesn't say which operators were fused")
    return _kernel(task, _GATE)


def _kernel(task: Task, parts: Sequence[Part]) -> tuple[Kernel, ...]:
    task.present(1 + sum(part.operands - 1 for part in parts))

    def formula(f: Formula, *operands: Operand) -> Term:
        value, *rest = operands
        return f.tile(follow(f, value, parts, rest))

    row = Compute(task.op_type, formula, half_in_float=half_in_float(parts))
    return kernel_of_call(row).from_task(task)
