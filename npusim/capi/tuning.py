"""Programs in C++ with other macros: what `npusim tune` builds, runs and compares."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from npusim.capi.compiling import compile_program
from npusim.capi.library import installation
from npusim.capi.running import run_program
from npusim.pyasc.tuning import Values, VariantError, combinations
from npusim.reading.files import read_text
from npusim.runtime.ranking import Ranked, rank
from npusim.values.errors import ArgumentError, RejectedError
from npusim.values.guard import guarded_folder
from npusim.values.host import cores

_FIRST_ERROR = re.compile(r"(?:fatal )?error: (.*)")


def tune(
    sources: Sequence[Path],
    words: Sequence[str],
    soc: str,
    parameters: Mapping[str, Sequence[float]],
    flags: Sequence[str] = (),
) -> list[Ranked]:
    """All combinations of the macros' values by the time of all launches, fastest first.

    Every combination is built with ``-DNAME=value`` and ``flags``, and run with the arguments
    ``words`` on the chip ``soc``; as many at once as the host has cores. Raises ArgumentError for a
    name that the sources give a value themselves, so that a macro has no say.
    """
    for source in sources:
        text = read_text(source)
        for name in parameters:
            _require_open(name, text, source)
    installation()  # built once, not by everybody at once
    with (
        guarded_folder("npusim-tune-") as folder,
        ThreadPoolExecutor(cores()) as pool,
    ):
        waiting = {
            told: pool.submit(_time, sources, words, soc, flags, given, Path(folder, str(place)))
            for place, (told, given) in enumerate(combinations(parameters))
        }
        return rank({told: partial(each.result) for told, each in waiting.items()})


def _require_open(name: str, text: str, source: Path) -> None:
    """A macro has a value where the source gives it none, or only behind #ifndef."""
    own = re.compile(rf"\s*#\s*define\s+{name}\b|.*\b(?:const|constexpr)\b.*\b{name}\s*[={{]")
    guard = re.compile(rf"\s*#\s*if(?:ndef\s+{name}\b|.*!\s*defined\W+{name}\b)")
    guarded = False
    for number, line in enumerate(text.splitlines(), 1):
        guarded = guarded or guard.match(line) is not None
        if not guarded and own.match(line):
            raise ArgumentError(
                f"{source}:{number} gives {name} a value, so -D{name}=... has no say",
                f"Write #ifndef {name}, #define {name} ..., #endif there.",
            )


def _time(
    sources: Sequence[Path],
    words: Sequence[str],
    soc: str,
    flags: Sequence[str],
    given: Values,
    program: Path,
) -> float:
    """Microseconds of all launches of a variant; what it prints is dropped."""
    macros = [f"-D{name}={value}" for name, value in given.items()]
    with tempfile.TemporaryFile("w+") as messages:
        try:
            compile_program(sources, program, [*flags, *macros], messages)
        except RejectedError:
            messages.seek(0)
            found = _FIRST_ERROR.search(messages.read())
            raise VariantError(f"it doesn't compile: {found[1] if found else ''}") from None
    run = run_program(str(program), words, soc, shown=subprocess.DEVNULL)
    if run.faults:
        raise VariantError(str(run.faults[0]["message"]))
    if run.exit_code:
        raise VariantError(f"it ended with exit code {run.exit_code}")
    if not run.calls:
        raise VariantError("it launched no kernel and ran no operator")
    return sum(float(call["duration_us"]) for call in run.calls)
