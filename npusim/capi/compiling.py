"""Compiling a C++ program against the headers and the library."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from npusim.capi import tools
from npusim.capi.launch_syntax import has_launches, translated
from npusim.capi.library import LIBRARY, installation
from npusim.values.errors import FileError, OutputExistsError, RejectedError, UsageError

_KERNELS = ".asc"
_OF_KERNELS = ("-std=c++17", "-O2", "-ftree-vectorize")  # flags behind them may say otherwise
_ELF = b"\x7fELF"
# What the vendor's compiler is told: the numbers that kernels ask for, by --npu-arch.
_ARCHITECTURES = {"dav-1001": (1001, 100), "dav-2002": (2002, 200), "dav-2201": (2201, 220)}
_NOT_OURS = ("--cce-", "--cce_", "-xasc", "--npu-soc=", "--run-mode=")


def compile_program(
    sources: Sequence[Path],
    output: Path | None = None,
    flags: Sequence[str] = (),
    messages: IO[str] | None = None,
) -> Path:
    """Compiles and links `sources`; the compiler's messages go to standard error or `messages`.

    The program is named after the first source unless `output` says otherwise; it finds the library
    by itself. With the flag `-c` it is an object file; `sources` may be such files. An earlier
    program of that name is replaced, any other file is not. Raises FileError for a source that
    isn't there, RejectedError where the compiler objects or the architecture isn't simulated.
    """
    if not sources:
        raise UsageError("which source? no file is given", "npusim cc FILE.cpp -o PROG")
    for source in sources:
        if not source.is_file():
            raise FileError(source, "is no file", "Name the C++ sources of the program.")
    target = output or Path(sources[0].stem)
    _require_replaceable(target, sources)
    compiler = tools.cxx_compiler()
    home = installation()
    handle, scratch = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    os.close(handle)
    library = LIBRARY.removeprefix("lib").removesuffix(".so")
    linked = (f"-L{home.lib}", f"-l{library}", f"-Wl,-rpath,{home.lib}")
    folder = tempfile.mkdtemp(prefix="npusim-cc-")
    try:
        translations = {source: _as_cxx(source, Path(folder)) for source in sources}
        command = [
            *compiler, f"-I{home.include}", f"-I{home.include / 'aclnnop'}",
            *(word for words in translations.values() for word in words), "-o", scratch,
            *_own(flags), *(() if "-c" in flags else linked),
        ]  # fmt: skip
        done = subprocess.run(command, check=False, stderr=messages)  # noqa: S603 - the user's own compiler
        if done.returncode:
            raise RejectedError(f"{compiler[0]} ended with {done.returncode}, see above")
        if "-MF" in flags:
            _name_sources(Path(flags[flags.index("-MF") + 1]), translations)
        Path(scratch).chmod(0o755)
        Path(scratch).replace(target)
    finally:
        Path(scratch).unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)
    return target


def _own(flags: Sequence[str]) -> list[str]:
    """Flags as a C++ compiler takes them. Raises RejectedError for another architecture."""
    own: list[str] = []
    for flag in flags:
        name, _, value = flag.partition("=")
        if name == "--npu-arch":
            if value not in _ARCHITECTURES:
                allowed = ", ".join(_ARCHITECTURES)
                raise RejectedError(f"--npu-arch={value} isn't simulated; these are: {allowed}")
            architecture, core = _ARCHITECTURES[value]
            own += (f"-D__NPU_ARCH__={architecture}", f"-D__CCE_AICORE__={core}")
        elif not flag.startswith(_NOT_OURS):
            own.append(flag)
    return own


def _name_sources(file: Path, translations: Mapping[Path, Sequence[str]]) -> None:
    """In a list of what an object was made from, the sources instead of their translations."""
    text = file.read_text(encoding="utf-8")
    for source, words in translations.items():
        text = text.replace(words[-1], str(source))
    file.write_text(text, encoding="utf-8")


def _as_cxx(source: Path, folder: Path) -> list[str]:
    """A source as the compiler takes it: with its launches of kernels translated."""
    try:
        text = source.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return [str(source)]
    if source.suffix != _KERNELS and not has_launches(text):
        return [str(source)]
    made = folder / f"{len(list(folder.iterdir()))}.cpp"
    made.write_text(translated(text, str(source.absolute())), encoding="utf-8")
    return [*_OF_KERNELS, f"-I{source.absolute().parent}", str(made)]


def _require_replaceable(target: Path, sources: Sequence[Path]) -> None:
    if target.is_dir():
        raise FileError(target, "is a folder", "Name the program with -o PROG.")
    if not target.parent.is_dir():
        raise FileError(target, f"can't be written: {target.parent} doesn't exist")
    if not target.exists():
        return
    with target.open("rb") as stream:
        is_program = stream.read(len(_ELF)) == _ELF
    if not is_program or any(target.samefile(source) for source in sources):
        raise OutputExistsError(target, "It isn't a program; choose another name with -o.")
