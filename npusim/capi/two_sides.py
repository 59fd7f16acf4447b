"""Kernels compiled twice, for cube cores and for vector cores, as the device's compiler does.

Sources that ask ``g_coreType`` or ``__DAV_CUBE__`` while they are compiled, or launch from headers:
both sides are made from preprocessed text and become one object. The vector side's launches find
the other side by the type of what they run.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from npusim.capi.clang_words import as_gcc_takes_it, of_system
from npusim.capi.launch_syntax import declared_kinds, translated
from npusim.capi.library import installation
from npusim.capi.missing_headers import missing_header
from npusim.capi.tools import binary_tool, is_clang
from npusim.reading.files import read_bytes
from npusim.reading.kept import own_folder
from npusim.values.errors import RejectedError

_SIDES = (("VEC", "C220_VEC"), ("CUBE", "C220_CUBE"))
_ASKS = re.compile(rb"\bg_coreType\b|\b__DAV_(?:C220_)?(?:CUBE|VEC)__|<<<")
_LAUNCH = b"<<<"
_INCLUDED = re.compile(rb"^[ \t]*#[ \t]*include[ \t]+([\"<])([^\">]+)[\">]", re.MULTILINE)
_WHERE = re.compile(r"\[\s*(?:host\s*,\s*)?(?:aicore|host)\s*\]")
_BEFORE = (
    "-D__CCE__",
    "-DNPUSIM_MEMORIES_STAY",
    "-D__forceinline__=inline",
    "-include",
    "kernel_operator.h",
)
_HIDDEN = "npusim/system/"  # instead of a system's header
_PLACE = re.compile(rf'^# 1 "{_HIDDEN}(\d+)"\n', re.MULTILINE)
_AFTER = ("-O1", "-ftree-vectorize", "-w")  # of what -O2 does, kernels' numbers need this
_OF_GCC = ("-std=c++20", "-fno-gnu-unique", "-fpermissive")
_MOST_KEPT = 64
_TAKE_A_WORD = ("-MF", "-MT", "-MQ")
_OF_DEPENDENCIES = ("-MD", "-MMD", "-MP")


def asks_for_sides(source: Path, flags: Sequence[str]) -> bool:
    """Whether a source, or a header that it reaches, asks for its core or launches in a header."""
    folders = [Path(flag[2:]) for flag in flags if flag.startswith("-I")]
    ours = installation().include.resolve()
    folders = [folder for folder in folders if not folder.resolve().is_relative_to(ours)]
    known: set[Path] = set()
    waiting = [source.absolute()]
    while waiting:
        file = waiting.pop()
        text = read_bytes(file)
        found = {match[0] for match in _ASKS.finditer(text)}
        if found - {_LAUNCH} or (found and file != source.absolute()):
            return True
        new = {each for each in _included(text, file.parent, folders) if each not in known}
        known |= new
        waiting += sorted(new)
    return False


def _included(text: bytes, beside: Path, folders: Sequence[Path]) -> Iterator[Path]:
    """The headers that a text includes, as far as they are the user's."""
    for quote, name in _INCLUDED.findall(text):
        for folder in [beside, *folders] if quote == b'"' else folders:
            file = folder / name.decode(errors="replace")
            if file.is_file():
                yield file.resolve()
                break


def compile_sides(
    sources: Sequence[Path],
    compiler: Sequence[str],
    flags: Sequence[str],
    folder: Path,
    messages: IO[str] | None = None,
) -> dict[Path, Path]:
    """The objects of sources, both sides in each; from the cache what was made before.

    ``compiler`` is its command with the folders of npusim's headers, ``flags`` are the user's.
    Raises RejectedError where the compiler objects.
    """
    words = _of_compiling(flags)
    made = {}
    for source in sources:
        texts = [_side(source, [*compiler, *words], names, messages) for names in _SIDES]
        kept = _kept(texts, [compiler[0], *words])
        if not kept.is_file():
            both = _compiled(source.stem, texts, [*compiler, *words], folder, messages)
            _keep(both, kept)
        made[source] = kept
    return made


def _of_compiling(flags: Sequence[str]) -> list[str]:
    """Flags without those of linking and of another way to compile."""
    left_out = ("-l", "-L", "-Wl,", "-std=")
    return [flag for flag in flags if flag != "-c" and not flag.startswith(left_out)]


def _without_dependencies(words: Sequence[str]) -> list[str]:
    """A command without its flags for lists of headers."""
    before = ["", *words]
    return [
        word
        for last, word in zip(before, words, strict=False)
        if word not in (*_OF_DEPENDENCIES, *_TAKE_A_WORD) and last not in _TAKE_A_WORD
    ]


def _side(
    source: Path, words: Sequence[str], names: Sequence[str], messages: IO[str] | None
) -> str:
    """A source as the compiler sees it on cores of one kind, as any C++ compiler takes it."""
    marks = [f"-D__DAV_{name}__" for name in names]
    if not is_clang():  # which is compiled as C++20 then
        marks.append("-DNPUSIM_SETTINGS_BY_VALUE")
    command = [*words, "-std=c++17", *_BEFORE, *marks, "-E", "-xc++", str(source)]
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=messages)  # noqa: S603 - the user's own compiler
    if done.returncode:
        raise RejectedError(
            *missing_header(command, installation().include)
            or (f"{words[0]} ended with {done.returncode}, see above",)
        )
    whole = done.stdout.decode(errors="replace")
    hidden = of_system(whole)  # three quarters of it, and nothing to change
    parts, at = [], 0
    for number, (first, last) in enumerate(hidden):
        parts += [whole[at:first], f'# 1 "{_HIDDEN}{number}"\n']
        at = last
    text = _WHERE.sub("", "".join((*parts, whole[at:])))
    if not is_clang():
        text = as_gcc_takes_it(text)
    kinds = declared_kinds(read_bytes(source).decode(errors="replace"))
    made = translated(text, str(source.absolute()), by_sides=kinds)
    return _PLACE.sub(lambda found: whole[slice(*hidden[int(found[1])])], made)


def _kept(texts: Sequence[str], words: Sequence[str]) -> Path:
    """Where the cache has the object of these texts."""
    named = hashlib.sha256("\0".join((*texts, *words, *_AFTER)).encode()).hexdigest()[:32]
    return installation().root.parent / "sides" / f"{named}.o"


def _keep(made: Path, kept: Path) -> None:
    """Puts an object into the cache, and the oldest ones out of it."""
    own_folder(kept.parent)
    scratch = kept.with_suffix(f".{made.parent.name}")
    shutil.copyfile(made, scratch)
    scratch.replace(kept)
    objects = sorted(kept.parent.glob("*.o"), key=lambda file: file.stat().st_mtime)
    for file in objects[:-_MOST_KEPT]:
        file.unlink(missing_ok=True)


def _compiled(
    name: str,
    texts: Sequence[str],
    words: Sequence[str],
    folder: Path,
    messages: IO[str] | None,
) -> Path:
    """Both sides as one object, in which the cube side's names are nobody else's."""
    objects = [folder / f"{name}.{side}.o" for side, _ in _SIDES]
    running = []
    for text, output in zip(texts, objects, strict=True):
        made = output.with_suffix(".cpp")
        made.write_text(text, encoding="utf-8")
        own = ("-std=c++17",) if is_clang() else _OF_GCC
        command = [*_without_dependencies(words), *_AFTER, *own, "-c", str(made), "-o", str(output)]
        running.append(subprocess.Popen(command, stderr=messages))  # noqa: S603 - the user's own compiler
    codes = [process.wait() for process in running]
    if any(codes):
        raise RejectedError(f"{words[0]} refuses {name}, see above")
    vector, cube = objects
    alone, both = folder / f"{name}.alone.o", folder / f"{name}.both.o"
    steps = (
        [binary_tool("ld"), "-r", "--force-group-allocation", str(cube), "-o", str(alone)],
        [binary_tool("objcopy"), "--keep-global-symbol=npusim_nothing", str(alone)],
        [binary_tool("ld"), "-r", str(vector), str(alone), "-o", str(both)],
    )
    for step in steps:
        done = subprocess.run(step, check=False, capture_output=True, text=True)  # noqa: S603
        if done.returncode:
            raise RejectedError(f"{step[0]} can't join both sides of {name}: {done.stderr[:300]}")
    return both
