"""A timed model step as the rows of `op_summary_*.csv`: a row for every task that is launched."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from npusim.hardware import Profile, load_profile
from npusim.model.step import AI_CPU, COMMUNICATION, in_fp16
from npusim.model.timing import IN_FP16
from npusim.operators.tasks import TaskSpec
from npusim.reading.limits import MOST_TASKS
from npusim.reporting.msprof.summary import MISSING, SummaryTask
from npusim.values.errors import ArgumentError

if TYPE_CHECKING:
    from npusim.model.results import StepResult, TimedItem
    from npusim.values.tensors import TensorSpec

_TASK_TYPES: Final = {AI_CPU: "AI_CPU", COMMUNICATION: "COMMUNICATION"}


def step_tasks(result: StepResult, profile: Profile | None = None) -> tuple[SummaryTask, ...]:
    """The tasks of a step in the order of its file, repetitions one after the other.

    An operator is named by its type and its number in the step.  What isn't simulated has a time
    and no pipes.  A task starts when the one before it is done and the host has launched its
    operator; `profile` is the chip of the result, where it isn't a built-in one. Raises
    ArgumentError for more than `MOST_TASKS`.
    """
    rows = sum(item.item.count * max(1, len(item.timing.tasks)) for item in result.items)
    if rows > MOST_TASKS:
        raise ArgumentError(
            f"the profiler's tables would have {rows:,} rows, a task each; at most {MOST_TASKS:,}",
            "Lower the count of what is repeated; times are in proportion.",
        )
    chip = profile or load_profile(result.soc)
    placed: list[SummaryTask] = []
    free_us = host_us = 0.0
    number = 0
    for item in result.items:
        for _ in range(item.item.count):
            host_us += result.host_dispatch_us
            free_us = max(free_us, host_us)
            for task in _tasks(item, number, chip):
                placed.append(replace(task, start_us=free_us, in_model=result.step.one_shape))
                free_us += task.duration_us
            number += 1
    return tuple(placed)


def _tasks(item: TimedItem, number: int, chip: Profile) -> Iterator[SummaryTask]:
    """The tasks of one operator; their start is still open."""
    timing = item.timing
    name = f"{item.item.op}_{number}"
    inputs, outputs = _tensors(item)
    if timing.tasks:
        op_type = item.item.op if isinstance(item.item.work, TaskSpec) else timing.tasks[0].name
        yield from SummaryTask.of(name, op_type, timing.tasks, inputs, outputs, profile=chip)
        return
    yield SummaryTask(
        name,
        item.item.op,
        timing.duration_us,
        task_type=_TASK_TYPES.get(item.item.engine, MISSING),
        inputs=inputs,
        outputs=outputs,
    )


def _tensors(
    item: TimedItem,
) -> tuple[Sequence[TensorSpec | None], Sequence[TensorSpec | None]]:
    """Inputs and outputs as they were timed, absent optional inputs as None."""
    asked = item.item.operation
    if asked.work is not None and item.timing.note == IN_FP16:
        asked = replace(asked, work=in_fp16(asked.work))
    given = asked.work.inputs if isinstance(asked.work, TaskSpec) else asked.inputs
    return given, asked.outputs
