"""What functions and values say, as text: the same in any process for those that say the same.

Kernel classes that a call makes are told apart by it, and found again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import partial
from types import CodeType, FunctionType, MethodType, NoneType
from typing import Any

import numpy as np

from npusim.values.dtypes import DType

_PLAIN = (NoneType, bool, int, float, complex, str, bytes)


def digest_of(value: object) -> str:
    """A short name of what a value says; raises TypeError for what says nothing by itself."""
    return hashlib.blake2b(said_by(value).encode("utf-8", "replace"), digest_size=8).hexdigest()


def said_by(value: Any) -> str:
    """Its text, functions by their code and what they hold; raises TypeError as `digest_of`."""
    if type(value) in _PLAIN:
        return f"{type(value).__name__} {value!r}"
    if isinstance(value, Enum):
        return f"{said_by(type(value))}.{value.name}"
    if isinstance(value, type):
        return f"{value.__module__}.{value.__qualname__}"
    if isinstance(value, DType | np.ufunc):
        return repr(value)
    if isinstance(value, FunctionType):
        held = [cell.cell_contents for cell in value.__closure__ or ()]
        given = held, value.__defaults__, value.__kwdefaults__
        return f"{value.__module__}: {said_by(value.__code__)} {said_by(given)}"
    if isinstance(value, CodeType):
        names = value.co_names, value.co_varnames, value.co_freevars
        return f"{value.co_qualname} {value.co_code!r} {names} {said_by(value.co_consts)}"
    if isinstance(value, MethodType):
        return f"{said_by(value.__func__)} of {said_by(value.__self__)}"
    if isinstance(value, partial):
        return f"partial {said_by((value.func, value.args, value.keywords))}"
    if isinstance(value, tuple | list):
        return f"{type(value).__name__}({', '.join(map(said_by, value))})"
    if isinstance(value, frozenset | set):
        return f"{{{', '.join(sorted(map(said_by, value)))}}}"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{said_by(key)}: {said_by(each)}' for key, each in value.items())}}}"
    if is_dataclass(value):
        told = [getattr(value, each.name) for each in fields(value)]
        return f"{said_by(type(value))}{said_by(told)}"
    raise TypeError(type(value).__name__)
