"""What the device's compiler takes as clang does, and GCC doesn't, in words that both take.

Specialisations where their class is written, which GCC takes from version 14 on, and defaulted
constructors of what is made from a list, which in C++20 is no aggregate any more.
"""

from __future__ import annotations

import re
from typing import NamedTuple

# A function for a core is an overload with a condition, which is chosen before the general one.
_FOR_CORE = re.compile(
    r"template\s*<\s*>(?P<words>[^;{}()<>]*?(?:\boperator\s*\(\s*\)|\b\w+))"
    r"\s*<\s*(?P<core>(?:::)?\s*AscendC\s*::\s*AI[CV])\s*>(?=\s*\()"
)
_CONDITION = (
    r"template <int32_t npusim_core = g_coreType> requires (npusim_core == \g<core>)\g<words>"
)
# A class becomes a partial specialisation: the general one has a parameter more.
_CLASS = re.compile(r"template\s*<\s*>(\s*(?:struct|class)\s+(\w+)\s*)<([^<>{};]*)>")
_DEFAULTED = re.compile(r"\b(\w+)\s*\(\s*\)\s*=\s*default\s*;")
_SCOPES = re.compile(r"[{}]|//[^\n]*|\"(?:\\\\.|[^\"\\\\\n])*\"|'(?:\\\\.|[^'\\\\\n])'")
_OPENS_CLASS = re.compile(r"\b(?:struct|class)\b[^;{}()]*$")
_MARK = re.compile(r"^# \d+ \"[^\"\n]*\"([ \d]*)$", re.MULTILINE)
_SYSTEM = "3"  # flag of the lines of a system's header
_HEAD = 400  # letters before a brace that have the head of a class


class _Edit(NamedTuple):
    """Text instead of that between two places."""

    start: int
    end: int
    text: str


def as_gcc_takes_it(text: str) -> str:
    """Preprocessed text without what GCC refuses; its lines stay where they are."""
    text = _FOR_CORE.sub(_CONDITION, text)
    classes = _classes(text)
    edits = [*_specialised(text, classes), *_made_from_lists(text, classes)]
    parts, at = [], 0
    for edit in sorted(set(edits)):
        parts += [text[at : edit.start], edit.text]
        at = edit.end
    return "".join((*parts, text[at:]))


def _classes(text: str) -> list[tuple[int, int]]:
    """Where the bodies of classes begin and end that are no system header's, inner ones first."""
    found, opened = [], []
    system = of_system(text)
    for each in _SCOPES.finditer(text):
        if each[0] == "{":
            head = text[max(0, each.start() - _HEAD) : each.start()]
            opened.append((each.end(), bool(_OPENS_CLASS.search(head))))
        elif each[0] == "}" and opened:
            start, is_class = opened.pop()
            if is_class and not any(first <= start < last for first, last in system):
                found.append((start, each.start()))
    return found


def of_system(text: str) -> list[tuple[int, int]]:
    """Where the lines of a system's headers are."""
    marks = [(each.start(), _SYSTEM in each[1].split()) for each in _MARK.finditer(text)]
    ends = [*(start for start, _ in marks[1:]), len(text)]
    spans: list[tuple[int, int]] = []
    for (start, is_system), end in zip(marks, ends, strict=False):
        if is_system and spans and spans[-1][1] == start:
            spans[-1] = (spans[-1][0], end)
        elif is_system:
            spans.append((start, end))
    return spans


def _specialised(text: str, classes: list[tuple[int, int]]) -> list[_Edit]:
    """Specialisations of classes inside of classes, and the general ones."""
    edits = []
    for start, end in classes:
        for each in _CLASS.finditer(text, start, end):
            general = re.compile(rf"template\s*<([^<>]+)>(?=\s*(?:struct|class)\s+{each[2]}\b)")
            heads = list(general.finditer(text, start, each.start()))
            if heads:
                place = heads[-1].end(1)
                edits.append(_Edit(place, place, ", class npusim_more = void"))
                one = f"template <class npusim_more>{each[1]}<{each[3]}, npusim_more>"
                edits.append(_Edit(*each.span(), one))
    return edits


def _made_from_lists(text: str, classes: list[tuple[int, int]]) -> list[_Edit]:
    """Defaulted constructors of classes that have no other: they are there without saying so."""
    edits = []
    for start, end in classes:
        for each in _DEFAULTED.finditer(text, start, end):
            other = re.compile(rf"(?<![~\w:.]){each[1]}\s*\((?!\s*\)\s*=\s*default)")
            head = text[max(0, start - _HEAD) : start]
            is_own = re.search(rf"\b(?:struct|class)\s+{each[1]}\b[^;{{}}]*\{{$", head)
            if is_own and not other.search(text, start, end):
                begins = 1 + max(text.rfind(mark, start, each.start()) for mark in ";{}:")
                lines = text[max(begins, start) : each.end()].split("\n")
                left = "\n".join(line if line.startswith("#") else "" for line in lines)
                edits.append(_Edit(max(begins, start), each.end(), left))
    return edits
