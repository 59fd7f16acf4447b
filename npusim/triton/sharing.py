"""How the two vector cores of a block share the rows of a mixed kernel.

The compiler binds loops over rows to the vector cores of a block (its option
enable_auto_bind_sub_block, on unless a launch turns it off). A tile is shared along the axis that
comes from the rows of a product; where operations don't go together that way, the first core does
all.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from npusim.triton.program import MATMULS, is_over_elements

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from npusim.triton.mlir import Operation, Value
    from npusim.triton.program import LoweredProgram

    Move = Callable[[int], int | None]  # an axis of one value as one of the other

_FOR_ALL = -2  # no axis of a value: both cores have all of it
_NUMBERS = ("linalg.fill", "tensor.empty", "arith.constant", "bufferization.alloc_tensor")
_SAME = ("bufferization.to_tensor", "bufferization.to_memref", "memref.subview", "memref.cast")
_SHAPES = ("tensor.expand_shape", "tensor.collapse_shape", "tensor.reshape")
_WHOLE = ("tensor.extract", "tensor.insert", "call", "func.call", "tensor.concat")


def shared_axes(program: LoweredProgram) -> dict[Value, int]:
    """The axis along which each tile is shared; nothing where the program doesn't allow it."""
    if not program.has_products or program.options.get("enable_auto_bind_sub_block") is False:
        return {}
    return _Sharing(program).axes()


def shared_of(program: LoweredProgram) -> dict[Value, int]:
    """As :func:`shared_axes`, found once for each program."""
    found = _known.get(program)
    if found is None:
        found = _known[program] = shared_axes(program)
    return found


_known: WeakKeyDictionary[LoweredProgram, dict[Value, int]] = WeakKeyDictionary()


class _Sharing:
    def __init__(self, program: LoweredProgram) -> None:
        self._program = program
        self._moves: dict[Value, list[tuple[Value, Move]]] = defaultdict(list)
        self._whole: set[Value] = set()
        self._neutral: set[Value] = set()
        for each in program.function.body.walk():
            if each.name in _NUMBERS or (each.name == "linalg.generic" and not each.ins):
                self._neutral.update(each.results)

    def axes(self) -> dict[Value, int]:
        """The axis of each shared value."""
        waiting: list[tuple[Value, int]] = []
        for each in self._program.function.body.walk():
            if each not in self._program.on_cube or each.name in MATMULS:
                waiting += self._seen(each)
        found: dict[Value, int] = {}
        while waiting:
            value, axis = waiting.pop()
            if value in self._neutral:
                continue
            if value in found:
                if found[value] != axis:
                    return {}
                continue
            shape = value.type.shape or ()
            if value in self._whole or axis >= len(shape) or shape[axis] == 1:
                return {}
            found[value] = axis
            for other, move in self._moves[value]:
                moved = move(axis)
                if moved is None:
                    return {}
                if moved == _FOR_ALL:
                    self._whole.add(other)
                    if other in found:
                        return {}
                else:
                    waiting.append((other, moved))
        return found

    def _seen(self, operation: Operation) -> Iterator[tuple[Value, int]]:
        """Notes how axes go through an operation; the values that it says are shared by rows."""
        name = operation.name
        if name in MATMULS:
            vectors = [each for each in operation.ins if self._program.is_vectors(each)]
            yield from ((self._program.handed(each)[0], 0) for each in vectors)
            if self._program.crosses(operation.results[0]):
                yield operation.results[0], 0
                if not self._program.starts_at_zero(operation):
                    self._join((operation.outs[0], operation.results[0]))
        elif name == "scf.for" and is_over_elements(operation):
            self._elements_of(operation)
        elif name == "scf.for":
            yield from self._carried(operation)
        elif name == "scf.if":
            for region in operation.regions:
                last = region.operations[-1].operands if region.operations else ()
                for value, result in zip(last, operation.results, strict=False):
                    self._join((value, result))
        elif name in _WHOLE:
            self._whole.update(operation.operands)
            self._whole.update(operation.results)
        else:
            self._through(operation)

    def _carried(self, operation: Operation) -> Iterator[tuple[Value, int]]:
        """What a loop carries is shared alike in all turns; sums that come from L0C by rows."""
        yielded = operation.regions[0].operations[-1].operands
        for place, argument in enumerate(operation.regions[0].arguments[1:]):
            result = operation.results[place]
            if not self._program.is_carried(result):
                start = operation.operands[3 + place]
                self._join((start, argument, yielded[place], result))
            elif self._program.crosses(result):
                yield result, 0

    def _through(self, operation: Operation) -> None:
        name = operation.name
        result = operation.results[0] if operation.results else None
        if result is None or name in _NUMBERS or operation in self._program.turned_on_the_way:
            return
        if name == "linalg.broadcast":
            added = operation.lists[-1]
            kept = [axis for axis in range(len(result.type.shape or ())) if axis not in added]
            self._spread(operation.ins[0], result, kept)
        elif name == "linalg.transpose":
            order = [int(each) for each in operation.lists[-1]]  # type: ignore[arg-type]
            self._link(operation.ins[0], result, [order.index(each) for each in range(len(order))])
        elif name == "linalg.reduce":
            self._reduced(operation)
        elif name in _SHAPES:
            source = operation.operands[0]
            way = _reshaped(source.type.shape or (), result.type.shape or ())
            self._link(source, result, way)
        elif name in _SAME or name.startswith(("arith.", "math.", "linalg.map", "linalg.generic")):
            self._join((*operation.operands, *operation.results))
        elif name in ("tensor.extract_slice", "tensor.insert_slice"):
            tiles = [each for each in operation.operands if each.type.shape is not None]
            same = {len(each.type.shape or ()) for each in (*tiles, result)}
            if len(same) == 1:
                self._join((*tiles, result))
            else:
                self._whole.update((*tiles, result))

    def _spread(self, source: Value, result: Value, kept: Sequence[int]) -> None:
        """As :meth:`_link`; along a new axis the source is the same for everybody."""
        if source in self._neutral:
            return

        def back(axis: int) -> int | None:
            return kept.index(axis) if axis in kept else _FOR_ALL

        self._moves[source].append((result, lambda axis: kept[axis]))
        self._moves[result].append((source, back))

    def _reduced(self, operation: Operation) -> None:
        axes = operation.lists[-1]
        for source, result in zip(operation.ins, operation.results, strict=True):
            kept = [axis for axis in range(len(source.type.shape or ())) if axis not in axes]
            back = [
                kept.index(axis) if axis in kept else -1 for axis in range(len(kept) + len(axes))
            ]
            self._link(source, result, back)

    def _elements_of(self, operation: Operation) -> None:
        results = operation.results
        for result, start in zip(results, operation.operands[3:], strict=False):
            self._join((start, result))
        for inner in operation.regions[0].walk():
            if inner.name == "tensor.extract":
                tile = inner.operands[0]
                alike = [each for each in results if each.type.shape == tile.type.shape]
                if alike:
                    self._join((tile, alike[0]))
                elif results:
                    self._whole.add(tile)

    def _join(self, values: Sequence[Value]) -> None:
        """The same axes in all of them."""
        tiles = [
            each for each in values if each.type.shape is not None and each not in self._neutral
        ]
        for left, right in pairwise(tiles):
            ranks = len(left.type.shape or ()), len(right.type.shape or ())
            self._link(left, right, list(range(ranks[0])) if ranks[0] == ranks[1] else [])

    def _link(self, source: Value, result: Value, way: Sequence[int]) -> None:
        """Axis ``i`` of a source is axis ``way[i]`` of a result; -1 and what is missing is none."""
        if source in self._neutral or result in self._neutral:
            return

        def there(axis: int) -> int | None:
            return way[axis] if axis < len(way) and way[axis] >= 0 else None

        def back(axis: int) -> int | None:
            return way.index(axis) if axis in way else None

        self._moves[source].append((result, there))
        self._moves[result].append((source, back))


def _reshaped(source: tuple[int, ...], result: tuple[int, ...]) -> list[int]:
    """Axes that keep their size and what stands before them; -1 for others."""
    way = []
    for axis, size in enumerate(source):
        alike = [
            other
            for other, there in enumerate(result)
            if there == size and prod(result[:other]) == prod(source[:axis])
        ]
        way.append(alike[-1] if alike else -1)
    return way
