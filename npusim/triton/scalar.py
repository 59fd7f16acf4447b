"""Operations of the scalar unit: integers in the bits of their type, addresses, single elements."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from npusim.triton import numbers
from npusim.triton.held import UNKNOWN, GlobalPiece, LocalPiece
from npusim.values.errors import KernelError
from npusim.values.sites import site_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from npusim.triton.launch import Launch
    from npusim.triton.mlir import Operation, Value
    from npusim.triton.program import LoweredProgram

_NAMES = """
    index_cast index_castui extsi extui trunci sitofp uitofp fptosi fptoui extf truncf bitcast
"""
_CONVERSIONS = frozenset(_NAMES.split())  # fmt: skip


class NeedsNumbersError(KernelError):
    """What a kernel does depends on numbers that the run doesn't have."""


class Scalars:
    """The values of one program, and what the scalar unit computes of them."""

    def __init__(self, program: LoweredProgram) -> None:
        self.program = program
        self.env: list[Any] = [UNKNOWN] * program.function.values

    def bind(self, launch: Launch, block: int) -> None:
        """The arguments of the launch, and where the program stands in the grid."""
        for value, given in zip(self.program.arguments, launch.given, strict=True):
            self.env[value.number] = given
        self.give(self.program.places, [*launch.grid, *launch.place(block)])

    def give(self, values: Sequence[Value], found: Sequence[Any]) -> None:
        """Values of a region's arguments or an operation's results."""
        for value, each in zip(values, found, strict=False):
            self.env[value.number] = each

    def numbers(self, items: Sequence[int | Value]) -> tuple[Any, ...]:
        """A list of an operation, with what its values are."""
        return tuple(each if isinstance(each, int) else self.env[each.number] for each in items)

    def refuse(
        self,
        operation: Operation,
        why: str,
        remedy: str = "",
        kind: type[KernelError] = KernelError,
    ) -> KernelError:
        """The error for an operation, with its line."""
        line = operation.line
        site = site_of(line.file, line.line) if line.file else ""
        return kind(self.program.name, why, remedy, site=site)

    def play_scalar(self, operation: Operation) -> None:
        """One operation whose results are numbers or pieces of global memory."""
        dialect, _, name = operation.name.partition(".")
        if dialect == "memref" or operation.name == "builtin.unrealized_conversion_cast":
            self._memory(operation, name)
            return
        if operation.name == "tensor.extract_slice":
            return
        operands = [self.env[each.number] for each in operation.operands]
        if operation.name == "arith.constant":
            found: Any = constant(operation)
        elif operation.name.startswith(("tensor.", "linalg.")) or any(
            each is UNKNOWN for each in operands
        ):
            found = UNKNOWN
        else:
            found = self._computed(operation, name, operands)
        if operation.results:
            self.env[operation.results[0].number] = found
            if found is UNKNOWN:
                for other in operation.results[1:]:
                    self.env[other.number] = UNKNOWN

    def _computed(self, operation: Operation, name: str, operands: list[Any]) -> Any:
        kind = operation.results[0].type.element if operation.results else ""
        if name in ("cmpi", "cmpf"):
            predicate = predicate_of(operation)
            own = operation.operands[0].type.element
            return bool(
                numbers.compared(
                    predicate, *(_typed(each, own) for each in operands), floats=name == "cmpf"
                )
            )
        if name == "select":
            return operands[1] if operands[0] else operands[2]
        if name in _CONVERSIONS:
            return _plain(self._converted(operation, name, operands[0]), kind)
        if name in numbers.BINARY:
            if name in _QUICK:
                return numbers.wrapped(_QUICK[name](*operands), kind)
            typed = [_typed(each, kind) for each in operands]
            with np.errstate(all="ignore"):
                return _plain(numbers.BINARY[name].compute(*typed), kind)
        if name in numbers.UNARY:
            with np.errstate(all="ignore"):
                return _plain(numbers.UNARY[name].compute(_typed(operands[0], kind)), kind)
        if name in ("mulsi_extended", "mului_extended"):
            return self._wide_number(operation, operands, kind)
        if name == "fma":
            return _plain(numbers.FUSED.compute(*(_typed(each, kind) for each in operands)), kind)
        raise self.refuse(operation, f"{operation.name} on numbers isn't simulated")

    def _wide_number(self, operation: Operation, operands: list[Any], kind: str) -> int:
        """The lower half of a product; the upper one is the second result."""
        bits = numbers.INTEGER_BITS[kind]
        left, right = operands
        if operation.name == "arith.mului_extended":
            left, right = left % (1 << bits), right % (1 << bits)
        whole = left * right
        self.env[operation.results[1].number] = numbers.wrapped(whole >> bits, kind)
        return numbers.wrapped(whole, kind)

    def _converted(self, operation: Operation, name: str, number: Any) -> Any:
        source, target = operation.operands[0].type.element, operation.results[0].type.element
        if name == "bitcast":
            return _typed(number, source).view(np.dtype(numbers.DTYPES[target].numpy))
        if name == "index_cast" or (name == "extsi" and source != "i1"):
            return numbers.wrapped(int(number), target)
        return numbers.converted(_typed(number, source), source, target, name)

    def _memory(self, operation: Operation, name: str) -> None:
        result = operation.results[0].number if operation.results else -1
        if name == "reinterpret_cast":
            base = self.env[operation.operands[0].number]
            (offset,), sizes, strides = (self.numbers(each) for each in operation.lists)
            if not isinstance(base, GlobalPiece):
                self.env[result] = UNKNOWN
                return
            self.env[result] = GlobalPiece(
                base.buffer, base.data, base.dtype,
                UNKNOWN if offset is UNKNOWN else base.offset + offset,
                sizes, strides, operation,
            )  # fmt: skip
        elif name in ("unrealized_conversion_cast", "cast"):
            self.env[result] = self._recast(operation)
        elif name == "subview":
            piece = self.env[operation.operands[0].number]
            if isinstance(piece, GlobalPiece):
                offsets, sizes, steps = map(self.numbers, operation.lists)
                unknown = UNKNOWN in (*offsets, *sizes, piece.offset)
                self.env[result] = UNKNOWN if unknown else piece.cut(offsets, sizes, steps)
            else:
                self.env[result] = UNKNOWN
        elif name == "load":
            self.env[result] = self.loaded(operation)
        elif name == "extract_aligned_pointer_as_index":
            self.env[result] = _address(self.env[operation.operands[0].number])
        elif result >= 0:
            self.env[result] = UNKNOWN

    def _recast(self, operation: Operation) -> Any:
        """The same memory as elements of another type."""
        piece = self.env[operation.operands[0].number]
        dtype = numbers.DTYPES.get(operation.results[0].type.element)
        if not isinstance(piece, GlobalPiece) or dtype is None or dtype is piece.dtype:
            return piece
        data = piece.data
        if data is not None:
            whole = data.view(np.uint8)
            fits = whole.size // dtype.itemsize * dtype.itemsize
            data = whole[:fits].view(np.dtype(dtype.numpy))
        start = piece.offset * piece.dtype.itemsize // dtype.itemsize
        return GlobalPiece(
            piece.buffer.shown_as(data), data, dtype, start, piece.sizes, piece.strides
        )

    def loaded(self, operation: Operation) -> Any:
        """One element of global memory, where there are numbers."""
        piece = self.env[operation.operands[0].number]
        places = self.numbers(operation.lists[0])
        if isinstance(piece, LocalPiece) and piece.tile.array is not None:
            if UNKNOWN in places:
                return UNKNOWN
            return _plain(piece.array()[places], operation.results[0].type.element)
        if not isinstance(piece, GlobalPiece) or piece.data is None:
            return UNKNOWN
        if piece.offset is UNKNOWN or UNKNOWN in places:
            return UNKNOWN
        at = piece.offset + sum(a * b for a, b in zip(places, piece.strides, strict=True))
        if not 0 <= at < piece.data.size:
            raise self.refuse(
                operation,
                f"element {at} of {piece.buffer.name} is read, which has {piece.data.size}",
                "Mask the load (tl.load(..., mask=...)).",
            )
        return _plain(piece.data[at], operation.results[0].type.element)


def _address(piece: Any) -> Any:
    """An address that programs compare with 0: a tensor without elements has none."""
    if not isinstance(piece, GlobalPiece):
        return UNKNOWN
    return _ANY_ADDRESS if piece.buffer.nbytes else 0


_ANY_ADDRESS = 1 << 40
_QUICK: dict[str, Callable[[int, int], int]] = {
    "addi": lambda a, b: a + b,
    "subi": lambda a, b: a - b,
    "muli": lambda a, b: a * b,
    "maxsi": max,
    "minsi": min,
}


def predicate_of(operation: Operation) -> str:
    """The word that says how a comparison compares."""
    return operation.text.split(None, 1)[1].split(",", 1)[0].strip()


def constant(operation: Operation) -> Any:
    """A number from the text of a constant."""
    text = operation.text.partition(" ")[2].strip()
    kind = operation.results[0].type.element
    value = text.partition(" : ")[0].strip()
    value = re.sub(r"^\{.*?\}\s*", "", value)
    if value in ("true", "false"):
        return value == "true"
    return number_of(value, kind)


def number_of(text: str, element: str) -> Any:
    """A number of a type from its text; hexadecimal ones are the bits of floats."""
    dtype = numbers.DTYPES[element]
    if not dtype.is_float:
        return {"true": 1, "false": 0}.get(text) if text in ("true", "false") else int(text, 0)
    if text.startswith("0x"):
        bits = np.array(int(text, 16), f"u{dtype.itemsize}")
        return cast("Any", bits.view(dtype.numpy))[()]
    return np.dtype(dtype.numpy).type(float(text))


def _typed(number: Any, element: str) -> Any:
    kind = np.dtype(numbers.DTYPES[element].numpy)
    if isinstance(number, int) and kind.kind == "i":
        return kind.type(numbers.wrapped(number, element))
    return kind.type(number)


def _plain(number: Any, element: str) -> Any:
    """Integers as Python has them, floats in their type."""
    if numbers.DTYPES[element].is_float:
        return _typed(number, element)
    return bool(number) if element == "i1" else int(number)
