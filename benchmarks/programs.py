"""Runs every aclnn program in C++ of folders: `python benchmarks/programs.py FOLDER ... -s SOC`.

Each is compiled as `npusim cc` does, once: the result is kept as long as the source and the headers
that it includes stay as they are. Each runs as under `npusim exec`, in a fork of a process that has
loaded the simulator. A row says which interface a program shows, and whether it ran to its end
without a refused call, was refused by a function, or failed; and the first reason. `--csv` keeps
what `npusim ops coverage --programs` shows: how many run on the product, and a row for each that
doesn't; the rows of other products stay as they are.
"""

from __future__ import annotations

import argparse
import csv
import ctypes
import hashlib
import io
import json
import os
import re
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from npusim.capi.compiling import compile_program
from npusim.capi.declarations import header_name
from npusim.capi.library import LIBRARY, Installation, installation
from npusim.capi.runtime import journal
from npusim.reporting.files import write_text
from npusim.values.errors import RejectedError

LIMIT_S = 120  # of a program
_SUFFIXES = (".cpp", ".cc", ".cxx")
_FIRST_PHASE = re.compile(r"\b(aclnn\w+?)GetWorkspaceSize\s*\(")
_ERROR = re.compile(r"(?:error: |undefined reference to |undefined symbol: )(.*)")


_LONGEST_REASON = 110
# What a reason comes down to, the first that fits.
_CLASSES = (
    (
        r"opdev/|acl_op\.h|aclnn_add_example|onnx_common|_custom",
        "needs a header that isn't aclnn's",
    ),
    (r"devPtr is a null pointer", "frees a null pointer: the program's own"),
    (r"no device is set in this thread", "works after it has reset the device: the program's own"),
    (r"^ended with 1: $", "shows an operator of one's own, that isn't aclnn's"),
    (r"^doesn't compile: (.*)", "doesn't compile: {0}"),
    (r"doesn't list the product", "the product doesn't offer the interface, by its page"),
    (r"npusim has no kernel of (\w+)", "lacks a kernel of {0}"),
    (r"not modelled \(.*?\): kernel (.*)", "not modelled: {0}"),
    (
        r"(\w+), needs (\d+) bytes .* block of (\d+) ",
        "{0} has {2} bytes and needs {1}: the program's own",
    ),
    (
        r"needs (\d+) bytes .* block of (\d+) ",
        "copies {0} bytes of a block of {1}: the program's own",
    ),
    (r"^(?:\w+: )?\w+ \((\d+)\): (.*)", "{0}: {1}"),
)


@dataclass(frozen=True)
class Row:
    """What became of a program: ``verdict`` is ran, refused or failed."""

    program: str
    api: str
    verdict: str
    reason: str = ""


def programs_of(folder: Path, pattern: str) -> list[Path]:
    """The sources below a folder whose path fits."""
    found = (each for each in folder.rglob("*") if each.suffix in _SUFFIXES)
    return sorted(each for each in found if re.search(pattern, str(each.relative_to(folder))))


def interface_of(source: Path) -> str:
    """The interface that a program shows: the one the file is named after, else its last call."""
    calls = _FIRST_PHASE.findall(source.read_text(encoding="utf-8", errors="replace"))
    named = source.stem.removeprefix("test_")
    for each in calls:
        if header_name(each) == f"{named}.h":
            return str(each)
    return calls[-1] if calls else named


class Cache:
    """Programs as shared objects, each beside a list of what it was compiled from."""

    def __init__(self, folder: Path, home: Installation) -> None:
        self._folder = folder
        self._home = home
        folder.mkdir(parents=True, exist_ok=True)

    def compiled(self, source: Path) -> Path | str:
        """The program that a source makes, or why it makes none."""
        name = hashlib.sha256(source.read_bytes() + str(source.parent).encode()).hexdigest()[:20]
        program, made_from = self._folder / f"{name}.so", self._folder / f"{name}.json"
        if made_from.exists():
            kept = json.loads(made_from.read_text(encoding="utf-8"))
            if all(self._digest(file) == digest for file, digest in kept["files"].items()):
                return kept["problem"] or program
        files = self._folder / f"{name}.d"
        flags = ["-shared", "-fPIC", "-O0", "-w", "-Wl,-z,defs", "-MMD", "-MF", str(files)]
        problem = ""
        with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as said:
            try:
                compile_program([source], program, flags, messages=said)
            except RejectedError as error:
                said.seek(0)
                text = said.read()
                found = _ERROR.search(text)
                problem = found[1] if found else text.strip().rpartition("\n")[2] or error.message
        used = self._headers(files) if files.exists() else list(self._own_headers())
        digests = {file: self._digest(file) for file in used}
        text = json.dumps({"problem": problem, "files": digests})
        write_text(made_from, text, force=True)
        return problem or program

    def _headers(self, file: Path) -> list[str]:
        """The library's headers that a program includes, relative to their folder."""
        words = file.read_text(encoding="utf-8").replace("\\\n", " ").split()
        root = f"{self._home.include}{os.sep}"
        found = {os.path.normpath(word) for word in words}
        return sorted(each.removeprefix(root) for each in found if each.startswith(root))

    def _own_headers(self) -> Iterator[str]:
        """All headers: a program that lacks one compiles when it is there."""
        for each in sorted(self._home.include.rglob("*.h")):
            yield str(each.relative_to(self._home.include))

    def _digest(self, file: str) -> str:
        found = self._home.include / file
        return hashlib.sha256(found.read_bytes()).hexdigest()[:16] if found.exists() else ""


def _run(program: Path, soc: str, folder: Path) -> None:
    """Be the program: the simulator is loaded already. Doesn't come back."""
    output = os.open(folder / "output", os.O_WRONLY | os.O_CREAT)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.environ |= {journal.SOC_VARIABLE: soc, journal.FOLDER_VARIABLE: str(folder)}
    code = 1
    try:
        loaded = ctypes.CDLL(str(program), mode=os.RTLD_NOW)
        code = loaded.main(1, (ctypes.c_char_p * 2)(str(program).encode(), None))
        ctypes.CDLL(None).fflush(None)
    finally:
        os._exit(code & 255)


def _verdict(folder: Path, status: int) -> tuple[str, str]:
    """What a program's journal and its end say."""
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGALRM:
        return "failed", f"took more than {LIMIT_S} s"
    file = folder / journal.FILE
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    for entry in map(json.loads, lines):
        if entry["kind"] in ("problem", "fault"):
            where = entry.get("where") or entry["op"]
            return "refused", f"{where}: {entry['name']} ({entry['code']}): {entry['message']}"
    if os.WIFSIGNALED(status):
        return "failed", f"ended by signal {os.WTERMSIG(status)}"
    code = os.waitstatus_to_exitcode(status)
    if code:
        said = (folder / "output").read_text(encoding="utf-8", errors="replace").strip()
        return "failed", f"ended with {code}: {said.rpartition(chr(10))[2][:200]}"
    return "ran", ""


def _loaded(home: Installation) -> None:
    """Load the library for all programs, and what most calls import."""
    import npusim.capi.runtime.entries
    import npusim.runtime.results
    from npusim.operators.registry import operators

    ctypes.CDLL(str(home.lib / LIBRARY), mode=os.RTLD_GLOBAL | os.RTLD_NOW)
    operators()
    del npusim


def run_all(
    programs: dict[Path, Path], soc: str, at_once: int, done: Callable[[Path, str, str], None]
) -> None:
    """Run every program in a fork, several at once; ``done`` hears of each."""
    waiting, running = list(programs)[::-1], dict[int, tuple[Path, Path]]()
    with tempfile.TemporaryDirectory(prefix="npusim-programs-") as scratch:
        while waiting or running:
            while waiting and len(running) < at_once:
                source = waiting.pop()
                folder = Path(scratch) / str(len(waiting))
                folder.mkdir()
                child = os.fork()
                if not child:
                    signal.alarm(LIMIT_S)
                    _run(programs[source], soc, folder)
                running[child] = (source, folder)
            child, status = os.wait()
            if child in running:
                source, folder = running.pop(child)
                done(source, *_verdict(folder, status))


def measured(folders: list[Path], soc: str, pattern: str, at_once: int) -> list[Row]:
    """A row for every program of some folders."""
    placed = {source: folder for folder in folders for source in programs_of(folder, pattern)}
    sources = list(placed)
    home = installation()
    cache = Cache(home.root.parent / "programs", home)
    rows: dict[Path, Row] = {}

    def note(source: Path, verdict: str, reason: str = "") -> None:
        name = str(source.relative_to(placed[source]))
        rows[source] = Row(name, interface_of(source), verdict, reason)
        if sys.stderr.isatty():
            print(f"\r{len(rows)} of {len(sources)} ", end="", file=sys.stderr, flush=True)

    with ThreadPoolExecutor(at_once) as pool:
        compiled = dict(zip(sources, pool.map(cache.compiled, sources), strict=True))
    for source, program in compiled.items():
        if isinstance(program, str):
            note(source, "failed", f"doesn't compile: {program}")
    _loaded(home)
    run_all({k: v for k, v in compiled.items() if isinstance(v, Path)}, soc, at_once, note)
    return [rows[source] for source in sources]


def reason_of(row: Row) -> str:
    """Why a program doesn't run, in a few words."""
    for pattern, words in _CLASSES:
        found = re.search(pattern, row.reason)
        if found:
            return words.format(*found.groups())[:_LONGEST_REASON]
    return row.reason[:_LONGEST_REASON]


def keep(file: Path, rows: list[Row], product: str) -> None:
    """Write what doesn't run on one product into a table, beside the rows of others there."""
    head = ("interface", "program", "product", "outcome", "reason", "taken")
    kept = []
    if file.exists():
        with file.open(encoding="utf-8", newline="") as stream:
            kept = [line for line in csv.reader(stream) if line[2] not in ("product", product)]
    today = datetime.now(UTC).date().isoformat()
    ran = sum(row.verdict == "ran" for row in rows)
    kept.append(["", "", product, "run", f"{ran} of {len(rows)}", today])
    for row in rows:
        if row.verdict != "ran":
            name = row.program.rpartition("/")[2]
            kept.append([row.api, name, product, row.verdict, reason_of(row), today])
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerows([head, *sorted(kept)])
    write_text(file, stream.getvalue(), force=True)


def main() -> int:
    """Exit code 0 when every program ran, else 1."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", type=Path, nargs="+", metavar="FOLDER")
    parser.add_argument("-s", "--soc", default="Ascend910B3")
    parser.add_argument("--only", default="", metavar="REGEX", help="programs whose path fits")
    parser.add_argument("-o", "--output", type=Path, metavar="TABLE.json")
    parser.add_argument("--csv", type=Path, metavar="TABLE.csv")
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    start = time.monotonic()
    rows = measured(given.folders, given.soc, given.only, given.jobs)
    if given.csv:
        keep(given.csv, rows, given.soc)
    if given.output:
        text = json.dumps([asdict(row) for row in rows], indent=1)
        write_text(given.output, f"{text}\n", force=True)
    else:
        for row in rows:
            print(f"{row.verdict:<8}{row.api}: {row.program}  {row.reason}")
    counts = Counter(row.verdict for row in rows)
    told = ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items()))
    print(f"{len(rows)} programs on {given.soc}: {told}, {time.monotonic() - start:.0f} s")
    return 0 if counts["ran"] == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
