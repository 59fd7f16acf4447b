"""Operations on the elements of tiles: arithmetic, conversions, comparisons, numbers that fill."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.triton import numbers
from npusim.triton.copies import UNSAID, Copies
from npusim.triton.held import UNKNOWN, LocalPiece, Tile
from npusim.triton.scalar import number_of, predicate_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from npusim.triton.mlir import Operation


class Elements(Copies):
    """The part of a player that works element by element."""

    def _elements(self, operation: Operation, row: numbers.Row) -> None:
        tiles = [self.tile(each) for each in operation.operands]
        if all(each.is_number for each in tiles):
            self._fold_numbers(operation, row.compute, tiles)
            return
        is_known = all(
            each.array is not None or (each.is_number and each.number is not UNKNOWN)
            for each in tiles
        )
        tile = self.result(
            operation, lambda: row.compute(*map(self.operand, tiles)), tiles, is_known=is_known
        )
        if self.core.recording and tile.local is not None:
            with self.core.schedules():
                names, sources = self._with_number(operation.name, row, tiles)
                self.vector.elements(names, tile.local, [self.local(each) for each in sources])

    def _fold_numbers(
        self, operation: Operation, compute: Callable[..., Any], tiles: list[Tile]
    ) -> None:
        """An operation on numbers that fill tiles is one of the scalar unit."""
        value = operation.results[0]
        dtype = numbers.DTYPES[value.type.element]
        number: Any = UNKNOWN
        if not any(each.number is UNKNOWN for each in tiles):
            with np.errstate(all="ignore"):
                found = compute(*(np.asarray(each.number, each.dtype.numpy)[()] for each in tiles))
            number = np.asarray(found).astype(dtype.numpy)[()]
        self.give_tile(value, Tile(dtype, self.shape_of(value, *tiles), number=number))

    def _with_number(
        self, name: str, row: numbers.Row, tiles: list[Tile]
    ) -> tuple[tuple[str, ...], list[Tile]]:
        """The instructions where an operand is one number: the chip takes it from a register."""
        if len(tiles) == 2 and row.with_number:
            left, right = tiles
            if right.is_number:
                return (row.with_number,), [left]
            if left.is_number:
                turned = name in ("arith.subf", "arith.subi")
                return (("vmuls", "vadds") if turned else (row.with_number,)), [right]
        shift = name in ("arith.shli", "arith.shrsi", "arith.shrui")
        return row.instructions, tiles[:1] if shift and tiles[-1].is_number else tiles

    def _cast(self, operation: Operation, name: str) -> None:
        source = self.tile(operation.operands[0])
        kinds = operation.operands[0].type.element, operation.results[0].type.element
        if source.is_number:
            self._fold_numbers(
                operation, lambda each: numbers.converted(np.asarray(each), *kinds, name), [source]
            )
            return
        tile = self.result(
            operation,
            lambda: numbers.converted(self.array(source), *kinds, name),
            [source],
            is_known=source.array is not None,
        )
        self.converted(tile, source)

    def _recast_product(self, operation: Operation, name: str) -> None:
        """A product in another dtype: the fixpipe converts it on its way out."""
        source = self.tile(operation.operands[0])
        kinds = operation.operands[0].type.element, operation.results[0].type.element
        tile = Tile(numbers.DTYPES[kinds[1]], source.shape, local=source.local)
        if self.core.numerics:
            tile.array = numbers.converted(self.array(source), *kinds, name)
        self.share(tile, source)
        self.give_tile(operation.results[0], tile)

    def converted(self, tile: Tile, source: Tile) -> None:
        """Write down the conversion of a tile."""
        if self.core.recording and tile.local is not None:
            with self.core.schedules():
                self.vector.convert(tile.local, self.local(source))

    def bitcast(self, operation: Operation) -> None:
        """The same bits as elements of another type."""
        source = self.tile(operation.operands[0])
        kind = np.dtype(numbers.DTYPES[operation.results[0].type.element].numpy)
        tile = Tile(numbers.DTYPES[operation.results[0].type.element], source.shape)
        if self.core.numerics:
            tile.array = self.array(source).view(kind)
        if self.core.recording:
            own = self.local(source)
            shape = self.own_shape(operation.results[0], tile.shape)
            tile.local = own.same_place(*shape, dtype=tile.dtype)
        self.share(tile, source)
        self.give_tile(operation.results[0], tile)

    def compare(self, operation: Operation) -> None:
        """Truth values of two tiles."""
        tiles = [self.tile(each) for each in operation.operands]
        predicate, floats = predicate_of(operation), operation.name == "arith.cmpf"
        if all(each.is_number for each in tiles):
            self._fold_numbers(
                operation, lambda a, b: numbers.compared(predicate, a, b, floats=floats), tiles
            )
            return
        tile = self.result(
            operation,
            lambda: numbers.compared(predicate, *map(self.operand, tiles), floats=floats),
            tiles,
        )
        if self.core.recording and tile.local is not None:
            with self.core.schedules():
                mode = numbers.COMPARISONS[predicate][1]
                sources = [self.local(each) for each in tiles if not each.is_number]
                self.vector.compare(mode, tile.local, sources)

    def select(self, operation: Operation) -> None:
        """Elements of one tile or of another."""
        test = self.env[operation.operands[0].number]
        left, right = (self.tile(each) for each in operation.operands[1:])
        if not isinstance(test, Tile):
            if test is UNKNOWN:
                raise self.needs_data(operation)
            chosen = left if test else right
            if chosen.loan is not None:
                chosen.loan.holders += 1
            self.give_tile(operation.results[0], chosen)
            return
        tile = self.result(
            operation,
            lambda: np.where(*map(self.operand, (test, left, right))),
            [test, left, right],
        )
        if self.core.recording and tile.local is not None:
            with self.core.schedules():
                if left.is_number:
                    self.local(left)
                sources = [
                    self.local(each) for each in (left, right) if each.local or not each.is_number
                ]
                self.vector.elements(("vsel",), tile.local, sources)

    def constant(self, operation: Operation) -> None:
        """One number in all elements, or a list of them."""
        value = operation.results[0]
        dtype, shape = numbers.DTYPES[value.type.element], value.type.shape or ()
        inside = operation.text.split("dense<", 1)[1].rsplit(">", 2)[0].split("> :")[0]
        if "[" not in inside:
            number = number_of(inside.strip(), value.type.element)
            self.give_tile(value, Tile(dtype, shape, number=number))
            return
        words = inside.replace("[", " ").replace("]", " ").split(",")
        found = [number_of(each.strip(), value.type.element) for each in words]
        self.give_tile(value, self.new(dtype, shape, np.array(found, dtype.numpy).reshape(shape)))

    def fill(self, operation: Operation) -> None:
        """One number in all elements."""
        number = self.env[operation.ins[0].number]
        target = operation.outs[0]
        held = self.env[target.number]
        if isinstance(held, LocalPiece):
            if self.core.numerics:
                held.array()[...] = number
            if self.core.recording and held.tile.local is not None:
                with self.core.schedules():
                    self._fill_before_load(held)
            return
        shape = self.shape_of(target, *([held] if isinstance(held, Tile) else []))
        tile = Tile(numbers.DTYPES[target.type.element], shape, number=number)
        if operation.results:
            self.give_tile(operation.results[0], tile)

    def empty(self, operation: Operation) -> None:
        """A tile without numbers, which says what shape a result has."""
        value = operation.results[0]
        sizes = iter(self.numbers(operation.operands))
        shape = tuple(next(sizes) if each == UNSAID else each for each in value.type.shape or ())
        if UNKNOWN in shape:
            raise self.needs_data(operation)
        self.give_tile(value, Tile(numbers.DTYPES[value.type.element], shape))
