"""CSV as the profilers write it: commas, plain line ends, their own mark for a missing value."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from io import StringIO
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    Value = float | int | str

_DECIMALS = 6  # as in the tables of the msopprof quick start


def table(columns: Sequence[str], rows: Iterable[Mapping[str, Value]], *, missing: str) -> str:
    """The text of a CSV file: the header, then the rows with `missing` for what they don't have."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([cell(row.get(name, missing)) for name in columns] for row in rows)
    return text.getvalue()


def cell(value: Value) -> str:
    """A value as text: six decimals at most, no idle zeros, no exponent."""
    if isinstance(value, float):
        text = f"{value:.{_DECIMALS}f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    return str(value)
