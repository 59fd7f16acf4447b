"""What a public function takes: values of the kind that each parameter says, or ArgumentError.

A NumPy scalar is the number that it is, and a text is no list of letters.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from functools import wraps
from math import isfinite
from numbers import Integral, Real
from os import PathLike, fspath
from typing import Any, Final, ParamSpec, TypeVar

from npusim.values.errors import ArgumentError, UnknownNameError, brief, expect
from npusim.values.language import say

_P = ParamSpec("_P")
_R = TypeVar("_R")
_T = TypeVar("_T")

MOST_ENTRIES: Final = 1 << 20
"""Of a list that is given as a parameter."""

Kind = Callable[[Any, str], Any]
"""Gives back a value as it is used; ArgumentError, which names the parameter, for any other."""


def takes(**kinds: Kind) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Have a function look at its parameters of these names first; others are its own affair.

    A call with parameters that it hasn't, or without some that it needs, is told those it has.
    """

    def wrap(function: Callable[_P, _R]) -> Callable[_P, _R]:
        signature = inspect.signature(function)
        names = tuple(signature.parameters)

        @wraps(function)
        def told(*args: _P.args, **named: _P.kwargs) -> _R:
            try:
                return function(*args, **named)
            except TypeError:
                _refuse_call(function, signature, args, named)
                raise

        @wraps(function)
        def looked_at(*args: _P.args, **named: _P.kwargs) -> _R:
            given = [
                kinds[name](value, name) if name in kinds else value
                for name, value in zip(names, args, strict=False)
            ]
            more = {
                name: kinds[name](value, name) if name in kinds else value
                for name, value in named.items()
            }
            return told(*given, *args[len(names) :], **more)  # type: ignore[arg-type]

        return looked_at if kinds else told

    return wrap


def tells(made: type[_T]) -> type[_T]:
    """Have the constructor of a class tell parameters that it hasn't, or those that lack."""
    made.__init__ = takes()(made.__init__)  # type: ignore[method-assign]
    return made


def _refuse_call(
    function: Callable[..., Any],
    signature: inspect.Signature,
    args: tuple[Any, ...],
    named: Mapping[str, Any],
) -> None:
    """Raise UnknownNameError or ArgumentError where a call doesn't fit the signature."""
    try:
        signature.bind(*args, **named)
    except TypeError as mismatch:
        known = [each for each in signature.parameters if each != "self"]
        name = function.__qualname__.removesuffix(".__init__")
        for each in named:
            if each not in known:
                remedy = say("Parameters: {known}.").format(known=", ".join(known) or "-")
                raise UnknownNameError(
                    say("parameter of {name}").format(name=name), each, known, remedy
                ) from None
        problem = f"{name}: {mismatch}"
        raise ArgumentError(
            problem, say("Parameters: {known}.").format(known=", ".join(known))
        ) from None


def of(*types: type) -> Kind:
    """An object of one of these types."""

    def kind(value: Any, what: str) -> Any:
        expect(value, types, what)
        return value

    return kind


def path_or(*types: type) -> Kind:
    """An object of one of these types, or the path of a file."""
    return lambda value, what: value if isinstance(value, types) else _path(value, what)


def maybe(kind: Kind) -> Kind:
    """None, or a value of that kind."""
    return lambda value, what: None if value is None else kind(value, what)


def each(kind: Kind) -> Kind:
    """A list, a tuple or an array of values of that kind, as a tuple."""

    def kinds(value: Any, what: str) -> tuple[Any, ...]:
        if isinstance(value, str):
            raise ArgumentError(
                say("{what} is a text: {value}").format(what=what, value=brief(value)),
                say("Give a list, also of one."),
            )
        if not isinstance(value, Collection) or isinstance(value, bytes | Mapping):
            raise _wrong(value, what)
        try:
            if len(value) > MOST_ENTRIES:
                raise OverflowError
            entries = tuple(value)
        except OverflowError:
            remedy = say("Give at most {most_entries:,}.").format(most_entries=MOST_ENTRIES)
            raise ArgumentError(
                say("{what} has too many entries").format(what=what), remedy
            ) from None
        except TypeError:  # an array without axes
            raise _wrong(value, what) from None
        return tuple(kind(entry, say("an entry of {what}").format(what=what)) for entry in entries)

    return kinds


def _wrong(value: object, what: str) -> ArgumentError:
    return ArgumentError(
        say("{what} can't be of type {kind}: {value}").format(
            what=what, kind=type(value).__name__, value=brief(value)
        )
    )


def _path(value: Any, what: str) -> Any:
    expect(value, (str, PathLike), what)
    text = fspath(value)
    expect(text, str, what)  # not bytes
    if "\0" in text:
        raise ArgumentError(
            say("{what} has a zero byte in it: {value}").format(what=what, value=brief(value)),
            say("No file is so named."),
        )
    return value


def _whole(value: Any, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise _wrong(value, what)
    return int(value)


def _count(value: Any, what: str) -> int:
    number = _whole(value, what)
    if number < 0:
        raise ArgumentError(f"{what} is {brief(number)}", say("Give a whole number of at least 0."))
    return number


def _real(value: Any, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise _wrong(value, what)
    try:
        number = float(value)
    except OverflowError:
        number = float("inf")
    if not isfinite(number):
        raise ArgumentError(f"{what} is {brief(value)}", say("Give a finite number."))
    return number


def _call(value: Any, what: str) -> Any:
    if not callable(value):
        raise _wrong(value, what)
    return value


def _listener(value: Any, what: str) -> Any:
    """A function that is told something: ArgumentError where it can't be called with that."""
    _call(value, what)

    def told(*news: object) -> Any:
        try:
            return value(*news)
        except TypeError as error:
            if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                raise  # it was called
            problem = say("{what} can't be called with {count} values: {error}")
            raise ArgumentError(
                problem.format(what=what, count=len(news), error=error),
                say("Give a function that takes them."),
            ) from None

    return told


TEXT: Final = of(str)
FLAG: Final = of(bool)
PATH: Final[Kind] = _path
WHOLE: Final[Kind] = _whole
COUNT: Final[Kind] = _count
REAL: Final[Kind] = _real
CALL: Final[Kind] = _call
LISTENER: Final[Kind] = _listener
