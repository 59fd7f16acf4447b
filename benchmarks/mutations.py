"""Breaks the product in one place at a time and sees whether the tests notice.

First the tests have to pass as they are. A mutation is killed by a test that fails; one that keeps
tests from being found, e.g. since a module can't be imported, proves nothing and ends the run.

`python benchmarks/mutations.py` prints a line for each mutation with the test that killed it and
what it said, and ends with 1 if one survived. `--only WORD` takes those whose file or description
contains a word, `--jobs N` works on several at a time.
"""

from __future__ import annotations

import argparse
import os
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
# With one seed, so that a test which draws its shapes kills today what it killed yesterday.
PYTEST = [
    *(sys.executable, "-m", "pytest", "-x", "-q", "-n0", "-m", ""),
    *("--no-header", "-rf", "--tb=line"),
    "--hypothesis-seed=0",
    *("--hypothesis-profile", "any failure"),
]


class Mutation(NamedTuple):
    """`old` becomes `new` in `file`; one of `tests`, which pytest takes, should fail."""

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
        # Programs that a test starts elsewhere import the copy too, not what is installed.
        paths = {"PYTHONPATH": str(tree), "NPUSIM_CACHE": str(tree / "cache")}
        try:
            done = subprocess.run(
                [*PYTEST, *tests.split()],
                cwd=tree,
                env={**os.environ, **paths, "COLUMNS": "200"},
                capture_output=True,
                text=True,
                check=False,
                timeout=LONGEST_S if mutation else None,
            )
        except subprocess.TimeoutExpired:
            return f"no end within {LONGEST_S} s"
    failed = [line for line in done.stdout.splitlines() if line.startswith("FAILED ")]
    if done.returncode not in (0, 1) or (done.returncode and not failed):
        raise SystemExit(
            f"{mutation and mutation.what}: {done.stdout[-1000:]}{done.stderr[-1000:]}"
        )
    return failed[0].removeprefix("FAILED ") if failed else ""


def _apply(mutation: Mutation, tree: Path) -> None:
    target = tree / mutation.file
    text = target.read_text(encoding="utf-8")
    target.write_text(text.replace(mutation.old, mutation.new), encoding="utf-8")


def main() -> int:
    """Apply every mutation, print what killed it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="mutations with this word")
    parser.add_argument("--jobs", type=int, default=1)
    chosen = parser.parse_args()
    wanted = [each for each in mutations() if chosen.only in f"{each.file} {each.what}"]
    tests = sorted({test for each in wanted for test in each.tests.split()})
    if broken := killer(None, " ".join(tests)):
        raise SystemExit(f"fails without any mutation: {broken}")
    with ThreadPoolExecutor(chosen.jobs) as pool:
        survivors = 0
        found = pool.map(killer, wanted, [each.tests for each in wanted])
        for mutation, by in zip(wanted, found, strict=True):
            survivors += not by
            print(f"{mutation.file}: {mutation.what}: {by or 'SURVIVED'}", flush=True)
    print(f"{len(wanted) - survivors} killed, {survivors} survived")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
