"""The instruction streams of kernels: traced once for all kernels that are described alike.

Kernels of npusim do what their attributes say; so two of a class whose attributes are equal, up to
which memory they work on, have the same instructions, and those are found without numbers. Kernels
that look at numbers in global memory even then are traced each time. What a user's own kernel
depends on nobody knows, so it is traced each time with its numbers.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from types import FunctionType, NoneType
from typing import TYPE_CHECKING, Any, get_origin

import numpy as np

from npusim.ascendc import GmBuffer, Kernel, trace
from npusim.ascendc.checked import check_once
from npusim.ascendc.mistakes import is_shipped
from npusim.ascendc.tracing import compute, is_separable
from npusim.engine import Key, Streams
from npusim.values.dtypes import DType

if TYPE_CHECKING:
    from npusim.engine import Code, CoreGroup, Memo
    from npusim.hardware.profile import Profile

_PLAIN = frozenset({NoneType, bool, int, float, str, bytes})
_ATOMS = (*_PLAIN, Enum, type, np.ufunc, DType)
_DEEPEST = 50  # attributes in attributes
_SMALL_BYTES = 1 << 14  # of an array that is looked at


def streams_of(
    kernel: Kernel, profile: Profile, memo: Memo | None, *, numerics: bool, code: Code
) -> tuple[tuple[CoreGroup, ...], Mapping[int, int]]:
    """What a kernel's cores do, and the number of each buffer by that in it.

    With ``numerics`` its numbers are computed, too. What ``memo`` knows isn't traced. ``code`` says
    where the kernel's is.
    """
    if numerics:
        check_once(kernel, profile)
    if numerics and not is_separable(kernel):
        return trace(kernel, profile, numerics=True, code=code), {}
    description = _Description(profile)
    key = description.of(kernel, code=code)
    if key is None:
        return trace(kernel, profile, numerics=numerics, code=code), {}
    groups, known_as = _described(kernel, profile, description, memo, key, code=code)
    if numerics:
        compute(kernel, profile)
    return groups, known_as


def _described(
    kernel: Kernel,
    profile: Profile,
    description: _Description,
    memo: Memo | None,
    key: Key,
    *,
    code: Code,
) -> tuple[tuple[CoreGroup, ...], Mapping[int, int]]:
    """The instruction streams of a kernel that can be described: those without numbers.

    They are another's with the same key, unless numbers in global memory were asked for: without
    numbers only a kernel does that for which they decide what it does.
    """
    known = description.buffers
    given = any(each.has_data for each in description.held)
    found = None if memo is None else memo.streams(key)
    if found is not None and not (found.asked and given):
        return found.groups, dict(zip(found.buffers, known, strict=True))
    for each in description.held:
        each.asked = False
    groups = trace(kernel, profile, numerics=False, code=code)
    asked = any(each.asked for each in description.held)
    if memo is not None and not (asked and given):
        memo.keep_streams(key, Streams(groups, tuple(known), profile, asked))
    return groups, {}


class _Parts(dict[type, tuple[str, ...] | None]):
    """The names of a dataclass's fields; None for other types."""

    def __missing__(self, kind: type) -> tuple[str, ...] | None:
        names = tuple(each.name for each in fields(kind)) if is_dataclass(kind) else None
        return self.setdefault(kind, names)


_parts = _Parts()


@cache
def _is_atom(kind: type) -> bool:
    return issubclass(kind, _ATOMS)


class _UnknownError(Exception):
    """Something that can't be described."""


class _Description:
    """What distinguishes a kernel from others; ``buffers`` are listed as they are met."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self.buffers: dict[int, Hashable] = {}
        self.held: list[GmBuffer] = []
        self._places: dict[int, int] = {}
        self._met: dict[int, int] = {}

    def of(self, kernel: Kernel, *, code: Code) -> Key | None:
        """The description; None where there is something that can't be described."""
        kind = type(kernel)
        if not is_shipped(kind):
            return None
        try:
            told = self._items(vars(kernel), 0)
        except _UnknownError:
            return None
        return Key((kind, id(self._profile), code, told, tuple(self.buffers.values())))

    def _told(self, value: object, depth: int) -> Hashable:
        kind: type = type(value)
        if kind in _PLAIN or _is_atom(kind):
            return kind, value
        if value is self._profile:
            return "profile"
        if depth > _DEEPEST:
            raise _UnknownError
        if isinstance(value, tuple | list):
            if _PLAIN.issuperset(kinds := tuple(map(type, value))):
                return kind, kinds, tuple(value)
            return kind, tuple([self._told(each, depth + 1) for each in value])
        if isinstance(value, GmBuffer):
            return self._buffer(value)
        if isinstance(value, frozenset):
            return kind, frozenset(self._told(each, depth + 1) for each in value)
        if isinstance(value, dict):
            return self._items(value, depth + 1)
        return self._told_once(value, kind, depth)

    def _told_once(self, value: object, kind: type, depth: int) -> Hashable:
        """The same of what may be met in several places, and is described in the first."""
        if id(value) in self._met:
            return "met before", self._met[id(value)]
        self._met[id(value)] = len(self._met)
        if (parts := _parts[kind]) is not None:
            return kind, tuple([self._told(getattr(value, name), depth + 1) for name in parts])
        if get_origin(value) is not None:
            return kind, value
        if isinstance(value, FunctionType):
            held = [cell.cell_contents for cell in value.__closure__ or ()]
            given = (held, value.__defaults__, value.__kwdefaults__)
            return value.__module__, value.__code__, self._told(given, depth + 1)
        if isinstance(value, np.ndarray) and value.nbytes <= _SMALL_BYTES:
            return value.dtype.str, value.shape, value.tobytes()
        if is_shipped(kind) and hasattr(value, "__dict__"):
            return kind, self._items(vars(value), depth + 1)
        raise _UnknownError

    def _items(self, given: Mapping[Any, object], depth: int) -> Hashable:
        return tuple(
            [
                (name if type(name) is str else self._told(name, depth), self._told(value, depth))
                for name, value in given.items()
            ]
        )

    def _buffer(self, buffer: GmBuffer) -> Hashable:
        self.held.append(buffer)
        number = buffer.number
        if number not in self.buffers:
            self._places[number] = len(self.buffers)
            self.buffers[number] = buffer.name, buffer.nbytes, buffer.wide
        return "buffer", self._places[number]
