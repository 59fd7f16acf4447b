"""The fields of a project's tiling data, read from its header for those who look at the values."""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from typing import NamedTuple

_CLASS = r"BEGIN_TILING_DATA_DEF\s*\(\s*{name}\s*\)(.*?)END_TILING_DATA_DEF"
_FIELD = re.compile(r"TILING_DATA_FIELD_DEF(_ARR|_STRUCT)?\s*\(([^)]*)\)")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_CODES = {
    "int8_t": "b", "uint8_t": "B", "int16_t": "h", "uint16_t": "H", "int32_t": "i",
    "uint32_t": "I", "int64_t": "q", "uint64_t": "Q", "float": "f", "double": "d", "bool": "?",
    "int": "i",
}  # fmt: skip
_WITH_COUNT = 3


class Field(NamedTuple):
    """A member: its name, its letter in ``struct``, how many; one that is no array has 0."""

    name: str
    code: str
    many: int


def fields_of(text: str, name: str) -> tuple[Field, ...]:
    """The members of a class of tiling data; none where one is a structure or has another type."""
    found = re.search(_CLASS.format(name=name), _COMMENT.sub("", text), re.DOTALL)
    fields = []
    for kind, words in _FIELD.findall(found[1]) if found else ():
        parts = [each.strip() for each in words.split(",")]
        code = _CODES.get(parts[0])
        if kind == "_STRUCT" or code is None:
            return ()
        if kind and not (len(parts) == _WITH_COUNT and parts[1].isdigit()):
            return ()
        fields.append(Field(parts[-1], code, int(parts[1]) if kind else 0))
    return tuple(fields)


def values_of(fields: Sequence[Field], data: bytes) -> dict[str, object]:
    """The members by name; without fields the 32-bit words."""
    if fields:
        form = "@" + "".join(f"{max(1, each.many)}{each.code}" for each in fields)
        if struct.calcsize(form) <= len(data):
            numbers = iter(struct.unpack_from(form, data))
            return {
                each.name: [next(numbers) for _ in range(each.many)] if each.many else next(numbers)
                for each in fields
            }
    words = struct.unpack(f"<{len(data) // 4}I", data[: len(data) // 4 * 4])
    return {f"word {place}": word for place, word in enumerate(words)}
