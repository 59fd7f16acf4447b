"""Breaks the product in one place at a time and sees whether the tests notice.

First the tests have to pass as they are.

`python benchmarks/mutations.py` prints a line for each mutation with the test that killed it, and
ends with 1 if one survived. `--only WORD` takes those whose file or description contains a word,
`--jobs N` works on several at a time.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import yaml

ROOT = Path(__file__).parent.parent
TAKEN = ("npusim", "ops", "hw_profiles", "tests", "benchmarks", "docs", "reports")
LONGEST_S = 600  # a mutant that hangs a test is killed too


class Mutation(NamedTuple):
    """`old` becomes `new` in `file`; `tests` are the files in which a test should fail."""

    what: str
    file: str
    old: str
    new: str
    tests: str


def mutations() -> list[Mutation]:
    """The list beside this script."""
    rows = yaml.safe_load((ROOT / "benchmarks" / "mutations.yaml").read_text(encoding="utf-8"))
    return [Mutation(**row) for row in rows]


def killer(mutation: Mutation | None, tests: str) -> str:
    """The first of some tests that fails with a mutation, or without any; empty when none does."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        for name in TAKEN:
            shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("pyproject.toml", "README.md", "CONTRIBUTING.md"):
            shutil.copy(ROOT / name, tree / name)
        if mutation is not None:
            _apply(mutation, tree)
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-n0", "--no-header", "-rf"]
        try:
            done = subprocess.run(
                [*command, *tests.split()],
                cwd=tree,
                capture_output=True,
                text=True,
                check=False,
                timeout=LONGEST_S,
            )
        except subprocess.TimeoutExpired:
            return f"no end within {LONGEST_S} s"
    failed = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("FAILED ")]
    if done.returncode not in (0, 1) and not failed:
        return f"pytest ends with {done.returncode}: {done.stdout[-300:]}{done.stderr[-300:]}"
    return failed[0] if failed else ""


def _apply(mutation: Mutation, tree: Path) -> None:
    target = tree / mutation.file
    text = target.read_text(encoding="utf-8")
    if text.count(mutation.old) != 1:
        places = text.count(mutation.old)
        raise SystemExit(f"{mutation.file}: {places} places have {mutation.old!r}")
    target.write_text(text.replace(mutation.old, mutation.new), encoding="utf-8")


def main() -> int:
    """Apply every mutation, print what killed it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="mutations with this word")
    parser.add_argument("--jobs", type=int, default=1)
    chosen = parser.parse_args()
    wanted = [each for each in mutations() if chosen.only in f"{each.file} {each.what}"]
    files = sorted({test for each in wanted for test in each.tests.split()})
    with ThreadPoolExecutor(chosen.jobs) as pool:
        if broken := "".join(pool.map(killer, [None] * len(files), files)):
            raise SystemExit(f"fails without any mutation: {broken}")
        survivors = 0
        found = pool.map(killer, wanted, [each.tests for each in wanted])
        for mutation, by in zip(wanted, found, strict=True):
            survivors += not by
            print(f"{mutation.file}: {mutation.what}: {by or 'SURVIVED'}", flush=True)
    print(f"{len(wanted) - survivors} killed, {survivors} survived")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
