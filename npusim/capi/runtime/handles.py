"""The numbers that stand for our objects in C: never an address, never used twice.

A program that mixes them up, destroys them twice or invents them gets a code and a sentence. The
upper bits aren't those of any address, so a program that reads through a handle ends at once.
"""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")

_MARK = 0x4E50 << 48
_KIND_SHIFT = 40
_STEP = 16  # handles look aligned, as the pointers that they replace are

# Every kind of handle, by its number in the handle.
KINDS = (
    "aclTensor",
    "aclScalar",
    "aclIntArray",
    "aclFloatArray",
    "aclBoolArray",
    "aclTensorList",
    "aclScalarList",
    "aclOpExecutor",
    "aclrtStream",
    "aclrtEvent",
    "aclrtContext",
    "aclrtcProg",
    "aclrtBinHandle",
    "aclrtFuncHandle",
)


class WrongHandleError(Exception):
    """A handle that isn't of the wanted kind or no longer valid; `gone` is true for the latter."""

    def __init__(self, message: str, *, gone: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.gone = gone


class Handles(Generic[T]):
    """The objects of one kind by their handles."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._first = _MARK | KINDS.index(kind) << _KIND_SHIFT
        self._made = 0
        self._objects: dict[int, T] = {}

    def __len__(self) -> int:
        return len(self._objects)

    def values(self) -> list[T]:
        """The objects that are alive."""
        return list(self._objects.values())

    def add(self, value: T) -> int:
        """A new handle for `value`."""
        self._made += 1
        handle = self._first + self._made * _STEP
        self._objects[handle] = value
        return handle

    def get(self, handle: int) -> T:
        """The object of a handle; WrongHandleError says what is wrong with it."""
        try:
            return self._objects[handle]
        except KeyError:
            raise self._wrong(handle) from None

    def replace(self, handle: int, value: T) -> None:
        """Puts another object behind a handle that is there."""
        self._objects[handle] = value

    def remove(self, handle: int) -> T:
        """Takes an object out of the table; WrongHandleError as for `get`."""
        value = self.get(handle)
        del self._objects[handle]
        return value

    def remove_if(self, is_gone: T) -> None:
        """Takes one object out of the table, whatever its handle."""
        self._objects = {
            handle: value for handle, value in self._objects.items() if value is not is_gone
        }

    def _wrong(self, handle: int) -> WrongHandleError:
        if handle == 0:
            return WrongHandleError(f"the {self.kind} is a null pointer")
        if self._first < handle <= self._first + self._made * _STEP and handle % _STEP == 0:
            return WrongHandleError(f"the {self.kind} {handle:#x} has been destroyed", gone=True)
        number = (handle >> _KIND_SHIFT) & 0xFF
        if handle >> 48 == _MARK >> 48 and number < len(KINDS):
            return WrongHandleError(f"{handle:#x} is an {KINDS[number]}, not an {self.kind}")
        return WrongHandleError(f"{handle:#x} is no {self.kind}; nothing was created with it")
