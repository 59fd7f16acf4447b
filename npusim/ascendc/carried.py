"""What the iterations of a kernel's loop may hand on: the values in variables that its code sees.

Two readings serve two loops. Where iterations are computed at once, a value that changed is refused
(:func:`plain_values`). Where they are executed one by one without numbers, two in a row that leave
the same behind make all others the same, if nothing is overlooked (:func:`everything`).
"""

from __future__ import annotations

import dis
from collections import deque
from functools import cache
from types import BuiltinFunctionType, CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING

import numpy as np

from npusim.ascendc.loops import IndexArray, LoopIndex
from npusim.ascendc.mistakes import frame_of_kernel
from npusim.ascendc.queues import TQue
from npusim.ascendc.tensors import LocalTensor
from npusim.ascendc.turns import Turn

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

_PLAIN = (bool, int, float, complex, str, bytes, type(None), np.generic)
_HOLDERS = (list, tuple, set, frozenset, dict, deque)
_FIXED = (type, ModuleType, np.ufunc, LoopIndex, IndexArray, Turn)
_MOST = 64  # values of a container that are looked at; of a longer one, how many there are
_DEEPEST = 3
_MOST_BYTES = 1 << 16  # of an array that is compared
_GENERATOR = 0x20  # CO_GENERATOR
_OBJECT_BYTES = 32  # of an object of a class in Python; what is larger keeps more than attributes


class UnknownStateError(Exception):
    """A variable holds something of which nobody can tell whether it has changed."""


def plain_values() -> dict[str, Hashable]:
    """The plain values in variables that the kernel's code sees, as far as they are looked at."""
    frame = frame_of_kernel()
    if frame is None:
        return {}
    return {name: _value(value, 0) for name, value in _variables(frame).items()}


def everything(frame: FrameType) -> Hashable:
    """All that the code of a frame can hand on to its loop's next iteration.

    Raises UnknownStateError where that can't be told: of iterators, say, and of long containers.
    """
    known: dict[int, Hashable] = {}
    return tuple(
        (name, _whole(value, 0, known)) for name, value in sorted(_variables(frame).items())
    )


def loops_itself(frame: FrameType) -> bool:
    """Whether a frame's code is about to loop over what it calls now, and nobody else is.

    A call that something takes which counts or pairs (``zip``) is no such; nor is a loop in a
    generator, in whose iterations another's code runs.
    """
    back = frame.f_back
    own = not frame.f_code.co_flags & _GENERATOR or (
        back is not None and str(back.f_globals.get("__name__", "")).startswith("npusim.")
    )
    return own and _next_instruction(frame.f_code, frame.f_lasti) == "GET_ITER"


@cache
def _next_instruction(code: CodeType, place: int) -> str:
    """The name of Python's instruction behind the one at a place."""
    behind = (each for each in dis.get_instructions(code) if each.offset > place)
    return next((each.opname for each in behind if each.opname != "CACHE"), "")


def _variables(frame: FrameType) -> dict[str, object]:
    names = {name: value for name, value in frame.f_locals.items() if name != "self"}
    known = frame.f_globals
    names |= {name: known[name] for name in frame.f_code.co_names if name in known}
    own = getattr(frame.f_locals.get("self"), "__dict__", {})
    return names | {f"self.{name}": value for name, value in own.items()}


def _value(value: object, depth: int) -> Hashable:
    """A plain value, or what a container has of them; nothing of anything else."""
    if isinstance(value, Turn):
        return None
    if isinstance(value, _PLAIN):
        return type(value).__name__, repr(value)
    if isinstance(value, np.ndarray) and value.size <= _MOST:
        return value.tobytes() if value.dtype != object else None
    own = not isinstance(value, type) and not type(value).__module__.startswith("npusim.")
    if own and isinstance(getattr(value, "__dict__", None), dict) and not callable(value):
        value = {} if isinstance(value, ModuleType) else vars(value)
    if isinstance(value, _HOLDERS):
        size = len(value)
        if depth >= _DEEPEST or size > _MOST:
            return size
        items = value.items() if isinstance(value, dict) else value
        return size, tuple(_value(each, depth + 1) for each in items)
    return None


def _whole(value: object, depth: int, known: dict[int, Hashable]) -> Hashable:
    """A value with all that is in it."""
    if isinstance(value, _FIXED):
        return None
    if isinstance(value, _PLAIN):
        return type(value).__name__, repr(value)
    if isinstance(value, LocalTensor):
        tile = value.tile
        place = value.slot if tile is None else (value.buffer, tile.state)
        return place, value.dtype.name, value.shape, value.part
    if isinstance(value, TQue):
        return value.occupation
    if isinstance(value, np.ndarray) and value.dtype != object and value.nbytes <= _MOST_BYTES:
        return value.tobytes()
    if type(value).__module__.startswith("npusim."):
        return id(value)
    if depth > _DEEPEST:
        raise UnknownStateError
    if id(value) not in known:
        known[id(value)] = None  # what it leads back to adds nothing
        known[id(value)] = _contents(value, depth + 1, known)
    return known[id(value)]


def _contents(value: object, depth: int, known: dict[int, Hashable]) -> Hashable:
    if isinstance(value, BuiltinFunctionType):
        return _whole(value.__self__, depth, known)
    if isinstance(value, MethodType):
        return _whole(value.__self__, depth, known), _whole(value.__func__, depth, known)
    if isinstance(value, FunctionType):
        return _of_function(value, depth, known)
    if isinstance(value, _HOLDERS) and len(value) <= _MOST:
        items = value.items() if isinstance(value, dict) else value
        return tuple(_whole(each, depth, known) for each in items)
    held = getattr(value, "__dict__", None)
    if isinstance(held, dict) and type(value).__basicsize__ <= _OBJECT_BYTES:
        return _each(held, depth, known)
    raise UnknownStateError


def _of_function(function: FunctionType, depth: int, known: dict[int, Hashable]) -> Hashable:
    """What a function that the code calls keeps: in cells, and in globals that it names."""
    module = function.__module__ or ""
    if module.startswith("npusim.") or depth > _DEEPEST:
        return None
    cells = [each.cell_contents for each in function.__closure__ or () if _is_set(each)]
    named = {
        name: function.__globals__[name]
        for name in function.__code__.co_names
        if name in function.__globals__
    }
    given = (function.__defaults__, function.__kwdefaults__, vars(function))
    inside = tuple(_whole(each, depth, known) for each in (*cells, *given))
    return inside, _each(named, depth, known)


def _is_set(cell: object) -> bool:
    try:
        cell.cell_contents  # type: ignore[attr-defined]  # noqa: B018
    except ValueError:
        return False
    return True


def _each(named: Mapping[str, object], depth: int, known: dict[int, Hashable]) -> Hashable:
    return tuple((name, _whole(each, depth, known)) for name, each in sorted(named.items()))
