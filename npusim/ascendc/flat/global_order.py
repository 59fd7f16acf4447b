"""Who wrote and read global memory in a launch, and whether anything orders the cores that did.

For each block of 32 bytes of a memory, the last instruction that wrote it and the last that read
it. A core knows what has ended on another one from meeting it (SyncAll, flags between cores).
"""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from npusim.ascendc.mistakes import site
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from npusim.ascendc.flat.order import Clock, Order
    from npusim.ascendc.gm_buffers import GmBuffer
    from npusim.engine.program import Pipe

Runs = tuple[int, int, int, int]
"""The first byte, how many runs, bytes of each, bytes from start to start."""

_BLOCK = 32  # bytes that are told apart


@dataclass(frozen=True, slots=True, eq=False)
class _Access:
    """An instruction that read or wrote, by the core it ran on."""

    order: Order
    pipe: Pipe
    number: int
    place: str


class GlobalOrder:
    """The order of a launch's cores."""

    def __init__(self) -> None:
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
        self, order: Order, pipe: Pipe, memory: GmBuffer, runs: Runs, *, writes: bool
    ) -> None:
        """Runs of bytes are read or written.

        Raises KernelError for what another core, or another pipe of this one, may still be at.
        """
        blocks, whole = _blocks(*runs)
        with self._lock:
            self._known.setdefault(order, {})
            if memory.number not in self._touched:
                size = -(-memory.nbytes // _BLOCK)
                self._touched[memory.number] = _Last(size), _Last(size)
            wrote, read = self._touched[memory.number]
            # Of two that write, either may win: they may well write the same.
            last, did = (read, "reads") if writes else (wrote, "writes")
            for block, access in last.of(blocks):
                if not self._has_ended(access, order, pipe):
                    self._refuse(order, pipe, access, did, block, memory.name)
            access = _Access(order, pipe, order.number_of(pipe), site())
            (wrote if writes else read).note(blocks[whole], access)

    def _has_ended(self, access: _Access, order: Order, pipe: Pipe) -> bool:
        if access.order is order:
            return access.pipe is pipe or order.has_ended(access.pipe, access.number, pipe)
        clock = self._known[order].get(access.order, {})
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


class _Last:
    """The last access to every block; 0 where there was none."""

    def __init__(self, blocks: int) -> None:
        self._number = np.zeros(blocks, np.int32)
        self._accesses: list[_Access] = []

    def note(self, blocks: np.ndarray[tuple[int], np.dtype[np.int64]], access: _Access) -> None:
        self._accesses.append(access)
        self._number[blocks] = len(self._accesses)

    def of(self, blocks: np.ndarray[tuple[int], np.dtype[np.int64]]) -> list[tuple[int, _Access]]:
        numbers, first = np.unique(self._number[blocks], return_index=True)
        found = zip(numbers.tolist(), blocks[first].tolist(), strict=True)
        return [(block, self._accesses[number - 1]) for number, block in found if number]


def _learn(own: dict[Order, Clock], told: dict[Order, Clock]) -> None:
    for order, clock in told.items():
        before = own.get(order, {})
        own[order] = {pipe: max(before.get(pipe, 0), number) for pipe, number in clock.items()}


def _blocks(
    start: int, count: int, nbytes: int, apart: int
) -> tuple[np.ndarray[tuple[int], np.dtype[np.int64]], np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    """The blocks that runs take, and which of them wholly."""
    if count == 1 or apart == nbytes:
        count, nbytes = 1, count * nbytes
    begin = start + np.arange(count) * apart
    most = nbytes // _BLOCK + 2
    blocks = begin[:, None] // _BLOCK + np.arange(most)
    first, last = blocks * _BLOCK, blocks * _BLOCK + _BLOCK
    end = (begin + nbytes)[:, None]
    taken = first < end
    whole = (first >= begin[:, None]) & (last <= end)
    return blocks[taken], whole[taken]
