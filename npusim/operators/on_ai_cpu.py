"""Which tasks run on the AI CPUs: those of dtypes that no AI core of the chip takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.ascendc.ai_cpu import AiCpuKernel
from npusim.ascendc.task import Task, made
from npusim.operators.registry import ai_cpu_function
from npusim.operators.tasks import kernels_on
from npusim.values.dtypes import dtype

if TYPE_CHECKING:
    from npusim.ascendc import Kernel


# Dtypes that no vector unit computes with; an operator without a static list may still name them.
_WITHOUT_LANES = frozenset(("DOUBLE", "COMPLEX64", "COMPLEX128"))


def tasks_of(task: Task) -> tuple[Kernel, ...]:
    """The kernels of a task: on the AI cores, or on the AI CPU where only that takes the dtypes."""
    compute = ai_cpu_function(task.op_type)
    if compute is not None and is_only_on_ai_cpu(task):
        return (_ai_cpu_kernel(task, compute),)
    return kernels_on(task)


def is_only_on_ai_cpu(task: Task) -> bool:
    """Whether the AI cores of the chip have no kernel of these dtypes, but its AI CPUs do."""
    from npusim.catalogue import facts, operators

    family = task.profile.family
    known = operators.accepted_dtypes(facts.catalogue(), (task.op_type,), family)
    kinds = {each.dtype.name for each in (*task.inputs, *task.outputs) if each is not None}
    core = set(known.possible) - _WITHOUT_LANES | set(known.listed)
    return bool(known.on_cpu) and not kinds <= core and kinds <= set(known.on_cpu)


def _ai_cpu_kernel(task: Task, compute: Callable[..., Any]) -> Kernel:
    """The task as the AI CPUs do it: one operation for every element of the largest tensor."""
    given = [each for each in task.inputs if each is not None]

    def results(*arrays: Any) -> list[Any]:
        rest = iter(arrays)
        operands = [None if each is None else next(rest) for each in task.inputs]
        with np.errstate(all="ignore"):
            found = compute(*operands, **task.attributes)
        return [np.asarray(each) for each in (found if isinstance(found, tuple) else (found,))]

    def numbers(*arrays: Any) -> list[Any]:
        found = zip(results(*arrays), outputs, strict=True)
        return [each.astype(target.dtype.numpy) for each, target in found]

    outputs = task.outputs
    if not outputs:
        ones = (np.broadcast_to(np.ones((), each.dtype.numpy), each.shape) for each in given)
        outputs = tuple(made(each.shape, dtype(each.dtype.name)) for each in results(*ones))
    largest = max(each.numel for each in (*given, *outputs))
    return AiCpuKernel(task.op_type, given, outputs, largest, numbers)
