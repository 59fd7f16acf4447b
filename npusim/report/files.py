"""Writing a file, or a folder of files, whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from npusim.values.errors import FileError, OutputExistsError


def claim(path: str | Path, *, force: bool = False) -> Path:
    """The path, after making sure that a file may be written there; call it before the long work.

    Raises FileError when the folder is missing or not writable, OutputExistsError when the file is
    there already and `force` isn't given.
    """
    target = Path(path)
    folder = target.parent
    if target.is_dir():
        raise FileError(target, "is a folder, not a file", f"Name a file in it: {target / 'NAME'}")
    if not folder.is_dir():
        problem = "is not a folder" if folder.exists() else "doesn't exist"
        raise FileError(target, f"can't be written: {folder} {problem}", "Create the folder first.")
    if _is_device(target):
        return target
    if target.exists() and not force:
        raise OutputExistsError(target)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise FileError(
            target, f"can't be written: no permission in {folder}", "Choose another path."
        )
    return target


def claim_all(*paths: Path | None, force: bool = False) -> None:
    """:func:`claim` each of the files that are wanted at all."""
    for path in paths:
        if path is not None:
            claim(path, force=force)


def write_text(path: str | Path, text: str, *, force: bool = False) -> None:
    """Write a whole file of text, as :func:`atomic_write` does."""
    with atomic_write(path, force=force) as stream:
        stream.write(text.encode())


@contextmanager
def atomic_write(path: str | Path, *, force: bool = False) -> Iterator[IO[bytes]]:
    """A binary file to write to, which appears under its name only after the block has succeeded.

    The bytes go to a temporary file in the same folder, which is then renamed; when the block
    raises, it is removed and whatever stood at `path` is untouched.
    """
    target = claim(path, force=force)
    if _is_device(target):
        with _readable_os_errors(target), target.open("wb") as device:
            yield device
        return
    final = target.resolve()  # a symbolic link keeps pointing to the new content
    with _readable_os_errors(target):
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


def _is_device(path: Path) -> bool:
    """True for /dev/null, a pipe and the like: nothing to replace, so nothing to protect."""
    return path.exists() and not path.is_file() and not path.is_dir()


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


@contextmanager
def atomic_folder(path: str | Path, *, force: bool = False) -> Iterator[Path]:
    """A folder to fill, which appears under its name only after the block has succeeded.

    Its parent is created if only that is missing.  When the block raises, nothing is left; what
    stands at `path` already is refused (OutputExistsError), or replaced as a whole with `force`.
    """
    target = Path(path)
    if target.exists() and not (force and target.is_dir()):
        raise OutputExistsError(target)
    with _readable_os_errors(target):
        target.parent.mkdir(exist_ok=True)
        scratch = Path(
            tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
        )
    try:
        yield scratch
        with _readable_os_errors(target):
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
