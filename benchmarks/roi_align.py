"""The gradient of RoI align in plain NumPy, on all boxes and samples at once.

Done as torchvision's Python version of the operator does it: the corners and weights of all samples
as arrays, then one scatter-add of rows of channels for each of the four corners.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def gradient(
    grad_output: np.ndarray[Any, Any],
    boxes: np.ndarray[Any, Any],
    input_shape: tuple[int, int, int, int],
    scale: float,
    ratio: int,
) -> np.ndarray[Any, Any]:
    """The gradient [images, channels, height, width] of aligned boxes with `ratio` samples."""
    _, channels, bins_y, bins_x = grad_output.shape
    images, height, width = input_shape[0], *input_shape[2:]
    image = boxes[:, 0].astype(np.int64)
    x1, y1, x2, y2 = (boxes[:, 1:] * np.float32(scale) - np.float32(0.5)).T
    y = _axis(y1, y2, bins_y, ratio, height)  # low, high, their weights: [boxes, bins_y * ratio]
    x = _axis(x1, x2, bins_x, ratio, width)
    spread = np.ascontiguousarray(grad_output.transpose(0, 2, 3, 1))
    spread = spread.repeat(ratio, axis=1).repeat(ratio, axis=2).reshape(-1, channels)
    found = np.zeros((images * height * width, channels), np.float32)
    for row, row_weight in y:
        for column, column_weight in x:
            cell = (image[:, None, None] * height + row[:, :, None]) * width + column[:, None, :]
            weight = row_weight[:, :, None] * column_weight[:, None, :]
            np.add.at(found, cell.reshape(-1), spread * weight.reshape(-1, 1))
    return found.reshape(images, height, width, channels).transpose(0, 3, 1, 2)


def _axis(
    start: np.ndarray[Any, Any],
    stop: np.ndarray[Any, Any],
    bins: int,
    ratio: int,
    extent: int,
) -> list[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]:
    """Cells and weights of the lower and of the upper neighbours of all samples of an axis."""
    steps = (np.arange(bins * ratio, dtype=np.float32) + np.float32(0.5)) / (bins * ratio)
    place = start[:, None] + steps * (stop - start)[:, None]
    inside = (place >= -1) & (place <= extent)
    place = place.clip(0, extent - 1)
    low = np.floor(place).astype(np.int64)
    high = np.minimum(low + 1, extent - 1)
    part = (place - low).astype(np.float32)
    share = inside.astype(np.float32) / np.float32(ratio)
    return [(low, (1 - part) * share), (high, part * share)]
