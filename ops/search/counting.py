"""Counts of numbers, and their places among sorted ones."""

from __future__ import annotations

from math import log2
from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.schedules.on_ai_cpu import OnAiCpu

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.ascendc import Kernel
    from npusim.ascendc.task import Task

    Array = NDArray[Any]


def bincount(task: Task) -> tuple[Kernel, ...]:
    """How often each number is there, or the sum of its weights."""
    if not task.outputs:
        raise task.refused("how many numbers there are isn't known")
    length = task.outputs[0].numel

    def compute(numbers: Array, weights: Array | None = None) -> Array:
        return np.bincount(numbers.reshape(-1), weights, length)[:length]

    return OnAiCpu(task.op_type, compute).from_task(task)


def _places(sequence: Array, values: Array, sorter: Array | None = None, *, right: bool) -> Array:
    """Behind how many of a row every value of the same row belongs."""
    side: Any = "right" if right else "left"
    if sequence.ndim == 1:
        order = None if sorter is None else sorter.reshape(-1)
        return np.searchsorted(sequence, values, side, order)
    rows, asked = (each.reshape(-1, each.shape[-1]) for each in (sequence, values))
    orders = [None] * len(rows) if sorter is None else sorter.reshape(rows.shape)
    found = [
        np.searchsorted(row, wanted, side, order)
        for row, wanted, order in zip(rows, asked, orders, strict=True)
    ]
    return np.array(found).reshape(values.shape)


def _halvings(task: Task) -> float:
    """A comparison for every halving of the sequence, for every value."""
    sequence, values = task.present(2)
    return values.numel * log2(max(2, sequence.shape[-1]))


search_sorted = OnAiCpu("SearchSorted", _places, _halvings, {"right": False}).from_task
