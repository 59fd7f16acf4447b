"""Who wrote and read global memory in a launch, and whether anything orders the cores that did.

For each block of 32 bytes of a memory, the last instruction that wrote it and the last that read
it. A core knows what has ended on another one from meeting it (SyncAll, flags between cores).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.ascendc.mistakes import site
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from npusim.ascendc.flat.order import Clock, Order
    from npusim.ascendc.gm_buffers import GmBuffer
    from npusim.engine.program import Pipe

_BLOCK = 32  # bytes that are told apart
_ALL = np.int64((1 << _BLOCK) - 1)  # of them


@dataclass(frozen=True, slots=True)
class Runs:
    """Runs of ``nbytes`` of a memory, from each of ``starts`` on."""

    starts: NDArray[np.int64]
    nbytes: int

    @classmethod
    def apart(cls, start: int, count: int, nbytes: int, apart: int) -> Runs:
        """``count`` runs whose starts are ``apart`` bytes apart."""
        if count == 1 or apart == nbytes:
            return cls(np.array([start]), count * nbytes)
        return cls(start + np.arange(count) * apart, nbytes)

    def blocks(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The blocks that they take, and which bytes of each, as bits."""
        if self.starts.size == 1 and not (self.starts[0] | self.nbytes) % _BLOCK:
            start, count = int(self.starts[0]) // _BLOCK, self.nbytes // _BLOCK
            return np.arange(start, start + count), np.full(count, _ALL)
        first = self.starts // _BLOCK
        numbers = first[:, None] + np.arange(self.nbytes // _BLOCK + 2)
        begins = np.clip(self.starts[:, None] - numbers * _BLOCK, 0, _BLOCK)
        ends = np.clip(self.starts[:, None] + self.nbytes - numbers * _BLOCK, 0, _BLOCK)
        taken = begins < ends
        bits = (np.int64(1) << ends) - (np.int64(1) << begins)
        return numbers[taken], bits[taken]

    def content(self, memory: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """What the blocks that they take hold, a row each; zeros behind the memory's end."""
        numbers, _ = self.blocks()
        last = self.starts[-1] + self.nbytes
        if self.starts.size == 1 and not (self.starts[0] | self.nbytes) % _BLOCK:
            return memory[self.starts[0] : last].reshape(-1, _BLOCK).copy()
        places = numbers[:, None] * _BLOCK + np.arange(_BLOCK)
        found: NDArray[np.uint8] = memory[np.minimum(places, memory.size - 1)]
        return np.where(places < memory.size, found, np.uint8(0))


@dataclass(frozen=True, slots=True, eq=False)
class _Access:
    """An instruction that read, wrote or ``adds``, by the core it ran on."""

    order: Order
    pipe: Pipe
    number: int
    place: str
    adds: bool = False


class GlobalOrder:
    """The order of a launch's cores; ``running`` is the one whose code runs."""

    def __init__(self) -> None:
        self.running: Order | None = None
        self._touched: dict[int, tuple[_Last, _Last]] = {}
        self._meetings: dict[int, dict[Order, Clock]] = {}
        self._met: dict[Order, int] = {}
        self._known: dict[Order, dict[Order, Clock]] = {}
        self._lock = Lock()

    def arrive(self, order: Order) -> int:
        """A core comes to a meeting of all: which one it is."""
        with self._lock:
            number = self._met[order] = self._met.get(order, 0) + 1
            told = self._known.get(order, {}) | {order: order.issued_so_far()}
            _learn(self._meetings.setdefault(number, {}), told)
            return number

    def leave(self, order: Order, number: int) -> None:
        """And goes on, when all have come."""
        with self._lock:
            _learn(self._known.setdefault(order, {}), self._meetings[number])

    def learn_all(self, order: Order) -> None:
        """A core has waited for others by means of their own."""
        with self._lock:
            told = {other: other.issued_so_far() for other in (*self._known, *self._met)}
            _learn(self._known.setdefault(order, {}), told)

    def touch(
        self,
        order: Order,
        pipe: Pipe,
        memory: GmBuffer,
        runs: Runs,
        *,
        writes: bool,
        adds: bool = False,
        before: NDArray[np.uint8] | None = None,
        after: NDArray[np.uint8] | None = None,
    ) -> None:
        """Runs of bytes are read or written, or added to.

        ``before`` and ``after`` are their :meth:`Runs.content`: of two cores that store to one
        place, either may win, unless they store the same. Raises KernelError for what another
        core, or another pipe of this one, may still be at.
        """
        numbers, bits = runs.blocks()
        with self._lock:
            self._known.setdefault(order, {})
            if memory.number not in self._touched:
                size = -(-memory.nbytes // _BLOCK)
                self._touched[memory.number] = _Last(size), _Last(size)
            wrote, read = self._touched[memory.number]
            last, did = (read, "reads") if writes else (wrote, "writes")
            for block, access in last.of(numbers, bits):
                if not self._has_ended(access, order, pipe):
                    self._refuse(order, pipe, access, did, block, memory.name)
            if writes and before is not None and after is not None:
                changed = _changed(numbers, bits, before, after)
                for block, access in wrote.of(*changed):
                    alone = access.order is order or (adds and access.adds)
                    if not alone and not self._has_ended(access, order, pipe):
                        self._refuse_both(order, access, block, memory.name)
            access = _Access(order, pipe, order.number_of(pipe), site(), adds)
            (wrote if writes else read).note(numbers, bits, access)

    def _has_ended(self, access: _Access, order: Order, pipe: Pipe) -> bool:
        other = access.order
        if other is order:
            return access.pipe is pipe or order.has_ended(access.pipe, access.number, pipe)
        if other.lane == order.lane and other.block < order.block:
            return True  # blocks of one core follow each other
        clock = self._known[order].get(other, {})
        return access.number <= clock.get(access.pipe, 0)

    def _refuse(
        self, order: Order, pipe: Pipe, access: _Access, did: str, block: int, name: str
    ) -> None:
        does, own = "writes" if did == "reads" else "reads", access.order is order
        whom = "it also" if own else "another core"
        remedy = (
            f"Set a flag {access.pipe}_{pipe} between the two and wait for it."
            if own
            else "Put sync_all behind the copy that writes."
        )
        raise KernelError(
            order.kernel,
            f"{does} byte {block * _BLOCK} of {name} that {whom} ({access.place}) {did} in this "
            "launch: nothing orders the two",
            remedy,
            site=access.place if did == "reads" else site(),
        )

    def _refuse_both(self, order: Order, access: _Access, block: int, name: str) -> None:
        raise KernelError(
            order.kernel,
            f"block {order.block} stores other numbers to byte {block * _BLOCK} of {name} than "
            f"block {access.order.block} ({access.place}): nothing orders the two, and either may "
            "win",
            "Let every block store to a place of its own, add atomically (set_atomic_add), or put "
            "sync_all between the two.",
            site=site(),
        )


def _changed(
    numbers: NDArray[np.int64],
    bits: NDArray[np.int64],
    before: NDArray[np.uint8],
    after: NDArray[np.uint8],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    if np.array_equal(before, after):
        return numbers[:0], bits[:0]
    other = (before != after).astype(np.int64) @ (np.int64(1) << np.arange(_BLOCK))
    found = other != 0
    return numbers[found], (bits & other)[found]


@dataclass(slots=True)
class _Last:
    """The last access to every block; of blocks taken in part, the last one of each core."""

    blocks: int
    _accesses: list[_Access] = field(default_factory=list)
    _whole: NDArray[np.int32] = field(init=False)
    _parts: dict[int, dict[Order, tuple[int, _Access]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._whole = np.zeros(self.blocks, np.int32)

    def note(self, numbers: NDArray[np.int64], bits: NDArray[np.int64], access: _Access) -> None:
        whole = bits == _ALL
        self._accesses.append(access)
        self._whole[numbers[whole]] = len(self._accesses)
        if self._parts:
            for block in numbers[whole].tolist():
                self._parts.pop(block, None)
        for block, mask in zip(numbers[~whole].tolist(), bits[~whole].tolist(), strict=True):
            held = self._parts.setdefault(block, {})
            earlier = held.get(access.order)
            alike = earlier is not None and earlier[1].pipe is access.pipe
            held[access.order] = (mask | (earlier[0] if alike and earlier else 0), access)

    def of(
        self, numbers: NDArray[np.int64], bits: NDArray[np.int64]
    ) -> Iterator[tuple[int, _Access]]:
        found, first = np.unique(self._whole[numbers], return_index=True)
        for number, block in zip(found.tolist(), numbers[first].tolist(), strict=True):
            if number:
                yield block, self._accesses[number - 1]
        if self._parts:
            for block, mask in zip(numbers.tolist(), bits.tolist(), strict=True):
                for other, access in self._parts.get(block, {}).values():
                    if other & mask:
                        yield block, access


def _learn(own: dict[Order, Clock], told: dict[Order, Clock]) -> None:
    for order, clock in told.items():
        before = own.get(order, {})
        own[order] = {pipe: max(before.get(pipe, 0), number) for pipe, number in clock.items()}


def bytes_of(memory: GmBuffer) -> NDArray[np.uint8] | None:
    """The content of a memory as bytes."""
    data: NDArray[Any] | None = memory.data
    return None if data is None else data.reshape(-1).view(np.uint8)
