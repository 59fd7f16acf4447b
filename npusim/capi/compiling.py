"""Compiling a C++ program against the headers and the library."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from npusim.capi import tools
from npusim.capi.launch_syntax import (
    has_launches,
    kernels_of,
    launch_header,
    named_launches,
    translated,
)
from npusim.capi.library import LIBRARY, Installation, installation
from npusim.capi.missing_headers import missing_header
from npusim.capi.two_sides import asks_for_sides, compile_sides
from npusim.operators.folders import VARIABLE
from npusim.values.errors import FileError, OutputExistsError, RejectedError, UsageError
from npusim.values.guard import guarded_folder

# Beside a built project: the headers of its interfaces, and their functions, as packages call them.
INCLUDE, FUNCTIONS = "include", "libcust_opapi.so"
_KERNELS = ".asc"
# Flags behind them may say otherwise; the device's compiler narrows without a word.
_OF_KERNELS = ("-std=c++17", "-O2", "-ftree-vectorize", "-Wno-narrowing")
_LAUNCHERS = "-DNPUSIM_LAUNCHERS"  # other objects launch the kernels of this one by their names
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
    linked = _with_the_library(home)
    with guarded_folder(f".{target.name}.", within=target.parent.absolute()) as folder:
        scratch = f"{folder}/made"
        launched = _launch_headers(sources, flags, Path(folder))
        plugged, plugged_in = _of_projects()
        linked += plugged_in
        include = (
            f"-I{folder}", f"-I{home.include}", f"-I{home.include / 'aclnnop'}", *plugged,
        )  # fmt: skip
        own = _own(flags)
        both = [
            source
            for source in sources
            if (text := _text(source)) is not None
            and not launched.intersection(kernels_of(text))
            and asks_for_sides(source, own)
        ]
        made = compile_sides(both, [*compiler, *include], own, Path(folder), messages)
        translations = {
            source: [str(made[source])]
            if source in made
            else _as_cxx(source, Path(folder), launched)
            for source in sources
        }
        words = [word for words in translations.values() for word in words]
        command = [*compiler, *include, *words, "-o", scratch, *own]
        if "-c" not in flags:
            command += linked
        elif made:  # no other source: the compiler takes one with -c and -o
            command = [tools.binary_tool("ld"), "-r", *words, "-o", scratch]
        done = subprocess.run(command, check=False, stderr=messages)  # noqa: S603 - the user's own compiler
        if done.returncode:
            raise _refusal(command, done.returncode, home.include)
        if "-MF" in flags:
            _name_sources(Path(flags[flags.index("-MF") + 1]), translations)
        Path(scratch).chmod(0o755)
        Path(scratch).replace(target)
    return target


def _refusal(command: Sequence[str], code: int, headers: Path) -> RejectedError:
    """Why a compiler's command ended: a header that nobody found, or what it said itself."""
    missing = missing_header(command, headers)
    return RejectedError(*missing or (f"{command[0]} ended with {code}, see above",))


def compile_library(sources: Sequence[Path], output: Path, flags: Sequence[str], what: str) -> None:
    """Compiles sources of a project to a library that the simulator loads into its own process.

    The compiler's messages go to standard error. Raises RejectedError where it objects to ``what``.
    """
    compiler, home = tools.cxx_compiler(), installation()
    command = [
        *compiler, *_OF_KERNELS, "-shared", "-fPIC", "-fvisibility=hidden", f"-I{home.include}",
        *flags, *map(str, sources), "-o", str(output), *_with_the_library(home),
    ]  # fmt: skip
    done = subprocess.run(command, check=False)  # noqa: S603 - the user's own compiler
    if done.returncode:
        missing = missing_header(command, home.include)
        raise RejectedError(*missing or (f"{what} doesn't compile, see above",))


def kept_object(name: str, text: str) -> Path:
    """An object of a text of npusim's own, compiled once and kept beside its library."""
    home = installation()
    made = home.lib / f"{name}.o"
    if not made.is_file():
        with guarded_folder(f".{name}.", within=home.lib) as folder:
            source, scratch = Path(folder, f"{name}.cpp"), Path(folder, f"{name}.o")
            source.write_text(text, encoding="utf-8")
            words = ("-std=c++17", "-O1", "-w", "-fPIC", "-fvisibility=hidden", "-c")
            include = f"-I{home.include}"
            command = [*tools.cxx_compiler(), *words, include, str(source), "-o", str(scratch)]
            done = subprocess.run(command, check=False)  # noqa: S603 - the user's own compiler
            if done.returncode:
                raise RejectedError(f"{command[0]} ended with {done.returncode}, see above")
            scratch.replace(made)
    return made


def compile_c_library(source: Path, output: Path, beside: str = "") -> None:
    """Compiles a source of functions that pass on to npusim's library.

    It loads another library of its folder where that is named.
    """
    other = ["-Wl,--no-as-needed", f"-L{output.parent}", f"-l:{beside}", "-Wl,-rpath,$ORIGIN"]
    command = [
        *tools.c_compiler(), "-shared", "-fPIC", "-O1", "-w", str(source), "-o", str(output),
        *(other if beside else ()), *_with_the_library(installation()),
    ]  # fmt: skip
    done = subprocess.run(command, check=False)  # noqa: S603 - the user's own compiler
    if done.returncode:
        raise RejectedError(f"{command[0]} ended with {done.returncode}, see above")


def _with_the_library(home: Installation) -> list[str]:
    """The linker's words for npusim's own library, which programs find by themselves."""
    library = LIBRARY.removeprefix("lib").removesuffix(".so")
    return [f"-L{home.lib}", f"-l{library}", f"-Wl,-rpath,{home.lib}"]


def _of_projects() -> tuple[list[str], list[str]]:
    """The compiler's and the linker's words for the built projects that NPUSIM_OPS names."""
    folders = [Path(each) for each in os.environ.get(VARIABLE, "").split(os.pathsep) if each]
    named = [each for top in folders for each in sorted(top.absolute().glob(f"*/{FUNCTIONS}"))]
    linked = [word for each in named for word in (str(each), f"-Wl,-rpath,{each.parent}")]
    return [f"-I{each.parent / INCLUDE}" for each in named], linked


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


def _launch_headers(sources: Sequence[Path], flags: Sequence[str], folder: Path) -> set[str]:
    """Writes the headers that stand for kernels; returns the kernels that others may launch.

    Raises RejectedError for a header whose kernel is in none of the sources.
    """
    texts = [text for source in sources if (text := _text(source)) is not None]
    wanted = {name for text in texts for name in named_launches(text)}
    for name in wanted:
        (folder / f"aclrtlaunch_{name}.h").write_text(launch_header(name), encoding="utf-8")
    defined = {name for text in texts for name in kernels_of(text)}
    if "-c" in flags:  # the other part is compiled by itself
        return defined if _LAUNCHERS in flags else wanted
    missing = sorted(wanted - defined)
    if missing and len(texts) == len(sources):
        raise RejectedError(
            f"aclrtlaunch_{missing[0]}.h stands for the kernel {missing[0]}, "
            "which none of the sources defines",
            "Name its file too: npusim cc main.cpp KERNEL.cpp -o PROG.",
        )
    return wanted


def _text(source: Path) -> str | None:
    """A source's text; None for what isn't one (an object, a library)."""
    try:
        return source.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return None


def _as_cxx(source: Path, folder: Path, launched: set[str]) -> list[str]:
    """A source as the compiler takes it: with its launches of kernels translated."""
    text = _text(source)
    if text is None:
        return [str(source)]
    is_plain = not has_launches(text) and not launched.intersection(kernels_of(text))
    if source.suffix != _KERNELS and is_plain:
        return [str(source)]
    made = folder / f"{len(list(folder.iterdir()))}.cpp"
    made.write_text(translated(text, str(source.absolute()), launched), encoding="utf-8")
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
