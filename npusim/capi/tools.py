"""The tools that building needs (compilers, cffi, Python's own library), or what to install."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
from functools import cache
from pathlib import Path

from npusim.values.errors import UsageError

_C = ("cc", "gcc", "clang")
_CXX = ("c++", "g++", "clang++")
_GET_COMPILER = "Install one: apt install g++ (Debian, Ubuntu), dnf install gcc-c++ (Fedora)."


def c_compiler() -> list[str]:
    """The command of the C compiler: that of CC, or the system's. Raises UsageError without one."""
    return _compiler("CC", _C, "C")


def cxx_compiler() -> list[str]:
    """The command of the C++ compiler: that of CXX, or the system's. Raises UsageError if none."""
    return _compiler("CXX", _CXX, "C++")


def binary_tool(name: str) -> str:
    """The command of one of the tools that come with compilers. Raises UsageError without it."""
    found = shutil.which(name)
    if found is None:
        raise UsageError(f"{name} isn't found", "Install binutils beside the compiler.")
    return found


def is_clang() -> bool:
    """Whether the C++ compiler is clang, whatever the words of CXX start it with."""
    return _is_clang(tuple(cxx_compiler()))


@cache
def _is_clang(compiler: tuple[str, ...]) -> bool:
    done = subprocess.run(  # noqa: S603 - the user's own compiler
        [*compiler, "--version"], check=False, capture_output=True, text=True
    )
    return "clang" in done.stdout


def require_linux() -> None:
    """Raises UsageError on any other system: CANN's libraries are Linux', and so are ours."""
    if not sys.platform.startswith("linux"):
        raise UsageError(
            f"C++ programs for the simulator are built on Linux, this is {sys.platform}",
            "Use a container or WSL; everything else of npusim works here.",
        )


def require_cffi() -> None:
    """Raises UsageError where cffi isn't installed."""
    if importlib.util.find_spec("cffi") is None:
        raise UsageError(
            "C++ programs need cffi, which isn't installed",
            "Install the extra: pip install 'npusim[capi]'.",
        )


def python_include() -> Path:
    """The folder of Python.h. Raises UsageError where it isn't installed."""
    folder = Path(sysconfig.get_path("include"))
    if not (folder / "Python.h").is_file():
        raise UsageError(
            f"the headers of this Python are missing: {folder / 'Python.h'}",
            "Install them: apt install python3-dev (Debian, Ubuntu), dnf install python3-devel.",
        )
    return folder


def python_library() -> Path:
    """The shared library of this Python. Raises UsageError where it was built without one."""
    wanted = ("INSTSONAME", "LDLIBRARY", "MULTIARCH", "LIBDIR", "LIBPL")
    found = (str(each or "") for each in sysconfig.get_config_vars(*wanted))
    soname, plain, multiarch, *folders = found
    places = [Path(each) for each in folders if each]
    places += [folder / multiarch for folder in places[:1] if multiarch]
    for name in (soname, plain):
        for folder in places:
            if ".so" in name and (folder / name).is_file():
                return folder / name
    raise UsageError(
        "this Python has no shared library, which a C++ program needs to run it inside itself",
        "Install it (apt install libpython3-dev), or use a Python built with --enable-shared.",
    )


def _compiler(variable: str, names: tuple[str, ...], language: str) -> list[str]:
    told = os.environ.get(variable, "").split()
    for command in [told] if told else [[name] for name in names]:
        if shutil.which(command[0]):
            return command
    tried = told[0] if told else ", ".join(names)
    raise UsageError(f"no {language} compiler found (tried {tried})", _GET_COMPILER)
