"""Which tasks run on the AI CPUs: those of dtypes that no AI core of the chip takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.ascendc.task import Task, made
from npusim.operators.registry import ai_cpu_function
from npusim.operators.tasks import kernels_on
from npusim.values.dtypes import dtype
from npusim.values.errors import UnsupportedIntrinsicError

if TYPE_CHECKING:
    from npusim.ascendc import Kernel
    from npusim.catalogue.operators import Dtypes

# Dtypes that no vector unit computes with; an operator without a static list may still name them.
_WITHOUT_LANES = frozenset(("DOUBLE", "COMPLEX64", "COMPLEX128"))


def tasks_of(task: Task) -> tuple[Kernel, ...]:
    """The kernels of a task: on the AI cores, or on the AI CPU where only that takes the dtypes."""
    compute = ai_cpu_function(task.op_type)
    if compute is None:
        return kernels_on(task)
    if is_only_on_ai_cpu(task):
        return _ai_cpu_kernels(task, compute)
    try:
        return kernels_on(task)
    except UnsupportedIntrinsicError:
        if not _may_be_on_ai_cpu(task):
            raise
        return _ai_cpu_kernels(task, compute)


def is_only_on_ai_cpu(task: Task) -> bool:
    """Whether the AI cores of the chip have no kernel of these dtypes, but its AI CPUs do."""
    kinds, known = _asked(task)
    core = set(known.possible) - _WITHOUT_LANES | set(known.listed)
    return bool(known.on_cpu) and not kinds <= core and kinds <= set(known.on_cpu)


def _may_be_on_ai_cpu(task: Task) -> bool:
    """Whether no list says that the AI CPUs don't take these dtypes."""
    kinds, known = _asked(task)
    return not known.on_cpu or kinds <= set(known.on_cpu)


def _asked(task: Task) -> tuple[set[str], Dtypes]:
    """The dtypes of a task, and what is known to take which."""
    from npusim.catalogue import facts, operators

    family = task.profile.family
    known = operators.accepted_dtypes(facts.catalogue(), (task.op_type,), family)
    return {each.dtype.name for each in (*task.inputs, *task.outputs) if each is not None}, known


def _ai_cpu_kernels(task: Task, compute: Callable[..., Any]) -> tuple[Kernel, ...]:
    """The task as the AI CPUs do it; results that are left out are as it makes them of ones."""
    from npusim.schedules.on_ai_cpu import OnAiCpu  # few tasks are

    row = OnAiCpu(task.op_type, compute, attributes=task.attributes)
    outputs = task.outputs
    if not outputs:
        ones = (
            None if each is None else np.broadcast_to(np.ones((), each.dtype.numpy), each.shape)
            for each in task.inputs
        )
        outputs = tuple(made(each.shape, dtype(each.dtype.name)) for each in row.results(*ones))
    return row.from_task(replace(task, outputs=outputs))
