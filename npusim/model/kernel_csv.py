"""Reads the kernel tables of the profilers: ``op_summary_*.csv`` and ``kernel_details.csv``.

msprof writes ``op_summary`` (Op Name, OP Type, Task Type, Task Duration(us)), torch_npu writes
``kernel_details`` (Name, Type, Accelerator Core, Duration(us)); older releases say Block Dim where
newer ones say Block Num. Shapes, dtypes and formats hold one slot per tensor, joined by ``;``.
Source: Ascend/msprof analysis/csrc/application/summary/op_summary_assembler.cpp;
Ascend/pytorch torch_npu/profiler/analysis/prof_common_func/_csv_headers.py.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from npusim.reading.tables import Table, table_in
from npusim.values.errors import FileError

# Our name -> the headers that mean it, the newest first.
HEADERS = {
    "name": ("Name", "Op Name", "OP Name"),
    "op_type": ("Type", "OP Type", "Op Type"),
    "task_type": ("Accelerator Core", "Task Type"),
    "duration_us": ("Duration(us)", "Task Duration(us)"),
    "block_num": ("Block Num", "Block Dim"),
    "mix_block_num": ("Mix Block Num", "Mix Block Dim"),
    "input_shapes": ("Input Shapes",),
    "input_dtypes": ("Input Data Types",),
    "input_formats": ("Input Formats",),
    "output_shapes": ("Output Shapes",),
    "output_dtypes": ("Output Data Types",),
    "output_formats": ("Output Formats",),
    "start_us": ("Start Time(us)", "Task Start Time(us)"),
    "step": ("Step Id",),
    "hf32": ("HF32 Eligible",),
    "model": ("Model ID",),
}
_SINGLE = (
    *("name", "op_type", "task_type", "duration_us", "block_num", "mix_block_num"),
    *("start_us", "step", "hf32", "model"),
)
_NO_COLUMN = -1
_REQUIRED = ("name", "op_type", "input_dtypes")
_MISSING = frozenset({"", "N/A", "NA"})
_NO_MODEL = _MISSING | {"4294967295"}  # what is launched call by call
_ABSENT = _MISSING | {"UNDEFINED", "DT_UNDEFINED", "NONE", "NULL"}
_COMMUNICATION = re.compile(
    r"(?i)hcom_|hccl|allreduce|allgather|reducescatter|alltoall|broadcast_aiv"
)
NO_OPERATOR = "communication is the business of HCCL, not of an operator"


class Tensors(NamedTuple):
    """The tensors of a launch; texts are as in the file, one slot per tensor."""

    input_shapes: tuple[str, ...]
    input_dtypes: tuple[str, ...]
    input_formats: tuple[str, ...]
    output_shapes: tuple[str, ...]
    output_dtypes: tuple[str, ...]
    output_formats: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Kernel:
    """One launch as a profiler saw it.

    `duration_us`, `start_us` and the block counts are None where the file has ``N/A``. `hf32` says
    that the cube rounded float32 to HF32; `in_model` that it is a task of a compiled model;
    `line` is where it stands in the file.
    """

    name: str
    op_type: str
    task_type: str
    duration_us: float | None
    block_num: int | None
    mix_block_num: int | None
    tensors: Tensors
    start_us: float | None = None
    step: str = ""
    hf32: bool = False
    line: int = 0
    in_model: bool = False

    @property
    def op(self) -> str:
        """The operator type, or else the kernel's name."""
        return self.op_type or self.name


def is_communication(op: str, task_type: str) -> bool:
    """True for a task of the collective communication library."""
    return task_type in ("COMMUNICATION", "HCCL") or bool(_COMMUNICATION.match(op))


def is_absent(text: str) -> bool:
    """Whether a slot says that there is no tensor."""
    return text.upper() in _ABSENT


def read_kernels(file: Path) -> Iterator[Kernel]:
    """The launches in a kernel table, in order; raises FileError for any other file."""
    with table_in(file) as table:
        yield from _kernels(file, table)


def _kernels(file: Path, table: Table) -> Iterator[Kernel]:
    columns = _columns(file, table.header)
    name, op_type, task_type, duration, block, mix, start, step, hf32, model, *slots = (
        columns.get(ours, _NO_COLUMN) for ours in (*_SINGLE, *Tensors._fields)
    )
    for line, fields in table:
        row = (*fields, "")  # what a column says that the file hasn't got
        kind = row[op_type].strip()
        yield Kernel(
            row[name].strip(),
            "" if kind in _MISSING else kind,
            row[task_type].strip(),
            _number(file, line, "duration", row[duration].strip()),
            _whole(file, line, "block number", row[block].strip()),
            _whole(file, line, "block number", row[mix].strip()),
            _slots(*(row[index] for index in slots)),
            _number(file, line, "start time", row[start].strip()),
            row[step].strip(),
            row[hf32].strip().upper() == "YES",
            line,
            row[model].strip() not in _NO_MODEL,
        )


def _columns(file: Path, header: Sequence[str]) -> dict[str, int]:
    """Where our names stand; column names may be padded, and their case differs by release."""
    given = {name.strip().lower(): place for place, name in enumerate(header) if name}
    found = {
        ours: given[theirs.lower()]
        for ours, spellings in reversed(HEADERS.items())
        for theirs in reversed(spellings)
        if theirs.lower() in given
    }
    missing = [HEADERS[name][0] for name in _REQUIRED if name not in found]
    if missing:
        problem = f"has no column {' / '.join(missing)}"
        hint = "Give an op_summary_*.csv of msprof or a kernel_details.csv of torch_npu."
        raise FileError(file, problem, hint)
    return found


@lru_cache(maxsize=65_536)  # a profile has many rows and few different ones
def _slots(*cells: str) -> Tensors:
    """The slots of cells; a scalar's empty shape keeps its slot, a missing cell has none."""
    return Tensors(
        *(
            ()
            if cell.strip() in _MISSING
            else tuple(part.strip().strip('"') for part in cell.split(";"))
            for cell in cells
        )
    )


def _number(file: Path, line: int, what: str, text: str) -> float | None:
    if text in _MISSING:
        return None
    try:
        number = float(text)
    except ValueError:
        raise FileError(file, f"line {line}: the {what} {text!r} isn't a number") from None
    if not 0 <= number < math.inf:
        raise FileError(file, f"line {line}: the {what} is {text}; it must be 0 or more")
    return number


def _whole(file: Path, line: int, what: str, text: str) -> int | None:
    number = _number(file, line, what, text)
    return None if number is None else int(number)
