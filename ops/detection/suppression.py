"""NonMaxSuppressionV3 on the AI CPU: of boxes that overlap, those with the best scores.

The best box that is left is taken, unless one that was taken before covers too much of it, until
there are as many as wanted. Fewer leave the rest of the result at -1. Source: ops-cv
image/non_max_suppression_v3 (op_kernel_aicpu).
"""

from __future__ import annotations

from math import log2
from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.ascendc.ai_cpu import AiCpuKernel
from npusim.schedules.on_ai_cpu import SIMPLE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.ascendc.task import Task

    Array = NDArray[Any]

_OVERLAP = 16  # steps of comparing two boxes
_COVERED = 0.5  # of the boxes before it that a box is compared with until one covers it, about


def non_max_suppression(task: Task) -> tuple[AiCpuKernel, ...]:
    """Boxes, scores, how many are wanted, and both thresholds."""
    boxes, scores, *numbers = task.present(5, 1)[:5]
    out = task.outputs[0]
    if len(boxes.shape) != 2 or boxes.shape[1] != 4 or scores.shape != boxes.shape[:1]:
        raise task.refused(f"boxes {boxes.shape} with scores {scores.shape}")
    if len(out.shape) != 1 or any(each.numel != 1 for each in numbers):
        raise task.refused("the number and the thresholds are one number each")
    count, offset = boxes.shape[0], float(task.whole_number("offset", 0))
    kept = min(count, out.shape[0])
    ordered = count * max(1.0, log2(max(2, count)))
    operations = SIMPLE * (ordered + count * kept * _COVERED * _OVERLAP)

    def compute(*given: Array) -> list[Array]:
        wanted = min(out.shape[0], int(given[2].reshape(-1)[0]))
        overlap, least = (float(each.reshape(-1)[0]) for each in given[3:5])
        found = np.full(out.shape, -1, np.int32)
        wide, best = (each.astype(np.float32) for each in given[:2])
        taken = _taken(wide, best, wanted, overlap, least, offset)
        found[: len(taken)] = taken
        return [found]

    inputs = (boxes, scores, *numbers)
    return (AiCpuKernel(task.op_type, inputs, (out,), operations, compute),)


def _taken(
    boxes: Array, scores: Array, wanted: int, overlap: float, least: float, offset: float
) -> list[int]:
    """Numbers of boxes, the best first."""
    low, high = np.minimum(boxes[:, :2], boxes[:, 2:]), np.maximum(boxes[:, :2], boxes[:, 2:])
    areas = np.prod(high - low + offset, axis=1)
    found: list[int] = []
    for box in np.argsort(-scores, kind="stable"):
        if len(found) >= wanted or scores[box] <= least:
            break
        shared = np.minimum(high[box], high[found]) - np.maximum(low[box], low[found]) + offset
        common = np.prod(np.maximum(shared, 0), axis=1)
        union = areas[box] + areas[found] - common
        covered = np.divide(common, union, out=np.zeros_like(common), where=union > 0)
        if not (covered > overlap).any():
            found.append(int(box))
    return found
