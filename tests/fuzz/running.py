"""Cases in processes of their own, with limits on memory and time, and what became of each."""

from __future__ import annotations

import io
import logging
import os
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import NamedTuple

from fuzz.cases import Case, case

MEMORY_BYTES = 2 << 30
WALL_S = 240  # on a busy machine too

CODES = (0, 1, 2, 3)  # yes, no, asked wrongly, unknown

SUCCESS, REFUSED, INTERNAL, HANG, CRASH = "success", "refused", "internal error", "hang", "crash"


class Outcome(NamedTuple):
    """What became of a case; `about` is what it said, where something is wrong."""

    case: Case
    verdict: str
    about: str = ""

    @property
    def site(self) -> str:
        """What tells one fault from another: the last line of the traceback in our code."""
        places = re.findall(r'File ".*?/((?:npusim|ops)/[^"]+)", line (\d+), in (\S+)', self.about)
        last = ":".join(places[-1]) if places else ""
        lines = [line for line in self.about.splitlines() if line.strip()]
        return f"{last} {lines[-1][:120] if lines else ''}".strip()


def prepare(*, thoroughly: bool) -> None:
    """Do once what every case needs, before processes are forked: imports, and what they keep."""
    from npusim.cli import main

    calls = [case(seed) for seed in range(40 if thoroughly else 1)]
    kinds = {each.kind: each for each in calls if each.call is None}
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(io.StringIO()):
        os.chdir(folder)
        call = ["aclnnRelu", "self=fp16[4]", "-s", "910b3"]
        proper = [["run", *call], ["report", *call, "-o", "a.html"]][: 1 + thoroughly]
        for each in kinds.values():
            for name, content in each.files.items():
                Path(name).parent.mkdir(parents=True, exist_ok=True)
                Path(name).write_bytes(content)
        for words in [*proper, *(each.words for each in kinds.values())]:
            with suppress(SystemExit), redirect_stderr(io.StringIO()):
                main(words)
        os.chdir(here)


def run(
    seeds: Iterable[int], jobs: int, say: Callable[[Outcome], None], only: str = ""
) -> Counter[str]:
    """Run the cases of the seeds, some at a time; `say` gets each outcome."""
    counts: Counter[str] = Counter()
    waiting = iter(seeds)
    under_way: dict[int, _Child] = {}
    for seed in waiting:
        child = _Child(seed, only)
        under_way[child.pid] = child
        while len(under_way) >= jobs:
            _collect(under_way, counts, say)
    while under_way:
        _collect(under_way, counts, say)
    return counts


def _collect(
    under_way: dict[int, _Child], counts: Counter[str], say: Callable[[Outcome], None]
) -> None:
    """Wait until one child at least has ended."""
    while True:
        for pid, child in list(under_way.items()):
            outcome = child.outcome()
            if outcome is not None:
                del under_way[pid]
                counts[outcome.verdict] += 1
                say(outcome)
                return
        time.sleep(0.005)


class _Child:
    """A forked process that runs one case in a folder of its own."""

    def __init__(self, seed: int, only: str) -> None:
        self._case = case(seed, only)
        self._folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
        self._start = time.monotonic()
        self.pid = os.fork()
        if not self.pid:
            _play(self._case, self._folder)

    def outcome(self) -> Outcome | None:
        """None while it runs."""
        done, status = os.waitpid(self.pid, os.WNOHANG)
        if not done:
            if time.monotonic() - self._start < WALL_S:
                return None
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            return self._ended(HANG, f"{WALL_S} s on the clock")
        said = (self._folder / ".err").read_text("utf-8", "replace")
        code = os.waitstatus_to_exitcode(status)
        if code == -signal.SIGXCPU:
            return self._ended(HANG, f"{self._case.cpu_s} s of processor time\n{said[-1500:]}")
        if code < 0:
            return self._ended(CRASH, f"signal {-code}\n{said[-1500:]}")
        if "internal error" in said or "Traceback" in said or code not in CODES:
            return self._ended(INTERNAL, f"exit {code}\n{said[-6000:]}")
        if left := [path.name for path in self._folder.iterdir() if path.name.endswith(".part")]:
            return self._ended(INTERNAL, f"left over: {left}")
        return self._ended(REFUSED if code else SUCCESS)

    def _ended(self, verdict: str, about: str = "") -> Outcome:
        for path in self._folder.rglob("*"):
            if path.is_dir():
                path.chmod(0o700)
        shutil.rmtree(self._folder, ignore_errors=True)
        return Outcome(self._case, verdict, about)


def _play(wanted: Case, folder: Path) -> None:
    """Run a case in this forked process, and end it."""
    code = 99
    try:
        os.setpgid(0, 0)
        os.chdir(folder)
        for name, content in wanted.files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        with (
            Path(".err").open("w", encoding="utf-8", errors="replace") as err,
            Path(os.devnull).open("w", encoding="utf-8") as out,
        ):
            os.dup2(err.fileno(), 2)
            os.dup2(out.fileno(), 1)
            sys.stdout, sys.stderr = out, err
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_CPU, (wanted.cpu_s, wanted.cpu_s + 5))
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
            _tell_of_mistakes()
            if wanted.around is not None:
                wanted.around()
            code = (
                _called(wanted.call) if wanted.call is not None else _command(wanted.words, folder)
            )
            err.flush()
    finally:
        os._exit(code)


class _Mistakes(logging.Handler):
    """Rules and plans that raised something of Python's: users see *unknown*, we a traceback."""

    def emit(self, record: logging.LogRecord) -> None:
        traceback.print_exception(*(record.exc_info or ()))


def _tell_of_mistakes() -> None:
    from npusim.operators import checks

    log = logging.getLogger(checks.__name__)
    log.addHandler(_Mistakes())
    log.setLevel(logging.DEBUG)


def _command(words: list[str], folder: Path) -> int:
    from npusim.cli import main

    try:
        main([*words])
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
        return 98
    sys.stderr.flush()
    if "internal error" in (folder / ".err").read_text("utf-8", "replace"):
        with suppress(SystemExit):  # once more, for where it happened
            try:
                main([*words, "--debug"])
            except Exception:
                traceback.print_exc()
    return code


def _called(call: Callable[[], object]) -> int:
    from npusim import NpusimError

    try:
        call()
    except NpusimError as refusal:
        return refusal.exit_code
    except BaseException:
        traceback.print_exc()
        return 98
    return 0


def seeds_of(first: int, cases: int) -> Iterator[int]:
    """The seeds of a run."""
    return iter(range(first, first + cases))


def described(outcomes: Iterable[Outcome]) -> str:
    """The faults by where they happened, the most frequent first, each with a seed to repeat it."""
    by_site: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        by_site.setdefault(f"{outcome.verdict} {outcome.site}", []).append(outcome)
    text = io.StringIO()
    for site, members in sorted(by_site.items(), key=lambda item: -len(item[1])):
        text.write(f"{len(members):4} x {site}\n")
        for each in members[:2]:
            text.write(f"       {each.case!s:.300}\n")
    return text.getvalue()
