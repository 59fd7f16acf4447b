"""Doing something as soon as a program has imported a module of its own."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

Attach = Callable[[Any], None]


@contextmanager
def when_imported(name: str, attach: Attach) -> Iterator[None]:
    """``attach`` is called with a module when it has been imported; now, if it has been already."""
    finder = _Finder(name, attach)
    if name in sys.modules:
        attach(sys.modules[name])
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class _Finder(MetaPathFinder):
    """Finds the module where it is, with something behind its loading."""

    def __init__(self, name: str, attach: Attach) -> None:
        self._name, self._attach = name, attach

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != self._name:
            return None
        spec = PathFinder.find_spec(name, path)
        if spec is not None and spec.loader is not None:
            spec.loader = _Followed(spec.loader, self._attach)
        return spec


class _Followed(Loader):
    """A loader behind which something is attached."""

    def __init__(self, loader: Any, attach: Attach) -> None:
        self._loader, self._attach = loader, attach

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        made: ModuleType | None = self._loader.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        self._attach(module)
