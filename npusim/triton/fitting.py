"""How much of UB a kernel needs at once: by what is alive where, with both ends of what is closed.

The compiler's own planning of UB isn't published. Its least is what is alive at the same time, a
result in the place of an operand that isn't needed any more; its most keeps results apart. Buffers
that a loop loads are doubled in either, unless that doesn't fit: then it leaves them single, as its
option multibuffer does. Sizes come in bits, as its message has them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING

from npusim.triton import numbers
from npusim.triton.program import MATMULS
from npusim.values.arithmetic import round_up
from npusim.values.errors import BufferOverflowError
from npusim.values.sites import site_of

if TYPE_CHECKING:
    from npusim.triton.mlir import Line, Operation, Region, Value
    from npusim.triton.program import LoweredProgram

_BLOCK = 32  # bytes, at whose multiples buffers lie
_FREE = (
    "tensor.empty", "linalg.fill", "bufferization.alloc_tensor", "arith.constant",
    "tensor.expand_shape", "tensor.collapse_shape", "tensor.reshape", "tensor.extract_slice",
    "bufferization.to_tensor", "bufferization.to_memref", "memref.subview", "arith.bitcast",
    "memref.reinterpret_cast", "memref.cast", "builtin.unrealized_conversion_cast",
)  # fmt: skip
_IN_PLACE = ("arith.", "math.", "tensor.insert", "linalg.map")


@dataclass(frozen=True, slots=True)
class Buffer:
    """A buffer that is alive where most of UB is needed."""

    line: Line
    operation: str
    nbytes: int


@dataclass(frozen=True, slots=True)
class Need:
    """What a kernel needs of UB at once: at least, and at most, with its largest buffers."""

    least_bytes: int
    most_bytes: int
    buffers: tuple[Buffer, ...]

    def verdict(self, capacity_bytes: int) -> str:
        """Whether it fits."""
        if self.most_bytes <= capacity_bytes:
            return "fits"
        if self.least_bytes > capacity_bytes:
            return "doesn't fit"
        return "depends on the closed part of the compiler"

    def told(self, capacity_bytes: int) -> str:
        """The sizes in a sentence, in the compiler's unit and in bytes."""
        least = f"{self.least_bytes * 8} bits ({self.least_bytes} bytes)"
        most = f"{self.most_bytes * 8} bits ({self.most_bytes} bytes)"
        return (
            f"UB: {self.verdict(capacity_bytes)}: requires {least} to {most}, "
            f"{capacity_bytes * 8} bits ({capacity_bytes} bytes) available"
        )


@lru_cache(maxsize=256)
def need_of(program: LoweredProgram) -> Need:
    """What a kernel needs of UB.

    Vector cores of a mix hold half of the rows each where the compiler can bind them to halves
    (its option enable_auto_bind_sub_block), or all: which of them it is, isn't published.
    """
    share = 2 if program.has_products else 1
    least, buffers = _Plan(program, share, doubled=False, in_place=True).peak()
    most, _ = _Plan(program, 1, doubled=True, in_place=False).peak()
    return Need(least, most, buffers)


def check_fits(program: LoweredProgram, capacity_bytes: int) -> str:
    """The need of a kernel in a sentence where it depends on the compiler; nothing if it fits.

    Raises BufferOverflowError for a kernel that can't fit, with its lines and buffers.
    """
    need = need_of(program)
    if need.most_bytes <= capacity_bytes:
        return ""
    if need.least_bytes <= capacity_bytes:
        return need.told(capacity_bytes)
    largest = sorted(need.buffers, key=lambda each: -each.nbytes)[:6]
    listed = "; ".join(
        f"{site_of(each.line.file, each.line.line)} {each.operation} {each.nbytes} bytes"
        for each in largest
    )
    line = largest[0].line
    error = BufferOverflowError(
        program.name, "UB", need.least_bytes, capacity_bytes,
        f"In the compiler's words: ub overflow, requires {need.least_bytes * 8} bits while "
        f"{capacity_bytes * 8} bits available. Alive at once: {listed}. Use a smaller BLOCK, or a "
        "loop over parts of it within the program.",
    )  # fmt: skip
    error.locate(program.name, site_of(line.file, line.line))
    raise error


class _Plan:
    """The buffers that are alive behind every operation."""

    def __init__(
        self, program: LoweredProgram, share: int, *, doubled: bool, in_place: bool
    ) -> None:
        self._program, self._share = program, share
        self._doubled, self._in_place = doubled, in_place
        self._alive: dict[Value, Buffer] = {}
        self._shown: dict[Value, Value] = {}  # the buffer that a value shows
        self._holders: dict[Value, int] = {}
        self._most = 0
        self._listed: tuple[Buffer, ...] = ()

    def peak(self) -> tuple[int, tuple[Buffer, ...]]:
        """The most bytes at once, and the buffers that are alive there."""
        self._region(self._program.function.body, depth=0)
        return self._most, self._listed

    def _region(self, region: Region, depth: int) -> None:
        for each in region.operations:
            dying = self._program.last_uses.get(each, ())
            if each.regions and each.name.startswith("scf."):
                self._carry(each)
                for inner in each.regions:
                    self._region(inner, depth + (each.name != "scf.if"))
                self._give_results(each)
            elif each not in self._program.on_cube:
                carried = self._program.last_uses_of_arguments.get(each, ())
                self._operation(each, (*dying, *carried), depth)
            for value in dying:
                self._end(value)

    def _carry(self, loop: Operation) -> None:
        """What a loop carries lies in one buffer, where it starts and in all turns."""
        if loop.name != "scf.for":
            return
        dying = self._program.last_uses.get(loop, ())
        for argument, start in zip(loop.regions[0].arguments[1:], loop.operands[3:], strict=False):
            if not self._size(argument) or self._program.is_carried(argument):
                continue
            place = self._shown.get(start)
            if self._in_place and place and start in dying and self._holders[place] == 1:
                self._show(argument, place)
            else:
                self._begin_buffer(argument, loop, 1)
                self._show(argument, argument)

    def _give_results(self, loop: Operation) -> None:
        if loop.name == "scf.for":
            arguments = loop.regions[0].arguments[1:]
            for argument, result in zip(arguments, loop.results, strict=False):
                place = self._shown.pop(argument, None)
                if place is not None:
                    self._shown[result] = place
            return
        for result in loop.results:
            if self._size(result):
                self._begin_buffer(result, loop, 1)
                self._show(result, result)

    def _operation(self, operation: Operation, dying: tuple[Value, ...], depth: int) -> None:
        if operation.name in MATMULS:
            if self._program.crosses(operation.results[0]):
                self._begin_buffer(operation.results[0], operation, 1)
                self._show(operation.results[0], operation.results[0])
            return
        inlined = self._in_place and operation.name == "linalg.broadcast"
        if operation.name in _FREE or inlined or operation in self._program.turned_on_the_way:
            for value in operation.results:
                source = next((self._shown.get(each) for each in operation.operands), None)
                if source is not None:
                    self._show(value, source)
            return
        for value in operation.results:
            if not self._size(value):
                continue
            place = self._reused(operation, value, dying)
            if place is not None:
                self._show(value, place)
                continue
            loads = operation.name == "memref.alloc" and depth > 0
            self._begin_buffer(value, operation, 2 if loads and self._doubled else 1)
            self._show(value, value)

    def _reused(self, operation: Operation, value: Value, dying: tuple[Value, ...]) -> Value | None:
        """The buffer of an operand that nobody needs any more, if the result fits there."""
        if not (self._in_place and operation.name.startswith(_IN_PLACE)):
            return None
        for operand in operation.operands:
            buffer = self._shown.get(operand)
            if (
                buffer is not None
                and operand in dying
                and self._holders.get(buffer, 0) == 1
                and self._size(buffer) >= self._size(value)
            ):
                return buffer
        return None

    def _begin_buffer(self, value: Value, operation: Operation, times: int) -> None:
        self._alive[value] = Buffer(operation.line, operation.name, self._size(value) * times)
        total = sum(each.nbytes for each in self._alive.values())
        if total > self._most:
            self._most, self._listed = total, tuple(self._alive.values())

    def _show(self, value: Value, buffer: Value) -> None:
        self._shown[value] = buffer
        self._holders[buffer] = self._holders.get(buffer, 0) + 1

    def _end(self, value: Value) -> None:
        buffer = self._shown.pop(value, None)
        if buffer is None:
            return
        self._holders[buffer] -= 1
        if not self._holders[buffer]:
            self._alive.pop(buffer, None)

    def _size(self, value: Value) -> int:
        """Bytes in UB: rows at multiples of a block; truth values are bits."""
        shape, dtype = value.type.shape, numbers.DTYPES.get(value.type.element)
        if shape is None or dtype is None or any(each < 0 for each in shape):
            return 0
        if value.type.is_memory and value.name.startswith("%arg"):
            return 0
        bits = 1 if value.type.element == "i1" else dtype.bits
        *rows, last = shape or (1,)
        whole = round_up(-(-last * bits // 8), _BLOCK) * prod(rows)
        return round_up(-(-whole // self._share), _BLOCK)
