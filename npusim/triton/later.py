"""Names that programs for later versions of triton-ascend import, by what 3.2.0 calls the same.

From 3.2.1 on `triton.language.extra.cann` holds `libdevice` and `extension`; 3.2.0 has the first as
`triton.language.extra.ascend`, and the functions of the second in `triton.language` itself.
Source: triton-ascend, third_party/ascend/language/cann/extension/__init__.py.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

from npusim.pyasc.answering import MissingFunctionError

_CANN = "triton.language.extra.cann"
_OF_LANGUAGE = (
    "sync_block_all", "sync_block_set", "sync_block_wait", "debug_barrier", "parallel",
    "compile_hint", "multibuffer", "insert_slice", "extract_slice", "get_element", "sort", "flip",
    "cast", "gather", "int64",
)  # fmt: skip
_OF_LIBDEVICE = ("index_put", "gather_out_to_ub", "index_select_simd", "atan2")


@contextmanager
def later_names() -> Iterator[None]:
    """While this is open, modules of later versions are found where the installed one is older."""
    finder = _Later()
    sys.meta_path.append(finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in finder.made:
            sys.modules.pop(name, None)


class _Later(MetaPathFinder, Loader):
    """Finds what no file of the installed version is."""

    def __init__(self) -> None:
        self.made: list[str] = []

    def find_spec(
        self, name: str, path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in (_CANN, f"{_CANN}.libdevice", f"{_CANN}.extension"):
            return None
        if PathFinder.find_spec("triton.language.extra.ascend", path) is None and name == _CANN:
            return None  # no triton-ascend
        return ModuleSpec(name, self, is_package=name == _CANN)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        if spec.name == _CANN:
            version = import_module("triton").__version__
            sys.stderr.write(
                f"note: the program is for a later triton-ascend than {version}, which has no "
                f"{_CANN}: what {version} calls otherwise is given\n"
            )
        self.made.append(spec.name)
        module = ModuleType(spec.name)  # no class of ours: kernels may use plain modules alone
        vars(module).update(_names(spec.name), __getattr__=_missing(spec.name))
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Its names are there already."""


def _missing(module: str) -> Callable[[str], Any]:
    """What answers where a module is asked for a name that it hasn't got."""

    def answer(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        version = import_module("triton").__version__
        raise MissingFunctionError(
            f"{module}.{name}: triton-ascend {version} has nothing of the kind",
            "A later version, where your package registry has one, compiles it.",
        )

    return answer


def _names(name: str) -> dict[str, Any]:
    if name == _CANN:
        return {}
    libdevice = import_module("triton.language.extra.ascend.libdevice")
    if name.endswith("libdevice"):
        return {key: each for key, each in vars(libdevice).items() if not key.startswith("__")}
    language = import_module("triton.language")
    found = {key: getattr(language, key) for key in _OF_LANGUAGE if hasattr(language, key)}
    found |= {key: getattr(libdevice, key) for key in _OF_LIBDEVICE if hasattr(libdevice, key)}
    return found
