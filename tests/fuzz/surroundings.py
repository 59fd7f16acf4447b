"""What a process may find around it: odd variables, closed or full streams, no folder to be in."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable
from pathlib import Path


def _variable(name: str, *values: str | None) -> Callable[[random.Random], None]:
    def act(dice: random.Random) -> None:
        value = dice.choice(values)
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value

    return act


def _homeless(dice: random.Random) -> None:
    for name in ("NPUSIM_CACHE", "XDG_CACHE_HOME", "HOME"):
        os.environ.pop(name, None)
    value = dice.choice(
        (None, "/nonexistent", "/dev/null", "/proc/1", "", "relative", "/" + "a" * 5000)
    )
    if value is not None:
        os.environ["HOME"] = value


def _nowhere(_: random.Random) -> None:
    gone = Path("gone").resolve()
    gone.mkdir()
    os.chdir(gone)
    gone.rmdir()


def _no_input(dice: random.Random) -> None:
    if dice.random() < 0.5:
        os.close(0)
    sys.stdin = None  # type: ignore[assignment]


def _no_output(dice: random.Random) -> None:
    if dice.random() < 0.5:
        os.close(1)
    sys.stdout = None  # type: ignore[assignment]


def _full(_: random.Random) -> None:
    sys.stdout = Path("/dev/full").open("w", encoding="utf-8")  # noqa: SIM115 - the process ends soon


def _narrow(dice: random.Random) -> None:
    encoding = dice.choice(("ascii", "latin-1", "utf-16", "cp037"))
    sys.stdout = Path(os.devnull).open("w", encoding=encoding, errors="strict")  # noqa: SIM115


_ODD = ("0", "1", "-5", "x", "", "99999999999999999999", "1e3", "\u00b2", " ")
SURROUNDINGS: tuple[Callable[[random.Random], None], ...] = (
    _homeless, _homeless, _nowhere, _no_input, _no_output, _full, _narrow,
    _variable("NPUSIM_CACHE", "/dev/null", "/dev/null/x", "", ".", "..", "\n", "a" * 5000, "~", "~nobody/x", "/proc/self/x", "cache\u00e9"),
    _variable("XDG_CACHE_HOME", "/dev/null", "", "relative", "~"),
    _variable("COLUMNS", *_ODD), _variable("LINES", *_ODD), _variable("NO_COLOR", "1", ""),
    _variable("FORCE_COLOR", "1", "x"), _variable("TERM", "dumb", "", "unknown", "xterm-256color"),
    _variable("TMPDIR", "/nonexistent", "/dev/null", ""), _variable("MPLCONFIGDIR", "/dev/null", "/nonexistent"),
    _variable("MPLBACKEND", "x", "TkAgg", ""), _variable("TZ", "x", "", ":/dev/zero"),
    _variable("PATH", None, "", "/nonexistent"), _variable("LANG", "x", "C", None),
    _variable("OMP_NUM_THREADS", *_ODD), _variable("OPENBLAS_NUM_THREADS", *_ODD),
    _variable("PYTHONHASHSEED", "x"), _variable("SOURCE_DATE_EPOCH", *_ODD), _variable("CI", "1"),
    _variable("TYPER_USE_RICH", *_ODD), _variable("_TYPER_STANDARD_TRACEBACK", "1"), _variable("TTY_COMPATIBLE", "x"),
    _variable("TERMINAL_WIDTH", *_ODD), _variable("_NPUSIM_COMPLETE", "x", "complete_bash", "source_x"),
)  # fmt: skip


def surround(dice: random.Random) -> None:
    """Change one or two things around this process."""
    first, second = dice.sample(SURROUNDINGS, 2)
    first(dice)
    if dice.random() < 0.3 and second is not first:  # a folder is gone only once
        second(dice)
