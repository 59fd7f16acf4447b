"""The residuals of a set of predictions, by operator class: what bands are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from npusim.operators.registry import band_class

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from npusim.validation.replay import Prediction

LEAST_ROWS = 12  # a class with fewer rows has no band of its own
_QUANTILES = (
    0.085,
    0.915,
)  # a little outside 10 % and 90 %: rows that no fit has seen scatter more

Table = dict[str, dict[str, float | int]]


def spreads(predictions: Iterable[Prediction]) -> tuple[dict[str, float | int], Table]:
    """Quantiles of measured over simulated time: of all rows, and of each larger class."""
    ratios: dict[str, list[float]] = {}
    for each in predictions:
        if each.simulated_us:
            kind = band_class(each.row.op)
            ratios.setdefault(kind, []).append(each.row.duration_us / each.simulated_us)
    everything = _spread([ratio for values in ratios.values() for ratio in values])
    classes = {
        kind: _spread(values)
        for kind, values in sorted(ratios.items())
        if len(values) >= LEAST_ROWS
    }
    return everything, classes


def as_yaml(tables: Mapping[str, tuple[dict[str, float | int], Table]], indent: str) -> str:
    """Spreads by chip or architecture, as a block of YAML."""
    lines = []
    for name, (everything, classes) in sorted(tables.items()):
        lines += [
            f"{indent}{name}:",
            f"{indent}  everything: {_flow(everything)}",
            f"{indent}  classes:",
        ]
        lines += [f"{indent}    {kind}: {_flow(spread)}" for kind, spread in classes.items()]
        if not classes:
            lines[-1] += " {}"
    return "\n".join(lines)


def _spread(ratios: list[float]) -> dict[str, float | int]:
    low, high = np.quantile(ratios, _QUANTILES)
    return {"low": round(float(low), 3), "high": round(float(high), 3), "rows": len(ratios)}


def _flow(spread: Mapping[str, float | int]) -> str:
    return "{" + ", ".join(f"{key}: {value}" for key, value in spread.items()) + "}"
