"""Modules that say in a sentence what isn't there."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any

from npusim.values.errors import NpusimError
from npusim.values.suggest import did_you_mean


class MissingFunctionError(NpusimError, AttributeError):
    """A function that isn't simulated."""


class AnsweringModule(ModuleType):
    """A module of these names; any other is told not to be simulated."""

    def __init__(self, name: str, names: Mapping[str, Any]) -> None:
        super().__init__(name)
        self.__path__: list[str] = []
        vars(self).update(names)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        hint = did_you_mean(name, [each for each in vars(self) if not each.startswith("_")])
        raise MissingFunctionError(
            f"{self.__name__}.{name} isn't simulated", hint or "docs/kernels/pyasc.md has the list."
        )
