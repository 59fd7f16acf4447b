"""`op_summary_*.csv` and `op_statistic_*.csv` of a model run, as msprof exports them.

Columns: Ascend/msprof, analysis/csrc/application/summary/op_summary_assembler.cpp and its guide to
the data files; those of the pipes are what `--aic-metrics=PipeUtilization` adds.  msprof prints
`N/A` for what it doesn't have.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from npusim.model.step import AI_CPU
from npusim.reporting.files import claim, claim_all, write_text
from npusim.reporting.msprof.columns import table, tables_of
from npusim.reporting.msprof.folder import checked_timestamp

if TYPE_CHECKING:
    from npusim.hardware.profile import Profile
    from npusim.reporting.msprof.metrics import Row
    from npusim.runtime.timeline import TaskResult
    from npusim.values.tensors import TensorSpec

MISSING: Final = "N/A"
_NO_MODEL: Final = 0xFFFFFFFF  # of what is launched call by call

# The pipes of each kind of core, in the order of the file.
_CUBE_PIPES: Final = ("mac", "scalar", "mte1", "mte2", "fixpipe")
_VECTOR_PIPES: Final = ("vec", "scalar", "mte2", "mte3")
_FUSED_PIPES: Final = ("vec", "mac", "scalar", "mte1", "mte2", "mte3")
_PIPES: Final = {
    "mac": "CUBE",
    "vec": "VECTOR",
    "scalar": "SCALAR",
    "mte1": "MTE1",
    "mte2": "MTE2",
    "mte3": "MTE3",
    "fixpipe": "FIXP",
}


def _of(prefix: str, pipes: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"{prefix}{pipe}_{what}" for pipe in pipes for what in ("time(us)", "ratio"))


@dataclass(frozen=True)
class SummaryTask:
    """One row: a task of a model, simulated or (without `pipes`) only timed.

    `op_type` is the profiler's, `task_type` AI_CORE, AI_VECTOR_CORE, MIX_AIC, AI_CPU ...; empty
    shapes mean that nobody knows them.  `pipes` are busy ratios of `core_us`, the task without its
    launch; `total_cycles` are summed over its cores.  `in_model` is set for a compiled model's.
    """

    name: str
    op_type: str
    duration_us: float
    start_us: float = 0.0
    task_type: str = MISSING
    block_num: int | None = None
    mix_block_num: int | None = None
    inputs: Sequence[TensorSpec | None] = ()
    outputs: Sequence[TensorSpec | None] = ()
    core_us: float | None = None
    total_cycles: int | None = None
    pipes: Mapping[str, float] = field(default_factory=dict)
    in_model: bool = False

    @classmethod
    def of(
        cls,
        name: str,
        op_type: str,
        tasks: Sequence[TaskResult],
        inputs: Sequence[TensorSpec | None] = (),
        outputs: Sequence[TensorSpec | None] = (),
        *,
        profile: Profile,
    ) -> tuple[SummaryTask, ...]:
        """The rows of one simulated operator: one for each of its device tasks.

        Where it has several, each row has its own task's type, the first has the inputs and the
        last the outputs.
        """
        last = len(tasks) - 1
        return tuple(
            cls(
                name if last == 0 else f"{name}_{index}",
                op_type if last == 0 else task.name,
                task.duration_us,
                task_type=_task_type(task, profile),
                block_num=task.block_dim,
                inputs=inputs if index == 0 else (),
                outputs=outputs if index == last else (),
                core_us=task.duration_us - task.launch_us,
                total_cycles=round(
                    (task.duration_us - task.launch_us) * profile.clock_mhz * task.block_dim
                ),
                pipes=task.pipes,
            )
            for index, task in enumerate(tasks)
        )


def in_order(tasks: Iterable[SummaryTask], *, gap_us: float = 0.0) -> tuple[SummaryTask, ...]:
    """The tasks one after the other from time 0, `gap_us` of host dispatch before each."""
    placed, clock_us = [], 0.0
    for task in tasks:
        clock_us += gap_us
        placed.append(replace(task, start_us=clock_us))
        clock_us += task.duration_us
    return tuple(placed)


def write_op_summary(
    tasks: Sequence[SummaryTask],
    target: str | Path,
    profile: Profile,
    *,
    timestamp: str | None = None,
    force: bool = False,
) -> tuple[Path, Path]:
    """Write `op_summary_{timestamp}.csv` and `op_statistic_{timestamp}.csv` into a folder.

    The folder is created if only it is missing.  Raises FileError and OutputExistsError before
    anything is written.
    """
    summary, statistic = claim_op_summary(target, timestamp=timestamp, force=force)
    summary.parent.mkdir(exist_ok=True)
    for path, text in ((summary, op_summary(tasks, profile)), (statistic, op_statistic(tasks))):
        write_text(path, text, force=force)
    return summary, statistic


def claim_op_summary(
    target: str | Path, *, timestamp: str | None = None, force: bool = False
) -> tuple[Path, Path]:
    """The two files, after making sure that they may be written; call it before the long work.

    Raises FileError and OutputExistsError.
    """
    when = checked_timestamp(timestamp)
    folder = Path(target)
    files = folder / f"op_summary_{when}.csv", folder / f"op_statistic_{when}.csv"
    if not folder.exists() and folder.parent.is_dir():
        claim(folder, force=force)
    else:
        claim_all(*files, force=force)
    return files


def op_summary(tasks: Sequence[SummaryTask], profile: Profile) -> str:
    """The text of `op_summary_*.csv`, a row for each task."""
    split = profile.cores.style == "split"
    known = tables_of("model_run")
    columns = (*known["common"], *known["split" if split else "unified"])
    rows, free_us = [], 0.0
    for number, task in enumerate(tasks):
        row = _common(task, number) | (_split(task, profile) if split else _fused(task, profile))
        row["Task Wait Time(us)"] = max(0.0, task.start_us - free_us) if number else 0.0
        free_us = task.start_us + task.duration_us
        rows.append(row)
    return table(columns, rows, missing=MISSING)


def op_statistic(tasks: Sequence[SummaryTask], model_name: str = MISSING) -> str:
    """The text of `op_statistic_*.csv`: a row for each operator type, the longest total first."""
    groups: dict[tuple[str, str], list[float]] = {}
    for task in tasks:
        groups.setdefault((task.op_type, task.task_type), []).append(task.duration_us)
    whole_us = sum(task.duration_us for task in tasks)
    rows: list[Row] = [
        {
            "Device_id": 0,
            "Model Name": model_name,
            "OP Type": op_type,
            "Core Type": core_type,
            "Count": len(times),
            "Total Time(us)": sum(times),
            "Min Time(us)": min(times),
            "Avg Time(us)": sum(times) / len(times),
            "Max Time(us)": max(times),
            "Ratio(%)": 100 * sum(times) / whole_us if whole_us else 0.0,
        }
        for (op_type, core_type), times in sorted(
            groups.items(), key=lambda item: (-sum(item[1]), item[0])
        )
    ]
    return table(tables_of("model_run")["op_statistic"], rows, missing=MISSING)


def _common(task: SummaryTask, number: int) -> Row:
    row: Row = {
        "Device_id": 0,
        "Model ID": 0 if task.in_model else _NO_MODEL,
        "Task ID": number,
        "Stream ID": 0,
        "Op Name": task.name,
        "OP Type": task.op_type,
        "OP State": MISSING,
        "Task Type": task.task_type,
        "Task Start Time(us)": task.start_us,
        "Task Duration(us)": task.duration_us,
        "Mix Block Num": 0 if task.mix_block_num is None else task.mix_block_num,
    }
    if task.block_num is not None:
        row["Block Num"] = task.block_num
    for side, specs in (("Input", task.inputs), ("Output", task.outputs)):
        if specs:
            row[f"{side} Shapes"] = '"' + ";".join(map(_shape, specs)) + '"'
            row[f"{side} Data Types"] = ";".join(map(_dtype, specs))
            row[f"{side} Formats"] = ";".join(map(_format, specs))
    return row


def _split(task: SummaryTask, profile: Profile) -> Row:
    if task.core_us is None or not task.pipes:
        return {}
    row: Row = {}
    for prefix, time, pipes, wanted in (
        ("aic_", "aicore_time(us)", _CUBE_PIPES, task.task_type != "AI_VECTOR_CORE"),
        ("aiv_", "aiv_time(us)", _VECTOR_PIPES, task.task_type != "AI_CORE"),
    ):
        row |= dict.fromkeys((time, f"{prefix}total_cycles", *_of(prefix, pipes)), 0)
        if wanted:
            row[time] = task.core_us
            row |= _shares(task, prefix, pipes)
            row[f"{prefix}total_cycles"] = task.total_cycles or 0
    if task.task_type != "AI_VECTOR_CORE":
        row["cube_utilization(%)"] = _utilisation(task, profile)
    return row


def _fused(task: SummaryTask, profile: Profile) -> Row:
    if task.core_us is None or not task.pipes:
        return {}
    row: Row = {"aicore_time(us)": task.core_us, "total_cycles": task.total_cycles or 0}
    row |= _shares(task, "", _FUSED_PIPES)
    busiest = max(task.pipes.get("CUBE", 0.0), task.pipes.get("VECTOR", 0.0))
    if busiest:
        row["memory_bound"] = task.pipes.get("MTE2", 0.0) / busiest
    row["cube_utilization(%)"] = _utilisation(task, profile)
    return row


def _shares(task: SummaryTask, prefix: str, pipes: tuple[str, ...]) -> Row:
    row: Row = {}
    for name in pipes:
        ratio = task.pipes.get(_PIPES[name], 0.0)
        row[f"{prefix}{name}_ratio"] = ratio
        row[f"{prefix}{name}_time(us)"] = ratio * (task.core_us or 0.0)
    return row


def _utilisation(task: SummaryTask, profile: Profile) -> float:
    """msprof's own formula: total_cycles / (freq * core_num * task_duration)."""
    most = profile.clock_mhz * profile.cores.cube_cores * task.duration_us
    return 100 * (task.total_cycles or 0) / most if most else 0.0


def _task_type(task: TaskResult, profile: Profile) -> str:
    """Which cores ran it; a task that uses both units of a chip with cores of both is a mix."""
    if task.bound == AI_CPU:
        return "AI_CPU"
    if profile.cores.style != "split":
        return "AI_CORE"
    if "CUBE" not in task.pipes:
        return "AI_VECTOR_CORE"
    return "MIX_AIC" if "VECTOR" in task.pipes else "AI_CORE"


def _shape(spec: TensorSpec | None) -> str:
    return "" if spec is None else ",".join(map(str, spec.shape))


def _dtype(spec: TensorSpec | None) -> str:
    """msprof's spelling: the old dtypes by their bare names, those since BFLOAT16 with a DT_."""
    if spec is None:
        return "DT_UNDEFINED"
    bare = spec.dtype.dt.removeprefix("DT_")
    if spec.dtype.acl < _FIRST_WITH_PREFIX:
        return bare
    return "DT_BF16" if bare == "BFLOAT16" else spec.dtype.dt


def _format(spec: TensorSpec | None) -> str:
    if spec is None:
        return "NULL"
    return "ND" if spec.format.name == "UNDEFINED" else spec.format.name


_FIRST_WITH_PREFIX: Final = 26
