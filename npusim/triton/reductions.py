"""linalg.reduce: one operation along some axes, or a body of several."""

from __future__ import annotations

from functools import partial
from math import ceil, prod
from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.ascendc import LocalTensor
from npusim.ascendc.folds import LARGEST, PRODUCT, SMALLEST, SUM, Fold
from npusim.triton import numbers
from npusim.triton.bodies import folded
from npusim.triton.vector import new_tile
from npusim.values.dtypes import BFLOAT16, BOOL, FLOAT, FLOAT16, INT8, INT16, INT64

if TYPE_CHECKING:
    from npusim.triton.copies import Copies
    from npusim.triton.held import Tile
    from npusim.triton.mlir import Operation

_FOLDS: dict[str, Fold] = {
    "arith.addf": SUM, "arith.addi": SUM, "arith.mulf": PRODUCT, "arith.muli": PRODUCT,
    "arith.maxnumf": LARGEST, "arith.maximumf": LARGEST, "arith.maxsi": LARGEST,
    "arith.minnumf": SMALLEST, "arith.minimumf": SMALLEST, "arith.minsi": SMALLEST,
}  # fmt: skip
_WIDE = {BFLOAT16: FLOAT, BOOL: FLOAT16, INT8: FLOAT16, INT16: FLOAT}


def play(player: Copies, operation: Operation) -> None:
    """Copies folded along axes."""
    count = len(operation.ins)
    sources = [player.tile(each) for each in operation.ins]
    starts = [player.tile(each) for each in operation.outs]
    axes = tuple(int(each) for each in operation.lists[-1])  # type: ignore[arg-type]
    body = operation.regions[0].operations
    fold = _FOLDS.get(body[0].name) if count == 1 and len(body) == 2 else None
    found: list[Any] = []
    if player.core.numerics:
        arrays = [player.array(each) for each in sources]
        with np.errstate(all="ignore"):
            if fold is not None:
                found = [_at_once(player, body[0], arrays[0], starts[0], axes)]
            else:
                found = _one_by_one(player, operation, arrays, starts, axes)
    for index in range(count):
        tile = player.result(operation, partial(_nth, found, index), [starts[index]], index)
        if player.core.recording and not index:
            with player.core.schedules():
                _write_down(player, tile, sources[0], axes, fold, len(body) - 1)
        elif player.core.recording and tile.local is not None:
            player.core.filled(tile.local)


def _at_once(
    player: Copies, operation: Operation, values: Any, start: Tile, axes: tuple[int, ...]
) -> Any:
    fold = _FOLDS[operation.name]
    for axis in sorted(axes, reverse=True):
        values = fold.function.reduce(values, axis=axis, dtype=values.dtype)
    if _is_empty(start):
        return values
    row = numbers.BINARY[operation.name.partition(".")[2]]
    return row.compute(values, player.array(start))


def _is_empty(start: Tile) -> bool:
    """Whether nothing has been put where a reduction begins: it begins with the first element."""
    return start.number is None and start.array is None


def _one_by_one(
    player: Copies,
    operation: Operation,
    arrays: list[Any],
    starts: list[Tile],
    axes: tuple[int, ...],
) -> list[Any]:
    rest = [axis for axis in range(arrays[0].ndim) if axis not in axes]
    lines = [each.transpose([*axes, *rest]) for each in arrays]
    length = prod(arrays[0].shape[axis] for axis in axes)
    lines = [each.reshape(length, *each.shape[len(axes) :]) for each in lines]
    first = int(all(map(_is_empty, starts)))
    so_far: list[Any] = (
        [each[0] for each in lines] if first else [player.array(each) for each in starts]
    )
    for index in range(first, length):
        here = [each[index] for each in lines]
        so_far = folded(operation.regions[0], here, so_far, player.env, player.unknown)
    return so_far


def _write_down(
    player: Copies, tile: Tile, source: Tile, axes: tuple[int, ...], fold: Fold | None, steps: int
) -> None:
    core, target = player.core, tile.local
    if target is None:
        return
    own = player.local(source)
    shape = own.shape
    if source.dtype is INT64:
        player.vector.by_scalar("reduce", own, 1)
        core.filled(target)
        return
    wide = _WIDE.get(source.dtype, source.dtype)
    if wide is not source.dtype:
        cast = new_tile(core, wide, shape, "tile")
        player.vector.convert(cast, own)
        own = cast
    last = len(shape) - 1
    length = prod(shape[axis] for axis in axes)
    rest = max(1, own.numel // length)
    kind = fold or LARGEST
    times = 1 if fold is not None else max(1, steps)
    for _ in range(times):
        if last in axes:
            rows = LocalTensor(core, wide, (rest, length), "tile", own.slot, depth=0)
            result = LocalTensor(core, wide, (rest,), "tile", target.slot, depth=0)
            core.whole_reduce(kind, result, rows) if kind.final else _halves(player, rows)
        else:
            behind = prod(shape[max(axes) + 1 :])
            rows = LocalTensor(
                core, wide, (length * (rest // behind), behind), "tile", own.slot, depth=0
            )
            _halves_of_rows(player, rows, length, kind)
    core.filled(target)
    core.noted(target)


def _halves(player: Copies, rows: LocalTensor) -> None:
    """A fold that has no instruction within a repeat: halves down to the last one."""
    length = rows.shape[-1]
    for _ in range(numbers.halvings(length, 1)):
        length = ceil(length / 2)
        player.core.emit_vector("vmul", rows.dtype, length, rows=rows.shape[0], chained=True)


def _halves_of_rows(player: Copies, rows: LocalTensor, length: int, kind: Fold) -> None:
    """The lower half of the rows onto the upper one until one is left."""
    outer = rows.shape[0] // length
    while length > 1:
        length = ceil(length / 2)
        elements = length * rows.shape[1]
        player.core.emit_vector(kind.pairwise, rows.dtype, elements, rows=outer, chained=True)


def _nth(found: list[Any], index: int) -> Any:
    return found[index]
