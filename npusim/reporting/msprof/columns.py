"""CSV as the profilers write it: their columns, file by file in order, and their spelling.

Chips with cube and vector cores of their own (A2, and A3 after it) have a row for each core of each
block; 310P has one row for the operator. msopprof has no columns for 910A: an AI core of that chip
holds both units like one of a 310P, so it gets those, which is our choice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Final

from npusim.reading.files import read_text
from npusim.reading.markup import yaml_mapping
from npusim.reporting.csvfile import csv_text

MISSING: Final = "NA"
"""What msopprof prints for a value that it doesn't have (msprof prints another mark)."""

Value = float | int | str
_DECIMALS: Final = 6  # as in the tables of the msopprof quick start

BASIC: Final = "OpBasicInfo"


@cache
def tables_of(kind: str) -> dict[str, tuple[str, ...]]:
    """The files of a kind of chip (split, unified) or of a model run, and their columns."""
    file = resources.files("npusim.reporting.msprof").joinpath("columns.yaml")
    listed = yaml_mapping(read_text(file), str(file))[kind]
    return {name: tuple(columns) for name, columns in listed.items()}


def columns_of(core_style: str) -> dict[str, tuple[str, ...]]:
    """The files and their columns for a chip whose profile has this `cores.style`."""
    return tables_of("split" if core_style == "split" else "unified")


def table(columns: Sequence[str], rows: Iterable[Mapping[str, Value]], *, missing: str) -> str:
    """The text of a CSV file: the header, then the rows with `missing` for what they don't have."""
    return csv_text(columns, ([cell(row.get(name, missing)) for name in columns] for row in rows))


def cell(value: Value) -> str:
    """A value as text: six decimals at most, no idle zeros, no exponent."""
    if isinstance(value, float):
        text = f"{value:.{_DECIMALS}f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    return str(value)
