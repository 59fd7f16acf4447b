"""What is there at all: Unique, on the AI CPU.

Numbers are sorted and equal ones dropped; where the place of each among them is asked for, they go
through a table instead, whose entries cost far more to make than to find. How many there are only
the numbers tell: without them, floating numbers are taken as all different as far as their bits go,
integers as labels of a few classes. Source: ops-nn index/unique_consecutive/op_api (aclnnUnique).
"""

from __future__ import annotations

from math import log2
from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.ascendc.ai_cpu import AiCpuKernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.ascendc import Kernel
    from npusim.ascendc.task import Task
    from npusim.values.dtypes import DType

# Operations (of the profile's ``ai_cpu``) of a comparison of numbers side by side, of one that
# converts half types first, of finding an entry of a table, and of making one. Source: Unique of 1
# to 4 million numbers on 910B2, 34 ns for each of few different ones, 2 us for each of many.
COMPARED, _CONVERTED = 0.5, 1.5
_FOUND, _ENTERED = 27, 1700
_LABELS = 1000  # different integers, where nobody knows


def unique(task: Task) -> tuple[Kernel, ...]:
    """y = the different numbers of x in order, and the place of each number of x among them."""
    (x,) = task.present(1)
    inverse = len(task.outputs) > 1 or task.first("return_inverse") is True
    count = x.numel
    operations: float
    if inverse:
        operations = count * _FOUND + _different(x.dtype, count) * _ENTERED
    else:
        half = x.dtype.category == "float" and x.dtype.itemsize == 2
        operations = count * log2(max(2, count)) * (_CONVERTED if half else COMPARED)

    def compute(numbers: NDArray[Any]) -> list[NDArray[Any]]:
        found, places = np.unique(numbers, return_inverse=True)
        results = [np.zeros(out.numel, out.dtype.numpy) for out in task.outputs]
        for result, values in zip(results, (found, places.reshape(-1)), strict=False):
            result[: values.size] = values[: result.size]
        return results

    return (AiCpuKernel(task.op_type, (x,), task.outputs, operations, compute),)


def _different(dtype: DType, count: int) -> int:
    """How many different numbers there may be."""
    return min(count, 2 ** (8 * dtype.itemsize) if dtype.category == "float" else _LABELS)
