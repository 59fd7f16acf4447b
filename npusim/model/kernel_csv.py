"""Reads the kernel tables of the profilers: ``op_summary_*.csv`` and ``kernel_details.csv``.

msprof writes ``op_summary`` (Op Name, OP Type, Task Type, Task Duration(us)), torch_npu writes
``kernel_details`` (Name, Type, Accelerator Core, Duration(us)), msprof op ``OpBasicInfo`` (a row);
older releases say Block Dim where newer ones say Block Num. Shapes, dtypes and formats hold one
slot per tensor, joined by ``;``. What is collected at level 0 has neither types nor tensors.
Source: Ascend/msprof analysis/csrc/application/summary/op_summary_assembler.cpp;
Ascend/pytorch torch_npu/profiler/analysis/prof_common_func/_csv_headers.py;
Ascend/msopprof csrc/op_profiling/profiling/device/data_parse/metric_csv_header.h.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from npusim.catalogue.facts import catalogue
from npusim.catalogue.names import operator_named
from npusim.model.profile_db import DatabaseTable, database_in
from npusim.model.profile_files import DATABASE, kernel_table, no_kernel_table
from npusim.reading.tables import Table, table_in
from npusim.values.errors import FileError
from npusim.values.language import say

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
    "stream": ("Stream ID",),
    "device": ("Device_id", "Device Id"),
    "cube_us": ("aicore_time(us)", "aic_time(us)"),
    "cube_cycles": ("aic_total_cycles", "total_cycles"),
    "vector_us": ("aiv_time(us)",),
    "vector_cycles": ("aiv_total_cycles",),
    "rated_mhz": ("Rated Freq",),
}
_SINGLE = (
    *("name", "op_type", "task_type", "duration_us", "block_num", "mix_block_num"),
    *("start_us", "step", "hf32", "model", "stream", "device"),
    *("cube_us", "cube_cycles", "vector_us", "vector_cycles", "rated_mhz"),
)
_NO_COLUMN = -1
_MISSING = frozenset({"", "N/A", "NA"})
_NO_MODEL = _MISSING | {"4294967295"}  # what is launched call by call
_ABSENT = _MISSING | {"UNDEFINED", "DT_UNDEFINED", "NONE", "NULL"}
_COMMUNICATION = re.compile(
    r"(?i)hcom_|hccl|allreduce|allgather|reducescatter|alltoall|broadcast_aiv"
)
_TYPE_IN_NAME = re.compile(
    r"acl\w*_(?P<call>[A-Za-z]\w*?)|trans_(?P<trans>[A-Za-z]\w*?)_\d+"
    r"|(?P<hcom>hcom_\w*?_)_\d+_\d+_\d+|(?P<node>[A-Za-z]\w*?[A-Za-z])_?\d+"
)
"""`aclnnAddmm_MatMulV3Common_MatMulV3`, `trans_TransData_0`, `hcom_allReduce__097_4_1`, `Conv2D1`.

The operator type is in these names; in that of a node only if there is such an operator.
"""
_CORES_OF = {"vector": "AI_VECTOR_CORE", "cube": "AI_CORE", "mix": "MIX_AIC", "aicore": "AI_CORE"}
"""What msprof op calls the type of an operator."""


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
    `line` is where it stands in the file. `cycles_per_us` are those of all its blocks together,
    `rated_mhz` what the file calls the clock.
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
    stream: str = ""
    device: str = ""
    cycles_per_us: float | None = None
    rated_mhz: float | None = None

    @property
    def op(self) -> str:
        """The operator type, or else the kernel's name."""
        return self.op_type or self.name

    @property
    def has_tensors(self) -> bool:
        """Whether the file has shapes for it."""
        return bool(self.tensors.input_shapes or self.tensors.output_shapes)

    @property
    def is_communication(self) -> bool:
        """Whether it is a task of the collective communication library."""
        return is_communication(self.op, self.task_type)


def is_communication(op: str, task_type: str) -> bool:
    """True for a task of the collective communication library."""
    return task_type in ("COMMUNICATION", "HCCL") or bool(_COMMUNICATION.match(op))


def is_absent(text: str) -> bool:
    """Whether a slot says that there is no tensor."""
    return text.upper() in _ABSENT


class KernelRows:
    """The launches in a kernel table, in order; FileError for any other file.

    `path` is the table or a profiler's folder that has one. After they were read, `skipped` has the
    lines of rows that don't fit the header, and `has_tensors` says whether there are columns of
    tensors.
    """

    def __init__(self, path: Path) -> None:
        self.file = kernel_table(path)
        self.skipped: list[int] = []
        self.has_tensors = False

    def __iter__(self) -> Iterator[Kernel]:
        is_database = self.file.suffix.lower() == DATABASE
        with database_in(self.file) if is_database else table_in(self.file, guess=True) as table:
            columns = _columns(self.file, table.header)
            self.skipped, self.has_tensors = [], "input_dtypes" in columns
            found = False
            for kernel in _kernels(self.file, table, columns, self.skipped):
                found = True
                yield kernel
        if self.skipped and not found:
            raise FileError(
                self.file,
                say("none of its {skipped} rows has the {header} fields of the header").format(
                    skipped=len(self.skipped), header=len(table.header)
                ),
                say(
                    "Cells with commas, such as shapes, are in quotes where a "
                    "profiler writes them; export it again."
                ),
            )


def _kernels(
    file: Path, table: Table | DatabaseTable, columns: Mapping[str, int], skipped: list[int]
) -> Iterator[Kernel]:
    (name, op_type, task_type, duration, block, mix, start, step, hf32, model, stream, device,
     cube_us, cube_cycles, vector_us, vector_cycles, rated_mhz, *slots) = (
        columns.get(ours, _NO_COLUMN) for ours in (*_SINGLE, *Tensors._fields)
    )  # fmt: skip
    of_one_operator = "rated_mhz" in columns and "task_type" not in columns
    for line, fields in table.fitting(skipped):
        row = (*fields, "")  # what a column says that the file hasn't got
        kind, core = _text(row[op_type]), row[task_type].strip()
        if of_one_operator:  # its Op Type says which cores it runs on
            kind, core = "", _CORES_OF.get(kind.lower(), "")
        on_vector = core.upper() == "AI_VECTOR_CORE"
        time, cycles = (vector_us, vector_cycles) if on_vector else (cube_us, cube_cycles)
        yield Kernel(
            row[name].strip(),
            kind or _type_in(row[name].strip()),
            core,
            _number(file, line, "duration", row[duration].strip()),
            _whole(file, line, "block number", row[block].strip()),
            _whole(file, line, "block number", row[mix].strip()),
            _slots(*(row[index] for index in slots)),
            _number(file, line, "start time", _not_rounded(row[start].strip())),
            row[step].strip(),
            row[hf32].strip().upper() == "YES",
            line,
            row[model].strip() not in _NO_MODEL,
            _text(row[stream]),
            _text(row[device]),
            _rate(row[cycles], row[time]),
            _counted(row[rated_mhz]),
        )


def _text(cell: str) -> str:
    text = cell.strip()
    return "" if text in _MISSING else text


def _not_rounded(start: str) -> str:
    """A start, which spreadsheets round to hours by writing it with an exponent: then none."""
    return "" if "e" in start.lower() else start


@lru_cache(maxsize=65_536)
def _type_in(name: str) -> str:
    """The operator type that a kernel's name tells, else nothing."""
    found = _TYPE_IN_NAME.fullmatch(name)
    if found is None:
        return ""
    kind = str(found[found.lastgroup or 0])
    is_node = found.lastgroup == "node"
    return "" if is_node and operator_named(catalogue(), kind) is None else kind


def _counted(cell: str) -> float | None:
    """A positive number; None for anything else: counters are extra."""
    try:
        number = float(cell)
    except ValueError:
        return None
    return number if 0 < number < math.inf else None


def _rate(cycles: str, time_us: str) -> float | None:
    counted, lasted_us = _counted(cycles), _counted(time_us)
    return counted / lasted_us if counted and lasted_us else None


def _columns(file: Path, header: Sequence[str]) -> dict[str, int]:
    """Where our names stand; column names may be padded, and their case differs by release."""
    given = {name.strip().lower(): place for place, name in enumerate(header) if name}
    found = {
        ours: given[theirs.lower()]
        for ours, spellings in reversed(HEADERS.items())
        for theirs in reversed(spellings)
        if theirs.lower() in given
    }
    told_by_time = "duration_us" in found and not {"task_type", "start_us"}.isdisjoint(found)
    if "name" not in found or not ("op_type" in found or told_by_time):
        missing = "Type" if "name" in found else "Name / Op Name"
        raise no_kernel_table(file, header, say("has no column {missing}").format(missing=missing))
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
        raise FileError(
            file,
            say("line {line}: the {what} {text!r} isn't a number").format(
                line=line, what=what, text=text
            ),
        ) from None
    if not 0 <= number < math.inf:
        raise FileError(
            file,
            say("line {line}: the {what} is {text}; it must be 0 or more").format(
                line=line, what=what, text=text
            ),
        )
    return number


def _whole(file: Path, line: int, what: str, text: str) -> int | None:
    number = _number(file, line, what, text)
    return None if number is None else int(number)
