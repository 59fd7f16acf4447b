"""Runs kernels in C++ that take published steps of optimisation, and compares their times.

    python reports/programs.py [--only REGEX]

The steps of `data/programs.csv` are those of public tables, each with its source; the programs in
`programs/` are written for them from their descriptions. Printed are, for every step, the measured
and the simulated time, and for every table how many pairs of steps come in the measured order
(those that differ by more than 2 %), with the median and the largest error.

Then come the sweeps of `data/sweeps.csv`, over tiles or cores: the rank correlation of the times,
and by how much the best of our fastest quarter is slower on the device than the best of all.
"""

from __future__ import annotations

import argparse
import csv
import re
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations, groupby
from pathlib import Path
from statistics import correlation, median

from npusim.capi.compiling import compile_program
from npusim.capi.running import run_program

HERE = Path(__file__).parent
APART = 1.02  # steps that differ by less have no order
WRONG = 0.3


@dataclass(frozen=True)
class Step:
    """A step of a table: its times in microseconds."""

    table: str
    name: str
    measured_us: float
    simulated_us: float

    @property
    def error(self) -> float:
        """How far the simulated time is off: 0.1 is a tenth too long."""
        return self.simulated_us / self.measured_us - 1


def simulated_us(row: dict[str, str], folder: Path) -> float:
    """The time of a step's program, its products uncomputed; RuntimeError where it doesn't run."""
    target = folder / "program"
    flags = [f"-D{macro}" for macro in row["macros"].split()]
    compile_program([HERE / "programs" / f"{row['program']}.asc"], target, flags)
    run = run_program(str(target), [], row["chip"], with_products=False)
    if run.exit_code or len(run.calls) != 1:
        raise RuntimeError(f"{row['group']}, {row['step']}: {run.problems or run.exit_code}")
    return float(run.calls[0]["duration_us"])


def ordered(steps: Sequence[Step]) -> tuple[int, int]:
    """Pairs of steps of one table in the measured order, and all that have one."""
    apart = [
        pair
        for pair in combinations(sorted(steps, key=lambda each: each.measured_us), 2)
        if pair[0].table == pair[1].table and pair[1].measured_us > APART * pair[0].measured_us
    ]
    return sum(fast.simulated_us < slow.simulated_us for fast, slow in apart), len(apart)


def ranks(times: Sequence[float]) -> list[float]:
    """The place of each time, equal ones in the middle of theirs."""
    return [
        sum(other < time for other in times) + (sum(other == time for other in times) - 1) / 2
        for time in times
    ]


def ranking(steps: Sequence[Step]) -> tuple[float, float]:
    """Spearman's correlation of a sweep, and what choosing from our fastest quarter costs."""
    measured = [each.measured_us for each in steps]
    together = correlation(ranks(measured), ranks([each.simulated_us for each in steps]))
    ours = sorted(steps, key=lambda each: each.simulated_us)[: max(1, round(len(steps) / 4))]
    return together, min(each.measured_us for each in ours) / min(measured) - 1


def verdict(steps: Sequence[Step]) -> str:
    """Order, median and largest error of some steps."""
    right, pairs = ordered(steps)
    errors = [abs(each.error) for each in steps]
    told = f"median error {median(errors):.1%}, largest {max(errors):.0%}"
    return f"{len(steps)} steps, {right} of {pairs} pairs in order, {told}"


def main() -> None:
    """Print every step, every table, and all of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", metavar="REGEX", help="tables and steps that fit")
    given = parser.parse_args()
    steps = tables("programs.csv", given.only, verdict)
    if steps:
        above = sum(abs(each.error) > WRONG for each in steps)
        say(f"\nall: {verdict(steps)}, {above} above 30 %")
    tables("sweeps.csv", given.only, told_ranking)


def told_ranking(steps: Sequence[Step]) -> str:
    """The ranking of a sweep in words."""
    together, lost = ranking(steps)
    told = f"Spearman {together:.3f}, best of our fastest quarter {lost:.1%} behind the best"
    return f"{len(steps)} points, {told}"


def tables(name: str, only: str, summary: Callable[[Sequence[Step]], str]) -> list[Step]:
    """Print the steps of a file that fit, table by table with a summary."""
    with (HERE / "data" / name).open(encoding="utf-8", newline="") as file:
        rows = [
            row for row in csv.DictReader(file) if re.search(only, f"{row['group']}, {row['step']}")
        ]
    steps: list[Step] = []
    with tempfile.TemporaryDirectory(prefix="npusim-programs-") as folder:
        for table, its_rows in groupby(rows, key=lambda row: row["group"]):
            say(f"\n{table}")
            begun = len(steps)
            for row in its_rows:
                found = simulated_us(row, Path(folder))
                step = Step(table, row["step"], float(row["duration_us"]), found)
                steps.append(step)
                times = f"{step.measured_us:>12,.1f} us {step.simulated_us:>12,.1f} us"
                say(f"  {step.name:<58}{times} {step.error:>+7.1%}")
            say(f"  {summary(steps[begun:])}")
    return steps


def say(line: str) -> None:
    """Print a line now: programs take seconds."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
