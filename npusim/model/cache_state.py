"""What L2 holds when an operator of a step starts.

``order`` follows the step: an operator finds in L2 what is left there of its inputs.  Profiles
don't say which tensor is which, so an input is taken for the last tensor of its shape, dtype and
format that an operator before it wrote, a second such input for the last but one; everything else,
weights above all, comes from memory.  Networks name their tensors: what several operators read,
such as weights that layers share, is found as what was written is.  Where a graph compiler planned
the memory, what nobody reads any more is written over, and only what that drives out goes to HBM.
``busy`` is for steps whose order isn't known: inputs come from memory, and what is written drives
out something else.
``in_graph`` takes the share that a task inside a graph finds on average, ``cold`` an empty L2,
``warm`` one that holds everything.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from itertools import count
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from npusim.hardware import Profile
    from npusim.model.step import Operation

ORDER: Final = "order"
BUSY: Final = "busy"
MODES: Final = (ORDER, BUSY, "in_graph", "cold", "warm")
IN_A_STEP: Final = (ORDER, BUSY)
"""Modes in which L2 is full of what others have modified."""

_ALIKE: Final = 8  # tensors of one shape that are told apart, the last ones
_STEPS: Final = 4
"""Residency is told apart in quarters of a tensor: finer steps cost time and change nothing."""

Residency = tuple[float, ...]
"""For each input tensor of an item the share of it that is in L2."""


class Tensors:
    """Numbers the tensors of a step as they come up: by name, or by shape, dtype and format."""

    def __init__(self) -> None:
        self._numbers = count()
        self._written: dict[str, deque[int]] = {}
        self._given: dict[str, int] = {}

    def of(self, operation: Operation) -> tuple[list[Read], list[int]]:
        """What an operation reads and writes, which are new tensors."""
        seen: Counter[str] = Counter()
        named = bool(operation.reads)
        reads = [self._read(key, seen, named=named) for _, key in operation.read_tensors]
        written = zip(operation.written_tensors, pieces_of(operation), strict=True)
        return reads, [self._write(key, is_piece=piece) for (_, key), piece in written]

    def _read(self, key: str | None, seen: Counter[str], *, named: bool) -> Read:
        written = () if key is None else self._written.get(key, ())
        if key is not None and written:
            place = min(seen[key], len(written) - 1)
            seen[key] += 1
            return Read(written[place], True, True)
        if key is None or not named:
            return Read(next(self._numbers), False, False)
        known = key in self._given
        return Read(self._given.setdefault(key, next(self._numbers)), False, known)

    def _write(self, key: str, *, is_piece: bool) -> int:
        if is_piece and key in self._written:
            return self._written[key][0]
        number = next(self._numbers)
        self._written.setdefault(key, deque(maxlen=_ALIKE)).appendleft(number)
        return number


class Read(NamedTuple):
    """A tensor that an operation reads: its number, whether the step wrote it, or met it before."""

    number: int
    is_written: bool
    is_known: bool


def pieces_of(operation: Operation) -> tuple[bool, ...]:
    """Which of what an operation writes is a piece of a tensor that others write to as well."""
    return operation.pieces or (False,) * len(operation.written_tensors)


def readers_of(operations: Iterable[Operation]) -> Counter[int]:
    """How many operations read each tensor that the step writes."""
    tensors = Tensors()
    found: Counter[int] = Counter()
    for operation in operations:
        reads, _ = tensors.of(operation)
        found.update({each.number for each in reads if each.is_written})
    return found


class Follower:
    """Follows the tensors of a step through L2, operator by operator.

    With `readers`, how many operators read each tensor, memory of tensors that nobody reads any
    more is written again, as a graph compiler plans it: `write_back` is then the share of what the
    last operator wrote that drove something modified out to memory, None without. Lines that have
    been used least recently leave first.
    """

    def __init__(self, profile: Profile, readers: Mapping[int, int] | None = None) -> None:
        self._lines = _Lines(profile.memory.l2_bytes)
        self._tensors = Tensors()
        self._readers = None if readers is None else dict(readers)
        self._free: dict[int, float] = {}  # bytes of memory that nobody reads any more
        self.write_back: float | None = None

    def pass_through(self, operation: Operation) -> Residency:
        """It reads its inputs and writes its outputs: what of the inputs is in L2 before that."""
        given, made = operation.read_tensors, operation.written_tensors
        reads, writes = self._tensors.of(operation)
        moved = sum(nbytes for nbytes, _ in (*given, *made))
        found = tuple(
            self._share(each.number, nbytes, moved) if each.is_known else 0.0
            for (nbytes, _), each in zip(given, reads, strict=True)
        )
        driven_out = 0.0
        for (nbytes, _), each in zip(given, reads, strict=True):
            driven_out += self._lines.touch(each.number, nbytes)
        pieces = pieces_of(operation)
        for (nbytes, _), number, is_piece in zip(made, writes, pieces, strict=True):
            again = self._take(nbytes)
            held, changed = self._lines.of(number) if is_piece else (0.0, 0.0)
            driven_out += self._lines.touch(
                number, held + nbytes, modified=changed + nbytes, in_place=again
            )
        if self._readers is not None:
            self._count_down({each.number for each in reads if each.is_written})
            written = sum(nbytes for nbytes, _ in made)
            self.write_back = _in_steps(driven_out / written) if written else 0.0
        return found

    def _share(self, number: int, nbytes: int, moved: int) -> float:
        """What of a tensor an operator finds that moves so many bytes in all.

        Of a tensor that has been written from front to back its end is left, and the reader begins
        in front: what it misses, and what it writes meanwhile, drives out the oldest lines, which
        are those that it comes to next.
        """
        held = min(1.0, self._lines.held(number) / max(1, nbytes))
        rate = moved / max(1, nbytes)
        if held < 1.0:
            held -= rate * (1.0 - held) / (2.0 - rate) if rate < 2.0 else held
        return _in_steps(held)

    def _count_down(self, numbers: Iterable[int]) -> None:
        """Memory of tensors that have been read for the last time is free."""
        readers = self._readers or {}
        for number in numbers:
            readers[number] = readers.get(number, 0) - 1
            if readers[number] <= 0:
                self._free[number] = self._lines.held(number)

    def _take(self, nbytes: float) -> float:
        """Bytes in L2 that a new tensor gets with memory that is free, the latest first."""
        found = 0.0
        while self._free and found < nbytes:
            number, held = self._free.popitem()
            held = min(held, self._lines.held(number))
            part = min(held, nbytes - found)
            if part > 0.0:
                self._lines.drop(number, part)
                found += part
            if held > part:
                self._free[number] = held - part
        return found


class _Lines:
    """Bytes in L2 by tensor, those of the least recently used one first, and how many modified."""

    def __init__(self, capacity_bytes: float) -> None:
        self._room = float(capacity_bytes)
        self._capacity = self._room
        self._held: OrderedDict[int, float] = OrderedDict()
        self._modified: dict[int, float] = {}

    def held(self, number: int) -> float:
        """Bytes of a tensor."""
        return self._held.get(number, 0.0)

    def of(self, number: int) -> tuple[float, float]:
        """Bytes of a tensor, and how many of them are modified."""
        return self.held(number), self._modified.get(number, 0.0)

    def touch(
        self, number: int, nbytes: float, *, modified: float = 0.0, in_place: float = 0.0
    ) -> float:
        """A tensor is read or written: the modified bytes that this drives out."""
        before = self._held.pop(number, 0.0)
        kept = max(before, min(nbytes, self._capacity))
        excess = kept - before - self._room
        self._room -= kept - before
        gone = 0.0
        while self._held and excess > 0.0:
            oldest = next(iter(self._held))
            part = min(self._held[oldest], excess)
            gone += self.drop(oldest, part)
            excess -= part
        self._held[number] = kept
        self._modified[number] = max(self._modified.get(number, 0.0), min(modified, kept))
        # What passes through without staying is driven out by itself.
        return gone + max(0.0, modified - kept - in_place)

    def drop(self, number: int, nbytes: float) -> float:
        """Bytes of a tensor leave; how many of them are modified."""
        held = self._held[number]
        changed = self._modified.get(number, 0.0) * min(1.0, nbytes / held) if held else 0.0
        self._room += nbytes
        if nbytes >= held:
            del self._held[number]
            self._modified.pop(number, None)
        else:
            self._held[number] = held - nbytes
            self._modified[number] -= changed
        return changed


def _in_steps(share: float) -> float:
    return max(0.0, min(1.0, round(_STEPS * share) / _STEPS))
