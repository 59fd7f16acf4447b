"""All operations on tiles, by their names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from npusim.engine.program import Pipe
from npusim.triton import atomics, calls, generic, numbers, reductions
from npusim.triton.copies import PIECES, Copies
from npusim.triton.elements import Elements
from npusim.triton.held import UNKNOWN, GlobalPiece, LocalPiece, Tile
from npusim.triton.order import Order

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from npusim.triton.mlir import Operation

_CASTS = frozenset(
    [
        "extf",
        "truncf",
        "sitofp",
        "uitofp",
        "fptosi",
        "fptoui",
        "extsi",
        "extui",
        "trunci",
        "index_cast",
    ]
)

_NAMED = {"mod": numbers.BINARY["remf"], "powf": numbers.POWER}


class Tiles(Order):
    """The vector side of a player."""

    def play_tile(self, operation: Operation) -> None:
        """One operation that has tiles or memory for operands or results."""
        dialect, _, name = operation.name.partition(".")
        if operation.name in self._BY_NAME:
            self._BY_NAME[operation.name](self, operation)
        elif dialect == "arith" and name in numbers.BINARY:
            self._elements(operation, numbers.BINARY[name])
        elif (dialect == "math" and name in numbers.UNARY) or (
            dialect == "arith" and name in numbers.UNARY
        ):
            self._elements(operation, numbers.UNARY[name])
        elif dialect == "arith" and name in _CASTS:
            if self.core.unit.kind == "cube":
                self._recast_product(operation, name)
            else:
                self._cast(operation, name)
        elif operation.name in ("call", "func.call"):
            calls.play(self, operation)
        elif operation.name in PIECES:
            self._piece(operation)
        else:
            raise self.unknown(operation)

    def extract(self, operation: Operation) -> None:
        """One element of a tile as a number of the scalar unit."""
        value = operation.results[0]
        if not self.is_mine(operation) and self.core.unit.kind == "cube":
            self.env[value.number] = UNKNOWN
            return
        source = self.tile(operation.operands[0])
        places = self.numbers(operation.lists[-1]) if operation.lists else ()
        number: Any = UNKNOWN
        if source.is_number:
            number = source.number
        elif (self.core.numerics or source.array is not None) and UNKNOWN not in places:
            found = self.array(source)[places]
            floats = source.dtype.is_float
            number = found if floats else (bool(found) if found.dtype == np.bool_ else int(found))
        if self.core.recording and not source.is_number:
            with self.core.schedules():
                self.core.wait_vector()
                self.core.emit_scalar("ld_ub", loads=1, detail="tile")
        self.env[value.number] = number

    def load_element(self, operation: Operation) -> None:
        """Write down that the scalar unit loads an element of global memory.

        Its cache holds the lines that the program has touched before.
        """
        if not self.core.recording:
            return
        line = self._line_of(operation)
        with self.core.schedules():
            if line is None or line not in self.lines:
                self.core.load_lines(1)
                self.lines.add(line)
            else:
                cycles = self.core.costs.gm_element()
                self.core.recorder.emit(Pipe.SCALAR, "ld_gm", cycles, detail="1 element")

    def _line_of(self, operation: Operation) -> tuple[int, int] | None:
        """The line of global memory that an element lies in, where that is known."""
        piece = self.env[operation.operands[0].number]
        places = self.numbers(operation.lists[0])
        if not isinstance(piece, GlobalPiece) or UNKNOWN in (piece.offset, *places):
            return None
        at = piece.offset + sum(a * b for a, b in zip(places, piece.strides, strict=True))
        line = self.core.profile.memory.l2_line_bytes
        return piece.buffer.number, at * piece.dtype.itemsize // line

    def _insert(self, operation: Operation) -> None:
        number = self.env[operation.operands[0].number]
        whole = self.tile(operation.operands[1])
        places = self.numbers(operation.lists[-1])

        def placed() -> NDArray[Any]:
            found = self.array(whole).copy()
            found[places] = number
            return found

        is_known = whole.numel == 1 and number is not UNKNOWN
        tile = self.result(operation, placed, [whole], is_known=is_known)
        if self.core.recording and tile.local is not None:
            with self.core.schedules():
                self.core.emit_scalar("st_ub", stores=1, detail="tile")
                self.core.filled(tile.local)

    def _store_element(self, operation: Operation) -> None:
        number, piece = (self.env[each.number] for each in operation.operands[:2])
        places = self.numbers(operation.lists[0])
        if isinstance(piece, LocalPiece) and UNKNOWN not in places:
            self._put_element(piece, places, number)
            return
        if not isinstance(piece, GlobalPiece) or UNKNOWN in places:
            raise self.needs_data(operation)
        one = piece.cut(tuple(places), (1,) * len(places), (1,) * len(places))
        self.check_inside(operation, one)
        if self.core.recording:
            with self.core.schedules():
                self.core.emit_scalar("st_gm", stores=1, detail=piece.buffer.name)
        if self.core.numerics and self.stores:
            one.array()[...] = number

    def _put_element(self, piece: LocalPiece, places: tuple[int, ...], number: Any) -> None:
        """One element of UB, by the scalar unit."""
        if self.core.numerics:
            piece.array()[places] = number
        else:
            piece.tile.array = None
        if self.core.recording and piece.tile.local is not None:
            with self.core.schedules():
                self.core.emit_scalar("st_ub", stores=1, detail="tile")
                self.core.filled(piece.tile.local)

    def _named(self, operation: Operation) -> None:
        """Elementwise operations that the front half names instead of writing them out."""
        name = operation.text.split("_fn<", 1)[1].split(">", 1)[0]
        if name not in _NAMED:
            raise self.unknown(operation, f"{operation.name} {name}")
        calls.library_call(self, operation, _NAMED[name])

    def _from_elements(self, operation: Operation) -> None:
        """A tile of numbers that the scalar unit has."""
        given = [self.env[each.number] for each in operation.operands]
        shape = operation.results[0].type.shape or ()
        dtype = numbers.DTYPES[operation.results[0].type.element]
        if len(given) == 1:
            self.give_tile(operation.results[0], Tile(dtype, shape, number=given[0]))
            return
        tile = self.result(operation, lambda: np.array(given, dtype.numpy).reshape(shape), [])
        if self.core.recording and tile.local is not None:
            with self.core.schedules():
                self.core.emit_scalar("st_ub", stores=len(given), detail="tile")
                self.core.filled(tile.local)

    def _called(self, operation: Operation) -> None:
        calls.play(self, operation)

    def _barrier(self, operation: Operation) -> None:  # noqa: ARG002 - there is one kind
        if self.core.recording:
            with self.core.schedules():
                self.core.pipe_barrier()

    def _generic(self, operation: Operation) -> None:
        if operation.has("GenericAtomic"):
            atomics.play(self, operation)
        else:
            generic.play(self, operation)

    def _wide_product(self, operation: Operation) -> None:
        """Both halves of products of integers."""
        left, right = (self.tile(each) for each in operation.operands)
        bits = numbers.INTEGER_BITS[operation.results[0].type.element]
        signed = operation.name == "arith.mulsi_extended"

        def product() -> NDArray[Any]:
            pair = [np.asarray(self.operand(each)) for each in (left, right)]
            if not signed:
                pair = [each.view(f"u{each.dtype.itemsize}") for each in pair]
            wide = [
                each.astype(object if bits > 32 else (np.int64 if signed else np.uint64))
                for each in pair
            ]
            return np.asarray(wide[0] * wide[1])

        mask = (1 << bits) - 1
        kind = np.dtype(f"u{bits // 8}")
        low = self.result(
            operation, lambda: (product() & mask).astype(kind).view(f"i{bits // 8}"), [left, right]
        )
        high = self.result(
            operation, lambda: (product() >> bits & mask).astype(kind).view(f"i{bits // 8}"),
            [left, right], 1,
        )  # fmt: skip
        if self.core.recording and low.local is not None and high.local is not None:
            with self.core.schedules():
                self.vector.by_scalar("mul_extended", low.local, 2)
                self.core.filled(high.local)

    def _fused(self, operation: Operation) -> None:
        self._elements(operation, numbers.FUSED)

    def _power(self, operation: Operation) -> None:
        self._elements(operation, numbers.POWER)

    def _nothing(self, operation: Operation) -> None:
        """An operation that tells the compiler something."""

    def _reduce(self, operation: Operation) -> None:
        reductions.play(self, operation)

    _BY_NAME: ClassVar[Mapping[str, Callable[[Any, Operation], None]]] = {
        "memref.alloc": Copies.alloc,
        "memref.copy": Copies.copy,
        "memref.store": _store_element,
        "bufferization.to_tensor": Copies.to_tensor,
        "bufferization.to_memref": Copies.to_memref,
        "bufferization.materialize_in_destination": Copies.materialize,
        "bufferization.alloc_tensor": Elements.empty,
        "tensor.empty": Elements.empty,
        "arith.constant": Elements.constant,
        "arith.cmpi": Elements.compare,
        "arith.cmpf": Elements.compare,
        "arith.select": Elements.select,
        "arith.bitcast": Elements.bitcast,
        "arith.mulsi_extended": _wide_product,
        "arith.mului_extended": _wide_product,
        "math.fma": _fused,
        "math.powf": _power,
        "linalg.fill": Elements.fill,
        "linalg.broadcast": Order.broadcast,
        "linalg.transpose": Order.transpose,
        "linalg.reduce": _reduce,
        "linalg.generic": _generic,
        "tensor.expand_shape": Order.reshape,
        "tensor.collapse_shape": Order.reshape,
        "tensor.reshape": Order.reshape,
        "tensor.extract_slice": Order.cut,
        "tensor.insert_slice": Order.put,
        "tensor.concat": Order.concat,
        "tensor.insert": _insert,
        "tensor.from_elements": _from_elements,
        "annotation.mark": _nothing,
        "memref.dealloc": _nothing,
        "gpu.barrier": _barrier,
        "llvm.intr.assume": _nothing,
        "linalg.map": _called,
        "hfusion.elemwise_binary": _named,
        "hfusion.elemwise_unary": _named,
    }
