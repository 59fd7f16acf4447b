"""CSV as the profilers write it: commas, plain line ends, their own mark for a missing value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from npusim.report.csvfile import csv_text

if TYPE_CHECKING:
    Value = float | int | str

_DECIMALS = 6  # as in the tables of the msopprof quick start


def table(columns: Sequence[str], rows: Iterable[Mapping[str, Value]], *, missing: str) -> str:
    """The text of a CSV file: the header, then the rows with `missing` for what they don't have."""
    return csv_text(columns, ([cell(row.get(name, missing)) for name in columns] for row in rows))


def cell(value: Value) -> str:
    """A value as text: six decimals at most, no idle zeros, no exponent."""
    if isinstance(value, float):
        text = f"{value:.{_DECIMALS}f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    return str(value)
