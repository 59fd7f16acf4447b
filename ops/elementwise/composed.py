"""Operators that a framework puts together from several kernels, each a task of its own."""

from __future__ import annotations

from math import log
from typing import TYPE_CHECKING

from npusim.ascendc.task import Task, made
from npusim.operators.host import constant
from npusim.operators.registry import kernel_class
from npusim.operators.tasks import Tasks
from npusim.schedules.formula_classes import kernel_of
from npusim.schedules.formula_row import Compute
from npusim.values.dtypes import BFLOAT16

if TYPE_CHECKING:
    from npusim.ascendc import GlobalTensor, Kernel

_Exp = kernel_of(Compute("Exp", lambda f, x: f.exp(x), half_in_float=True))


def exp(task: Task) -> tuple[Kernel, ...]:
    """e ** x, or base ** (scale * x + shift) as a product, a sum, a product and e ** x."""
    (x,) = task.present(1)
    steps: list[tuple[str, float]] = []
    if any(task.attributes.get(name) is not None for name in ("scale", "shift", "base")):
        steps += [("Mul", task.number("scale", 1.0)), ("Add", task.number("shift", 0.0))]
        base = task.number("base", -1.0)
        if base > 0.0 and base != 1.0:
            steps.append(("Mul", log(base)))
    tasks: list[Kernel] = []
    for op_type, value in steps:
        before, x = x, made(x.shape, x.dtype)
        tasks.append(_with_number(task, op_type, before, value, x))
    out = task.outputs[0] if task.outputs else made(x.shape, x.dtype)
    return (*tasks, _Exp(task.profile, x, out))


def masked_scale(task: Task) -> tuple[Kernel, ...]:
    """x * mask * scale: Cast of the mask to x's dtype where it has another, two products."""
    x, mask = task.present(2)
    tasks = Tasks(task.profile)
    kept = tasks.run("Mul", x, tasks.cast(mask, x.dtype), out=made(x.shape, x.dtype))
    out = task.outputs[0] if task.outputs else made(x.shape, x.dtype)
    scale = task.number("scale", 1.0)
    return (*tasks.kernels, _with_number(task, "Mul", kept, scale, out))


def _with_number(
    task: Task, op_type: str, x: GlobalTensor, value: float, out: GlobalTensor
) -> Kernel:
    """x times or plus a number of the host: an operand of one element.

    A product of bfloat16 takes it as an attribute. Source: lists of kernels that are published with
    measurements (hicann/cann-bench, tasks/level1).
    """
    if op_type == "Mul" and x.dtype is BFLOAT16:
        return kernel_class("Muls")(task.profile, x, out, value=value)
    return kernel_class(op_type)(task.profile, x, constant([value], x.dtype), out)
