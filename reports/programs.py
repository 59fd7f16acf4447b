"""Runs kernels in C++ that take published steps of optimisation, and compares their times.

    python reports/programs.py [--only REGEX] [--catlass CHECKOUT] [--write]

The steps of `data/programs.csv` are those of public tables, each with its source; the programs in
`programs/` are written for them from their descriptions. Those that end with `.cpp` are made of
CATLASS's templates, and run where `--catlass` names a checkout of it. Printed are, for every step,
the measured and the simulated time, and for every table how many pairs of steps come in the
measured order (those that differ by more than 2 %), with the median and the largest error.

Then come the sweeps of `data/sweeps.csv`, over tiles or cores: the rank correlation of the times,
and by how much the best of our fastest quarter is slower on the device than the best of all.

`--write` keeps the times in the two files, and makes `programs.md` of all that they hold.
"""

from __future__ import annotations

import argparse
import csv
import io
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations, groupby
from pathlib import Path
from statistics import correlation, median

from npusim.capi.compiling import compile_program
from npusim.capi.running import run_program

HERE = Path(__file__).parent
APART = 1.02  # steps that differ by less have no order
WRONG = 0.3
_STEPS, _SWEEPS = "programs.csv", "sweeps.csv"
_TEMPLATES = ("-DCATLASS_ARCH=2201", "--npu-arch=dav-2201")
_SHORT = 10  # of a commit


@dataclass(frozen=True)
class Step:
    """A step of a table: its times in microseconds."""

    table: str
    name: str
    measured_us: float
    simulated_us: float

    @property
    def ratio(self) -> float:
        """Simulated over measured."""
        return self.simulated_us / self.measured_us

    @property
    def error(self) -> float:
        """How far the simulated time is off: 0.1 is a tenth too long."""
        return self.ratio - 1


def source_of(row: dict[str, str]) -> Path:
    """The program of a step: our own kernel, or one of CATLASS's templates."""
    named = HERE / "programs" / row["program"]
    templates = named.with_suffix(".cpp")
    return templates if templates.exists() else named.with_suffix(".asc")


def simulated_us(row: dict[str, str], folder: Path, catlass: Path | None = None) -> float:
    """The time of a step's program, its products uncomputed; RuntimeError where it doesn't run."""
    target = folder / "program"
    flags = [f"-D{macro}" for macro in row["macros"].split()]
    if catlass is not None:
        flags += (f"-I{catlass / 'include'}", *_TEMPLATES)
    compile_program([source_of(row)], target, flags)
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


def told_ranking(steps: Sequence[Step]) -> str:
    """The ranking of a sweep in words."""
    together, lost = ranking(steps)
    told = f"Spearman {together:.3f}, best of our fastest quarter {lost:.1%} behind the best"
    return f"{len(steps)} points, {told}"


def of_all(steps: Sequence[Step]) -> str:
    """The verdict on all steps."""
    above = sum(abs(each.error) > WRONG for each in steps)
    return f"{verdict(steps)}, {above} above 30 %"


def main() -> None:
    """Print every step, every table, and all of them; write the page where that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", metavar="REGEX", help="tables and steps that fit")
    parser.add_argument("--catlass", type=Path, metavar="CHECKOUT", help="where its include/ is")
    parser.add_argument("--write", action="store_true", help="keep the times; make programs.md")
    given = parser.parse_args()
    steps = tables(_STEPS, given.only, verdict, given.catlass, keep=given.write)
    if steps:
        say(f"\nall: {of_all(steps)}")
    tables(_SWEEPS, given.only, told_ranking, given.catlass, keep=given.write)
    if given.write:
        (HERE / "programs.md").write_text(page(), encoding="utf-8")


def tables(
    name: str,
    only: str,
    summary: Callable[[Sequence[Step]], str],
    catlass: Path | None,
    *,
    keep: bool,
) -> list[Step]:
    """Run and print the steps of a file that fit, table by table with a summary."""
    rows = read(name)
    chosen = [
        row
        for row in rows
        if re.search(only, f"{row['group']}, {row['step']}")
        and (catlass is not None or source_of(row).suffix == ".asc")
    ]
    steps: list[Step] = []
    with tempfile.TemporaryDirectory(prefix="npusim-programs-") as folder:
        for table, its_rows in groupby(chosen, key=lambda row: row["group"]):
            say(f"\n{table}")
            begun = len(steps)
            for row in its_rows:
                try:
                    row["simulated_us"] = f"{simulated_us(row, Path(folder), catlass):.6g}"
                except RuntimeError as error:
                    row["simulated_us"] = ""
                    say(f"  {row['step']:<58} refused: {error}")
                    continue
                steps.append(step_of(row))
                times = f"{steps[-1].measured_us:>12,.1f} us {steps[-1].simulated_us:>12,.1f} us"
                say(f"  {row['step']:<58}{times} {steps[-1].error:>+7.1%}")
            if steps[begun:]:
                say(f"  {summary(steps[begun:])}")
    if keep:
        write(name, rows)
    return steps


def step_of(row: dict[str, str]) -> Step:
    """A row whose simulated time is known."""
    measured, simulated = float(row["duration_us"]), float(row["simulated_us"])
    return Step(row["group"], row["step"], measured, simulated)


def page() -> str:
    """What the two files hold, as a page."""
    steps, sweeps = read(_STEPS), read(_SWEEPS)
    all_steps = [step_of(row) for row in steps if row["simulated_us"]]
    parts = [*sections(steps, verdict), "## Sweeps\n", *sections(sweeps, told_ranking)]
    return _HEAD.format(told=of_all(all_steps)) + "\n".join(parts)


def sections(rows: Iterable[dict[str, str]], summary: Callable[[Sequence[Step]], str]) -> list[str]:
    """A table of each group."""
    found = []
    for group, each in groupby(rows, key=lambda row: row["group"]):
        its = list(each)
        chips = ", ".join(dict.fromkeys(row["chip"] for row in its))
        first = its[0]
        source = f"{first['source_repo']}@{first['source_commit'][:_SHORT]} {first['source_path']}"
        timed = [step_of(row) for row in its if row["simulated_us"]]
        lines = [_line(row) for row in its]
        found.append(
            f"### {group[0].upper()}{group[1:]} ({chips})\n\n"
            f"Source: {source}. {summary(timed)}.\n\n"
            "| step | measured (us) | simulated (us) | ratio |\n|---|---|---|---|\n"
            + "\n".join(lines)
            + "\n"
        )
    return found


def _line(row: dict[str, str]) -> str:
    """A row of a page's table; a step that is refused has no time."""
    measured = f"{float(row['duration_us']):,.2f}"
    if not row["simulated_us"]:
        return f"| {row['step']} | {measured} | refused | |"
    step = step_of(row)
    return f"| {row['step']} | {measured} | {step.simulated_us:,.2f} | {step.ratio:.2f} |"


def read(name: str) -> list[dict[str, str]]:
    """The rows of a file of `data`."""
    with (HERE / "data" / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def write(name: str, rows: Sequence[dict[str, str]]) -> None:
    """Keep the rows of a file of `data`."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    (HERE / "data" / name).write_text(text.getvalue(), encoding="utf-8")


def say(line: str) -> None:
    """Print a line now: programs take seconds."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


_HEAD = """# Kernels in C++ by published steps

Kernels of which somebody has published how long each step of their optimisation takes, as programs
of our own (`reports/programs`) that `npusim cc` compiles; those with tiles of CATLASS are made of
its templates, which it compiles as they are. A pair is in order where two steps of one table that
differ by more than 2 % on the device come in the same order here. A kernel of more than ten million
instructions is refused. The chip is Ascend910B3 where a
source says 20 cube cores, Ascend910B1 where it says 24.
`python reports/programs.py --catlass CHECKOUT --write` makes this page. All steps: {told}.

"""


if __name__ == "__main__":
    main()
