"""Where the sampling points lie: which cells each of them touches, how often cores meet there.

A point's *corners* are the cells around it that lie in the map, as bits: 1 for the upper left one,
2 upper right, 4 lower left, 8 lower right. Four corners make an interior point; two or one lie at
the border; none is outside.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from npusim.values.errors import DeviceFault
from npusim.values.status import AclError

if TYPE_CHECKING:
    from npusim.ops.multi_scale_deformable_attention_grad.tiling import Tiling

INTERIOR = 15  # all four corners

_AT_ONCE = 1 << 18  # points looked at together
_SAMPLE = 1 << 14  # points from which meetings of cores are estimated
_MOMENTS = 16  # parts of a core's work that are compared with the same part of the others' work
_NUMBER_OF_CORNERS = np.array([corners.bit_count() for corners in range(INTERIOR + 1)])

Floats = NDArray[np.float32]
Whole = NDArray[np.int64]


class Mix(NamedTuple):
    """How many points of each kind: with four corners, with two, with one, with none."""

    interior: int
    edge: int
    corner: int
    outside: int

    @property
    def total(self) -> int:
        """Points of all kinds."""
        return sum(self)


class Shares(NamedTuple):
    """What to suppose where there is no data.

    ``inside`` is the share of points in the maps, ``border`` the share of those that have two
    corners there, and ``sharers`` the number of cores that store to one L2 line at a time.
    """

    inside: float
    border: float
    sharers: float


@dataclass(frozen=True, eq=False, slots=True)
class Survey:
    """The points of every core by kind, and how many cores store to one L2 line at a time.

    ``corners`` holds the bits of every point, numbered (batch, head, level, point, query); None
    where there is no data.
    """

    mixes: tuple[Mix, ...]
    sharers: float
    corners: NDArray[np.uint8] | None = None


@dataclass(frozen=True, eq=False, slots=True)
class Maps:
    """What the device reads to find the points.

    ``location`` is [batch, heads, levels, points, 2, queries] with x before y; ``shapes`` holds
    height and width of every level, ``starts`` its first key.
    """

    location: NDArray[Any]
    shapes: NDArray[np.integer[Any]]
    starts: NDArray[np.integer[Any]]


class _Cells(NamedTuple):
    """Row and column of the upper left cells, and the corner bits; all shaped alike."""

    top: Whole
    left: Whole
    corners: NDArray[np.uint8]


def suppose(tiling: Tiling, shares: Shares) -> Survey:
    """A survey without data: every core has the same shares of points."""

    def mix(points: int) -> Mix:
        inside = round(points * shares.inside)
        edge = round(inside * shares.border)
        return Mix(inside - edge, edge, 0, points - inside)

    blocks = range(tiling.block_dim)
    return Survey(tuple(mix(len(tiling.points_of(block))) for block in blocks), shares.sharers)


def look(tiling: Tiling, maps: Maps, line_bytes: int) -> Survey:
    """A survey of the data; raises DeviceFault (507035) where a point needs a key outside value."""
    sizes = tiling.sizes
    maps = Maps(maps.location, maps.shapes.astype(np.int64), maps.starts.astype(np.int64))
    corners = np.empty(
        (sizes.batch * sizes.heads, sizes.levels, sizes.points, sizes.queries), np.uint8
    )
    location = maps.location.reshape((*corners.shape[:3], 2, sizes.queries))
    step = max(1, _AT_ONCE // (sizes.points * sizes.queries))
    with np.errstate(all="ignore"):  # points may be anywhere, even at infinity
        for level in range(sizes.levels):
            for first in range(0, len(corners), step):
                part = slice(first, first + step)
                xy = location[part, level]
                cells = _find(xy[:, :, 0], xy[:, :, 1], maps.shapes[level])
                corners[part, level] = cells.corners
                _check_keys(cells, maps, level, sizes.keys)
        flat = corners.reshape(-1)
        sharers = 1.0 + _meetings(tiling, maps, line_bytes)
    mixes = tuple(_count(flat, tiling.points_of(block)) for block in range(tiling.block_dim))
    return Survey(mixes, sharers, flat)


def _find(x: NDArray[Any], y: NDArray[Any], shape: NDArray[Any]) -> _Cells:
    """The cells around points, in float32 as the kernel computes them."""
    height, width = (np.asarray(size, np.int64) for size in np.moveaxis(shape, -1, 0))
    u = _scaled(x, width)
    v = _scaled(y, height)
    inside = (u > -1) & (v > -1) & (u < width.astype(np.float32)) & (v < height.astype(np.float32))
    left = np.floor(np.where(inside, u, np.float32(0))).astype(np.int64)
    top = np.floor(np.where(inside, v, np.float32(0))).astype(np.int64)
    has_left, has_right = inside & (left >= 0), inside & (left < width - 1)
    has_top, has_bottom = top >= 0, top < height - 1
    corners = (has_left & has_top).astype(np.uint8)
    corners |= (has_right & has_top).astype(np.uint8) << np.uint8(1)
    corners |= (has_left & has_bottom).astype(np.uint8) << np.uint8(2)
    corners |= (has_right & has_bottom).astype(np.uint8) << np.uint8(3)
    return _Cells(top, left, corners)


def _scaled(place: NDArray[Any], size: Whole) -> Floats:
    scaled = place.astype(np.float32, copy=False) * size.astype(np.float32)
    return scaled - np.float32(0.5)


def _check_keys(cells: _Cells, maps: Maps, level: int, keys: int) -> None:
    """Look for points that need a key outside 0 <= key < keys."""
    height, width = (int(size) for size in maps.shapes[level])
    start = int(maps.starts[level])
    if start >= 0 and start + height * width <= keys:
        return
    touching = cells.corners > 0
    lowest = start + np.maximum(cells.top, 0) * width + np.maximum(cells.left, 0)
    bottom, right = np.minimum(cells.top + 1, height - 1), np.minimum(cells.left + 1, width - 1)
    highest = start + bottom * width + right
    for key, is_outside in ((lowest, lowest < 0), (highest, highest >= keys)):
        found = touching & is_outside
        if found.any():
            _fault(int(key[found][0]), keys, level, (height, width), start)


def _fault(key: int, keys: int, level: int, shape: tuple[int, int], start: int) -> NoReturn:
    height, width = shape
    raise DeviceFault(
        AclError.ACL_ERROR_RT_VECTOR_CORE_EXCEPTION,
        f"vector core exception in MultiScaleDeformableAttentionGrad: level {level} ({height} x"
        f" {width} cells from key {start}) addresses key {key}, value has {keys}",
        "Let spatialShape and levelStartIndex describe maps that lie within the keys of value.",
    )


def _count(corners: NDArray[np.uint8], points: range) -> Mix:
    """The points of one core by their number of corners."""
    cases = np.bincount(corners[points.start : points.stop], minlength=INTERIOR + 1)
    by_number = np.bincount(_NUMBER_OF_CORNERS, weights=cases, minlength=5).astype(int)
    return Mix(int(by_number[4]), int(by_number[2]), int(by_number[1]), int(by_number[0]))


def _meetings(tiling: Tiling, maps: Maps, line_bytes: int) -> float:
    """How many other cores are expected to add into the same line as a store, on average.

    A point's stores are under way together. Taken as if every core always had a point's stores
    under way: at any moment of the kernel, one of the points that it works on around that moment.
    Estimated from evenly spaced points.
    """
    if tiling.block_dim == 1:
        return 0.0
    turns, turn, line = _stores(tiling, maps, line_bytes)
    if not len(line):
        return 0.0
    lines = int(line.max()) + 1
    visits, count = np.unique(turn * lines + line, return_counts=True)
    turn, line = np.divmod(visits, lines)
    likely = np.minimum(1.0, count / turns[turn])  # that a core has the line under way
    _, meeting = np.unique(turn // tiling.block_dim * lines + line, return_inverse=True)
    together = np.bincount(meeting, weights=likely)[meeting]
    return float(np.average(together - likely, weights=count))


def _stores(tiling: Tiling, maps: Maps, line_bytes: int) -> tuple[Whole, Whole, Whole]:
    """The stores that evenly spaced points make: turn and line of gradValue of each.

    A turn is one core's work around one moment; the first result counts the points of each.
    """
    sizes = tiling.sizes
    point = np.arange(0, sizes.sampled, max(1, sizes.sampled // _SAMPLE) | 1)
    plane, query = np.divmod(point, sizes.queries)
    place = np.unravel_index(plane, (sizes.batch, sizes.heads, sizes.levels, sizes.points))
    batch, head, level, _ = place
    cells = _find(
        maps.location[(*place, 0, query)], maps.location[(*place, 1, query)], maps.shapes[level]
    )
    task = plane * tiling.blocks + query // tiling.queries_per_task
    core, position = np.divmod(task, tiling.tasks_per_core)
    moment = position * min(_MOMENTS, tiling.tasks_per_core) // tiling.tasks_per_core
    turn = moment * tiling.block_dim + core
    found = []
    for corner in range(4):
        down, across = divmod(corner, 2)
        there = (cells.corners >> corner) & 1 == 1
        key = maps.starts[level] + (cells.top + down) * maps.shapes[level, 1] + cells.left + across
        row = (batch * sizes.keys + key) * sizes.heads + head
        line = row * sizes.channels * 4 // line_bytes
        found.append((turn[there], line[there]))
    turns, lines = (np.concatenate(each) for each in zip(*found, strict=True))
    return np.bincount(turn[cells.corners > 0]), turns, lines
