"""What the boxes ask of every core: how many samples where, from the boxes themselves or assumed.

Cores whose boxes ask for different things would each need an instruction stream of their own. The
task ends with its busiest core, so that one keeps its own; all others do what they have to do on
average: so much of what the busiest does, or with few unlike boxes, as many average boxes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from npusim.values.errors import DeviceFault
from npusim.values.status import AclError

if TYPE_CHECKING:
    from npusim.ops.roi_align_v2_backward.tiling import Share, Tiling

_MOST_SAMPLES = 2**24  # along an axis of a box: beyond it float32 can't number them
_MANY_BOXES = 12  # on the busiest core: from here on taking out whole boxes is fine enough
_EXACT_HEIGHTS = 6  # of boxes in one share, counted in samples

Floats = NDArray[np.float32]
Whole = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Attributes:
    """The attributes that place the samples; `ratio` 0 leaves their number to each box."""

    scale: float
    ratio: int
    aligned: bool


class Samples(NamedTuple):
    """For each box: samples per bin along y and x (0: it has none), cells they touch, its image."""

    y: Whole
    x: Whole
    rows: tuple[Whole, Whole]
    columns: tuple[Whole, Whole]
    image: Whole


class Group(NamedTuple):
    """Boxes that are alike: samples per bin along y, sample columns, columns of the map touched.

    `first_slice` and `slices` say which part of its boxes the core works on.
    """

    boxes: int
    first_slice: int
    slices: int
    samples_y: int
    columns: int
    span: int


class Schedule:
    """The groups of boxes of each core; `sharers` cores meet in a line that one stores to."""

    def __init__(
        self, tiling: Tiling, groups: Callable[[Share], Iterator[Group]], sharers: float
    ) -> None:
        self.sharers = sharers
        own = [
            tuple(group for share in tiling.shares(block) for group in groups(share))
            for block in range(tiling.block_dim)
        ]
        weights = [sum(_weight(group, tiling) for group in groups) for groups in own]
        ranks = list(zip(weights, map(_reach, own), strict=True))
        self._busiest = ranks.index(max(ranks))
        most = own.pop(self._busiest)
        self._usual = self._most = most
        if len({most, *own}) == 1:
            return
        kinds = {(group.samples_y, group.columns) for groups in (most, *own) for group in groups}
        if len(kinds) > 1 and sum(group.boxes for group in most) < _MANY_BOXES:
            self._usual = tuple(_average(own))
            return
        # What all cores do comes first, so that they stay in step as long as they can.
        factor = (sum(weights) - max(weights)) / len(own) / max(weights)
        ordered = sorted(most, key=lambda group: _weight(group, tiling) / group.boxes, reverse=True)
        usual, rest = _scaled(ordered, factor, tiling)
        self._most = usual + rest
        widest = max((group.span for groups in own for group in groups), default=1)
        self._usual = tuple(_stretched(usual, sum(map(_reach, own)) / len(own), widest))

    def groups(self, block: int) -> tuple[Group, ...]:
        """What a core does, or one like it."""
        return self._most if block == self._busiest else self._usual


def measured(tiling: Tiling, samples: Samples) -> Schedule:
    """The schedule of boxes that are known."""

    def groups(share: Share) -> Iterator[Group]:
        here = slice(share.first_box, share.first_box + share.boxes)
        y, x = samples.y[here], samples.x[here]
        first, last = samples.columns
        span = (last[here] - first[here] + 1) * tiling.sums_rows
        used = y > 0
        if not used.all():
            yield Group(int((~used).sum()), share.first_slice, share.slices, 0, 0, 0)
        for boxes, *sizes in _alike(y[used], x[used] * tiling.bins_x, span[used]):
            yield Group(boxes, share.first_slice, share.slices, *sizes)

    return Schedule(tiling, groups, _sharers(tiling, samples))


def assumed(tiling: Tiling, samples_per_bin: int, pixels_per_bin: float) -> Schedule:
    """The schedule of boxes that are all alike and spread evenly over the map."""
    span = min(tiling.width, ceil(pixels_per_bin * tiling.bins_x) + 1) * tiling.sums_rows
    columns = samples_per_bin * tiling.bins_x

    def groups(share: Share) -> Iterator[Group]:
        yield Group(share.boxes, share.first_slice, share.slices, samples_per_bin, columns, span)

    lines = tiling.images * tiling.height * ceil(tiling.width / tiling.line_columns)
    return Schedule(tiling, groups, 1 + (tiling.block_dim - 1) / lines)


def samples_of(boxes: Floats, tiling: Tiling, attributes: Attributes) -> Samples:
    """Where the samples of `boxes` (rows of id, x1, y1, x2, y2) lie, reckoned as by the kernel."""
    boxes = np.asarray(boxes, np.float32)
    with np.errstate(all="ignore"):
        image = np.nan_to_num(np.floor(boxes[:, 0]), nan=-1).clip(-1, tiling.images)
        corners = boxes[:, 1:] * np.float32(attributes.scale)
        if attributes.aligned:
            corners += np.float32(-0.5)
        x, columns = _axis(corners[:, 0], corners[:, 2], tiling.bins_x, tiling.width, attributes)
        y, rows = _axis(corners[:, 1], corners[:, 3], tiling.bins_y, tiling.height, attributes)
    used = (image >= 0) & (image < tiling.images) & (x > 0) & (y > 0)
    many = np.maximum(x * tiling.bins_x, y * tiling.bins_y) > _MOST_SAMPLES
    for box in np.flatnonzero(used & many):
        raise DeviceFault(
            AclError.ACL_ERROR_RT_VECTOR_CORE_EXCEPTION,
            f"box {box} asks for {y[box]} x {x[box]} samples per bin, the task never ends",
            "Check the boxes, or give a samplingRatio.",
        )
    return Samples(y * used, x * used, rows, columns, image.astype(np.int64))


def _axis(
    start: Floats, stop: Floats, bins: int, extent: int, attributes: Attributes
) -> tuple[Whole, tuple[Whole, Whole]]:
    """Samples per bin along an axis, and the first and last cell that the samples touch."""
    size = stop - start
    if not attributes.aligned:
        size = np.maximum(size, np.float32(1))
    bin_size = size / np.float32(bins)
    if attributes.ratio:
        count = np.full(len(size), attributes.ratio, np.int64)
    else:
        count = np.nan_to_num(np.ceil(bin_size)).clip(0, 2**31).astype(np.int64)
    inset = bin_size / (2 * np.maximum(count, 1))
    ends = np.sort(np.nan_to_num(np.stack((start + inset, start + size - inset))), axis=0)
    cells = np.floor(ends).clip(0, extent - 1).astype(np.int64)
    return count, (cells[0], np.minimum(cells[1] + 1, extent - 1))


def _alike(y: Whole, columns: Whole, span: Whole) -> Iterator[tuple[int, int, int, int]]:
    """(boxes, samples per bin along y, columns, span) of a few groups that have as many samples."""
    heights = np.unique(y)
    if len(heights) > _EXACT_HEIGHTS:
        steps = np.arange(1, _EXACT_HEIGHTS + 1) / _EXACT_HEIGHTS
        heights = np.unique(np.quantile(y, steps, method="higher"))
    bucket = np.searchsorted(heights, y)
    for index in np.unique(bucket):
        here = bucket == index
        tall = y[here]
        wide = float((tall * columns[here]).sum() / tall.sum())
        reach, longer = divmod(int(span[here].sum()), len(tall))
        for rows, boxes in _around(float(tall.mean()), len(tall)):
            for width, number in _around(wide, boxes):
                more = min(number, longer)
                longer -= more
                for columns_, some in ((reach + 1, more), (reach, number - more)):
                    if some:
                        yield some, rows, width, columns_


def _around(mean: float, count: int) -> Iterator[tuple[int, int]]:
    """The whole numbers next to a mean, and how many of `count` to take of each to keep the sum."""
    low = int(mean + 1e-9)
    more = round((mean - low) * count)
    for value, number in ((low, count - more), (low + 1, more)):
        if number > 0:
            yield value, number


def _scaled(
    groups: list[Group], factor: float, tiling: Tiling
) -> tuple[tuple[Group, ...], tuple[Group, ...]]:
    """Groups with `factor` times the weight, and what is left; rounding is made up by the next."""
    parts: tuple[list[Group], list[Group]] = ([], [])
    owed = 0.0
    for group in groups:
        each = _weight(group, tiling) / group.boxes
        owed += group.boxes * each * factor
        boxes = min(group.boxes, max(0, round(owed / each)))
        owed -= boxes * each
        for part, number in zip(parts, (boxes, group.boxes - boxes), strict=True):
            if number:
                part.append(group._replace(boxes=number))
    return tuple(parts[0]), tuple(parts[1])


def _stretched(groups: Iterable[Group], reach: float, widest: int) -> Iterator[Group]:
    """Groups that store as much as `reach` says, no row wider than `widest`.

    Rounding to columns is made up by the next.
    """
    groups = tuple(groups)
    factor = reach / (_reach(groups) or 1)
    owed = 0.0
    for group in groups:
        each = group.samples_y * group.slices
        if not each * group.span:
            yield group
            continue
        owed += factor * _reach((group,))
        span = min(float(widest), max(1.0, owed / each / group.boxes))
        for columns, boxes in _around(span, group.boxes):
            found = group._replace(boxes=boxes, span=columns)
            owed -= _reach((found,))
            yield found


def _average(cores: list[tuple[Group, ...]]) -> Iterator[Group]:
    """What a core does on average: as many boxes, rows, and samples of slices."""
    groups = [group for core in cores for group in core]
    used = [group for group in groups if group.samples_y]
    boxes = sum(group.boxes for group in used)
    skipped = round((sum(group.boxes for group in groups) - boxes) / len(cores))
    if skipped:
        yield Group(skipped, 0, 1, 0, 0, 0)
    if not boxes:
        return
    each = max(1, round(boxes / len(cores)))
    slices = max(1, round(sum(group.boxes * group.slices for group in used) / boxes))
    span = round(sum(group.boxes * group.span for group in used) / boxes)
    rows = sum(group.boxes * group.samples_y for group in used) / boxes
    tall = list(_around(rows, each))
    samples = sum(group.boxes * group.samples_y * group.columns * group.slices for group in used)
    wide = samples / len(cores) / slices / sum(height * number for height, number in tall)
    found = (
        Group(some, 0, slices, height, columns, span)
        for height, number in tall
        for columns, some in _around(max(1.0, wide), number)
    )
    yield from _stretched(found, _reach(used) / len(cores), max(group.span for group in used))


def _weight(group: Group, tiling: Tiling) -> float:
    """About how long a group takes, to rank: samples, and what rows and boxes cost beside."""
    rows = group.samples_y * tiling.bins_y
    return group.boxes * (20 + rows * (group.columns + 2) * (8 + group.slices))


def _reach(groups: Iterable[Group]) -> int:
    """What groups store: columns of the map, for every row of samples of every slice."""
    return sum(group.boxes * group.samples_y * group.slices * group.span for group in groups)


def _sharers(tiling: Tiling, samples: Samples) -> float:
    """Cores that are expected in a line of the map when some core writes to it, itself included.

    Every box writes evenly to the lines that it covers, for as long as it has samples. Two boxes on
    different cores meet with the product of their shares in a line; slices of one box never meet.
    """
    used = samples.y > 0
    weight = (samples.y * samples.x)[used].astype(np.float64)
    weight /= weight.sum() or 1.0
    alone = float((weight * weight).sum())
    if tiling.block_dim == 1 or not used.any() or alone > 1 - 1e-9:
        return 1.0
    top, bottom = (edge[used] for edge in samples.rows)
    left, right = (edge[used] // tiling.line_columns for edge in samples.columns)
    image, area = samples.image[used], (bottom - top + 1) * (right - left + 1)
    lines = ceil(tiling.width / tiling.line_columns)
    corners = np.zeros((tiling.images, tiling.height + 1, lines + 1))
    for rows, columns, sign in (
        (top, left, 1),
        (bottom + 1, left, -1),
        (top, right + 1, -1),
        (bottom + 1, right + 1, 1),
    ):
        np.add.at(corners, (image, rows, columns), sign * weight / area)
    density = corners.cumsum(axis=1).cumsum(axis=2)
    together = float((density * density).sum() - (weight * weight / area).sum())
    return 1.0 + (tiling.block_dim - 1) * max(0.0, together) / (1 - alone)
