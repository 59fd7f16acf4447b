"""SwiGlu: one half of a tensor goes through Swish and gates the other half."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

from npusim.ascendc.task import Task, made
from npusim.operators.registry import kernel_class
from npusim.schedules.formula_kernel import Compute, kernel_of

if TYPE_CHECKING:
    from npusim.ascendc import GlobalTensor, Kernel
    from npusim.hardware.profile import Profile
    from npusim.schedules.formula import Formula, Term


def _gate(f: Formula, a: Term, b: Term) -> Term:
    """a / (1 + e**-a) * b."""
    below = f.add(f.exp(f.neg(a)), 1.0)
    return f.mul(f.div(a, below), b)


_Gated = kernel_of(Compute("SwiGlu", _gate, half_in_float=True, generated=False))


def swi_glu(task: Task) -> tuple[Kernel, ...]:
    """out = swish(x's first half) * x's second half, along ``dim``, by default the last axis.

    An odd last axis loses its last column first, as the framework does it.
    """
    (x,) = task.present(1)
    if not x.shape:
        raise task.refused("needs an operand of rank 1 or more")
    tasks: list[Kernel] = []
    if x.shape[-1] % 2 and x.shape[-1] > 1:
        x = _even(task.profile, x, tasks)
    axis = task.whole_number("dim", -1) % len(x.shape)
    if x.shape[axis] % 2:
        raise task.refused(f"axis {axis} of {x.shape} has no halves")
    outer = prod(x.shape[:axis])
    inner = prod(x.shape[axis:]) // 2
    first, second = (
        replace(x, shape=(outer, inner), start=x.start + half * inner, strides=(2 * inner, 1))
        for half in (0, 1)
    )
    halved = (*x.shape[:axis], x.shape[axis] // 2, *x.shape[axis + 1 :])
    out = task.outputs[0] if task.outputs else made(halved, x.dtype)
    return (
        *tasks,
        _Gated(task.profile, first, second, out.view(outer, inner)),
    )


def _even(profile: Profile, x: GlobalTensor, tasks: list[Kernel]) -> GlobalTensor:
    """The tensor without its last column, made contiguous by a Slice."""
    rows, columns = prod(x.shape[:-1]), x.shape[-1]
    shorter = (*x.shape[:-1], columns - 1)
    dense = made(shorter, x.dtype)
    view = replace(x, shape=(rows, columns - 1), strides=(columns, 1))
    tasks.append(kernel_class("Slice")(profile, view, dense.view(rows, columns - 1)))
    return dense
