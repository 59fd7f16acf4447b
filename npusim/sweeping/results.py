"""The file of results: JSON lines, one whole line for each point.

They come in the order of completion, and stand in the order of the points once all are there.

Every line is written with one system call, so that a sweep that is killed leaves whole lines and
at most one torn one at the end, which reading skips and resuming cuts off.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from functools import partial
from os import PathLike
from pathlib import Path
from typing import IO, Any, Final, Self

from npusim.reading.files import kind_of, opened
from npusim.reading.limits import LONGEST_RESULT
from npusim.reading.markup import json_value
from npusim.reporting.files import atomic_write, claim
from npusim.values.errors import FileError, OutputExistsError

# What every line begins with; tells the torn end of a file of ours from a file of someone else.
_BEGINNING: Final = b'{"key": "'
_RESUME: Final = "Continue it with --resume, start anew with --force, or choose another path (-o)."


class ResultFile:
    """A file of results that is open for appending; no other sweep can open it meanwhile.

    `keys` are the points that it holds already. Raises OutputExistsError for a file that exists
    unless `resume` or `force` says what to do with it, FileError for one that isn't of this kind
    or that another sweep is writing to.
    """

    def __init__(
        self, path: str | PathLike[str], *, resume: bool = False, force: bool = False
    ) -> None:
        self.path = Path(path)
        try:
            claim(self.path, force=resume or force, own=resume)
        except OutputExistsError:
            raise OutputExistsError(self.path, _RESUME) from None
        if kind_of(self.path) not in ("", "file"):
            raise FileError(self.path, "is no file that could be read again", "Name another (-o).")
        self.keys: set[str] = set()
        self._stream = self._open()
        try:
            self._lock()  # before the keys are read, so that nobody adds to them
            if resume:
                self.keys = {row["key"] for row in read_rows(self.path)}
                self._cut_torn_end()
            else:
                self._stream.truncate(0)
        except BaseException:
            self._stream.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()

    def append(self, line: bytes) -> None:
        """Write one line; it is in the hands of the operating system when this returns."""
        try:
            written = self._stream.write(line)
        except OSError as error:
            raise self._unwritable(error.strerror or str(error)) from error
        if written != len(line):
            raise self._unwritable("the disk is full")

    def put_in_order(self, keys: Iterable[str]) -> None:
        """Give the lines the order of `keys`, behind those of other sweeps; all of them or none."""
        places = {key.encode(): place for place, key in enumerate(keys)}
        lines = self.path.read_bytes().splitlines(keepends=True)
        first = len(_BEGINNING)
        ordered = sorted(
            lines, key=lambda line: places.get(line[first : line.index(b'"', first)], -1)
        )
        if ordered != lines:
            with atomic_write(self.path, force=True, own=True) as stream:
                stream.writelines(ordered)

    def _open(self) -> IO[bytes]:
        try:
            return self.path.open("ab", buffering=0)
        except OSError as error:
            raise self._unwritable(error.strerror or str(error)) from error

    def _unwritable(self, why: str) -> FileError:
        return FileError(
            self.path, f"can't be written: {why}", "What is in it stays; continue with --resume."
        )

    def _lock(self) -> None:
        try:
            import fcntl
        except ImportError:  # Windows
            return
        try:
            fcntl.flock(self._stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FileError(
                self.path, "another sweep is writing to it", "Wait for it, or choose another path."
            ) from None
        except OSError:  # a file system without locks
            return

    def _cut_torn_end(self) -> None:
        with opened(self.path) as stream:
            start = max(0, stream.seek(0, os.SEEK_END) - LONGEST_RESULT)
            stream.seek(start)
            self._stream.truncate(start + stream.read().rfind(b"\n") + 1)


def read_rows(path: str | PathLike[str]) -> Iterator[dict[str, Any]]:
    """The rows of a file, in file order; a torn line at its end is left out.

    Raises FileError for a file that is missing or isn't a sweep's.
    """
    file = Path(path)
    with opened(file) as stream:
        for number, line in enumerate(iter(partial(stream.readline, LONGEST_RESULT), b""), start=1):
            if not line.endswith(b"\n"):
                if len(line) == LONGEST_RESULT or not _may_be_torn(line):
                    raise _foreign(file, number)
                return
            yield _row(file, number, line)


def _may_be_torn(line: bytes) -> bool:
    return line.startswith(_BEGINNING) or _BEGINNING.startswith(line)


def _row(file: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        row = json_value(line, file)
    except FileError:
        raise _foreign(file, number) from None
    if not isinstance(row, dict) or not isinstance(row.get("key"), str) or "status" not in row:
        raise _foreign(file, number)
    return row


def _foreign(file: Path, number: int) -> FileError:
    return FileError(file, f"line {number} is no result of a sweep", "Choose another path with -o.")
