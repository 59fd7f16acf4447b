"""Simulated device memory: blocks at addresses that belong to the device and are never reused.

A pointer into a block is the block's address and an offset, so pointer arithmetic works. Because
no address is given out twice, a freed block is told from any other, and a program that reads
through a device pointer on the host ends, as it does with a card.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from mmap import mmap
from typing import Any

import numpy as np

from npusim.capi.runtime.refusals import Refusal
from npusim.values.arithmetic import round_up
from npusim.values.errors import NpusimError
from npusim.values.status import AclError

# No operating system maps anything here: below ends the heap of a sanitised program's shadow,
# far above lie libraries and stacks.
_FIRST_ADDRESS = 0x1240_0000_0000
_LAST_ADDRESS = 0x2A00_0000_0000
_PAGE_BYTES = 4096  # blocks begin at pages of their own

# What an allocation takes from the device: rounded up, and something behind it.
# Source: CANN 8.1.RC1 include/acl/acl_rt.h (aclrtMalloc).
_ROUND_BYTES = 32
_EXTRA_BYTES = 32


class AddressError(NpusimError):
    """Memory that isn't there: a wild address, a freed block, or beyond the end of a block."""


@dataclass(eq=False)
class Block:
    """One allocation; its content goes when it is freed and no queued task needs it."""

    address: int
    size: int
    device: int
    _content: np.ndarray[Any, Any] | None = field(default=None, repr=False)
    is_freed: bool = False
    version: int = 0  # counts the writes, so that a plan that looked at the data knows

    @property
    def content(self) -> np.ndarray[Any, Any]:
        """The bytes, zeros at first, with those behind that the block has by being rounded up."""
        if self._content is None:
            # Shared pages, which kernels in C++ find at the block's address while they run.
            pages = mmap(-1, round_up(self.taken_bytes, _PAGE_BYTES))
            self._content = np.frombuffer(pages, np.uint8)[: self.taken_bytes]
        return self._content

    @property
    def taken_bytes(self) -> int:
        """What the block takes from the device's memory."""
        return round_up(self.size, _ROUND_BYTES) + _EXTRA_BYTES


class DeviceMemory:
    """All blocks of all devices."""

    def __init__(self, capacity_bytes: int, tell: Callable[[str], None] = lambda _: None) -> None:
        """``tell`` hears of blocks that are used beyond what was asked for, or when freed, once."""
        self._capacity_bytes = capacity_bytes
        self._tell = tell
        self._leaving = 0  # the address of a block that is being freed
        self._overrun_blocks: set[int] = set()
        self._next = _FIRST_ADDRESS
        self._starts: list[int] = []  # of living blocks, ascending: addresses only grow
        self._blocks: dict[int, Block] = {}
        self._taken_bytes: dict[int, int] = {}
        self._reset: set[int] = set()  # addresses of blocks that a reset took

    def __len__(self) -> int:
        return len(self._blocks)

    @property
    def capacity_bytes(self) -> int:
        """Memory of one device."""
        return self._capacity_bytes

    def free_bytes(self, device: int) -> int:
        """What is left on a device."""
        return self._capacity_bytes - self._taken_bytes.get(device, 0)

    def blocks(self) -> list[Block]:
        """The living blocks, oldest first."""
        return list(self._blocks.values())

    def allocate(self, size: int, device: int) -> int:
        """The address of a new block. Refusal 207001 where the device's memory doesn't suffice."""
        block = Block(self._next, size, device)
        if block.taken_bytes > self.free_bytes(device):
            raise Refusal(
                AclError.ACL_ERROR_RT_MEMORY_ALLOCATION,
                f"{size} bytes don't fit: {self.free_bytes(device)} of the device's "
                f"{self._capacity_bytes} bytes are free",
                "Free memory first, or simulate a chip with more.",
            )
        step = round_up(block.taken_bytes, _PAGE_BYTES)
        self._next += step + _PAGE_BYTES
        self._taken_bytes[device] = self._taken_bytes.get(device, 0) + block.taken_bytes
        self._starts.append(block.address)
        self._blocks[block.address] = block
        return block.address

    def free(self, address: int) -> Block:
        """Frees the block that starts at `address`. Refusal 107000 where none does."""
        block = self._blocks.pop(address, None)
        if block is None:
            raise Refusal(
                AclError.ACL_ERROR_RT_PARAM_INVALID,
                self._why_not_free(address),
                "Free each address that aclrtMalloc gave, once.",
            )
        self._starts.pop(bisect_right(self._starts, address) - 1)
        self._taken_bytes[block.device] -= block.taken_bytes
        block.is_freed = True
        return block

    @contextmanager
    def leaving(self, address: int) -> Iterator[None]:
        """Inside, what was launched earlier may still use a block, and that is told."""
        self._leaving = address
        try:
            yield
        finally:
            self._leaving = 0

    def reset(self, device: int) -> list[Block]:
        """Frees all blocks of a device."""
        lost = [block for block in self.blocks() if block.device == device]
        for block in lost:
            self.free(block.address)
            self._reset.add(block.address)
        return lost

    def forget_reset(self, address: int) -> bool:
        """Whether a reset took the block at `address`; the program may free it once after that."""
        if address not in self._reset:
            return False
        self._reset.remove(address)
        return True

    def owns(self, address: int) -> bool:
        """Whether an address is one of the devices', allocated or not."""
        return _FIRST_ADDRESS <= address < _LAST_ADDRESS

    def find(self, address: int, count: int, what: str) -> tuple[Block, int]:
        """The block that holds `count` bytes from `address`, and where in it they begin.

        AddressError, which calls the address `what`, where no block holds them. What a block has
        beyond its size, because the device rounds it up, holds them too.
        """
        at = bisect_right(self._starts, address) - 1
        block = self._blocks[self._starts[at]] if at >= 0 else None
        offset = address - block.address if block else 0
        if block is None or offset > block.size or (offset == block.size and count):
            raise AddressError(
                f"{what} {address:#x} {self._why_unknown(address)}",
                "Use the addresses that aclrtMalloc gives, and free them last.",
            )
        self.used(block, what)
        more = offset + count - block.size
        if more <= 0:
            return block, offset
        need = f"{what} needs {count} bytes from {address:#x}, {more} bytes more than the block of"
        if offset + count > block.taken_bytes:
            raise AddressError(f"{need} {block.size} has", "Allocate more, or move less.")
        if block.address not in self._overrun_blocks:
            self._overrun_blocks.add(block.address)
            self._tell(f"{need} {block.size} was asked for; the device rounds blocks up")
        return block, offset

    def used(self, block: Block, what: str) -> None:
        """A task works on a block; ``what`` is told once where the block is being freed."""
        if block.address == self._leaving:
            self._leaving = 0
            self._tell(
                f"{what} lies in memory that aclrtFree gave back: it doesn't wait, and a device "
                "that is still at it faults. Call aclrtSynchronizeStream first, or "
                "aclrtFreeWithDevSync"
            )

    def _why_not_free(self, address: int) -> str:
        at = bisect_right(self._starts, address) - 1
        block = self._blocks[self._starts[at]] if at >= 0 else None
        if block is not None and address < block.address + block.size:
            return (
                f"{address:#x} lies {address - block.address} bytes inside the block at "
                f"{block.address:#x}"
            )
        if _FIRST_ADDRESS <= address < self._next:
            return f"{address:#x} has been freed before"
        return f"{address:#x} was not allocated by aclrtMalloc"

    def _why_unknown(self, address: int) -> str:
        if address == 0:
            return "is a null pointer"
        if not self.owns(address):
            return "is no device memory"
        return "lies in no block: freed before, or beyond an end"
