"""Operations that bring the elements of tiles into another order or shape."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.ascendc import LocalTensor
from npusim.triton.copies import UNSAID
from npusim.triton.elements import Elements
from npusim.triton.held import UNKNOWN, Tile
from npusim.triton.vector import new_tile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from npusim.triton.mlir import Operation


class Order(Elements):
    """The part of a player that moves elements within UB."""

    def broadcast(self, operation: Operation) -> None:
        """A tile repeated along new axes."""
        source = self.tile(operation.ins[0])
        added = operation.lists[-1]
        shape = operation.results[0].type.shape or ()
        if source.is_number:
            self.give_tile(operation.results[0], Tile(source.dtype, shape, number=source.number))
            return
        around = tuple(1 if axis in added else size for axis, size in enumerate(shape))
        tile = self.result(
            operation, lambda: np.broadcast_to(self.array(source).reshape(around), shape), [source]
        )
        self.moved(tile, source)

    def moved(self, tile: Tile, source: Tile) -> None:
        """Write down that elements are copied within UB."""
        if self.core.recording and tile.local is not None:
            with self.core.schedules():
                self.vector.move(tile.local, self.local(source))

    def transpose(self, operation: Operation) -> None:
        """Axes in another order."""
        source = self.tile(operation.ins[0])
        if operation in self.program.turned_on_the_way:
            if source.loan is not None:
                source.loan.holders += 1
            self.give_tile(operation.results[0], source)
            return
        order = tuple(int(each) for each in operation.lists[-1])  # type: ignore[arg-type]
        shape = tuple(source.shape[axis] for axis in order)
        if source.is_number:
            self.give_tile(operation.results[0], Tile(source.dtype, shape, number=source.number))
            return
        if self.core.unit.kind == "cube":
            turned = Tile(source.dtype, shape, local=source.local, turned=not source.turned)
            if self.core.numerics:
                turned.array = self.array(source).transpose(order)
            self.share(turned, source)
            self.give_tile(operation.results[0], turned)
            return
        tile = self.result(operation, lambda: self.array(source).transpose(order), [source])
        if not (self.core.recording and tile.local is not None):
            return
        with self.core.schedules():
            if order[-1] == len(order) - 1:
                self.vector.move(tile.local, self.local(source))
            else:
                self.vector.turn(tile.local, self.local(source))

    def reshape(self, operation: Operation) -> None:
        """The same elements under another shape."""
        source = self.tile(operation.operands[0])
        shape = operation.results[0].type.shape or ()
        if UNSAID in shape:
            sizes = self.numbers(operation.lists[-1]) if operation.lists else ()
            shape = tuple(sizes) if len(sizes) == len(shape) else _completed(shape, source.numel)
        tile = Tile(source.dtype, shape, number=source.number)
        if self.core.numerics and source.array is not None:
            tile.array = source.array.reshape(shape)
        elif self.core.numerics and not source.is_number:
            tile.array = self.array(source).reshape(shape)
        if self.core.recording and source.local is not None:
            tile.local = source.local.same_place(*self.own_shape(operation.results[0], shape))
            tile.local.tile = source.local.tile
        self.share(tile, source)
        self.give_tile(operation.results[0], tile)

    def cut(self, operation: Operation) -> None:
        """A part of a tile."""
        source = self.tile(operation.operands[0])
        offsets, sizes, steps = map(self.numbers, operation.lists)
        if UNKNOWN in (*offsets, *sizes):
            raise self.needs_data(operation)
        kept = operation.results[0].type.shape or ()
        shape = _without_ones(sizes, len(kept))
        if source.is_number:
            self.give_tile(operation.results[0], Tile(source.dtype, shape, number=source.number))
            return
        cut = tuple(
            slice(first, first + (size - 1) * step + 1, step) if size else slice(0, 0)
            for first, size, step in zip(offsets, sizes, steps, strict=True)
        )
        tile = Tile(source.dtype, shape)
        if self.core.numerics:
            tile.array = self.array(source)[cut].reshape(shape)
        if self.core.unit.kind == "cube":
            tile.local = source.local
            self.share(tile, source)
        elif self.core.recording:
            whole = self.local(source)
            own = self.own_shape(operation.results[0], shape)
            if self._is_start(operation, offsets, steps):
                tile.local = whole.same_place(*own)
                tile.local.tile = whole.tile
                self.share(tile, source)
            else:
                tile.local = new_tile(self.core, source.dtype, own, "tile")
                with self.core.schedules():
                    self.vector.move(tile.local, whole)
        self.give_tile(operation.results[0], tile)

    def _is_start(self, operation: Operation, offsets: Sequence[int], steps: Sequence[int]) -> bool:
        """Whether a part is only a shorter view: of the first elements, for a store."""
        users = self.program.users.get(operation.results[0], [])
        stored = all(each.name == "bufferization.materialize_in_destination" for each in users)
        return (stored or not any(offsets)) and all(each == 1 for each in steps)

    def put(self, operation: Operation) -> None:
        """A tile with a part of it replaced (insert_slice)."""
        part, whole = (self.tile(each) for each in operation.operands[:2])
        offsets, sizes, steps = map(self.numbers, operation.lists)
        if UNKNOWN in (*offsets, *sizes):
            raise self.needs_data(operation)
        cut = tuple(
            slice(first, first + (size - 1) * step + 1, step) if size else slice(0, 0)
            for first, size, step in zip(offsets, sizes, steps, strict=True)
        )

        def placed() -> NDArray[Any]:
            found = self.array(whole).copy()
            found[cut] = self.array(part).reshape(sizes)
            return found

        tile = self.result(operation, placed, [whole])
        if self.core.recording and tile.local is not None:
            with self.core.schedules():
                self.core.filled(tile.local)
                piece = LocalTensor(
                    self.core, part.dtype, part.shape, "tile", tile.local.slot, depth=0
                )
                self.vector.move(piece, self.local(part))

    def concat(self, operation: Operation) -> None:
        """Tiles one behind the other."""
        parts = [self.tile(each) for each in operation.operands]
        axis = int(operation.text.split("dim(", 1)[1].split(")", 1)[0])
        tile = self.result(
            operation, lambda: np.concatenate([self.array(each) for each in parts], axis), parts
        )
        for part in parts:
            self.moved(tile, part)


def _completed(shape: tuple[int, ...], elements: int) -> tuple[int, ...]:
    known = prod(each for each in shape if each != UNSAID)
    return tuple(elements // known if each == UNSAID else each for each in shape)


def _without_ones(sizes: tuple[int, ...], axes: int) -> tuple[int, ...]:
    """Sizes without as many axes of one as a result lacks."""
    kept = list(sizes)
    for axis in reversed(range(len(kept))):
        if len(kept) > axes and kept[axis] == 1:
            del kept[axis]
    return tuple(kept)
