"""Moving bytes between the program's memory and ours, without falling over wild pointers.

The kernel copies from and to the program's addresses (process_vm_readv), so that an address that
isn't mapped gives an error and not the end of the program. Where it won't, or where the program is
built with a sanitiser, which then finds the overrun itself, the bytes are simply moved.
"""

from __future__ import annotations

import ctypes
import os
from typing import Any

import numpy as np

from npusim.capi.runtime.memory import AddressError

_NOWHERE = 16  # the first page is never mapped
_AT_MOST = 2**30  # the kernel moves less than 2 GiB at a time


class _Range(ctypes.Structure):
    """struct iovec."""

    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


class HostMemory:
    """The memory of the program that we are in."""

    def __init__(self) -> None:
        process = ctypes.CDLL(None, use_errno=True)
        self._kernel_copies = not hasattr(process, "__asan_init") and hasattr(
            process, "process_vm_readv"
        )
        self._process = process

    @property
    def finds_wild_pointers(self) -> bool:
        """Whether an address that isn't mapped gives an error; tried on one."""
        try:
            self._by_kernel("process_vm_readv", _NOWHERE, np.zeros(1, np.uint8), "the address")
        except AddressError:
            return True
        return False

    def read(self, address: int, into: np.ndarray[Any, Any], what: str) -> None:
        """Fills the bytes of `into` from the program's memory; AddressError where that is none."""
        if not self._by_kernel("process_vm_readv", address, into, what):
            ctypes.memmove(into.ctypes.data, address, into.nbytes)

    def write(self, address: int, content: np.ndarray[Any, Any], what: str) -> None:
        """Writes bytes to the program's memory; AddressError where that is none."""
        if not self._by_kernel("process_vm_writev", address, content, what):
            ctypes.memmove(address, content.ctypes.data, content.nbytes)

    def _by_kernel(self, call: str, address: int, ours: np.ndarray[Any, Any], what: str) -> bool:
        """Whether the kernel has copied; False where it isn't allowed to."""
        if not self._kernel_copies:
            return False
        copy = getattr(self._process, call)
        copy.restype = ctypes.c_ssize_t
        for first in range(0, ours.nbytes, _AT_MOST):
            count = min(_AT_MOST, ours.nbytes - first)
            mine = _Range(ours.ctypes.data + first, count)
            theirs = _Range(address + first, count)
            done = copy(
                os.getpid(), ctypes.byref(mine), ctypes.c_ulong(1), ctypes.byref(theirs),
                ctypes.c_ulong(1), ctypes.c_ulong(0),
            )  # fmt: skip
            if done == count:
                continue
            if done < 0 and ctypes.get_errno() not in _BAD_ADDRESS:
                self._kernel_copies = False  # a sandbox forbids the call
                return False
            raise AddressError(
                f"{what} {address:#x} isn't memory of the program for {ours.nbytes} bytes",
                "Check the pointer and the count.",
            )
        return True


_BAD_ADDRESS = (14, 22)  # EFAULT; EINVAL for lengths that overflow the address space
