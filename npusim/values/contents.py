"""What values say, as text: the same in any process for those that say the same.

Kernels are known by it, and kernel classes that a call makes are told apart and found again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache, lru_cache, partial
from itertools import chain
from types import CodeType, EllipsisType, FunctionType, GenericAlias, MethodType, NoneType
from typing import Any, ClassVar

import numpy as np

from npusim.values.dtypes import DType

_PLAIN = frozenset({NoneType, EllipsisType, bool, int, float, complex, str, bytes})
_ATOMS = (Enum, type, np.ufunc, DType, GenericAlias)
_DEEPEST = 100  # values in values
_SMALL_BYTES = 1 << 14  # of an array that is looked at


def digest_of(value: object) -> str:
    """A short name of what a value says; raises TypeError for what says nothing by itself."""
    contents = Contents()
    contents.tell(value)
    return contents.digest().hex()


class Contents:
    """What values say, one after the other.

    What may be met in several places is told in the first, and named in the others. Small values
    that nobody changes are what they are wherever they are met: who keeps one that equals
    another's, as caches of tilings do, makes nothing else of it. Of what has ``follows_from`` that
    is told alone.
    """

    ways: ClassVar[dict[type, Callable[[Any, Any], None]]] = {}  # how values of a type are told

    def __init__(self) -> None:
        self.parts: list[str] = []
        self._met: dict[int, int] = {}
        self._depth = 0

    def __init_subclass__(cls) -> None:
        cls.ways = {}

    def digest(self) -> bytes:
        """16 bytes that stand for all that has been told."""
        text = ",".join(self.parts).encode("utf-8", "surrogatepass")
        return hashlib.blake2b(text, digest_size=16).digest()

    def tell(self, value: Any) -> None:
        """Add what a value says; raises TypeError for what says nothing by itself."""
        kind = type(value)
        if kind in _PLAIN:
            self.parts.append(repr(value))
        else:
            (self.ways.get(kind) or self.way_of(kind))(self, value)

    def tell_all(self, what: str, values: Iterable[Any]) -> None:
        """Add what several values say together."""
        self._depth += 1
        if self._depth > _DEEPEST:
            raise TypeError("too deep")
        add, ways = self.parts.append, self.ways
        add(f"{what}(")
        for each in values:
            kind = type(each)
            if kind in _PLAIN:
                add(repr(each))
            else:  # as `tell` has it, and a call takes longer
                (ways.get(kind) or self.way_of(kind))(self, each)
        add(")")
        self._depth -= 1

    def is_new(self, value: object) -> bool:
        """Whether a value is met for the first time; else it is named."""
        place = self._met.get(id(value))
        if place is None:
            self._met[id(value)] = len(self._met)
            return True
        self.parts.append(f"met {place}")
        return False

    @classmethod
    def way_of(cls, kind: type) -> Callable[[Any, Any], None]:
        """How values of a type are told, and will be."""
        ways: tuple[tuple[Any, Callable[[Any, Any], None]], ...] = (
            (_ATOMS, cls._tell_atom),
            ((tuple, list), cls._tell_list),
            ((set, frozenset), cls._tell_set),
            (Mapping, cls._tell_mapping),
            (CodeType, cls._tell_code),
            (FunctionType, cls._tell_function),
            (MethodType, cls._tell_method),
            (partial, cls._tell_partial),
            (np.generic, cls._tell_scalar),
            (np.ndarray, cls._tell_array),
        )
        other = _dataclass(kind) if is_dataclass(kind) else cls.tell_other
        way = next((way for kinds, way in ways if issubclass(kind, kinds)), other)
        cls.ways[kind] = way
        return way

    def tell_other(self, value: Any) -> None:
        """Add what a value of any other type says."""
        raise TypeError(type(value).__name__)

    def _tell_atom(self, value: Any) -> None:
        self.parts.append(_named(value))

    def _tell_list(self, values: Any) -> None:
        kind: type = type(values)
        if kind in (tuple, list) and _PLAIN.issuperset(map(type, values)):
            self.parts.append(repr(values))
        else:
            self.tell_all(kind.__name__ if kind in (tuple, list) else _named(kind), values)

    def _tell_set(self, values: Any) -> None:
        """Whatever their order."""
        before, told = self.parts, []
        for each in values:
            self.parts = []
            self.tell(each)
            told.append(",".join(self.parts))
        self.parts = before
        self.parts.append(f"{{{sorted(told)}}}")

    def _tell_mapping(self, values: Any) -> None:
        plain = {
            key: each
            for key, each in values.items()
            if type(each) in _PLAIN and type(key) in _PLAIN
        }
        self.parts.append(repr(plain))  # most of them, at once
        if len(plain) < len(values):
            others = (pair for pair in values.items() if pair[0] not in plain)
            self.tell_all("map", chain.from_iterable(others))

    def _tell_code(self, value: Any) -> None:
        self.parts.append(_code(value))

    def _tell_function(self, value: Any) -> None:
        if self.is_new(value):
            held = [cell.cell_contents for cell in value.__closure__ or ()]
            given = held, value.__defaults__, value.__kwdefaults__
            self.tell_all(f"{value.__module__} {_code(value.__code__)}", given)

    def _tell_method(self, value: Any) -> None:
        self.tell_all("method", (value.__func__, value.__self__))

    def _tell_partial(self, value: Any) -> None:
        self.tell_all("partial", (value.func, value.args, value.keywords))

    def _tell_scalar(self, value: Any) -> None:
        self.parts.append(f"{value.dtype.str} {value.tobytes()!r}")

    def _tell_array(self, value: Any) -> None:
        if self.is_new(value):
            if value.nbytes > _SMALL_BYTES:
                raise TypeError("a large array")
            self.parts.append(f"{value.dtype.str} {value.shape} {value.tobytes()!r}")


def _dataclass(kind: type) -> Callable[[Any, Any], None]:
    """How values of a dataclass are told."""
    names = tuple([each.name for each in fields(kind)])
    frozen, name = bool(getattr(kind, "__dataclass_params__").frozen), _named(kind)  # noqa: B009
    follows = "follows_from" in names or hasattr(kind, "follows_from")

    def tell(contents: Contents, value: Any) -> None:
        held = [getattr(value, each) for each in names]
        if frozen and not follows and _PLAIN.issuperset(map(type, held)):
            contents.parts.append(f"{name}{held}")
        elif (frozen and all(map(_is_small, held))) or contents.is_new(value):
            source = value.follows_from if follows else None
            contents.tell_all(name, held if source is None else (source,))

    return tell


def _is_small(value: object) -> bool:
    if isinstance(value, tuple):
        return _PLAIN.issuperset(map(type, value))
    return type(value) in _PLAIN or isinstance(value, _ATOMS)


@lru_cache(maxsize=None, typed=True)  # members of two Enums may be equal
def _named(value: Any) -> str:
    """The name of a class, an Enum's member and the like."""
    if isinstance(value, Enum):
        return f"{_class(type(value))}.{value.name}"
    return _class(value) if isinstance(value, type) else repr(value)


_classes: dict[str, type] = {}  # who has a name, which nobody else may have


@cache
def _class(kind: type) -> str:
    own = getattr(kind, "op_type", ""), getattr(kind, "digest", "")
    name = f"{kind.__module__}.{kind.__qualname__}:{':'.join(own)}"
    if _classes.setdefault(name, kind) is not kind:
        raise TypeError(name)
    return name


@cache
def _code(code: CodeType) -> str:
    """What a function's code says, whatever file it stands in."""
    names = code.co_qualname, code.co_names, code.co_varnames, code.co_freevars
    return digest_of((*names, code.co_code, code.co_consts))
