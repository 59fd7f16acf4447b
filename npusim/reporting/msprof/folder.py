"""The folder that `msprof op` leaves behind, made of a simulated call.

::

    OPPROF_20260102030405_ABCDEFGHIJKLMNOP/
      OpBasicInfo.csv PipeUtilization.csv Memory.csv ...      one task; with several they are in
      MatMulV3/0/Memory_20260102030405000.csv ...             a folder for each, with a suffix
      simulator/trace.json                                    all tasks of the call
      simulator/core0.veccore0/core0.veccore0_code_exe.csv    cycles by line of kernel code
      simulator/core0.veccore0/core0.veccore0_instr_exe.csv   cycles by instruction

Layout and names: Ascend/msopprof, user guides of both modes.  The letters at the end of the
folder's name are random there and a digest of the content here: the same call gives the same bytes
under the same name, once the timestamp is given.  What msopprof counts and we don't is `NA`.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from npusim.reporting.files import atomic_folder
from npusim.reporting.msprof.columns import BASIC, MISSING, columns_of, table
from npusim.reporting.msprof.metrics import Row, fused_row, split_rows
from npusim.reporting.trace import core_number, write_trace
from npusim.values.errors import ArgumentError

if TYPE_CHECKING:
    from npusim.runtime.results import Result
    from npusim.runtime.timeline import TaskResult
    from npusim.runtime.work import CoreWork, TaskWork

CODE_COLUMNS = ("code", "call_count", "cycles", "running_time(us)")
INSTRUCTION_COLUMNS = (
    "instr",
    "addr",
    "pipe",
    "call_count",
    "cycles",
    "running_time(us)",
    "detail",
)
_LETTERS = 16
_MOST_SLICES = 1_000_000
"""In a trace: Insight takes a JSON of up to 1 GB (Ascend/msinsight, its guide), and people less."""
_NO_LINE = "launch"  # what belongs to no line of kernel code


@dataclass(frozen=True)
class MsprofFolder:
    """What was written: the folder; slices and cores in its trace, and how many cores there are."""

    path: Path
    files: int
    slices: int
    traced_cores: int
    cores: int


def timestamp_now() -> str:
    """The local time as msopprof writes it: 14 digits, seconds last."""
    from datetime import datetime

    return datetime.now().astimezone().strftime("%Y%m%d%H%M%S")


def write_folder(
    res: Result, target: str | Path, *, timestamp: str | None = None, force: bool = False
) -> MsprofFolder:
    """Write the profile of a call into a new folder in `target`, which is created if missing.

    `timestamp` are 14 digits (20260102030405), now if None.  Nothing half-written is left, and an
    existing folder is replaced only with `force`.  The tables are of all cores; the trace has as
    many whole cores as viewers can take.  Raises ArgumentError, FileError and OutputExistsError.
    """
    when = checked_timestamp(timestamp)
    texts = _texts(res, when)
    name = folder_name(texts, when)
    with atomic_folder(Path(target) / name, force=force) as folder:
        for place, text in texts.items():
            file = folder / place
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        (folder / "simulator").mkdir(exist_ok=True)
        trace = write_trace(res, folder / "simulator" / "trace.json", cores=_traced(res))
    cores = len(res.timeline.cores)
    return MsprofFolder(Path(target) / name, len(texts) + 1, trace.slices, trace.cores, cores)


def _traced(res: Result, most_slices: int | None = None) -> tuple[int, ...] | None:
    """The numbers of the first cores, as many as a trace has room for; None for all of them."""
    room = _MOST_SLICES if most_slices is None else most_slices
    slices: dict[int, int] = {}
    for work in res.timeline.work():
        for group in work.cores:
            times = sum(step.times for step in group.steps)
            for place in group.places:
                number = core_number(place.core)
                slices[number] = slices.get(number, 0) + times
    if sum(slices.values()) <= room:
        return None
    chosen: list[int] = []
    for number, count in sorted(slices.items()):
        if chosen and count > room:
            break
        chosen.append(number)
        room -= count
    return tuple(chosen)


def checked_timestamp(text: str | None) -> str:
    """The timestamp, or now for None; ArgumentError for anything but 14 digits."""
    if text is None:
        return timestamp_now()
    if not re.fullmatch(r"\d{14}", text):
        raise ArgumentError(f"timestamp {text!r} isn't 14 digits", "Write e.g. 20260102030405.")
    return text


def folder_name(texts: dict[str, str], timestamp: str) -> str:
    """`OPPROF_{timestamp}_{16 letters}`; the letters follow from the texts."""
    digest = hashlib.sha256()
    for place, text in sorted(texts.items()):
        digest.update(f"{place}\0{text}\0".encode())
    letters = "".join(chr(ord("A") + byte % 26) for byte in digest.digest()[:_LETTERS])
    return f"OPPROF_{timestamp}_{letters}"


def _texts(res: Result, timestamp: str) -> dict[str, str]:
    """The CSVs by their place in the folder."""
    several = len(res.tasks) > 1
    suffix = f"_{timestamp}000" if several else ""  # milliseconds there
    seen: dict[str, int] = {}
    texts: dict[str, str] = {}
    for task, work in zip(res.tasks, res.timeline.work(), strict=True):
        index = seen[task.name] = seen.get(task.name, -1) + 1
        place = f"{task.name}/{index}/" if several else ""
        for file, text in _metrics(res, task, work).items():
            texts[f"{place}{file}{suffix}.csv"] = text
        for group in work.cores:
            code, instructions = _code(group, work), _instructions(group, work)
            for core in (each.core for each in group.places):
                stem = f"{place}simulator/{core}/{core}"
                texts[f"{stem}_code_exe{suffix}.csv"] = code
                texts[f"{stem}_instr_exe{suffix}.csv"] = instructions
    return texts


def _metrics(res: Result, task: TaskResult, work: TaskWork) -> dict[str, str]:
    profile = res.timeline.profile
    split = profile.cores.style == "split"
    rows = split_rows(work) if split else [fused_row(work)]
    basic = [_basic(task, work, profile.clock_mhz, split=split)]
    return {
        file: table(columns, basic if file == BASIC else rows, missing=MISSING)
        for file, columns in columns_of(profile.cores.style).items()
    }


def _basic(task: TaskResult, work: TaskWork, clock_mhz: float, *, split: bool) -> Row:
    """The operator at a glance; there is no process behind it, so Pid is missing."""
    kind = "mix" if len(work.kinds) > 1 else "".join(work.kinds)
    row: Row = {
        "Op Name": task.name,
        "Op Type": (kind or MISSING) if split else "AiCore",
        "Task Duration(us)": task.duration_us,
        "Block Dim": task.block_dim,
        "Device Id": 0,
        "Current Freq": round(clock_mhz),
        "Rated Freq": round(clock_mhz),
    }
    if kind == "mix":
        vectors = (group for group in work.cores if group.kind == "vector")
        row["Mix Block Dim"] = sum(len(group.places) for group in vectors)
    return row


def _code(group: CoreWork, work: TaskWork) -> str:
    lines: dict[str, tuple[int, float]] = {}
    for step in group.steps:
        times, cycles = lines.get(step.site or _NO_LINE, (0, 0.0))
        lines[step.site or _NO_LINE] = times + step.times, cycles + step.cycles
    rows: list[Row] = [
        {
            "code": site,
            "call_count": times,
            "cycles": round(cycles),
            "running_time(us)": cycles / work.clock_mhz,
        }
        for site, (times, cycles) in sorted(lines.items(), key=lambda item: (-item[1][1], item[0]))
    ]
    return table(CODE_COLUMNS, rows, missing=MISSING)


def _instructions(group: CoreWork, work: TaskWork) -> str:
    rows: list[Row] = [
        {
            "instr": step.name,
            "pipe": step.pipe,
            "call_count": step.times,
            "cycles": round(step.cycles),
            "running_time(us)": step.cycles / work.clock_mhz,
            "detail": step.detail,
        }
        for step in group.steps
    ]
    return table(INSTRUCTION_COLUMNS, rows, missing=MISSING)
