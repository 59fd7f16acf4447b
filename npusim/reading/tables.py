"""Lines of text and rows of CSV, packed with gzip or not, one after the other."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from os import PathLike
from pathlib import Path
from typing import IO, Any

from npusim.reading.files import not_utf8, opened
from npusim.reading.limits import (
    LONGEST_LINE,
    MOST_BLANK_LINES,
    MOST_UNPACKED_BYTES,
    MOST_UNPACKED_TIMES,
)
from npusim.values.errors import FileError
from npusim.values.language import say

_OFTEN = 1024  # lines between two looks at how much has been unpacked
_UTF8 = "utf-8-sig"
_LOOKED_AT_BYTES = 1 << 20


class Lines:
    """The lines of an open file in UTF-8; one that ends in ``.gz`` is unpacked.

    With `guess` also in what Chinese spreadsheets save: GB18030, or UTF-16 with its mark.
    Raises FileError for what is no text, no gzip, or beyond the limits.
    """

    def __init__(self, file: Path, raw: IO[bytes], *, guess: bool = False) -> None:
        self._file, self._raw = file, raw
        self._size_bytes = file.stat().st_size
        self._plain: Any = gzip.GzipFile(fileobj=raw) if file.suffix == ".gz" else raw
        encoding = _encoding(raw) if guess and self._plain is raw else _UTF8
        self._text = io.TextIOWrapper(self._plain, encoding=encoding, newline="")
        self.number = 0

    def __iter__(self) -> Iterator[str]:
        blank = 0
        try:
            for line in iter(partial(self._text.readline, LONGEST_LINE), ""):
                self.number += 1
                if len(line) == LONGEST_LINE:
                    raise self.wrong(
                        say("is longer than {longest_line:,} characters").format(
                            longest_line=LONGEST_LINE
                        )
                    )
                blank += line.isspace()
                if self.number % _OFTEN == 0:
                    self._refuse_bombs(blank)
                yield line
        except UnicodeDecodeError as error:
            raise not_utf8(self._file, error) from None
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            problem = say("line {number}: can't be unpacked: {error}").format(
                number=self.number + 1, error=error
            )
            raise FileError(self._file, problem) from error

    def share(self) -> float:
        """How much of the file has been read, from 0 to 1."""
        return self._raw.tell() / self._size_bytes if self._size_bytes else 1.0

    def wrong(self, problem: str, remedy: str = "") -> FileError:
        """The error for what is wrong in the line that was read last."""
        return FileError(self._file, f"line {self.number} {problem}", remedy)

    def _refuse_bombs(self, blank: int) -> None:
        if blank > MOST_BLANK_LINES:
            raise self.wrong(
                say("is one of more than {most_blank_lines:,} blank lines").format(
                    most_blank_lines=MOST_BLANK_LINES
                )
            )
        if self._plain is not self._raw:
            unpacked, packed = self._plain.tell(), self._raw.tell()
            if unpacked > max(MOST_UNPACKED_BYTES, MOST_UNPACKED_TIMES * packed):
                times = f"{unpacked >> 20} MiB from {packed / 2**20:.2g} MiB"
                raise self.wrong(
                    say("unpacks to suspiciously much, {times}").format(times=times),
                    say("Give it unpacked."),
                )


@contextmanager
def lines_of(
    path: str | PathLike[str], remedy: str = "", *, guess: bool = False
) -> Iterator[Lines]:
    """The lines of a text file; FileError where it can't be read."""
    file = Path(path)
    with opened(file, remedy) as raw:
        yield Lines(file, raw, guess=guess)


def _encoding(raw: IO[bytes]) -> str:
    """The encoding that the first bytes are in, UTF-8 where no other one fits."""
    start = raw.read(_LOOKED_AT_BYTES)
    raw.seek(0)
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    for encoding in (_UTF8, "gb18030"):
        try:
            codecs.getincrementaldecoder(encoding)().decode(start)
        except UnicodeDecodeError:
            continue
        return encoding
    return _UTF8


class Table:
    """The rows of an open CSV table, as long as its header, each with the number of its line.

    Rows without any field are left out; FileError for one that ends before its last column.
    """

    def __init__(self, file: Path, lines: Lines) -> None:
        self._file, self.lines = file, lines
        self._reader = csv.reader(lines)
        self.header = next(self._fields(), [])

    def __iter__(self) -> Iterator[tuple[int, list[str]]]:
        width, reader = len(self.header), self._reader
        for fields in self._fields():
            if len(fields) < width:
                has = say("{count} fields instead of {width}").format(
                    count=len(fields), width=width
                )
                raise FileError(
                    self._file,
                    say("line {line_num}: {has}; the row ends before its last column").format(
                        line_num=reader.line_num, has=has
                    ),
                    say("The file may have been cut off; export it again, or delete that row."),
                )
            yield reader.line_num, fields

    def fitting(self, skipped: list[int]) -> Iterator[tuple[int, list[str]]]:
        """The rows with a field for each column; the lines of the others are added to `skipped`.

        Empty fields behind the last column don't count.
        """
        width, reader = len(self.header), self._reader
        for fields in self._fields():
            if len(fields) < width or any(map(str.strip, fields[width:])):
                skipped.append(reader.line_num)
            else:
                yield reader.line_num, fields

    def records(self) -> Iterator[tuple[int, dict[str, str]]]:
        """The rows by the names of their columns."""
        for line, fields in self:
            yield line, dict(zip(self.header, fields, strict=False))

    def _fields(self) -> Iterator[list[str]]:
        try:
            yield from filter(None, self._reader)
        except csv.Error as error:
            raise FileError(self._file, f"line {self._reader.line_num}: {error}") from None


@contextmanager
def table_in(
    path: str | PathLike[str], remedy: str = "", *, guess: bool = False
) -> Iterator[Table]:
    """The CSV table in a file; FileError where it can't be read."""
    with lines_of(path, remedy, guess=guess) as lines:
        yield Table(Path(path), lines)
