"""Who runs a program hears of every result in it, and may give other arguments to its kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from npusim.runtime.results import Result


@dataclass(frozen=True, slots=True)
class Operand:
    """A tensor that something ran on; ``kind`` is its dtype."""

    name: str
    shape: tuple[int, ...]
    kind: object


@dataclass(frozen=True, slots=True)
class Heard:
    """A launch of a kernel or a call of an operator: blocks, what was read and written, result.

    ``advice`` is what made it faster where it was tried.
    """

    blocks: int
    read: tuple[Operand, ...]
    written: tuple[Operand, ...]
    result: Result
    advice: tuple[str, ...] = ()


_listeners: list[Callable[[Heard], None]] = []
_overridden: dict[str, Any] = {}  # arguments of kernels, by name


@contextmanager
def listening(hear: Callable[[Heard], None]) -> Iterator[None]:
    """``hear`` is called with all that runs inside."""
    _listeners.append(hear)
    try:
        yield
    finally:
        _listeners.remove(hear)


def is_heard() -> bool:
    """Whether anybody listens."""
    return bool(_listeners)


def tell(heard: Heard) -> None:
    """Something has run."""
    for each in _listeners:
        each(heard)


@contextmanager
def overriding(arguments: Mapping[str, Any]) -> Iterator[None]:
    """Launches inside give these values for parameters of these names; `block_dim` is blocks."""
    _overridden.update(arguments)
    try:
        yield
    finally:
        _overridden.clear()


def overridden(name: str, value: Any) -> Any:
    """The argument of a launch, or the value in its place."""
    return _overridden.get(name, value)


def all_overridden(takes: Mapping[str, object], given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments ``given`` by name, and those that are overridden of what a kernel ``takes``."""
    return {**given, **{name: value for name, value in _overridden.items() if name in takes}}
