"""Multi-scale deformable attention: arguments for its gradient, and an oracle of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from npusim.values.dtypes import dtype
from support.inputs import Array, generator, numpy_kind

DEFORMABLE = "aclnnMultiScaleDeformableAttentionGrad"

Maps = Sequence[tuple[int, int]]

_AT_ONCE = 1 << 14  # points that the oracle looks at together


def deformable(
    maps: Maps,
    *,
    batch: int = 1,
    queries: int = 5,
    heads: int = 2,
    channels: int = 8,
    points: int = 2,
    kind: str = "float32",
    index: str = "int32",
    where: tuple[float, float] = (-0.2, 1.2),
    seed: int = 1,
) -> dict[str, Any]:
    """Maps one after the other, and points spread evenly over ``where`` of each."""
    random, numpy = generator(seed), numpy_kind(kind)
    shapes = np.array(maps, numpy_kind(index)).reshape(-1, 2)
    cells = shapes.prod(axis=1)
    keys, places = int(cells.sum()), (batch, queries, heads, len(shapes), points)
    return {
        "value": random.standard_normal((batch, keys, heads, channels)).astype(numpy),
        "spatialShape": shapes,
        "levelStartIndex": (np.cumsum(cells) - cells).astype(shapes.dtype),
        "location": random.uniform(*where, (*places, 2)).astype(numpy),
        "attnWeight": random.uniform(0.0, 1.0, places).astype(numpy),
        "gradOutput": random.standard_normal((batch, queries, heads * channels)).astype(numpy),
    }


def reference(arguments: dict[str, Any]) -> dict[str, Array]:
    """The gradients in float64 from the closed form, point by point and corner by corner.

    Where a point lies is decided in float32: it is a matter of rounding which side of a cell's
    border it is on, and the gradient with respect to its location jumps there.
    """
    value, weight = (arguments[name].astype(np.float64) for name in ("value", "attnWeight"))
    _, keys, heads, channels = value.shape
    gradient = arguments["gradOutput"].astype(np.float64).reshape(-1, channels)
    rows, wide = value.reshape(-1, channels), weight.size
    grad_rows, grad_location = np.zeros_like(rows), np.zeros((wide, 2))
    grad_weight = np.zeros(wide)
    for first in range(0, wide, _AT_ONCE):
        point = np.arange(first, min(first + _AT_ONCE, wide))
        b, q, h, level, _ = np.unravel_index(point, weight.shape)
        shape = arguments["spatialShape"][level].astype(np.int64)
        size = shape[:, ::-1].astype(np.float32)  # width for x, height for y
        xy = arguments["location"].reshape(-1, 2)[point].astype(np.float32)
        at = xy * size - np.float32(0.5)
        inside = ((at > -1) & (at < size)).all(axis=1)
        cell = np.floor(np.where(inside[:, None], at, 0)).astype(np.int64)
        across, down = (at.astype(np.float64) - cell).T
        top = gradient[(b * weight.shape[1] + q) * heads + h]
        a = weight.reshape(-1)[point]
        for right in (0, 1):
            for low in (0, 1):
                column, line = cell[:, 0] + right, cell[:, 1] + low
                there = inside & (column >= 0) & (column < shape[:, 1])
                there &= (line >= 0) & (line < shape[:, 0])
                key = arguments["levelStartIndex"][level] + line * shape[:, 1] + column
                row = np.where(there, (b * keys + key) * heads + h, 0)
                x_part, y_part = (across if right else 1 - across), (down if low else 1 - down)
                share = np.where(there, x_part * y_part, 0)
                met = np.einsum("pc,pc->p", top, rows[row]) * there
                grad_weight[point] += share * met
                grad_location[point, 0] += a * size[:, 0] * met * y_part * (1 if right else -1)
                grad_location[point, 1] += a * size[:, 1] * met * x_part * (1 if low else -1)
                order = np.argsort(row, kind="stable")
                met_rows, starts = np.unique(row[order], return_index=True)
                amounts = (share * a)[order, None] * top[order]
                grad_rows[met_rows] += np.add.reduceat(amounts, starts)
    return {
        "gradValue": grad_rows.reshape(value.shape),
        "gradLocation": grad_location.reshape(arguments["location"].shape),
        "gradAttnWeight": grad_weight.reshape(weight.shape),
    }


def torch_reference(arguments: dict[str, Any], torch: Any) -> dict[str, Array]:
    """The gradients in float64 by PyTorch: grid_sample per level, weighted and summed, autograd."""
    names = ("value", "location", "attnWeight")
    value, location, weight = (
        torch.tensor(arguments[name].astype(np.float64), requires_grad=True) for name in names
    )
    batch, _, heads, channels = value.shape
    queries, points = location.shape[1], location.shape[4]
    grid = (2 * location - 1).permute(0, 2, 3, 1, 4, 5).flatten(0, 1)
    sampled = []
    for level, (height, width) in enumerate(arguments["spatialShape"].tolist()):
        start = int(arguments["levelStartIndex"][level])
        cells = value[:, start : start + height * width]
        image = cells.permute(0, 2, 3, 1).reshape(batch * heads, channels, height, width)
        sampled.append(
            torch.nn.functional.grid_sample(
                image, grid[:, level], mode="bilinear", padding_mode="zeros", align_corners=False
            )
        )
    found = torch.stack(sampled, dim=-2).flatten(
        -2
    )  # [batch * heads, channels, queries, all points]
    weights = weight.permute(0, 2, 1, 3, 4).reshape(batch * heads, 1, queries, -1)
    assert found.shape[-1] == len(sampled) * points
    result = (found * weights).sum(-1).view(batch, heads * channels, queries).transpose(1, 2)
    gradient = torch.tensor(arguments["gradOutput"].astype(np.float64))
    result.backward(gradient.reshape(result.shape))
    outputs = ("gradValue", "gradLocation", "gradAttnWeight")
    leaves = zip(outputs, (value, location, weight), strict=True)
    return {name: leaf.grad.numpy() for name, leaf in leaves}


def as_outputs(arguments: dict[str, Any], wanted: dict[str, Array]) -> dict[str, Array]:
    """A float64 reference in the dtype of the operator's outputs."""
    numpy = dtype(arguments["value"].dtype).numpy
    return {name: array.astype(numpy) for name, array in wanted.items()}
