"""Padding by what is inside: mirrored, the border again, or from the other side; and gradients.

Padding of an axis is a table of places (npusim/library/axis_maps.py); the gradient of an element is
the sum of those of all its copies. Source: the aclnn pages of the ReflectionPad, ReplicationPad and
CircularPad interfaces.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.ascendc.task import Task, made
from npusim.library.axis_maps import AxisMap
from npusim.library.mapping import mapped
from npusim.operators.checks import invalid, size_mismatch, sizes
from npusim.operators.results import described, numbers
from npusim.operators.shape_checks import entries
from npusim.operators.tasks import Tasks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.ascendc import Kernel
    from npusim.operators.contract import Call, Check, Finding
    from npusim.values.tensors import TensorSpec

    Rule = Callable[[NDArray[np.int64], int], NDArray[np.int64]]

# The most padding that a rule has elements for, beyond the size of an axis.
_MORE = {"mirrored": -1, "wrapped": 0}


def mirrored(places: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Back from the border, which isn't repeated."""
    back = np.abs(places)
    return np.where(back < size, back, 2 * (size - 1) - back)


def repeated(places: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """The border again and again."""
    return np.clip(places, 0, size - 1)


def wrapped(places: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """From the other side."""
    return places % size


def _maps(rule: Rule, inside: Sequence[int], around: Sequence[int]) -> list[AxisMap]:
    """A table for each axis; the padding names the last axis first."""
    found = []
    for axis, size in enumerate(inside):
        last_first = 2 * (len(inside) - 1 - axis)
        before, after = around[last_first : last_first + 2]
        places = np.arange(-before, size + after, dtype=np.int64)
        found.append(AxisMap.taking(size, rule(places, size)))
    return found


def _around(task: Task) -> list[int]:
    told = numbers(task.first("padding"))
    if not told or len(told) % 2 or min(told) < 0:
        raise task.unfit(f"padding {told}, not two numbers for each axis")
    return told


def _padded(task: Task, rule: Rule, name: str) -> tuple[Kernel, ...]:
    """x with its padding."""
    (x,), around = task.present(1), _around(task)
    axes = len(around) // 2
    maps = _maps(rule, x.shape[-axes:], around)
    shape = (*x.shape[:-axes], *(each.out for each in maps))
    out = task.outputs[0] if task.outputs else made(shape, x.dtype)
    return (mapped(name, task.profile, x, out, maps),)


def _gradient(task: Task, rule: Rule, name: str) -> tuple[Kernel, ...]:
    """Gradients of what was padded, and x for its size, to the gradient of x."""
    (grads, x), around = task.present(2), _around(task)
    axes = len(around) // 2
    maps = [each.transposed() for each in _maps(rule, x.shape[-axes:], around)]
    out = task.outputs[0] if task.outputs else made(x.shape, grads.dtype)
    return (mapped(name, task.profile, grads, out, maps),)


mirror_pad, mirror_pad_grad = (
    partial(_padded, rule=mirrored, name="MirrorPad"),
    partial(_gradient, rule=mirrored, name="PadV3Grad"),
)
border_pad, border_pad_grad = (
    partial(_padded, rule=repeated, name="PadV3"),
    partial(_gradient, rule=repeated, name="PadV3Grad"),
)
circular_pad, circular_pad_grad = (
    partial(_padded, rule=wrapped, name="CircularPad"),
    partial(_gradient, rule=wrapped, name="CircularPadGrad"),
)


def constant_pad(task: Task) -> tuple[Kernel, ...]:
    """x in a frame of one number; a negative padding cuts off. Named the last axis first."""
    (x,) = task.present(1)
    told = numbers(task.first("pad")) or []
    if len(told) % 2 or len(told) > 2 * len(x.shape):
        raise task.unfit(f"padding {told} of {x.shape}")
    pairs = list(zip(told[::2], told[1::2], strict=True))[::-1]
    pairs = [(0, 0)] * (len(x.shape) - len(pairs)) + pairs
    kept = [
        size + min(before, 0) + min(after, 0)
        for size, (before, after) in zip(x.shape, pairs, strict=True)
    ]
    tasks = Tasks(task.profile)
    if tuple(kept) != x.shape:
        offsets = [max(-before, 0) for before, _ in pairs]
        x = tasks.run("Slice", x, out=made(tuple(kept), x.dtype), offsets=offsets, size=kept)
    frame = [max(each, 0) for pair in pairs for each in pair]
    shape = tuple(
        size + before + after
        for size, before, after in zip(kept, frame[::2], frame[1::2], strict=True)
    )
    out = task.outputs[0] if task.outputs else made(shape, x.dtype)
    tasks.run("PadV3", x, out=out, paddings=frame, value=task.number("value", 0.0))
    return tuple(tasks.kernels)


def bordered(given: Sequence[TensorSpec], attributes: Mapping[str, Any]) -> list[TensorSpec]:
    """With the padding, which names the last axis first."""
    told, x = numbers(attributes.get("padding", attributes.get("pad"))), given[0]
    if told is None or len(told) % 2 or len(told) > 2 * x.rank:
        return []
    shape = list(x.shape)
    for index, (before, after) in enumerate(zip(told[::2], told[1::2], strict=True)):
        shape[-1 - index] += before + after
    return [described(shape, x.dtype)]


def frame_fits(x: str, padding: str, *, axes: int, rule: str) -> Check:
    """161002 for a padding that isn't two numbers for each axis, or has no elements to show."""

    def test(call: Call) -> Finding:
        told = entries(call, padding)
        if told is None:
            return None
        if len(told) != 2 * axes or min(told) < 0:
            return f"{padding} should be {2 * axes} numbers from 0 on, but is {sizes(told)}."
        for name, spec in call.given(x):
            if spec.rank not in (axes + 1, axes + 2):
                wanted = f"{name} should have {axes + 1} or {axes + 2} dimensions"
                return f"{wanted}, but has sizes {sizes(spec.shape)}."
            most = [size + _MORE.get(rule, max(told)) for size in spec.shape[: -axes - 1 : -1]]
            for index, each in enumerate(told):
                if each > most[index // 2]:
                    return (
                        f"{padding} {sizes(told)} should be at most {most[index // 2]} along axis "
                        f"{-1 - index // 2} of {name} with sizes {sizes(spec.shape)}."
                    )
        return None

    return invalid(f"{padding} doesn't fit {x}", test)


def framed(grads: str, x: str, padding: str) -> Check:
    """161002 for gradients that aren't those of the tensor with its padding."""

    def test(call: Call) -> Finding:
        told = entries(call, padding)
        for (name, spec), (_, inner) in zip(call.given(grads), call.given(x), strict=False):
            wanted = bordered([inner], {"padding": told})
            if wanted and spec.shape != wanted[0].shape:
                return size_mismatch(name, spec.shape, wanted[0].shape, f"{x} with its padding")
        return None

    return invalid(f"{grads} isn't as large as {x} with its {padding}", test)


def frame_leaves(x: str, pad: str) -> Check:
    """161002 for a padding of more axes than there are, or that cuts off more than there is."""

    def test(call: Call) -> Finding:
        told = entries(call, pad)
        for name, spec in call.given(x):
            if told is None:
                continue
            if len(told) % 2 or len(told) > 2 * spec.rank:
                return f"{pad} should have two numbers for each of at most {spec.rank} axes."
            for index in range(0, len(told), 2):
                before, after = told[index : index + 2]
                size = spec.shape[-1 - index // 2]
                if size + before + after < 0 or min(before, after) < -size:
                    cut = f"{pad} {sizes(told)} cuts off more than {name}"
                    return f"{cut} with sizes {sizes(spec.shape)} has."
            left = bordered([spec], {"pad": told})[0]
            if left.is_empty and max(told, default=0) > 0:
                return f"{pad} {sizes(told)} adds to axes, but another of {name} is empty."
        return None

    return invalid(f"{pad} doesn't fit {x}", test)
