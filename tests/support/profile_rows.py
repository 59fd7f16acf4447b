"""Rows of a profiler's kernel_details, written as it writes them."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from npusim.hardware import Profile, load_profile
from npusim.model.judging import judge

SOC = "Ascend910B2"
HEADER = ["Step Id", "Name", "Type", "Accelerator Core", "Start Time(us)", "Duration(us)",
          "Block Dim", "Input Shapes", "Input Data Types", "Input Formats",
          "Output Shapes", "Output Data Types", "Output Formats"]  # fmt: skip


@dataclass(frozen=True)
class Row:
    """A row of kernel_details; the start follows from those before it."""

    op: str
    inputs: Sequence[str]
    output: str
    dtype: str = "FLOAT16"
    formats: tuple[str, str] = ("ND", "ND")
    core: str = "AI_VECTOR_CORE"
    blocks: int = 40
    us: float = 0.0
    gap_us: float = 1.0


def write(path: Path, rows: Sequence[Row]) -> Path:
    start_us = 0.0
    with path.open("w", newline="") as stream:
        table = csv.writer(stream)
        table.writerow(HEADER)
        for row in rows:
            start_us += row.gap_us
            given, made = row.formats
            dtypes, formats = (";".join([each] * len(row.inputs)) for each in (row.dtype, given))
            launch = (1, row.op, row.op, row.core, start_us, row.us, row.blocks)
            tensors = (";".join(row.inputs), dtypes, formats, row.output, row.dtype, made)
            table.writerow((*launch, *tensors))
            start_us += row.us
    return path


def at_estimate(path: Path, rows: Sequence[Row], profile: Profile | None = None) -> list[Row]:
    """The same rows, each as long as it is expected to be, and on as many cores."""
    found = judge(write(path, rows), profile or load_profile(SOC)).launches
    return [
        replace(row, us=round(each.expected_us, 2), blocks=each.timed.timing.tasks[0].block_dim)
        for row, each in zip(rows, found, strict=True)
    ]


ADD = Row("Add", ["4096,1024", "4096,1024"], "4096,1024")
ON_CPU = Row("Add", ["64,64", "64,64"], "64,64", "DOUBLE", core="AI_CPU", us=90.0)
