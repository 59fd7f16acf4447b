"""Writing a file, or a folder of files, whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from npusim.reading.files import kind_of, was_read
from npusim.values.errors import ArgumentError, FileError, OutputExistsError


def claim(path: str | Path, *, force: bool = False, own: bool = False) -> Path:
    """The path, after making sure that a file may be written there; call it before the long work.

    Raises FileError when the folder is missing or not writable, OutputExistsError when the file is
    there already and `force` isn't given, ArgumentError when the command has read it, `force` or
    not, unless it is an output of its `own` that it continues.
    """
    target = Path(path)
    folder = target.parent
    there = kind_of(target)
    if there == "folder":
        raise FileError(target, "is a folder, not a file", f"Name a file in it: {target / 'NAME'}")
    if (above := kind_of(folder)) != "folder":
        problem = "is not a folder" if above else "doesn't exist"
        raise FileError(target, f"can't be written: {folder} {problem}", "Create the folder first.")
    if there == "device":  # /dev/null, a pipe: nothing to replace, so nothing to protect
        return target
    if there and not force:
        raise OutputExistsError(target)
    if there and not own:
        _refuse_read(target)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise FileError(
            target, f"can't be written: no permission in {folder}", "Choose another path."
        )
    return target


def _refuse_read(path: Path) -> None:
    if was_read(path):
        problem = f"{path} is what this command reads, so it isn't written over"
        raise ArgumentError(problem, "Choose another path for the output.")


def claim_all(*paths: Path | None, beside: Iterable[Path | None] = (), force: bool = False) -> None:
    """:func:`claim` each of the files that are wanted at all.

    Raises ArgumentError where two of them, or one of them and one of those `beside` them, are one
    file: what a command reads or writes elsewhere is never overwritten, `force` or not.
    """
    known: set[object] = set()
    for path in filter(None, (*beside, *paths)):
        file = _identity(path)
        if file in known:
            raise ArgumentError(f"{path} is named twice", "Give each file a name of its own.")
        known.add(file)
    for path in filter(None, paths):
        claim(path, force=force)


def _identity(path: Path) -> object:
    """What is the same for two names of one file; a device may be written to twice."""
    if (kind := kind_of(path)) == "file":
        about = path.stat()
        return about.st_dev, about.st_ino
    return object() if kind == "device" else os.path.realpath(path)


def write_text(path: str | Path, text: str, *, force: bool = False) -> None:
    """Write a whole file of text, as :func:`atomic_write` does."""
    with atomic_write(path, force=force) as stream:
        stream.write(text.encode(errors="backslashreplace"))


@contextmanager
def atomic_write(
    path: str | Path, *, force: bool = False, own: bool = False
) -> Iterator[IO[bytes]]:
    """A binary file to write to, which appears under its name only after the block has succeeded.

    The bytes go to a temporary file in the same folder, which is then renamed; when the block
    raises, it is removed and whatever stood at `path` is untouched. `own` as in :func:`claim`.
    """
    target = claim(path, force=force, own=own)
    if kind_of(target) == "device":
        with _readable_os_errors(target), tempfile.TemporaryFile() as whole:
            yield whole  # formats go back and forth in a file, which a pipe can't
            whole.seek(0)
            with target.open("wb") as device:
                shutil.copyfileobj(whole, device)
        return
    with _readable_os_errors(target):
        final = target.resolve()  # a symbolic link keeps pointing to the new content
        descriptor, name = tempfile.mkstemp(
            dir=final.parent, prefix=f".{final.name}.", suffix=".part"
        )
    scratch = Path(name)
    try:
        with _readable_os_errors(target):
            with os.fdopen(descriptor, "wb") as stream:
                yield stream
            scratch.chmod(_mode_for(final))
            scratch.replace(final)
    except BaseException:
        with suppress(OSError):
            scratch.unlink()
        raise


def _mode_for(path: Path) -> int:
    """The permissions of the file that is replaced, or what open() would give a new one."""
    if path.exists():
        return path.stat().st_mode & 0o777
    return 0o666 & ~_umask()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@contextmanager
def _readable_os_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise FileError(path, f"can't be written: {reason}", "Choose another path.") from error


def claim_folder(path: str | Path, *, force: bool = False) -> Path:
    """The path, if :func:`atomic_folder` may make it; OutputExistsError where something stands."""
    target = Path(path)
    if (there := kind_of(target)) and not (force and there == "folder"):
        raise OutputExistsError(target)
    return target


@contextmanager
def atomic_folder(path: str | Path, *, force: bool = False) -> Iterator[Path]:
    """A folder to fill, which appears under its name only after the block has succeeded.

    Its parent is created if only that is missing.  When the block raises, nothing is left; what
    stands at `path` already is refused (OutputExistsError), or replaced as a whole with `force`,
    unless the command has read a file in it (ArgumentError).
    """
    target = claim_folder(path, force=force)
    for file in target.rglob("*"):
        if kind_of(file) == "file":
            _refuse_read(file)
    with _readable_os_errors(target):
        target.parent.mkdir(exist_ok=True)
        scratch = Path(
            tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
        )
    try:
        with _readable_os_errors(target):
            yield scratch
            scratch.chmod(0o777 & ~_umask())
            if target.exists():
                old = scratch.with_suffix(".old")
                target.replace(old)
                scratch.replace(target)
                shutil.rmtree(old)
            else:
                scratch.replace(target)
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise
