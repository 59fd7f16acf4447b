"""Errors in a kernel's code, told with the kernel's name and the line that made them."""

from __future__ import annotations

import contextlib
import sys
import sysconfig
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum, auto
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np

from npusim.values.errors import KernelCodeError, KernelError, NpusimError
from npusim.values.sites import site_of

# Rooms whose lines are not the kernel's own, and packages that kernels call.
_LANGUAGE = (
    *(
        str(Path(__file__).parents[1] / room)
        for room in ("ascendc", "schedules", "library", "pyasc")
    ),
    contextlib.__file__,
    threading.__file__,
    str(Path(threading.__file__).parent / "concurrent"),  # blocks on threads of the host
)
_CORE = str(Path(__file__).parent)
_BEGINS = str(Path(__file__).parent / "block.py")  # who calls a kernel's code, which is none itself
_ROOT = str(Path(__file__).parents[1])
_OPERATORS = str(Path(__file__).parents[1] / "ops")
_SHIPPED = ("npusim.", "abc", "builtins", "typing")
_PACKAGES = (str(Path(np.__file__).parent), sysconfig.get_path("stdlib"))


_spoken_for: list[str] = []
_MOST_PLACES = 10_000
# By the id of the code, which is kept so that no other gets it, and the place in it.
_places: dict[tuple[int, int], tuple[CodeType, str]] = {}


class on_behalf:  # noqa: N801 - as a function
    """What is written down inside stands for a line of the kernel that ran before."""

    __slots__ = ("_place",)

    def __init__(self, place: str) -> None:
        self._place = place

    def __enter__(self) -> None:
        _spoken_for.append(self._place)

    def __exit__(self, *_: object) -> None:
        _spoken_for.pop()


def site(frame: FrameType | None = None) -> str:
    """File and line of the kernel code that runs: the innermost frame outside the language.

    Nothing where no kernel has code of its own: those of formulas, see :func:`home_of`.
    """
    if _spoken_for:
        return _spoken_for[-1]
    at: Any = frame or sys._getframe(1)
    whose, language = _files, _LANGUAGE_CODE
    try:
        while whose[at.f_code.co_filename] is language:
            at = at.f_back
    except AttributeError:  # the outermost one is the language's
        return ""
    code = at.f_code
    if whose[code.co_filename] is _Whose.PLUMBING:
        return ""
    known = _places.get((id(code), at.f_lasti))
    return _place(at) if known is None else known[1]


@cache
def home_of(kind: type) -> str:
    """The line of an operator that npusim's instructions stand for where its kernel has no code.

    That is its formula's first one, or that of what the operator's module says of its kernel;
    nothing for classes that no operator's module has.
    """
    formula = getattr(getattr(getattr(kind, "row", None), "formula", None), "__code__", None)
    if formula is not None:
        return site_of(formula.co_filename, formula.co_firstlineno)
    for value in (value for each in kind.__mro__ for value in vars(each).values()):
        code = getattr(value, "__code__", None)
        if code is not None and code.co_filename.startswith(_OPERATORS):
            return site_of(code.co_filename, code.co_firstlineno)
    return ""


def frame_of_kernel() -> FrameType | None:
    """The frame that calls the language; None where that is code of npusim."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_CORE):
        frame = frame.f_back
    return None if frame is None or frame.f_code.co_filename.startswith(_ROOT) else frame


class _Whose(Enum):
    """Whose code a file has: a kernel's, the language's, or that of npusim's other rooms."""

    KERNEL = auto()
    LANGUAGE = auto()
    PLUMBING = auto()


_LANGUAGE_CODE = _Whose.LANGUAGE  # looking it up takes longer than comparing it


class _Files(dict[str, _Whose]):
    """Whose code is in a file, by its path."""

    def __missing__(self, path: str) -> _Whose:
        ours = path.startswith(_ROOT) and not path.startswith(_OPERATORS)
        other = _Whose.PLUMBING if ours else _Whose.KERNEL
        spoken = path.startswith(_LANGUAGE) and path != _BEGINS
        return self.setdefault(path, _Whose.LANGUAGE if spoken else other)


_files = _Files()


@cache
def is_shipped(kind: type) -> bool:
    """Whether a class and all it derives from are npusim's or Python's, and none a user's."""
    return kind.__module__ != "builtins" and all(
        each.__module__.startswith(_SHIPPED) for each in kind.__mro__
    )


def is_own_code(kind: type) -> bool:
    """Whether the code of a class of kernels, its function or ``process``, is a user's."""
    code = getattr(kind, "function", None) or getattr(kind, "process", None)
    return not str(getattr(code, "__module__", "")).startswith("npusim.")


@contextmanager
def told(kernel: str, *, shipped: bool) -> Iterator[None]:
    """Errors inside name the kernel and its line.

    What Python raised in a user's kernel is a KernelCodeError. In those ``shipped`` with npusim it
    stays what it is, an internal error. Their refusals are read by people who didn't write them, so
    those don't tell the line (``site`` has it).
    """
    try:
        yield
    except KernelError as error:
        place = error.site or _raised_at(error)
        error.locate(kernel, place, told=not shipped)
        raise
    except (NpusimError, MemoryError):
        raise
    except Exception as error:
        if shipped:
            raise
        raise _mistaken(error, kernel) from error


def _mistaken(error: Exception, kernel: str) -> KernelCodeError:
    return KernelCodeError(
        kernel,
        f"{type(error).__name__}: {error}",
        "Python raised this in the kernel's code; mend that line.",
        site=_raised_at(error),
    )


def _raised_at(error: Exception) -> str:
    found = ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        path = frame.f_code.co_filename
        packaged = path.startswith(_PACKAGES) and "site-packages" not in path
        if not path.startswith(_LANGUAGE) and not packaged and not path.startswith(_PACKAGES[0]):
            found = site_of(path, line)
    return found


def _place(frame: FrameType) -> str:
    """The line of a frame, which Python takes a while to find."""
    key = id(frame.f_code), frame.f_lasti
    found = _places.get(key)
    if found is None:
        if len(_places) >= _MOST_PLACES:
            _places.clear()
        name = site_of(frame.f_code.co_filename, frame.f_lineno)
        found = _places[key] = frame.f_code, name
    return found[1]
