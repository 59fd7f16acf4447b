"""The table that a module's C functions are entered in, and what they all do with pointers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from npusim.capi.runtime.refusals import null_pointer

P = ParamSpec("P")
R = TypeVar("R")


class Functions(dict[str, "Callable[..., Any]"]):
    """C functions by name."""

    def entry(self, *names: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
        """Enters the decorated function under these names."""

        def enter(function: Callable[P, R]) -> Callable[P, R]:
            self.update(dict.fromkeys(names, function))
            return function

        return enter


def need(**pointers: Any) -> None:
    """Refusal 100000 for the first of these pointers that is null."""
    for name, pointer in pointers.items():
        if not pointer:
            raise null_pointer(name)
