"""Fits unpublished constants to reports/data/measured_ops.csv.gz, for hw_profiles.

    python reports/calibrate.py
    python reports/calibrate.py --residuals

The first writes hw_profiles/microarchitecture/<architecture>-calibrated.yaml (the constants), the
second hw_profiles/calibration/residuals.yaml (what the bands are made of). The same table gives the
same digits. Takes some minutes on two cores.
"""

from __future__ import annotations

import os
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from npusim.hardware import load_profile
from npusim.validation.calibrate import CONSTANTS, Fit, fit
from npusim.validation.replay import Prediction, replay
from npusim.validation.spreads import as_yaml, spreads
from npusim.validation.table import MeasuredRow, read_rows

HERE = Path(__file__).parent
TABLE = HERE / "data" / "measured_ops.csv.gz"
PROFILES = HERE.parent / "hw_profiles"
# Rows of each chip that a fit looks at, evenly over operators and sizes: all of a chip with fewer.
ROWS = {"dav-c100": 320, "dav-c220": 150}
# Constants that the chips of an architecture have values of their own for.
KEPT = {"dav-c220": ("memory.hbm_sustained_fraction",)}
WIDENING = 1.3  # of a band in logarithms where the class or the chip was not measured


def main() -> None:
    """Fit the constants of both measured architectures.

    With ``--residuals`` write the bands instead.

    Two runs, because the second uses the profiles that the first has written.
    """
    rows = [row for row in read_rows(TABLE) if row.soc and row.task is not None]
    if "--residuals" in sys.argv:
        write_residuals(rows)
        return
    by_architecture: dict[str, list[MeasuredRow]] = {}
    for row in rows:
        by_architecture.setdefault(load_profile(row.soc).architecture, []).append(row)
    for architecture, members in sorted(by_architecture.items()):
        write_constants(architecture, calibrate(architecture, members))


def calibrate(architecture: str, rows: list[MeasuredRow]) -> Fit:
    """The constants of one architecture."""
    ordered = sorted(rows, key=lambda row: (row.op, row.duration_us, row.line))
    modelled = [
        each.row for each in replay(ordered, workers=os.cpu_count() or 1) if not each.reason
    ]
    constants = [each for each in CONSTANTS if each.key not in KEPT.get(architecture, ())]
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        return fit(sample(modelled, ROWS[architecture]), constants, pool=pool, progress=say)


def sample(rows: list[MeasuredRow], limit: int) -> list[MeasuredRow]:
    """At most about ``limit`` rows of every chip, evenly spaced in the order given."""
    chosen = []
    for soc in sorted({row.soc for row in rows}):
        members = [row for row in rows if row.soc == soc]
        chosen += members[:: max(1, round(len(members) / limit))]
    return chosen


def say(text: str) -> None:
    """Progress, to standard error."""
    sys.stderr.write(text + "\n")


def write_constants(architecture: str, fitted: Fit) -> None:
    """The fitted values as a layer over the architecture's published ones."""
    groups: dict[str, list[tuple[str, str, float]]] = {}
    for constant in (each for each in CONSTANTS if each.key in fitted.values):
        group, leaf = constant.key.split(".", 1)
        groups.setdefault(group, []).append((leaf, constant.meaning, fitted.values[constant.key]))
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
            note = f"{meaning}; {published:.4g} published or assumed"
            lines.append(
                f'    {leaf}: {{source: this_project, confidence: fitted, notes: "{note}"}}'
            )
    target = PROFILES / "microarchitecture" / f"{architecture}-calibrated.yaml"
    target.write_text("\n".join(_nested(lines)) + "\n", encoding="utf-8")


def write_residuals(rows: list[MeasuredRow]) -> None:
    """Quantiles of measured over simulated time, by architecture and by chip."""
    predictions = list(replay(rows, workers=os.cpu_count() or 1))
    chips: dict[str, list[Prediction]] = {}
    architectures: dict[str, list[Prediction]] = {}
    for each in predictions:
        chips.setdefault(each.row.soc, []).append(each)
        architectures.setdefault(load_profile(each.row.soc).architecture, []).append(each)
    text = [
        "# Made by reports/calibrate.py --residuals. Measured over simulated time: 10 % and 90 %",
        "# quantiles on the rows of reports/data/measured_ops.csv.gz, by operator class.",
        f"unmeasured_widening: {WIDENING}",
        "architectures:",
        as_yaml({name: spreads(members) for name, members in architectures.items()}, "  "),
        "chips:",
        as_yaml({name: spreads(m) for name, m in chips.items() if len(m) > 40}, "  "),
    ]
    (PROFILES / "calibration" / "residuals.yaml").write_text(
        "\n".join(text) + "\n", encoding="utf-8"
    )


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
