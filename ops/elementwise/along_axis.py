"""Elementwise operators whose small operands run along axes that an attribute or a rank tells.

What their kernels compute is known, and of Modulate a tiling that deals out rows; the schedule here
is the tensor compiler's for operands that broadcast. Source: ops-math math/scale, ops-nn
quant/quantize, vfusion/modulate (op_api: each is one operator).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from npusim.ops.elementwise.arithmetic import rounded
from npusim.schedules.comparisons import step
from npusim.schedules.formula_classes import kernel_of_call
from npusim.schedules.formula_row import Compute
from npusim.values.dtypes import INT8, UINT8

if TYPE_CHECKING:
    from npusim.ascendc import GlobalTensor, Kernel
    from npusim.ascendc.task import Task
    from npusim.schedules.formula import Formula, Operand, Term

    Places = Callable[[Task, GlobalTensor, GlobalTensor], Sequence[int]]

_LIMITS = {INT8: (-128.0, 127.0), UINT8: (0.0, 255.0)}


def _modulate(f: Formula, x: Term, scale: Operand | None, shift: Operand | None) -> Term:
    """x (1 + scale) + shift."""
    found = x if scale is None else f.mul(x, f.add(scale, 1.0))
    return found if shift is None else f.add(found, shift)


def _scale(f: Formula, x: Term, scale: Operand, bias: Operand | None) -> Term:
    found = f.mul(x, scale)
    return found if bias is None else f.add(found, bias)


def _quantize(
    f: Formula, x: Term, scales: Operand, zero: Operand | None, limits: tuple[float, ...]
) -> Term:
    """x over its scale, rounded, and the zero point, within what the result holds."""
    found = rounded(f, f.div(x, scales))
    found = found if zero is None else f.add(found, zero)
    return f.min(f.max(found, limits[0]), limits[1]) if limits else found


def _fake(
    f: Formula, x: Term, scale: Operand, zero: Operand, quant_min: float, quant_max: float
) -> tuple[Term, Term]:
    """x as it comes back from whole numbers of a range, and where it was in that range."""
    whole = f.add(rounded(f, f.div(x, scale)), zero)
    outside = f.add(step(f, f.sub(whole, quant_max)), step(f, f.sub(quant_min, whole)))
    kept = f.min(f.max(whole, quant_min), quant_max)
    return f.mul(f.sub(kept, zero), scale), f.sub(1.0, outside)


def _by_image(task: Task, x: GlobalTensor, small: GlobalTensor) -> Sequence[int]:
    del task
    return (x.shape[0], 1, small.shape[-1])


def _from_axis(task: Task, x: GlobalTensor, small: GlobalTensor) -> Sequence[int]:
    at = task.whole_number("axis", 1) % max(1, len(x.shape))
    return (*small.shape, *(1,) * max(0, len(x.shape) - at - len(small.shape)))


def _on_axis(task: Task, x: GlobalTensor, small: GlobalTensor) -> Sequence[int]:
    sizes = [1] * max(1, len(x.shape))
    sizes[task.whole_number("axis", 1) % len(sizes)] = small.numel
    return sizes if len(x.shape) else ()


def _made(row: Compute, places: Places) -> Callable[[Task], tuple[Kernel, ...]]:
    """What makes the kernels of an operator."""

    def make(task: Task) -> tuple[Kernel, ...]:
        (x,) = task.present(1)
        small = (
            each if each is None else each.view(*places(task, x, each)) for each in task.inputs[1:]
        )
        used = row
        if row.op_type == "Quantize":
            kind = task.outputs[0].dtype if task.outputs else INT8
            used = replace(row, result=kind, attributes={"limits": _LIMITS.get(kind, ())})
        return kernel_of_call(used).from_task(replace(task, inputs=(x, *small)))

    return make


Modulate = _made(Compute("Modulate", _modulate, half_in_float=True, like=(0,)), _by_image)
Scale = _made(Compute("Scale", _scale, half_in_float=True, like=(0,)), _from_axis)
Quantize = _made(Compute("Quantize", _quantize, half_in_float=True, like=(0,)), _on_axis)
FakeQuantAffineCachemask = _made(
    Compute(
        "FakeQuantAffineCachemask",
        _fake,
        outputs=2,
        half_in_float=True,
        like=(0,),
        attributes={"quant_min": 0, "quant_max": 255},
    ),
    _on_axis,
)
