"""Cast: one vconv per tile, several where the chip has no direct one; truth by arithmetic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.ascendc.task import made
from npusim.ops.cast.ai_cpu import AI_CPU
from npusim.ops.cast.halves import Halves
from npusim.schedules.comparisons import step
from npusim.schedules.formula_classes import kernel_of
from npusim.schedules.formula_row import Compute
from npusim.schedules.on_ai_cpu import OnAiCpu
from npusim.values.dtypes import BOOL, FLOAT, FLOAT16, INT32, INT64, UINT8

if TYPE_CHECKING:
    from npusim.ascendc import GlobalTensor, Kernel
    from npusim.ascendc.task import Task
    from npusim.hardware.profile import Profile
    from npusim.schedules.formula import Formula, Operand, Term


def _is_not_zero(f: Formula, x: Operand) -> Term:
    return step(f, f.abs(f.cast(x, FLOAT)))


# What an AI core of a chip without 64 bits converts; the rest is left to the AI CPUs.
# Source: ops-math, math/cast/op_api/cast.cpp (ASCEND910_AICORE_DTYPE_SUPPORT_LIST).
_BY_HALVES = {
    (INT64, INT32), (INT32, INT64), (INT64, FLOAT16), (INT64, UINT8), (UINT8, INT64),
    (BOOL, INT64),
}  # fmt: skip
_ON_AI_CPU = OnAiCpu("Cast", AI_CPU["Cast"])

_Truth = kernel_of(Compute("Cast", _is_not_zero, raw=(0,), result=BOOL))


class Cast(kernel_of(Compute("Cast", lambda _, x: x, raw=(0,)))):  # type: ignore[misc]
    """out = x in out's dtype: nearest even where it rounds, toward zero to an integer, x != 0."""

    @classmethod
    def from_task(cls, task: Task) -> tuple[Kernel, ...]:
        """The kernel for a recorded task."""
        to_truth = bool(task.outputs) and task.outputs[0].dtype is BOOL
        if to_truth and task.inputs[0] is not None and task.inputs[0].dtype is not BOOL:
            return _Truth.from_task(task)
        if task.inputs[0] is not None and task.outputs and _in_halves(task):
            if (task.inputs[0].dtype, task.outputs[0].dtype) not in _BY_HALVES:
                return _ON_AI_CPU.from_task(task)
            return _by_halves(task.profile, task.inputs[0], task.outputs[0])
        plain: tuple[Kernel, ...] = super().from_task(task)
        return plain


def _in_halves(task: Task) -> bool:
    """Whether there are whole numbers of 64 bits that vconv doesn't take."""
    (x, *_), (out, *_) = task.inputs, task.outputs
    kinds = {x.dtype, out.dtype} if x is not None else set()
    return INT64 in kinds and len(kinds) > 1 and not task.profile.supports_convert(
        *(each.intrinsic for each in (INT32, INT64))
    )  # fmt: skip


def _by_halves(profile: Profile, x: GlobalTensor, out: GlobalTensor) -> tuple[Kernel, ...]:
    """Through INT32, which vconv takes from and to the others."""
    if (x.dtype is INT64 and out.dtype is INT32) or x.dtype is INT32:
        return (Halves(profile, x, out),)
    middle = made(x.shape, INT32)
    if x.dtype is INT64:
        return (Halves(profile, x, middle), Cast(profile, middle, out))
    return (Cast(profile, x, middle), Halves(profile, middle, out))
