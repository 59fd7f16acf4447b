"""Writes reports/validation.md and its figures from reports/data/measured_ops.csv.gz.

    python reports/validation.py
    python reports/validation.py --check  # fails where the page or the file is not of today's model

What is simulated of every row goes to reports/data/simulated_ops.csv.gz, and the page is computed from
that file. The table of refits without one workload takes an hour, so `python reports/calibrate.py
--leave-one-out` writes it to reports/data, from where it is read.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import io
import os
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from block_counts import by_family
from specifics import summary
from spreads import network

from npusim.hardware import load_profile
from npusim.reporting.validation import (
    errors,
    figure,
    rows_csv,
    scatter,
    worst_rows,
)
from npusim.validation.fitting import CONSTANTS, value_of
from npusim.validation.replay import Prediction, replay
from npusim.validation.statistics import Accuracy, accuracy, grouped
from npusim.validation.table import read_rows

HERE = Path(__file__).parent
TABLE = HERE / "data" / "measured_ops.csv.gz"
SIMULATED = HERE / "data" / "simulated_ops.csv.gz"
LEFT_OUT = HERE / "data" / "leave_one_out.csv"
FIGURES = HERE / "validation"
TARGET = HERE / "validation.md"
MEASURED = ("Ascend910B", "Ascend910B1", "Ascend910B2", "Ascend910B4")
LEAST_ROWS = 20  # of a group that has a line of its own
WORST = 25
LONG_US = 5  # kernels whose busiest pipe is compared
CLOSE = 0.2  # error of a time that is right, for whichever reason

NUMBERS = ("simulated_us", "band_low_us", "band_high_us", "roofline_us")

# The profiler's counters next to our pipes.
COUNTERS = {
    "aiv_vec_ratio": "VECTOR",
    "aiv_scalar_ratio": "SCALAR",
    "aiv_mte2_ratio": "MTE2",
    "aiv_mte3_ratio": "MTE3",
    "aic_mac_ratio": "CUBE",
    "aic_scalar_ratio": "SCALAR",
    "aic_mte2_ratio": "MTE2",
    "aic_fixpipe_ratio": "FIXP",
}
WORKING = ("aiv_vec_ratio", "aiv_mte2_ratio", "aiv_mte3_ratio")  # of which one is the busiest

INTRODUCTION = """# Measured against simulated

`python reports/validation.py` writes this page; `npusim validate reports/data/measured_ops.csv.gz` prints the same
statistics. All rows are kernel times of builtin operators that a profiler took on a device
([where they come from](data/README.md)). A prediction knows a row's chip, operator, shapes, dtypes, formats and
attributes; what ran before it (`state`, `warm`), whether it was compiled for its shapes (`op_state`), how often its step
runs it (`count`), and what the optimizers of its workload update. It knows nothing that was measured, and reads no notes.
Constants that nobody publishes were fitted to part of these rows ([below](#fitted-constants)); what the fit does to rows
it has not seen is [here](#without-one-workload). Schedules fit the workloads that were at hand when they were written
better than others, too: how far off others are is told by [those that came later](#what-came-later).

Errors are those of the simulated against the measured time: the median and the 90 % quantile of the absolute error, the
bias (median signed error), Spearman's rank correlation, and how many rows lie inside the 80 % band. The roofline
(published peaks, efficiencies 0.7 and 0.6, static cost of 2 to 5 us) is judged on the same rows.
"""

LATER = """Rows of networks and sources that nobody had when the schedules were written. They served to find causes of errors,
each mended by a source or a reason, and no constant is theirs alone; bands are made so that they hold 80 % of these rows
when each workload is left out of them in turn ([calibrate](calibrate.py)).
"""

KNOWN_FAULTS = """## Where the model is known to be wrong

* **A2 references that are several kernels.** Most rows of 910B2 are the sum of the kernels that a framework call
  starts, and the table doesn't say which. Where we know the composition it is simulated, otherwise one kernel stands for
  all, which is too fast.
* **Products whose operands have short or odd rows (A2).** MatMulV2 of 4 to 8 columns loads each row by itself and takes
  up to ten times as long as simulated; rows of 588 or 4,304 elements, no multiple of 512 bytes, up to three times.
* **Regrouped weights (FRACTAL_Z to FRACTAL_Z, A2).** TransData into another number of groups takes 0.07 us for each
  fractal of its result, however many cores there are; its tiling isn't public, and it is simulated as a copy.
* **Reductions of few numbers (A2).** Two sources disagree: 2.7 to 5.4 us on 910B3 (2025), 4.8 to 19 on 910B2 (2024).
* **AtomicAddrClean (first generation).** The rows list the tensor that another operator is going to add to, which isn't
  always what is cleared.
* **What L2 holds.** Rows of networks don't tell who used an operand last. The model takes one share for all, but for
  flat tensors (parameters, gradients, states) and the weights of products, which it takes from HBM. Loops over the same
  buffers (910B4) find everything in L2 and are faster than the model says.
* **310P3 as a whole.** There are no operator times to compare with, only rates of whole models ([models](models.md)).
* **Scatter and segment sums.** Their time depends on how often indices repeat, which no row tells.
* **Matrix products with tilings tuned by hand (first generation).** Some are up to three times faster than ours, others
  slower; rows don't tell the tiling.
* **Sub-microsecond differences of small kernels.** Half of all rows take less than 10 us, where launch decides; the
  measurements themselves scatter by 0.2 to 0.5 us there.
"""


def main() -> None:
    """Replay everything; write what came of it, or say whether the file has it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="is what is recorded of today?")
    asked = parser.parse_args()
    text = rows_csv(list(replay(read_rows(TABLE), workers=os.cpu_count() or 1)))
    if asked.check:
        sys.exit(None if text == recorded() else "not current: python reports/validation.py")
    SIMULATED.write_bytes(gzip.compress(text.encode(), mtime=0))
    write(list(predicted()))


def recorded() -> str:
    """What was simulated of every row, as `npusim validate --csv` writes it."""
    return gzip.decompress(SIMULATED.read_bytes()).decode()


def predicted() -> Iterator[Prediction]:
    """The rows of the table with what was recorded of them."""
    for row, cells in zip(read_rows(TABLE), csv.DictReader(io.StringIO(recorded())), strict=True):
        numbers = [float(cells[name]) if cells[name] else None for name in NUMBERS]
        simulated_us, low, high, roofline_us = numbers
        band_us = None if low is None or high is None else (low, high)
        busy = (each.split("=") for each in cells["busy"].split())
        pipes = {pipe: float(share) for pipe, share in busy}
        yield Prediction(
            row, simulated_us, band_us, roofline_us, cells["bound"], cells["reason"], pipes
        )


def write(predictions: Sequence[Prediction]) -> None:
    """Draw the figures and write the page."""
    FIGURES.mkdir(exist_ok=True)
    for name, drawing in (
        ("measured_vs_simulated", figure(predictions, (scatter,), (6.5, 6))),
        ("error_by_size", figure(predictions, (errors,), (8, 4.5))),
    ):
        drawing.savefig(FIGURES / f"{name}.png", dpi=110, metadata={"Software": None})
    TARGET.write_text("\n".join(page(predictions)) + "\n", encoding="utf-8")


def page(predictions: Sequence[Prediction]) -> Iterator[str]:
    """The lines of the page."""
    yield INTRODUCTION
    yield "## Worst rows\n"
    yield from worst(predictions)
    yield "\n## By chip\n"
    yield from table(
        "chip", {"all": accuracy(predictions), **by(predictions, lambda p: p.row.chip)}
    )
    yield "\n## What came later\n"
    yield LATER
    yield from table("workload", later(predictions))
    yield "\n![measured against simulated](validation/measured_vs_simulated.png)\n"
    yield "![error by size](validation/error_by_size.png)\n"
    yield f"## By chip and family\n\nGroups of {LEAST_ROWS} rows or more.\n"
    groups = by(predictions, lambda p: f"{p.row.chip}, {p.row.family}")
    yield from table(
        "chip and family", {name: a for name, a in groups.items() if a.rows >= LEAST_ROWS}
    )
    yield "\n## Not modelled\n"
    yield from not_modelled(predictions)
    yield "\n" + KNOWN_FAULTS
    yield "## Right time for the right reason\n"
    yield from counters(predictions)
    yield from busiest(predictions)
    yield "\n## Blocks\n"
    yield from blocks(predictions)
    yield "\n## Numbers of one family\n"
    yield from summary()
    yield "\n## Fitted constants\n"
    yield from constants()
    yield "\n## Without one workload\n"
    yield from left_out()


def later(predictions: Sequence[Prediction]) -> dict[str, Accuracy]:
    """Accuracy on workloads that came after the schedules were written, all of them first."""
    rows = [each for each in predictions if each.row.later]
    return {"all": accuracy(rows), **by(rows, lambda each: network(each.row.workload))}


def by(predictions: Iterable[Prediction], key: Callable[[Prediction], str]) -> dict[str, Accuracy]:
    """Accuracy by group."""
    return grouped(predictions, key)


def table(title: str, groups: dict[str, Accuracy]) -> Iterator[str]:
    """One line per group."""
    yield f"| {title} | rows | modelled | median | p90 | bias | rank | in band | roofline median |"
    yield "|---|---:|---:|---:|---:|---:|---:|---:|---:|"
    for name, each in groups.items():
        rank = "" if each.rank_correlation is None else f"{each.rank_correlation:.3f}"
        yield (
            f"| {name} | {each.rows} | {each.modelled} | {percent(each.median_abs_error)} "
            f"| {percent(each.p90_abs_error)} | {percent(each.bias, '+')} | {rank} "
            f"| {percent(each.in_band)} | {percent(each.roofline_median_abs_error)} |"
        )


def worst(predictions: Sequence[Prediction]) -> Iterator[str]:
    """The rows that are furthest off by ratio."""
    yield "| line | chip | operator | inputs | measured us | simulated us | ratio | limited by |"
    yield "|---:|---|---|---|---:|---:|---:|---|"
    for each in worst_rows(predictions, WORST):
        row, simulated = each.row, each.simulated_us or 0.0
        shapes = " ".join(
            f"{spec.dtype.intrinsic}[{','.join(map(str, spec.shape))}]"
            for spec in (row.task.inputs if row.task else ())
            if spec is not None
        )
        shown = shapes if len(shapes) < 70 else shapes[:67] + "..."
        yield (
            f"| {row.line} | {row.chip} | {row.op} | {shown} | {row.duration_us:.4g} "
            f"| {simulated:.4g} | {simulated / row.duration_us:.2f} | {each.bound} |"
        )


def not_modelled(predictions: Sequence[Prediction]) -> Iterator[str]:
    """What has no prediction, by operator and reason."""
    missing = Counter((each.row.op, each.reason) for each in predictions if each.reason)
    yield f"{sum(missing.values())} of {len(predictions)} rows; `--csv` of `npusim validate` lists every one.\n"
    yield "| rows | operator | reason |"
    yield "|---:|---|---|"
    for (op, reason), count in sorted(missing.items(), key=lambda item: (-item[1], item[0])):
        short = "no kernel of this name" if reason.startswith("unknown operator type") else reason
        yield f"| {count} | {op} | {short} |"


def counters(predictions: Sequence[Prediction]) -> Iterator[str]:
    """Busy ratios of pipes, simulated against the profiler's counters."""
    yield (
        "Busy share of the longest kernel's pipes against the profiler's counters, on all rows that have some. Both are "
        "means over all cores of the launch, and a copy counts until its data have arrived. The scalar unit's waits for "
        "its code count on neither side.\n"
    )
    yield "| chip | counter | rows | measured, median | simulated, median | median difference |"
    yield "|---|---|---:|---:|---:|---:|"
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for each in predictions:
        for counter, pipe in COUNTERS.items():
            text = each.row.counters.get(counter)
            on_cube = "CUBE" in each.pipes
            if text and pipe in each.pipes and on_cube == counter.startswith("aic"):
                pair = (float(text), each.pipes[pipe])
                found.setdefault((each.row.chip, counter), []).append(pair)
    for (chip, counter), pairs in sorted(found.items()):
        measured = statistics.median(pair[0] for pair in pairs)
        simulated = statistics.median(pair[1] for pair in pairs)
        apart = statistics.median(abs(pair[0] - pair[1]) for pair in pairs)
        yield (
            f"| {chip} | {counter} | {len(pairs)} | {percent(measured)} | {percent(simulated)} "
            f"| {100 * apart:.0f} points |"
        )


def busiest(predictions: Sequence[Prediction]) -> Iterator[str]:
    """How often the busiest pipe is the device's, on longer kernels of vector cores."""
    same: list[tuple[bool, bool]] = []
    for each in predictions:
        told = {
            COUNTERS[counter]: float(each.row.counters.get(counter, 0) or 0) for counter in WORKING
        }
        if each.row.duration_us < LONG_US or "CUBE" in each.pipes or not any(told.values()):
            continue
        found = {pipe: each.pipes.get(pipe, 0.0) for pipe in told}
        right = max(told, key=lambda pipe: told[pipe]) == max(found, key=lambda pipe: found[pipe])
        same.append((right, abs(each.error or 0.0) < CLOSE))
    if not same:
        return
    close = [right for right, near in same if near]
    yield (
        f"\nOf {len(same)} kernels on vector cores of {LONG_US} us and more, the busiest of the three pipes is the device's "
        f"in {percent(statistics.mean(right for right, _ in same))}. Of the {len(close)} whose time is within "
        f"{percent(CLOSE)}, {percent(1 - statistics.mean(close))} are so with another pipe busiest."
    )


def blocks(predictions: Sequence[Prediction]) -> Iterator[str]:
    """How often kernels launch as many blocks as the profiler counted, by chip and family."""
    yield (
        "Blocks that a kernel launches against the profiler's count, which no prediction is told; groups of "
        f"{LEAST_ROWS} rows or more that record theirs.\n"
    )
    yield "| chip and family | rows | as recorded |"
    yield "|---|---:|---:|"
    families = by_family(each.row for each in predictions)
    for name, (rows, right) in sorted(families.items(), key=lambda item: item[1][1] / item[1][0]):
        if rows >= LEAST_ROWS:
            yield f"| {name} | {rows} | {percent(right / rows)} |"
    rows, right = (sum(each[place] for each in families.values()) for place in (0, 1))
    yield f"| all | {rows} | {percent(right / rows)} |"


def constants() -> Iterator[str]:
    """What was fitted, with its meaning."""
    chips = {"dav-c100": "Ascend910B", "dav-c220": "Ascend910B1"}
    yield (
        "Each holds for all operators and all chips of a microarchitecture; no operator or family has a constant of "
        "its own. *dav-c100* is the first generation (910), *dav-c220* Atlas A2.\n"
    )
    yield "| constant | meaning | " + " | ".join(chips) + " |"
    yield "|---|---|" + "---:|" * len(chips)
    for each in CONSTANTS:
        shown = []
        for soc in chips.values():
            profile = load_profile(soc)
            value = value_of(profile, each.key)
            fitted = value and profile.provenance_of(each.key).confidence == "fitted"
            shown.append(f"{value:.4g}" + ("" if fitted else " (not fitted)") if value else "-")
        yield f"| `{each.key}` | {each.meaning} | " + " | ".join(shown) + " |"


def left_out() -> Iterator[str]:
    """Errors on a workload that a fit hasn't seen."""
    yield (
        "The constants fitted again without one workload, and judged on it (`python reports/calibrate.py "
        "--leave-one-out`), next to the fit that has seen it; and how much of it lies in bands made of the others.\n"
    )
    yield "| chip | workload left out | rows | median, seen | median, not seen | ratio | in band |"
    yield "|---|---|---:|---:|---:|---:|---:|"
    with LEFT_OUT.open(newline="", encoding="utf-8") as handle:
        for each in csv.DictReader(handle):
            seen, unseen = float(each["seen"]), float(each["unseen"])
            yield (
                f"| {each['chips']} | {each['workload']} | {each['rows']} | {percent(seen)} "
                f"| {percent(unseen)} | {unseen / seen:.2f} | {percent(_share(each))} |"
            )


def _share(record: dict[str, str]) -> float | None:
    return float(record["in_band"]) if record.get("in_band") else None


def percent(value: float | None, sign: str = "") -> str:
    """A fraction as percent."""
    return "" if value is None else f"{100 * value:{sign}.0f} %"


if __name__ == "__main__":
    main()
