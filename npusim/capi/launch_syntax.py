"""``kernel<<<blocks, l2ctrl, stream>>>(arguments)`` as a call that any C++ compiler takes."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from npusim.reading.files import read_bytes
from npusim.values.errors import RejectedError

_NAME = re.compile(r"[A-Za-z_][\w:]*$")
_DEFINED = re.compile(
    r"((?:__\w+__(?:\([^)]*\))?\s+|inline\s+|extern\s+\"C\"\s+)+)void\s+(\w+)\s*\("
)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\\\.|[^\"\\\\\n])*\"", re.DOTALL)  # or a text
_INCLUDED = re.compile(r"^\s*#\s*include\s+\"([^\"]+)\"", re.MULTILINE)
_LAUNCH_HEADER = re.compile(r"aclrtlaunch_(\w+)\.h\"")
_DIRECTIVE = re.compile(r"^[ \t]*#(?:\\\n|[^\n])*", re.MULTILINE)
_WORD = re.compile(r"[A-Za-z_]\w*")
# `__ubuf__ float name[size];`: an array in one of the core's memories, of kernels in C.
_MEMORIES = {
    "ubuf": "UB", "cbuf": "L1", "ca": "L0A", "cb": "L0B", "cc": "L0C",
    "biasbuf": "BIAS", "fbuf": "FIXBUF",
}  # fmt: skip
_QUALIFIER = re.compile(rf"\b__(?:{'|'.join(_MEMORIES)})__(?!\w)")
_ARRAY = re.compile(
    rf"\b__({'|'.join(_MEMORIES)})__\s+([\w:]+(?:\s*<[^;<>]*>)?)\s+(\w+)\s*\[([^;{{}}\[\]]+)\]"
    r"((?:\s*\[[^;{}\[\]]+\])*)\s*;"
)
_VECTOR, _CUBE, _MIX, _BY_SIDES, _ONE_EACH = 0, 1, 2, 3, 4
_WITH_ONE = re.compile(r"__mix__\s*\(\s*1\s*,\s*1\s*\)")
# No cube core beside a vector core, or none that is waited for.
_ON_VECTORS = re.compile(r"KERNEL_TASK_TYPE_DEFAULT\s*\(\s*KERNEL_TYPE_(AIV_ONLY|MIX_AIV_1_0)\s*\)")
_SETTINGS = 2  # of a launch: blocks, l2ctrl; without a stream it's the default one


def entries_of(source: str, expressions: Iterable[str]) -> str:
    """What makes kernels of a text launchable by their addresses: `extern "C"` ones and some named.

    Behind the text; `expressions` are names with their template arguments.
    """
    kinds = {name: _kind(words, source) for words, name in _defined(source)}
    found = [
        (name, name)
        for words, name in _defined(source)
        if "__global__" in words and "extern" in words
    ]
    found += [(lowered(each), each) for each in expressions]
    last = (each.partition("<")[0].rpartition(":")[2].strip() for _, each in found)
    made = (
        f"NPUSIM_ARRAY_LAUNCHED({name}, {kinds.get(kernel, _VECTOR)}, {each})\n"
        for (name, each), kernel in zip(found, last, strict=True)
    )
    return f'\n#include "npusim/kernel_launch.h"\n{"".join(made)}'


def lowered(expression: str) -> str:
    """A kernel's name with template arguments as an identifier."""
    return re.sub(r"\W", lambda found: f"_{ord(found[0]):x}_", expression)


def has_launches(source: str) -> bool:
    """Whether there is a launch in a source."""
    return "<<<" in source


def named_launches(source: str) -> set[str]:
    """Kernels that a source launches by ``ACLRT_LAUNCH_KERNEL`` and their generated headers."""
    return set(_LAUNCH_HEADER.findall(source))


def kernels_of(source: str) -> set[str]:
    """Kernels that a source defines or declares."""
    return {name for words, name in _defined(source) if "__global__" in words}


def _defined(source: str) -> list[tuple[str, str]]:
    """The functions of a source with the words in front, between which directives may stand."""
    return _DEFINED.findall(_DIRECTIVE.sub("", source))


def kernel_kinds(source: Path) -> dict[str, int]:
    """The cores of the kernels of a file and of the headers beside it."""
    return _kinds(read_bytes(source).decode("utf-8", errors="replace"), source.parent)


def launch_header(name: str) -> str:
    """The header ``aclrtlaunch_NAME.h``: the kernel as a function of blocks, stream, arguments."""
    return f"""#pragma once
#include "npusim/kernel_launch.h"
NPUSIM_LAUNCHES({name})
"""


def declared_kinds(source: str) -> dict[str, int]:
    """The cores of the kernels that say theirs: `__vector__`, `__cube__`, `__mix__(1, 2)`."""
    return {
        name: _kind(words, "")
        for words, name in _defined(source)
        if any(word in words for word in ("__vector__", "__cube__", "__mix__"))
    }


def translated(
    source: str,
    path: str,
    launched: Collection[str] = (),
    *,
    by_sides: Mapping[str, int] | None = None,
) -> str:
    """The source with its launches as calls; its lines stay where they are.

    Kernels in ``launched`` can be launched from elsewhere, by :func:`launch_header`'s functions.
    ``by_sides`` is given for a source that is compiled for both sides, with the kernels that say
    their cores; those of others are found when a launch runs. Raises RejectedError for a launch
    that doesn't come to its end.
    """
    both_sides = by_sides is not None
    kinds = by_sides if by_sides is not None else _kinds(source, Path(path).parent)
    done, at = [], 0
    code = _COMMENT.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), source)
    while (opened := code.find("<<<", at)) >= 0:
        place = f"{path}:{1 + source.count(chr(10), 0, opened)}"
        first, name, types = _callee(source, opened, place)
        where, behind = _until(source, opened + 3, ">>>", place)
        bracket = source.find("(", behind)
        settings = _split(where)
        if len(settings) < _SETTINGS or source[behind:bracket].strip():
            raise RejectedError(
                f"{place}: a launch is written {name}<<<blocks, l2ctrl, stream>>>(...)"
            )
        arguments, end = _until(source, bracket + 1, ")", place)
        blocks, stream = settings[0], settings[2] if len(settings) > _SETTINGS else "nullptr"
        last = name.rpartition(":")[2]
        kind = kinds.get(last, _BY_SIDES) if both_sides else _kind_of(last, kinds, code[:opened])
        call = f"[=]() mutable {{ {name}{types}({arguments}); }}"
        if both_sides:  # in a member function, a copy of what is there when it is launched
            call = (
                f"[=, npusim_all = ::std::make_tuple({arguments})]() mutable {{ ::std::apply("
                f"[&](auto &...npusim_each) {{ {name}{types}(npusim_each...); }}, npusim_all); }}"
            )
        done.append(source[at:first])
        done.append(f'::npusim::launch("{name}", {kind}, {blocks}, {stream}, {call})')
        done.append("\n" * where.count("\n"))
        at = end
    text = _with_arrays("".join((*done, source[at:])))
    own = sorted(kernels_of(source).intersection(launched))
    made = "".join(f"\nNPUSIM_LAUNCHED({name}, {kinds.get(name, _VECTOR)})" for name in own)
    if made:
        made = f'\n#include "npusim/kernel_launch.h"{made}\n'
    return f'#line 1 "{path}"\n{text}{made}'


def _with_arrays(source: str) -> str:
    """The source with arrays in the core's memories placed there; its lines stay where they are."""

    def placed(found: re.Match[str]) -> str:
        memory, kind, name, size, more = found.groups()
        held = f"::npusim::{_MEMORIES[memory]}, int64_t(sizeof({kind}[{size}]{more}))"
        made = f"::npusim::Array npusim_{name}({held});"
        whole = f"{made} {kind} (*const {name}){more} = npusim_{name};"
        return whole + "\n" * (found[0].count("\n") - whole.count("\n"))

    return _QUALIFIER.sub("", _ARRAY.sub(placed, source))


def without_launchers(source: str) -> str:
    """The source without the functions that launch a kernel, which are the host's; lines stay."""
    code = _COMMENT.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), source)
    code = _DIRECTIVE.sub(lambda found: re.sub(r"[^\n]", ";", found[0]), code)
    for first, last in _outermost(code):
        if "<<<" in code[first:last]:
            start = 1 + max(code.rfind(";", 0, first), code.rfind("}", 0, first))
            source = source[:start] + re.sub(r"[^\n]", " ", source[start:last]) + source[last:]
    return source


def _outermost(code: str) -> Iterator[tuple[int, int]]:
    """Where blocks in braces begin and end that lie in no other."""
    depth, first = 0, 0
    for found in re.finditer(r"[{}]", code):
        if found[0] == "{":
            first = first if depth else found.start()
            depth += 1
        elif depth:
            depth -= 1
            if not depth:
                yield first, found.end()


def _kinds(source: str, folder: Path, known: frozenset[Path] = frozenset()) -> dict[str, int]:
    """The cores of the kernels of a source and of the headers beside it."""
    kinds = {name: _kind(words, source) for words, name in _defined(source)}
    for name in _INCLUDED.findall(source):
        header = folder / name
        if header not in known and header.is_file():
            text = read_bytes(header).decode("utf-8", errors="replace")
            kinds = _kinds(text, header.parent, known | {header}) | kinds
    return kinds


def _kind_of(name: str, kinds: Mapping[str, int], before: str) -> int:
    """The cores of a kernel, or of the first one in what a variable of that name is made of."""
    if name in kinds:
        return kinds[name]
    _, made, behind = before.partition(found[0]) if (found := _made(name, before)) else ("", "", "")
    held = (word for word in _WORD.findall(behind) if made and word in kinds)
    return kinds.get(next(held, ""), _VECTOR)


def _made(name: str, before: str) -> re.Match[str] | None:
    """Where a variable gets its value: ``auto name =``, ``void (*name)(...) =``."""
    return re.search(rf"\b{name}\s*(?:\)\s*\([^;=]*\)\s*)?=(?!=)", before)


def _callee(source: str, end: int, place: str) -> tuple[int, str, str]:
    """Where the kernel's name in front of ``end`` begins, the name, and its template arguments."""
    behind = len(source[:end].rstrip())
    at, depth = behind, 0
    while at and (source[at - 1] == ">" or depth):
        at -= 1
        depth += (source[at] == ">") - (source[at] == "<")
    found = _NAME.search(source[:at].rstrip())
    if found is None:
        raise RejectedError(f"{place}: no kernel's name stands in front of <<<")
    return found.start(), found[0], source[at:behind]


def _kind(words: str, source: str) -> int:
    """The cores that a kernel runs on: what its qualifier says, else what the source calls."""
    if "__mix__" in words:
        return _ONE_EACH if len(_WITH_ONE.findall(words)) == words.count("__mix__") else _MIX
    if "__cube__" in words or "__vector__" in words:
        return _CUBE if "__cube__" in words else _VECTOR
    if "KERNEL_TYPE_MIX_AIC_1_1" in source and "KERNEL_TYPE_MIX_AIC_1_2" not in source:
        return _ONE_EACH
    asks_cube = "REGIST_MATMUL_OBJ" in source and "ASCENDC_CUBE_ONLY" not in source
    if _ON_VECTORS.search(source) and not asks_cube and "MIX_AIC" not in source:
        return _VECTOR
    if asks_cube or "KERNEL_TYPE_MIX_AI" in source or "CrossCoreSetFlag" in source:
        return _MIX
    by_cube = ("REGIST_MATMUL_OBJ", "KERNEL_TYPE_AIC_ONLY", "Mmad(", "Mmad<")
    return _CUBE if any(word in source for word in by_cube) else _VECTOR


def _until(source: str, start: int, closing: str, place: str) -> tuple[str, int]:
    """What stands before ``closing`` outside of brackets, and the place behind it."""
    depth, at = 0, start
    while at < len(source):
        if depth == 0 and source.startswith(closing, at):
            return source[start:at], at + len(closing)
        depth += source[at] in "([{"
        depth -= source[at] in ")]}"
        at += 1
    raise RejectedError(f"{place}: this launch doesn't come to its end")


def _split(words: str) -> list[str]:
    """Words between commas outside of brackets."""
    parts, depth = [""], 0
    for letter in words:
        depth += letter in "([{"
        depth -= letter in ")]}"
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]
