"""Kernels with template arguments (ASCENDC_TPL_*): the instances, and how keys name them."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Sequence
from itertools import product

from npusim.capi import tools
from npusim.capi.library import installation
from npusim.values.errors import RejectedError

# What ascendc/host_api/tiling/template_argument.h makes of a selection for those who read it here.
_SCAN = "NPUSIM_TPL_SCAN"
_SELECTS, _SET = "npusim_tpl_selects", "npusim_tpl_set"
_LISTS = ("npusim_tpl_list", "npusim_tpl_ASCENDC_TPL_UI_LIST")
_RANGE = "npusim_tpl_ASCENDC_TPL_UI_RANGE"
_INPUT = re.compile(r"ASCENDC_TPL_INPUT\s*\(\s*(\d+)\s*\)")
_TYPE = re.compile(r"\bC_DT_(\w+)\b")
_TYPES = {
    "FLOAT": "float", "FLOAT16": "half", "BF16": "bfloat16_t", "BOOL": "bool",
    **{f"INT{bits}": f"int{bits}_t" for bits in (8, 16, 32, 64)},
    **{f"UINT{bits}": f"uint{bits}_t" for bits in (8, 16, 32, 64)},
}  # fmt: skip
_MARK = re.compile(r"^# \d+ .*$", re.MULTILINE)
_MOST = 512  # instances that are compiled


def dispatch(text: str, flags: Sequence[str], name: str, inputs: Sequence[str]) -> str:
    """The function that calls the instance of a kernel that a tiling key names, in C++.

    ``text`` is the kernel's file as it will be compiled with ``flags``; ``inputs`` are the names of
    the operator's inputs. Raises RejectedError where it selects nothing.
    """
    found = list(instances(_preprocessed(text, flags)))
    if not found:
        raise RejectedError(
            f"{name} has template arguments, but its file selects none of them",
            "Write ASCENDC_TPL_SEL(ASCENDC_TPL_ARGS_SEL(...)) for the instances that there are.",
        )
    lines = ["static int npusim_tpl_call(const uint64_t *given)", "{"]
    for each in list(dict.fromkeys(found))[:_MOST]:
        key = ", ".join(_as_number(value, inputs) for value in each)
        types = ", ".join(_as_argument(value, inputs) for value in each)
        lines.append(
            f"    if (npusim_tiling_key == npusim::tpl_key(npusim_tpl_declared, {key})) "
            f"return npusim::call_with(&{name}<{types}>, given), 1;"
        )
    first = ", ".join(_as_argument(value, inputs) for value in found[0])
    lines += ["    return 0;", "}", f"NPUSIM_OP_KERNELS(({name}<{first}>), npusim_tpl_call)"]
    return "\n".join(lines)


def _preprocessed(text: str, flags: Sequence[str]) -> str:
    command = [
        *tools.cxx_compiler(), "-std=c++17", f"-D{_SCAN}", f"-I{installation().include}", *flags,
        "-E", "-P", "-xc++", "-",
    ]  # fmt: skip
    done = subprocess.run(command, input=text, check=False, capture_output=True, text=True)  # noqa: S603 - the user's own compiler
    return _MARK.sub("", done.stdout)


def instances(text: str) -> Iterator[tuple[str, ...]]:
    """The template arguments of every instance, as they are written."""
    for start in (each.end() for each in re.finditer(rf"\b{_SELECTS}\(", text)):
        for word, inside in _calls(_until_closed(text, start)):
            if word != _SET:
                continue
            lists = [
                _values(kind, parts) for kind, parts in _calls(inside) if kind in (*_LISTS, _RANGE)
            ]
            yield from product(*lists)


def _values(kind: str, inside: str) -> list[str]:
    """What one argument may be, in a selection."""
    values = [each for each in _split(inside)[1:] if each]
    if kind != _RANGE:
        return values
    ends = [int(each, 0) for each in values[1:]]
    pairs = zip(ends[::2], ends[1::2], strict=False)
    return [str(value) for first, last in pairs for value in range(first, last + 1)]


def _as_number(value: str, inputs: Sequence[str]) -> str:
    return _INPUT.sub(lambda found: f"ORIG_DTYPE_{inputs[int(found[1])].upper()}", value)


def _as_argument(value: str, inputs: Sequence[str]) -> str:
    value = _INPUT.sub(lambda found: f"DTYPE_{inputs[int(found[1])].upper()}", value)
    return _TYPE.sub(lambda found: _TYPES.get(found[1], found[0]), value)


def _calls(text: str) -> Iterator[tuple[str, str]]:
    """The words in a list that have brackets behind them, and what is in the brackets."""
    for part in _split(text):
        word, bracket, _ = part.partition("(")
        if bracket:
            yield word.strip(), _until_closed(part, len(word) + 1)


def _until_closed(text: str, start: int) -> str:
    depth, at = 1, start
    while at < len(text) and depth:
        depth += (text[at] == "(") - (text[at] == ")")
        at += 1
    return text[start : at - 1]


def _split(text: str) -> list[str]:
    """Words between commas outside of brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "([{<") - (letter in ")]}>")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]
