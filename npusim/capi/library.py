"""The shared library and the headers on disk, built at first use and kept for the next.

They are in a folder of the user's cache that is named by everything they depend on: npusim's
version, the headers (so the contracts), the C source and the Python environment. NPUSIM_CACHE names
another cache.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from importlib import import_module, resources
from io import StringIO
from pathlib import Path
from typing import Any

import npusim
from npusim.capi import declarations, kernel_calls, phases, tools
from npusim.capi.declarations import (
    first_phase,
    fixed_headers,
    headers,
    kernel_headers,
    prototypes,
)
from npusim.catalogue.facts import catalogue
from npusim.operators.registry import operators
from npusim.reading.files import read_text
from npusim.reading.kept import cache_folder, is_ours, own_folder
from npusim.values.errors import FileError, UsageError
from npusim.values.guard import guarded_folder

LIBRARY = "libascendcl.so"
# What programs link besides; one library has all.
OTHER_NAMES = tuple(
    f"lib{name}.so"
    for name in (
        "nnopbase", "opapi", "tiling_api", "register", "platform", "graph_base", "unified_dlog",
        "runtime", "ascendc_runtime", "c_sec", "mmpa", "error_manager", "acl_rt", "acl_rtc",
        "profapi", "ascendalog",
    )
)  # fmt: skip

_KERNELS = "runtime.cpp"  # runs kernels, with the headers beside it
_MODULE = "_npusim_capi"
_DONE = "complete"
_REMEDY = "Name another folder in the environment variable NPUSIM_CACHE."

# Handles are numbers to us, never read through: pointers to these types, and these types.
_OPAQUE = frozenset(
    (
        "void", "aclTensor", "aclScalar", "aclIntArray", "aclFloatArray", "aclBoolArray",
        "aclTensorList", "aclScalarList", "aclOpExecutor",
    )
)  # fmt: skip
_HANDLES = frozenset(
    ("aclrtStream", "aclrtEvent", "aclrtContext", "aclrtcProg", "aclrtBinHandle", "aclrtFuncHandle")
)
_NUMBERS = {"aclnnStatus": "int32_t", "aclError": "int", "aclFloat16": "uint16_t"}
_C_KINDS = frozenset(
    (
        "int", "char", "bool", "float", "double", "size_t", "int8_t", "int32_t", "int64_t",
        "uint16_t", "uint32_t", "uint64_t",
    )
)  # fmt: skip

_START = """\
import sys

for folder in {folders!r}:
    if folder not in sys.path:
        sys.path.insert(0, folder)
try:
    from {module} import ffi, lib
    from npusim.capi.runtime.entries import install
    install(ffi, lib)
except BaseException as problem:
    import os

    sys.stderr.write(
        f"npusim: {{sys.executable}} can't load the simulator: {{problem}}\\n"
        "Build the program again with `npusim cc`.\\n"
    )
    sys.stderr.flush()
    os._exit(1)
"""


@dataclass(frozen=True)
class Installation:
    """The folders that programs are compiled and linked against."""

    root: Path

    @property
    def include(self) -> Path:
        """The folder of the headers."""
        return self.root / "include"

    @property
    def lib(self) -> Path:
        """The folder of the libraries."""
        return self.root / "lib"

    @property
    def cmake(self) -> Path:
        """The folder of ``npusim-config.cmake``; ``find_package`` finds ASC there too."""
        return self.root / "cmake"


def installation() -> Installation:
    """Headers and library, built now if they haven't been.

    Raises UsageError off Linux and where a compiler, cffi or Python's library is missing, FileError
    where the cache can't be written.
    """
    tools.require_linux()
    tools.require_cffi()
    root = _cache() / _key()
    if not (root / _DONE).exists():
        compiler = tools.c_compiler()
        with _locked(root):
            if not (root / _DONE).exists():  # another process may have built it meanwhile
                _build(root, compiler)
    if root.is_symlink() or not is_ours(root.stat()):  # what is in it will be executed
        raise FileError(root, "belongs to somebody else, or others may write to it", _REMEDY)
    return Installation(root)


def kernel_version() -> str:
    """Names what libraries of kernels follow from: headers, and what runs them."""
    parts = [npusim.__version__, *kernel_headers().values(), *_files("kernels").values()]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _cache() -> Path:
    return (cache_folder() or Path.home() / ".cache" / "npusim").absolute() / "capi"


def _key() -> str:
    """Names what the library follows from, which is quicker to read than the library to make."""
    parts = [npusim.__version__, sys.version, sys.executable, str(tools.python_library())]
    parts += [str(catalogue().checksum), *map(first_phase, operators()), *_import_folders()]
    parts += (fixed_headers() | kernel_headers()).values()
    parts += [*_files("cmake").values(), *_files("kernels").values()]
    parts += [_data("start_python.c"), _START, *OTHER_NAMES]
    parts += [
        read_text(Path(module.__file__ or "")) for module in (declarations, kernel_calls, phases)
    ]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


@contextmanager
def _locked(root: Path) -> Iterator[None]:
    """One process builds, the others wait for it."""
    import fcntl  # Linux has it, and nothing here runs elsewhere

    try:
        own_folder(root.parent)
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW
        with os.fdopen(os.open(root.with_suffix(".lock"), flags, 0o600), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
    except OSError as error:
        problem = f"can't be written: {error.strerror or error}"
        raise FileError(root.parent, problem, _REMEDY) from None


def _build(root: Path, compiler: list[str]) -> None:
    with guarded_folder(f".{root.name}.", within=root.parent) as room:
        scratch = Path(room, "new")
        scratch.mkdir(mode=0o700)
        for name, text in (headers() | kernel_headers()).items():
            file = scratch / "include" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        for folder in ("lib", "cmake"):
            (scratch / folder).mkdir()
        for name, text in _files("cmake").items():
            (scratch / "cmake" / name).write_text(text, encoding="utf-8")
        _compile(scratch, compiler)
        for name in OTHER_NAMES:
            (scratch / "lib" / name).symlink_to(LIBRARY)
        (scratch / "lib64").symlink_to("lib")  # where builds for a toolkit look
        (scratch / _DONE).touch()
        if root.exists():  # left by a build that was interrupted
            root.replace(Path(room, "old"))
        scratch.replace(root)


def _compile(scratch: Path, compiler: list[str]) -> None:
    files = [scratch / f"{_MODULE}.c", scratch / "phases.c"]
    for file, source in zip(files, (_c_source(), phases.source()), strict=True):
        file.write_text(source, encoding="utf-8")
    library = tools.python_library()
    kernels, runtime = scratch / "kernels", scratch / "runtime.o"
    kernels.mkdir()
    for name, text in _files("kernels").items():
        (kernels / name).write_text(text, encoding="utf-8")
    objects = [file.with_suffix(".o") for file in files]
    commands = [
        [
            *tools.cxx_compiler(), "-std=c++17", "-c", "-fPIC", "-O3", "-w",
            f"-I{scratch / 'include'}", str(kernels / _KERNELS), "-o", str(runtime),
        ],
        *(  # which only pass on what they are given
            [
                *compiler, "-c", "-fPIC", "-O0", "-w", f"-I{tools.python_include()}", str(file),
                "-o", str(made),
            ]
            for file, made in zip(files, objects, strict=True)
        ),
    ]  # fmt: skip
    with ThreadPoolExecutor(len(commands)) as threads:
        list(threads.map(_run, commands))
    _run([  # by the C++ compiler, which knows its own library
        *tools.cxx_compiler(), "-shared", *map(str, objects), str(runtime),
        "-o", str(scratch / "lib" / LIBRARY), f"-Wl,-soname,{LIBRARY}", str(library),
        f"-Wl,-rpath,{library.parent}", "-ldl", "-lpthread",
    ])  # fmt: skip
    for file in (*files, *objects, runtime):
        file.unlink()
    shutil.rmtree(kernels)


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - the user's own compiler
    if done.returncode:
        raise UsageError(
            f"{command[0]} can't build the library:\n{done.stderr.strip()}",
            "Please report it, with the version of the compiler.",
        )


def _c_source() -> str:
    """What cffi generates: each function of the fixed headers as an entry into Python."""
    maker: Any = import_module("cffi").FFI()  # it has no types
    maker.cdef("uintptr_t npusim_new_array(size_t bytes);")
    maker.cdef(phases.WORD)
    maker.cdef(kernel_calls.JOB)
    entries = (*_declarations(), phases.FIRST, phases.SECOND, *kernel_calls.ENTRIES)
    maker.embedding_api("\n".join(entries))
    start = _START.format(module=_MODULE, folders=_import_folders())
    maker.embedding_init_code(start)
    quoted = sys.executable.replace("\\", "\\\\").replace('"', '\\"')
    types = f"{phases.WORD}\n{kernel_calls.JOB}"
    preamble = f'#define NPUSIM_PYTHON "{quoted}"\n{_data("start_python.c")}\n{types}'
    maker.set_source(_MODULE, preamble)
    with tempfile.TemporaryDirectory(prefix="npusim") as folder:
        file = Path(folder) / f"{_MODULE}.c"
        with redirect_stdout(StringIO()):  # cffi says which file it writes
            maker.emit_c_code(str(file))
        return read_text(file)


def _import_folders() -> list[str]:
    """Where npusim is, if its folder isn't one that any start of this Python searches."""
    return [str(Path(npusim.__file__).absolute().parent.parent)]


def _declarations() -> Iterator[str]:
    """The library's functions as Python takes them: a handle or an address is a number."""
    for each in prototypes(fixed_headers()):
        words = ", ".join(f"{_entry_type(kind)} {name}" for kind, name in each.parameters)
        yield f"{_entry_type(each.returns)} {each.name}({words or 'void'});"


def _entry_type(kind: str) -> str:
    base, _, stars = kind.partition(" *")
    stars = "*" * kind.count("*")
    if base in _OPAQUE and stars:
        return f"uintptr_t {stars[1:]}".strip()
    if base == "char" and stars:
        return "uintptr_t"
    base = _NUMBERS.get(base, "uintptr_t" if base in _HANDLES else base)
    if base not in _C_KINDS and base != "uintptr_t":
        base = "int"  # what is left are enumerations
    return f"{base} {stars}".strip()


def _files(folder: str) -> dict[str, str]:
    """The texts of a folder: what CMake reads, or what runs kernels."""
    found = resources.files("npusim.capi").joinpath(folder).iterdir()
    return {
        each.name: read_text(each).replace("@npusim_PYTHON@", sys.executable)
        for each in sorted(found, key=lambda file: file.name)
    }


def _data(name: str) -> str:
    return read_text(resources.files("npusim.capi").joinpath("headers", name))
