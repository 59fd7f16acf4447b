"""Atomic operations on global memory: stores that add, or take the larger; others one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.triton.held import UNKNOWN, GlobalPiece, LocalPiece
from npusim.values.dtypes import BFLOAT16, FLOAT, FLOAT16, INT8, INT16, INT32

if TYPE_CHECKING:
    from npusim.triton.copies import Copies
    from npusim.triton.mlir import Operation


def _unsigned(work: np.ufunc) -> Any:
    def combined(before: Any, values: Any) -> Any:
        wide = f"u{before.dtype.itemsize}"
        return work(before.view(wide), values.view(wide)).view(before.dtype)

    return combined


# What MTE3 does on its way (Ascend C: SetAtomicAdd, SetAtomicMax, SetAtomicMin).
_BY_COPY: dict[str, Any] = {
    "fadd": np.add, "add": np.add, "max": np.maximum, "min": np.minimum, "fmax": np.maximum,
    "fmin": np.minimum, "umax": _unsigned(np.maximum), "umin": _unsigned(np.minimum),
}  # fmt: skip
_OTHERS = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}
_DTYPES = (FLOAT, FLOAT16, BFLOAT16, INT8, INT16, INT32)


def kind_of(operation: Operation) -> str:
    """Which atomic operation it is."""
    for word in ("GenericAtomicRMW", "GenericAtomicCAS"):
        if word in operation.text:
            rest = operation.text.split(word, 1)[1]
            return rest.split('"')[1] if '"' in rest else "cas"
    return ""


def combination(kind: str) -> Any:
    """What is computed of the numbers before and the given ones; None for an exchange."""
    return _BY_COPY.get(kind) or _OTHERS.get(kind)


def play(player: Copies, operation: Operation) -> None:
    """A tile combined with global memory; an exchange puts it there."""
    kind = kind_of(operation)
    target = player.env[operation.ins[0].number]
    given = [player.env[each.number] for each in operation.ins[1:]]
    if target is UNKNOWN:
        raise player.needs_data(operation)
    if not isinstance(target, GlobalPiece):
        raise player.unknown(operation, "an atomic operation on UB")
    combine = combination(kind)
    wanted = 2 if kind == "cas" else 1
    if (combine is None and kind not in ("exch", "cas")) or len(given) != wanted:
        raise player.unknown(operation, f"the atomic operation {kind}")
    if not target.numel:
        return
    player.check_inside(operation, target)
    core, tile = player.core, _tile(given[-1])
    if core.recording:
        if tile.loan is not None:
            player.ready(tile.loan)
        with core.schedules():
            _write_down(player, operation, kind, target, tile)
    if core.numerics and player.stores:
        place: Any = target.array()
        values = [_values(player, each).reshape(target.sizes) for each in given]
        if kind == "cas":  # what was there is read behind it (triton-ascend's own test_atomic_cas)
            player.before[operation.ins[0].number] = place.copy()
            # The second where memory is the first.
            place[...] = np.where(place == values[0], values[1], place)
        elif combine is None:
            place[...] = values[0]
        else:
            with np.errstate(all="ignore"):
                place[...] = combine(place, values[0])


def _tile(given: Any) -> Any:
    return given.tile if isinstance(given, LocalPiece) else given


def _values(player: Copies, given: Any) -> Any:
    values = player.array(_tile(given))
    return values[given.cut] if isinstance(given, LocalPiece) else values


def _write_down(
    player: Copies, operation: Operation, kind: str, target: GlobalPiece, tile: Any
) -> None:
    core = player.core
    player.local(tile)
    whole = player.program.whole_shape(operation.ins[-1])
    if kind in _BY_COPY and tile.dtype in _DTYPES:
        core.set_atomic_add()
        player.take_away(operation, player.gm_slice(target), tile.dtype, target.sizes, whole)
        core.set_atomic_none()
        return
    # The compiler holds a lock of its own around a load, the operation and a store.
    player.vector.by_scalar(f"atomic_{kind}", player.local(tile), 2)
    player.take_away(operation, player.gm_slice(target), tile.dtype, target.sizes, whole)
