"""Files as bytes and text, whatever is wrong with their names, folders, rights or encoding."""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from importlib.resources.abc import Traversable
from itertools import islice
from os import SEEK_END, PathLike
from pathlib import Path
from typing import IO, TYPE_CHECKING

from npusim.reading.limits import MOST_TEXT_BYTES
from npusim.values.errors import FileError
from npusim.values.language import say
from npusim.values.suggest import did_you_mean

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints, SelectableGroups

_read: set[tuple[int, int]] = set()
"""Device and inode of each file that was read; nothing that was read is written over."""

FOLDERS = "NPUSIM_FOLDERS"
"""The variable with the only folders that files are read from and written to, if it is there."""

_REAL = Path(__file__).resolve().parents[1]
_OWN = (Path(__file__).parents[1], _REAL, _REAL.with_name("hw_profiles"))
"""Where our own data lies, also in a clone that is installed with links."""

_MOST_NEIGHBOURS = 1000  # of a file that isn't there, among which a near name is looked for

_NOT_READ = {"": "there is no such file", "folder": "is a folder", "device": "is no file"}


def _require_allowed(path: str | PathLike[str]) -> None:
    """FileError for what lies outside the folders that ``NPUSIM_FOLDERS`` names, links followed."""
    named = os.environ.get(FOLDERS)
    if named is None:
        return
    written = Path(os.path.normpath(Path(path).absolute()))
    if any(written.is_relative_to(each) for each in _OWN):
        return
    place = Path(os.path.realpath(path))
    folders = [Path(os.path.realpath(each)) for each in named.split(os.pathsep) if each]
    if not any(place.is_relative_to(each) for each in folders):
        remedy = say("Choose a path in {value}.").format(
            value=", ".join(map(str, folders)) or say("none: there is no folder")
        )
        raise FileError(path, say("lies outside the folders that may be used"), remedy)


def kind_of(path: str | PathLike[str]) -> str:
    """What stands at a path: ``file``, ``folder``, ``device`` (a pipe, a terminal), or ``""``.

    Raises FileError for a path that can't be asked: too long, forbidden, with a null character,
    or outside the folders that ``NPUSIM_FOLDERS`` names.
    """
    try:
        _require_allowed(path)
        mode = Path(path).stat().st_mode
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            return ""
        raise FileError(path, error.strerror or str(error), say("Choose another path.")) from error
    except ValueError as error:
        raise FileError(path, say("is no path: {error}").format(error=error)) from None
    if stat.S_ISREG(mode):
        return "file"
    return "folder" if stat.S_ISDIR(mode) else "device"


def was_read(path: str | PathLike[str]) -> bool:
    """Whether a file, by this name or another (a link), was read by the command that runs."""
    about = Path(path).stat()
    return (about.st_dev, about.st_ino) in _read


def note_read(path: str | PathLike[str]) -> None:
    """Count a file as read that somebody else opens: a program, what a model's file refers to.

    Nothing happens where there is none.
    """
    if kind_of(path) == "file":
        about = Path(path).stat()
        _read.add((about.st_dev, about.st_ino))


def forget_what_was_read() -> None:
    """A new command begins; a number of a file may by now be another file's."""
    _read.clear()


def nearest_file(file: Path) -> str:
    """Which file of the same folder may have been meant, as a question; empty where none is."""
    try:
        names = [each.name for each in islice(file.parent.iterdir(), _MOST_NEIGHBOURS)]
    except OSError:
        return ""
    return did_you_mean(file.name, (name for name in names if not name.startswith(".")), 1)


@contextmanager
def opened(file: Traversable | Path, remedy: str = "") -> Iterator[IO[bytes]]:
    """A file to read bytes from; FileError where there is none, or where reading it fails."""
    if isinstance(file, Path) and (kind := kind_of(file)) != "file":
        hint = "" if kind else nearest_file(file)
        raise FileError(file, say(_NOT_READ[kind]), f"{hint} {remedy}".strip())
    try:
        with file.open("rb") as stream:
            if isinstance(file, Path):
                about = os.fstat(stream.fileno())
                _read.add((about.st_dev, about.st_ino))
            yield stream
    except OSError as error:
        reason = error.strerror or str(error)
        raise FileError(
            str(file), say("can't be read: {reason}").format(reason=reason), remedy
        ) from error


def read_bytes(file: Traversable | Path, most: int = MOST_TEXT_BYTES, remedy: str = "") -> bytes:
    """All of a file; FileError where it can't be had or has more than `most` bytes."""
    with opened(file, remedy) as stream:
        # A buffer of the limit is too much for a process whose own memory is limited.
        size = stream.seek(0, SEEK_END)
        stream.seek(0)
        if size > most:
            raise FileError(
                str(file),
                say("is larger than the {most} MiB that are read").format(most=most >> 20),
                remedy,
            )
        return stream.read(size)


def read_text(file: Traversable | Path, remedy: str = "") -> str:
    """The text of a file in UTF-8, with or without a mark at its start; else FileError."""
    try:
        return read_bytes(file, remedy=remedy).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise not_utf8(str(file), error, remedy) from None


def not_utf8(file: str | PathLike[str], error: UnicodeDecodeError, remedy: str = "") -> FileError:
    """The error for a file in another encoding."""
    return FileError(
        file,
        say("isn't text in UTF-8 ({reason})").format(reason=error.reason),
        remedy or say("Save it as UTF-8."),
    )


def entry_points(group: str) -> EntryPoints:
    """What installed packages name for a group."""
    return _entry_points(tuple(sys.path)).select(group=group)


@lru_cache(maxsize=1)
def _entry_points(_path: tuple[str, ...]) -> EntryPoints | SelectableGroups:
    """Those of all groups: finding them means to open a file of each package."""
    from importlib.metadata import entry_points

    return entry_points()
