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
from typing import TYPE_CHECKING, Any, NamedTuple, get_origin

import numpy as np

from npusim.ascendc import GmBuffer, Kernel, trace
from npusim.ascendc.mistakes import is_shipped
from npusim.engine import Key, Streams
from npusim.values.dtypes import DType

if TYPE_CHECKING:
    from npusim.engine import Code, CoreGroup, Memo
    from npusim.hardware.profile import Profile

_PLAIN = {each: each.__name__ for each in (NoneType, bool, int, float, str, bytes)}
_PLAIN_LISTS: dict[type, str] = {each: each.__name__ for each in (tuple, list)}
_ATOMS = (*_PLAIN, Enum, type, np.ufunc, DType)
_DEEPEST = 50  # attributes in attributes
_SMALL_BYTES = 1 << 14  # of an array that is looked at


class Described(NamedTuple):
    """What a kernel is known by: on this chip's profile, and what was ``told`` of it.

    ``buffers`` have the numbers of its memory in the order in which it was met, ``given`` says
    whether some of that has numbers.
    """

    key: Key
    told: Hashable
    buffers: tuple[int, ...]
    held: tuple[GmBuffer, ...]

    @property
    def given(self) -> bool:
        """Whether some of its memory has numbers."""
        return any(each.has_data for each in self.held)


class Traced(NamedTuple):
    """What a kernel's cores do, and the number of each buffer by that in it.

    ``asked`` tells that it has asked for numbers in global memory.
    """

    groups: tuple[CoreGroup, ...]
    known_as: Mapping[int, int]
    asked: bool = False


def streams_of(
    kernel: Kernel,
    profile: Profile,
    memo: Memo | None,
    described: Described | None,
    *,
    numerics: bool,
    code: Code,
) -> Traced:
    """The instruction streams of a kernel; those that ``memo`` knows aren't traced.

    Those that are ``described`` are another's that is described alike, unless numbers in global
    memory were asked for: without numbers only a kernel does that for which they decide what it
    does. With ``numerics`` those of others are computed, too. ``code`` says where the kernel's is.
    """
    if described is None:
        return Traced(trace(kernel, profile, numerics=numerics, code=code), {})
    given = described.given
    found = None if memo is None else memo.streams(described.key)
    if found is not None and not (found.asked and given):
        known_as = dict(zip(found.buffers, described.buffers, strict=True))
        return Traced(found.groups, known_as, found.asked)
    for each in described.held:
        each.asked = False
    groups = trace(kernel, profile, numerics=False, code=code)
    asked = any(each.asked for each in described.held)
    if memo is not None and not (asked and given):
        memo.keep_streams(described.key, Streams(groups, described.buffers, profile, asked))
    return Traced(groups, {}, asked)


def describe(kernel: Kernel, profile: Profile, *, code: Code) -> Described | None:
    """What a kernel is known by; None where there is something that can't be described."""
    if not is_shipped(type(kernel)):
        return None
    description = _Description(profile)
    try:
        told = description.of(kernel, code=code)
    except _UnknownError:
        return None
    key, held = Key((id(profile), told)), tuple(description.held)
    return Described(key, told, tuple(description.buffers), held)


class _Parts(dict[type, tuple[str, ...] | None]):
    """The names of a dataclass's fields; None for other types."""

    def __missing__(self, kind: type) -> tuple[str, ...] | None:
        names = tuple(each.name for each in fields(kind)) if is_dataclass(kind) else None
        return self.setdefault(kind, names)


_parts = _Parts()


@cache
def _is_atom(kind: type) -> bool:
    return issubclass(kind, _ATOMS)


@cache
def _is_value(kind: type) -> bool:
    """Whether it is a dataclass that nobody changes."""
    return is_dataclass(kind) and bool(getattr(kind, "__dataclass_params__").frozen)  # noqa: B009


def _fields_of(value: object, kind: type) -> list[object]:
    return [getattr(value, name) for name in _parts[kind] or ()]


def _is_small(value: object) -> bool:
    kind: type = type(value)
    if isinstance(value, tuple):
        return all(type(each) in _PLAIN for each in value)
    return kind in _PLAIN or _is_atom(kind)


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

    def of(self, kernel: Kernel, *, code: Code) -> Hashable:
        """The description of a kernel; raises _UnknownError."""
        told = self._items(vars(kernel), 0)
        return type(kernel), code, told, tuple(self.buffers.values())

    def _told(self, value: object, depth: int) -> Hashable:
        kind: type = type(value)
        if (name := _PLAIN.get(kind)) is not None:
            return name, value
        if _is_atom(kind):
            return kind, value
        if value is self._profile:
            return "profile"
        if depth > _DEEPEST:
            raise _UnknownError
        if isinstance(value, tuple | list):
            if None not in (names := tuple([_PLAIN.get(type(each)) for each in value])):
                return _PLAIN_LISTS.get(kind, kind), names, tuple(value)
            return kind, tuple([self._told(each, depth + 1) for each in value])
        if isinstance(value, GmBuffer):
            return self._buffer(value)
        if isinstance(value, np.generic):
            return value.dtype.str, value.tobytes()
        if isinstance(value, frozenset):  # a set may be of what runs have met
            return kind, frozenset(self._told(each, depth + 1) for each in value)
        if isinstance(value, dict):
            return self._items(value, depth + 1)
        return self._told_once(value, kind, depth)

    def _told_once(self, value: object, kind: type, depth: int) -> Hashable:
        """The same of what may be met in several places, and is described in the first.

        Small values that nobody changes are what they are wherever they are met: who keeps one that
        equals another's, as caches of tilings do, makes no other kernel of it.
        """
        if _is_value(kind) and all(map(_is_small, held := _fields_of(value, kind))):
            return kind, tuple([self._told(each, depth + 1) for each in held])
        if id(value) in self._met:
            return "met before", self._met[id(value)]
        self._met[id(value)] = len(self._met)
        if (source := getattr(value, "follows_from", None)) is not None and is_shipped(kind):
            return kind, self._told(source, depth + 1)
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
