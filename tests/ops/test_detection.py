"""Boxes that stay, against a plain loop; and how long the AI CPU takes."""

from __future__ import annotations

import numpy as np
import pytest

from npusim import Device
from npusim.values.errors import KernelError
from support.tasks import CHIPS, cycles, kernels, run

ONE = np.array(5, np.int32), np.array(0.3, np.float32), np.array(0.2, np.float32)


def overlap(a: np.ndarray, b: np.ndarray) -> float:
    wide = max(0.0, min(a[2], b[2]) - max(a[0], b[0])) * max(0.0, min(a[3], b[3]) - max(a[1], b[1]))
    both = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - wide
    return wide / both if both else 0.0


@pytest.mark.parametrize("chip", CHIPS)
def test_the_best_of_boxes_that_overlap_stay(chip: str) -> None:
    dice = np.random.default_rng(0)
    low = dice.uniform(0, 3, (60, 2))
    boxes = np.concatenate([low, low + dice.uniform(0.2, 2, (60, 2))], 1).astype(np.float32)
    scores = dice.permutation(60).astype(np.float32) / 60
    want: list[int] = []
    for box in np.argsort(-scores):
        if scores[box] > 0.2 and all(overlap(boxes[box], boxes[each]) <= 0.3 for each in want):
            want.append(int(box))
    for count in (5, 60):
        numbers = np.array(count, np.int32), *ONE[1:]
        (found,) = run(
            chip, "NonMaxSuppressionV3", [boxes, scores, *numbers], [np.zeros(count, np.int32)]
        )
        kept = want[:count]
        assert found.tolist() == kept + [-1] * (count - len(kept))


def test_more_boxes_take_longer_on_the_ai_cpu() -> None:
    given = {"max_output_size": ONE[0], "iou_threshold": ONE[1], "score_threshold": ONE[2]}
    result = Device("910b3").estimate(
        "NonMaxSuppressionV3", boxes="fp32[1000,4]", scores="fp32[1000]", **given,
        selected_indices="int32[100]",
    )  # fmt: skip
    assert result.tasks[0].bound == "AI CPU"
    times = [
        cycles("910b3", "NonMaxSuppressionV3",
               [np.zeros((count, 4), np.float32), np.zeros(count, np.float32), *ONE],
               [np.zeros(100, np.int32)])
        for count in (1000, 8000)
    ]  # fmt: skip
    assert times[1] > 2 * times[0]


def test_refused() -> None:
    boxes, scores = np.zeros((5, 3), np.float32), np.zeros(5, np.float32)
    with pytest.raises(KernelError, match="boxes"):
        kernels("910b3", "NonMaxSuppressionV3", [boxes, scores, *ONE], [np.zeros(5, np.int32)])
