"""A process beside a program: what the program started, and its folder, end when npusim ends.

It runs by itself (`python guard.py VARIABLE FOLDER`), imports nothing of npusim, and reads from a
pipe that only npusim holds open: its end is npusim's, SIGKILL too. What belongs to the program has
the folder's name in the environment it was started with, in whatever process group or session it
is. Linux tells environments (/proc); elsewhere only the folder is removed, and on Windows, where
no program is run that may leave others behind, only after the block.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_ROUNDS = 100
"""Of looking for processes: what is ended may just have started another."""


@contextmanager
def guarded_folder(
    prefix: str, variable: str = "NPUSIM_GUARDED", *, within: Path | None = None
) -> Iterator[str]:
    """A temporary folder that is gone after the block, or when this process ends in the middle.

    Gone then, too, are the processes that were started with `variable`=folder in their environment.
    It lies `within` a folder, or where temporary ones do.
    """
    with tempfile.TemporaryDirectory(prefix=prefix, dir=within) as folder:
        if os.name != "posix":
            yield folder
            return
        words = [sys.executable, "-I", "-S", __file__, variable, folder]
        # An environment of its own, so that the guard of a program that runs programs isn't found;
        # a session of its own, so that Ctrl-C isn't for it.
        with subprocess.Popen(  # noqa: S603 - our own interpreter and file
            words,
            env={},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        ):
            yield folder


def _processes(mark: bytes) -> Iterator[int]:
    """The processes with a line in the environment that they were started with."""
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or is somebody else's
            if mark in (place / "environ").read_bytes().split(b"\0"):
                yield int(place.name)


def _main(variable: str, folder: str) -> None:
    sys.stdin.buffer.read()
    mark = os.fsencode(f"{variable}={folder}")
    for _ in range(_ROUNDS):
        found = list(_processes(mark))
        for number in found:
            with suppress(OSError):
                os.kill(number, signal.SIGKILL)
        if not found:
            break
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    _main(*sys.argv[1:])
