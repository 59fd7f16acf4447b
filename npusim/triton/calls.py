"""Functions that the front half leaves to the device's library: order of tiles, libdevice."""

from __future__ import annotations

import re
import sys
from math import ceil, log2
from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.triton import numbers
from npusim.triton.held import UNKNOWN, Tile

if TYPE_CHECKING:
    from collections.abc import Callable

    from npusim.triton.copies import Copies
    from npusim.triton.mlir import Operation

_CALLEE = re.compile(r"@([\w.]+)")
_LIBRARY: dict[str, numbers.Row] = {
    "relu": numbers.Row(lambda x: np.maximum(x, x.dtype.type(0)), ("vrelu",)),
    "isnan": numbers.UNARY["isnan"],
    "isinf": numbers.Row(np.isinf, ("vabs", "vcmpv_eq")),
    "pow": numbers.POWER,
    "recip": numbers.Row(lambda x: np.divide(1, x, dtype=np.float32).astype(x.dtype), ("vrec",)),
    "log1p": numbers.UNARY["log1p"], "tanh": numbers.UNARY["tanh"], "tan": numbers.UNARY["tan"],
    "atan": numbers.UNARY["atan"], "trunc": numbers.UNARY["trunc"],
    "round": numbers.UNARY["round"], "rint": numbers.UNARY["roundeven"],
    "sqrt": numbers.UNARY["sqrt"], "rsqrt": numbers.UNARY["rsqrt"], "exp": numbers.UNARY["exp"],
    "fabs": numbers.UNARY["absf"], "erf": numbers.UNARY["erf"], "floor": numbers.UNARY["floor"],
    "ceil": numbers.UNARY["ceil"], "log": numbers.UNARY["log"], "sin": numbers.UNARY["sin"],
    "cos": numbers.UNARY["cos"], "div_rz": numbers.BINARY["divf"],
}  # fmt: skip


def play(player: Copies, operation: Operation) -> None:
    """One call."""
    name = _CALLEE.findall(operation.text)[0]
    if name.startswith("triton_"):
        stem = re.sub(r"_\d+$", "", name[len("triton_") :])
        if stem in _KNOWN:
            _KNOWN[stem](player, operation)
            return
    if name.startswith("__hmf_"):
        _of_library(player, operation, name)
        return
    raise player.unknown(operation, f"the function {name}")


def _of_library(player: Copies, operation: Operation, name: str) -> None:
    row = library_row(name)
    if row is None:
        raise player.unknown(operation, f"libdevice's {name}")
    library_call(player, operation, row)


def library_call(player: Copies, operation: Operation, row: numbers.Row) -> None:
    """A function of elements."""
    operands = operation.ins or operation.operands
    if operation.results[0].type.is_scalar:
        given = [player.env[each.number] for each in operands]
        unknown = any(each is UNKNOWN for each in given)
        found = UNKNOWN if unknown else row.compute(*(np.asarray(each)[()] for each in given))
        player.env[operation.results[0].number] = found
        return
    tiles = [player.tile(each) for each in operands]
    tile = player.result(operation, lambda: row.compute(*map(player.operand, tiles)), tiles)
    if player.core.recording and tile.local is not None:
        with player.core.schedules():
            sources = [player.local(each) for each in tiles]
            player.vector.elements(row.instructions, tile.local, sources)


def library_row(name: str) -> numbers.Row | None:
    """What a function of libdevice is; its name ends in a letter for its dtype."""
    stem = name[len("__hmf_") :]
    for each in (stem, re.sub(r"(f|h|Dh|Df|DF16|DR|bf16)$", "", stem), stem[:-1]):
        if each in _LIBRARY:
            return _LIBRARY[each]
    return None


def _whole(player: Copies, operation: Operation, place: int) -> int:
    number = player.env[operation.operands[place].number]
    return int(number)


def _sort(player: Copies, operation: Operation) -> None:
    source = player.tile(operation.operands[0])
    axis, descending = _whole(player, operation, 1), bool(_whole(player, operation, 2))

    def ordered() -> Any:
        found = np.sort(player.array(source), axis)
        return np.flip(found, axis) if descending else found

    tile = player.result(operation, ordered, [source])
    if player.core.recording and tile.local is not None:
        with player.core.schedules():
            length = source.shape[axis]
            sizes = [player.local(source)]
            player.vector.elements(("vbitsort",), tile.local, sizes)
            for _ in range(max(0, ceil(log2(max(2, length) / 32) / 2))):
                player.vector.elements(("vmrgsort4",), tile.local, sizes)


def _flip(player: Copies, operation: Operation) -> None:
    source = player.tile(operation.operands[0])
    axis = _whole(player, operation, 1)
    tile = player.result(operation, lambda: np.flip(player.array(source), axis), [source])
    if player.core.recording and tile.local is not None:
        with player.core.schedules():
            if axis % len(source.shape) == len(source.shape) - 1:
                player.vector.by_scalar("flip", tile.local, 1)
            else:
                player.vector.move(tile.local, player.local(source))


def _accumulated(function: np.ufunc, instruction: str) -> Callable[[Copies, Operation], None]:
    def play_it(player: Copies, operation: Operation) -> None:
        source = player.tile(operation.operands[0])
        axis, reverse = _whole(player, operation, 1), bool(_whole(player, operation, 2))

        def summed() -> Any:
            values = player.array(source)
            values = np.flip(values, axis) if reverse else values
            found = function.accumulate(values, axis, dtype=values.dtype)
            return np.flip(found, axis) if reverse else found

        tile = player.result(operation, summed, [source])
        if player.core.recording and tile.local is not None:
            with player.core.schedules():
                length = source.shape[axis]
                if axis % len(source.shape) == len(source.shape) - 1:
                    player.vector.by_scalar("scan", tile.local, 1)
                    return
                row = source.numel // length
                for _ in range(length - 1):
                    player.core.emit_vector(instruction, source.dtype, row, chained=True)
                player.core.filled(tile.local)

    return play_it


def _gather(player: Copies, operation: Operation) -> None:
    source, places = (player.tile(each) for each in operation.operands[:2])
    axis = _whole(player, operation, 2)
    tile = player.result(
        operation,
        lambda: np.take_along_axis(
            player.array(source), player.array(places).astype(np.int64), axis
        ),
        [places],
    )
    if player.core.recording and tile.local is not None:
        with player.core.schedules():
            sources = [player.local(each) for each in (source, places)]
            player.vector.elements(("vgather",), tile.local, sources[:1])


def _print(player: Copies, operation: Operation) -> None:
    """tl.device_print: where there are numbers, once for each program."""
    if not (player.core.numerics and player.stores):
        return
    shown = []
    for each in operation.operands:
        found = player.env[each.number]
        shown.append(player.array(player.tile(each)) if isinstance(found, Tile) else found)
    sys.stdout.write(f"pid {player.core.get_block_idx()}: {' '.join(map(str, shown))}\n")


def _assert(player: Copies, operation: Operation) -> None:
    if not player.core.numerics:
        return
    found = player.env[operation.operands[0].number]
    held = player.array(player.tile(operation.operands[0])) if isinstance(found, Tile) else found
    if not np.all(held):
        raise player.refuse(operation, "tl.device_assert doesn't hold")


_KNOWN: dict[str, Callable[[Copies, Operation], None]] = {
    "sort": _sort,
    "flip": _flip,
    "cumsum": _accumulated(np.add, "vadd"),
    "cumprod": _accumulated(np.multiply, "vmul"),
    "gather": _gather,
    "print": _print,
    "assert": _assert,
}
