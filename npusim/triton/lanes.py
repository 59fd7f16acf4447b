"""Loops over single elements, which the front half makes of addresses without a pattern.

The scalar unit goes through them one by one; here all turns are computed at once, in their order
where they store.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from npusim.ascendc import Pipe
from npusim.triton import atomics, numbers
from npusim.triton.bodies import element_work
from npusim.triton.held import UNKNOWN, GlobalPiece, Tile

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from npusim.triton.copies import Copies
    from npusim.triton.mlir import Operation, Region


@dataclass(eq=False, slots=True)
class _Places:
    """Elements of global memory, one for each turn."""

    piece: GlobalPiece
    at: Any


@dataclass(slots=True)
class _Here:
    """The values of all turns, and in which of them what stands here is done."""

    env: dict[int, Any]
    mask: Any


@dataclass(slots=True)
class _Work:
    """What the turns do, for the price of them."""

    turns: int = 1
    loads: int = 0
    stores: int = 0
    operations: int = 0
    from_memory: int = 0
    lines: int = 0
    copies: list[tuple[int, int]] = field(default_factory=list)  # bytes, and how many


def play(player: Copies, operation: Operation) -> None:
    """A loop, with those in it."""
    lanes = _Lanes(player)
    results = lanes.loop(operation, _Here({}, np.ones(1, np.bool_)))
    for value, found in zip(operation.results, results, strict=True):
        player.env[value.number] = found
    if player.core.recording:
        with player.core.schedules():
            lanes.write_down(results)


def _repeated(held: Any, count: int) -> Any:
    """Values of outer turns, for the turns of a loop in each of them."""
    if isinstance(held, _Places):
        return _Places(held.piece, np.repeat(held.at, count)) if np.ndim(held.at) else held
    return np.repeat(held, count) if isinstance(held, np.ndarray) and held.ndim else held


class _Missing:
    """No value of the loop."""


_MISSING = _Missing()


class _Lanes:
    """All turns of a loop, as arrays."""

    def __init__(self, player: Copies) -> None:
        self.player = player
        self.work = _Work()
        self.computes = player.core.numerics
        self._kept: list[Tile] = []
        self._carried: set[int] = set()  # tiles that loops hand on, by identity

    def loop(self, operation: Operation, here: _Here) -> list[Any]:
        """One loop within the turns so far."""
        env = here.env
        low, high, step = (self._of(each.number, env) for each in operation.operands[:3])
        if UNKNOWN in (low, high, step) or any(np.ndim(each) for each in (low, high, step)):
            raise self.player.needs_data(operation)
        trips = np.arange(int(low), int(high), int(step))
        lanes, count = here.mask.size, trips.size
        region = operation.regions[0]
        inner = {number: _repeated(each, count) for number, each in env.items()}
        inner[region.arguments[0].number] = np.tile(trips, lanes)
        carried = [self._of(each.number, env) for each in operation.operands[3:]]
        tiles = [self._own(each) for each in carried]
        for value, each in zip(region.arguments[1:], tiles, strict=True):
            inner[value.number] = each
        self.work.turns = max(self.work.turns, lanes * count)
        return self._region(region, _Here(inner, np.repeat(here.mask, count)))

    def _own(self, carried: Any) -> Any:
        if not isinstance(carried, Tile):
            return carried
        tile = Tile(carried.dtype, carried.shape)
        if self.computes:
            tile.array = self.player.array(carried).copy()
        self._carried.add(id(tile))
        self._kept.append(tile)
        return tile

    def _region(self, region: Region, here: _Here) -> list[Any]:
        for each in region.operations:
            if each.name in ("scf.yield", "linalg.yield"):
                return [self._of(one.number, here.env) for one in each.operands]
            self._operation(each, here)
        return []

    def _operation(self, each: Operation, here: _Here) -> None:
        name = each.name
        if name == "scf.for":
            found = self.loop(each, here)
            for value, one in zip(each.results, found, strict=True):
                here.env[value.number] = one
        elif name == "scf.if":
            self._branch(each, here)
        elif name in self._HANDLERS:
            self._HANDLERS[name](self, each, here)
        elif name == "linalg.generic" and each.has("GenericAtomic"):
            self._atomic(each, here)
        elif name.startswith(("arith.", "math.")):
            self.work.operations += here.mask.size
            self._compute(each, here)
        else:
            raise self.player.unknown(each, f"{name} in a loop over single elements")

    def _compute(self, each: Operation, here: _Here) -> None:
        operands = [self._single(each, self._of(one.number, here.env)) for one in each.operands]
        if any(one is UNKNOWN for one in operands):
            here.env[each.results[0].number] = UNKNOWN
            return
        with np.errstate(all="ignore"):
            found = element_work(each, operands)
        if found is None:
            raise self.player.unknown(each, f"{each.name} in a loop over single elements")
        here.env[each.results[0].number] = found

    def _single(self, operation: Operation, held: Any) -> Any:
        """A tile of one element is its number."""
        if not isinstance(held, Tile):
            return held
        if held.is_number:
            return held.number
        if held.numel != 1:
            raise self.player.unknown(operation, "work on tiles in a loop over single elements")
        return self.player.array(held).reshape(-1)[0] if self.computes else UNKNOWN

    def _branch(self, each: Operation, here: _Here) -> None:
        test = self._of(each.operands[0].number, here.env)
        known = test is not UNKNOWN
        chosen = here.mask & np.asarray(test, np.bool_) if known else here.mask
        then = self._region(each.regions[0], _Here(here.env, chosen))
        other: list[Any] = []
        if len(each.regions) > 1:
            rest = here.mask & ~np.asarray(test, np.bool_) if known else here.mask
            other = self._region(each.regions[1], _Here(here.env, rest))
        for value, left, right in zip(each.results, then, other, strict=True):
            unknown = left is UNKNOWN or right is UNKNOWN or not known
            if isinstance(left, Tile):
                if left is not right:
                    raise self.player.unknown(each, "a choice between tiles")
                here.env[value.number] = left
            else:
                here.env[value.number] = UNKNOWN if unknown else np.where(test, left, right)

    def _of(self, number: int, env: dict[int, Any]) -> Any:
        found = env.get(number, _MISSING)
        return self.player.env[number] if found is _MISSING else found

    def _places(self, items: Any, env: dict[int, Any]) -> list[Any]:
        return [each if isinstance(each, int) else self._of(each.number, env) for each in items]

    def _cast(self, each: Operation, here: _Here) -> None:
        base = self._of(each.operands[0].number, here.env)
        (offset,) = self._places(each.lists[0], here.env)
        if not isinstance(base, GlobalPiece):
            raise self.player.unknown(each, "memory that is chosen in a loop")
        at = UNKNOWN if offset is UNKNOWN else base.offset + np.asarray(offset)
        here.env[each.results[0].number] = _Places(base, at)

    def _recast(self, each: Operation, here: _Here) -> None:  # noqa: ARG002 - as all others
        self.player.play_scalar(each)

    def _load(self, each: Operation, here: _Here) -> None:
        places = self._of(each.operands[0].number, here.env)
        self.work.from_memory += int(np.count_nonzero(here.mask))
        result = each.results[0].number
        if not isinstance(places, _Places):
            raise self.player.unknown(each, "a load of one element from UB")
        data = places.piece.data
        if not self.computes or data is None or places.at is UNKNOWN:
            self.work.lines += int(np.count_nonzero(here.mask))
            here.env[result] = UNKNOWN
            return
        at = np.broadcast_to(places.at, here.mask.shape)
        inside = here.mask & (at >= 0) & (at < data.size)
        if not np.array_equal(inside, here.mask):
            reached = at[here.mask]
            ends = int(reached.min()), int(reached.max()) + 1
            self.player.tell_beyond(each, places.piece, *ends, data.size)
        found = data[np.where(inside, at, 0)] if data.size else np.zeros(at.shape, data.dtype)
        here.env[result] = np.where(inside | ~here.mask, found, found.dtype.type(0))
        self._count_lines(places.piece, at[inside])

    def _count_lines(self, piece: GlobalPiece, at: Any) -> None:
        line = self.player.core.profile.memory.l2_line_bytes
        self.work.lines += int(np.unique(at * piece.dtype.itemsize // line).size)

    def _check(self, each: Operation, piece: GlobalPiece, at: Any) -> None:
        held = piece.buffer.nbytes // piece.dtype.itemsize
        if at.size and not (int(at.min()) >= 0 and int(at.max()) < held):
            wrong = int(at.min()) if int(at.min()) < 0 else int(at.max())
            raise self.player.refuse(
                each,
                f"element {wrong} of {piece.buffer.name} is touched, which has {held}",
                "Mask what lies beyond the tensor (mask=...).",
            )

    def _extract(self, each: Operation, here: _Here) -> None:
        tile = self._of(each.operands[0].number, here.env)
        places = self._places(each.lists[-1], here.env)
        self.work.loads += here.mask.size
        if isinstance(tile, Tile) and tile.loan is not None:
            self.player.ready(tile.loan)
        if not isinstance(tile, Tile):
            here.env[each.results[0].number] = tile
        elif tile.is_number:
            here.env[each.results[0].number] = tile.number
        elif not self.computes:
            here.env[each.results[0].number] = UNKNOWN
        else:
            found = self.player.array(tile)
            here.env[each.results[0].number] = (
                found[tuple(np.broadcast_arrays(*places))] if places else found[()]
            )

    def _insert(self, each: Operation, here: _Here) -> None:
        number, tile = (self._of(one.number, here.env) for one in each.operands[:2])
        self.work.stores += here.mask.size
        if not isinstance(tile, Tile) or id(tile) not in self._carried:
            here.env[each.results[0].number] = number
            return
        if self.computes:
            places = self._places(each.lists[-1], here.env)
            where = np.broadcast_arrays(*places, np.asarray(number), here.mask)
            kept = where[-1]
            array = self.player.array(tile)
            array[tuple(one[kept] for one in where[:-2])] = where[-2][kept]
        here.env[each.results[0].number] = tile

    def _empty(self, each: Operation, here: _Here) -> None:
        value = each.results[0]
        here.env[value.number] = Tile(numbers.DTYPES[value.type.element], value.type.shape or ())

    def _same(self, each: Operation, here: _Here) -> None:
        here.env[each.results[0].number] = self._of(each.operands[0].number, here.env)

    def _fill(self, each: Operation, here: _Here) -> None:
        here.env[each.results[0].number] = self._of(each.ins[0].number, here.env)

    def _store(self, each: Operation, here: _Here) -> None:
        values, places = (self._of(one.number, here.env) for one in each.operands[:2])
        if not isinstance(places, _Places):
            raise self.player.unknown(each, "a store of one element to UB")
        values = self._single(each, values)
        size = places.piece.dtype.itemsize
        self.work.copies.append((size, int(np.count_nonzero(here.mask))))
        if not self.computes or places.at is UNKNOWN or values is UNKNOWN:
            return
        at = np.broadcast_to(places.at, here.mask.shape)[here.mask]
        self._check(each, places.piece, at)
        if self.player.stores and places.piece.data is not None:
            places.piece.data[at] = np.broadcast_to(np.asarray(values), here.mask.shape)[here.mask]

    def _atomic(self, each: Operation, here: _Here) -> None:
        kind = atomics.kind_of(each)
        places, values = (self._of(one.number, here.env) for one in each.ins[:2])
        values = self._single(each, values)
        combine = atomics.combination(kind)
        if combine is None or not isinstance(places, _Places):
            raise self.player.unknown(each, f"the atomic operation {kind} on single elements")
        self.work.copies.append((places.piece.dtype.itemsize, int(np.count_nonzero(here.mask))))
        if not self.computes or places.at is UNKNOWN or values is UNKNOWN:
            return
        at = np.broadcast_to(places.at, here.mask.shape)[here.mask]
        self._check(each, places.piece, at)
        if self.player.stores and places.piece.data is not None:
            data = places.piece.data
            added = np.broadcast_to(np.asarray(values), here.mask.shape)[here.mask]
            with np.errstate(all="ignore"):
                combine.at(data, at, added.astype(data.dtype))

    def write_down(self, results: list[Any]) -> None:
        """The scalar unit's loads, stores and arithmetic, and a copy of its own for each store."""
        player, work = self.player, self.work
        core, turns = player.core, work.turns
        core.wait_vector()
        core.emit_scalar(
            "scalar_loop", loads=work.loads, stores=work.stores, operations=work.operations,
            turns=turns, detail=f"{turns} single elements",
        )  # fmt: skip
        if work.from_memory:
            core.load_lines(min(work.lines, work.from_memory))
            core.recorder.emit(
                Pipe.SCALAR, "ld_gm", work.from_memory * core.costs.gm_element(),
                detail=f"{work.from_memory} elements",
            )  # fmt: skip
        for size, count in work.copies:
            core.emit_scalar("st_gm", stores=count, detail=f"{count} elements of {size} bytes")
        for each in results:
            if isinstance(each, Tile):
                core.filled(player.local(each))

    _HANDLERS: ClassVar[Mapping[str, Callable[..., None]]] = {
        "memref.reinterpret_cast": _cast,
        "builtin.unrealized_conversion_cast": _recast,
        "memref.load": _load,
        "tensor.extract": _extract,
        "tensor.insert": _insert,
        "tensor.empty": _empty,
        "bufferization.alloc_tensor": _empty,
        "bufferization.to_memref": _same,
        "bufferization.to_tensor": _same,
        "linalg.fill": _fill,
        "bufferization.materialize_in_destination": _store,
    }
