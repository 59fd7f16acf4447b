"""Fits unpublished constants to reports/data/measured_ops.csv.gz, for hw_profiles.

    python reports/calibrate.py
    python reports/calibrate.py --residuals
    python reports/calibrate.py --leave-one-out

The first writes hw_profiles/microarchitecture/<architecture>-calibrated.yaml (the constants), the
second hw_profiles/calibration/residuals.yaml (what the bands are made of), the third
reports/data/leave_one_out.csv (the error on each workload when the fit hasn't seen it). The same
table gives the same digits. Minutes on two cores each.
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from math import isclose
from pathlib import Path

import yaml
from fitting import fit
from leave_one_out import left_out
from spreads import LEAST_OF_CHIP, as_mapping, as_yaml, stretches

from npusim.hardware import load_profile
from npusim.validation.fitting import CONSTANTS, Constant, Fit
from npusim.validation.replay import Prediction, replay
from npusim.validation.table import MeasuredRow, read_rows

HERE = Path(__file__).parent
TABLE = HERE / "data" / "measured_ops.csv.gz"
LEFT_OUT = HERE / "data" / "leave_one_out.csv"
PROFILES = HERE.parent / "hw_profiles"
# Rows of each chip that a fit looks at, evenly over operators and sizes: all of a chip with fewer.
# Those that leave a workload out look at as many: half as many move constants further than that.
ROWS = {"dav-c100": 640, "dav-c220": 150}
# Constants that the chips of an architecture have values of their own for.
KEPT = {
    "dav-c220": (
        "memory.hbm_sustained_fraction",
        # The vendor's cost model says it; rows that scatter into a few places would lower it to
        # 0.4, and the gradient of attention, 1.9 times its forward pass on 910B3, would take 3.
        "memory.atomic_rate_fraction",
        # The counters bear out what is published: task less core time, how long the pipes of
        # kernels are busy that move next to nothing, and what cores wait for their code.
        "launch.base_us",
        "launch.per_block_us",
        "launch.kernel_head_cycles",
        "launch.tiling_head_cycles",
        "launch.code_us",
        "launch.code_per_block_us",
        # Loads are priced by programs whose pipes do nothing else (reports/programs.py).
        "paths.gm_to_ub.setup_cycles",
        "paths.gm_to_ub.latency_cycles",
        "paths.ub_to_gm.latency_cycles",
    )
}


def main() -> None:
    """Fit the constants of both measured architectures, or write what the options ask for.

    Two runs, because the second uses the profiles that the first has written.
    """
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("--residuals", action="store_true", help="write the bands instead")
    kinds.add_argument("--leave-one-out", action="store_true", help="leave out a workload each")
    asked = parser.parse_args()
    rows = [row for row in read_rows(TABLE) if row.soc and row.task is not None]
    if asked.residuals:
        write_residuals(rows)
        return
    by_architecture: dict[str, list[MeasuredRow]] = {}
    for row in rows:
        by_architecture.setdefault(load_profile(row.soc).architecture, []).append(row)
    if asked.leave_one_out:
        write_left_out(by_architecture)
        return
    for architecture, members in sorted(by_architecture.items()):
        fitted = calibrate(architecture, modelled(members), ROWS[architecture])
        write_constants(architecture, fitted, sorted({row.chip for row in members}))


def modelled(rows: list[MeasuredRow]) -> list[MeasuredRow]:
    """The rows that we have kernels for, by operator and duration."""
    return [each.row for each in everything(rows)]


def everything(rows: list[MeasuredRow]) -> list[Prediction]:
    """Predictions of the rows that we have kernels for, by operator and duration."""
    ordered = sorted(rows, key=lambda row: (row.op, row.duration_us, row.line))
    return [each for each in replay(ordered, workers=os.cpu_count() or 1) if not each.reason]


def calibrate(architecture: str, rows: list[MeasuredRow], limit: int) -> Fit:
    """The constants of one architecture, fitted to ``limit`` rows of every chip."""
    constants = fitted_constants(architecture)
    published = published_values(architecture, constants)
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        return fit(sample(rows, limit), constants, published, pool=pool, progress=say)


def fitted_constants(architecture: str) -> list[Constant]:
    """The constants that an architecture's fit may move."""
    return [each for each in CONSTANTS if each.key not in KEPT.get(architecture, ())]


def published_values(architecture: str, constants: list[Constant]) -> dict[str, float]:
    """What the architecture's own file says, without the layer that an earlier run has written."""
    file = PROFILES / "microarchitecture" / f"{architecture}.yaml"
    tree = yaml.safe_load(file.read_text(encoding="utf-8"))
    found = {}
    for each in constants:
        node = tree
        for name in each.key.split("."):
            node = node.get(name, {})
        found[each.key] = float(node or 0.0)
    return found


def write_left_out(by_architecture: dict[str, list[MeasuredRow]]) -> None:
    """Median errors on every workload with the constants of a fit to all others.

    Next to those of the profiles, whose fit has seen all; and how much of it lies in bands that
    are made of the others.
    """
    records = []
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for architecture, members in sorted(by_architecture.items()):
            known = everything(members)
            chosen = sample([each.row for each in known], ROWS[architecture])
            constants = fitted_constants(architecture)
            published = published_values(architecture, constants)
            for found in left_out(known, chosen, constants, published, pool):
                chips, name, rows, *shares = found
                records.append([chips, name, rows, *(f"{each:.4f}" for each in shares)])
                say(f"{name}: " + ", ".join(map("{:.3f}".format, shares)))
    with LEFT_OUT.open("w", newline="", encoding="utf-8") as handle:
        writer = csv.writer(handle, lineterminator="\n")
        writer.writerows([["chips", "workload", "rows", "seen", "unseen", "in_band"], *records])


def sample(rows: list[MeasuredRow], limit: int) -> list[MeasuredRow]:
    """At most about ``limit`` rows of every chip, evenly spaced in the order given.

    None of chips with few rows, which would count as much as all of another chip.
    """
    chosen = []
    for soc in sorted({row.soc for row in rows}):
        members = [row for row in rows if row.soc == soc]
        if len(members) <= LEAST_OF_CHIP:
            continue
        chosen += members[:: max(1, round(len(members) / limit))]
    return chosen


def say(text: str) -> None:
    """Progress, to standard error."""
    sys.stderr.write(text + "\n")


def write_constants(architecture: str, fitted: Fit, measured: list[str]) -> None:
    """The fitted values as a layer over the architecture's published ones.

    Constants that the rows didn't move stay what they were published or assumed to be.
    """
    chips = ", ".join(measured)
    groups: dict[str, list[tuple[str, str, float]]] = {}
    for constant in CONSTANTS:
        value = fitted.values.get(constant.key)
        if value is None or isclose(value, fitted.published[constant.key], rel_tol=1e-6):
            continue
        group, leaf = constant.key.split(".", 1)
        groups.setdefault(group, []).append((leaf, constant.meaning, value))
    lines = [
        f"# Made by reports/calibrate.py from {fitted.rows} measured kernels. Mean absolute log",
        f"# error, with the pull to published values: {fitted.loss_before:.4f} before the fit,",
        f"# {fitted.loss_after:.4f} after it.",
        f"inherits: {architecture}",
    ]
    for group, entries in groups.items():
        lines += ["", f"{group}:"]
        for leaf, _, value in entries:
            lines.append(_value(leaf, value))
        lines.append("  provenance:")
        for leaf, meaning, _ in entries:
            published = fitted.published[f"{group}.{leaf}"]
            note = f"{meaning}; {published:.4g} published or assumed; {fitted.rows} rows of {chips}"
            lines.append(
                f'    {leaf}: {{source: this_project, confidence: fitted, notes: "{note}"}}'
            )
    target = PROFILES / "microarchitecture" / f"{architecture}-calibrated.yaml"
    target.write_text("\n".join(_nested(lines)) + "\n", encoding="utf-8")


def write_residuals(rows: list[MeasuredRow]) -> None:
    """Quantiles of measured over simulated time, by architecture and by chip."""
    predictions = [each for each in replay(rows, workers=os.cpu_count() or 1) if not each.reason]
    stretch = stretches(predictions)
    told = ", ".join(f"{name} {value:g}" for name, value in sorted(stretch.items()))
    text = [
        "# Made by reports/calibrate.py --residuals. Measured over simulated time: 10 % and 90 %",
        "# quantiles on the rows of reports/data/measured_ops.csv.gz, by operator class and",
        "# simulated time, over groups of networks and operators; in logarithms stretched by what",
        f"# workloads need that came later, bands being made of all others: {told}.",
        as_yaml(as_mapping(predictions, stretch)),
    ]
    file = PROFILES / "calibration" / "residuals.yaml"
    file.write_text("\n".join(text) + "\n", encoding="utf-8")


def _value(leaf: str, value: float) -> str:
    return f"  {leaf}: {value:.5g}"


def _nested(lines: list[str]) -> list[str]:
    """Turn dotted leaves of values into nested mappings (``gm_to_ub.setup_cycles``)."""
    result: list[str] = []
    current = ""
    for line in lines:
        stripped = line.strip()
        name, dot, rest = stripped.partition(".")
        if line.startswith("  ") and not line.startswith("    ") and dot and ":" in rest:
            if name != current:
                result.append(f"  {name}:")
                current = name
            result.append(f"    {rest}")
        else:
            if line and not line.startswith("    "):
                current = ""
            result.append(line)
    return result


if __name__ == "__main__":
    main()
