"""Tensors rolled along axes, and turned about: parts copied to where they go.

AI cores turn few dtypes about, the AI CPUs the others. Source: ops-nn index/reverse_v2, op_api.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from npusim.ascendc.task import made
from npusim.operators.results import numbers
from npusim.ops.data_movement.boxed import BoxesCopy
from npusim.ops.data_movement.strided import StridedCopy
from npusim.schedules.on_ai_cpu import OnAiCpu
from npusim.values.dtypes import FLOAT, FLOAT16, INT16, INT32, INT64

if TYPE_CHECKING:
    from npusim.ascendc import GlobalTensor, Kernel
    from npusim.ascendc.task import Task

_TURNED_BY_CORES = (FLOAT, FLOAT16, INT16, INT32, INT64)
Part = tuple[int, int, int]  # along an axis: from, to, how many


def roll(task: Task) -> tuple[Kernel, ...]:
    """Elements moved on along axes, those at the end to the front; of all in a row without axes."""
    (x,) = task.present(1)
    out = task.outputs[0] if task.outputs else made(x.shape, x.dtype)
    shifts, axes = (_numbers(task, name) for name in ("shifts", "dims"))
    shape = x.shape if axes else (x.numel,)
    moved = [0] * len(shape)
    if any(not -len(shape) <= axis < len(shape) for axis in axes) or (
        axes and len(shifts) != len(axes)
    ):
        raise task.unfit(f"shifts {list(shifts)} along {list(axes)} of {len(shape)} axes")
    for axis, shift in zip(axes or (0,) * len(shifts), shifts, strict=True):
        moved[axis % max(1, len(shape))] += shift
    parts = [_parts(size, shift) for size, shift in zip(shape, moved, strict=True)]
    source, target = x.view(*shape), out.view(*shape)
    pairs = tuple(
        (_box(source, [(first, count) for first, _, count in cut]),
         _box(target, [(first, count) for _, first, count in cut]))
        for cut in product(*parts)
    )  # fmt: skip
    return (BoxesCopy.called("Roll")(task.profile, pairs, (x,), (out,)),)


def reverse(task: Task) -> tuple[Kernel, ...]:
    """Axes from their end to their beginning."""
    (x,) = task.present(1)
    out = task.outputs[0] if task.outputs else made(x.shape, x.dtype)
    axes = {axis % len(x.shape) for axis in _numbers(task, "axis")} if x.shape else set()
    if x.dtype not in _TURNED_BY_CORES:
        flipped = OnAiCpu("ReverseV2", lambda values, **_: np.flip(values, tuple(axes)))
        return flipped.from_task(replace(task, outputs=(out,)))
    steps = [-step if axis in axes else step for axis, step in enumerate(x.steps)]
    start = x.start + sum((x.shape[axis] - 1) * x.steps[axis] for axis in axes)
    turned = replace(x, start=start, strides=tuple(steps))
    return (StridedCopy.called("ReverseV2")(task.profile, turned, out),)


def _numbers(task: Task, name: str) -> tuple[int, ...]:
    return tuple(numbers(task.attributes.get(name)) or ())


def _parts(size: int, shift: int) -> list[Part]:
    """What stays in order along an axis: up to where it wraps, and from there on."""
    shift %= max(1, size)
    return [(0, shift, size - shift), (size - shift, 0, shift)] if shift else [(0, 0, size)]


def _box(tensor: GlobalTensor, cut: list[tuple[int, int]]) -> GlobalTensor:
    """A part of a tensor as a view."""
    start = tensor.start + sum(
        first * step for (first, _), step in zip(cut, tensor.steps, strict=True)
    )
    return replace(
        tensor, shape=tuple(count for _, count in cut), start=start, strides=tensor.steps
    )
