"""Whether the iterations of a loop that are computed at once meet in global memory.

A body's copies are then executed one after the other, each for all iterations. That changes what is
stored or read only where a later iteration's earlier copy and an earlier iteration's later copy
touch one place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.ascendc.gm_slices import GmSlice

_MOST = 1 << 22  # elements that are compared one by one; beyond, tiles count with their gaps
_MOST_COPIES = 200  # of a body, with those of sequential loops in it; more aren't compared


class _Places(NamedTuple):
    """Ranges of addresses, and the number of the iteration that each belongs to."""

    first: NDArray[np.int64]
    end: NDArray[np.int64]
    turn: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Access:
    """A copy within ``depth`` loops that ``writes`` a slice of global memory, or ``adds`` to it."""

    place: GmSlice
    depth: int
    writes: bool
    adds: bool
    site: str


def conflict(accesses: Sequence[Access], level: int) -> tuple[Access, Access] | None:
    """Two of a body's copies, in their order, that meet across iterations of the loop ``level``."""
    for first, second in combinations(accesses[:_MOST_COPIES], 2):
        harmless = not (first.writes or second.writes) or (first.adds and second.adds)
        if not harmless and _meet(first, second, level):
            return first, second
    return None


def _meet(first: Access, second: Access, level: int) -> bool:
    """Whether a later iteration's ``first`` touches what an earlier one's ``second`` does."""
    pair = first.place, second.place
    held = [place.memory() for place in pair]
    if not np.may_share_memory(held[0], held[1]):
        return False
    starts = [
        data.__array_interface__["data"][0] + each.place.starts(each.depth) * data.itemsize
        for each, data in zip((first, second), held, strict=True)
    ]
    sizes = [data.itemsize for data in held]
    around = np.broadcast_shapes(*(each.shape[: level + 1] for each in starts))
    tiles = [place.offsets().reshape(-1) * size for place, size in zip(pair, sizes, strict=True)]
    boxes = [_boxes(tile, size) for tile, size in zip(tiles, sizes, strict=True)]
    lowest = min(int(each.min()) + box[0][0] for each, box in zip(starts, boxes, strict=True))
    apart = (
        max(int(each.max()) + box[1][0] for each, box in zip(starts, boxes, strict=True)) - lowest
    )
    found = _overlap_later(
        *(_places(each, around, box, apart) for each, box in zip(starts, boxes, strict=True))
    )
    many = max(each.size * tile.size for each, tile in zip(starts, tiles, strict=True)) > _MOST
    if not found or many or all(place.is_dense for place in pair):
        return found
    points = [(tile, tile + size) for tile, size in zip(tiles, sizes, strict=True)]
    return _overlap_later(
        *(
            _places(each, around, each_of, apart)
            for each, each_of in zip(starts, points, strict=True)
        )
    )


def _boxes(tile: NDArray[np.int64], size: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The one range that has all elements of a tile, and perhaps gaps."""
    return tile.min(keepdims=True), tile.max(keepdims=True) + size


def _places(
    starts: NDArray[np.int64],
    around: tuple[int, ...],
    ranges: tuple[NDArray[np.int64], NDArray[np.int64]],
    apart: int,
) -> _Places:
    """Where ranges of a tile lie in all iterations; those of outer loops lie ``apart``."""
    level = len(around) - 1
    inner = starts.shape[level + 1 :]
    outer, turns = int(np.prod(around[:level])), around[level]
    moved = np.broadcast_to(starts, (*around, *inner)).reshape(outer, turns, -1, 1)
    moved = moved + (np.arange(outer) * apart).reshape(-1, 1, 1, 1)
    turn = np.arange(turns).reshape(1, -1, 1, 1)
    first, end, turn = np.broadcast_arrays(moved + ranges[0], moved + ranges[1], turn)
    return _Places(first.reshape(-1), end.reshape(-1), turn.reshape(-1))


def _overlap_later(first: _Places, second: _Places) -> bool:
    """Whether one of ``first`` overlaps with one of ``second`` that belongs to an earlier turn.

    All ranges of either are of the same length, so those that one overlaps with are neighbours.
    """
    order = np.argsort(second.first, kind="stable")
    begins = np.searchsorted(second.end[order], first.first, "right")
    ends = np.searchsorted(second.first[order], first.end, "left")
    turns = np.append(second.turn[order], np.iinfo(np.int64).max)
    earliest = np.minimum.reduceat(turns, np.stack([begins, ends], 1).reshape(-1))[::2]
    return bool(((begins < ends) & (first.turn > earliest)).any())
