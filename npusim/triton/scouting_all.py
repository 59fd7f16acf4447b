"""What all programs of a launch will do, found at once: numbers are arrays, one for each program.

As :mod:`npusim.triton.scouting` for one program; what depends on more than this knows is left to
that one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from npusim.triton import numbers
from npusim.triton.bodies import element_work
from npusim.triton.held import UNKNOWN, GlobalPiece
from npusim.triton.scalar import Scalars
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from numpy.typing import NDArray

    from npusim.triton.launch import Launch
    from npusim.triton.mlir import Operation, Region

_MIXED = np.uint64(0x9E3779B97F4A7C15)  # odd, with bits all over (2^64 over the golden ratio)
_SHIFT = np.uint64(29)


class _LeftError(Exception):
    """Something that only one program after the other tells."""


def kinds_of(launch: Launch) -> list[Hashable] | None:
    """What each program does, up to addresses, as numbers; None where that isn't found here."""
    try:
        everybody = _Programs.of(launch)
        with np.errstate(all="ignore"):
            everybody.region(launch.program.function.body)
    except (_LeftError, KernelError):
        return None
    return list(everybody.marks.tolist())


class _Programs(Scalars):
    """The control flow of many programs, those in which the same is done together."""

    marks: NDArray[np.uint64]  # what has been told of each program so far
    told: int

    @classmethod
    def of(cls, launch: Launch) -> Self:
        """All programs, at their beginning."""
        made = cls(launch.program)
        made.bind(launch, 0)
        blocks = np.arange(launch.blocks)
        made.give(made.program.places, [*launch.grid, *launch.place(blocks)])  # type: ignore[arg-type]
        made.marks, made.told = np.zeros(launch.blocks, np.uint64), 0
        return made

    def _some(self, chosen: NDArray[np.bool_]) -> Self:
        """Some of the programs."""
        part = type(self)(self.program)
        part.env = [_of(each, chosen) for each in self.env]
        part.marks, part.told = self.marks[chosen], 0
        return part

    def _tell(self, values: Sequence[Any]) -> None:
        for each in values:
            if each is UNKNOWN:
                raise _LeftError
            number = np.asarray(each).astype(np.int64).view(np.uint64)
            marks = (self.marks ^ number) * _MIXED
            self.marks = marks ^ (marks >> _SHIFT)
            self.told += 1

    def region(self, region: Region) -> list[Any]:
        """What a region yields; what is in it is told."""
        for each in self.program.decides[region]:
            if each.name == "scf.for":
                self._loop(each)
            elif each.name == "scf.if":
                self._branch(each)
            elif each.name in ("scf.yield", "scf.condition"):
                return [self.env[operand.number] for operand in each.operands]
            elif each.name == "scf.while":
                raise _LeftError
            else:
                self._plain(each)
        return []

    def _plain(self, operation: Operation) -> None:
        name = operation.name
        if name in ("memref.subview", "tensor.extract_slice"):
            self._tell([each for each in self.numbers(operation.lists[1]) if _varies(each)])
        if name == "memref.reinterpret_cast":
            self._tell([each for each in self.numbers(operation.lists[2]) if _varies(each)])
        if not operation.results:
            return
        operands = [self.env[each.number] for each in operation.operands]
        if not any(_is_many(each) for each in operands):
            self.play_scalar(operation)
            return
        result = operation.results[0].number
        if any(each is UNKNOWN for each in operands):
            self.env[result] = UNKNOWN
        elif name.startswith("memref."):
            self.env[result] = self._memory_of(operation)
        elif name == "builtin.unrealized_conversion_cast":
            self.play_scalar(operation)
        else:
            found = element_work(operation, operands)
            if found is None or len(operation.results) > 1:
                raise _LeftError
            self.env[result] = found

    def _memory_of(self, operation: Operation) -> Any:
        """Where pieces of memory lie, and single elements of it."""
        piece = self.env[operation.operands[0].number]
        if not isinstance(piece, GlobalPiece):
            return UNKNOWN
        if operation.name == "memref.reinterpret_cast":
            (offset,), sizes, strides = map(self.numbers, operation.lists)
            return GlobalPiece(
                piece.buffer, piece.data, piece.dtype, piece.offset + offset, sizes, strides
            )
        if operation.name == "memref.subview":
            return piece.cut(*map(self.numbers, operation.lists))
        if operation.name == "memref.cast":
            return piece
        if operation.name != "memref.load":
            raise _LeftError
        if piece.data is None:
            return UNKNOWN
        places = self.numbers(operation.lists[0])
        at = piece.offset + sum(a * b for a, b in zip(places, piece.strides, strict=True))
        if np.any(at < 0) or np.any(at >= piece.data.size):
            raise _LeftError
        return piece.data[at].astype(numbers.DTYPES[operation.results[0].type.element].numpy)

    def _branch(self, operation: Operation) -> None:
        test = self.env[operation.operands[0].number]
        self._tell([test])
        chosen = np.broadcast_to(np.asarray(test, np.bool_), self.marks.shape)
        if chosen.all() or not chosen.any():
            self.give(operation.results, self.branch_taken(operation, taken=bool(chosen.all())))
            return
        results: list[Any] = [None] * len(operation.results)
        for mask, taken in ((chosen, True), (~chosen, False)):
            part = self._some(mask)
            found = part.branch_taken(operation, taken=taken)
            self._put_back(part, mask)
            results = [self._spread(*each, mask) for each in zip(results, found, strict=True)]
        self.give(operation.results, results)

    def branch_taken(self, operation: Operation, *, taken: bool) -> list[Any]:
        """One of the two regions of a branch."""
        if taken:
            return self.region(operation.regions[0])
        return self.region(operation.regions[1]) if len(operation.regions) > 1 else []

    def _loop(self, operation: Operation) -> None:
        bounds = [self.env[each.number] for each in operation.operands[:3]]
        if any(each is UNKNOWN for each in bounds):
            raise _LeftError
        low, high, step = (np.asarray(each).astype(np.int64) for each in bounds)
        trips = np.maximum(0, -((low - high) // step))
        self._tell([trips])
        carried = [self.env[each.number] for each in operation.operands[3:]]
        for turn in range(int(trips.max(initial=0))):
            here = np.broadcast_to(turn < trips, self.marks.shape)
            told, index = self.told, low + turn * step
            if here.all():
                carried = self.turn(operation, index, carried)
            else:
                part = self._some(here)
                begun = [_of(each, here) for each in (index, *carried)]
                found = part.turn(operation, begun[0], begun[1:])
                self._put_back(part, here)
                carried = [self._spread(*each, here) for each in zip(carried, found, strict=True)]
            if not carried and self.told == told:
                break  # nothing in it depends on where it is
        self.give(operation.results, carried)

    def turn(self, operation: Operation, index: Any, carried: list[Any]) -> list[Any]:
        """One turn of a loop."""
        region = operation.regions[0]
        self.give(region.arguments, [index if np.ndim(index) else int(index), *carried])
        return self.region(region)

    def _put_back(self, part: _Programs, mask: NDArray[np.bool_]) -> None:
        self.marks = self.marks.copy()
        self.marks[mask] = part.marks
        self.told += part.told

    def _spread(self, before: Any, found: Any, mask: NDArray[np.bool_]) -> Any:
        """What some programs have found, beside what the others had."""
        if found is UNKNOWN or before is UNKNOWN:
            return UNKNOWN
        if isinstance(found, GlobalPiece) or isinstance(before, GlobalPiece):
            raise _LeftError
        kind = np.asarray(found).dtype
        whole = np.zeros(mask.shape, kind) if before is None else np.array(
            np.broadcast_to(np.asarray(before), mask.shape), kind
        )  # fmt: skip
        whole[mask] = found
        return whole


def _varies(number: Any) -> bool:
    """Whether a number isn't the same in all programs, or isn't known."""
    return number is UNKNOWN or _is_many(number)


def _is_many(value: Any) -> bool:
    if isinstance(value, GlobalPiece):
        return any(np.ndim(each) for each in (value.offset, *value.sizes, *value.strides))
    return isinstance(value, np.ndarray) and value.ndim > 0


def _of(value: Any, chosen: NDArray[np.bool_]) -> Any:
    if not _is_many(value):
        return value
    if isinstance(value, GlobalPiece):
        return replace(
            value,
            offset=_of(value.offset, chosen),
            sizes=tuple(_of(each, chosen) for each in value.sizes),
            strides=tuple(_of(each, chosen) for each in value.strides),
        )
    return value[chosen]
