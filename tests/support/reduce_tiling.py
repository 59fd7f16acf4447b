"""An independent reading of the public tiling of reductions for any shape: blocks of a launch.

It follows op_tiling/reduce_tiling step by step, axis after axis, and shares no code with the
kernels. Where a last axis is folded, results are stored one by one (recorded: 43 blocks of 6).
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from math import ceil, prod

_SMALL = 1024
_LANES = 8  # of a block, in float32


def blocks(
    shape: tuple[int, ...], axes: Iterable[int], cores: int, room: int, *, adds: bool
) -> int:
    """Blocks of a reduction of float32; ``adds`` where parts of results may be added up."""
    said = set(axes)
    named = [(size, axis in said) for axis, size in enumerate(shape) if size > 1]
    merged = [
        (prod(size for size, _ in group), folded)
        for folded, group in groupby(named, key=lambda each: each[1])
    ]
    lanes = 1 if merged[-1][1] else _LANES
    results = prod(size for size, folded in merged if not folded)
    folds = prod(size for size, folded in merged if folded)
    few = results * folds > _SMALL and 2 * results < cores * lanes and 2 * folds > cores
    tall = merged[0][1] and not merged[-1][1] and merged[0][0] >= cores
    if adds and results <= room and (few or (tall and merged[-1][0] < room)):
        return _added([size for size, folded in merged if folded], cores)
    return _kept(merged, cores, lanes)


def _added(folded: list[int], cores: int) -> int:
    before = 1
    for size in folded:
        if before * size >= cores:
            return before * ceil(size / ceil(size / (cores // before)))
        before *= size
    return before


def _kept(merged: list[tuple[int, bool]], cores: int, lanes: int) -> int:
    kept = [size for size, folded in merged if not folded]
    before = 1
    for axis, size in enumerate(kept):
        behind = prod(kept[axis + 1 :])
        if behind <= lanes and before * size < cores:
            length = ceil(lanes / behind)
            if before > 1:
                ends = (
                    each for each in range(length, size + 1) if _tail(size, each) * behind >= lanes
                )
                length = next(ends, size)
            return before * ceil(size / length)
        if before * size >= cores:
            length = ceil(size / (cores // before))
            if before == 1:
                length = max(length, ceil(lanes / behind))
            else:
                lengths = (ceil(size / parts) for parts in range(cores // before, 0, -1))
                length = next(each for each in lengths if _tail(size, each) * behind >= lanes)
            last = axis == len(kept) - 1 and not merged[-1][1]
            if last and size % _LANES == 0:
                length = ceil(length / _LANES) * _LANES
            return before * ceil(size / length)
        before *= size
    return 1


def _tail(size: int, length: int) -> int:
    return size % length or length
