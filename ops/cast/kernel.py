"""Cast: one vconv per tile, several where the chip has no direct one; truth by arithmetic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.schedules.comparisons import step
from npusim.schedules.formula_kernel import Compute, kernel_of
from npusim.values.dtypes import BOOL, FLOAT

if TYPE_CHECKING:
    from npusim.ascendc import Kernel
    from npusim.ascendc.task import Task
    from npusim.schedules.formula import Formula, Operand, Term


def _is_not_zero(f: Formula, x: Operand) -> Term:
    return step(f, f.abs(f.cast(x, FLOAT)))


_Truth = kernel_of(Compute("Cast", _is_not_zero, raw=(0,), result=BOOL))


class Cast(kernel_of(Compute("Cast", lambda _, x: x, raw=(0,)))):  # type: ignore[misc]
    """out = x in out's dtype: nearest even where it rounds, toward zero to an integer, x != 0."""

    @classmethod
    def from_task(cls, task: Task) -> tuple[Kernel, ...]:
        """The kernel for a recorded task."""
        to_truth = bool(task.outputs) and task.outputs[0].dtype is BOOL
        if to_truth and task.inputs[0] is not None and task.inputs[0].dtype is not BOOL:
            return _Truth.from_task(task)
        plain: tuple[Kernel, ...] = super().from_task(task)
        return plain
