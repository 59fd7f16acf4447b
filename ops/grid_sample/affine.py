"""Grids of places that a matrix for each image moves, on the AI CPU: AffineGrid."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.schedules.on_ai_cpu import SIMPLE, OnAiCpu

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.ascendc.task import Task


def _grid(theta: NDArray[Any], size: list[int], align_corners: bool) -> NDArray[Any]:
    """Places [images, *outer, axes], the last axis of an image first, between -1 and 1."""
    outer = size[2:]
    lines = [
        np.linspace(-1, 1, count) * (1 if align_corners else (count - 1) / count)
        if count > 1
        else np.zeros(1)
        for count in outer
    ]
    along = np.meshgrid(*lines, indexing="ij")
    places = np.stack([*reversed(along), np.ones(outer)], -1)
    found: NDArray[Any] = np.einsum("...j,nij->n...i", places, theta)
    return found


def _operations(task: Task) -> float:
    """A product and a sum for each number of a row of the matrix."""
    return 2 * SIMPLE * prod(task.outputs[0].shape) * task.present(1)[0].shape[-1]


affine_grid = OnAiCpu(
    "AffineGrid", _grid, _operations, {"size": [], "align_corners": False}
).from_task
