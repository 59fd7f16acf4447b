"""Operands of different shapes brought to the fewest axes that describe how they broadcast."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

from npusim.values.errors import KernelError, RefusedTaskError
from npusim.values.formats import Format
from npusim.values.tensors import broadcastable

if TYPE_CHECKING:
    from npusim.ascendc.gm import GlobalTensor


@dataclass(frozen=True, slots=True)
class Plane:
    """A shape collapsed to (outer axes..., rows, columns), every operand a view of it.

    An operand that broadcasts along an axis has stride zero there. The first ``targets`` operands
    are results.
    """

    outer: tuple[int, ...]
    rows: int
    columns: int
    operands: tuple[GlobalTensor, ...]
    targets: int = 1

    @property
    def is_flat(self) -> bool:
        """True when all operands cover the whole shape contiguously, or are a single element."""
        return all(operand.strides is None or not any(operand.strides) for operand in self.operands)


def broadcast(
    shape: tuple[int, ...], operands: tuple[GlobalTensor, ...], targets: int = 1
) -> Plane:
    """Bring ``operands`` to ``shape``, merging neighbouring axes that all of them treat alike.

    The first ``targets`` operands are results and have that shape. Raises KernelError for an
    operand that doesn't broadcast.
    """
    size = prod(shape)
    if size and all(each.shape == shape and each.strides is None for each in operands):
        return Plane((), 1, size, tuple(each.view(1, size) for each in operands), targets)
    strides = [_broadcast_strides(operand, shape) for operand in operands]
    axes = [axis for axis, size in enumerate(shape) if size != 1]
    merged: list[tuple[int, tuple[int, ...]]] = []  # size, stride of each operand
    for axis in axes:
        steps = tuple(stride[axis] for stride in strides)
        if merged and all(a == b * shape[axis] for a, b in zip(merged[-1][1], steps, strict=True)):
            merged[-1] = (merged[-1][0] * shape[axis], steps)
        else:
            merged.append((shape[axis], steps))
    while len(merged) < 2:
        merged.insert(0, (1, (0,) * len(operands)))
    sizes = tuple(size for size, _ in merged)
    views = tuple(
        _restride(operand, sizes, tuple(steps[index] for _, steps in merged))
        for index, operand in enumerate(operands)
    )
    return Plane(sizes[:-2], sizes[-2], sizes[-1], views, targets)


def _restride(
    operand: GlobalTensor, sizes: tuple[int, ...], strides: tuple[int, ...]
) -> GlobalTensor:
    if operand.strides is None and prod(sizes) == operand.numel:
        return operand.view(*sizes)
    return replace(operand, shape=sizes, strides=strides)


def _broadcast_strides(operand: GlobalTensor, shape: tuple[int, ...]) -> tuple[int, ...]:
    spare = max(0, len(operand.shape) - len(shape))  # axes of one element that the result lacks
    own = operand.shape[spare:]
    if prod(operand.shape[:spare]) != 1 or not broadcastable(own, shape):
        refused = RefusedTaskError if operand.format is Format.ND else KernelError
        raise refused(operand.buffer.name, f"{operand.shape} doesn't broadcast to {shape}")
    steps = zip(own, operand.steps[spare:], strict=True)
    return (0,) * (len(shape) - len(own)) + tuple(0 if size == 1 else step for size, step in steps)
