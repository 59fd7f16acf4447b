"""Running a program on a simulated chip, and what it did there."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from npusim.capi.library import installation
from npusim.capi.runtime import journal
from npusim.capi.tracing import TimedCall
from npusim.values.errors import FileError
from npusim.values.guard import guarded_folder
from npusim.values.signals import end_with_parent

Shown = IO[str] | int | None

_SIGNAL_BASE = 128  # a shell's exit code for a program that a signal ended


@dataclass(frozen=True)
class Run:
    """What a program did: its exit code, and the lines of its journal by kind.

    `exit_code` is 128 and the signal's number for a program that a signal ended, as in a shell.
    """

    program: str
    exit_code: int
    soc: str = ""
    calls: list[dict[str, Any]] = field(default_factory=list)
    faults: list[dict[str, Any]] = field(default_factory=list)
    problems: list[dict[str, Any]] = field(default_factory=list)
    timed: list[TimedCall] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """The run as one JSON object."""
        return {name: value for name, value in vars(self).items() if name != "timed"}


def run_program(
    program: str,
    words: Sequence[str],
    soc: str,
    *,
    with_timelines: bool = False,
    with_leaks: bool = False,
    with_products: bool = True,
    shown: Shown = None,
) -> Run:
    """Runs a program with the arguments `words` on the chip `soc`, its output passing through.

    `with_timelines` keeps what a trace needs, `with_leaks` lets the program say on standard error
    what it never gave back. Without `with_products` the cube of its kernels computes no numbers:
    what it makes of them is wrong, its times are those of a run with them. Its output goes to
    `shown` instead, and all it says is dropped with DEVNULL. A program linked against CANN's
    libraries finds ours in their place. What it started itself ends with it.
    Raises FileError where the program isn't there or can't be executed.
    """
    path = _find(program)
    home = installation()
    with guarded_folder("npusim-exec-", journal.FOLDER_VARIABLE) as folder:
        searched = os.environ.get("LD_LIBRARY_PATH", "")
        environment = os.environ | {
            journal.SOC_VARIABLE: soc,
            journal.FOLDER_VARIABLE: folder,
            "LD_LIBRARY_PATH": ":".join(filter(None, (str(home.lib), searched))),
        }
        if with_timelines:
            environment[journal.TRACE_VARIABLE] = "1"
        if with_leaks:
            environment[journal.LEAKS_VARIABLE] = "1"
        if not with_products:
            environment[journal.PRODUCTS_VARIABLE] = "1"
        try:
            done = subprocess.run(  # noqa: S603 - the user's program
                [path, *words],
                env=environment,
                check=False,
                stdout=shown,
                stderr=shown if shown == subprocess.DEVNULL else None,
                preexec_fn=end_with_parent if os.name == "posix" else None,
            )
        except OSError as error:
            problem = f"can't be run: {error.strerror or error}"
            raise FileError(path, problem, "Compile it with `npusim cc`.") from None
        code = done.returncode if done.returncode >= 0 else _SIGNAL_BASE - done.returncode
        return _read(Path(folder), program, code)


def _find(program: str) -> str:
    near = Path(program)
    if near.is_file():
        return str(near.absolute())
    found = shutil.which(program) if near.name == program else None
    if found is None:
        raise FileError(program, "is no program", "Compile one with `npusim cc FILE.cpp -o PROG`.")
    return found


def _read(folder: Path, program: str, code: int) -> Run:
    run = Run(program, code)
    file = folder / journal.FILE
    if not file.exists():
        return run
    lists = {"call": run.calls, "fault": run.faults, "problem": run.problems}
    soc = ""
    for line in file.read_text(encoding="utf-8").splitlines():
        entry: dict[str, Any] = json.loads(line)
        kind = entry.pop("kind")
        timeline = entry.pop("timeline", None)
        if kind == "chip":
            soc = entry["soc"]
        else:
            lists[kind].append(entry)
        if timeline is not None:
            # Our own program has just written it into a folder that is ours alone.
            result = pickle.loads((folder / timeline).read_bytes())  # noqa: S301
            run.timed.append(TimedCall(entry["stream"], entry["start_us"], result))
    for each in (run.calls, run.faults):  # streams run when somebody waits, not when they start
        each.sort(key=lambda entry: (entry["start_us"], entry["stream"]))
    run.timed.sort(key=lambda call: (call.start_us, call.stream))
    return Run(program, code, soc, run.calls, run.faults, run.problems, run.timed)
