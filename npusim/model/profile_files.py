"""Where a profiler's kernel table is, and what its other files are.

torch_npu writes ``*_ascend_pt/ASCEND_PROFILER_OUTPUT/kernel_details.csv``, a folder for each rank;
msprof ``PROF_*/mindstudio_profiler_output/op_summary_*.csv``, releases before CANN 7
``PROF_*/device_*/summary/op_summary_*.csv``; msprof op ``OPPROF_*/OpBasicInfo.csv``, or one in a
folder for each kernel. Source: Ascend/msprof and Ascend/msopprof, user guides; Ascend/pytorch
torch_npu/profiler.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from npusim.reading.files import kind_of
from npusim.values.errors import FileError
from npusim.values.language import say

KERNEL_TABLES: Final = "a kernel_details.csv of torch_npu or an op_summary_*.csv of msprof"

DATABASE: Final = ".db"
PROFILES: Final = (".csv", DATABASE, ".json", ".bin")
"""Endings of what profilers write; the last two are refused with a word on what to give."""

_PATTERNS: Final = (
    ("kernel_details.csv", "op_summary_*.csv", "OpBasicInfo*.csv"),
    (
        "ASCEND_PROFILER_OUTPUT/kernel_details.csv",
        "mindstudio_profiler_output/op_summary_*.csv",
        "device_*/summary/op_summary_*.csv",
        "summary/op_summary_*.csv",
        "*/[0-9]*/OpBasicInfo*.csv",
        "[0-9]*/OpBasicInfo*.csv",
    ),
    (
        "ASCEND_PROFILER_OUTPUT/ascend_pytorch_profiler*.db",
        "ascend_pytorch_profiler*.db",
        "msprof_*.db",
    ),
)
"""Tables of a folder itself, and of the folders that the profilers make in it."""

_DEEPEST: Final = 3  # folders between the one that is given and a profiler's own
_LISTED: Final = 16
_MOST_FOLDERS: Final = 2000

# A column that only this table has, what it is, and what to give instead.
_OTHER_TABLES: Final = {
    "core type": ("op_statistic, sums by operator type", KERNEL_TABLES),
    "call stack": ("operator_details, what the host called", KERNEL_TABLES),
    "host self duration(us)": ("operator_details, what the host called", KERNEL_TABLES),
    "allocation time(us)": ("operator_memory, allocations", KERNEL_TABLES),
    "api name": ("api_statistic, calls of the host", KERNEL_TABLES),
    "kernel_name": ("task_time, tasks without types and tensors", KERNEL_TABLES),
    "computing": ("step_trace_time, sums by step", KERNEL_TABLES),
    "block_id": ("one of the counters of msprof op", "the OpBasicInfo.csv beside it"),
    "duration_us": (
        "a table of measurements rather than a profile",
        "it to `npusim validate`, or " + KERNEL_TABLES,
    ),
}
_OTHER_ENDINGS: Final = {
    ".json": "is a timeline or a report, without a kernel's tensors",
    ".bin": "is a profiler's raw data",
}


def kernel_table(path: Path) -> Path:
    """The kernel table that is meant by a path: itself, or the only one in a profiler's folder.

    Raises FileError for a folder with none or several, and for the profilers' other files.
    """
    if kind_of(path) != "folder":
        if (what := _OTHER_ENDINGS.get(path.suffix.lower())) and kind_of(path) == "file":
            raise FileError(path, what, _instead(path.parent))
        return path
    found = _tables_in(path)
    if not found:
        raise FileError(
            path, say("is a folder without {a_table}").format(a_table=_a_table()), _why_none(path)
        )
    if len(found) > 1:
        listed = "\n".join(f"  {each}" for each in found[:_LISTED])
        more = (
            say("\n  and {found} more").format(found=len(found) - _LISTED)
            if len(found) > _LISTED
            else ""
        )
        raise FileError(
            path,
            say("holds {found} kernel tables").format(found=len(found)),
            say("Give one of them:\n{listed}{more}").format(listed=listed, more=more),
        )
    return found[0]


def is_profile(path: Path) -> bool:
    """Whether a path is one of a profiler's files or folders."""
    kind = kind_of(path)
    if kind == "folder":
        return bool(_tables_in(path))
    return kind == "file" and path.suffix.lower() in PROFILES


def no_kernel_table(file: Path, header: Sequence[str], problem: str) -> FileError:
    """The error for a CSV file with other columns, by what it is where they tell."""
    columns = {name.strip().lower() for name in header}
    if not columns:
        return FileError(
            file, "is empty", say("Give {kernel_tables}.").format(kernel_tables=KERNEL_TABLES)
        )
    for column, (what, instead) in _OTHER_TABLES.items():
        if column in columns:
            return FileError(
                file,
                say("is {what}, not a table of kernels").format(what=what),
                say("Give {instead}.").format(instead=instead),
            )
    return FileError(
        file, problem, say("Give {kernel_tables}.").format(kernel_tables=KERNEL_TABLES)
    )


def _tables_in(folder: Path) -> list[Path]:
    """The kernel tables of the profilers' folders at or below this one, by name."""
    level = [folder]
    for _ in range(_DEEPEST + 1):
        found = [table for each in level for table in _own_tables(each)]
        if found:
            return sorted(found)
        level = [each for parent in level for each in _folders_in(parent)][:_MOST_FOLDERS]
    return []


def _own_tables(folder: Path) -> list[Path]:
    """The tables of this folder; those of torch_npu before the raw ones that it keeps beside.

    Databases hold the same, so that they count where there is no table.
    """
    for patterns in _PATTERNS:
        for pattern in patterns:
            if found := _globbed(folder, pattern):
                return found
    return []


def _globbed(folder: Path, pattern: str) -> list[Path]:
    try:
        return [each for each in folder.glob(pattern) if each.is_file()]
    except OSError:
        return []


def _folders_in(folder: Path) -> Iterable[Path]:
    try:
        return sorted(each for each in folder.iterdir() if each.is_dir())
    except OSError:
        return []


def _a_table() -> str:
    return "kernel_details.csv, op_summary_*.csv or OpBasicInfo.csv"


def _instead(folder: Path) -> str:
    found = _tables_in(folder)
    return (
        say("Give {found}.").format(found=found[0])
        if len(found) == 1
        else say("Give {kernel_tables}.").format(kernel_tables=KERNEL_TABLES)
    )


def _why_none(folder: Path) -> str:
    """What to do about a folder without a table, by what is in it."""
    if _globbed(folder, "**/trace_view.json"):
        return say(
            "It has a timeline only: profile with ProfilerActivity.NPU and "
            "profiler_level=ProfilerLevel.Level1, which writes "
            "kernel_details.csv."
        )
    if _globbed(folder, "device_*/data/*") or _globbed(folder, "PROF_*/device_*/data/*"):
        return say(
            "It has raw data only: `msprof --export=on --output=DIR`, or "
            "torch_npu.profiler.profiler.analyse(DIR), makes the tables."
        )
    return say("Give {kernel_tables}.").format(kernel_tables=KERNEL_TABLES)
