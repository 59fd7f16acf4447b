"""A kernel as the compiler's front half leaves it: its code, and what can be told without running.

Which operations are for the cube core, which decide the control flow, and where a value is used
for the last time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from npusim.triton import mlir
from npusim.triton.grouping import grouped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from npusim.triton.mlir import Function, Operation, Region, Value

_MARK = "ExtractedLoadOrStore"  # of loops that the front half makes of addresses without a pattern
_OF_TILES = ("memref.copy", "memref.subview", "memref.alloc", "bufferization.to_tensor")
_HIDDEN_BEFORE, _HIDDEN_BEHIND = 2, 6  # arguments: lock and workspace; numbers and ids of programs
_STORES = (
    "bufferization.materialize_in_destination",
    "memref.store",
    "memref.copy",
    "scf.yield",
    "scf.condition",
    "linalg.yield",
    "return",
    "call",
    "func.call",
)
_LOADED = ("memref.alloc", "bufferization.to_tensor", "linalg.transpose")
MATMULS = ("linalg.matmul", "linalg.batch_matmul")


@dataclass(eq=False)
class LoweredProgram:
    """One compiled kernel; ``options`` are those of the launch that the compiler heeds."""

    text: str
    options: dict[str, object] = field(default_factory=dict)

    @cached_property
    def function(self) -> Function:
        """The code, without what nobody uses."""
        found = mlir.read(self.text)
        if self.is_grouped:
            found = grouped(found)
        _without_dead(found.body)
        return found

    @property
    def is_grouped(self) -> bool:
        """Whether each core loops over its share of the programs."""
        return bool(self.options.get("grouped"))

    @property
    def name(self) -> str:
        """The name of the kernel."""
        return self.function.name

    @property
    def arguments(self) -> tuple[Value, ...]:
        """What the launch gives: pointers and numbers, in their order."""
        return self.function.arguments[_HIDDEN_BEFORE:-_HIDDEN_BEHIND]

    @property
    def places(self) -> tuple[Value, ...]:
        """The numbers of programs along three axes, then the program's own place.

        Where they are grouped: then the block's number, that of blocks, and that of programs.
        """
        return self.function.arguments[-_HIDDEN_BEHIND:]

    @cached_property
    def has_products(self) -> bool:
        """Whether the cube core has something to do."""
        return any(each.name in MATMULS for each in self.function.body.walk())

    @cached_property
    def users(self) -> dict[Value, list[Operation]]:
        """Who takes a value."""
        found: dict[Value, list[Operation]] = {}
        for each in self.function.body.walk():
            for operand in each.operands:
                found.setdefault(operand, []).append(each)
        return found

    @cached_property
    def home(self) -> dict[Operation, Region]:
        """The region that an operation stands in."""
        return dict(_homes(self.function.body))

    @cached_property
    def last_uses(self) -> dict[Operation, tuple[Value, ...]]:
        """The values that nobody needs behind an operation of their own region."""
        last: dict[Value, Operation] = {}
        for region in self._regions():
            own = {value for each in region.operations for value in each.results}
            for each in region.operations:
                for used in _used(each):
                    if used in own:
                        last[used] = each
        found: dict[Operation, list[Value]] = {}
        for value, operation in last.items():
            found.setdefault(operation, []).append(value)
        return {each: tuple(values) for each, values in found.items()}

    @cached_property
    def last_uses_of_arguments(self) -> dict[Operation, tuple[Value, ...]]:
        """As :attr:`last_uses`, of the values that turns of loops begin with."""
        found: dict[Operation, list[Value]] = {}
        for region in self._regions():
            last: dict[Value, Operation] = {}
            for each in region.operations:
                for used in self.used_in(each):
                    if used in region.arguments:
                        last[used] = each
            for value, operation in last.items():
                found.setdefault(operation, []).append(value)
        return {each: tuple(values) for each, values in found.items()}

    def used_in(self, operation: Operation) -> tuple[Value, ...]:
        """What an operation and those in its regions take."""
        found = self._used_in.get(operation)
        if found is None:
            found = self._used_in[operation] = tuple(dict.fromkeys(_used(operation)))
        return found

    @cached_property
    def _used_in(self) -> dict[Operation, tuple[Value, ...]]:
        return {}

    @cached_property
    def decides(self) -> dict[Region, list[Operation]]:
        """Of every region, the operations that say which instructions there are."""
        return {
            region: [each for each in region.operations if _is_plain(each)]
            for region in self._regions()
        }

    @cached_property
    def on_cube(self) -> frozenset[Operation]:
        """What the cube core does: products, and what brings and takes their parts."""
        found = {each for each in self.function.body.walk() if each.name in MATMULS}
        while True:
            more = {
                each
                for each in self.function.body.walk()
                if each not in found and self._belongs(each, found)
            }
            if not more:
                break
            found |= more
        while True:  # what vector cores make is turned by them, or on its way
            vectors = {
                each
                for each in found
                if each.name == "linalg.transpose" and self._maker(each.ins[0]) not in found
            }
            if not vectors:
                return frozenset(found)
            found -= vectors

    @cached_property
    def turned_on_the_way(self) -> frozenset[Operation]:
        """Transposes of what vector cores make for products alone: loads to L0 turn it.

        The same as of what is loaded (a_transpose and b_transpose of HIVM's mmadL1).
        """
        return frozenset(
            each
            for each in self.function.body.walk()
            if each.name == "linalg.transpose"
            and each not in self.on_cube
            and _swaps_the_last(each)
            and self.users.get(each.results[0])
            and all(
                user.name in MATMULS and each.results[0] not in user.outs
                for user in self.users[each.results[0]]
            )
        )

    def handed(self, value: Value) -> tuple[Value, bool]:
        """What vector cores store for an operand of a product, and whether loads to L0 turn it."""
        maker = self._maker(value)
        if maker is not None and maker in self.turned_on_the_way:
            return maker.ins[0], True
        return value, False

    def is_carried(self, value: Value) -> bool:
        """Whether a value is a sum of products that a loop carries in L0C."""
        return value in self._carried_products

    def is_vectors(self, value: Value) -> bool:
        """Whether the vector cores make an operand of a product."""
        maker = self._maker(value)
        if maker is not None and maker.name in MATMULS:
            return not self.starts_at_zero(maker)
        return maker is None or maker not in self.on_cube

    def crosses(self, value: Value) -> bool:
        """Whether the vector cores need a product, if only to add something else to it."""
        users = self.users.get(value, [])
        maker = self._maker(value)
        if maker is not None and maker.name in MATMULS and not self.starts_at_zero(maker):
            return bool(users)
        if value in self._carried_products:
            return any(each not in self.on_cube for each in users)
        return any(each not in self.on_cube and not self._carries(each, value) for each in users)

    def _carries(self, operation: Operation, value: Value) -> bool:
        """Whether an operation is the yield that hands a carried sum to the next turn."""
        if operation.name != "scf.yield":
            return False
        loop = self._loops.get(operation)
        if loop is None or loop.name != "scf.for":
            return False
        place = operation.operands.index(value)
        return loop.results[place] in self._carried_products

    @cached_property
    def _loops(self) -> dict[Operation, Operation]:
        """The operation in whose region another stands."""
        return {
            inner: each
            for each in self.function.body.walk()
            for region in each.regions
            for inner in region.operations
        }

    def starts_at_zero(self, product: Operation) -> bool:
        """Whether a product is added to nothing, or to what L0C has already."""
        start = product.outs[0]
        return self._is_zero(start) or self.is_carried(start) or self.goes_on(product)

    def goes_on(self, product: Operation) -> bool:
        """Whether a product is added to the one before it, where that lies in L0C."""
        before = self._before(product)
        return before is not None and self.starts_at_zero(before)

    def _before(self, product: Operation) -> Operation | None:
        """The product whose result only this one takes, to add to it."""
        start = product.outs[0]
        before = self._maker(start)
        if before is None or before.name not in MATMULS or self.users.get(start) != [product]:
            return None
        return before

    def _is_zero(self, value: Value) -> bool:
        maker = self._maker(value)
        if maker is not None and maker.name == "linalg.fill":
            source = self._maker(maker.ins[0])
            text = source.text if source is not None else ""
            return (
                source is not None
                and source.name == "arith.constant"
                and (" 0.000000e+00" in text or " 0 :" in text)
            )
        return (
            maker is not None
            and maker.name == "arith.constant"
            and ("dense<0.000000e+00>" in maker.text or "dense<0>" in maker.text)
        )

    @cached_property
    def _carried_products(self) -> set[Value]:
        """Sums that a loop carries in L0C: they begin with zeros, and only products add to them."""
        found: set[Value] = set()
        for loop in self.function.body.walk():
            if loop.name != "scf.for" or not loop.results:
                continue
            region = loop.regions[0]
            yielded = region.operations[-1].operands
            for place, argument in enumerate(region.arguments[1:]):
                users = [each for each in self.users.get(argument, []) if each.name != "scf.yield"]
                first = self._first_of(yielded[place])
                if (
                    first is not None
                    and users == [first]
                    and argument in first.outs
                    and self._is_zero(loop.operands[3 + place])
                ):
                    found |= {argument, loop.results[place]}
        return found

    def _first_of(self, value: Value) -> Operation | None:
        """The first of the products that are added to each other in a value."""
        product = self._maker(value)
        if product is None or product.name not in MATMULS:
            return None
        while (before := self._before(product)) is not None:
            product = before
        return product

    def _maker(self, value: Value) -> Operation | None:
        return self._makers.get(value)

    @cached_property
    def _makers(self) -> dict[Value, Operation]:
        return {value: each for each in self.function.body.walk() for value in each.results}

    def _belongs(self, operation: Operation, cube: set[Operation]) -> bool:
        """Whether an operation does nothing but serve products, or take them out."""
        if operation.name in ("memref.copy", "linalg.fill") and not operation.results:
            target = self._root(operation.operands[-1])
            return target is not None and target in cube
        if operation.name == "memref.subview":
            return False
        if operation.name in _LOADED:
            users = self._feeds(operation)
            return bool(users) and all(each in cube for each in users)
        if operation.name in ("arith.truncf", "tensor.extract_slice"):
            users = self.users.get(operation.results[0], [])
            stored = ("tensor.extract_slice", "bufferization.materialize_in_destination")
            carried = self._is_in_l0c(operation.operands[0], cube)
            return carried and bool(users) and all(each.name in stored for each in users)
        if operation.name == "bufferization.materialize_in_destination":
            return self._is_in_l0c(operation.operands[0], cube)
        return False

    def _is_in_l0c(self, value: Value, cube: set[Operation]) -> bool:
        """Whether a value is a sum in L0C; what else is added to it, vector cores add."""
        maker = self._maker(value)
        if maker is not None and maker.name in MATMULS:
            return self.starts_at_zero(maker)
        return value in self._carried_products or (maker is not None and maker in cube)

    def _feeds(self, operation: Operation) -> list[Operation]:
        """Who takes what an operation loads, beside those that fill it."""
        value = operation.results[0]
        users = [
            each
            for each in self.users.get(value, [])
            if each.name not in ("memref.subview", "memref.copy", "linalg.fill")
        ]
        if operation.name in ("bufferization.to_tensor", "linalg.transpose"):
            return [each for each in users if not (each.outs and value in each.outs)]
        return users

    def whole_shape(self, value: Value) -> tuple[int, ...]:
        """The sizes of what a tile of sizes that only the run tells is cut from."""
        maker = self._maker(value)
        if maker is not None and maker.name in ("tensor.extract_slice", "memref.subview"):
            return self.whole_shape(maker.operands[0])
        return value.type.shape or ()

    def _root(self, value: Value) -> Operation | None:
        """The allocation that a piece of local memory is cut from."""
        maker = self._maker(value)
        while maker is not None and maker.name in ("memref.subview", "memref.collapse_shape"):
            maker = self._maker(maker.operands[0])
        return maker if maker is not None and maker.name == "memref.alloc" else None

    def root(self, value: Value) -> Value | None:
        """The allocation that a piece of local memory is cut from, as a value."""
        maker = self._root(value)
        return None if maker is None else maker.results[0]

    def _regions(self) -> Iterator[Region]:
        yield self.function.body
        for each in self.function.body.walk():
            yield from each.regions


def _swaps_the_last(transpose: Operation) -> bool:
    """Whether the last two axes change places and no others."""
    order = list(transpose.lists[-1])
    plain: list[object] = list(range(len(order)))
    return order == [*plain[:-2], *reversed(plain[-2:])]


def _homes(region: Region) -> Iterator[tuple[Operation, Region]]:
    for each in region.operations:
        yield each, region
        for inner in each.regions:
            yield from _homes(inner)


def _used(operation: Operation) -> Iterator[Value]:
    """What an operation and those in its regions take."""
    yield from operation.operands
    for region in operation.regions:
        for each in region.walk():
            yield from each.operands


def is_over_elements(operation: Operation) -> bool:
    """Whether a loop goes through single elements; others of its kind bring rows, one by one."""
    return operation.has(_MARK) and not any(
        each.name in _OF_TILES for region in operation.regions for each in region.walk()
    )


def _is_plain(operation: Operation) -> bool:
    """Whether an operation works on numbers of the scalar unit, or cuts memory by them."""
    if operation.name in ("scf.for", "scf.if", "scf.while", "scf.yield", "scf.condition"):
        return not is_over_elements(operation)
    if operation.name in ("memref.subview", "memref.reinterpret_cast", "tensor.extract_slice"):
        return True
    if operation.name in ("builtin.unrealized_conversion_cast", "memref.cast", "memref.alloc"):
        return True
    return bool(operation.results) and all(each.type.is_scalar for each in operation.results)


def _without_dead(region: Region) -> None:
    """Takes away what nobody uses and that stores nothing."""
    while True:
        used = {value for each in region.walk() for value in each.operands}
        if not _removed(region, used):
            return


def _removed(region: Region, used: set[Value]) -> bool:
    kept = [
        each
        for each in region.operations
        if not each.results
        or each.regions
        or each.name in _STORES
        or any(value in used for value in each.results)
    ]
    found = len(kept) < len(region.operations)
    region.operations[:] = kept
    for each in kept:
        for inner in each.regions:
            found = _removed(inner, used) or found
    return found
