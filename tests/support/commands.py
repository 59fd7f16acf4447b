"""Running the command line, in this process or in one of its own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from npusim.cli import main

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


@dataclass(frozen=True)
class Said:
    """What a command leaves behind: exit code, standard output and standard error."""

    code: object
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output as JSON."""
        return json.loads(self.out)


def npusim(capsys: pytest.CaptureFixture[str], line: str, *more: str | Path) -> Said:
    """Run `npusim`; the words of `line` are split at spaces, those of `more` are not."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as exit_:
        main([*line.split(), *map(str, more)])
    captured = capsys.readouterr()
    return Said(exit_.value.code, captured.out, captured.err)


def started(words: Sequence[str], folder: Path) -> subprocess.Popen[str]:
    """The command line in a process and a group of its own, which Ctrl-C reaches."""
    return subprocess.Popen(
        [sys.executable, "-m", "npusim", *words],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509
    )
