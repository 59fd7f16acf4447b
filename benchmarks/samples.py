"""Builds and runs every Ascend C sample of a folder: `python benchmarks/samples.py FOLDER -s SOC`.

A sample is a folder with a `CMakeLists.txt` that has the language ASC and a `README` whose first
block of commands with `cmake` and `./` builds, feeds, runs and checks it. The commands run as they
stand, in a copy, with `find_package(ASC)` answered by npusim. A row says whether all of them ended
well and what the README promises was printed; `elsewhere` are samples of another architecture.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from npusim.capi.library import Installation, installation
from npusim.reporting.files import write_text

LIMIT_S = 240  # of a sample, building included
_BLOCK = re.compile(r"^( *)```bash\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
_PASSED = re.compile(r"test pass|\bpass(ed)?!|success", re.IGNORECASE)
_ERROR = re.compile(r"error: .*|rejected.*|kernel \w+, .*|.*[Ff]ail.*|.*Error.*")


@dataclass(frozen=True)
class Row:
    """What became of a sample: ``verdict`` is ran, failed or elsewhere."""

    sample: str
    verdict: str
    reason: str = ""
    seconds: float = 0.0


def samples_of(folder: Path, pattern: str) -> Iterator[Path]:
    """The samples below a folder whose path fits."""
    for file in sorted(folder.rglob("CMakeLists.txt")):
        told = file.read_text(encoding="utf-8", errors="replace")
        if "ASC" in told and re.search(pattern, str(file.parent.relative_to(folder))):
            yield file.parent


def commands_of(sample: Path) -> tuple[str, bool]:
    """The commands of a README's default way, and whether it promises that a check passes."""
    for name in ("README_en.md", "README.md"):
        if (sample / name).exists():
            text = (sample / name).read_text(encoding="utf-8")
            blocks = [block[1] for block in _BLOCK.findall(text)]
            at = next((k for k, each in enumerate(blocks) if "cmake" in each and "./" in each), -1)
            if at >= 0:
                promises = any("test pass" in each for each in blocks[at + 1 :])
                return blocks[at].replace("make -j", "make"), promises
    return "", False


def _one(sample: Path, name: str, soc: str, architecture: str, home: Installation) -> Row:
    commands, promises = commands_of(sample)
    built_for = (sample / "CMakeLists.txt").read_text(encoding="utf-8", errors="replace")
    if f"dav-{architecture}" not in (commands if "dav-" in commands else built_for):
        return Row(name, "elsewhere", f"not for dav-{architecture}")
    if not commands:
        return Row(name, "failed", "its README has no commands")
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="npusim-sample-") as scratch:
        copy = Path(scratch) / "sample"
        shutil.copytree(sample, copy)
        environment = os.environ | {
            "CMAKE_PREFIX_PATH": str(home.cmake),
            "ASCEND_HOME_PATH": str(home.root),
            "LD_LIBRARY_PATH": str(home.lib),
            "NPUSIM_SOC": soc,
            "SCENARIO_NUM": "1",
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        }
        try:
            done = subprocess.run(
                ["/bin/bash", "-ec", commands],
                cwd=copy, env=environment, capture_output=True, timeout=LIMIT_S, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return Row(name, "failed", f"took more than {LIMIT_S} s")
    said = (done.stdout + done.stderr).decode("utf-8", errors="replace")
    seconds = round(time.monotonic() - start, 1)
    if done.returncode or (promises and not _PASSED.search(said)):
        found = _ERROR.search(said)
        told = found[0] if found else said.strip().rpartition("\n")[2]
        return Row(name, "failed", f"{done.returncode}: {told[:300]}", seconds)
    return Row(name, "ran", "" if promises else "nothing is compared", seconds)


def main() -> int:
    """Exit code 0 when every sample of the architecture ran, else 1."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("-s", "--soc", default="Ascend910B1")
    parser.add_argument("-a", "--architecture", default="2201")
    parser.add_argument("--only", default="", metavar="REGEX", help="samples whose path fits")
    parser.add_argument("-o", "--output", type=Path, metavar="TABLE.json")
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    home = installation()

    def one(sample: Path) -> Row:
        name = str(sample.relative_to(given.folder))
        row = _one(sample, name, given.soc, given.architecture, home)
        print(f"{row.verdict:<10}{row.sample}  {row.seconds}  {row.reason}", flush=True)
        return row

    with ThreadPoolExecutor(given.jobs) as pool:
        rows = list(pool.map(one, samples_of(given.folder, given.only)))
    if given.output:
        text = json.dumps([asdict(row) for row in rows], indent=1)
        write_text(given.output, f"{text}\n", force=True)
    counts = Counter(row.verdict for row in rows)
    told = ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items()))
    print(f"{len(rows)} samples on {given.soc}: {told}")
    return 0 if not counts["failed"] else 1


if __name__ == "__main__":
    sys.exit(main())
