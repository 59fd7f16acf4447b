"""The catalogue's file: tables of text facts, packed, checksummed and read table by table.

A file is three parts: a line with the format's name and version, a line with the SHA-256 of
everything after it, and the body. The body starts with one line of JSON (the tables, their columns
and where each lies) and goes on with one zlib stream per table. Within a table every column is a
sorted list of distinct texts and one 16-bit index per row, which is both small and quick to read:
nothing is parsed before it is asked for.
"""

from __future__ import annotations

import hashlib
import json
import sys
import zlib
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from npusim.reading.files import read_bytes
from npusim.reading.markup import json_value
from npusim.values.errors import FileError

MAGIC = "npusim catalogue"
VERSION = 1
# Control characters, which no fact has: quicker to split at than JSON is to parse.
_BETWEEN_TEXTS, _BETWEEN_COLUMNS, _END = "\x1f", "\x1d", b"\0"
_MOST_DISTINCT = 1 << 16  # what a 16-bit index can tell apart
_REMEDY = (
    "Install npusim again, or write the file anew with "
    "`python reports/build_catalogue.py TABLES_DIR`."
)


class Table:
    """Rows of text, sorted by their first column, which is the key.

    A row is addressed by its number; `rows_of` gives the numbers of the rows with one key.
    """

    def __init__(self, columns: Sequence[str], count: int, payload: bytes) -> None:
        self.columns = tuple(columns)
        self._count = count
        self._payload = payload

    def __len__(self) -> int:
        return self._count

    @cached_property
    def _unpacked(self) -> tuple[list[list[str]], list[array[int]]]:
        if not self._count:
            return [[] for _ in self.columns], [array("H") for _ in self.columns]
        block, _, packed = zlib.decompress(self._payload).partition(_END)
        texts = [column.split(_BETWEEN_TEXTS) for column in block.decode().split(_BETWEEN_COLUMNS)]
        width = 2 * self._count
        indices = []
        for start in range(0, width * len(self.columns), width):
            index = array("H", packed[start : start + width])
            if sys.byteorder == "big":
                index.byteswap()
            indices.append(index)
        return texts, indices

    def distinct(self, column: str) -> list[str]:
        """The different texts of a column, sorted."""
        return self._unpacked[0][self.columns.index(column)]

    @property
    def keys(self) -> list[str]:
        """The different keys, sorted."""
        return self._unpacked[0][0]

    def rows_of(self, key: str) -> range:
        """The numbers of the rows with this key; empty when there are none."""
        texts, indices = self._unpacked
        at = bisect_left(texts[0], key)
        if at == len(texts[0]) or texts[0][at] != key:
            return range(0)
        return range(bisect_left(indices[0], at), bisect_right(indices[0], at))

    def row(self, number: int) -> tuple[str, ...]:
        """One row, in the order of `columns`."""
        texts, indices = self._unpacked
        return tuple(text[index[number]] for text, index in zip(texts, indices, strict=True))

    def distinct_rows(self, *columns: str) -> list[tuple[str, ...]]:
        """The different combinations of some columns, sorted; quick for any number of rows."""
        texts, indices = self._unpacked
        at = [self.columns.index(column) for column in columns]
        found = sorted(set(zip(*(indices[column] for column in at), strict=True)))
        return [tuple(texts[c][i] for c, i in zip(at, row, strict=True)) for row in found]

    def text(self, number: int, column: str) -> str:
        """One cell."""
        texts, indices = self._unpacked
        at = self.columns.index(column)
        return texts[at][indices[at][number]]

    def records(self, key: str, **only: str) -> list[dict[str, str]]:
        """The rows with this key, by column name; only those with these texts in other columns."""
        texts, indices = self._unpacked
        numbers: Sequence[int] = self.rows_of(key)
        for column, text in only.items():
            at = self.columns.index(column)
            wanted = bisect_left(texts[at], text)
            if wanted == len(texts[at]) or texts[at][wanted] != text:
                return []
            index = indices[at]
            numbers = [number for number in numbers if index[number] == wanted]
        # column by column, because that is where the distinct texts are
        values = (
            [text[index[number]] for number in numbers]
            for text, index in zip(texts, indices, strict=True)
        )
        return [dict(zip(self.columns, row, strict=True)) for row in zip(*values, strict=True)]


def pack(tables: Mapping[str, tuple[Sequence[str], Sequence[tuple[str, ...]]]]) -> bytes:
    """The bytes of a catalogue file from `{table: (columns, rows)}`.

    The same rows in any order give the same bytes. Raises `ValueError` for a column with more
    distinct texts than the format can number.
    """
    heads: dict[str, dict[str, Any]] = {}
    body = b""
    for name, (columns, rows) in sorted(tables.items()):
        payload = _pack_table(name, columns, sorted(rows))
        heads[name] = {
            "columns": list(columns),
            "rows": len(rows),
            "start": len(body),
            "bytes": len(payload),
        }
        body += payload
    header = json.dumps(heads, sort_keys=True, separators=(",", ":")).encode()
    content = header + b"\n" + body
    checksum = hashlib.sha256(content).hexdigest()
    return f"{MAGIC} {VERSION}\n{checksum}\n".encode() + content


def _pack_table(name: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> bytes:
    texts: list[list[str]] = []
    packed = b""
    for at, column in enumerate(columns):
        distinct = sorted({row[at] for row in rows})
        if len(distinct) > _MOST_DISTINCT:
            raise ValueError(f"{name}.{column} has {len(distinct)} distinct texts")
        number = {text: index for index, text in enumerate(distinct)}
        index = array("H", (number[row[at]] for row in rows))
        if sys.byteorder == "big":
            index.byteswap()
        texts.append(distinct)
        packed += index.tobytes()
    block = _BETWEEN_COLUMNS.join(_BETWEEN_TEXTS.join(column) for column in texts)
    marks = (_BETWEEN_TEXTS, _BETWEEN_COLUMNS, _END.decode())
    if any(mark in text for column in texts for text in column for mark in marks):
        raise ValueError(f"{name} has a control character in a text")
    return zlib.compress(block.encode() + _END + packed, 9)


def checksum(path: Path) -> str:
    """The SHA-256 that a catalogue file says of its content."""
    return read_bytes(path, remedy=_REMEDY).split(b"\n", 2)[1].decode()


def read(path: Path) -> dict[str, Table]:
    """The tables of a catalogue file; raises `FileError` for anything but an intact one."""
    data = read_bytes(path, remedy=_REMEDY)
    title, _, rest = data.partition(b"\n")
    if not title.startswith(MAGIC.encode()):
        raise FileError(path, "is not an operator catalogue", _REMEDY)
    version = title[len(MAGIC) :].strip().decode("ascii", "replace")
    if version != str(VERSION):
        problem = f"is a catalogue of format {version}; this npusim reads format {VERSION}"
        raise FileError(path, problem, _REMEDY)
    checksum, _, content = rest.partition(b"\n")
    if hashlib.sha256(content).hexdigest().encode() != checksum:
        problem = "the operator catalogue is damaged: its checksum doesn't agree with its content"
        raise FileError(path, problem, _REMEDY)
    header, _, body = content.partition(b"\n")
    return {
        name: Table(
            head["columns"], head["rows"], body[head["start"] : head["start"] + head["bytes"]]
        )
        for name, head in json_value(header, path).items()
    }
