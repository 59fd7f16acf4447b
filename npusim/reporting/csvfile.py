"""The text of CSV files, in which no cell is a formula for a spreadsheet."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Sequence
from io import StringIO
from typing import Final

_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


def csv_text(columns: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    """A header and its rows; text that a spreadsheet would compute gets an apostrophe in front."""
    text = StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(_harmless, columns))
    writer.writerows(map(_harmless, row) for row in rows)
    return text.getvalue()


def _harmless(value: object) -> object:
    if not isinstance(value, str) or not value.startswith(_FORMULA):
        return value
    try:
        return f"'{value}" if math.isnan(float(value)) else value
    except ValueError:
        return f"'{value}"
