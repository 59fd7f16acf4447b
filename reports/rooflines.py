"""Makes hw_profiles/calibration/rooflines.yaml: how far rooflines are from measured times.

    python reports/rooflines.py > hw_profiles/calibration/rooflines.yaml

Only operators that npusim has no kernel for count: for them a roofline is all there is.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from spreads import LEAST_ROWS

from npusim.hardware import load_profile
from npusim.model.operator_class import kind_of
from npusim.operators.registry import band_class
from npusim.validation.roofline import roofline_us
from npusim.validation.table import read_rows

TABLE = Path(__file__).parent / "data" / "measured_ops.csv.gz"
HEAD = """\
# Made by reports/rooflines.py. Measured over roofline time: 10 % and 90 % quantiles on those rows
# of reports/data/measured_ops.csv.gz whose operators aren't simulated, by operator class.
"""


def main() -> None:
    """Print the file."""
    kinds: dict[str, list[float]] = {}
    for row in read_rows(TABLE):
        profiled = row.trust in ("A", "A-") and row.impl.startswith("builtin")
        if not profiled or row.task is None or not row.soc or band_class(row.op):
            continue
        ratio = row.duration_us / roofline_us(load_profile(row.soc), row.task)
        kinds.setdefault(kind_of(row.op, ""), []).append(ratio)
    everything = [ratio for ratios in kinds.values() for ratio in ratios]
    sys.stdout.write(f"{HEAD}everything: {flow(everything)}\nclasses:\n")
    for kind, ratios in sorted(kinds.items()):
        if len(ratios) >= LEAST_ROWS:
            sys.stdout.write(f"  {kind}: {flow(ratios)}\n")


def flow(ratios: list[float]) -> str:
    """One spread as YAML."""
    low, high = np.quantile(ratios, (0.1, 0.9))
    return f"{{low: {_three(low)}, high: {_three(high)}, rows: {len(ratios)}}}"


def _three(value: float) -> str:
    """Three significant digits, never an exponent."""
    return f"{float(f'{value:.3g}'):g}"


if __name__ == "__main__":
    main()
