"""Running a Python program whose kernels are pyasc's."""

from __future__ import annotations

import runpy
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from npusim.pyasc import session
from npusim.pyasc.modules import provided
from npusim.values.errors import FileError, NpusimError

if TYPE_CHECKING:
    from types import CodeType

    from npusim.pyasc.session import Session
    from npusim.runtime.device import Device


Around = Callable[[], AbstractContextManager[object]]  # what more programs find while they run


def run_program(
    words: Sequence[str], device: Device, around: Around = nullcontext
) -> tuple[int, Session]:
    """Runs a program (or ``-m MODULE``) with its arguments; returns its exit code and what it did.

    Its own exceptions are told as Python tells them, those of npusim in a sentence.
    """
    if words[0] == "-m":
        return _held(
            lambda: runpy.run_module(words[1], run_name="__main__", alter_sys=True),
            words,
            device,
            around,
        )
    return _held(lambda: runpy.run_path(words[0], run_name="__main__"), words, device, around)


def run_code(
    code: CodeType, words: Sequence[str], device: Device, around: Around = nullcontext
) -> tuple[int, Session]:
    """As :func:`run_program`, for the compiled code of a program; errors of npusim are raised."""

    def run() -> None:
        module = ModuleType("__main__")
        module.__file__ = words[0]
        exec(code, vars(module))  # noqa: S102 - the user's own program

    return _held(run, words, device, around, raises=True)


def _held(
    run: Callable[[], object],
    words: Sequence[str],
    device: Device,
    around: Around,
    *,
    raises: bool = False,
) -> tuple[int, Session]:
    with session.held(device) as held:
        try:
            with _as_program(words), provided(), around():
                code = _ended(run, raises=raises)
        finally:
            sys.stdout.flush()
    return code, held


def _ended(run: Callable[[], object], *, raises: bool) -> int:
    """The exit code of a program."""
    try:
        run()
    except SystemExit as end:
        return _exit_code(end.code)
    except NpusimError as error:
        if raises:
            raise
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    except BaseException:  # noqa: BLE001 - the program's own, told as Python does
        traceback.print_exc()
        return 1
    return 0


def _exit_code(code: object) -> int:
    if code is None or isinstance(code, int):
        return code or 0
    sys.stderr.write(f"{code}\n")
    return 1


@contextmanager
def _as_program(words: Sequence[str]) -> Iterator[None]:
    """The program sees its own arguments, and modules of its folder."""
    folder = ""
    if words[0] != "-m":
        path = Path(words[0])
        if not path.is_file():
            raise FileError(words[0], "is no file", "Name a Python program.")
        folder = str(path.parent.absolute())
    before = sys.argv, sys.path[:]
    sys.argv = list(words[1:] if words[0] == "-m" else words)
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.argv, sys.path[:] = before[0], before[1]
