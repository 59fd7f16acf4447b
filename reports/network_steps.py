"""Training steps out of a measured table: the `kernel_details.csv` that the profiler wrote, nearly.

A measured table folds repetitions of one kernel into a row with a count; here they are unfolded
again.  What a table doesn't have is the order of the kernels, so they stand row by row.  Attributes
are left out, as the profiler leaves them out.
"""

from __future__ import annotations

import csv
import gzip
import io
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final

from npusim.values.errors import FileError, UnknownNameError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

HEADER: Final = (
    "Step Id",
    "Device_id",
    "Name",
    "Type",
    "Accelerator Core",
    "Start Time(us)",
    "Duration(us)",
    "Wait Time(us)",
    "Block Num",
    "Input Shapes",
    "Input Data Types",
    "Input Formats",
    "Output Shapes",
    "Output Data Types",
    "Output Formats",
)
"""Source: Ascend/pytorch torch_npu/profiler/analysis/prof_common_func/_csv_headers.py."""

_MARK: Final = "train step"
_NEEDED: Final = ("op", "workload", "duration_us", "count")


def training_steps(table: str | Path) -> dict[str, int]:
    """The training steps in a measured table and the kernels that each of them launches."""
    found: Counter[str] = Counter()
    for row in _rows(Path(table)):
        if _MARK in row["workload"]:
            found[row["workload"]] += _count(row)
    return dict(found)


def kernel_details(table: str | Path, workload: str) -> str:
    """One step of a measured table as the text of a kernel_details.csv; times in microseconds.

    Raises UnknownNameError for a workload that the table doesn't have.
    """
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(HEADER)
    start_us = 0.0
    number = 0
    names: dict[str, None] = {}
    for row in _rows(Path(table)):
        names[row["workload"]] = None
        if row["workload"] != workload:
            continue
        for _ in range(_count(row)):
            number += 1
            writer.writerow(_line(row, number, start_us))
            start_us += float(row["duration_us"])
    if not number:
        steps = [name for name in names if _MARK in name]
        raise UnknownNameError(f"training step in {table}", workload, steps)
    return text.getvalue()


def _line(row: Mapping[str, str], number: int, start_us: float) -> tuple[object, ...]:
    shapes = (_shapes(row["input_shapes"]), _shapes(row["output_shapes"]))
    return (
        1,
        0,
        f"{row['op']}_{number}",
        row["op"],
        row.get("task_type") or "AI_CORE",
        f"{start_us:.3f}",
        row["duration_us"],
        0,
        row.get("block_dim") or "N/A",
        shapes[0],
        row["input_dtypes"] or "N/A",
        row.get("input_formats") or "N/A",
        shapes[1],
        row["output_dtypes"] or "N/A",
        row.get("output_formats") or "N/A",
    )


def _shapes(text: str) -> str:
    """Shapes as the profiler prints them: a scalar is an empty slot."""
    return ";".join("" if slot.strip() == "scalar" else slot.strip() for slot in text.split(";"))


def _count(row: Mapping[str, str]) -> int:
    return int(row["count"] or 1)


def _rows(table: Path) -> Iterator[dict[str, str]]:
    try:
        opened = gzip.open if table.suffix == ".gz" else open
        with opened(table, "rt", newline="", encoding="utf-8") as stream:
            reader = csv.DictReader(stream)
            missing = [name for name in _NEEDED if name not in (reader.fieldnames or ())]
            if missing:
                raise FileError(table, f"lacks the columns {', '.join(missing)}")
            yield from reader
    except OSError as error:
        raise FileError(table, error.strerror or str(error)) from error
