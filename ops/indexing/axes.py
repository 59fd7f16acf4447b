"""The axis that elements are taken from or put along, and rows of it."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.ascendc.task import made
from npusim.operators.registry import kernel_class
from npusim.values.errors import RefusedTaskError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from npusim.ascendc import GlobalTensor
    from npusim.operators.tasks import Tasks


def axis_of(
    op_type: str, x: GlobalTensor, indices: GlobalTensor, attributes: Mapping[str, object]
) -> int:
    """The axis of a task from the front; KernelError where indices don't fit the tensor."""
    rank = len(x.shape)
    if len(indices.shape) != rank or not rank:
        raise RefusedTaskError(op_type, f"indices {indices.shape} for {x.shape}")
    found = attributes.get("dim", attributes.get("axis", 0))
    axis = int(found) % rank if isinstance(found, int) else 0
    for place, (own, given) in enumerate(zip(x.shape, indices.shape, strict=True)):
        if place != axis and given > own:
            raise RefusedTaskError(op_type, f"indices {indices.shape} reach beyond {x.shape}")
    return axis


def last(rank: int, axis: int) -> tuple[int, ...]:
    """The order of axes with ``axis`` and the last one exchanged."""
    order = list(range(rank))
    order[axis], order[-1] = order[-1], order[axis]
    return tuple(order)


def turned(tasks: Tasks, tensor: GlobalTensor, order: tuple[int, ...]) -> GlobalTensor:
    """A tensor with its axes in another order, by a task more."""
    view = tensor.permuted(order)
    dense = made(view.shape, tensor.dtype)
    tasks.kernels.append(kernel_class("Transpose")(tasks.profile, view, dense))
    return dense


def row_places(whole: tuple[int, ...], part: tuple[int, ...]) -> Any:
    """Which row of the data each row of the indices belongs to."""
    grid = np.arange(max(1, prod(whole))).reshape(whole)
    return grid[tuple(slice(0, size) for size in part)].reshape(-1)
