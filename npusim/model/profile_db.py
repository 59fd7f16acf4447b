"""A profiler's database as the table of kernels that it would write as CSV.

``msprof_*.db`` of msprof and ``ascend_pytorch_profiler*.db`` of torch_npu: texts are numbers that
STRING_IDS explains, times are nanoseconds. Source: Ascend/msprof,
docs/zh/user_guide/profile_data_file_references_db.md; older releases say blockDim for blockNum.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from npusim.reading.files import opened
from npusim.values.errors import FileError

HEADER: Final = (
    "Step Id", "Device_id", "Model ID", "Stream ID", "Name", "Type", "Accelerator Core",
    "Start Time(us)", "Duration(us)", "Block Num", "Mix Block Num", "HF32 Eligible",
    "Input Shapes", "Input Data Types", "Input Formats",
    "Output Shapes", "Output Data Types", "Output Formats", "Rated Freq",
)  # fmt: skip
_KERNEL: Final = (
    "name", "opType", "taskType", "inputShapes", "inputDataTypes", "inputFormats", "outputShapes",
    "outputDataTypes", "outputFormats", "hf32Eligible",
)  # fmt: skip
"""Columns of numbers that STRING_IDS explains."""
_NEEDED: Final = ("TASK", "COMPUTE_TASK_INFO", "STRING_IDS")
_DTYPES: Final = {"FP16": "FLOAT16", "FP32": "FLOAT", "FP64": "DOUBLE", "BFP16": "BFLOAT16"}
"""Of ENUM_HCCL_DATA_TYPE, where the operators' spelling is another."""


class _Row(NamedTuple):
    start_ns: int
    end_ns: int
    device: object
    model: object
    stream: object
    name: object
    kind: object
    core: object
    block: object
    mix: object
    hf32: object
    tensors: Sequence[object]


class DatabaseTable:
    """The rows of an open database in the order of their starts; a row's line is its place."""

    header = HEADER

    def __init__(self, database: sqlite3.Connection, tables: Collection[str]) -> None:
        self._database, self._tables = database, tables
        self._strings = dict(database.execute("SELECT id, value FROM STRING_IDS"))

    def fitting(self, skipped: list[int]) -> Iterator[tuple[int, Sequence[str]]]:
        """All rows: a database has none that are too short."""
        del skipped
        clock, steps = self._clock_mhz(), self._steps()
        rows = sorted((*self._kernels(), *self._collectives()), key=lambda row: row.start_ns)
        for line, row in enumerate(rows, 1):
            told = [row.device, row.model, row.stream, row.name, row.kind, row.core]
            step = next((name for name, low, high in steps if low <= row.start_ns < high), "")
            times = _microseconds(row.start_ns), _microseconds(row.end_ns - row.start_ns)
            more = [row.block, row.mix, row.hf32, *row.tensors]
            yield line, [step, *map(_text, told), *times, *map(_text, more), clock]

    def _kernels(self) -> Iterator[_Row]:
        query = """
            SELECT t.startNs, t.endNs, t.deviceId, t.modelId, t.streamId, c.*
            FROM COMPUTE_TASK_INFO c JOIN TASK t ON t.globalTaskId = c.globalTaskId
        """
        for record in self._database.execute(query):
            row = dict(record)
            name, kind, core, *tensors, hf32 = (
                self._strings.get(row.get(each)) for each in _KERNEL
            )
            block = row.get("blockNum", row.get("blockDim"))
            mix = row.get("mixBlockNum", row.get("mixBlockDim"))
            yield _Row(int(row["startNs"]), int(row["endNs"]), row["deviceId"], row["modelId"],
                       row["streamId"], name, kind, core, block, mix, hf32, tensors)  # fmt: skip

    def _collectives(self) -> Iterator[_Row]:
        if "COMMUNICATION_OP" not in self._tables:
            return
        names: dict[int, str] = {}
        if "ENUM_HCCL_DATA_TYPE" in self._tables:
            names = dict(self._database.execute("SELECT id, name FROM ENUM_HCCL_DATA_TYPE"))
        (only,) = self._database.execute("SELECT min(deviceId) FROM TASK").fetchone()
        for record in self._database.execute("SELECT * FROM COMMUNICATION_OP"):
            row = dict(record)
            dtype = names.get(row.get("dataType", -1), "")
            moved = row.get("count")
            tensor = (
                (int(moved), _DTYPES.get(dtype, dtype), "ND") if moved and dtype else [None] * 3
            )
            name, kind = (self._strings.get(row.get(each)) for each in ("opName", "opType"))
            yield _Row(int(row["startNs"]), int(row["endNs"]), row.get("deviceId", only), None,
                       None, name, kind, "COMMUNICATION", None, None, None,
                       [*tensor, *tensor])  # fmt: skip

    def _clock_mhz(self) -> str:
        """The highest clock of the AI cores: they rest at a lower one."""
        if "AICORE_FREQ" not in self._tables:
            return ""
        (highest,) = self._database.execute("SELECT max(freq) FROM AICORE_FREQ").fetchone()
        return _text(highest)

    def _steps(self) -> list[tuple[str, int, int]]:
        """The steps of torch_npu with their starts and ends."""
        if "STEP_TIME" not in self._tables:
            return []
        query = "SELECT id, startNs, endNs FROM STEP_TIME"
        return [(_text(name), low, high) for name, low, high in self._database.execute(query)]


@contextmanager
def database_in(file: Path) -> Iterator[DatabaseTable]:
    """The kernels in a database; FileError for any other file."""
    with opened(file):
        pass  # SQLite would make one that isn't there
    try:
        with closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)) as database:
            database.row_factory = sqlite3.Row
            tables = [name for (name,) in database.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table'")]  # fmt: skip
            if missing := [name for name in _NEEDED if name not in tables]:
                raise FileError(
                    file,
                    f"has no table {', '.join(missing)}",
                    "Give the msprof_*.db or ascend_pytorch_profiler*.db of a profile.",
                )
            yield DatabaseTable(database, tables)
    except (TypeError, KeyError, ValueError) as error:
        raise FileError(file, f"has other columns than a profile: {error}") from None
    except sqlite3.Error as error:
        raise FileError(file, f"can't be read as a database: {error}") from None


def _text(value: object) -> str:
    return "N/A" if value is None else str(value)


def _microseconds(nanoseconds: int) -> str:
    return f"{nanoseconds // 1000}.{nanoseconds % 1000:03d}"
