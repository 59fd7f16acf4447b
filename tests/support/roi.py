"""RoI align: arguments for its gradient, and an oracle of its own."""

from __future__ import annotations

from typing import Any

import numpy as np

from support.inputs import Array, generator

ROI_ALIGN = "aclnnRoiAlignV2Backward"


def roi_align(
    boxes: int,
    channels: int,
    shape: tuple[int, int, int],
    bins: tuple[int, int] = (7, 7),
    *,
    ratio: int = 2,
    aligned: bool = True,
    scale: float = 0.25,
    pixels: tuple[float, float] = (2.0, 30.0),
    seed: int = 1,
) -> dict[str, Any]:
    """Boxes spread over maps of `shape` (images, height, width), `pixels` high and wide there."""
    random = generator(seed)
    images, height, width = shape
    middle = random.uniform(0, (width, height), (boxes, 2))
    size = random.uniform(*pixels, (boxes, 2))
    corners = np.concatenate((middle - size / 2, middle + size / 2), axis=1) / scale
    ids = random.integers(0, images, (boxes, 1))
    return {
        "gradOutput": random.standard_normal((boxes, channels, *bins)).astype(np.float32),
        "boxes": np.concatenate((ids, corners), axis=1).astype(np.float32),
        "inputShape": [images, channels, height, width],
        "pooledHeight": bins[0],
        "pooledWidth": bins[1],
        "spatialScale": scale,
        "samplingRatio": ratio,
        "aligned": aligned,
    }


def reference(arguments: dict[str, Any]) -> Array:
    """The gradient in float64: what each bin gives to each row times what it gives to each column.

    Box by box. How many samples a bin has is decided in float32, for it jumps; all the rest is
    float64.
    """
    grad = arguments["gradOutput"].astype(np.float64)
    images, channels, height, width = arguments["inputShape"]
    out = np.zeros((images, channels, height, width))
    offset = np.float32(0.5 if arguments["aligned"] else 0)
    scaled = arguments["boxes"][:, 1:] * np.float32(arguments["spatialScale"]) - offset
    for box, (x1, y1, x2, y2) in enumerate(scaled):
        image = int(np.floor(arguments["boxes"][box, 0]))
        if not 0 <= image < images:
            continue
        x, y = (
            _samples(start, stop, bins, extent, arguments)
            for start, stop, bins, extent in (
                (x1, x2, arguments["pooledWidth"], width),
                (y1, y2, arguments["pooledHeight"], height),
            )
        )
        if x and y:
            rows, to_rows = _shares(y, arguments["pooledHeight"])
            columns, to_columns = _shares(x, arguments["pooledWidth"])
            out[image, :, rows, columns] += to_rows @ grad[box] @ to_columns.T
    return out


def _shares(axis: list[tuple[Array, Array, Array]], bins: int) -> tuple[slice, Array]:
    """The cells that an axis touches, and the share of every bin that goes to each of them."""
    first, last = min(cells.min() for cells, _, _ in axis), max(cells.max() for cells, _, _ in axis)
    shares = np.zeros((last - first + 1, bins))
    for cells, weights, owners in axis:
        np.add.at(shares, (cells - first, owners), weights)
    return slice(first, last + 1), shares


def _samples(
    start: np.float32, stop: np.float32, bins: int, extent: int, arguments: dict[str, Any]
) -> list[tuple[Array, Array, Array]]:
    """(cells, weights, bins) of the lower, then the upper neighbours of all samples of an axis."""
    least = -np.inf if arguments["aligned"] else 1.0
    rounded = np.maximum(stop - start, np.float32(least))
    count = arguments["samplingRatio"] or int(np.ceil(rounded / np.float32(bins)))
    if count <= 0:
        return []
    number, size = np.arange(bins * count), max(float(stop) - float(start), least)
    place = float(start) + (number + 0.5) * size / (bins * count)
    inside = (place >= -1) & (place <= extent)
    place = np.clip(place, 0, extent - 1)
    low = np.minimum(np.floor(place).astype(np.int64), extent - 1)
    high = np.minimum(low + 1, extent - 1)
    near, far = (1 - (place - low)) * inside / count, (place - low) * inside / count
    return [(low, near, number // count), (high, far, number // count)]


def torch_reference(arguments: dict[str, Any], torch: Any) -> Array:
    """The gradient in float64 by PyTorch: grid_sample with border padding, mask, mean, autograd.

    For boxes with equally many samples only (a positive samplingRatio).
    """
    images, channels, height, width = arguments["inputShape"]
    ratio, bins_y, bins_x = (
        arguments[name] for name in ("samplingRatio", "pooledHeight", "pooledWidth")
    )
    offset = np.float32(0.5 if arguments["aligned"] else 0)
    scaled = arguments["boxes"][:, 1:] * np.float32(arguments["spatialScale"]) - offset
    corners = torch.tensor(scaled.astype(np.float64))
    ids = torch.tensor(np.floor(arguments["boxes"][:, 0]).astype(np.int64))
    grids, masks = [], []
    for axis, bins, extent in ((0, bins_x, width), (1, bins_y, height)):
        start, size = corners[:, axis], corners[:, axis + 2] - corners[:, axis]
        if not arguments["aligned"]:
            size = size.clamp(min=1)
        steps = (torch.arange(bins * ratio, dtype=torch.float64) + 0.5) / (bins * ratio)
        place = start[:, None] + steps * size[:, None]
        masks.append((place >= -1) & (place <= extent))
        grids.append(2 * place / max(extent - 1, 1) - 1)
    x, y = grids
    grid = torch.stack(
        (x[:, None, :].expand(-1, y.shape[1], -1), y[:, :, None].expand(-1, -1, x.shape[1])), dim=-1
    )
    found = torch.zeros((images, channels, height, width), dtype=torch.float64, requires_grad=True)
    sampled = torch.nn.functional.grid_sample(
        found[ids], grid, mode="bilinear", padding_mode="border", align_corners=True
    )
    sampled = sampled * (masks[1][:, None, :, None] & masks[0][:, None, None, :])
    pooled = sampled.reshape(len(ids), channels, bins_y, ratio, bins_x, ratio).mean((3, 5))
    pooled.backward(torch.tensor(arguments["gradOutput"].astype(np.float64)))
    assert found.grad is not None
    return np.asarray(found.grad.numpy())
