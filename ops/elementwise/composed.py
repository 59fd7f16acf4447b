"""Operators that a framework puts together from several kernels, each a task of its own."""

from __future__ import annotations

from math import log
from typing import TYPE_CHECKING

from npusim.ascendc import GlobalTensor, GmBuffer, Kernel
from npusim.operators.registry import kernel_class
from npusim.schedules.formula_kernel import Operator, kernel_of
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from npusim.hardware.profile import Profile
    from npusim.values.dtypes import DType

Tensors = tuple[GlobalTensor | None, ...]

_Exp = kernel_of(Operator("Exp", lambda f, x: f.exp(x), half_in_float=True))


def exp(
    profile: Profile,
    inputs: Tensors,
    outputs: tuple[GlobalTensor, ...],
    attributes: Mapping[str, object],
) -> list[Kernel]:
    """e ** x, or base ** (scale * x + shift) as a product, a sum, a product and e ** x."""
    x = inputs[0]
    if x is None:
        raise KernelError("Exp", "needs an operand")
    given = {name: _number(attributes.get(name)) for name in ("scale", "shift", "base")}
    tasks: list[Kernel] = []
    if any(value is not None for value in given.values()):
        x = _then(profile, tasks, "Muls", x, given["scale"], 1.0)
        x = _then(profile, tasks, "Adds", x, given["shift"], 0.0)
        base = given["base"]
        if base is not None and base > 0.0 and base != 1.0:
            x = _then(profile, tasks, "Muls", x, log(base), 1.0)
    out = outputs[0] if outputs else _empty(x.shape, x.dtype)
    return [*tasks, _Exp(profile, x, out)]


def masked_scale(
    profile: Profile,
    inputs: Tensors,
    outputs: tuple[GlobalTensor, ...],
    attributes: Mapping[str, object],
) -> list[Kernel]:
    """x * mask * scale: Cast of the mask to x's dtype where it has another, two products."""
    x, mask = inputs[:2]
    if x is None or mask is None:
        raise KernelError("MaskedScale", "needs x and a mask")
    tasks: list[Kernel] = []
    if mask.dtype is not x.dtype:
        cast = _empty(mask.shape, x.dtype)
        tasks.append(kernel_class("Cast")(profile, mask, cast))
        mask = cast
    kept = _empty(x.shape, x.dtype)
    tasks.append(kernel_class("Mul")(profile, x, mask, kept))
    out = outputs[0] if outputs else _empty(x.shape, x.dtype)
    scale = _number(attributes.get("scale"))
    tasks.append(kernel_class("Muls")(profile, kept, out, value=1.0 if scale is None else scale))
    return tasks


def _then(
    profile: Profile,
    tasks: list[Kernel],
    op_type: str,
    x: GlobalTensor,
    number: float | None,
    default: float,
) -> GlobalTensor:
    out = _empty(x.shape, x.dtype)
    value = default if number is None else number
    tasks.append(kernel_class(op_type)(profile, x, out, value=value))
    return out


def _empty(shape: tuple[int, ...], dtype: DType) -> GlobalTensor:
    buffer = GmBuffer("between", max(1, GlobalTensor(GmBuffer("", 0), dtype, shape).nbytes))
    return GlobalTensor(buffer, dtype, shape)


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
