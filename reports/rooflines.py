"""Makes hw_profiles/calibration/rooflines.yaml: how far rooflines are from measured times.

    python reports/rooflines.py > hw_profiles/calibration/rooflines.yaml
    python reports/rooflines.py --check [TABLE]      # what the bands are worth, family by family

All measured operators count, those that npusim has a kernel for too: a roofline knows nothing of
kernels. `--check` prints three tables: with the file as it stands, with each family priced by all
the others, and with each source of measurements priced by all the others.
"""

from __future__ import annotations

import csv
import gzip
import sys
from dataclasses import dataclass
from math import ceil, floor
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from npusim.hardware import load_profile
from npusim.hardware.residuals import rooflines
from npusim.validation.roofline import roofline_us
from npusim.validation.table import read_rows
from npusim.validation.work import family_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

TABLE = Path(__file__).parent / "data" / "measured_ops.csv.gz"
LEAST_ROWS = 8  # a family with fewer rows has no band of its own
TRUSTED = ("A", "A-")
EVERYTHING = (0.08, 0.5, 0.92)  # a family that nobody measured may be odder than those measured
HEAD = """\
# Made by reports/rooflines.py. What a roofline takes for efficient and for fixed, and what
# measurements left over: measured over roofline time on the rows of
# builtin operators in reports/data/measured_ops.csv.gz, simulated or not, by
# family of operators (npusim/validation/work.py). `median` is the factor by which a roofline is
# raised to an estimate, `low` and `high` are the ends of the 80 % band; `everything`, for a family
# without rows, gives every family the same weight.
"""


@dataclass(frozen=True)
class Row:
    """A measured row: its family, who published it, and measured over roofline time."""

    family: str
    source: str
    ratio: float


def main() -> None:
    """Print the file, or what it is worth."""
    if "--check" not in sys.argv:
        sys.stdout.write(as_yaml(read(TABLE)))
        return
    named = [Path(word) for word in sys.argv[1:] if not word.startswith("--")]
    rows, trained = read(named[0] if named else TABLE, ("B",) if named else ()), read(TABLE)
    stands = spreads(trained)
    show("as it stands", rows, lambda _: stands)
    show("each family by the others", rows,
         lambda row: spreads(each for each in trained if each.family != row.family))  # fmt: skip
    show("each source by the others", rows,
         lambda row: spreads(each for each in trained if each.source != row.source))  # fmt: skip


def read(table: Path, also: tuple[str, ...] = ()) -> list[Row]:
    """The rows of builtin operators, simulated or not: a roofline knows nothing of kernels."""
    with gzip.open(table, "rt", newline="", encoding="utf-8") as stream:
        sources = [record["source_repo"] for record in csv.DictReader(stream)]
    found = []
    for row, source in zip(read_rows(table), sources, strict=True):
        profiled = row.trust in (*TRUSTED, *also) and row.impl.startswith("builtin")
        module = row.op.startswith("KernelBench")  # several operators in one row
        if not profiled or module or row.task is None or not row.soc:
            continue
        ratio = row.duration_us / roofline_us(load_profile(row.soc), row.task)
        found.append(Row(family_of(row.op), source, ratio))
    return found


Spread = dict[str, float]


def spreads(rows: Iterable[Row]) -> dict[str, Spread]:
    """The spread of each family with enough rows, and that of everything."""
    families: dict[str, list[float]] = {}
    for row in rows:
        families.setdefault(row.family, []).append(row.ratio)
    weights = [1 / len(ratios) for ratios in families.values() for _ in ratios]
    every = [ratio for ratios in families.values() for ratio in ratios]
    found = {"": _weighted(every, weights)}
    for family, ratios in sorted(families.items()):
        if len(ratios) >= LEAST_ROWS:
            found[family] = _spread(ratios)
    return found


def _spread(ratios: list[float]) -> Spread:
    """Ranks that hold for a row which isn't among these (conformal prediction)."""
    ranked, rows = sorted(ratios), len(ratios)
    low = ranked[max(0, floor(0.1 * (rows + 1)) - 1)]
    high = ranked[min(rows, ceil(0.9 * (rows + 1))) - 1]
    return {"low": low, "median": float(np.median(ratios)), "high": high, "rows": rows}


def _weighted(ratios: list[float], weights: list[float]) -> Spread:
    order = np.argsort(ratios)
    reached = np.cumsum(np.array(weights)[order]) / sum(weights)
    ends = (ratios[order[int(np.searchsorted(reached, share))]] for share in EVERYTHING)
    return dict(zip(("low", "median", "high"), ends, strict=True)) | {"rows": len(ratios)}


def as_yaml(rows: list[Row]) -> str:
    """The file."""
    known = rooflines().yardstick
    lines = ["yardstick:"]
    lines += [f"  {name}: {value:g}" for name, value in known if name != "provenance"]
    lines += [f"  provenance: {{{', '.join(f'{k}: {v}' for k, v in known.provenance.items())}}}"]
    found = spreads(rows)
    lines += [f"everything: {_flow(found.pop(''))}", "classes:"]
    for family, spread in found.items():
        sources = {row.source for row in rows if row.family == family}
        lines.append(f"  {family}: {_flow(spread)}  # {', '.join(sorted(sources))}")
    return HEAD + "\n".join(lines) + "\n"


def _flow(spread: Spread) -> str:
    return "{" + ", ".join(f"{key}: {_three(value)}" for key, value in spread.items()) + "}"


def _three(value: float) -> str:
    """Three significant digits, never an exponent."""
    return f"{value if isinstance(value, int) else float(f'{value:.3g}'):.10g}"


def show(title: str, rows: list[Row], priced_by: Callable[[Row], dict[str, Spread]]) -> None:
    """Error and coverage of every family, and of all."""
    known: dict[tuple[str, str], dict[str, Spread]] = {}
    judged: dict[str, list[tuple[float, bool]]] = {}
    for row in rows:
        key = (row.family, row.source)
        known[key] = known.get(key) or priced_by(row)
        band = known[key].get(row.family, known[key][""])
        inside = min(band["low"], band["median"]) <= row.ratio <= max(band["high"], band["median"])
        judged.setdefault(row.family, []).append((abs(band["median"] / row.ratio - 1), inside))
    judged["all"] = [each for several in judged.values() for each in several]
    sys.stdout.write(f"\n{title}: rows, median error, its 90th percentile, in the 80 % band\n")
    for family, pairs in judged.items():
        errors, inside = np.array(pairs).T
        middle, tail = np.quantile(errors, (0.5, 0.9))
        sys.stdout.write(f"  {family:24s} {len(pairs):4d} {middle:8.0%} {tail:9.0%} "
                         f"{inside.mean():5.0%}\n")  # fmt: skip


if __name__ == "__main__":
    main()
